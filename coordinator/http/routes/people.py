"""The routes about people and their machines: who contributed how much, on what, and how they are thanked."""

import datetime
import hashlib
import math
from functools import lru_cache, partial
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response

from coordinator.access.hub_identity import Avatars
from coordinator.cached import Cached
from coordinator.http.badges import badge, thanks
from coordinator.http.card import Facts, card
from coordinator.http.responses import (
    CACHE_SECONDS,
    LONG_CACHE_SECONDS,
    NOT_FOUND,
    UNAVAILABLE,
    CachedJson,
    Problem,
    ProblemFound,
    cache_headers,
)
from coordinator.http.schemas import LeaderAnswer, MachinesAnswer, Period, PersonAnswer, SessionAnswer
from coordinator.ledger.answers import Leader, SessionSummary
from coordinator.ledger.ledger import Ledger
from coordinator.ledger.milestones import career
from coordinator.release.facts import as_listed, read_unnamed
from coordinator.run_context import RunContext
from swarm import clock
from swarm.access.passes import is_verified
from swarm.language import SOURCE, known

MOST_SESSIONS = 1000
MOST_LEADERS = 5000
SESSIONS_OF_ONE = 200
MOST_PERSONS_CACHED = 200
CURVE_POINTS = 200  # of a card
MOST_DEVICES = 100  # kinds of them
NO_CODE = {"Content-Security-Policy": "default-src 'none'"}  # for an image that is opened as a page
_CONTENT: dict[str, dict[int | str, dict[str, Any]]] = {
    kind: {200: {"content": {kind: {}}}} for kind in ("image/svg+xml", "text/markdown")
}

User = Annotated[str, Query(max_length=100, description="a name as the leaderboard shows it")]
Language = Annotated[str, Query(max_length=40, description="a code such as bn; by default the run's language")]
Ranking = dict[str, tuple[int, Leader]]  # by user, in the order of the ranks


def people_routes(context: RunContext, avatars: Avatars) -> APIRouter:
    """GET only; the ledger is read at most once in `CACHE_SECONDS` for each answer."""
    router = APIRouter(tags=["people"], responses=UNAVAILABLE)
    ranking = Cached(lambda: _ranking(context.ledger.leaderboard()), CACHE_SECONDS)
    leaders = {period: CachedJson(partial(_leaderboard, context, avatars, period, ranking)) for period in Period}
    sessions = CachedJson(lambda: _sessions(context.ledger, avatars))
    machines = CachedJson(lambda: _machines(context))
    markdown = Cached(lambda: _thanks(context, ranking()), CACHE_SECONDS)

    def ranked(user: str) -> tuple[int, Leader]:
        if (found := ranking().get(user)) is None:
            raise ProblemFound(Problem.NOT_FOUND, "nobody of that name has taken part in this run")
        return found

    @lru_cache(MOST_PERSONS_CACHED)
    def person_of(user: str) -> CachedJson:
        return CachedJson(lambda: _person(context, avatars, *ranked(user)))

    curve = Cached(lambda: _curve(context.ledger), LONG_CACHE_SECONDS)

    @lru_cache(MOST_PERSONS_CACHED)
    def card_of(user: str, language: str) -> Cached[bytes]:
        return Cached(lambda: _card(context, *ranked(user), curve(), language), LONG_CACHE_SECONDS)

    @router.get("/api/leaderboard", response_model=list[LeaderAnswer])
    def leaderboard(period: Period = Period.RUN) -> Response:
        """Who contributed how much, the user with most samples first: today (UTC), in the last seven days, or ever."""
        return leaders[period]()

    @router.get("/api/sessions", response_model=list[SessionAnswer])
    def all_sessions() -> Response:
        """Sessions by their newest reports, the newest first."""
        return sessions()

    @router.get("/api/person", response_model=PersonAnswer, responses=NOT_FOUND)
    def person(user: User) -> Response:
        """One user: what was counted for them, day by day and session by session."""
        ranked(user)
        return person_of(user)()

    @router.get("/api/badge.svg", response_class=Response, responses=NOT_FOUND | _CONTENT["image/svg+xml"])
    def badge_image(user: User) -> Response:
        """An image for a profile: how much a user contributed to the run, and their rank."""
        rank, leader = ranked(user)
        return _image(badge(context.run.name, user, leader.samples, rank, leader.tokens_served))

    @router.get("/api/card.svg", response_class=Response, responses=NOT_FOUND | _CONTENT["image/svg+xml"])
    def card_image(user: User, lang: Language = "") -> Response:
        """An image to share, of 1200 by 630 pixels: what a user gave, and the run's loss while they were there."""
        ranked(user)
        return _image(card_of(user, card_language(lang, context.run.language))())

    @router.get("/api/thanks.md", response_class=Response, responses=_CONTENT["text/markdown"])
    def list_of_thanks() -> Response:
        """All users of whom a sample was counted, or a token that they served, in Markdown for a model card."""
        return Response(markdown(), headers=cache_headers(CACHE_SECONDS), media_type="text/markdown")

    @router.get("/api/machines", response_model=MachinesAnswer)
    def all_machines() -> Response:
        """Devices and how fast they are, who can be reached, and countries of users who gave theirs."""
        return machines()

    return router


