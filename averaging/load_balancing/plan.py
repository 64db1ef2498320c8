"""Which peer reduces which part, and which peers compute gradients (DeDLOC, Diskin et al. 2021, section 3.2).

- `closed_form.py`: how long a round takes for given trainers, and the shares with which it does
- `roles.py`: which trainers

What members of a round have said of themselves becomes their parts, and roles for the next step. The whole linear
program, which both are checked against, is `benchmarks/linear_program.py`.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate

import numpy as np

from averaging.bandwidth import MEGABIT
from averaging.load_balancing.closed_form import Flags, Floats, Lines, best_shares, round_seconds, traffic
from averaging.load_balancing.roles import choose_trainers, step_seconds
from averaging.protocol.messages import Assignment
from averaging.protocol.rounds.parts import MemberProfile, Planned, equal_parts
from averaging.reduce.gradient_codec import vector_bytes
from averaging.reduce.grid import Grid
from swarm.errors import SwarmError
from swarm.run_file import AveragingSection

MOST_REDUCERS = 32  # each member has a connection to all of them
WORTH_A_CHANGE = 0.1  # part of a global step's time that new roles must save; what is measured goes up and down
FASTER = 16.0  # than the usual peer: what is believed of a processor
FEWEST = 2  # trainers, if so many can: peers that bring nothing have no vote, and one voter alone may be gone at once


class NobodyReachable(SwarmError):
    """Every member of a group is in client mode, so no part has a reducer."""


class Role(str, Enum):
    """What a peer does in global steps; all peers get the mean and take the step."""

    TRAINER = "trainer"
    AGGREGATING_TRAINER = "trainer that also aggregates"
    AGGREGATOR = "aggregator only"
    LISTENER = "listener"  # neither: what is left for a peer whose line is too thin for its gradients

    @property
    def trains(self) -> bool:
        """Whether the peer computes gradients."""
        return self in (Role.TRAINER, Role.AGGREGATING_TRAINER)


@dataclass(frozen=True)
class Node:
    """What is known of a member of a group. Its line carries something in both directions."""

    samples_per_second: float  # gradients that it computes, or would; 0: it cannot
    upload: float  # bytes a second
    download: float  # bytes a second
    client_mode: bool = False  # accepts no connections
    trained: bool | None = None  # in the last step; None: it has just come


@dataclass(frozen=True)
class GlobalStep:
    """What all peers of a group do together in a global step."""

    chunks: int  # of the vector that is averaged; each has one reducer
    wire_bytes: float  # of the whole vector as it travels
    samples: float  # of all peers: the target batch size
    overlap: bool = True  # peers go on computing while a round is under way


def global_step(averaging: AveragingSection, grid: Grid) -> GlobalStep:
    """Of a run."""
    wire_bytes = vector_bytes(grid, averaging.compression)
    return GlobalStep(grid.count, wire_bytes, averaging.target_batch_size, averaging.overlap)


@dataclass(frozen=True)
class Plan:
    """The parts and roles of all peers, in the order in which they were given, and what they lead to."""

    parts: tuple[int, ...]  # chunks; they add up to all
    roles: tuple[Role, ...]
    averaging_seconds: float  # of a round
    computing_seconds: float  # until the trainers have the samples of a global step; infinite without trainers
    overlap: bool

    @property
    def step_seconds(self) -> float:
        """Of a global step."""
        both = (self.averaging_seconds, self.computing_seconds)
        return max(both) if self.overlap else sum(both)

    @property
    def waits_for_lines(self) -> bool:
        """Whether averaging, not computing, says how long a global step takes."""
        return self.averaging_seconds > self.computing_seconds


def make_plan(peers: Sequence[Node], step: GlobalStep, senders: Sequence[bool] | None = None) -> Plan:
    """The plan with the shortest global steps; roles stay as they were unless a change is worth it.

    Args:
        peers: the members of a group, at least one.
        step: what they do together.
        senders: which peers send gradients, where that is settled; absent: those that it is best to let train.

    Raises:
        NobodyReachable: no peer can reduce.
    """
    lines = _lines(peers, step)
    trains = _best_trainers(peers, step, lines) if senders is None else np.array(senders, dtype=np.bool_)
    if not trains.any():
        return unplanned(peers, step, trains)
    seconds = float(round_seconds(lines, trains[None])[0])
    return _plan(peers, step, trains, whole_parts(best_shares(lines, trains, seconds), step.chunks))


def unplanned(peers: Sequence[Node], step: GlobalStep, trains: Flags | None = None) -> Plan:
    """What peers do without a plan: all that can train, and all that can be reached reduce as much as the others.

    Raises:
        NobodyReachable: no peer can reduce.
    """
    shares = _reachable(peers).astype(np.float64)
    if trains is None:
        trains = np.array([peer.samples_per_second > 0.0 for peer in peers])
    return _plan(peers, step, trains, whole_parts(shares / shares.sum(), step.chunks))


def whole_parts(shares: Floats, chunks: int) -> tuple[int, ...]:
    """So many chunks for each peer; what is left by rounding goes to those with the largest shares, one to each.

    Args:
        shares: of all chunks, [n]; they add up to 1.
    """
    sizes = np.floor(shares * chunks + 1e-6).astype(int)
    largest = np.argsort(-shares, kind="stable")
    sizes[largest[: chunks - int(sizes.sum())]] += 1
    return tuple(sizes.tolist())


def _best_trainers(peers: Sequence[Node], step: GlobalStep, lines: Lines) -> Flags:
    speeds = np.array([peer.samples_per_second for peer in peers])
    best = choose_trainers(lines, speeds, step.samples, overlap=step.overlap)
    held = np.array([new if peer.trained is None else peer.trained for peer, new in zip(peers, best, strict=True)])
    held &= speeds > 0.0
    before, after = step_seconds(lines, np.array([held, best]), speeds, step.samples, overlap=step.overlap)
    return held if np.isfinite(before) and after > (1.0 - WORTH_A_CHANGE) * before else best


def _plan(peers: Sequence[Node], step: GlobalStep, trains: Flags, parts: tuple[int, ...]) -> Plan:
    """Predict from whole parts."""
    lines, shares = _lines(peers, step), np.array(parts) / step.chunks
    up, down = traffic(shares, trains)
    speed = math.fsum(peer.samples_per_second for peer, own in zip(peers, trains, strict=True) if own)
    return Plan(
        parts,
        tuple(_role(bool(own), size) for own, size in zip(trains, parts, strict=True)),
        averaging_seconds=float(max((up / lines.upload).max(), (down / lines.download).max())),
        computing_seconds=step.samples / speed if speed else math.inf,
        overlap=step.overlap,
    )


def _role(trains: bool, size: int) -> Role:
    if trains:
        return Role.AGGREGATING_TRAINER if size else Role.TRAINER
    return Role.AGGREGATOR if size else Role.LISTENER


def _lines(peers: Sequence[Node], step: GlobalStep) -> Lines:
    """In whole vectors a second. Where many can reduce, those with the fattest lines do."""
    upload = np.array([peer.upload for peer in peers]) / step.wire_bytes
    download = np.array([peer.download for peer in peers]) / step.wire_bytes
    can = np.flatnonzero(_reachable(peers))
    fattest = can[np.argsort(-np.minimum(upload, download)[can], kind="stable")][:MOST_REDUCERS]
    return Lines(upload, download, np.isin(np.arange(len(peers)), fattest))


def _reachable(peers: Sequence[Node]) -> Flags:
    """Who can reduce."""
    can = np.array([not peer.client_mode or len(peers) == 1 for peer in peers])
    if not can.any():
        raise NobodyReachable(f"all {len(peers)} peers are in client mode: one that others can reach has to reduce")
    return can


def plan_round(step: GlobalStep, chunks: int, members: Sequence[MemberProfile]) -> Planned:
    """The best parts for those that send gradients, and the best trainers for the next step.

    While most lines are not known, parts are equal and all train.

    Args:
        step: what all peers do together.
        chunks: of the vector.
        members: of a round; at least one is reachable.
    """
    peers = _peers(members)
    if peers is None:
        return equal_parts(chunks, members)
    present = make_plan(peers, step, [one.sends for one in members])
    parts = runs(present.parts, members)
    if not any(one.speed for one in members):
        return Planned(parts, seconds=present.averaging_seconds)
    plan = make_plan(peers, step)
    roles = list(zip(members, plan.roles, strict=True))
    resting = [one for one, role in roles if one.speed and one.bandwidth is not None and not role.trains]
    needed = max(0, FEWEST - sum(role.trains for _, role in roles))
    resting.sort(key=lambda one: (-one.carries, one.session))  # the fattest lines hold up the others least
    told = tuple(one.session for one in resting[needed:])
    return Planned(parts, told, present.averaging_seconds)


def _peers(members: Sequence[MemberProfile]) -> list[Node] | None:
    """As plans see them; one of whose line or processor nothing is known counts as a usual peer.

    None: of most lines nothing is known.
    """
    known = [one.bandwidth for one in members if one.bandwidth and one.bandwidth.upload and one.bandwidth.download]
    if 2 * len(known) <= len(members):
        return None
    usual_up = statistics.median_low(one.upload for one in known)
    usual_down = statistics.median_low(one.download for one in known)
    usual_speed = statistics.median_low([one.speed for one in members if one.speed] or [1.0])
    return [
        Node(
            samples_per_second=min(one.speed or one.sends * usual_speed, FASTER * usual_speed),
            upload=((one.bandwidth and one.bandwidth.upload) or usual_up) * MEGABIT,
            download=((one.bandwidth and one.bandwidth.download) or usual_down) * MEGABIT,
            client_mode=not one.reachable,
            trained=not one.rests,
        )
        for one in members
    ]


def runs(sizes: Sequence[int], members: Sequence[MemberProfile]) -> tuple[Assignment, ...]:
    """So many chunks for each member, one run after the other."""
    return tuple(
        Assignment(end - size, size, one.session, attempt=0)
        for one, size, end in zip(members, sizes, accumulate(sizes), strict=True)
        if size
    )
