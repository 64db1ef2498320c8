"""Renews passes over libp2p, for trainers that cannot reach the HTTP service; the same access policy applies.

No token is sent: libp2p proves that the caller has the peer id in its old pass, and the Hub has verified the user of
that peer within the last day. New peers, and those that joined before the coordinator's last start, have to use HTTP.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterator

from hivemind.dht import DHT
from hivemind.p2p import P2P, PeerID
from pydantic import ValidationError

from coordinator.access.policy import admit, check_request
from coordinator.access.verified_users import VERIFIED_FOR
from coordinator.context import ServiceContext
from coordinator.http.routes.join import access_policy, give_pass
from swarm import clock
from swarm.access.join_messages import Refusal, Refused, RenewalRequest, Renewed
from swarm.access.names import UNVERIFIED
from swarm.access.passes import PassRefused, check_pass, read_pass
from swarm.access.refusal_backoff import note_refusal
from swarm.access.renewal import LONGEST, renewal_handle
from swarm.errors import SwarmError
from swarm.rate_limit import RateLimit

logger = logging.getLogger(__name__)

ATTEMPTS, WINDOW = 10, 60.0  # attempts of a peer in a window of so many seconds
START_TIMEOUT = 30.0  # seconds


class Renewals:
    """Decides which peers get a new pass for an old one. Threads may share it."""

    def __init__(self, context: ServiceContext):
        self._context = context
        self._attempts = RateLimit(ATTEMPTS, WINDOW)

    def answer(self, request: bytes, caller: PeerID) -> Renewed | Refused:
        """The answer to a request of this peer."""
        context = self._context
        seconds = self._attempts.attempt(str(caller))
        if seconds is not None:
            return Refused(error=Refusal.TOO_MANY, message=f"too many attempts to renew; try again in {seconds} s")
        try:
            if len(request) > LONGEST:
                raise PassRefused(f"a request may have at most {LONGEST} bytes, this one has {len(request)}")
            body = RenewalRequest.model_validate_json(request)
            shown = read_pass(body.pass_)
            oldest = clock.now() - VERIFIED_FOR
            check_pass(shown, context.authority.public_key, context.run.name, caller, oldest)
        except ValidationError:
            note_refusal()
            return Refused(error=Refusal.MALFORMED, message="the request is malformed")
        except PassRefused as error:
            note_refusal()
            return Refused(error=Refusal.MALFORMED, message=str(error))
        if body.peer_id != str(caller):
            return Refused(error=Refusal.MALFORMED, message="peer_id is not the caller's")
        policy = access_policy(context)
        refused = check_request(body, policy)
        if refused is not None:
            return refused
        who = context.verified_users.of(body.peer_id) if shown.verified else None
        if shown.verified and who is None:
            return Refused(error=Refusal.TOKEN_MISSING, message="show a Hugging Face token again, at the run's link")
        name = None if shown.verified else shown.user.removeprefix(UNVERIFIED)
        user = admit(body.model_copy(update={"name": name}), who, policy)
        if isinstance(user, Refused):
            return user
        if user != shown.user:
            return Refused(error=Refusal.NOT_ALLOWED, message="the pass is for another name; join again")
        logger.info("the pass of %s was renewed over libp2p", user)
        return give_pass(context, user, caller)


@contextlib.contextmanager
def open_renewals(context: ServiceContext, dht: DHT) -> Iterator[None]:
    """Answer trainers while the block runs.

    Raises:
        SwarmError: libp2p's daemon does not answer.
    """
    renewals, loop = Renewals(context), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="renewals", daemon=True)

    async def answer(request: bytes, caller: PeerID) -> bytes:
        # it asks the network and the disk, and other calls should not wait for those
        answered = await asyncio.to_thread(renewals.answer, request, caller)
        return answered.model_dump_json(by_alias=True).encode()

    async def listen() -> P2P:
        p2p = await dht.replicate_p2p()
        await p2p._client.add_unary_handler(renewal_handle(context.run.name), answer)
        return p2p

    thread.start()
    p2p: P2P | None = None
    try:
        try:
            p2p = asyncio.run_coroutine_threadsafe(listen(), loop).result(START_TIMEOUT)
        except Exception as error:
            raise SwarmError(f"passes cannot be renewed over libp2p ({error!r}); start again") from None
        yield
    finally:
        if p2p is not None:
            asyncio.run_coroutine_threadsafe(p2p.shutdown(), loop).result(START_TIMEOUT)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
