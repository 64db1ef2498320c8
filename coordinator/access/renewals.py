"""Passes stay valid: they are renewed over libp2p, too, and do not expire while they cannot be renewed over HTTP.

Over libp2p for trainers that cannot reach the HTTP service; the same access policy applies. No token is sent: libp2p
proves that the caller has the peer id in its old pass, and the Hub has verified the user of that peer within the last
day. New peers, and those that joined before the coordinator's last start, have to use HTTP.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import TimeoutError as TooLate

import httpx
from hivemind.dht import DHT
from hivemind.p2p import P2P, PeerID
from pydantic import ValidationError

from averaging.transport.loop import LoopThread, join_daemon
from coordinator.access.decisions import NoticeStore
from coordinator.access.hub_identity import VERIFIED_FOR
from coordinator.access.policy import admit, check_request
from coordinator.http.routes.join import access_policy, give_pass
from coordinator.run_context import ServiceContext
from swarm import clock
from swarm.access.join_messages import LONGEST_RENEWAL, Refusal, Refused, RenewalRequest, Renewed, renewal_handle
from swarm.access.passes import PassRefused, check_pass, read_pass
from swarm.access.refusals import count_refusal
from swarm.access.user_names import UNVERIFIED
from swarm.errors import SwarmError
from swarm.rate_limit import RateLimit

logger = logging.getLogger(__name__)

ATTEMPTS, WINDOW = 10, 60.0  # attempts of a peer in a window of so many seconds
START_TIMEOUT, CLOSE_TIMEOUT = 30.0, 30.0  # seconds
CHECK_EVERY = 5.0  # seconds between two requests
REQUEST_TIMEOUT = 5.0  # seconds
GRACE = 120.0  # seconds after an outage until passes expire again; peers try to renew about once a minute


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
            if len(request) > LONGEST_RENEWAL:
                raise PassRefused(f"a request may have at most {LONGEST_RENEWAL} bytes, this one has {len(request)}")
            body = RenewalRequest.model_validate_json(request)
            shown = read_pass(body.pass_)
            oldest = clock.now() - VERIFIED_FOR
            check_pass(shown, context.authority.public_key, context.run.name, caller, oldest)
        except (ValidationError, PassRefused) as error:
            count_refusal()
            message = str(error) if isinstance(error, PassRefused) else "the request is malformed"
            return Refused(error=Refusal.MALFORMED, message=message)
        if body.peer_id != str(caller):
            return Refused(error=Refusal.MALFORMED, message="peer_id is not the caller's")
        policy = access_policy(context)
        if refused := check_request(body, policy):
            return refused
        who = context.verified_users.get(body.peer_id) if shown.verified else None
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
    renewals, loop = Renewals(context), LoopThread("renewals")

    async def answer(request: bytes, caller: PeerID) -> bytes:
        # it asks the network and the disk, and other calls should not wait for those
        answered = await asyncio.to_thread(renewals.answer, request, caller)
        return answered.model_dump_json(by_alias=True).encode()

    async def listen() -> P2P:
        p2p = await join_daemon(dht)
        await p2p._client.add_unary_handler(renewal_handle(context.run.name), answer)
        return p2p

    p2p: P2P | None = None
    try:
        try:
            p2p = loop.call(listen(), START_TIMEOUT)
        except Exception as error:
            raise SwarmError(f"passes cannot be renewed over libp2p ({error!r}); start again") from None
        yield
    finally:
        if p2p is not None:
            with contextlib.suppress(TooLate):  # the DHT is gone
                loop.call(p2p.shutdown(), CLOSE_TIMEOUT)
        loop.stop()


class PassTime:
    """The time by which passes expire: it stops while the HTTP service, which renews them, does not answer.

    `time` is in unix seconds. How passes use it: see `Gate`.
    """

    def __init__(self, last: float):
        """`last` is its time when the coordinator stopped, 0 in a new run, which has no passes to renew yet."""
        self.time = last
        self._answers_since = None if last else float("-inf")

    def note(self, answers: bool, now: float) -> None:
        """Note whether the service answers at this time, in unix seconds."""
        if not answers:
            self._answers_since = None
            return
        self._answers_since = now if self._answers_since is None else self._answers_since
        if now >= self._answers_since + GRACE:
            self.time = max(self.time, now)


def answers(url: str) -> bool:
    """Whether the service answers a request. That its thread is alive is not enough: it may be out of connections."""
    try:
        return httpx.get(f"{url}/healthz", timeout=REQUEST_TIMEOUT, trust_env=False, verify=False).status_code == 200
    except httpx.HTTPError:
        return False


def keep_pass_time(url: str, notices: NoticeStore, stop: threading.Event) -> None:
    """Keep the notices' pass time until `stop` is set. `url` is where this machine reaches the service."""
    passes, answered = PassTime(notices.pass_time), True
    while True:
        found = answers(url)
        if stop.is_set():
            return
        passes.note(found, clock.now())
        notices.pass_time = passes.time
        if found is not answered:
            answered = found
            if found:
                logger.warning("the HTTP service answers again; passes expire again in %.0f s", GRACE)
            else:
                logger.warning("%s: the HTTP service does not answer; passes do not expire meanwhile", url)
        if stop.wait(CHECK_EVERY):
            return
