"""The routes about people: who did how much, and how they are thanked."""

import datetime
import hashlib
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response

from coordinator.context import RunContext
from coordinator.http.badges import badge, thanks
from coordinator.http.desk import People, Remembered
from coordinator.http.errors import Problem, answer_problem
from coordinator.http.response_cache import (
    KEPT,
    KEPT_LONGER,
    NOT_FOUND,
    UNAVAILABLE,
    RememberedByName,
    kept,
    kept_headers,
)
from coordinator.http.schemas.people import LeaderAnswer, Period, PersonAnswer, SessionAnswer
from coordinator.ledger.ledger import Leader, SessionSummary
from swarm.access.passes import UNVERIFIED

MOST_SESSIONS = 1000
MOST_LEADERS = 5000
SESSIONS_OF_ONE = 200
PERSONS_REMEMBERED = 200
NO_CODE = {"Content-Security-Policy": "default-src 'none'"}  # an image that is opened as a page is no more than that
_CONTENT: dict[str, dict[int | str, dict[str, Any]]] = {
    kind: {200: {"content": {kind: {}}}} for kind in ("image/svg+xml", "text/markdown")
}

User = Annotated[str, Query(max_length=100, description="a name as the leaderboard shows it")]
Ranking = dict[str, tuple[int, Leader]]  # by user, in the order of the ranks


def people_routes(context: RunContext, people: People) -> APIRouter:
    """GET alone. What costs the ledger something is found at most once in `KEPT` seconds."""
    router = APIRouter(tags=["people"], responses=UNAVAILABLE)
    ranking = Remembered(lambda: _ranking(context.ledger.leaderboard()), KEPT)
    leaders = {period: Remembered(partial(_leaderboard, context, people, period, ranking), KEPT) for period in Period}
    sessions = Remembered(lambda: _sessions(context, people), KEPT)
    persons = RememberedByName(lambda user: _person(context, people, *ranking()[user]), KEPT, PERSONS_REMEMBERED)
    everybody = Remembered(lambda: _thanks(context, ranking()), KEPT)

    @router.get("/api/leaderboard", response_model=list[LeaderAnswer])
    def leaderboard(period: Period = Period.RUN) -> Response:
        """Who did how much, the user with most samples first: today (UTC), in the last seven days, or ever."""
        return leaders[period]()()

    @router.get("/api/sessions", response_model=list[SessionAnswer])
    def all_sessions() -> Response:
        """Devices, the one that was heard of last first."""
        return sessions()()

    @router.get("/api/person", response_model=PersonAnswer, responses=NOT_FOUND)
    def person(user: User) -> Response:
        """One user: what was counted for them, day by day and session by session."""
        return persons(user) if user in ranking() else _unknown()

    @router.get("/api/badge.svg", response_class=Response, responses=NOT_FOUND | _CONTENT["image/svg+xml"])
    def badge_image(user: User) -> Response:
        """An image for a profile: how much somebody did in the run, and their rank."""
        if user not in ranking():
            return _unknown()
        rank, leader = ranking()[user]
        headers = kept_headers(KEPT_LONGER) | NO_CODE
        return Response(
            badge(context.run.name, user, leader.samples, rank), headers=headers, media_type="image/svg+xml"
        )

    @router.get("/api/thanks.md", response_class=Response, responses=_CONTENT["text/markdown"])
    def wall_of_thanks() -> Response:
        """Everybody of whom a sample was counted, in Markdown for a model card."""
        return everybody()()

    return router


def first_day(period: Period, today: datetime.date) -> datetime.date | None:
    """From which day (UTC) on contributions count in the period; None: all do."""
    days = {Period.DAY: 1, Period.WEEK: 7}.get(period)
    return None if days is None else today - datetime.timedelta(days=days - 1)


def _ranking(leaders: list[Leader]) -> Ranking:
    return {one.user: (rank, one) for rank, one in enumerate(leaders, start=1)}


def _leaderboard(
    context: RunContext, people: People, period: Period, ranking: Callable[[], Ranking]
) -> Callable[[], Response]:
    since = first_day(period, datetime.datetime.now(datetime.timezone.utc).date())
    found = [one for _, one in ranking().values()] if since is None else context.ledger.leaderboard(since=since)
    return kept([LeaderAnswer(**dict(one), **_profile(context, people, one)) for one in found[:MOST_LEADERS]], KEPT)


def _sessions(context: RunContext, people: People) -> Callable[[], Response]:
    found = context.ledger.people.newest_sessions(MOST_SESSIONS)
    return kept([_session(one, _profile(context, people, one)) for one in found], KEPT)


def _session(one: SessionSummary, profile: dict[str, Any]) -> SessionAnswer:
    return SessionAnswer(session=hashlib.sha256(one.session_id.encode()).hexdigest()[:12], **dict(one), **profile)


def _person(context: RunContext, people: People, rank: int, leader: Leader) -> Callable[[], Response]:
    profile, queries = _profile(context, people, leader), context.ledger.people
    sessions = queries.newest_sessions(SESSIONS_OF_ONE, leader.user)
    answer = PersonAnswer(
        **dict(leader) | profile | {"sessions": [_session(one, profile) for one in sessions]},
        rank=rank,
        present=leader.sessions_present > 0,
        days=queries.days(leader.user),
    )
    return kept(answer, KEPT)


def _thanks(context: RunContext, ranking: Ranking) -> Callable[[], Response]:
    people = [(one.user, _is_verified(context, one.user)) for _, one in ranking.values() if one.samples]
    content = thanks(context.run.name, people)
    return lambda: Response(content, headers=kept_headers(KEPT), media_type="text/markdown")


def _profile(context: RunContext, people: People, one: Leader | SessionSummary) -> dict[str, Any]:
    return {"verified": _is_verified(context, one.user), "avatar": people.avatar(one.user)}


def _is_verified(context: RunContext, user: str) -> bool:
    """In a run without passes every name is self-chosen."""
    return context.run.access is not None and not user.startswith(UNVERIFIED)


def _unknown() -> Response:
    return answer_problem(Problem(error="not_found", message="nobody of that name has taken part in this run"), 404)
