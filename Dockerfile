# One image for coordinator, trainer and dashboard:
#   docker build --tag sahaj .                               for computers without a GPU
#   docker build --tag sahaj:cuda --build-arg DEVICE=cuda .  with the CUDA that torch brings along
ARG PYTHON=3.11

FROM python:${PYTHON}-slim-bookworm AS build
ARG DEVICE=cpu
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY constraints.txt /src/
RUN python -m venv /opt/sahaj
# torch first: the largest layer changes with its version alone. On PyPI it comes with CUDA.
RUN case "${DEVICE}" in \
      cpu) export PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu ;; \
      cuda) ;; \
      *) echo "DEVICE is ${DEVICE}; it must be cpu or cuda" >&2; exit 1 ;; \
    esac; \
    /opt/sahaj/bin/pip install --constraint /src/constraints.txt torch
COPY . /src/
RUN /opt/sahaj/bin/pip install --constraint /src/constraints.txt "/src[dashboard,https,postgresql,tracking]"

FROM python:${PYTHON}-slim-bookworm
# tini reaps what hivemind's helpers leave and hands signals on; security updates of Debian come with each build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 1000 sahaj && install --directory --owner sahaj /srv/sahaj
COPY --from=build /opt/sahaj /opt/sahaj
ENV PATH=/opt/sahaj/bin:$PATH PYTHONUNBUFFERED=1 NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 1000
# the run file, the tokenizer's folder and the state folder of a run lie here
WORKDIR /srv/sahaj
VOLUME /srv/sahaj
EXPOSE 80 443 8080 8501 31337 31337/udp
# SIGTERM asks a peer to leave, or the coordinator to save and stop: give it 75 seconds (--stop-timeout 75)
STOPSIGNAL SIGTERM
# of a coordinator at its usual port; compose.yaml has others for the dashboard and for trainers
HEALTHCHECK --interval=30s --timeout=5s --start-period=2m --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/healthz', timeout=4)"]
ENTRYPOINT ["tini", "--", "sahaj"]
CMD ["coordinator", "run.yaml"]
