"""`/api/me/...`: what a person does about their own machines, with a personal key as bearer; and how to get the key."""

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from hivemind.utils.crypto import RSAPublicKey

from coordinator.access.hub_identity import Hub
from coordinator.access.person_key import issue_key
from coordinator.access.policy import admit_hub_user, refuse_if_banned
from coordinator.access.revoked_keys import RevokedKeys
from coordinator.http.key_holders import KEY_SHOWN, KeyHolders
from coordinator.http.request_limits import PERSONAL_KEY
from coordinator.http.responses import TOKEN_SHOWN, ProblemFound, accepted, bearer, json_response
from coordinator.run_context import ServiceContext
from swarm import clock
from swarm.access.join_messages import Refusal, Refused
from swarm.access.key_messages import FRESH_FOR, HolderAnswer, KeyAnswer, KeyRequest, to_sign
from swarm.identity import peer_id_of

ERRORS: dict[int | str, dict[str, Any]] = {
    401: {"model": Refused, "description": "no personal key, or one that is not good here"},
    403: {"model": Refused, "description": "banned"},
    422: {"model": Refused, "description": "the request is malformed"},
}


def key_routes(context: ServiceContext, hub: Hub, holder: KeyHolders, revoked: RevokedKeys) -> APIRouter:
    """How a person gets a personal key. Ledger and Hub are asked in threads."""
    router = APIRouter(tags=["me"], responses=ERRORS)

    @router.post(PERSONAL_KEY, response_model=KeyAnswer, dependencies=[TOKEN_SHOWN])
    async def personal_key(request: Request, body: KeyRequest | None = None) -> Response:
        """Give a key to a Hub user who shows a token, or to a machine that signs the request."""
        shown = bearer(request.headers)
        if shown is not None:
            who = accepted(await hub.who_is(shown))
            user = accepted(admit_hub_user(who, None, context.run.access, context.notices.decisions))
            return _give(context, user, None, revoked)
        if body is None:
            message = "show a Hugging Face token, or sign the request as a machine that has joined"
            raise ProblemFound(Refusal.TOKEN_MISSING, message)
        return await asyncio.to_thread(_asked_by_machine, context, body, revoked)  # it reads the ledger

    @router.delete(PERSONAL_KEY, response_model=HolderAnswer, dependencies=[KEY_SHOWN])
    def revoke_keys(request: Request) -> Response:
        """Refuse from now on all keys that the holder of the shown one has got, this one included."""
        key = holder(request, is_limited=False)
        revoked.revoke(key.user, key.peer_id)
        return json_response(HolderAnswer(user=key.user, peer_id=key.peer_id))

    @router.get("/api/me", response_model=HolderAnswer)
    def whose_key(request: Request) -> Response:
        """Whose key it is that the request shows."""
        key = holder(request)
        return json_response(HolderAnswer(user=key.user, peer_id=key.peer_id))

    return router


def _asked_by_machine(context: ServiceContext, body: KeyRequest, revoked: RevokedKeys) -> Response:
    try:
        peer_id = str(peer_id_of(body.public_key))
        content = to_sign(context.run.name, peer_id, body.time)
        signed = RSAPublicKey.from_bytes(body.public_key).verify(content, body.signature)
    except ValueError:
        raise ProblemFound(Refusal.MALFORMED, "public_key is not an RSA public key in hivemind's form") from None
    if not signed:
        raise ProblemFound(Refusal.MALFORMED, "the request is not signed by this machine")
    if abs(clock.now() - body.time) > FRESH_FOR:
        raise ProblemFound(Refusal.MALFORMED, "the request is old, or this machine's clock is wrong")
    user = context.ledger.people.user_of(peer_id)
    if user is None:
        raise ProblemFound(Refusal.NOT_ALLOWED, "this run has not counted anything of this machine yet")
    accepted(refuse_if_banned(user, peer_id, context.notices.decisions))
    return _give(context, user, peer_id, revoked)


def _give(context: ServiceContext, user: str, peer_id: str | None, revoked: RevokedKeys) -> Response:
    text, key = issue_key(
        context.authority, context.run.name, user, peer_id, good_from=revoked.good_from(user, peer_id)
    )
    return json_response(KeyAnswer(user=user, peer_id=peer_id, key=text, expires=key.expires))
