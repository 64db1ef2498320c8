"""The way of `sahaj host-experts` to the swarm, with a stand-in for the coordinator and for hosting itself."""

import sys
import threading
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.hosting.host_experts import HostOptions, host_experts
from app.hosting.reachability import ENOUGH
from app.join.problems import ProblemKind
from swarm.errors import SwarmError
from tests.app.join.conftest import RUN
from tests.app.join.conftest import coordinator as coordinator
from tests.app.join.conftest import fingerprint_of as fingerprint_of
from tests.app.join.conftest import nobody_is_logged_in as nobody_is_logged_in
from tests.app.join.conftest import opened as opened
from tests.app.join.conftest import server as server
from tests.app.join.conftest import tokenizer_files as tokenizer_files
from tests.app.join.stand_in import StandIn
from tests.app.join.test_join import change_answer
from tests.support.problems import raises_problem
from tests.support.waiting import PATIENCE
from trainer.options import VolunteerOptions

WITH_EXPERTS = RUN + "experts:\n  grid: [2, 3]\n  width: 8\n  hidden: 16\n"
LOCAL_TEXT = WITH_EXPERTS.replace("hub: owner/text", "path: /organizer/text.jsonl")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What hosting was called with."""
    calls: list[Any] = []
    module = types.ModuleType("app.hosting.serving")
    module.serve = lambda *arguments: calls.append(arguments)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "app.hosting.serving", module)
    return calls


@pytest.fixture
def run_of(opened: StandIn, fingerprint_of: Callable[[str], str]) -> Callable[[str], None]:
    """Let the coordinator, which is open to all, have this run."""

    def have(run: str) -> None:
        announced = fingerprint_of(run)
        change_answer(opened, lambda body: body["manifest"].update(run=run, fingerprint=announced))

    return have


def options(tmp_path: Path, **changes: Any) -> HostOptions:
    return replace(HostOptions(name="bob", state=tmp_path / "peer"), **changes)


def downloads(server: StandIn) -> list[str]:
    return [heard.path for heard in server.heard if heard.path.startswith("/api/tokenizer")]


def test_a_host_joins_as_a_trainer_does(
    opened: StandIn, run_of: Callable[[str], None], served: list[Any], tmp_path: Path, capsys: Any
):
    run_of(WITH_EXPERTS)
    host_experts(opened.url, options(tmp_path, experts=4))
    [(admitted, settings, capacity, network, _, _)] = served
    assert admitted.gate.own.user == "~bob"
    assert (settings.grid, settings.width, settings.hidden, capacity) == ((2, 3), 8, 16, 4)
    assert not network.client_mode and network.initial_peers
    assert admitted.contact.renew().user == "~bob"
    assert admitted.run_folder.parent == tmp_path / "peer"
    said = capsys.readouterr().out
    assert "Of 6 experts" in said and "takes 4 at most" in said and "Ctrl-C" in said


def test_a_host_reads_no_text_so_it_does_not_matter_where_that_is(
    opened: StandIn, run_of: Callable[[str], None], served: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("app.hosting.host_experts.is_loopback", lambda url: False)
    run_of(LOCAL_TEXT)
    host_experts(opened.url, options(tmp_path))
    assert len(served) == 1


def test_a_run_without_experts_is_refused_before_anything_is_downloaded(
    opened: StandIn, run_of: Callable[[str], None], served: list[Any], tmp_path: Path
):
    run_of(RUN)
    with raises_problem(ProblemKind.NO_EXPERTS, match=f"no experts to host; sahaj join {opened.url}"):
        host_experts(opened.url, options(tmp_path))
    assert not served and not downloads(opened)


def test_a_machine_that_nobody_reaches_is_refused_and_told_the_way_out(
    opened: StandIn, run_of: Callable[[str], None], served: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("app.join.machine_checks.addresses_towards", lambda url: ("192.168.1.7", "93.184.216.34"))
    run_of(WITH_EXPERTS)
    with raises_problem(ProblemKind.NOT_REACHABLE, match="--listen .* --announce"):
        host_experts(opened.url, options(tmp_path))
    assert not served and not downloads(opened)
    forwarded = VolunteerOptions(announce=("/ip4/93.184.216.35/tcp/31400",))
    host_experts(opened.url, options(tmp_path, state=tmp_path / "forwarded", chosen=forwarded))
    assert served[0][3].announce == forwarded.announce


def test_a_host_whose_machine_moves_behind_a_router_leaves_after_some_looks_and_says_why(
    opened: StandIn, run_of: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
):
    own, theirs = "192.168.1.7", "93.184.216.34"
    there, away, offline = (theirs, theirs), (own, theirs), ("", "")
    looks = iter([there, away, offline, away, away, there, *[away] * ENOUGH])
    asked = threading.Event()

    def serve(*arguments: Any) -> None:
        arguments[4](None)  # when it has joined
        assert asked.wait(PATIENCE)

    serving = types.ModuleType("app.hosting.serving")
    serving.serve = serve  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "app.hosting.serving", serving)
    monkeypatch.setattr("app.hosting.host_experts.ask_to_leave", asked.set)
    monkeypatch.setattr("app.hosting.reachability.LOOK_EVERY", 0.01)
    monkeypatch.setattr("app.join.machine_checks.addresses_towards", lambda url: next(looks))
    run_of(WITH_EXPERTS)
    with raises_problem(ProblemKind.NOT_REACHABLE, match="--listen .* --announce"):
        host_experts(opened.url, options(tmp_path))
    assert not [*looks], "not before"
    assert "moved behind a router" in capsys.readouterr().out


def test_a_second_host_in_the_same_folder_is_refused(
    opened: StandIn, run_of: Callable[[str], None], served: list[Any], tmp_path: Path
):
    run_of(WITH_EXPERTS)
    host_experts(opened.url, options(tmp_path))  # the lock of its identity is held while this process lives
    with pytest.raises(SwarmError, match=r"another process .* --state"):
        host_experts(opened.url, options(tmp_path))
    assert len(served) == 1


def test_by_default_a_host_has_its_own_folder_beside_that_of_a_trainer(
    opened: StandIn, run_of: Callable[[str], None], served: list[Any], tmp_path: Path
):
    run_of(WITH_EXPERTS)
    host_experts(opened.url, options(tmp_path, state=None))
    assert served[0][0].run_folder.parent.name.endswith("-experts")
