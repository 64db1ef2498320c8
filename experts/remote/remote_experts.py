"""A trainer's experts: on hosts elsewhere, called in groups, one request for each host and batch.

Once more than half of the rows of a batch are answered, the other hosts have not much longer. A host that does not
answer within the timeout, or is late with several calls in a row, is left out and looked for in the background until
it answers.
"""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from hivemind.p2p import P2P, PeerID
from hivemind.utils import get_logger
from torch import Tensor

from experts.codec import decode, encode
from experts.grid import Uid
from experts.host.settings import ExpertSettings, HostLimits
from experts.layer.calling import LARGEST
from experts.remote import wire
from experts.remote.availability import Availability, Refusals
from experts.remote.connection import HostConnection
from experts.remote.service import LEAVING, NOT_HERE
from experts.remote.wire import Kind, Part
from swarm.access.gate import Gate
from swarm.tasks import Tasks, within

logger = get_logger(__name__)

T = TypeVar("T")
MARGIN = 0.25  # seconds beyond the timeout, if the event loop is held up
# hosts are given PATIENCE_FACTOR times as long as the first half of the rows took, at least AT_LEAST seconds
PATIENCE_FACTOR, AT_LEAST = 4, 0.25
MOVED = (LEAVING.refused, NOT_HERE.refused)  # reasons why a host that answers has an expert no longer
MOST_VERSIONS = 4096  # of forward calls, for which the gradients may still come


class Loop(Protocol):
    """An event loop in another thread."""

    def call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run it there and wait for it."""

    def soon(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function there."""


@dataclass
class CallCounts:
    """Since the start: calls to one expert each, in both directions."""

    asked: int = 0
    answered: int = 0
    silent: int = 0  # times that a host was left out
    slowest: float = 0.0  # seconds that one forward or backward took


@dataclass(eq=False)
class _Host:
    peer: str  # its id
    connection: HostConnection
    availability: Availability


@dataclass(frozen=True)
class _Group:
    """What goes to one host in one request."""

    parts: tuple[Part, ...]
    payload: bytes


@dataclass(frozen=True)
class _Answered:
    """What a host answered for one expert."""

    host: str  # peer id
    version: int = 0
    data: bytes = b""  # empty if it refused


