"""`/api/admin/...`: the organizer's orders, and answers for the organizer alone, with the admin key as bearer."""

import contextlib
import hmac
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Security
from fastapi.responses import JSONResponse, Response
from fastapi.security import HTTPBearer
from pydantic import AfterValidator, Field

from averaging.optimizer import NO_WAY_BACK
from coordinator.access.decisions import spellings
from coordinator.access.hub_identity import Avatars
from coordinator.checkpoints.checkpoint import CheckpointError, whole_checkpoint
from coordinator.http.responses import NO_STORE, ProblemAnswer, ProblemFound, bearer, json_response
from coordinator.ledger.answers import KnownFlag
from coordinator.ledger.audits.flags import read_evidence
from coordinator.ledger.storage.database import LedgerError
from coordinator.run_context import ServiceContext
from coordinator.state_folder import EVIDENCE
from swarm.access.join_messages import Message, Refusal, Refused
from swarm.access.user_names import is_one_line

ERRORS: dict[int | str, dict[str, Any]] = {
    401: {"model": Refused, "description": "no admin key, or a wrong one"},
    422: {"model": Refused, "description": "the request is malformed"},
    503: {"model": ProblemAnswer, "description": "the decision could not be written down, and was not made"},
}


def _one_visible_line(text: str) -> str:
    if not is_one_line(text):
        raise ValueError("must be one line without control characters")
    return text.strip()


Line = Annotated[str, AfterValidator(_one_visible_line)]


class NameOrder(Message):
    """The user or peer that an order is about."""

    name: Annotated[Line, Field(min_length=1, max_length=100, pattern=r"\S")] = Field(
        description="a Hub user, ~ and a self-chosen name, or (for ban and unban) a peer id"
    )


class RemovalOrder(Message):
    """The team that an order is about."""

    name: Annotated[Line, Field(max_length=100)]


class RenameOrder(RemovalOrder):
    """What a team is called from now on."""

    new: Annotated[Line, Field(max_length=100)]


class AnnouncementOrder(Message):
    """A line for everybody."""

    text: Annotated[Line, Field(max_length=500)] = Field(description="one line; an empty one takes the last away")


class StepOrder(Message):
    """The checkpoint that the swarm goes back to."""

    step: Annotated[int, Field(ge=0)] = Field(description="global step of a checkpoint that the coordinator holds")


class DecisionsAnswer(Message):
    """All decisions that are in force."""

    banned: list[str]
    allowed: list[str]
    announcement: str
    paused: bool
    stopped: bool


def admin_routes(context: ServiceContext, avatars: Avatars) -> APIRouter:
    """Orders are in force when they are answered, and survive a restart."""

    key = Security(HTTPBearer(auto_error=False, scheme_name="admin key"))  # for /docs; it is read in `_key_check`
    router = APIRouter(
        prefix="/api/admin", dependencies=[Depends(_key_check(context)), key], responses=ERRORS, tags=["admin"]
    )
    notices = context.notices

    @router.get("/decisions", response_model=DecisionsAnswer)
    def decided() -> Response:
        """All decisions that are in force."""
        return json_response(DecisionsAnswer.model_validate(notices.decisions.model_dump()))

    @router.post("/ban", response_model=DecisionsAnswer)
    def ban(order: NameOrder) -> Response:
        """Ban a user or a peer; every peer knows it within a minute."""
        notices.ban(order.name, *spellings(order.name, [*avatars.keys(), *_in_ledger(context)]))
        return decided()

    @router.post("/unban", response_model=DecisionsAnswer)
    def unban(order: NameOrder) -> Response:
        """Take back a ban, and that of the machines that were flagged with the user."""
        try:
            machines = _flagged_machines(context, order.name)
        except LedgerError:  # the organizer is told so, and has to give the order again
            notices.unban(order.name)
            raise
        notices.unban(order.name, *machines)
        return decided()

    @router.post("/allow", response_model=DecisionsAnswer)
    def allow(order: NameOrder) -> Response:
        """Add a Hub user to those who may join."""
        notices.allow(order.name)
        return decided()

    @router.post("/disallow", response_model=DecisionsAnswer)
    def disallow(order: NameOrder) -> Response:
        """Take back an `allow`."""
        notices.disallow(order.name)
        return decided()

    @router.post("/announce", response_model=DecisionsAnswer)
    def announce(order: AnnouncementOrder) -> Response:
        """Show a line to everybody."""
        notices.announce(order.text)
        return decided()

    @router.post("/restore", response_model=DecisionsAnswer)
    def restore(order: StepOrder) -> Response:
        """Go back to a checkpoint, all peers; the coordinator begins within seconds."""
        _check_is_there(context, order.step)
        context.order_rollback(order.step)
        return decided()

    @router.get("/flags", response_model=list[KnownFlag])
    def flags() -> Response:
        """What the organizer should know about peers, the newest first."""
        return JSONResponse([one.model_dump() for one in context.ledger.rounds.flags()], headers=NO_STORE)

    @router.get("/evidence", response_model=list[dict[str, Any]])
    def evidence(name: str) -> Response:
        """What audits have proved of a user or a peer; each with the header, the reducer's account and the pieces."""
        return JSONResponse(read_evidence(context.folder / EVIDENCE, name), headers=NO_STORE)

    _add_team_orders(router, context, decided)
    for path, order in (("/pause", notices.pause), ("/resume", notices.resume), ("/stop", notices.stop)):
        router.add_api_route(path, _without_body(order, decided), methods=["POST"], response_model=DecisionsAnswer)
    return router


def _add_team_orders(router: APIRouter, context: ServiceContext, decided: Callable[[], Response]) -> None:
    @router.post("/remove-team", response_model=DecisionsAnswer)
    def remove_team(order: RemovalOrder) -> Response:
        """Take a team off the board; its people keep their own credit."""
        context.ledger.teams.remove(order.name)
        return decided()

    @router.post("/rename-team", response_model=DecisionsAnswer)
    def rename_team(order: RenameOrder) -> Response:
        """Call a team something else."""
        context.ledger.teams.rename(order.name, order.new)
        return decided()


def _key_check(context: ServiceContext) -> Callable[[Request], None]:
    def check_key(request: Request) -> None:
        shown = bearer(request.headers)
        if shown is None:
            raise ProblemFound(
                Refusal.TOKEN_MISSING, "show the admin key, which lies in the coordinator's state folder"
            )
        if not hmac.compare_digest(shown.encode(), context.admin_key.encode()):
            raise ProblemFound(Refusal.TOKEN_REJECTED, "this is not the admin key of this run")

    return check_key


def _check_is_there(context: ServiceContext, step: int) -> None:
    if context.run.averaging.target_group_size is not None:
        raise ProblemFound(Refusal.MALFORMED, NO_WAY_BACK)
    try:
        whole_checkpoint(context.checkpoints, step)
    except CheckpointError as error:
        raise ProblemFound(Refusal.MALFORMED, str(error)) from None


def _in_ledger(context: ServiceContext) -> list[str]:
    with contextlib.suppress(LedgerError):  # a ban does not wait for a database
        return [one.user for one in context.ledger.leaderboard()]
    return []


def _flagged_machines(context: ServiceContext, user: str) -> list[str]:
    """Peer ids of a user whom audits have flagged: a ban that follows names them, too."""
    return [one.peer_id for one in context.ledger.rounds.flags() if one.user.casefold() == user.casefold()]


def _without_body(order: Callable[[], None], answer: Callable[[], Response]) -> Callable[[], Response]:
    def give() -> Response:
        order()
        return answer()

    give.__name__, give.__doc__ = order.__name__, order.__doc__
    return give
