"""Writes into the ledger who contributed what, by the headers of the log, and what peers report in signed records."""

import hashlib
import logging
import math
import random
import shlex
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from hivemind.p2p import PeerID

from averaging.log.credit import contributions, session_id
from averaging.log.header import Header, HeaderKind, Member, peer_of
from averaging.protocol.commit.objections import LARGEST_LOSS
from averaging.shell.audit import Comparison, Verdict
from coordinator.access.decisions import AccessControl
from coordinator.cached import Cached
from coordinator.ledger.audits.flags import AGAINST, MEAN, PIECE, Audits
from coordinator.ledger.audits.probation import Doubt, Probation
from coordinator.ledger.history import MinuteRecorder
from coordinator.ledger.ingest import Contribution, SessionReport, is_plausible, is_text
from coordinator.ledger.rounds import Flag, LoudGradients, OddLosses, SeenRound
from coordinator.ledger.serving import ServingBound
from coordinator.replica import Applied, Replica
from coordinator.run_context import RunContext
from coordinator.state_folder import EVIDENCE, PEERS
from swarm import clock
from swarm.access.gate import Gate
from swarm.access.passes import PassRefused
from swarm.countries import COUNTRIES
from swarm.dht import remembered_peers
from swarm.dht.multiaddrs import is_loopback, leads_to
from swarm.dht.records import SessionRecord, is_present
from swarm.errors import SahajError, StorageError
from swarm.run_file import RunFile

logger = logging.getLogger(__name__)

BACK_UP_EVERY = 60.0  # seconds
HEADERS_PER_TRANSACTION = 512
LONG_AGO = 0.0  # unix seconds: an old report changes nothing but credit
MOST_ADDRESSES = 7  # of other peers that a newcomer gets, beside the coordinator's
# fields of a record that go into the report unchanged
REPORTED = SessionRecord.__fields__.keys() & SessionReport.__dataclass_fields__.keys() - {
    "session_id",
    "country",
    "served",
}

AdmittedRecord: TypeAlias = tuple[PeerID, str, SessionRecord]  # its signer, and the user in its pass


