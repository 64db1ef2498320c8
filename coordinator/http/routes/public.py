"""The routes that everybody may read about the run as a whole. Each answer may be kept for a while."""

import base64
import re
from collections.abc import Callable

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST

from coordinator.checkpoints.checkpoint import list_checkpoints
from coordinator.context import ServiceContext
from coordinator.http.desk import Remembered, ServedFile
from coordinator.http.errors import Problem, answer_problem
from coordinator.http.eta import ProgressAnswer, tell_progress
from coordinator.http.response_cache import KEPT, KEPT_LONGER, NOT_FOUND, UNAVAILABLE, kept, kept_headers
from coordinator.http.schemas.public import (
    AccessAnswer,
    CheckpointAnswer,
    HealthAnswer,
    NoticesAnswer,
    RunAnswer,
)
from coordinator.ledger.ledger import Progress, Totals
from coordinator.notebook.build import FILE_NAME
from swarm.program import program_version
from swarm.run_file import RunFile


def public_routes(
    context: ServiceContext,
    files: dict[str, ServedFile],
    progress: Callable[[], Progress],
    totals: Callable[[], Totals],
    metrics: Callable[[], bytes],
) -> APIRouter:
    """GET alone. What costs the ledger or the disk something is found at most once in `KEPT` seconds."""
    router = APIRouter()
    about_run = describe_run(context, files)
    whole_progress = Remembered(lambda: kept(tell_progress(context, progress(), totals()), KEPT), KEPT)
    checkpoints = Remembered(lambda: _checkpoints(context), KEPT)

    @router.get("/api/run", response_model=RunAnswer, tags=["run"])
    def run(request: Request) -> Response:
        """What the run is."""
        here = link(context.run, str(request.base_url))
        ways = {
            "join": f"sahaj join {here or 'URL'}",
            "notebook": f"{here}/{FILE_NAME}" if here else "",
            "notebook_at_hub": context.status().notebook_at_hub,
        }
        return kept(about_run.model_copy(update=ways), link_kept_for(context.run))()

    @router.get("/api/progress", response_model=ProgressAnswer, responses=UNAVAILABLE, tags=["run"])
    def whole_progress_now() -> Response:
        """Where the run is: loss, speed, the newest global steps and evaluations."""
        return whole_progress()()

    @router.get("/api/checkpoints", response_model=list[CheckpointAnswer], tags=["run"])
    def all_checkpoints() -> Response:
        """The checkpoints that the coordinator holds, oldest first."""
        return checkpoints()()

    @router.get("/api/notices", response_model=NoticesAnswer, tags=["run"])
    def notices() -> Response:
        """What the organizer decided, signed now."""
        decisions = context.notices.decisions
        answer = NoticesAnswer(
            signed=base64.b64encode(context.notices.current()).decode(),
            announcement=decisions.announcement,
            paused=decisions.paused,
            stopped=decisions.stopped,
        )
        return kept(answer, KEPT)()

    @router.get("/api/tokenizer/{name}", response_class=Response, responses=NOT_FOUND, tags=["join"])
    def tokenizer_file(name: str, request: Request) -> Response:
        """One file of the run's tokenizer."""
        file = files.get(name)
        if file is None:
            return answer_problem(Problem(error="not_found", message="the run's tokenizer has no such file"), 404)
        tag = f'"{file.about.sha256}"'
        headers = kept_headers(KEPT_LONGER) | {"ETag": tag}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(file.content, headers=headers, media_type="application/octet-stream")

    @router.get("/healthz", response_model=HealthAnswer, responses={503: {"model": HealthAnswer}}, tags=["operation"])
    def health() -> Response:
        """A sign of life; with status 503 where the coordinator knows why it does not work."""
        now = context.status()
        answer = kept(HealthAnswer(status=now.problem or "ok", step=now.step), 0)()
        answer.status_code = 503 if now.problem else 200
        return answer

    @router.get("/metrics", response_class=Response, tags=["operation"])
    def prometheus() -> Response:
        """The run's figures for Prometheus."""
        return Response(metrics(), headers=kept_headers(KEPT), media_type=CONTENT_TYPE_LATEST)

    return router


def describe_run(context: ServiceContext, files: dict[str, ServedFile]) -> RunAnswer:
    """The public part of the run file; the list of users stays with the organizer and the volunteers.

    How to join depends on how one has come here, and is filled in later.
    """
    run: RunFile = context.run
    access = None
    if run.access is not None:
        listed = bool(run.access.users)
        access = AccessAnswer(open=run.access.open, by_list=listed, organizations=run.access.organizations)
    return RunAnswer(
        join="",
        notebook="",
        notebook_at_hub="",
        probes=run.coordinator.probes,
        name=run.name,
        description=run.description,
        language=run.language,
        version=program_version(),
        fingerprint=context.fingerprint.digest,
        access=access,
        total_steps=run.optimizer.total_steps,
        target_batch_size=run.averaging.target_batch_size,
        max_length=run.data.max_length,
        evaluate_every=run.coordinator.evaluate_every,
        checkpoint_every=run.coordinator.checkpoint_every,
        model=run.model.shape,
        tokenizer=[file.about for file in files.values()],
    )


def link(run: RunFile, asked_at: str) -> str | None:
    """The run's public URL, or the one by which whoever asks has reached us; None if that is none to repeat."""
    url = ((run.access.url if run.access else None) or asked_at).rstrip("/")
    # the URL that was asked for is the visitor's own words, and this will be pasted into a shell
    return url if re.fullmatch(r"https?://[\w.:\[\]/~-]+", url, re.ASCII) else None


def link_kept_for(run: RunFile) -> int:
    """Seconds for which an answer with the link may be kept: what repeats one visitor's words is for nobody else."""
    return KEPT_LONGER if run.access and run.access.url else 0


def _checkpoints(context: ServiceContext) -> Callable[[], Response]:
    found = list_checkpoints(context.checkpoints)
    return kept([CheckpointAnswer.model_validate(one.state) for one in found], KEPT)
