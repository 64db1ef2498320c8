"""Waiting before joining, and the process that begins again for a long pause."""

import datetime
import json
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.join.background import page_orders
from app.join.background.page_orders import PageOrders
from app.join.hub_token import ask_for_token
from app.join.join import join
from app.join.peer_folder import IDENTITY, cache_folder, default_folder, name_of
from app.join.problems import JoinProblem, ProblemKind
from swarm import secret_variables
from swarm.identity import load_identity
from tests.app.join.conftest import Trained
from tests.app.join.stand_in import Answer, StandIn
from tests.app.join.test_join import options
from trainer.pausing import long_pauses
from trainer.pausing.decision import Facts
from trainer.pausing.watch import PauseWatch
from trainer.pausing.wishes import WishError, Wishes, when


class Began(Exception):
    """Stands in for the process that takes the place of this one."""


@pytest.fixture
def began(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str]]]:
    calls = []

    def execv(program: str, arguments: list[str]) -> None:
        assert program == sys.executable
        calls.append((arguments, dict(os.environ)))
        raise Began

    monkeypatch.setattr(os, "execv", execv)
    for name in (*secret_variables.NAMES, long_pauses.BEGAN_AGAIN):
        monkeypatch.setenv(name, "")  # so that it is taken away again after the test
        monkeypatch.delenv(name)
    return calls


def test_what_it_waits_for_is_said_once(tmp_path: Path) -> None:
    now = datetime.datetime(2026, 11, 26, 20)
    seen = [Facts(), Facts(), Facts(on_battery=True), Facts()]
    watch = PauseWatch(Wishes(when("night")), lambda: seen.pop(0), now=lambda: now)
    said: list[str] = []

    def sleep(seconds: float) -> None:
        nonlocal now
        assert seconds > 0
        now += datetime.timedelta(minutes=40)

    assert long_pauses.wait_until_over(watch, said.append, sleep)
    assert said == [
        "Not joining yet: outside the hours of --when; training begins at 22:00.",
        "Not joining yet: this machine is on battery power (use --on-battery to train anyway).",
    ]
    assert now == datetime.datetime(2026, 11, 26, 22)
    assert not long_pauses.wait_until_over(PauseWatch(), said.append, sleep)


