"""Accounts of who did what: read from peers' records, settled with what was averaged, written into the ledger."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from hivemind.dht import DHT

from coordinator.audit import REMEMBERED, Audit, Evidence, Key, key_of
from coordinator.flags import Flag, Kind, SeenRound
from coordinator.history import Historian
from coordinator.ledger import Ledger, SessionReport
from coordinator.ledger_database import LedgerBroken
from coordinator.monitor import named_by_pass, reachable, session_reports
from coordinator.replica import Replica
from swarm import clock, known_peers
from swarm.gate import Gate
from swarm.records import CONTRIBUTIONS_KEPT, is_present, read_sessions
from swarm.run_file import RunFile
from trainer.averaging import RoundReport
from trainer.averaging.claims import HEAVIEST

STOPPING = 5.0  # seconds that the replica may take for that, once it is told to
BACK_UP_EVERY = 60.0  # seconds; much less than the life of a peer's record


class Accounts:
    """One reading after the other; not for several threads."""

    def __init__(
        self,
        run: RunFile,
        dht: DHT,
        ledger: Ledger,
        replica: Replica,
        historian: Historian,
        gate: Gate | None,
        say: Callable[[str], None],
        peers: Path,
    ):
        """`peers` is the file in which peers are remembered for the next start."""
        self._run, self._dht, self._ledger, self._replica, self._gate = run, dht, ledger, replica, gate
        self._historian, self._say, self._peers = historian, say, peers
        heaviest = HEAVIEST * run.averaging.target_batch_size
        averaged = ledger.audit.averaged(REMEMBERED)
        # what it wrote last may be of a part of the peers only
        went_away = max(0, ledger.progress().step - CONTRIBUTIONS_KEPT)
        self._audit = Audit(
            averaged,
            heaviest,
            run.data.max_length,
            evidence=gate is not None,
            went_away=went_away,
            sees_all=run.averaging.target_group_size is None,
        )
        self._unwritten: dict[Key, SessionReport] = {}
        self._rounds: list[SeenRound] = []  # not written yet
        self._flags: list[Flag] = []
        self._backed_up, self._backed_up_step = -math.inf, 0  # monotonic seconds, global step

    def bring_up_to_date(self, *, final: bool = False) -> int:
        """Read, settle and write; returns how many sessions are there now.

        Contributions to a global step wait in their records until the coordinator knows how its round ended.

        Args:
            final: it is the last time; wait for nobody.

        Raises:
            LedgerError: what was found is written the next time.
        """
        try:
            return self._bring_up_to_date(final)
        except LedgerBroken as error:
            done = self._ledger.put_back()
            if done is None:
                raise
            self._say(f"problem: {error}")
            self._say(done)
            return self._bring_up_to_date(final)

    def _bring_up_to_date(self, final: bool) -> int:
        if final:
            self._replica.has_stopped.wait(STOPPING)
        known_until = self._replica.known_until
        reports = self._replica.ended_rounds()
        records = named_by_pass(read_sessions(self._dht, self._run.name), self._gate)
        names = {str(signer): record.name for signer, record in records}
        for report in reports:
            self._take_in(report, names)
        settled, flags = self._audit.settle(
            session_reports(records), Evidence(records), known_until - 1, time.monotonic(), final=final
        )
        self._tell(flags)
        self._record([*with_unwritten(settled, self._unwritten)])
        self._ledger.audit.write(self._rounds, self._flags, clock.now())
        self._rounds, self._flags = [], []
        if final or self._backup_is_due(known_until):
            self._ledger.back_up()
            if ways := reachable(records, loopback=True):
                known_peers.remember(self._peers, ways)
            self._backed_up, self._backed_up_step = time.monotonic(), known_until
        return sum(is_present(record) for _, record in records)

    def _backup_is_due(self, step: int) -> bool:
        """What was done since must still be in the peers' records."""
        return (
            time.monotonic() >= self._backed_up + BACK_UP_EVERY
            or step >= self._backed_up_step + CONTRIBUTIONS_KEPT // 2
        )

    def _record(self, reports: list[SessionReport]) -> None:
        """Peers repeat what they did for a while only; a disk may be full for longer."""
        self._unwritten = {key_of(one): one for one in reports}
        self._ledger.record(reports)
        self._unwritten = {}

    def _take_in(self, report: RoundReport, names: Mapping[str, str]) -> None:
        """What the coordinator saw of a round; `names` are those of the peers that are there, by id."""
        self._historian.round_ended(report)
        own = str(self._dht.peer_id)
        if report.problem is None and report.weights is not None and report.gradient_norm is not None:
            samples = {peer: weight for peer, weight in report.weights.items() if peer != own}
            seen = SeenRound(report.step, samples, report.gradient_norm, report.seconds)
            self._audit.saw(seen)
            self._rounds.append(seen)
        what = f"sent numbers that are not finite in the round of global step {report.step + 1:,}"
        self._tell([Flag(Kind.NUMBERS, names.get(peer, "?"), peer, report.step, what) for peer in report.not_finite])

    def _tell(self, flags: list[Flag]) -> None:
        self._flags += flags
        for one in flags:
            self._say(f"attention: {one.user} {one.what}")


def with_unwritten(reports: Iterable[SessionReport], unwritten: Mapping[Key, SessionReport]) -> Iterator[SessionReport]:
    """The reports, each with those contributions of an older one that it does not repeat any more."""
    told = set()
    for report in reports:
        told.add(key_of(report))
        older = unwritten.get(key_of(report))
        if older is not None:
            repeated = {one.step for one in report.contributions}
            missing = tuple(one for one in older.contributions if one.step not in repeated)
            report = replace(report, contributions=missing + report.contributions)  # noqa: PLW2901
        yield report
    yield from (report for key, report in unwritten.items() if key not in told)
