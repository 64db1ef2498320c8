"""The routes about the run as a whole, for everybody: what it is, where it is, and when it will be finished."""

import base64
import math
import re
from collections.abc import Callable

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST

from coordinator.checkpoints.checkpoint import list_checkpoints
from coordinator.http.responses import (
    CACHE_SECONDS,
    LONG_CACHE_SECONDS,
    UNAVAILABLE,
    CachedJson,
    cache_headers,
    json_response,
)
from coordinator.http.schemas import (
    AccessAnswer,
    CheckpointAnswer,
    HealthAnswer,
    LastHourAnswer,
    NoticesAnswer,
    ProgressAnswer,
    RunAnswer,
)
from coordinator.join_script.script import one_line
from coordinator.ledger.answers import Progress, Totals
from coordinator.ledger.history import MINUTE
from coordinator.ledger.tables import MinuteRow
from coordinator.notebook.build import FILE_NAME
from coordinator.notebook.wheel import this_program
from coordinator.run_context import ServiceContext
from swarm import clock
from swarm.access.join_messages import TokenizerFile
from swarm.run_file import RunFile
from swarm.version import program_version

HOUR = 3600.0  # seconds
NEWEST_STEPS = 1000
MOST_EVALUATIONS = 1000


def public_routes(
    context: ServiceContext,
    tokenizer: list[TokenizerFile],
    progress: Callable[[], Progress],
    totals: Callable[[], Totals],
    metrics: Callable[[], bytes],
) -> APIRouter:
    """GET only; the ledger and the disk are read at most once in `CACHE_SECONDS`."""
    router = APIRouter()
    whole_progress = CachedJson(lambda: describe_progress(context, progress(), totals()))
    checkpoints = CachedJson(lambda: _checkpoints(context))

    @router.get("/api/run", response_model=RunAnswer, tags=["run"])
    def run(request: Request) -> Response:
        """What the run is."""
        about = describe_run(context, tokenizer, link(context.run, str(request.base_url)))
        return json_response(about, link_cache_seconds(context.run))

    @router.get("/api/progress", response_model=ProgressAnswer, responses=UNAVAILABLE, tags=["run"])
    def whole_progress_now() -> Response:
        """Where the run is: loss, speed, the newest global steps and evaluations."""
        return whole_progress()

    @router.get("/api/checkpoints", response_model=list[CheckpointAnswer], tags=["run"])
    def all_checkpoints() -> Response:
        """The checkpoints that the coordinator holds, oldest first."""
        return checkpoints()

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
        return json_response(answer, CACHE_SECONDS)

    @router.get("/healthz", response_model=HealthAnswer, responses={503: {"model": HealthAnswer}}, tags=["operation"])
    def health() -> Response:
        """Whether the coordinator works; status 503 if it knows why it does not."""
        now = context.status()
        answer = HealthAnswer(status=now.problem or "ok", step=now.step)
        return json_response(answer, status=503 if now.problem else 200)

    @router.get("/metrics", response_class=Response, tags=["operation"])
    def prometheus() -> Response:
        """The run's figures for Prometheus."""
        return Response(metrics(), headers=cache_headers(CACHE_SECONDS), media_type=CONTENT_TYPE_LATEST)

    return router


def describe_run(context: ServiceContext, tokenizer: list[TokenizerFile], url: str | None) -> RunAnswer:
    """The public part of the run file, and how to join by a URL; the list of users stays with the organizer."""
    run: RunFile = context.run
    return RunAnswer(
        dashboard=run.access.dashboard or "",
        join=f"sahaj join {url or 'URL'}",
        one_line=one_line(url) if url else "",
        program=f"{url}/program/{this_program().file_name}" if url else "",
        notebook=f"{url}/{FILE_NAME}" if url else "",
        notebook_at_hub=context.status().notebook_at_hub,
        probes=run.coordinator.probes,
        name=run.name,
        description=run.description,
        language=run.language,
        version=program_version(),
        fingerprint=context.fingerprint.digest,
        access=AccessAnswer(
            open=run.access.open, by_list=bool(run.access.users), organizations=run.access.organizations
        ),
        total_steps=run.optimizer.total_steps,
        target_batch_size=run.averaging.target_batch_size,
        max_length=run.data.max_length,
        evaluate_every=run.coordinator.evaluate_every,
        checkpoint_every=run.coordinator.checkpoint_every,
        architecture=run.model.architecture,
        model=run.model.shape,
        experts=math.prod(run.experts.grid) if run.experts else 0,
        tokenizer=tokenizer,
    )


def link(run: RunFile, asked_at: str) -> str | None:
    """The run's public URL, or the one that was asked for; None if that is not safe to repeat."""
    url = (run.access.url or asked_at).rstrip("/")
    # the URL that was asked for is the client's own text, and people paste the link into a shell
    return url if re.fullmatch(r"https?://[\w.:\[\]/~-]+", url, re.ASCII) else None


def link_cache_seconds(run: RunFile) -> int:
    """Seconds for which caches may store an answer with the link; not at all if it repeats a client's text."""
    return LONG_CACHE_SECONDS if run.access.url else 0


def _checkpoints(context: ServiceContext) -> list[CheckpointAnswer]:
    return [CheckpointAnswer.model_validate(one.state) for one in list_checkpoints(context.checkpoints)]


def describe_progress(
    context: ServiceContext, progress: Progress, totals: Totals, now: float | None = None
) -> ProgressAnswer:
    """The progress at a unix time, by default the clock's, as the ledger and the coordinator know it."""
    now = clock.now() if now is None else now
    decisions, run, ledger = context.notices.decisions, context.run, context.ledger
    since = max(0, progress.step - NEWEST_STEPS + 1)
    then = ledger.history.minute_before(now - HOUR)  # after an outage that is longer ago
    hour = None
    if then is not None and then.time < now:
        hour = _change(then, ledger.history.steps_counted_since(then.time), progress, totals, now)
    status = context.status()
    return ProgressAnswer(
        **dict(progress) | {"step": status.step},
        total_steps=run.optimizer.total_steps,
        step_samples=min(max(0, status.samples_gathered), run.averaging.target_batch_size),
        target_batch_size=run.averaging.target_batch_size,
        started=ledger.history.started(),
        finish=None if decisions.stopped else expected_finish(status.step, run.optimizer.total_steps, hour, now),
        users_ever=totals.users,
        sessions_ever=totals.sessions,
        hours=totals.hours,
        last_hour=hour,
        paused=decisions.paused,
        stopped=decisions.stopped,
        announcement=decisions.announcement,
        steps=ledger.steps(since),
        evaluations=ledger.history.evaluations(MOST_EVALUATIONS),
    )


def expected_finish(step: int, total: int, hour: LastHourAnswer | None, now: float) -> float | None:
    """The unix time of the last of `total` global steps at the pace of the last hour; None if that is not known."""
    if step >= total or hour is None or hour.steps == 0 or hour.seconds < MINUTE:
        return None
    return now + (total - step) * hour.seconds / hour.steps


def _change(then: MinuteRow, steps: int, progress: Progress, totals: Totals, now: float) -> LastHourAnswer:
    return LastHourAnswer(
        seconds=now - then.time,
        steps=steps,
        samples=progress.samples - then.samples,
        tokens=progress.tokens - then.tokens,
        users_present=progress.users_present - then.users,
        users_ever=totals.users - then.users_ever,
        hours=totals.hours - then.seconds / 3600,
    )