class RemoteExperts:
    """Reaches experts on hosts (an `ExpertCaller`). Threads may share it, but none may be that of the loop.

    An expert is not called with more rows than a request may hold, `HostLimits.request_rows`.

    Args:
        gate: has our pass and checks those of hosts.
        run: fingerprint of the run.
        timeout: seconds that a forward or a backward waits for hosts.
        hurries: whether it waits for slow hosts less long than that; not where nobody waits for the batch.
    """

    def __init__(
        self,
        loop: Loop,
        p2p: P2P,
        gate: Gate,
        run: str,
        settings: ExpertSettings,
        timeout: float,
        *,
        hurries: bool = True,
    ):
        self._loop, self._p2p, self._settings = loop, p2p, settings
        self._timeout, self._hurries = timeout, hurries
        self._greeting = wire.greeting(gate, run, settings)
        self._most_rows = HostLimits().request_rows
        self._hosts: dict[str, _Host] = {}  # by peer id, those in the table; changed by the loop alone
        self._routes: dict[Uid, str] = {}  # replaced as a whole
        self._refusals: dict[tuple[Kind, Uid], Refusals] = {}
        self._tasks = Tasks()
        self._versions: OrderedDict[tuple[Uid, int], int] = OrderedDict()  # by the hash of encoded inputs
        self.counts = CallCounts()
        self.lost_at = time.monotonic()  # monotonic seconds: when an expert was last found to have lost its host
        # rows that came back both ways, by the host's peer id; replaced as a whole
        self.served: Counter[str] = Counter()

    def use(self, routes: Mapping[Uid, PeerID]) -> None:
        """Call these hosts from now on: the newest table of the directory. From any thread."""
        before, self._routes = self._routes, {uid: peer.to_base58() for uid, peer in routes.items()}
        for uid in before:
            if self._routes.get(uid) != before[uid]:
                for kind in Kind:
                    self._refusals.pop((kind, uid), None)
        if before.keys() - routes.keys():
            self.lost_at = time.monotonic()
        self._loop.soon(self._keep, set(routes.values()))

    def close(self) -> None:
        """Close all streams."""
        self.use({})

    def alive(self) -> Collection[Uid]:
        """Experts whose hosts are in the table and have answered so far, but those that refuse again and again."""
        out, now = self._out(), time.monotonic()
        refusing = {uid for (_, uid), refusals in self._refusals.copy().items() if now < refusals.until}
        return [uid for uid, peer in self._routes.items() if peer not in out and uid not in refusing]

    def forward(self, inputs: Mapping[Uid, Tensor]) -> dict[Uid, Tensor]:
        """See `ExpertCaller`."""
        encoded = {uid: encode(rows) for uid, rows in inputs.items()}
        parts = {uid: Part(uid, len(rows)) for uid, rows in inputs.items()}
        answers = self._call(Kind.FORWARD, parts, encoded)
        decoded = self._decoded(Kind.FORWARD, answers, inputs)
        for uid in decoded:
            self._versions[uid, hash(encoded[uid])] = answers[uid].version
        while len(self._versions) > MOST_VERSIONS:
            self._versions.popitem(last=False)
        return decoded

    def backward(self, inputs: Mapping[Uid, Tensor], gradients: Mapping[Uid, Tensor]) -> dict[Uid, Tensor]:
        """See `ExpertCaller`."""
        parts, encoded = {}, {}
        for uid, rows in inputs.items():
            sent = encode(rows)
            parts[uid] = Part(uid, len(rows), self._versions.get((uid, hash(sent)), 0))
            encoded[uid] = sent + encode(gradients[uid])
        answers = self._call(Kind.BACKWARD, parts, encoded)
        decoded = self._decoded(Kind.BACKWARD, answers, inputs)
        served = Counter(self.served)
        for uid in decoded:
            served[answers[uid].host] += parts[uid].rows
        self.served = served
        return decoded

    def _call(self, kind: Kind, parts: Mapping[Uid, Part], encoded: Mapping[Uid, bytes]) -> dict[Uid, _Answered]:
        """Answers by expert, from all hosts that are alive; never raises."""
        begin = time.monotonic()
        routes, out = self._routes, self._out()
        of_host: dict[str, list[Uid]] = {}
        for uid, part in parts.items():
            if part.rows <= self._most_rows and uid in routes and routes[uid] not in out:
                of_host.setdefault(routes[uid], []).append(uid)
        came: dict[Uid, _Answered] = {}
        if of_host:
            groups = {host: self._groups(uids, parts, encoded) for host, uids in of_host.items()}
            try:
                self._loop.call(self._ask_all(kind, groups, came), self._timeout + MARGIN)
            except Exception as error:  # the loop has ended, or is held up
                logger.warning(f"experts could not be waited for: {error!r}")
        answers = came.copy()  # late ones still come into the other one
        self.counts.asked += len(parts)
        self.counts.slowest = max(self.counts.slowest, time.monotonic() - begin)
        return answers

    def _out(self) -> set[str]:
        """Hosts that are not called, as they have not answered."""
        return {peer for peer, host in self._hosts.copy().items() if host.availability.is_out}

    def _groups(self, uids: list[Uid], parts: Mapping[Uid, Part], encoded: Mapping[Uid, bytes]) -> list[_Group]:
        """One group, unless there are more rows or experts than a host takes at once."""
        groups: list[list[Uid]] = [[]]
        rows = 0
        for uid in uids:
            if groups[-1] and (rows + parts[uid].rows > self._most_rows or len(groups[-1]) == wire.MOST_PARTS):
                groups.append([])
                rows = 0
            groups[-1].append(uid)
            rows += parts[uid].rows
        return [_Group(tuple(parts[uid] for uid in some), b"".join(encoded[uid] for uid in some)) for some in groups]

    def _decoded(self, kind: Kind, answers: Mapping[Uid, _Answered], inputs: Mapping[Uid, Tensor]) -> dict[Uid, Tensor]:
        outputs = {}
        for uid, answer in answers.items():
            try:
                decoded = decode(answer.data, len(inputs[uid]), self._settings.width)
                if not (decoded.abs() <= LARGEST).all():
                    raise ValueError(f"numbers above {LARGEST:,.0f}")
            except ValueError as error:  # it refused or has diverged, and others of its host may be good
                logger.debug(f"expert {uid} did not answer with rows of its kind: {error}")
                self._refusals.setdefault((kind, uid), Refusals()).refused(time.monotonic())
                continue
            self._refusals.pop((kind, uid), None)
            outputs[uid] = decoded.to(inputs[uid].device)
        self.counts.answered += len(outputs)
        return outputs

    # -- in the loop

    async def _ask_all(self, kind: Kind, groups: Mapping[str, list[_Group]], answers: dict[Uid, _Answered]) -> None:
        """Fill in answers. Late requests go on, also if this is cancelled: each host is given its whole timeout."""
        asks: dict[asyncio.Task[int | None], _Host] = {}
        for peer, of_host in groups.items():
            host = self._host(peer)
            asks |= {self._tasks.begin(self._ask(host, kind, group, answers)): host for group in of_host}
        rows = sum(part.rows for of_host in groups.values() for group in of_host for part in group.parts)
        now = asyncio.get_running_loop().time
        begin, late = now(), set(asks)
        ends = begin + self._timeout + MARGIN
        while late and now() < ends:
            _, late = await asyncio.wait(late, timeout=ends - now(), return_when=asyncio.FIRST_COMPLETED)
            if self._hurries and sum(ask.result() or 0 for ask in asks.keys() - late) > rows / 2:
                ends = min(ends, begin + max(AT_LEAST, PATIENCE_FACTOR * (now() - begin)))
        late_hosts = {asks[ask] for ask in late}
        for host in {asks[ask] for ask in asks.keys() - late if ask.result() is not None} - late_hosts:
            host.availability.answered(kind)
        for host in late_hosts:
            if host.availability.late(kind):
                self._failed(host, "it is late again and again")

    async def _ask(self, host: _Host, kind: Kind, group: _Group, answers: dict[Uid, _Answered]) -> int | None:
        """Fill in what the host answers, and return the rows that were not refused.

        None: it has failed in some way, and is left out.
        """
        try:
            async with within(self._timeout):
                answer, payload = await host.connection.ask(kind, group.parts, group.payload)
            split = wire.split(answer, payload, group.parts)
            given = {uid: _Answered(host.peer, result.version, data) for uid, (result, data) in split.items()}
            answers |= {part.uid: _Answered(host.peer) for part in group.parts} | given
        except Exception as error:
            self._failed(host, str(error) or type(error).__name__)
            return None
        if any(result.refused in MOVED for result in answer.results):
            self.lost_at = time.monotonic()
        self._is_kept(host)
        return sum(part.rows for part in group.parts if part.uid in given)

    def _host(self, peer: str) -> _Host:
        if peer not in self._hosts:
            connection = HostConnection(self._p2p, self._greeting, self._settings, PeerID.from_base58(peer))
            self._hosts[peer] = _Host(peer, connection, Availability())
        return self._hosts[peer]

    def _keep(self, peers: set[PeerID]) -> None:
        """Close the connections to others, and forget them."""
        for peer in self._hosts.keys() - {one.to_base58() for one in peers}:
            self._hosts.pop(peer).connection.close()

    def _is_kept(self, host: _Host) -> bool:
        """Whether `_keep` has left the host; else a call that was on its way may have opened a new stream, to close."""
        is_kept = self._hosts.get(host.peer) is host
        if not is_kept:
            host.connection.close()
        return is_kept

    def _failed(self, host: _Host, reason: str) -> None:
        host.connection.close()
        if not self._is_kept(host):
            return
        wait = host.availability.failed()
        if wait is not None:
            self.counts.silent += 1
            self.lost_at = time.monotonic()
            logger.info(f"the experts of {host.peer} are left out for now: {reason}")
            self._tasks.begin(self._look_for(host, wait))

    async def _look_for(self, host: _Host, wait: float) -> None:
        """Until it answers, or has left the table."""
        while host.availability.is_out:
            await asyncio.sleep(wait)
            if not self._is_kept(host):
                return
            try:
                async with within(self._timeout):
                    await host.connection.ask(Kind.PING)
            except Exception as error:
                logger.debug(f"{host.peer} does not answer: {error!r}")
                host.connection.close()
                wait = host.availability.missed()
            else:
                host.availability.found()
        self._is_kept(host)
