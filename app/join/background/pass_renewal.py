"""Keeps a peer's pass and notices fresh while it trains, in two background threads.

The pass is renewed over HTTP, or over libp2p where that fails. While the coordinator is away training goes on and the
renewal is retried; only a ban or the end of the run ends the session. Notices usually come through the swarm, but the
DHT of every peer refuses a banned one, often before the notice that says so has reached it: when no newer notices have
come for a while, they are fetched over HTTP.
"""

import base64
import logging
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from hivemind.dht import DHT
from hivemind.dht.node import DHTNode
from hivemind.p2p import PeerID
from pydantic import TypeAdapter, ValidationError

from app.join.address import is_private
from app.join.coordinator_client import CoordinatorClient
from app.join.problems import AWAY, JoinProblem, ProblemKind
from app.join.refusals import told
from swarm import clock
from swarm.access.gate import Gate
from swarm.access.join_messages import JoinRequest, Refused, RenewalRequest, Renewed, renewal_handle
from swarm.access.passes import check_pass, read_pass
from swarm.access.pause_messages import OrderQuestion
from swarm.errors import SahajError
from swarm.language import _, mark
from swarm.logging.logs import log_failure
from swarm.tasks import within

logger = logging.getLogger(__name__)

LONGEST_PAUSE = 60.0  # seconds between two attempts
SHORTEST_PAUSE = 1.0
CLOCK_CHECK_EVERY = 5.0  # seconds
FINAL = frozenset({ProblemKind.BANNED, ProblemKind.FINISHED})
# problems of HTTP after which libp2p is tried; every other one is the organizer's decision
RETRY_OVER_LIBP2P = AWAY | {ProblemKind.NOT_A_COORDINATOR, ProblemKind.HUB_AWAY, ProblemKind.TOO_MANY}

NOTICES_OVERDUE = 40.0  # seconds without newer notices, which the coordinator publishes every 20 s
NOTICES_CHECK_EVERY = 1.0  # seconds
FETCH_NOTICES_EVERY = 20.0  # seconds

ANSWER: TypeAdapter[Renewed | Refused] = TypeAdapter(Renewed | Refused)
ANSWERED_WITHIN = 15.0  # seconds, over libp2p
T = TypeVar("T")
WORK = (mark("training"), mark("hosting"))  # what a peer does, as callers name it


class Renewal:
    """Renews the pass in the gate, and fetches notices if none come through the swarm.

    Args:
        say: called with one line when the state of the renewal changes.
        ended: called once with the reason, when this peer may not go on.
        renewed: called with each new pass.
        work: what goes on while the pass cannot be renewed.
    """

    def __init__(
        self,
        contact: "CoordinatorContact",
        gate: Gate,
        peer_id: PeerID,
        *,
        say: Callable[[str], None],
        ended: Callable[[str], None],
        renewed: Callable[[Renewed], None] = lambda answer: None,
        work: str = "training",
    ):
        self._contact, self._gate, self._peer_id, self._expires = contact, gate, peer_id, gate.own.expires
        self._say, self._ended, self._renewed, self._work = say, ended, renewed, work
        self._stop = threading.Event()
        self._trouble = ""  # what was last said about it
        self.ended_by: JoinProblem | None = None

    def start(self, dht: DHT) -> None:
        """Start the threads; hivemind's processes must have been forked before."""
        threading.Thread(target=self._keep_renewing, args=(dht,), name="renewal", daemon=True).start()
        notices = (self._gate, self._contact.fetch_notices, self._stop)
        threading.Thread(target=keep_fetching_notices, args=notices, name="notices", daemon=True).start()

    def stop(self) -> None:
        """Ask both threads to end."""
        self._stop.set()

    def _keep_renewing(self, dht: DHT) -> None:
        failures, asked_pause = 0, 0.0
        while not self._wait(max(asked_pause, pause(self._expires, clock.now(), failures, random.random()))):
            try:
                self._use(self._ask(dht))
            except Exception as problem:  # whatever it is, training goes on, and the next attempt may succeed
                if isinstance(problem, JoinProblem) and problem.kind in FINAL:
                    self.ended_by = problem
                    self._ended(str(problem))
                    return
                failures += 1
                if not isinstance(problem, SahajError):
                    log_failure(problem, "the pass could not be renewed")
                asked_pause = min(getattr(problem, "retry_after", 0.0), LONGEST_PAUSE)
                if (trouble := _describe(problem, self._work)) != self._trouble:
                    self._trouble = trouble
                    self._say(trouble)
            else:
                failures, asked_pause = 0, 0.0
                if self._trouble:
                    self._trouble = ""
                    self._say(_("The coordinator is back, and the pass is renewed."))

    def _wait(self, seconds: float) -> bool:
        """Wait by the wall clock, as a machine that slept wakes up with an old pass; returns whether to stop."""
        due = clock.now() + seconds
        while (left := due - clock.now()) > 0:
            if self._stop.wait(min(left, CLOCK_CHECK_EVERY)):
                return True
        return self._stop.is_set()

    def _ask(self, dht: DHT) -> Renewed:
        try:
            return self._contact.renew()
        except JoinProblem as problem:
            if problem.kind not in RETRY_OVER_LIBP2P:
                raise
            try:
                return self._contact.renew_over_libp2p(dht)
            except Exception as second:
                if isinstance(second, JoinProblem) and second.kind in FINAL:
                    raise
                logger.debug("not over libp2p either: %r", second)
            raise

    def _use(self, answer: Renewed) -> None:
        own = read_pass(answer.pass_)
        check_pass(own, self._gate.authority, self._gate.run_name, self._peer_id)
        self._gate.take_notice(answer.notices)
        self._gate.renew(own)
        self._expires = own.expires
        self._renewed(answer)


