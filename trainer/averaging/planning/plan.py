"""Who averages which part, and who computes gradients at all (DeDLOC, Diskin et al. 2021, section 3.2).

`make_plan` is a pure function of what the members of a group know of each other. All of them call it with the
same figures in the same order and get the same plan, down to the last element.

- `rounds.py`: how long a round takes for given trainers, and the shares with which it does
- `roles.py`: which trainers
- `parts.py`: whole elements
- `changes.py`: when a new choice is worth a change, and what the volunteer is told
- `program.py`: the whole linear program, which the others are checked against
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from swarm.errors import SwarmError
from trainer.averaging.planning.changes import settled
from trainer.averaging.planning.parts import part_sizes
from trainer.averaging.planning.roles import choose_trainers, step_seconds
from trainer.averaging.planning.rounds import Flags, Floats, Lines, best_shares, round_seconds, traffic

DIGITS = 6  # of each figure that count; what is measured has fewer
FASTEST_LINE = 1e12  # bytes a second; what is above is no line


class NobodyReachable(SwarmError):
    """Every member of a group is in client mode, so nobody can be sent a part to average."""


class Role(str, Enum):
    """What a peer does in global steps; everybody gets the mean and takes the step."""

    TRAINER = "trainer"
    AGGREGATING_TRAINER = "trainer that also aggregates"
    AGGREGATOR = "aggregator only"
    LISTENER = "listener"  # neither: what is left for a peer whose line is too thin for its gradients

    @property
    def trains(self) -> bool:
        """Whether the peer computes gradients."""
        return self in (Role.TRAINER, Role.AGGREGATING_TRAINER)

    @property
    def aggregates(self) -> bool:
        """Whether the peer averages a part for the others."""
        return self in (Role.AGGREGATING_TRAINER, Role.AGGREGATOR)


@dataclass(frozen=True)
class Peer:
    """What the others know of a member of a group."""

    samples_per_second: float  # gradients that it computes, or would; 0: it cannot
    upload: float  # bytes a second
    download: float  # bytes a second
    client_mode: bool = False  # accepts no connections
    role: Role | None = None  # in the last step; None: it has just come


@dataclass(frozen=True)
class GlobalStep:
    """What all peers of a group do together in a global step."""

    elements: int  # of the vector that is averaged
    wire_bytes: float  # of the whole vector as it travels
    samples: float  # of all peers: the target batch size
    overlap: bool = True  # peers go on computing while a round is under way
    smallest_part: int = 0  # elements; a part below is not worth a stream of its own
    all_send: bool = False  # who computes nothing sends all the same: parameters, or gradients of zero


@dataclass(frozen=True)
class Plan:
    """The parts and roles of all peers, in the order in which they were given, and what they lead to."""

    parts: tuple[int, ...]  # elements; they add up to the vector's length
    roles: tuple[Role, ...]
    averaging_seconds: float  # of a round
    computing_seconds: float  # until the trainers have the samples of a global step
    overlap: bool
    problem: str | None = None  # why this is the safe split, equal parts, and not the best one

    @property
    def step_seconds(self) -> float:
        """Of a global step."""
        both = (self.averaging_seconds, self.computing_seconds)
        return max(both) if self.overlap else sum(both)

    @property
    def waits_for_lines(self) -> bool:
        """Whether averaging, not computing, says how long a global step takes."""
        return self.averaging_seconds > self.computing_seconds


def make_plan(peers: Sequence[Peer], step: GlobalStep, senders: Sequence[bool] | None = None) -> Plan:
    """The plan with the shortest global steps; roles stay as they were unless a change is worth it.

    Where the figures allow no plan (a line that is not known, nobody who computes) it is the safe one, as hivemind has
    it without figures: equal parts for whoever can be reached, and everybody trains. `problem` says so.

    Args:
        peers: the members of a group.
        step: what they do together.
        senders: who sends gradients, where that is settled; absent: whoever it is best to let train.

    Raises:
        NobodyReachable: nobody can average.
        ValueError: there are no peers, or the step has no elements, bytes or samples.
    """
    if not peers or step.elements < 1 or not step.wire_bytes > 0 or not step.samples > 0:
        raise ValueError(f"nothing to plan: {len(peers)} peers, {step}")
    if len(peers) > 1 and all(peer.client_mode for peer in peers):
        raise NobodyReachable(f"all {len(peers)} peers are in client mode: one that others can reach has to average")
    peers = [_rounded(peer) for peer in peers]
    problem = next(filter(None, map(_mistake, range(len(peers)), peers)), None)
    computing = [peer.samples_per_second > 0.0 for peer in peers] if senders is None else senders
    if problem is None and not any(computing):
        problem = "nobody computes gradients"
    if problem is not None:
        return _safe(peers, step, problem)
    lines, speeds = _lines(peers, step), np.array([peer.samples_per_second for peer in peers])
    if senders is not None:
        return _with_trainers(peers, step, lines, np.array(senders))
    if step.all_send:  # then nobody spares a line by not computing
        return _with_trainers(peers, step, lines, speeds > 0.0)
    best = choose_trainers(lines, speeds, step.samples, overlap=step.overlap)
    held = np.array([peer.role.trains if peer.role else trains for peer, trains in zip(peers, best, strict=True)])
    held &= speeds > 0.0
    before, after = step_seconds(lines, np.array([held, best]), speeds, step.samples, overlap=step.overlap)
    return _with_trainers(peers, step, lines, held if settled(float(before), float(after)) else best)


def _with_trainers(peers: Sequence[Peer], step: GlobalStep, lines: Lines, trains: Flags) -> Plan:
    sends = trains | step.all_send
    seconds = float(round_seconds(lines, sends[None])[0])
    if not math.isfinite(seconds):
        return _safe(peers, step, "no round would ever end with these lines")
    shares = best_shares(lines, sends, seconds) if len(peers) > 1 else np.ones(1)
    return _plan(peers, step, trains, part_sizes(shares.tolist(), step.elements, step.smallest_part))


def equal_parts(peers: Sequence[Peer], step: GlobalStep) -> Plan:
    """What peers do without a plan: all who can train, and all who can be reached average as much as the others.

    Raises:
        NobodyReachable: nobody can average.
    """
    reachable = [float(not peer.client_mode or len(peers) == 1) for peer in peers]
    if not any(reachable):
        raise NobodyReachable(f"all {len(peers)} peers are in client mode: one that others can reach has to average")
    trains = np.array([peer.samples_per_second > 0.0 for peer in peers])
    return _plan(peers, step, trains, part_sizes(reachable, step.elements))


def _plan(peers: Sequence[Peer], step: GlobalStep, trains: Flags, parts: tuple[int, ...]) -> Plan:
    """Predict from whole parts; a line that carries nothing makes the round endless."""
    lines = _lines(peers, step)
    shares, sends = np.array(parts) / step.elements, trains | step.all_send
    up, down = traffic(shares, sends) if len(peers) > 1 else (np.zeros(1), np.zeros(1))
    averaging = max(_longest(up, lines.upload), _longest(down, lines.download))
    speed = math.fsum(peer.samples_per_second for peer, own in zip(peers, trains, strict=True) if own)
    roles = tuple(_role(bool(own), size) for own, size in zip(trains, parts, strict=True))
    return Plan(parts, roles, averaging, step.samples / speed if speed else math.inf, step.overlap)


def _safe(peers: Sequence[Peer], step: GlobalStep, problem: str) -> Plan:
    """Equal parts; what is not known of a peer counts as nothing."""
    known = [peer if _mistake(0, peer) is None else replace(peer, upload=0.0, download=0.0) for peer in peers]
    plan = equal_parts([replace(peer, samples_per_second=_known(peer.samples_per_second)) for peer in known], step)
    roles = tuple(Role.AGGREGATING_TRAINER if size else Role.TRAINER for size in plan.parts)
    return replace(plan, roles=roles, problem=f"equal parts, because {problem}")


def _role(trains: bool, size: int) -> Role:
    if trains:
        return Role.AGGREGATING_TRAINER if size else Role.TRAINER
    return Role.AGGREGATOR if size else Role.LISTENER


def _lines(peers: Sequence[Peer], step: GlobalStep) -> Lines:
    return Lines(
        upload=np.array([peer.upload for peer in peers]) / step.wire_bytes,
        download=np.array([peer.download for peer in peers]) / step.wire_bytes,
        reachable=np.array([not peer.client_mode for peer in peers]),
    )


def _longest(loads: Floats, speeds: Floats) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(loads > 0.0, loads / speeds, 0.0).max())


def _rounded(peer: Peer) -> Peer:
    """Figures as plans use them: what differs by less is the same to all members."""
    return replace(
        peer,
        samples_per_second=_significant(peer.samples_per_second),
        upload=_significant(peer.upload),
        download=_significant(peer.download),
    )


def _significant(figure: float) -> float:
    return float(f"{figure:.{DIGITS - 1}e}")


def _mistake(number: int, peer: Peer) -> str | None:
    for what, line in (("upload", peer.upload), ("download", peer.download)):
        if not 0.0 < line <= FASTEST_LINE:
            return f"the {what} of peer {number + 1} is {line:g} bytes a second"
    if not 0.0 <= peer.samples_per_second < math.inf:
        return f"peer {number + 1} computes {peer.samples_per_second:g} samples a second"
    return None


def _known(speed: float) -> float:
    return speed if 0.0 <= speed < math.inf else 0.0
