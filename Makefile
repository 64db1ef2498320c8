# Everything a newcomer needs: `make demo`. Each target sets the project up first, once, in .venv.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

# else each program that tests start would compile the project anew
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-quick test-faults postgresql chromium pebble iptables lint bench
.DELETE_ON_ERROR:

help:
	@echo "make demo        train a small model with several peers on this machine (ARGS=... for options)"
	@echo "make test        lint, unit tests, and tests with real peers: at most 15 minutes (ARGS=... for pytest options)"
	@echo "make test-quick  its tests that start no peers: some minutes, no network"
	@echo "make test-faults faults, attacks, cut cables, and claims about seconds: an hour, on a quiet machine"
	@echo "make lint        style, types and the floors of the design"
	@echo "make bench       speed of a training step and of a small swarm, a large ledger, plans and groups of averaging, the dashboard"
	@echo "make postgresql  the server that some tests start, from Debian's package where it is missing (root)"
	@echo "make chromium    the browser that some tests look with, from Debian's package where it is missing (root)"
	@echo "make pebble      the certificate authority that some tests ask, from Debian's package where it is missing (root)"
	@echo "make iptables    what some fault tests make hosts and routers with, from Debian's package where it is missing (root)"
	@echo "make setup       install into .venv; the targets above do so by themselves (PYTHON=python3.12 to choose)"

setup: $(READY)

demo: $(READY)
	$(BIN)/sahaj demo --out out/demo $(ARGS)

# Nothing hangs for ever: a test is ended after 10 minutes (pyproject.toml), all of them after the limit given here.
# Three run at a time on two cores, because many of them wait for other processes.
AT_ONCE := $(BIN)/pytest --numprocesses 3 --dist loadgroup --session-timeout=3000

test: lint postgresql chromium pebble
	$(AT_ONCE) -m "not faults" --durations=30 --maxfail=20 $(ARGS)

test-quick: $(READY) postgresql chromium pebble
	$(AT_ONCE) -m "not swarm and not faults" --durations=10 $(ARGS)

# what `make test` leaves out, one at a time
test-faults: $(READY) postgresql chromium pebble iptables
	$(BIN)/pytest -m faults --durations=0 --durations-min=5 $(ARGS) || test $$? -eq 5

# Tests need some programs of Debian. Where one is missing and cannot be installed (not Debian, not root, no network),
# pytest says which tests were skipped and why. $(1): succeeds where it is there; $(2): the packages.
define need
	@if ! { $(1); } >/dev/null 2>&1; then \
		if command -v apt-get >/dev/null && test "$$(id -u)" = 0; then \
			apt-get update && \
				DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends $(2) || \
				echo "$(2) could not be installed: tests that need it will be skipped"; \
		else \
			echo "$(2) is not installed: tests that need it will be skipped"; \
		fi; \
	fi
endef

# the ledger is tested in servers that the tests start for themselves
postgresql:
	$(call need,ls /usr/lib/postgresql/*/bin/initdb || command -v initdb,postgresql)

# tests look at the dashboard with a real browser, in Bengali too
chromium:
	$(call need,command -v chromium || command -v chromium-browser || command -v google-chrome,chromium fonts-lohit-beng-bengali fonts-noto-color-emoji)

# the coordinator's certificates are obtained from the ACME server of Let's Encrypt's own tests
pebble:
	$(call need,command -v pebble && command -v pebble-challtestsrv,pebble)

# some hosts of the fault tests are behind routers, or lose what is sent to them
iptables:
	$(call need,command -v ip && command -v iptables,iproute2 iptables)

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python -m benchmarks.step
	$(BIN)/python -m benchmarks.swarm
	$(BIN)/python -m benchmarks.ledger
	$(BIN)/python -m benchmarks.plan
	$(BIN)/python -m benchmarks.moshpit
	$(BIN)/python -m benchmarks.dashboard

# The stamp is the last thing written. Where it is missing, a set-up was interrupted or never begun, and half-installed
# packages look installed to pip: start from an empty .venv. Where it is old, bring the packages up to date.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' || \
		{ echo "$(PYTHON) must be Python 3.10 to 3.13; choose one with make PYTHON=python3.12"; exit 1; }
	@test -f $@ || $(PYTHON) -m venv --clear .venv
	@rm -f $@
	$(BIN)/python -m pip install --constraint constraints.txt --editable ".[dev]"
	@touch $@
