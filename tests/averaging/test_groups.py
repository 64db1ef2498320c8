"""Real averagers, each a process of its own, look for a group on a machine that is too busy for its DHT."""

import asyncio
import math
import re
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest
import torch
from hivemind.averaging.control import AveragingStage
from hivemind.averaging.matchmaking import MatchmakingException
from hivemind.proto.averaging_pb2 import AveragingData

from swarm.dht import addresses
from tests.averaging.averagers import MATCHMAKING, averager
from tests.forked import runs_well
from trainer.averaging import groups
from trainer.averaging.search import ALONE, PacedKeys
from trainer.averaging.witness import Weighed
from trainer.leaving import end_process

pytestmark = [pytest.mark.swarm, pytest.mark.faults]
PARTS = 3 * 2**15  # numbers that three peers cut in three, each in whole chunks
SLOW = 2 * ALONE  # seconds that the DHT takes


def test_a_group_that_was_found_is_kept_while_the_dht_is_slow(tmp_path: Path):
    runs_well(find_each_other, tmp_path)


def find_each_other(folder: Path) -> None:
    """Two averagers find a group although it takes a while to tell the DHT that a peer looks for one no longer."""
    tell = PacedKeys.declare_averager

    async def slowly(keys: PacedKeys, *args: Any, looking_for_group: bool = True, **kwargs: Any) -> object:
        if not looking_for_group:
            await asyncio.sleep(SLOW)
        return await tell(keys, *args, looking_for_group=looking_for_group, **kwargs)

    PacedKeys.declare_averager = slowly
    with averager(folder, 0, []) as first, averager(folder, 1, addresses(first.dht)) as second:
        rounds = [one.step(gather=0, wait=False, timeout=30.0, allow_retries=False) for one in (first, second)]
        ended = [one.result(30.0) for one in rounds]
        assert [(len(group), group.problem) for group in ended] == [(2, None)] * 2
        for one in (first, second):
            with one.get_tensors() as (mean,):
                torch.testing.assert_close(mean, torch.full((10,), 0.5))
    end_process()


def test_a_group_without_most_of_the_peers_does_not_average(tmp_path: Path):
    runs_well(wait_for_the_third, tmp_path)


def wait_for_the_third(folder: Path) -> None:
    """Two of five find each other and go on looking; with a third one they average."""
    with (
        averager(folder, 0, []) as first,
        averager(folder, 1, addresses(first.dht)) as second,
        averager(folder, 2, addresses(first.dht)) as third,
    ):
        settings: dict[str, Any] = {"gather": 0, "seen": 5, "wait": False, "timeout": 60.0, "require_trigger": True}
        rounds = [one.step(**settings) for one in (first, second)]
        time.sleep(3 * MATCHMAKING)
        assert not any(one.done() for one in rounds)
        rounds.append(third.step(**settings))
        while not all(one.stage == AveragingStage.AWAITING_TRIGGER for one in rounds):
            time.sleep(0.1)
        for one in rounds:
            one.allow_allreduce()
        ended = [one.result(60.0) for one in rounds]
        assert [(len(group), group.problem) for group in ended] == [(3, None)] * 3
        for one in (first, second, third):
            with one.get_tensors() as (mean,):
                torch.testing.assert_close(mean, torch.full((10,), 1.0))
    end_process()


def test_whoever_finds_nobody_for_a_round_that_could_begin_gives_up(tmp_path: Path):
    runs_well(look_alone, tmp_path)


def look_alone(folder: Path) -> None:
    """A round may last for two minutes, but one that has nobody ends before."""
    with averager(folder, 0, []) as alone:
        found = alone.step(gather=0, wait=False, timeout=120.0)
        with pytest.raises(MatchmakingException, match="nobody else averages now"):
            found.result(60.0)
    end_process()


def test_a_round_can_be_left_while_it_is_waited_for(tmp_path: Path):
    runs_well(leave_a_round, tmp_path)


def leave_a_round(folder: Path) -> None:
    """Somebody waits for a round that may take two minutes; another thread ends that."""
    with averager(folder, 0, []) as alone:
        waited_for = alone.step(gather=0, wait=False, timeout=120.0, require_trigger=True)
        threading.Timer(1.0, alone.leave_round).start()
        with pytest.raises(CancelledError):
            waited_for.result(60.0)
    end_process()


def test_whoever_has_no_samples_gets_the_mean_and_sends_nothing(tmp_path: Path):
    runs_well(average_with_a_silent_one, tmp_path)


def average_with_a_silent_one(folder: Path) -> None:
    """Of three averagers that reduce a part each, one has weighed nothing and holds zeros."""
    sent = folder / "sent"  # weight and bytes of each part that anybody was sent; averagers are processes of their own
    listen = groups._weighed

    async def counted(stream: AsyncIterator[AveragingData], weighed: Weighed) -> AsyncIterator[AveragingData]:
        async for part in listen(stream, weighed):
            with sent.open("a") as file:
                file.write(f"{part.weight} {len(part.tensor_part.buffer)}\n")
            yield part

    groups._weighed = counted
    with (
        averager(folder, 0, [], size=PARTS) as silent,
        averager(folder, 2, addresses(silent.dht), size=PARTS) as second,
        averager(folder, 5, addresses(silent.dht), size=PARTS) as third,
    ):
        settings: dict[str, Any] = {"gather": 0, "wait": False, "timeout": 30.0, "allow_retries": False}
        rounds = [one.step(weight=weight, **settings) for one, weight in ((silent, 0.0), (second, 1.0), (third, 0.5))]
        for one, group in zip((silent, second, third), [one.result(30.0) for one in rounds], strict=True):
            assert (len(group), group.problem) == (3, None)
            assert group.weights == {silent.peer_id: 0.0, second.peer_id: 1.0, third.peer_id: 0.5}
            with one.get_tensors() as (mean,):
                torch.testing.assert_close(mean, torch.full((PARTS,), 3.0))
    parts = [(float(weight), int(size)) for weight, size in map(str.split, sent.read_text().splitlines())]
    assert {size for weight, size in parts if not weight} == {4}  # a single number
    two_thirds_of_both = 2 * 4 * PARTS * 2 / 3  # bytes; parts are cut between pieces
    assert sum(size for weight, size in parts if weight) == pytest.approx(two_thirds_of_both, rel=0.02)
    end_process()


def test_numbers_that_are_not_finite_are_left_out_and_their_sender_is_named(tmp_path: Path):
    runs_well(average_with_a_broken_one, tmp_path)


def average_with_a_broken_one(folder: Path) -> None:
    """Of three averagers that reduce a part each, one has numbers that are not finite."""
    with (
        averager(folder, 0, [], size=PARTS) as first,
        averager(folder, 2, addresses(first.dht), size=PARTS) as second,
        averager(folder, math.nan, addresses(first.dht), size=PARTS) as broken,
    ):
        members = (first, second, broken)
        rounds = [one.step(gather=0, weight=1.0, wait=False, timeout=30.0, allow_retries=False) for one in members]
        ended = [one.result(30.0) for one in rounds]
        for one, group in zip(members[:2], ended, strict=False):
            lost = re.match(r"(\d+)% of the mean was lost: numbers were not finite", str(group.problem))
            assert lost, group.problem
            assert 32 <= int(lost[1]) <= 34  # the part that it reduced; parts are cut between pieces
            assert group.not_finite == [broken.peer_id]
            assert group.weights == {first.peer_id: 1.0, second.peer_id: 1.0}
            with one.get_tensors() as (mean,):
                assert torch.isfinite(mean).all()
                assert (mean == 1.0).sum() >= 0.6 * PARTS
    end_process()
