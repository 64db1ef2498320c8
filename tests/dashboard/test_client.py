import threading
import time
from collections.abc import Iterator

import pytest

from dashboard import client
from dashboard.client import MOST_QUESTIONS, Away, Coordinator, NotThere
from tests.dashboard.coordinators import CountingServer

RUN = {"name": "test-run", "total_steps": 100}
PERSON = {"user": "asha", "samples": 3}
INTERVAL = 0.5


@pytest.fixture
def server() -> Iterator[CountingServer]:
    running = CountingServer({"/api/run": RUN, "/api/person": PERSON, "/api/leaderboard": []})
    yield running
    running.close()


@pytest.fixture
def coordinator(server: CountingServer) -> Iterator[Coordinator]:
    asked = Coordinator(server.url, INTERVAL)
    yield asked
    asked.close()


def test_fifty_viewers_at_once_make_one_request(coordinator: Coordinator, server: CountingServer) -> None:
    server.slowly = 0.2
    found = []
    viewers = [threading.Thread(target=lambda: found.append(coordinator.leaders("run").value)) for _ in range(50)]
    for viewer in viewers:
        viewer.start()
    for viewer in viewers:
        viewer.join()
    assert found == [[]] * 50
    assert server.asked == {"/api/leaderboard": 1}


def test_viewers_make_one_request_in_an_interval(server: CountingServer) -> None:
    coordinator = Coordinator(server.url, INTERVAL / client.LEADERS.intervals)
    began = time.monotonic()
    while time.monotonic() - began < 4.5 * INTERVAL:
        coordinator.leaders("day")
        time.sleep(0.005)
    took = time.monotonic() - began
    coordinator.close()
    assert 2 <= server.asked["/api/leaderboard"] <= took / INTERVAL + 1


def test_other_questions_are_asked_for_themselves(coordinator: Coordinator, server: CountingServer) -> None:
    coordinator.leaders("day")
    coordinator.leaders("week")
    coordinator.leaders("day")
    assert server.asked["/api/leaderboard"] == 2


def test_the_last_answer_stays_while_the_coordinator_is_away(server: CountingServer) -> None:
    coordinator = Coordinator(server.url, 0.01)
    first = coordinator.run()
    assert first.value.name == "test-run"
    assert first.problem is None
    server.close()
    until = time.monotonic() + 20
    while (found := coordinator.run()).problem != "nobody answers at the coordinator's address":
        assert time.monotonic() < until
        time.sleep(0.05)
    coordinator.close()
    assert found.value.name == "test-run"
    assert found.at == pytest.approx(first.at, abs=5)


def test_what_was_never_known_is_away(coordinator: Coordinator, server: CountingServer) -> None:
    server.close()
    with pytest.raises(Away, match="nobody answers"):
        coordinator.run()


def test_while_it_is_away_it_is_asked_no_more_often(coordinator: Coordinator, server: CountingServer) -> None:
    server.status = 503
    for _ in range(20):
        with pytest.raises(Away, match="status 503"):
            coordinator.run()
    assert server.asked["/api/run"] == 1


def test_it_is_found_again_when_it_is_back(coordinator: Coordinator, server: CountingServer) -> None:
    server.status = 503
    with pytest.raises(Away):
        coordinator.run()
    server.status = 200
    until = time.monotonic() + 20
    while True:
        try:
            assert coordinator.run().value.name == "test-run"
            break
        except Away:
            assert time.monotonic() < until
            time.sleep(0.05)


def test_a_viewer_with_figures_does_not_wait_for_a_slow_coordinator(server: CountingServer) -> None:
    coordinator = Coordinator(server.url, 0.01)
    coordinator.run()
    time.sleep(0.2)
    server.slowly = 4.0
    began = time.monotonic()
    assert coordinator.run().value.name == "test-run"
    assert time.monotonic() - began < 2.0
    coordinator.close()


@pytest.mark.parametrize("answer", [{"name": 3}, [], "text", None, {"name": "x", "total_steps": "many"}])
def test_what_is_not_understood_counts_as_no_answer(
    coordinator: Coordinator, server: CountingServer, answer: object
) -> None:
    server.answers["/api/run"] = answer
    with pytest.raises(Away, match="not as a coordinator"):
        coordinator.run()


def test_what_a_newer_coordinator_adds_is_left_out(coordinator: Coordinator, server: CountingServer) -> None:
    server.answers["/api/run"] = RUN | {"moon": "full"}
    assert coordinator.run().value.name == "test-run"


def test_an_older_coordinator_is_told_from_an_absent_one(coordinator: Coordinator) -> None:
    with pytest.raises(Away, match="older than these pages"):
        coordinator.history()


def test_somebody_unknown_is_not_there(coordinator: Coordinator, server: CountingServer) -> None:
    assert coordinator.person("asha").value.samples == 3
    del server.answers["/api/person"]
    with pytest.raises(NotThere):
        coordinator.person("nobody")


def test_an_answer_without_end_is_given_up(
    coordinator: Coordinator, server: CountingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "LONGEST_ANSWER", 1000)
    server.answers["/api/run"] = RUN | {"description": "x" * 2000}
    with pytest.raises(Away, match="longer than"):
        coordinator.run()


def test_questions_that_nobody_asks_any_more_are_forgotten(coordinator: Coordinator) -> None:
    for number in range(MOST_QUESTIONS + 50):
        coordinator.person(f"user-{number}")
    assert len(coordinator._questions) == MOST_QUESTIONS
