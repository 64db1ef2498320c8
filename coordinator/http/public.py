"""The routes that everybody may read: the run, its progress, its people. Each answer may be kept for a while."""

import base64
import datetime
import hashlib
import importlib.metadata
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from coordinator.checkpoint_folder import list_checkpoints
from coordinator.http.answers import Problem, answer_problem
from coordinator.http.desk import Desk, People, Remembered, ServedFile
from coordinator.http.public_answers import (
    AccessAnswer,
    CheckpointAnswer,
    EvaluationAnswer,
    HealthAnswer,
    LeaderAnswer,
    NoticesAnswer,
    Period,
    ProgressAnswer,
    RunAnswer,
    SessionAnswer,
    StepAnswer,
)
from coordinator.ledger import Leader, Progress, SessionSummary
from swarm.passes import UNVERIFIED
from swarm.run_file import RunFile

KEPT = 5  # seconds that figures may be kept, here and on the way to whoever reads them
KEPT_LONGER = 60  # seconds, for what hardly changes
NEWEST_STEPS = 1000
NEWEST_EVALUATIONS = 1000
MOST_SESSIONS = 1000
MOST_LEADERS = 1000
NOT_FOUND: dict[int | str, dict[str, Any]] = {404: {"model": Problem}}
UNAVAILABLE: dict[int | str, dict[str, Any]] = {503: {"model": Problem}}


def public_routes(
    desk: Desk,
    files: dict[str, ServedFile],
    people: People,
    progress: Callable[[], Progress],
    metrics: Callable[[], bytes],
) -> APIRouter:
    """GET alone. What costs the ledger or the disk something is found at most once in `KEPT` seconds."""
    router = APIRouter()
    about_run = _kept(describe_run(desk, files), KEPT_LONGER)
    whole_progress = Remembered(lambda: _kept(_progress(desk, progress()), KEPT), KEPT)
    leaders = {period: Remembered(partial(_leaderboard, desk, people, period), KEPT) for period in Period}
    sessions = Remembered(lambda: _sessions(desk, people), KEPT)
    checkpoints = Remembered(lambda: _checkpoints(desk), KEPT)

    @router.get("/api/run", response_model=RunAnswer, tags=["run"])
    def run() -> Response:
        """What the run is."""
        return about_run()

    @router.get("/api/progress", response_model=ProgressAnswer, responses=UNAVAILABLE, tags=["run"])
    def whole_progress_now() -> Response:
        """Where the run is: loss, speed, the newest global steps and evaluations."""
        return whole_progress()()

    @router.get("/api/leaderboard", response_model=list[LeaderAnswer], responses=UNAVAILABLE, tags=["people"])
    def leaderboard(period: Period = Period.RUN) -> Response:
        """Who did how much, the user with most samples first: today (UTC), in the last seven days, or ever."""
        return leaders[period]()()

    @router.get("/api/sessions", response_model=list[SessionAnswer], responses=UNAVAILABLE, tags=["people"])
    def all_sessions() -> Response:
        """Devices, the one that was heard of last first."""
        return sessions()()

    @router.get("/api/checkpoints", response_model=list[CheckpointAnswer], tags=["run"])
    def all_checkpoints() -> Response:
        """The checkpoints that the coordinator holds, oldest first."""
        return checkpoints()()

    @router.get("/api/notices", response_model=NoticesAnswer, tags=["run"])
    def notices() -> Response:
        """What the organizer decided, signed now."""
        decisions = desk.board.decisions
        answer = NoticesAnswer(
            signed=base64.b64encode(desk.board.current()).decode(),
            announcement=decisions.announcement,
            paused=decisions.paused,
            stopped=decisions.stopped,
        )
        return _kept(answer, KEPT)()

    @router.get("/api/tokenizer/{name}", response_class=Response, responses=NOT_FOUND, tags=["join"])
    def tokenizer_file(name: str, request: Request) -> Response:
        """One file of the run's tokenizer."""
        file = files.get(name)
        if file is None:
            return answer_problem(Problem(error="not_found", message="the run's tokenizer has no such file"), 404)
        tag = f'"{file.about.sha256}"'
        headers = _headers(KEPT_LONGER) | {"ETag": tag}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(file.content, headers=headers, media_type="application/octet-stream")

    @router.get("/healthz", response_model=HealthAnswer, tags=["operation"])
    def health() -> Response:
        """A sign of life."""
        return _kept(HealthAnswer(status="ok", step=desk.step()), 0)()

    @router.get("/metrics", response_class=Response, tags=["operation"])
    def prometheus() -> Response:
        """The run's figures for Prometheus."""
        return Response(metrics(), headers=_headers(KEPT), media_type=CONTENT_TYPE_LATEST)

    return router


