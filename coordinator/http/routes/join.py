"""`POST /api/join`: gives a pass to users who may join."""

import asyncio
import base64
import logging
import math
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from hivemind.p2p import PeerID

from coordinator.access.hub_identity import VERIFIED_FOR, Avatars, Hub
from coordinator.access.policy import AccessPolicy, admit, check_request
from coordinator.http.request_limits import JOIN, LIMITED, check_limit
from coordinator.http.responses import TOKEN_SHOWN, ProblemFound, accepted, bearer, json_response
from coordinator.http.routes.teams import refuse_without_credit
from coordinator.ledger.storage.database import LedgerError
from coordinator.ledger.teams.membership import TeamRefused
from coordinator.ledger.teams.names import folded
from coordinator.public_run import without_secrets
from coordinator.run_context import ServiceContext
from swarm.access import team_refusals
from swarm.access.join_messages import JoinAnswer, JoinRequest, Manifest, Refused, Renewed, TokenizerFile
from swarm.identity import peer_id_of
from swarm.milestones import Standing
from swarm.rate_limit import RateLimit
from swarm.run_file import RunFile, dump_run
from swarm.version import program_version

logger = logging.getLogger(__name__)

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Refused, "description": description}
    for status, description in {
        401: "no token, or one that the Hub does not know",
        403: "not on the list, or banned",
        409: "the peer trains with other settings",
        410: "the run is over",
        413: "the request is too large",
        422: "the request is malformed",
        426: "another version of the program",
        429: "too many attempts; see Retry-After",
        503: "the run is paused, or the Hub is away; see Retry-After",
    }.items()
}


def as_announced(run: RunFile) -> RunFile:
    """The run file for others: without secrets, and with paths that mean the same from any folder of this machine."""
    sources = [
        source if source.path is None else source.model_copy(update={"path": str(run.resolve(source.path).absolute())})
        for source in run.data.train
    ]
    data = run.data.model_copy(update={"train": sources})
    return without_secrets(run).model_copy(update={"data": data})


def join_routes(
    context: ServiceContext,
    tokenizer: list[TokenizerFile],
    avatars: Avatars,
    count: Callable[[str], None],
    hub: Hub,
) -> APIRouter:
    """Joining a run."""
    router = APIRouter()
    manifest = Manifest(
        run=dump_run(as_announced(context.run)),
        fingerprint=context.fingerprint.digest,
        tokenizer=tokenizer,
    )
    per_user = RateLimit(context.limits.per_user, context.limits.window)

    async def admitted(body: JoinRequest, token: str | None) -> JoinAnswer:
        policy = access_policy(context)
        accepted(check_request(body, policy))
        who = accepted(await hub.who_is(token)) if token else None
        if who is not None:
            check_limit(per_user, who.name, LIMITED[JOIN])
        user = accepted(admit(body, who, policy))
        # in a thread: it waits for the network and the disk
        answer = await asyncio.to_thread(_welcome, context, body, user, manifest)
        avatars.note(user, who.avatar if who else None, math.inf)
        if who is not None:
            context.verified_users.note(body.peer_id, who, VERIFIED_FOR)
        logger.info("%s was given a pass", user)
        return answer

    @router.post(JOIN, response_model=JoinAnswer, responses=REFUSALS, tags=["join"], dependencies=[TOKEN_SHOWN])
    async def join(body: JoinRequest, request: Request) -> Response:
        """Give or renew the pass of a peer; the Hub token in `Authorization: Bearer` says whose peer it is."""
        try:
            answer = await admitted(body, bearer(request.headers))
        except ProblemFound as refused:
            count(refused.problem.value)
            raise
        count("joined")
        return json_response(answer)

    return router


def access_policy(context: ServiceContext) -> AccessPolicy:
    """What decides now who may join."""
    return AccessPolicy(
        access=context.run.access,
        fingerprint=context.fingerprint,
        version=program_version(),
        step=context.status().step,
        total_steps=context.run.optimizer.total_steps,
        decisions=context.notices.decisions,
    )


def give_pass(context: ServiceContext, user: str, peer: PeerID) -> Renewed:
    """A new pass for an admitted user. Asks the network who else is there, and may write to the disk."""
    given = context.authority.issue(context.run.name, user, peer, context.run.access.pass_lifetime)
    content: dict[str, Any] = {
        "user": user,
        "pass": base64.b64encode(given.to_bytes()),
        "expires": given.expires,
        "notices": base64.b64encode(context.notices.current()),
        "initial_peers": context.addresses(),
        "standing": _standing(context, user),
    }
    return Renewed.model_validate(content)


def _standing(context: ServiceContext, user: str) -> Standing | None:
    """What a person has given so far; a ledger that cannot be read keeps nobody out."""
    try:
        return context.ledger.people.standing(user)
    except LedgerError as error:
        logger.warning("what %s has given is not known: %s", user, error)
        return None


def _welcome(context: ServiceContext, body: JoinRequest, user: str, manifest: Manifest) -> JoinAnswer:
    given = give_pass(context, user, peer_id_of(body.public_key)).model_dump(by_alias=True)
    authority = base64.b64encode(context.authority.public_key)
    team, no_team = _enter_team(context, user, str(peer_id_of(body.public_key)), body.team) if body.team else ("", "")
    own = {"authority": authority, "manifest": manifest, "team": team, "no_team": no_team}
    return JoinAnswer.model_validate(given | own)


def _enter_team(context: ServiceContext, user: str, peer_id: str, name: str) -> tuple[str, str]:
    """The team that the user is in then, or why that was not possible: nothing that keeps anybody from joining."""
    try:
        found = context.ledger.teams.of(user)
        if found is None or folded(found.name) != folded(name):
            refuse_without_credit(context, user, peer_id)
            context.ledger.teams.join(user, name)
            found = context.ledger.teams.of(user)
        return (found.name if found else ""), ""
    except TeamRefused as error:
        return "", str(error)
    except LedgerError as error:
        logger.warning("%s did not come into a team: %s", user, error)
        return "", team_refusals.NO_LEDGER