class Recorder:
    """Not for several threads."""

    def __init__(
        self,
        context: RunContext,
        sessions: Cached[list[tuple[PeerID, SessionRecord]]],
        log: Replica,
        access: AccessControl,
        went_back: Callable[[Header], None] = lambda rollback: None,
    ):
        """
        Args:
            sessions: their records in the DHT.
            access: its notices shut out who lies, and have doubtful users left out of means.
            went_back: is told of each rollback in the log on the disk; again if the ledger does not take its header.
        """
        self._run, self._ledger, self._say = context.run, context.ledger, context.say
        self._log, self._gate, self._notices, self._went_back = log, access.gate, access.notices, went_back
        self._peers = context.folder / PEERS
        self._minutes = MinuteRecorder(context.ledger.history)
        self._audits = Audits(context.folder / EVIDENCE)
        self._to_ban: list[Flag] = []
        self._rounds: list[SeenRound] = []  # not written yet
        self._flags: list[Flag] = []  # not written yet
        looks = self._run.access.robust != "off" and self._run.averaging.target_group_size is None
        self._probation = Probation(access.notices.decisions.on_probation)
        self._odd: tuple[OddLosses | LoudGradients, ...] = (OddLosses(), *([LoudGradients()] if looks else []))
        self._serving = serving_bound(self._run)
        self._backed_up = -math.inf  # monotonic seconds
        self._sessions = sessions

    def bring_up_to_date(self, *, final: bool = False) -> int:
        """Write what is new; returns the number of trainers that are present now.

        Raises:
            LedgerError: what was read is written by the next call.
        """
        if final:  # what peers have published in the last seconds, too
            self._sessions.forget()
        while (present := self._enter(final)) is None:
            pass
        self._minutes.note()
        return present

    def _enter(self, final: bool) -> int | None:
        """Write one transaction; returns None if more headers are to be entered before the end."""
        self._take_rounds(self._log.applied())
        self._take_what_was_found()  # also while the ledger is away
        records = admitted(self._sessions(), self._gate)
        fraction = self._run.data.masked_fraction
        reports = session_reports(records)
        entries, place = self._log.entries_after(self._ledger.place(), HEADERS_PER_TRANSACTION)
        headers = [entry.header for entry in entries]
        for rollback in (one for one in headers if one.kind is HeaderKind.ROLLBACK):
            self._went_back(rollback)
        members = {ledger_id(member.session) for header in headers for member in header.members}
        known = self._ledger.known_sessions(members.difference(one.session_id for one in reports))
        now = clock.now()
        enforces = self._run.access.robust == "enforce"
        reports = credited(reports, headers, known, fraction, now, enforces=enforces)
        new = self._ledger.record(reports, now, place if entries else None, self._serving)
        self._raise_flags([header for header in headers if header.digest in new])
        self._ledger.rounds.write(self._rounds, self._flags, now)
        self._rounds, self._flags = [], []
        if final and entries:
            return None
        if final or time.monotonic() >= self._backed_up + BACK_UP_EVERY:
            self._backed_up = time.monotonic()  # also if it fails: to try at each look would keep the disk busy
            try:
                self._ledger.back_up()
            except StorageError as error:  # the ledger itself is written
                self._say(f"problem: {error}")
            if ways := reachable(records, loopback=True):
                remembered_peers.remember(self._peers, ways)
        return sum(is_present(record) and not record.hosts_experts for _, _, record in records)

    def _take_rounds(self, applied: Iterable[Applied]) -> None:
        for one in applied:
            step = one.header.step
            self._probation.passed(step)
            if one.header.kind is HeaderKind.UPDATE and one.gradient_norm is not None:
                self._rounds.append(SeenRound(step - 1, one.gradient_norm, one.seconds))
                if one.seconds is not None:
                    self._minutes.round_ended(one.seconds)

    def _take_what_was_found(self) -> None:
        doubts: list[Doubt] = []
        for found in self._log.found():
            if isinstance(found, Verdict):
                self._take_verdict(found)
            seen, users = found.agreement, dict(found.users)
            doubts += self._probation.take_in(found.header, seen, users, of_own_part=isinstance(found, Comparison))
        self._doubt(doubts)
        self._ban_them()

    def _take_verdict(self, verdict: Verdict) -> None:
        """Where the run enforces, those of whom a lie is proved, or who work against the others, are shut out."""
        flags = list(filter(has_a_name, self._audits.flags(verdict)))
        try:
            self._audits.keep(verdict, flags)
        except StorageError as error:
            logger.warning("evidence is not kept: %s", error)
        proved = {peer_of(one.session) for one in verdict.findings if one.is_proof}
        for flag in flags:
            self._raise(flag)
            is_sure = flag.kind == AGAINST or (flag.kind in (MEAN, PIECE) and flag.peer_id in proved)
            if is_sure and self._run.access.robust == "enforce":
                self._to_ban.append(flag)

    def _ban_them(self) -> None:
        """Those that cannot be banned now, as the disk is full, are banned later."""
        while self._to_ban:
            flag = self._to_ban[0]
            try:
                self._notices.ban(flag.user, flag.peer_id)
            except SahajError as error:
                logger.warning("%s is not banned yet: %s", flag.user, error)
                return
            way_on = "unban {0}` undoes that" if flag.kind == AGAINST else "evidence {0}` writes what proves it"
            self._say(f"{flag.user} is banned; `sahaj admin LINK {way_on.format(shlex.quote(flag.user))}.")
            del self._to_ban[0]

    def _doubt(self, doubts: Iterable[Doubt]) -> None:
        """Say who is doubted and, where the run enforces, leave all doubted users out of means."""
        if self._run.access.robust == "enforce":
            try:
                self._notices.put_on_probation(self._probation.users)
            except SahajError as error:  # the next one tries it again
                logger.warning("it is not told who is on probation: %s", error)
            for one in doubts:
                self._say(
                    f"attention: {one.user} {one.what}; this user's gradients are left out of the mean until they look "
                    "normal again"
                )

    def _raise_flags(self, headers: Iterable[Header]) -> None:
        for header in headers:
            for flag in filter(has_a_name, (flag for odd in self._odd for flag in odd.flags(header))):
                self._raise(flag)

    def _raise(self, flag: Flag) -> None:
        self._flags.append(flag)
        self._say(f"attention: {flag.user} {flag.what}")