def describe_run(desk: Desk, files: dict[str, ServedFile]) -> RunAnswer:
    """The public part of the run file; the list of users stays with the organizer and the volunteers."""
    run: RunFile = desk.run
    access = None
    if run.access is not None:
        listed = bool(run.access.users)
        access = AccessAnswer(open=run.access.open, by_list=listed, organizations=run.access.organizations)
    return RunAnswer(
        name=run.name,
        description=run.description,
        language=run.language,
        version=importlib.metadata.version("sahaj"),
        fingerprint=desk.fingerprint.digest,
        access=access,
        total_steps=run.optimizer.total_steps,
        target_batch_size=run.averaging.target_batch_size,
        max_length=run.data.max_length,
        evaluate_every=run.coordinator.evaluate_every,
        checkpoint_every=run.coordinator.checkpoint_every,
        model=run.model.model_dump(),
        tokenizer=[file.about for file in files.values()],
    )


def _progress(desk: Desk, progress: Progress) -> ProgressAnswer:
    decisions = desk.board.decisions
    since = max(0, progress.step - NEWEST_STEPS + 1)
    return ProgressAnswer(
        **asdict(progress) | {"step": desk.step()},
        total_steps=desk.run.optimizer.total_steps,
        paused=decisions.paused,
        stopped=decisions.stopped,
        announcement=decisions.announcement,
        steps=[StepAnswer(**asdict(one)) for one in desk.ledger.steps(since)],
        evaluations=[EvaluationAnswer(**asdict(one)) for one in desk.ledger.evaluations()[-NEWEST_EVALUATIONS:]],
    )


def first_day(period: Period, today: datetime.date) -> datetime.date | None:
    """From which day (UTC) on contributions count in the period; None: all do."""
    days = {Period.DAY: 1, Period.WEEK: 7}.get(period)
    return None if days is None else today - datetime.timedelta(days=days - 1)


def _leaderboard(desk: Desk, people: People, period: Period) -> Callable[[], Response]:
    since = first_day(period, datetime.datetime.now(datetime.timezone.utc).date())
    found = desk.ledger.leaderboard(since=since)[:MOST_LEADERS]
    return _kept([LeaderAnswer(**asdict(one), **_face(desk, people, one)) for one in found], KEPT)


def _sessions(desk: Desk, people: People) -> Callable[[], Response]:
    found = sorted(desk.ledger.sessions(), key=lambda one: one.last_seen, reverse=True)[:MOST_SESSIONS]
    return _kept([_session(one, _face(desk, people, one)) for one in found], KEPT)


def _session(one: SessionSummary, face: dict[str, Any]) -> SessionAnswer:
    public = {key: value for key, value in asdict(one).items() if key not in ("session_id", "peer_id")}
    return SessionAnswer(session=hashlib.sha256(one.session_id.encode()).hexdigest()[:12], **public, **face)


def _checkpoints(desk: Desk) -> Callable[[], Response]:
    found = [asdict(one.state) for one in list_checkpoints(desk.checkpoints)]
    return _kept([CheckpointAnswer(**{key: one[key] for key in CheckpointAnswer.model_fields}) for one in found], KEPT)


def _face(desk: Desk, people: People, one: Leader | SessionSummary) -> dict[str, Any]:
    """In a run without passes every name is self-chosen."""
    verified = desk.run.access is not None and not one.user.startswith(UNVERIFIED)
    return {"verified": verified, "avatar": people.avatar(one.user)}


def _headers(seconds: int) -> dict[str, str]:
    keep = f"public, max-age={seconds}" if seconds else "no-store"
    return {"Cache-Control": keep, "X-Content-Type-Options": "nosniff"}


def _kept(answer: BaseModel | list[Any], seconds: int) -> Callable[[], Response]:
    """The answer as JSON, written once however often it is given."""
    if isinstance(answer, list):
        content = b"[" + b",".join(one.model_dump_json().encode() for one in answer) + b"]"
    else:
        content = answer.model_dump_json().encode()
    return lambda: Response(content, headers=_headers(seconds), media_type="application/json")
