"""What peers claim to have contributed, compared with what groups averaged: credit is for the latter.

The coordinator takes part in averaging and reduces a part, so it knows what every member of its group brought
(`trainer/averaging/witness.py`). Of a round without the coordinator those members tell who reduced a part, in their
own records. All of it is decided here, without a database or a network.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hivemind.p2p import PeerID

from coordinator.absence import Absence
from coordinator.flags import Flag, Kind, SeenRound, odd_ones
from coordinator.ledger_audit import Averaged
from coordinator.ledger_schema import Contribution, SessionReport
from swarm.records import MOST_SIGHTINGS, SessionRecord, mark_of

REMEMBERED = 200  # newest global steps that a claim may be of; a record carries 16, and stays for minutes
EVIDENCE_WAIT = 10.0  # seconds from the first claim of a step until all who saw its round have been heard
CLAIM_WAIT = 30.0  # seconds from a round until all its members have claimed what they brought
DENIERS = 2  # users who did not see somebody that they would have seen; one alone may be the liar
ODD_STEPS = 3  # global steps in a row in which a loss is odd, before anybody hears of it
LOSSES_WAIT = 4  # global steps until all records of one are there

Key = tuple[str, str]  # peer id and session id


def key_of(report: SessionReport) -> Key:
    """What tells sessions apart: anybody can claim the session of another."""
    return report.peer_id, report.session_id


class Evidence:
    """What the records of a reading say about others."""

    def __init__(self, records: Iterable[tuple[PeerID, SessionRecord]] = ()):
        self._about: defaultdict[tuple[int, bytes], dict[str, int]] = defaultdict(dict)
        self._witnesses: defaultdict[int, set[str]] = defaultdict(set)
        for _, record in records:
            for contribution in record.contributions:
                for one in contribution.seen:
                    told = self._about[contribution.step, one.peer]
                    told[record.name] = min(one.samples, told.get(record.name, one.samples))
                if 0 < len(contribution.seen) < MOST_SIGHTINGS:
                    self._witnesses[contribution.step].add(record.name)

    def about(self, step: int, peer_id: str) -> Mapping[str, int]:
        """The samples that a peer was seen to bring to a global step, by the user who tells it; each has one voice."""
        return self._about.get((step, mark_of(PeerID.from_base58(peer_id))), {})

    def witnesses(self, step: int) -> Collection[str]:
        """The users who tell of all whom they saw in a global step."""
        return self._witnesses.get(step, ())


@dataclass
class _Step:
    """What is known of one global step."""

    seen: SeenRound | None = None
    seen_at: float | None = None  # monotonic seconds
    limit: int | None = None  # samples of it that may still be credited, if only the sum is known
    first_claim: float = math.inf  # monotonic seconds
    credited: dict[Key, int] = field(default_factory=dict)
    losses: dict[str, float] = field(default_factory=dict)  # by peer
    like: Contribution | None = None  # one of its contributions
    compared: bool = False  # these losses


class Audit:
    """Follows the newest global steps; not for several threads."""

    def __init__(
        self,
        averaged: Mapping[int, Averaged],
        heaviest: float,
        longest: int,
        *,
        evidence: bool,
        went_away: float = math.inf,
        sees_all: bool = True,
    ):
        """Begin, or go on after a restart.

        Args:
            averaged: by global step, what the ledger knows.
            heaviest: the greatest weight that a peer has in a mean, in samples.
            longest: tokens that a sample has at most.
            evidence: whether peers tell what they saw; claims of steps without the coordinator wait for it then.
            went_away: global step from which on the ledger may lack what was done while there was no coordinator.
            sees_all: whether all peers average with the coordinator; in small groups only some do in each global step.
        """
        self._absence = Absence(went_away)
        self._accountable_from = went_away  # older claims than this nobody can have kept for us
        self._newest_seen: int | None = None
        self._heaviest, self._longest, self._patience = heaviest, longest, EVIDENCE_WAIT if evidence else 0.0
        self._sees_all = sees_all
        self._steps = {
            step: _Step(
                limit=one.samples - sum(one.credited.values()) if sees_all else None, credited=dict(one.credited)
            )
            for step, one in averaged.items()
        }
        self._late: set[str] = set()  # peers of whom it was said
        self._odd_for: dict[str, int] = {}  # global steps in a row with an odd loss, by peer
        self._open: set[int] = set()  # seen global steps that not all members have claimed
        self._like: Contribution | None = None  # the newest that was credited
        self._added: dict[Key, list[Contribution]] = {}  # credited without a claim

    def saw(self, one: SeenRound) -> None:
        """A round in which the coordinator took part has worked; a step that is done again begins anew."""
        self._steps[one.step] = _Step(seen=one)
        self._open.add(one.step)
        if self._newest_seen is not None and one.step > self._newest_seen + REMEMBERED:  # asleep, or cut off
            self._absence = Absence(self._newest_seen + 1)
        self._newest_seen = one.step
        self._absence.ended = min(self._absence.ended, one.step)

    def settle(
        self,
        reports: Iterable[SessionReport],
        evidence: Evidence,
        newest: int,
        now: float,
        *,
        final: bool = False,
    ) -> tuple[list[SessionReport], list[Flag]]:
        """The reports with the contributions that are to be credited now, and what to flag.

        Args:
            newest: global step up to which the coordinator knows how rounds ended; later claims wait.
            now: monotonic seconds.
            final: wait for nobody.
        """
        settled: list[SessionReport] = []
        flags: list[Flag] = []
        told: set[int] = set()  # steps of the time when nobody was here
        self._absence.look(newest, now)
        for report in reports:
            kept = []
            for claim in report.contributions:
                if claim.step > newest or claim.samples <= 0:
                    continue
                if claim.step < newest - REMEMBERED:
                    if claim.step < self._accountable_from:
                        flags += self._refuse_late(report, claim)
                    if not self._absence.covers(claim.step) or (
                        claim.step not in self._steps and self._absence.is_settled(report.peer_id, claim.step)
                    ):
                        continue
                    told.add(claim.step)
                if claim.tokens > (possible := claim.samples * self._longest):
                    claim = replace(claim, tokens=possible)  # noqa: PLW2901
                samples = self._judge(report, claim, evidence, flags, None if final else now)
                if samples:
                    kept.append(claim if samples == claim.samples else _with_samples(claim, samples))
            settled.append(replace(report, contributions=tuple(kept)))
        flags += self._odd_losses(settled, newest)
        settled = self._add_unclaimed(settled, newest, math.inf if final else now)
        self._forget(newest - REMEMBERED, told)
        oldest = newest - REMEMBERED
        self._added = {
            key_of(report): [one for one in self._added[key_of(report)] if one.step >= oldest]
            for report in settled
            if key_of(report) in self._added
        }
        return settled, flags

    def _forget(self, oldest: int, told: Collection[int]) -> None:
        """Let go of old steps; of the time when nobody was here those stay of which the ledger or somebody tells."""
        kept: dict[int, _Step] = {}
        for number, step in self._steps.items():
            covered = number < oldest and self._absence.covers(number)
            if number >= oldest or number in told or (covered and step.limit is not None):
                kept[number] = step
            elif covered:
                for peer, _ in step.credited:
                    self._absence.settle(peer, number)
        self._steps = kept

    def _judge(
        self,
        report: SessionReport,
        claim: Contribution,
        evidence: Evidence,
        flags: list[Flag],
        now: float | None,
    ) -> int | None:
        """The samples to credit, always the same for a claim that was heard before; None: it has to wait."""
        step = self._steps.setdefault(claim.step, _Step())
        known = step.credited.get(key_of(report))
        if known is not None:
            return known
        if not self._saw(step, report.peer_id) and step.limit is None and now is not None:
            step.first_claim = min(step.first_claim, now)
            if now < step.first_claim + self._patience:
                return None
        brought = self._brought(step, report, evidence, claim.step)
        already = sum(samples for (peer, _), samples in step.credited.items() if peer == report.peer_id)
        possible = self._heaviest if brought is None else min(brought, self._heaviest)
        samples = max(0, min(claim.samples, round(possible) - already))
        if step.seen is None and step.limit is not None:
            step.limit -= samples
        step.credited[key_of(report)] = samples
        # a peer that was so fast that it weighed less than it computed has said nothing false
        if samples < claim.samples and round(possible) < self._heaviest:
            claimed = f"claimed {claim.samples:,} samples of global step {claim.step + 1:,}"
            what = f"{claimed}, of which {samples:,} were averaged"
            flags.append(Flag(Kind.CLAIM, report.user, report.peer_id, claim.step, what))
        return samples

    def _add_unclaimed(self, reports: Sequence[SessionReport], newest: int, now: float) -> list[SessionReport]:
        """The reports with what their peers brought and do not claim: they died, or their own round failed in the end.

        How many tokens those samples had, and their loss, is what the step's other samples say. A peer that tells of
        them later changes nothing: a session's step is counted once.
        """
        sessions = {report.peer_id: report.session_id for report in reports}
        for number in [one for one in self._open if one <= newest]:
            step = self._steps[number]
            assert step.seen is not None, "only steps that were seen are open"
            step.seen_at = now if step.seen_at is None else step.seen_at
            claimed = {peer for peer, _ in step.credited}
            missing = {
                peer: round(one) for peer, one in step.seen.samples.items() if peer not in claimed and round(one)
            }
            like = step.like or self._like
            if not missing or number < newest - REMEMBERED:
                self._open.discard(number)
            elif now >= step.seen_at + CLAIM_WAIT and like is not None:
                for peer in missing.keys() & sessions.keys():
                    step.credited[peer, sessions[peer]] = missing[peer]
                    added = _with_samples(replace(like, step=number), missing[peer])
                    self._added.setdefault((peer, sessions[peer]), []).append(added)
        return [
            replace(report, contributions=report.contributions + tuple(self._added[key_of(report)]))
            if key_of(report) in self._added
            else report
            for report in reports
        ]

    def _brought(self, step: _Step, report: SessionReport, evidence: Evidence, number: int) -> float | None:
        """What a peer brought to a global step, as others saw it; None: nobody can tell."""
        if step.seen is not None and self._saw(step, report.peer_id):
            return step.seen.samples.get(report.peer_id, 0)
        if step.limit is not None:
            return step.limit
        told = [samples for user, samples in evidence.about(number, report.peer_id).items() if user != report.user]
        if told:
            return statistics.median_low(told)
        denied = self._sees_all and len(set(evidence.witnesses(number)) - {report.user}) >= DENIERS
        return 0 if denied else None

    def _saw(self, step: _Step, peer: str) -> bool:
        """Whether the coordinator knows what a peer brought, or that it brought nothing."""
        return step.seen is not None and (self._sees_all or peer in step.seen.samples)

    def _refuse_late(self, report: SessionReport, claim: Contribution) -> list[Flag]:
        if report.peer_id in self._late:
            return []
        self._late.add(report.peer_id)
        what = f"claimed {claim.samples:,} samples of global step {claim.step + 1:,}, which is long ago"
        return [Flag(Kind.LATE, report.user, report.peer_id, claim.step, what)]

    def _odd_losses(self, reports: Sequence[SessionReport], newest: int) -> list[Flag]:
        """Peers whose loss has left the others' for some global steps, by the steps that are new."""
        for report in reports:
            for one in report.contributions:
                if one.step < newest - REMEMBERED:
                    continue
                self._steps[one.step].losses.setdefault(report.peer_id, one.loss)
                self._like = self._steps[one.step].like = one
        flags = []
        users = {report.peer_id: report.user for report in reports}
        for number in sorted(self._steps):
            step = self._steps[number]
            if step.compared or not newest - REMEMBERED <= number <= newest - LOSSES_WAIT:
                continue
            step.compared = True
            odd = odd_ones(step.losses)
            for peer in step.losses:
                self._odd_for[peer] = self._odd_for.get(peer, 0) + 1 if peer in odd else 0
                if self._odd_for[peer] == ODD_STEPS and peer in users:
                    what = f"its training loss is {step.losses[peer]:.2f}, the others' about {odd[peer]:.2f}"
                    flags.append(Flag(Kind.LOSS, users[peer], peer, number, what))
        return flags


def _with_samples(claim: Contribution, samples: int) -> Contribution:
    return replace(claim, samples=samples, tokens=claim.tokens * samples // claim.samples)
