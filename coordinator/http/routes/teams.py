"""The routes about teams: the board and a team for everybody, and a person's own team with their personal key."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import Field

from coordinator.access.hub_identity import Avatars
from coordinator.access.person_key import PersonalKey
from coordinator.cached import Cached
from coordinator.http.key_holders import KEY_SHOWN, KeyHolders
from coordinator.http.request_limits import check_limit
from coordinator.http.responses import (
    CACHE_SECONDS,
    NOT_FOUND,
    UNAVAILABLE,
    CachedJson,
    ProblemAnswer,
    json_response,
    problem_response,
)
from coordinator.http.routes.me import ERRORS
from coordinator.http.routes.people import first_day, profile, today
from coordinator.http.schemas import MyTeamAnswer, Period, TeamAnswer, TeamPersonAnswer
from coordinator.ledger.teams.answers import TeamSummary
from coordinator.ledger.teams.membership import Obstacle, TeamRefused, no_such_team
from coordinator.ledger.teams.names import folded
from coordinator.run_context import ServiceContext
from swarm.access import team_refusals
from swarm.access.join_messages import Message, Refusal
from swarm.access.passes import is_verified
from swarm.rate_limit import RateLimit

MOST_PEOPLE = 1000  # of one team
MOST_TEAMS_CACHED = 200
CHANGES, CHANGES_WITHIN = 20, 3600.0  # of one person's team, seconds
_REFUSALS = {
    Obstacle.NAME: (Refusal.MALFORMED, 422),
    Obstacle.UNKNOWN: (Refusal.MALFORMED, 404),
    Obstacle.TAKEN: (Refusal.MALFORMED, 409),
    Obstacle.TOO_MANY: (Refusal.TOO_MANY, 429),
    Obstacle.NOTHING_GIVEN: (Refusal.MALFORMED, 403),  # not that of the run, which has let them in
}
TAKEN: dict[int | str, dict[str, Any]] = {409: {"model": ProblemAnswer, "description": "there is one of that name"}}

TeamName = Annotated[str, Query(max_length=100, description="a team's name, whatever the case of its letters")]


class EntryOrder(Message):
    """The team to be in."""

    name: str = Field(max_length=100)
    create: bool = Field(False, description="a new one; otherwise it must be there")


def team_routes(context: ServiceContext, avatars: Avatars, holder: KeyHolders) -> APIRouter:
    """What everybody may see is read from the ledger at most once in `CACHE_SECONDS`; a person's own team is not."""
    router = APIRouter(tags=["teams"], responses=UNAVAILABLE)
    teams = context.ledger.teams
    ranking = Cached(lambda: _ranking(teams.board()), CACHE_SECONDS)
    boards = {period: CachedJson(partial(_board, context, period, ranking)) for period in Period}
    changes = RateLimit(CHANGES, CHANGES_WITHIN)

    @lru_cache(MOST_TEAMS_CACHED)
    def team_of(name: str) -> CachedJson:
        def find() -> TeamAnswer:
            if (found := ranking().get(name)) is None:  # it has another name since the request came, or was removed
                raise no_such_team(name)
            return _team(context, avatars, *found)

        return CachedJson(find)

    @router.get("/api/teams", response_model=list[TeamSummary])
    def board(period: Period = Period.RUN) -> Response:
        """Teams, the one with most samples first: today (UTC), in the last seven days, or ever."""
        return boards[period]()

    @router.get("/api/team", response_model=TeamAnswer, responses=NOT_FOUND)
    def team(name: TeamName) -> Response:
        """One team: who is in it, what each gave to it, and its days."""
        wanted = folded(name)
        if wanted not in ranking():
            raise no_such_team(name)
        return team_of(wanted)()

    mine = APIRouter(tags=["me"], responses=ERRORS | UNAVAILABLE, dependencies=[KEY_SHOWN])

    def own(user: str) -> Response:
        return json_response(MyTeamAnswer(user=user, team=teams.of(user)))

    def changed(key: PersonalKey, change: Callable[[], None]) -> Response:
        check_limit(changes, key.holder, "changes of your team")
        refuse_without_credit(context, key.user, key.peer_id)
        change()
        return own(key.user)

    @mine.get("/api/me/team", response_model=MyTeamAnswer)
    def own_team(request: Request) -> Response:
        """The team of the key's holder."""
        return own(holder(request).user)

    @mine.post("/api/me/team", response_model=MyTeamAnswer, responses=NOT_FOUND | TAKEN)
    def enter(order: EntryOrder, request: Request) -> Response:
        """Join a team, or create one, and be in no other."""
        key = holder(request)
        return changed(key, lambda: (teams.create if order.create else teams.join)(key.user, order.name))

    @mine.delete("/api/me/team", response_model=MyTeamAnswer)
    def leave(request: Request) -> Response:
        """Be in no team; what was given to it stays with it."""
        key = holder(request)
        return changed(key, lambda: teams.leave(key.user))

    router.include_router(mine)
    return router


async def team_refused(request: Request, error: Exception) -> Response:
    """The response where something about a team is not possible."""
    assert isinstance(error, TeamRefused)
    refusal, status = _REFUSALS[error.obstacle]
    return problem_response(refusal, str(error), status=status)


def refuse_without_credit(context: ServiceContext, user: str, peer_id: str | None) -> None:
    """Anybody may choose any number of names, or another's: one counts here on a machine that has given something.

    Raises:
        TeamRefused: nothing stands behind this name on this machine.
    """
    if not is_verified(user) and not context.ledger.people.has_given(user, peer_id):
        raise TeamRefused(Obstacle.NOTHING_GIVEN, team_refusals.NOTHING_GIVEN)


def _ranking(teams: list[TeamSummary]) -> dict[str, tuple[int, TeamSummary]]:
    return {folded(one.name): (rank, one) for rank, one in enumerate(teams, start=1)}


def _board(
    context: ServiceContext, period: Period, ranking: Cached[dict[str, tuple[int, TeamSummary]]]
) -> list[TeamSummary]:
    since = first_day(period, today())
    return [one for _, one in ranking().values()] if since is None else context.ledger.teams.board(since=since)


def _team(context: ServiceContext, avatars: Avatars, rank: int, team: TeamSummary) -> TeamAnswer:
    people = context.ledger.teams.people(team.name, MOST_PEOPLE)
    return TeamAnswer(
        **dict(team),
        rank=rank,
        people=[TeamPersonAnswer(**dict(one), **profile(avatars, one.user)) for one in people],
        days=context.ledger.teams.days(team.name),
    )
