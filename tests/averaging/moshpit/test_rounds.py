"""The rounds of a global step, with groups that only add up: nothing is sent."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hivemind.averaging.control import AveragingStage
from hivemind.p2p import PeerID

from tests.waiting import PATIENCE
from trainer.averaging.groups import Group
from trainer.averaging.moshpit.grid import Cell
from trainer.averaging.moshpit.rounds import Beginning, GridControl
from trainer.averaging.moshpit.sums import LIGHTEST

OWN, OTHER = PeerID(b"own"), PeerID(b"other")


def group(*members: PeerID, problem: str | None = None, mean_weight: float = 2.0) -> Group:
    made = Group(dict.fromkeys(members))
    made.problem, made.mean_weight, made.group_id = problem, mean_weight, b"group"
    made.weights, made.assisted = dict.fromkeys(members, 1.0), True
    return made


class Round:
    """What controls one round; it ends as it is told to."""

    def __init__(self, outcome: Group | Exception):
        self.outcome, self.cancelled, self.stage, self.weight = outcome, False, AveragingStage.LOOKING_FOR_GROUP, 0.0
        self.allowed = False

    def allow_allreduce(self) -> None:
        self.allowed = True

    def done(self) -> bool:
        return self.cancelled

    def cancel(self) -> None:
        self.cancelled = True

    def result(self, timeout: float) -> Group:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


class Rounds:
    """A peer's rounds, one after the other, and what the later ones were begun with."""

    def __init__(self, *outcomes: Group | Exception, rounds: int = 3, lone: bool = False):
        """`lone`: nobody was found for the first round; the outcomes are those of the others."""
        beginning = Beginning(
            step=7,
            cell=Cell(0, "10", 5.0, 2),
            members=2,
            rounds=rounds,
            size=2,
            is_full=True,
            own=OWN.to_bytes(),
            gathering=3.0,
            patience=5.0,
        )
        self.rounds = [Round(one) for one in outcomes]
        self.begun: list[dict[str, Any]] = []
        self.later = iter(self.rounds if lone else self.rounds[1:])
        first: Any = None if lone else self.rounds[0]
        self.control = GridControl(beginning, first, self._begin)

    def _begin(self, **kwargs: Any) -> Any:
        self.begun.append(kwargs)
        return next(self.later)

    def end(self) -> Group:
        self.control.allow_allreduce()
        return self.control.result(PATIENCE)

    @property
    def weights(self) -> list[float]:
        """With which the later rounds were begun."""
        return [kwargs["weight"] for kwargs in self.begun]


def test_each_round_goes_on_at_the_weight_of_the_last_mean():
    rounds = Rounds(*(group(OWN, OTHER, mean_weight=weight) for weight in (3.0, 4.0, 5.0)))
    rounds.control.weight = 2.0
    ended = rounds.end()
    assert rounds.rounds[0].weight == 2.0 and rounds.rounds[0].allowed
    assert rounds.weights == [3.0, 4.0]
    assert ended.problem is None and ended.weights and ended.assisted  # what peers brought, not what means weigh
    assert [kwargs["cell"].round for kwargs in rounds.begun] == [1, 2]
    assert all(kwargs["gather"] == 7 and len(kwargs["cell"].key) == 2 for kwargs in rounds.begun)


def test_a_round_that_does_not_work_costs_that_round_only():
    lost = group(OWN, OTHER, problem="26% of the mean was lost", mean_weight=9.0)
    rounds = Rounds(group(OWN, OTHER, mean_weight=3.0), lost, group(OWN, OTHER))
    assert rounds.end().problem is None
    assert rounds.weights == [3.0, 3.0]


def test_a_round_that_fails_is_put_away_and_the_next_one_follows():
    rounds = Rounds(group(OWN, OTHER), TimeoutError(), group(OWN, OTHER))
    assert rounds.end().problem is None
    assert rounds.rounds[1].cancelled
    assert len(rounds.begun) == 2


def test_if_the_first_round_fails_the_result_is_that_of_the_next_without_what_peers_brought():
    ended = Rounds(TimeoutError(), group(OWN, OTHER), group(OWN, OTHER)).end()
    assert (ended.problem, len(ended), ended.weights, ended.assisted) == (None, 2, None, False)


def test_if_no_round_works_there_is_no_result_and_the_first_reason_is_told():
    ended = Rounds(ValueError("no group was found in time"), TimeoutError(), TimeoutError()).end()
    assert ended.problem == "no group was found in time" and not ended


def test_who_found_nobody_for_the_first_round_begins_with_the_second():
    rounds = Rounds(group(OWN, OTHER), group(OWN, OTHER), lone=True)
    assert rounds.control.stage == AveragingStage.AWAITING_TRIGGER and not rounds.control.done()
    assert rounds.end().problem is None
    assert [kwargs["cell"].round for kwargs in rounds.begun] == [1, 2]


def test_a_mean_of_nothing_is_no_result():
    rounds = Rounds(*[group(OWN, OTHER, mean_weight=LIGHTEST)] * 3)
    rounds.control.weight = 0.0
    assert rounds.rounds[0].weight == LIGHTEST
    assert rounds.end().problem == "nobody in the groups had samples"


def test_who_is_behind_goes_no_further():
    behind = group(OWN, OTHER, problem="the others are at global step 8, this peer at 7")
    behind.is_behind = True
    rounds = Rounds(behind)
    assert rounds.end().problem == behind.problem
    assert not rounds.begun