def test_the_same_command_begins_again_in_its_folder_with_the_token_that_was_typed(
    began: list[tuple[list[str], dict[str, str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed() -> None:
        raise BrokenPipeError

    monkeypatch.setattr(sys, "orig_argv", ["python", "-P", "/bin/sahaj", "join", "example.org", "--when", "night"])
    monkeypatch.setattr(secret_variables, "_hidden", {"WANDB_API_KEY": "hidden"})
    monkeypatch.setattr("app.join.hub_token._has_terminal", lambda: True)
    monkeypatch.setattr("getpass.getpass", lambda _: "hf_typed")
    ask_for_token()
    for output in (types.SimpleNamespace(flush=closed), None):
        with pytest.raises(Began), monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", output)
            long_pauses.begin_again(Path("peers/my peer"))
    (arguments, environment), _ = began
    assert arguments == [sys.executable, "-P", "/bin/sahaj", "join", "example.org", "--when", "night"]
    assert (environment["HF_TOKEN"], environment["WANDB_API_KEY"]) == ("hf_typed", "hidden")
    assert long_pauses.came_from_pause() == Path("peers/my peer").absolute()


def test_a_peer_that_has_left_for_a_pause_begins_again_and_no_other(
    opened: StandIn, trained: Trained, tmp_path: Path, began: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    join(opened.url, options(tmp_path, name="asha"))
    assert len(trained.calls) == 1 and not began
    monkeypatch.setattr(sys.modules["trainer.train"], "train", lambda *arguments: True)
    with pytest.raises(Began):
        join(opened.url, options(tmp_path / "other", name="asha", wishes=Wishes(when("always"))))
    assert len(began) == 1


def test_a_saved_login_is_not_handed_over(
    opened: StandIn,
    hub: StandIn,
    trained: Trained,
    tmp_path: Path,
    began: list[tuple[list[str], dict[str, str]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub.answers["GET /api/whoami-v2"] = Answer(body={"name": "alice", "auth": {"accessToken": {"role": "read"}}})
    monkeypatch.setattr("huggingface_hub.get_token", lambda: "hf_saved")
    monkeypatch.setattr(sys.modules["trainer.train"], "train", lambda *arguments: True)
    with pytest.raises(Began):
        join(opened.url, options(tmp_path))
    assert "hf_saved" in {heard.bearer for heard in opened.heard}
    [(_, environment)] = began
    assert "HF_TOKEN" not in environment


def test_an_order_of_the_page_is_found_behind_a_redirect(
    opened: StandIn, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = StandIn()
    link.answers["GET /api/run"] = Answer(302, headers={"Location": f"{opened.url}/api/run"})
    paused: list[bool] = []
    monkeypatch.setattr(
        long_pauses, "wait_until_over", lambda watch, say: paused.append(watch._read().is_paused_on_page)
    )
    order_a_pause(opened.url, default_folder(opened.url))
    try:
        join(link.url, options(tmp_path, name="asha", state=None))
    finally:
        link.close()
    assert paused == [True]


def order_a_pause(url: str, folder: Path) -> None:
    """As an earlier process of this peer has heard."""
    load_identity(folder / IDENTITY).lock.close()
    page = PageOrders(url, folder / page_orders.FILE_NAME)
    page.is_paused = True
    page.admit(b"pass", "Qm", folder / page_orders.FILE_NAME, lambda question: True)


def test_it_is_the_same_peer_after_a_pause_even_where_an_earlier_folder_has_become_free(
    opened: StandIn, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order_a_pause(opened.url, tmp_path / "peer-2")
    paused: list[bool] = []
    monkeypatch.setattr(
        long_pauses, "wait_until_over", lambda watch, say: paused.append(watch._read().is_paused_on_page)
    )
    for _ in range(2):  # the second time another process has become that peer meanwhile
        monkeypatch.setenv(long_pauses.BEGAN_AGAIN, f"en {tmp_path / 'peer-2'}")
        join(opened.url, options(tmp_path, name="asha", state=None))
    folders = [trainer.identity.path.parent for _run, trainer, *_ in trained.calls]
    assert folders == [tmp_path / "peer-2", cache_folder() / name_of(opened.url)]
    assert paused[0]


def test_after_a_pause_it_tries_until_the_coordinator_is_there_again(
    opened: StandIn,
    trained: Trained,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = sys.modules["app.join.join"]
    tries, enter = 0, program._enter

    def away_twice(*arguments: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries < 5:
            if tries == 4:
                raise JoinProblem(ProblemKind.PAUSED, "closed for now")
            raise JoinProblem(ProblemKind.COORDINATOR_AWAY, "nothing listens there")
        return enter(*arguments)

    monkeypatch.setattr(program, "_enter", away_twice)
    monkeypatch.setattr(program, "TRY_EVERY", 0.0)
    with pytest.raises(JoinProblem):
        join(opened.url, options(tmp_path, name="asha"))
    assert tries == 1, "a person is there"
    monkeypatch.setenv(long_pauses.BEGAN_AGAIN, f"en {tmp_path / 'peer'}")
    join(opened.url, options(tmp_path, name="asha"))
    assert tries == 5 and len(trained.calls) == 1 and long_pauses.BEGAN_AGAIN not in os.environ
    said = capsys.readouterr().out
    assert said.count("nothing listens there. The program tries again every 0 s.") == 1
    assert said.count("closed for now. The program tries again every 0 s.") == 1


def test_who_joins_for_the_night_is_told_by_day_what_stands_in_the_way_and_needs_not_be_there_at_night(
    opened: StandIn, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard_by_day: list[int] = []
    let_in = opened.answers["POST /api/join"]
    assert callable(let_in)
    away = [Answer(503), Answer(503)]

    def wait(watch: PauseWatch, say: Callable[[str], None]) -> bool:
        heard_by_day.append(len(opened.heard))
        return True

    opened.answers["POST /api/join"] = lambda heard: away.pop() if away else let_in(heard)
    monkeypatch.setattr(long_pauses, "wait_until_over", wait)
    monkeypatch.setattr(sys.modules["app.join.join"], "TRY_EVERY", 0.0)
    with pytest.raises(JoinProblem, match="--name"):
        join(opened.url, options(tmp_path, name="~"))
    with pytest.raises(JoinProblem, match="--data"):
        join(opened.url, options(tmp_path, name="asha", data=tmp_path / "nothing"))
    assert not heard_by_day and not trained.calls
    join(opened.url, options(tmp_path, name="asha"))
    assert heard_by_day == [2] and not away and len(trained.calls) == 1
    asked = [heard.path for heard in opened.heard[2:]]
    assert "/api/run" not in asked, "who this is, is not asked for again"


@pytest.mark.parametrize(
    ("at_night", "role", "shown"),
    [
        (None, None, "hf_by_day"),
        ("hf_renewed", "read", "hf_renewed"),
        ("hf_unknown", None, "hf_by_day"),
        ("hf_strong", "write", "hf_by_day"),
        ("hf_not a token", "read", "hf_by_day"),
    ],
)
def test_who_was_verified_by_day_is_not_asked_for_again_at_night(
    at_night: str | None,
    role: str | None,
    shown: str,
    opened: StandIn,
    hub: StandIn,
    trained: Trained,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub.answers["GET /api/whoami-v2"] = Answer(body={"name": "alice", "auth": {"accessToken": {"role": "read"}}})
    monkeypatch.setattr("huggingface_hub.get_token", lambda: "hf_by_day")

    def wait(watch: PauseWatch, say: Callable[[str], None]) -> bool:
        body = {"name": "alice", "auth": {"accessToken": {"role": role}}}
        hub.answers["GET /api/whoami-v2"] = Answer(body=body) if role else Answer(503)
        monkeypatch.setattr("huggingface_hub.get_token", lambda: at_night)
        return True

    monkeypatch.setattr(long_pauses, "wait_until_over", wait)
    join(opened.url, options(tmp_path))
    assert {heard.bearer for heard in opened.heard if heard.path == "/api/join"} == {shown}
    assert len(trained.calls) == 1


def test_a_limit_of_traffic_is_kept_in_the_folder_of_the_peer(tmp_path: Path) -> None:
    watch = long_pauses.watch_for(
        Wishes(max_traffic=0.001, on_battery=True, on_metered=True), tmp_path / "peer", None, is_first=True
    )
    watch._traffic = lambda: 2_000_000_000
    pause = watch.look()
    assert pause is not None and pause.reason.startswith(
        "today's traffic limit (--max-traffic) is used up; training goes on at 00:00"
    )
    assert [one.name for one in (tmp_path / "peer").iterdir()] == ["traffic.json"]
    watch._traffic = lambda: 2_000_000_001
    watch.look()
    watch.stop()
    assert json.loads((tmp_path / "peer" / "traffic.json").read_text())["bytes"] == 2_000_000_001, "little counts, too"
    without = long_pauses.watch_for(
        Wishes(on_battery=True, on_metered=True), tmp_path / "other", tmp_path / "order", is_first=True
    )
    assert without.look() is None
    (tmp_path / "order").touch()
    assert without.look() is not None and not (tmp_path / "other").exists()


def test_where_nobody_tells_whether_the_machine_is_used_that_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer.pausing.machine.idleness_of_this_machine", lambda: lambda: None)
    with pytest.raises(WishError, match="name hours instead"):
        long_pauses.watch_for(Wishes(when("idle")), tmp_path, None, is_first=True)
    assert long_pauses.watch_for(Wishes(when("idle")), tmp_path, None, is_first=False).look() is not None