def today() -> datetime.date:
    """The day (UTC)."""
    return datetime.datetime.fromtimestamp(clock.now(), datetime.timezone.utc).date()


def first_day(period: Period, day: datetime.date) -> datetime.date | None:
    """The day (UTC) from which contributions count in the period; None: all do."""
    days = {Period.DAY: 1, Period.WEEK: 7}.get(period)
    return None if days is None else day - datetime.timedelta(days=days - 1)


def card_language(asked: str, of_run: str) -> str:
    """The language of a card: the one that is asked for, or the run's, or English."""
    return known(asked) or known(of_run) or SOURCE


def _ranking(leaders: list[Leader]) -> Ranking:
    return {one.user: (rank, one) for rank, one in enumerate(leaders, start=1)}


def _leaderboard(context: RunContext, avatars: Avatars, period: Period, ranking: Cached[Ranking]) -> list[LeaderAnswer]:
    since = first_day(period, today())
    found = [one for _, one in ranking().values()] if since is None else context.ledger.leaderboard(since=since)
    return [LeaderAnswer(**dict(one), **profile(avatars, one.user)) for one in found[:MOST_LEADERS]]


def _sessions(ledger: Ledger, avatars: Avatars) -> list[SessionAnswer]:
    found = ledger.people.newest_sessions(MOST_SESSIONS)
    return [_session(one, profile(avatars, one.user)) for one in found]


def _session(one: SessionSummary, profile: dict[str, Any]) -> SessionAnswer:
    return SessionAnswer(session=hashlib.sha256(one.session_id.encode()).hexdigest()[:12], **dict(one), **profile)


def _person(context: RunContext, avatars: Avatars, rank: int, leader: Leader) -> PersonAnswer:
    shown, people = profile(avatars, leader.user), context.ledger.people
    sessions, days = people.newest_sessions(SESSIONS_OF_ONE, leader.user), people.days(leader.user)
    return PersonAnswer(
        **dict(leader) | shown | {"sessions": [_session(one, shown) for one in sessions]},
        rank=rank,
        present=leader.sessions_present > 0,
        days=days,
        team=team.name if (team := context.ledger.teams.of(leader.user)) else None,
        **vars(career(days, today())),
    )


def _curve(ledger: Ledger) -> list[tuple[float, float]]:
    """Times and losses of the run."""
    steps = ledger.history.steps(CURVE_POINTS)
    return [(one.time, one.loss) for one in steps if math.isfinite(one.loss)]


def _card(context: RunContext, rank: int, leader: Leader, curve: list[tuple[float, float]], language: str) -> bytes:
    people = context.ledger.people
    found = career(people.days(leader.user), today())
    sessions = people.newest_sessions(SESSIONS_OF_ONE, leader.user)
    facts = Facts(
        run=context.run.name,
        user=leader.user,
        samples=leader.samples,
        tokens_served=leader.tokens_served,
        hours=leader.hours,
        rank=rank,
        days=found.streak or found.longest_streak,
        curve=curve,
        visits=[(one.started, one.last_seen) for one in sessions],
    )
    return card(facts, language)


def _image(content: bytes) -> Response:
    return Response(content, headers=cache_headers(LONG_CACHE_SECONDS) | NO_CODE, media_type="image/svg+xml")


def _thanks(context: RunContext, ranking: Ranking) -> str:
    unnamed = read_unnamed(context.folder)
    users = [one.user for _, one in ranking.values() if one.samples or one.tokens_served]
    named = [(user, is_verified(user)) for user in users if as_listed(user) not in unnamed]
    return thanks(context.run.name, named, len(users) - len(named))


def profile(avatars: Avatars, user: str) -> dict[str, Any]:
    """What is shown beside a name, as the fields of a `Profile`."""
    return {"verified": is_verified(user), "avatar": avatars.get(user)}


def _machines(context: RunContext) -> MachinesAnswer:
    people = context.ledger.people
    modes = people.modes()
    return MachinesAnswer(
        devices=people.devices(MOST_DEVICES),
        kinds=people.kinds(),
        client_mode=modes[True],
        reachable=modes[False],
        countries=people.countries(),
    )