def test_who_leaves_begins_no_other_round():
    rounds = Rounds(group(OWN, OTHER))
    rounds.control.cancel()
    assert rounds.control.done()
    rounds.end()
    assert rounds.rounds[0].cancelled and not rounds.begun


def test_who_only_tags_along_does_so_in_the_first_round():
    rounds = Rounds(group(OWN, OTHER))
    rounds.control.tag_along()
    rounds.end()
    assert not rounds.begun
    counted_on = Rounds(*[group(OWN, OTHER)] * 3)
    counted_on.control.allow_allreduce()
    counted_on.control.tag_along()
    counted_on.end()
    assert len(counted_on.begun) == 2


def test_no_round_is_begun_after_the_deadline():
    rounds = Rounds(group(OWN, OTHER))
    assert rounds.control.result(timeout=0.0).problem is None
    assert not rounds.begun


def test_a_search_that_found_nobody_is_done():
    rounds = Rounds(group(OWN, OTHER), rounds=1)
    assert not rounds.control.done()
    rounds.rounds[0].cancelled = True
    assert rounds.control.done()
    rounds.control.allow_allreduce()
    assert not rounds.control.done()  # its result is still to come
    rounds.end()
    assert rounds.control.done()


def test_members_whose_numbers_were_not_finite_are_told_of_all_rounds():
    groups = [group(OWN, OTHER) for _ in range(3)]
    groups[0].not_finite, groups[2].not_finite = [OTHER], [OTHER, OWN]
    assert Rounds(*groups).end().not_finite == sorted([OTHER, OWN])


def test_whoever_asks_twice_is_given_the_same_result():
    rounds = Rounds(*[group(OWN, OTHER)] * 3)
    assert rounds.end() is rounds.control.result(PATIENCE)
    assert len(rounds.begun) == 2


class World:
    """Peers on a grid, each in a thread; who comes to a cell waits there until its group is full."""

    def __init__(self, values: list[float], weights: list[float], size: int, bits: int):
        self.peers = [PeerID(bytes([number])) for number in range(len(values))]
        self.values, self.size, self.bits = dict(zip(self.peers, values, strict=True)), size, bits
        self.weights = dict(zip(self.peers, weights, strict=True))
        self.cells: dict[tuple[int, str], list[tuple[PeerID, float]]] = {}
        self.met: list[frozenset[PeerID]] = []
        self.changed = threading.Condition()

    def average(self, rounds: int) -> list[float]:
        """Weights in the end; `values` are the means."""
        with ThreadPoolExecutor(len(self.peers)) as threads:
            return list(threads.map(lambda peer: self._one_peer(peer, rounds), self.peers))

    def _one_peer(self, peer: PeerID, rounds: int) -> float:
        place = self.peers.index(peer)
        cell = Cell(0, f"{place % 2**self.bits:0{self.bits}b}", 1.0, self.size)
        beginning = Beginning(0, cell, self.size, rounds, self.size, True, peer.to_bytes(), 1.0, 1.0)
        weights: list[float] = []

        def begin(cell: Cell, weight: float, **_: object) -> Any:
            return Met(lambda: self._meet(peer, cell, weight, weights))

        first = begin(cell, self.weights[peer])
        control = GridControl(beginning, first, begin)
        control.allow_allreduce()
        assert control.result(PATIENCE).problem is None
        return weights[-1]

    def _meet(self, peer: PeerID, cell: Cell, weight: float, weights: list[float]) -> Group:
        """As `moshpit/sums.py`: all go on with the mean, at the weight that they have on average."""
        key = (cell.round, cell.key)
        with self.changed:
            here = self.cells.setdefault(key, [])
            here.append((peer, weight))
            if len(here) == self.size:
                total = sum(weight for _, weight in here)
                mean = sum(self.values[one] * weight for one, weight in here) / total
                for one, _ in here:
                    self.values[one] = mean
                self.met.append(frozenset(one for one, _ in here))
                self.changed.notify_all()
            assert self.changed.wait_for(lambda: len(here) == self.size, PATIENCE), f"nobody else came to {key}"
        weights.append(sum(weight for _, weight in here) / self.size)
        ended = group(*sorted(one for one, _ in here), mean_weight=weights[-1])
        ended.group_id = repr(key).encode()
        return ended


class Met(Round):
    """A round that ends when its group has come together."""

    def __init__(self, meet: Callable[[], Group]):
        super().__init__(Group())
        self.meet = meet

    def result(self, timeout: float) -> Group:
        return self.meet()


@pytest.mark.parametrize(("size", "bits", "rounds"), [(2, 2, 3), (4, 2, 2), (2, 3, 4)])
def test_on_a_full_grid_all_have_the_exact_mean_of_unequal_weights_and_meet_each_other_once(
    size: int, bits: int, rounds: int
):
    count = size * 2**bits
    values = [float(number**2) for number in range(count)]
    weights = [1.0 + 3.0 * (number % 5) for number in range(count)]
    world = World(values, weights, size, bits)
    ended = world.average(rounds)
    mean = sum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights)
    assert list(world.values.values()) == pytest.approx([mean] * count)
    assert ended == pytest.approx([sum(weights) / count] * count)
    assert len(world.met) == rounds * 2**bits == len(set(world.met))
    assert all(not one & other or len(one & other) == 1 for one in world.met for other in world.met if one is not other)
