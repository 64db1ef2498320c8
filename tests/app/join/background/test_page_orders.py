import base64
import threading
from pathlib import Path

import pytest

from app.join.background.page_orders import ASK_EVERY, FILE_NAME, SELDOM, PageOrders, pause
from app.join.join import join
from app.join.peer_folder import LINK
from app.join.problems import JoinProblem, ProblemKind
from swarm.access.pause_messages import PAUSE_ORDER, OrderQuestion
from tests.app.join.conftest import Trained
from tests.app.join.stand_in import OPEN_RUN, Answer, StandIn
from tests.app.join.test_join import options
from tests.support.waiting import PATIENCE


class Coordinator:
    """What is ordered; None: it is away."""

    def __init__(self) -> None:
        self.paused: bool | None = False
        self.asked: list[OrderQuestion] = []
        self.refusal = ProblemKind.COORDINATOR_AWAY

    def __call__(self, question: OrderQuestion) -> bool:
        self.asked.append(question)
        if self.paused is None:
            raise JoinProblem(self.refusal, "no")
        return self.paused


@pytest.fixture
def admitted(tmp_path: Path) -> tuple[PageOrders, Coordinator, Path]:
    coordinator, file = Coordinator(), tmp_path / FILE_NAME
    page = PageOrders("http://127.0.0.1:9", file)
    assert not page.ask() and not page.is_paused, "it has never been let in"
    page.admit(b"the pass", "laptop", file, coordinator)
    return page, coordinator, file


def test_the_last_order_stands_while_the_coordinator_is_away(
    admitted: tuple[PageOrders, Coordinator, Path],
) -> None:
    page, coordinator, file = admitted
    coordinator.paused = True
    assert page.ask() and page.is_paused
    for coordinator.refusal in (ProblemKind.COORDINATOR_AWAY, ProblemKind.TOO_MANY, ProblemKind.NOT_A_COORDINATOR):
        coordinator.paused = None
        assert not page.ask() and page.is_paused
    assert PageOrders("http://127.0.0.1:9", file).is_paused, "also over a restart"
    coordinator.paused = False
    assert page.ask() and not page.is_paused
    assert not PageOrders("http://127.0.0.1:9", file).is_paused
    assert {(one.peer_id, one.pass_) for one in coordinator.asked} == {("laptop", b"the pass")}


def test_the_order_of_a_run_that_is_no_more_is_forgotten(admitted: tuple[PageOrders, Coordinator, Path]) -> None:
    page, coordinator, _ = admitted
    coordinator.paused = True
    page.ask()
    coordinator.paused, coordinator.refusal = None, ProblemKind.NOT_ALLOWED
    assert page.ask() and not page.is_paused


def test_a_machine_in_a_long_pause_asks_at_its_link(
    server: StandIn, admitted: tuple[PageOrders, Coordinator, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    page, coordinator, file = admitted
    coordinator.paused = True
    page.ask()
    server.clock_offset = 3600.0  # a wrong clock hinders nobody from going on
    server.answers["GET /api/run"] = Answer(307, "", {"Location": "/below/api/run"})
    server.answers["GET /below/api/run"] = Answer(body=OPEN_RUN)
    server.answers[f"POST /below{PAUSE_ORDER}"] = Answer(body={"paused": True})
    anew = PageOrders(server.url, file)
    monkeypatch.setattr("app.join.background.page_orders.ASK_EVERY", 0.01)
    monkeypatch.setattr("app.join.background.page_orders.STOP_PATIENCE", PATIENCE)
    resumed = threading.Event()
    with anew.asking():
        assert anew.is_paused
        server.answers[f"POST /below{PAUSE_ORDER}"] = lambda heard: resumed.set() or Answer(body={"paused": False})  # type: ignore[func-returns-value]
        assert resumed.wait(PATIENCE)
    assert not anew.is_paused
    assert "page orders" not in [one.name for one in threading.enumerate()], "before hivemind forks, no thread is left"
    assert [one.path for one in server.heard].count("/api/run") == 1, "later questions go there at once"
    body = server.heard[2].body
    assert body["peer_id"] == "laptop" and base64.b64decode(body["pass"]) == b"the pass"


def test_a_machine_that_was_paused_waits_before_it_joins_until_it_is_resumed(
    opened: StandIn,
    trained: Trained,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = options(tmp_path, name="asha")
    assert own.state is not None
    own.state.mkdir()
    (own.state / LINK).touch()
    page = PageOrders(opened.url, own.state / FILE_NAME)
    page.admit(b"the pass", "laptop", own.state / FILE_NAME, lambda question: True)
    page.ask()
    answers = [Answer(body={"paused": True}), Answer(503), Answer(body={"paused": False})]
    opened.answers[f"POST {PAUSE_ORDER}"] = lambda heard: answers.pop(0) if len(answers) > 1 else answers[0]
    monkeypatch.setattr("app.join.background.page_orders.ASK_EVERY", 0.01)
    join(opened.url, own)
    assert len(trained.calls) == 1
    said = capsys.readouterr().out
    assert "Not joining yet: you have paused this machine on the page My machines (resume it there)" in said


def test_files_that_are_none_are_of_a_new_peer(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text('{"paused": true}')
    assert not PageOrders("http://127.0.0.1:9", tmp_path / FILE_NAME).is_paused


def test_it_asks_often_and_seldom_where_nobody_answers() -> None:
    assert pause(0, 1.0) == ASK_EVERY and pause(0, 0.0) >= 0.7 * ASK_EVERY
    waits = [pause(failures, 1.0) for failures in range(8)]
    assert waits == sorted(waits) and waits[-1] == SELDOM
