"""Following a log that is ahead: load the newest snapshot where that is needed, then apply the updates since.

A peer whose own chain has lost to another first fetches what it needs of that one. Then it starts again from there as a
new session, since its old one may have promises in decisions that it will not see again.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

from averaging.log.chain import Chain
from averaging.log.header import Entry, Head, extends, peer_of, supersedes
from averaging.protocol.actions import Forget, Rejoin
from averaging.protocol.catching_up.trust import Trust
from averaging.protocol.fetching import Fetching, first_of
from averaging.protocol.messages import Log, WantLog
from averaging.protocol.session import Session

CLAIM = 10.0  # seconds for which a claim to be ahead counts
AHEAD = 8  # steps that may be applied before the process has taken them, and updates that are fetched at a time
VAIN = 4  # times that a peer is asked for the log of which it tells, before it is not believed
DOUBT = 30.0  # seconds after the last of them
IGNORED = 120.0  # seconds without following the logs of a peer that has told of a useless snapshot


@dataclass
class _Claim:
    head: Head
    at: float


class CatchingUp:
    """What others have that this peer lacks."""

    def __init__(self, session: Session, fetching: Fetching, trust: Trust, also_wanted: Callable[[], set[str]] = set):
        """`also_wanted`: digests that are fetched for other reasons than to catch up."""
        self._send, self._act, self._timeouts = session.send, session.act, session.timeouts
        self._fetching, self._trust, self._also_wanted = fetching, trust, also_wanted
        self._claims: dict[str, _Claim] = {}
        self._vain: dict[str, tuple[int, float]] = {}  # how often a peer was asked in vain, and when last; by peer id
        self._ignored: dict[str, float] = {}  # until when, by peer id
        self._asked_at = -1e9
        self._asked = 0
        self._told_at = -1e9  # when the entries or the log came
        self._log: Log | None = None  # with a snapshot that has to be loaded first
        self._source = ""
        self._loaded = "", ""  # digest of the snapshot that was loaded last, and who has told of it
        self.entries: list[Entry] = []  # that follow our head, in order
        self._checked: Entry | None = None  # the last one that was found to follow our head
        self._abandoned: set[str] = set()  # digests of a log that was given up when its holders had gone
        self._fetched = -1  # step up to which their updates were asked for
        self.reached = math.inf  # step that the process has the state of; infinite: it is always there at once

    @property
    def has_found(self) -> bool:
        """Whether there is something to load or to apply, once its chunks are here."""
        return bool(self.entries) or self._log is not None

    def is_behind(self, ours: Head | None) -> bool:
        """Whether somebody is known to be ahead, or this peer's process lags."""
        return any(_is_ahead(claim.head, ours) for claim in self._claims.values()) or self.follows(ours)

    def follows(self, ours: Head | None) -> bool:
        """Whether there is a log to follow, or this peer's process lags; what is only claimed does not count."""
        return self.has_found or self._lags(ours)

    def _lags(self, ours: Head | None) -> bool:
        """Whether the process has to take steps first; otherwise updates would pile up before it."""
        return ours is not None and ours.step >= self.reached + AHEAD

    def claims(self, session: str, head: Head, ours: Head | None, now: float) -> None:
        """A peer has said where it stands."""
        if _is_ahead(head, ours) and not self.is_doubted(session, now):
            self._claims[session] = _Claim(head, now)
            self.tick(ours, now)
        else:
            self._claims.pop(session, None)

    def is_doubted(self, session: str, now: float) -> bool:
        """Whether it tells of a log that it does not show; such a peer must not hold up the others."""
        times, at = self._vain.get(peer_of(session), (0, now))
        return (times >= VAIN and now < at + DOUBT) or self._is_ignored(session, now)

    def _is_ignored(self, session: str, now: float) -> bool:
        return now < self._ignored.get(peer_of(session), now)

    def tick(self, ours: Head | None, now: float) -> None:
        """Ask for the log of a peer that is ahead, each time another one."""
        self._vain = {session: one for session, one in self._vain.items() if now < one[1] + DOUBT}
        self._claims = {
            session: claim
            for session, claim in self._claims.items()
            if now < claim.at + CLAIM and _is_ahead(claim.head, ours) and not self.is_doubted(session, now)
        }
        target = self._target
        if (
            target
            and now >= self._told_at + CLAIM
            and all(supersedes(target, one.head) for one in self._claims.values())
        ):
            self._abandoned |= self.wanted()
            self._log, self.entries = None, []  # the peers that have all of it are gone
        self._want(now)
        is_busy = self.has_found or self._trust.proof is not None
        if not self._claims or now < self._asked_at + (5 if is_busy else 1) * self._timeouts.fetch:
            return
        heads = (claim.head for claim in self._claims.values())
        best = functools.reduce(lambda best, head: head if supersedes(head, best) else best, heads)
        holders = sorted(one for one, claim in self._claims.items() if not supersedes(best, claim.head))
        self._asked += 1
        self._ask(holders[self._asked % len(holders)], ours, now)

    def _ask(self, source: str, ours: Head | None, now: float) -> None:
        self._asked_at = now
        self._vain[peer_of(source)] = self._vain.get(peer_of(source), (0, now))[0] + 1, now
        self._send(source, WantLog(ours, self._trust.known))

    def log(self, session: str, log: Log, chain: Chain | None, now: float) -> None:
        """An answer: entries that follow ours, or a snapshot and what follows it."""
        if not log.entries or peer_of(session) not in self._vain or self._is_ignored(session, now):
            return  # it was not asked, or is not believed
        ours, tip = chain.head if chain else None, log.entries[-1].header
        proof = self._trust.proof
        # a part that leads no farther than the proof would lead back
        is_new = _is_ahead(tip.head, ours if not log.goes_on else proof.last.head if proof is not None else None)
        if not (is_new and self._trust.believes(session, log, chain, now)):
            return
        del self._vain[peer_of(session)]
        if log.goes_on:
            self._ask(session, ours, now)
        else:
            self.believed(session, log, chain, now)

    def believed(self, session: str, log: Log, chain: Chain | None, now: float) -> None:
        """Follow a log that is the run's."""
        ours, abandoned = chain.head if chain else None, self._abandoned | self.wanted()
        if self._target is not None and supersedes(self._target, log.entries[-1].header.head):
            return  # a session that has begun again for one chain does not go back to the one that has lost
        following = [index for index, entry in enumerate(log.entries) if ours and entry.header.previous == ours.digest]
        if following and (log.snapshot is None or log.snapshot.step < log.entries[following[0]].header.step):
            self._log, self.entries, self._source = None, list(log.entries[following[0] :]), session
        elif log.snapshot is not None and not (self.has_found and self._fetching.is_moving(now)):
            # what a thin line is loading is not left for a newer snapshot: beginning again with each never ends
            self._log, self.entries, self._source = log, [], session
        self._abandoned = set()
        self._begin_anew(abandoned, ours)
        self._fetch(now)

    def offered(self, session: str, entry: Entry, chain: Chain, now: float, *, is_member: bool) -> None:
        """The next header was committed a moment ago. Reducers send a member the update without being asked."""
        if not self.entries and self._log is None and self._trust.follows(chain.tip, entry):
            self.entries, self._source = [entry], session
            self._fetch(now, is_new=is_member)

    def _begin_anew(self, abandoned: set[str], ours: Head | None) -> None:
        """What was being fetched, and is wanted no longer, is asked for no longer, and not kept by a newcomer."""
        wanted = self.wanted()
        kept = wanted | self._also_wanted()
        self._fetching.want_only(kept)  # not what was proposed for a decided step
        if ours is None and abandoned - wanted:  # a peer with a chain drops the rest at its next step
            gone = sorted(self._fetching.held - kept - self._fetching.parts_of(kept))
            self._fetching.forget(gone)
            self._act(Forget(tuple(gone)))

    @property
    def _target(self) -> Head | None:
        """Where the log leads that is being followed."""
        entries = self.entries or (self._log.entries if self._log is not None else ())
        return entries[-1].header.head if entries else None

    def _fetch(self, now: float, *, is_new: bool = False) -> None:
        self._told_at = now
        if self._log is not None and self._log.snapshot is not None:
            sources = first_of([self._source], self._claims, but="")
            self._fetching.want_snapshot(self._log.snapshot.digest, sources, now)
        self._fetched = -1
        self._want(now, is_new=is_new)

    def _want(self, now: float, *, is_new: bool = False) -> None:
        """The next updates; later ones have to wait until these are applied and forgotten."""
        for entry in self.entries[:AHEAD]:
            if entry.header.step > self._fetched:
                self._fetched = entry.header.step
                sources = first_of([self._source], self._claims, but="")
                self._fetching.want_header(entry.header, sources, now, is_new=is_new)

    def load(self, ours: Head | None, now: float) -> tuple[Chain, Log] | None:
        """A log whose snapshot has come, and its chain up to there, for the caller to load; `entries` follow."""
        log = self._log
        if log is None or log.snapshot is None or self._lags(ours) or not self._fetching.holds([log.snapshot.digest]):
            return None
        self._log, self._loaded = None, (log.snapshot.digest, self._source)
        base = next(index for index, entry in enumerate(log.entries) if entry.header.step == log.snapshot.step)
        if ours is not None and not extends(log.entries[base].header.head, ours):
            ends = [entry.header.digest for entry in log.entries if entry.header.step == ours.step]
            if ends not in ([], [ours.digest]) or not extends(log.entries[-1].header.head, ours):
                self._act(Rejoin(log))
            return None
        self.entries = list(log.entries[base + 1 :])
        self._fetch(now)
        return Chain(log.entries[: base + 1]), log

    def cannot_load(self, snapshot: str, ours: Head | None, now: float) -> str:
        """A snapshot is of no use: leave its log, and ignore the peer that has told of it for a while.

        Returns that peer's session; empty: it is not followed.
        """
        wanted = self._log.snapshot.digest if self._log is not None and self._log.snapshot is not None else ""
        digest, source = (wanted, self._source) if wanted == snapshot else self._loaded
        if digest != snapshot:
            return ""
        self._ignored = {peer: until for peer, until in self._ignored.items() if now < until}
        self._ignored[peer_of(source)] = now + IGNORED
        self._claims.pop(source, None)
        abandoned, useless = self.wanted(), {snapshot, *self._fetching.parts_of([snapshot])}
        self._act(Forget(tuple(sorted(self._fetching.held & useless))))
        self._fetching.forget(useless)
        self._log, self.entries, self._loaded = None, [], ("", "")
        self._begin_anew(abandoned, ours)
        return source

    def go_on_from(self, old: "CatchingUp", log: Log | None, now: float) -> None:
        """Ignore the peers that the session before this one ignored, and follow the log that it has rejoined for."""
        self._ignored = dict(old._ignored)
        if log is not None:
            self.believed(old._loaded[1], log, None, now)

    def next_entry(self, chain: Chain) -> Entry | None:
        """The entry that can be applied now."""
        while self.entries and self.entries[0].header.step <= chain.tip.step:
            self.entries.pop(0)
        if not self.entries or self._lags(chain.head):
            return None
        if self.entries[0] is not self._checked and not self._trust.follows(chain.tip, self.entries[0]):
            self.entries = []
            return None
        self._checked = self.entries[0]
        if not self._fetching.holds(self.entries[0].header.needed):
            return None
        self._abandoned.clear()  # nothing but what is wanted is fetched after a step
        return self.entries.pop(0)

    def wanted(self) -> set[str]:
        """Digests that are still being fetched for it."""
        snapshot = {self._log.snapshot.digest} if self._log and self._log.snapshot else set()
        return snapshot.union(*(entry.header.needed for entry in self.entries))


def _is_ahead(theirs: Head, ours: Head | None) -> bool:
    return ours is None or supersedes(theirs, ours)