def has_a_name(flag: Flag) -> bool:
    """Whether its names are ones that passes have: the header of a hostile convener may say anything."""
    return is_text(flag.user) and is_text(flag.peer_id)


def serving_bound(run: RunFile) -> ServingBound | None:
    """For what hosts of experts are credited; None if the run has no experts."""
    section = run.experts
    return None if section is None else ServingBound(section.experts_of_a_row, run.data.masked_fraction)


def ledger_id(session: str) -> str:
    """The id in the ledger of a session that a header names."""
    return bound_id(session_id(session), peer_of(session))


def bound_id(claimed: str, peer_id: str) -> str:
    """The id in the ledger of a session of a peer: 32 hexadecimal digits that no other peer can claim."""
    return hashlib.sha256(f"{peer_id} {claimed}".encode()).hexdigest()[:32]


def credited(
    reports: Iterable[SessionReport],
    headers: Sequence[Header],
    known: Collection[str],
    masked_fraction: float,
    now: float,
    *,
    enforces: bool = False,
) -> list[SessionReport]:
    """The reports, with what the headers credit each session; sessions without a report get one from the headers.

    Args:
        known: sessions without a report, of which the ledger had one.
        masked_fraction: of the tokens, which tells from masked tokens how many were read.
        now: unix time.
        enforces: see `averaging.log.credit`.
    """
    reports = list(reports)
    by_id = {report.session_id: report for report in reports if is_plausible(report, now)}
    contributed: dict[str, list[Contribution]] = {}
    for header in headers:
        members = {member.session: member for member in header.members}
        for one in contributions(header, enforces=enforces):
            name, member = ledger_id(one.session), members[one.session]
            if name not in by_id:
                by_id[name] = _without_record(member, header.step, LONG_AGO if name in known else now)
            contributed.setdefault(name, []).append(
                Contribution(
                    header=header.digest,
                    step=header.step - 1,
                    samples=round(one.samples),
                    tokens=round(float(one.tokens) / masked_fraction),
                    loss=member.loss if member.loss is not None and 0.0 <= member.loss <= LARGEST_LOSS else 0.0,
                )
            )
    impossible = [report for report in reports if not is_plausible(report, now)]  # the ledger logs them
    found = [replace(report, contributions=tuple(contributed.get(name, ()))) for name, report in by_id.items()]
    return [*impossible, *found]


def _without_record(member: Member, step: int, seen: float) -> SessionReport:
    """The report of a session whose record has expired or has not arrived yet; `seen` is in unix seconds."""
    return SessionReport(
        session_id=ledger_id(member.session),
        user=member.user,
        peer_id=peer_of(member.session),
        client_mode=not member.reachable,
        started=seen,
        last_seen=seen,
        step=step,
    )


def reachable(records: Iterable[AdmittedRecord], *, loopback: bool) -> list[str]:
    """Addresses of some of these peers, if they accept connections.

    Args:
        loopback: include addresses that are reachable from this machine only, for a run that is all on it.
    """
    found = [
        address
        for signer, _, record in records
        if is_present(record) and not record.client_mode
        for address in record.addresses[:1]
        if leads_to(address, signer) and (loopback or not is_loopback(address))
    ]
    return random.sample(found, min(len(found), MOST_ADDRESSES))


def admitted(records: Iterable[tuple[PeerID, SessionRecord]], gate: Gate) -> list[AdmittedRecord]:
    """The records with the users that their passes name; those without a valid pass are left out."""
    found = []
    for signer, record in records:
        try:
            user = gate.admit(signer, record.shown_pass).user
        except PassRefused as error:
            logger.info("a session record of %s was ignored: %s", signer, error)
        else:
            found.append((signer, user, record))
    return found


def session_reports(records: Iterable[AdmittedRecord]) -> list[SessionReport]:
    """Signed records as reports for the ledger; the peer id is that of the signature, not a claim."""
    return [
        SessionReport(
            session_id=bound_id(record.session_id, str(signer)),
            user=user,
            peer_id=str(signer),
            country=record.country if record.country in COUNTRIES else None,
            last_seen=record.time,
            served={one.host: one.tokens for one in record.served},
            **record.dict(include=REPORTED),
        )
        for signer, user, record in records
    ]
