"""Real averagers stop looking for a group, or stand still while they look for one."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from hivemind.averaging.control import AveragingStage, StepControl
from hivemind.averaging.matchmaking import MatchmakingException

from swarm.dht import addresses
from tests.averaging.averagers import MATCHMAKING, averager
from tests.forked import runs_well
from trainer.averaging.groups import Group
from trainer.averaging.search import Search
from trainer.leaving import end_process

pytestmark = [pytest.mark.swarm, pytest.mark.faults]
STOOD_STILL = 3 * MATCHMAKING  # seconds; the others wait for one and a half
SEARCH: dict[str, Any] = {"wait": False, "timeout": 60.0, "require_trigger": True}


def note_who_leads(folder: Path) -> Callable[[], int]:
    """Returns what waits until one of the averagers made from now on leads another, and says that process's id."""
    told, leads = folder / "told", folder / "leads"
    refusal = Search._check_reasons_to_reject

    def noted(search: Search, *args: Any) -> object:
        refused = refusal(search, *args)
        if refused is None:
            told.write_text(str(os.getpid()))
            told.rename(leads)
        return refused

    Search._check_reasons_to_reject = noted

    def who_leads() -> int:
        while not leads.exists():
            time.sleep(0.02)
        return int(leads.read_text())

    return who_leads


def wait_for_groups(rounds: list[StepControl]) -> None:
    while not all(one.stage == AveragingStage.AWAITING_TRIGGER for one in rounds):
        assert not any(one.done() for one in rounds)
        time.sleep(0.1)


def average(rounds: list[StepControl]) -> list[Group]:
    for one in rounds:
        one.allow_allreduce()
    return [one.result(60.0) for one in rounds]


def is_group_of_two(group: Group) -> bool:
    return len(group) == 2 and group.problem is None


def test_whoever_stops_looking_may_look_anew_at_once(tmp_path: Path):
    runs_well(stop_looking, tmp_path)


def stop_looking(folder: Path) -> None:
    """A search that would last for two minutes is left, and the next one finds the other peer."""
    with averager(folder, 0, []) as first, averager(folder, 1, addresses(first.dht)) as second:
        left = first.step(gather=0, **SEARCH | {"timeout": 120.0})
        while left.stage != AveragingStage.LOOKING_FOR_GROUP:
            time.sleep(0.1)
        first.stop_looking()
        with pytest.raises(MatchmakingException, match="looks for no group any more"):
            left.result(5.0)
        rounds = [one.step(gather=1, **SEARCH) for one in (first, second)]
        wait_for_groups(rounds)
        first.stop_looking()  # too late: the other one counts on this peer
        assert all(map(is_group_of_two, average(rounds)))
    end_process()


def test_whoever_stops_looking_waits_for_a_group_in_sight(tmp_path: Path):
    runs_well(stop_looking_in_company, tmp_path)


def stop_looking_in_company(folder: Path) -> None:
    """Both stop looking when one of them leads the other."""
    who_leads = note_who_leads(folder)
    with averager(folder, 0, []) as first, averager(folder, 1, addresses(first.dht)) as second:
        rounds = [one.step(gather=0, **SEARCH, allow_retries=False) for one in (first, second)]
        who_leads()
        for one in (first, second):
            one.stop_looking()
        wait_for_groups(rounds)
        assert all(map(is_group_of_two, average(rounds)))
    end_process()


def test_who_leads_and_stands_still_has_no_followers_any_more(tmp_path: Path):
    runs_well(stand_still_and_lead, tmp_path)


def stand_still_and_lead(folder: Path) -> None:
    """A leader and its network are stopped until its follower waits no longer; later both are in a group."""
    who_leads = note_who_leads(folder)
    with averager(folder, 0, []) as first, averager(folder, 1, addresses(first.dht)) as second:
        rounds = [one.step(gather=0, **SEARCH) for one in (first, second)]
        leads = who_leads()
        (leader,) = (one for one in (first, second) if one.pid == leads)
        network = psutil.Process(leader.dht.pid)
        still = [psutil.Process(leads), network, *network.children(recursive=True)]
        for process in still:
            process.suspend()
        time.sleep(STOOD_STILL)
        for process in still:
            process.resume()
        wait_for_groups(rounds)
        assert all(map(is_group_of_two, average(rounds)))
    end_process()
