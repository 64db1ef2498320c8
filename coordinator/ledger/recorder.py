"""Writes into the ledger who brought what, as the headers of the log say, and what peers tell of themselves."""

import hashlib
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hivemind.dht import DHT

from averaging.log.credit import contributions, session_id
from averaging.log.header import Header, HeaderKind, Member
from coordinator.ledger.flags import Flag, OddLosses, SeenRound
from coordinator.ledger.ingest import is_plausible
from coordinator.ledger.ledger import Contribution, Ledger, SessionReport
from coordinator.ledger.minutes import Historian
from coordinator.ledger.peer_records import named_by_pass, reachable, session_reports
from coordinator.ledger.storage.database import LedgerBroken
from coordinator.replica import Applied, Replica
from swarm import clock
from swarm.access.gate import Gate
from swarm.dht import known_peers
from swarm.dht.records import is_present, read_sessions
from swarm.run_file import RunFile

BACK_UP_EVERY = 60.0  # seconds
AT_ONCE = 512  # headers that are entered in one transaction
LONG_AGO = 0.0  # unix seconds: a report that changes nothing but what is credited


class Recorder:
    """One reading after the other; not for several threads."""

    def __init__(
        self,
        run: RunFile,
        dht: DHT,
        ledger: Ledger,
        log: Replica,
        historian: Historian,
        gate: Gate | None,
        say: Callable[[str], None],
        peers: Path,
    ):
        """`peers` is the file in which peers are remembered for the next start."""
        self._run, self._dht, self._ledger, self._log, self._gate = run, dht, ledger, log, gate
        self._historian, self._say, self._peers = historian, say, peers
        self._rounds: list[SeenRound] = []  # not written yet
        self._flags: list[Flag] = []  # not written yet
        self._losses = OddLosses()
        self._backed_up = -math.inf  # monotonic seconds

    def bring_up_to_date(self, *, final: bool = False) -> int:
        """Write what is new; returns how many sessions are there now.

        Raises:
            LedgerError: what was found is written the next time.
        """
        try:
            return self._enter_all(final)
        except LedgerBroken as error:
            done = self._ledger.put_back()
            if done is None:
                raise
            self._say(f"problem: {error}")
            self._say(done)
            return self._enter_all(final)

    def _enter_all(self, final: bool) -> int:
        while (present := self._enter(final)) is None:
            pass
        return present

    def _enter(self, final: bool) -> int | None:
        """One transaction; None: there is more to be entered before the end."""
        self._take_in(self._log.applied())
        records = named_by_pass(read_sessions(self._dht, self._run.name), self._gate)
        fraction = self._run.data.masked_fraction
        reports = [as_its_own(one) for one in session_reports(records)]
        entries, place = self._log.entries_after(self._ledger.place(), AT_ONCE)
        headers = [entry.header for entry in entries]
        unheard = {ledger_id(member.session) for header in headers for member in header.members}
        known = self._ledger.known_sessions(unheard.difference(one.session_id for one in reports))
        now = clock.now()
        new = self._ledger.record(credited(reports, headers, known, fraction, now), now, place if entries else None)
        self._look_at([header for header in headers if header.digest in new])
        self._ledger.rounds.write(self._rounds, self._flags, now)
        self._rounds, self._flags = [], []
        if final and entries:
            return None
        if final or time.monotonic() >= self._backed_up + BACK_UP_EVERY:
            self._ledger.back_up()
            if ways := reachable(records, loopback=True):
                known_peers.remember(self._peers, ways)
            self._backed_up = time.monotonic()
        return sum(is_present(record) for _, record in records)

    def _take_in(self, applied: Iterable[Applied]) -> None:
        for one in applied:
            if (seen := seen_round(one)) is not None:
                self._rounds.append(seen)
                if seen.seconds is not None:
                    self._historian.round_ended(seen.seconds)

    def _look_at(self, headers: Iterable[Header]) -> None:
        for header in headers:
            for flag in self._losses.take_in(header):
                self._flags.append(flag)
                self._say(f"attention: {flag.user} {flag.what}")


def ledger_id(session: str) -> str:
    """What the ledger calls a session: 32 hexadecimal digits, in which the peer's id is bound."""
    return _bound(session_id(session), session.partition(".")[0])


def as_its_own(report: SessionReport) -> SessionReport:
    """A report under an id that no other peer can claim; what it brought is in the headers."""
    return replace(report, session_id=_bound(report.session_id, report.peer_id), contributions=())


def _bound(claimed: str, peer_id: str) -> str:
    return hashlib.sha256(f"{peer_id} {claimed}".encode()).hexdigest()[:32]


def credited(
    reports: Iterable[SessionReport],
    headers: Sequence[Header],
    known: Collection[str],
    masked_fraction: float,
    now: float,
) -> list[SessionReport]:
    """The reports, with what the headers credit each session; sessions that are gone are there by the headers alone.

    Args:
        known: sessions without a report, of which the ledger had one.
        masked_fraction: of the tokens, which tells from masked tokens how many were read.
        now: unix time.
    """
    reports = list(reports)
    by_id = {report.session_id: report for report in reports if is_plausible(report)}
    brought: dict[str, list[Contribution]] = {}
    for header in headers:
        members = {member.session: member for member in header.members}
        for one in contributions(header):
            name, member = ledger_id(one.session), members[one.session]
            if name not in by_id:
                by_id[name] = _unheard_of(member, header.step, LONG_AGO if name in known else now)
            brought.setdefault(name, []).append(
                Contribution(
                    header=header.digest,
                    step=header.step - 1,
                    samples=round(one.samples),
                    tokens=round(float(one.tokens) / masked_fraction),
                    loss=member.loss or 0.0,
                )
            )
    impossible = [report for report in reports if not is_plausible(report)]  # the ledger says so
    found = [replace(report, contributions=tuple(brought.get(name, ()))) for name, report in by_id.items()]
    return [*impossible, *found]


def _unheard_of(member: Member, step: int, seen: float) -> SessionReport:
    """Of a session whose record is gone, or has not come yet; `seen` is in unix seconds."""
    return SessionReport(
        session_id=ledger_id(member.session),
        user=member.user,
        peer_id=member.session.partition(".")[0],
        client_mode=not member.reachable,
        device="",
        started=seen,
        last_seen=seen,
        step=step,
        samples_per_second=0.0,
        averaging_rounds=0,
        averaging_failures=0,
        data_wait_fraction=0.0,
        left=False,
    )


def seen_round(one: Applied) -> SeenRound | None:
    """What the ledger keeps of an update that was applied."""
    header = one.header
    if header.kind is not HeaderKind.UPDATE or one.gradient_norm is None:
        return None
    samples: Mapping[str, float] = {
        one.session.partition(".")[0]: float(one.samples) for one in contributions(header) if one.samples
    }
    return SeenRound(header.step - 1, samples, one.gradient_norm, one.seconds)