def keep_fetching_notices(gate: Gate, fetch: Callable[[], bytes], stop: threading.Event) -> None:
    """Fetch signed notices whenever the newest are overdue, until `stop` is set."""
    newest, received, fetched = 0.0, time.monotonic(), float("-inf")
    while not stop.wait(NOTICES_CHECK_EVERY):
        now = time.monotonic()  # not the time in the notices: the coordinator's clock may differ from ours
        if gate.notices.time != newest:
            newest, received = gate.notices.time, now
        if now - received < NOTICES_OVERDUE or now - fetched < FETCH_NOTICES_EVERY:
            continue
        fetched = now
        try:
            gate.take_notice(fetch())
        except Exception as error:  # the coordinator is away: the renewal says so, and training goes on
            logger.debug("notices could not be fetched: %r", error)


def pause(expires: float, now: float, failures: int, luck: float) -> float:
    """Seconds until the next attempt: half of the time left or, after failures, exponential backoff.

    Args:
        expires: of the pass, unix time in seconds, as `now`.
        failures: in a row since the last success.
        luck: from 0 to 1; spreads the peers that wait for the same coordinator.
    """
    if not failures:
        return max(SHORTEST_PAUSE, (expires - now) / 2)
    return max(SHORTEST_PAUSE, min(LONGEST_PAUSE, 2.0 ** min(failures, 10)) * (0.5 + 0.5 * luck))


def _describe(problem: Exception, work: str) -> str:
    if isinstance(problem, JoinProblem) and problem.kind in AWAY:
        return _(
            "The coordinator is not answering; {work} continues, and the program will ask again within a minute."
        ).format(work=_(work))
    reason = str(problem) if isinstance(problem, SahajError) else type(problem).__name__
    return _(
        "Your permission to take part (the pass) could not be renewed ({reason}); {work} continues, and the program "
        "will try again."
    ).format(reason=reason, work=_(work))


class CoordinatorContact:
    """Asks one coordinator, which may be away or have moved, for newer passes and notices.

    Over HTTP it asks at the link by which the peer joined and, if nothing answers there, at the URL in the organizer's
    signed notices; over libp2p it asks the peer that the notices name. Every call raises a JoinProblem if it fails.
    Each call opens its own connection: the peer forks, and its helper processes must not share one.
    """

    def __init__(self, link: str, gate: Gate, request: JoinRequest, token: str | None):
        self._link, self._gate, self._request, self._token = link, gate, request, token

    def renew(self) -> Renewed:
        """Ask for a new pass over HTTP, with the Hub token."""
        return self._ask(lambda client: client.join(self._request, self._token))

    def fetch_notices(self) -> bytes:
        """Ask for the signed notices over HTTP."""
        return self._ask(CoordinatorClient.notices)

    def pause_order(self, question: OrderQuestion) -> bool:
        """Ask over HTTP whether the person of this machine wants it to pause."""
        return self._ask(lambda client: client.pause_order(question))

    def renew_over_libp2p(self, dht: DHT) -> Renewed:
        """Ask for a new pass by showing the old one; the token stays on this machine.

        The coordinator is called by the peer id in the authority's notices, so libp2p authenticates both ends: the call
        comes from the peer that the pass was given to, and the answer, even a refusal, from the coordinator.
        """
        gate = self._gate
        if not gate.notices.coordinator:
            raise JoinProblem(ProblemKind.NO_ANSWER, "the coordinator has not told its peer id")
        shown = {"pass": base64.b64encode(gate.own.to_bytes())}
        request = RenewalRequest.model_validate(self._request.model_dump() | shown).model_dump_json(by_alias=True)
        handle, encoded = renewal_handle(gate.run_name), request.encode()
        asking = partial(_ask_over_libp2p, coordinator=gate.notices.coordinator, handle=handle, request=encoded)
        answered: bytes | None = dht.run_coroutine(asking, return_future=True).result(2 * ANSWERED_WITHIN)
        try:
            answer = ANSWER.validate_json(answered or b"")
        except ValidationError:
            raise JoinProblem(ProblemKind.NO_ANSWER, "the coordinator does not answer over libp2p") from None
        if isinstance(answer, Refused):
            raise JoinProblem(ProblemKind[answer.error.name], told(answer))
        return answer

    def _ask(self, question: Callable[[CoordinatorClient], T]) -> T:
        try:
            with CoordinatorClient(self._link, tolerance=float("inf")) as client:
                return question(client)
        except JoinProblem as problem:
            moved_to = self._gate.notices.url
            if problem.kind not in AWAY or not may_follow(self._link, moved_to):
                raise
            with CoordinatorClient(moved_to, tolerance=float("inf")) as client:
                return question(client)


async def _ask_over_libp2p(_dht: DHT, node: DHTNode, coordinator: str, handle: str, request: bytes) -> bytes | None:
    """In the node's process, which holds the connections to other peers; None if there is no answer."""
    try:
        async with within(ANSWERED_WITHIN):
            return bytes(await node.p2p._client.call_unary_handler(PeerID.from_base58(coordinator), handle, request))
    except Exception as error:  # away, or not listening: the next attempt will tell
        logger.debug("the coordinator does not answer over libp2p: %r", error)
        return None


def may_follow(link: str, moved_to: str) -> bool:
    """Whether what is sent to the link may be sent there, too: a token must not leave encryption behind."""
    elsewhere = moved_to != "" and moved_to.rstrip("/") != link.rstrip("/")
    as_safe = moved_to.startswith("https://") or link.startswith("http://")
    # a private address of the coordinator's network is another machine in ours
    as_far = is_private(link) or not is_private(moved_to)
    return elsewhere and as_safe and as_far
