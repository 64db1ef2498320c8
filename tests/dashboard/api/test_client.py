"""The client that all readers share: how often it asks, and what it gives while nobody answers."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from dashboard.api import client
from dashboard.api.client import MOST_QUESTIONS, Away, Coordinator, NotThere, is_private
from tests.dashboard.coordinators import CountingServer
from tests.support.waiting import PATIENCE, wait_until

RUN = {"name": "test-run", "total_steps": 100, "access": {"open": True}}
PERSON = {"user": "asha", "samples": 3}
INTERVAL = 5.0


class Clock:
    """Stands still until it is put forward."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> Iterator[CountingServer]:
    running = CountingServer({"/api/run": RUN, "/api/person": PERSON, "/api/leaderboard": []})
    yield running
    running.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def coordinator(server: CountingServer, clock: Clock) -> Coordinator:
    return Coordinator(server.url, INTERVAL, clock)


def test_fifty_viewers_at_once_make_one_request(coordinator: Coordinator, server: CountingServer) -> None:
    server.go_on.clear()
    with ThreadPoolExecutor(50) as pool:
        viewers = [pool.submit(coordinator.leaders, "run") for _ in range(50)]
        wait_until(lambda: server.asked, "question")
        server.go_on.set()
        assert [viewer.result().value for viewer in viewers] == [[]] * 50
    assert server.asked == {"/api/leaderboard": 1}


def test_viewers_make_one_request_in_an_interval(
    coordinator: Coordinator, server: CountingServer, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "WORTH_WAITING", PATIENCE)
    for moment in range(4 * 10 + 1):
        clock.now = moment / 10 * INTERVAL * 6  # refresh intervals for which a leaderboard is kept
        coordinator.leaders("day")
    assert server.asked["/api/leaderboard"] == 5


def test_other_questions_are_asked_for_themselves(coordinator: Coordinator, server: CountingServer) -> None:
    coordinator.leaders("day")
    coordinator.leaders("week")
    coordinator.leaders("day")
    assert server.asked["/api/leaderboard"] == 2


def test_the_last_answer_stays_while_the_coordinator_is_away(
    coordinator: Coordinator, server: CountingServer, clock: Clock
) -> None:
    first = coordinator.run()
    assert first.value.name == "test-run"
    assert first.problem is None
    server.close()

    def is_away() -> bool:
        clock.now += 12 * INTERVAL
        return coordinator.run().problem == "nobody answers at the coordinator's address"

    wait_until(is_away, "word that nobody answers")
    found = coordinator.run()
    assert found.value.name == "test-run"
    assert found.at == first.at


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


def test_it_is_found_again_when_it_is_back(coordinator: Coordinator, server: CountingServer, clock: Clock) -> None:
    server.status = 503
    with pytest.raises(Away):
        coordinator.run()
    server.status = 200
    clock.now += INTERVAL
    assert coordinator.run().value.name == "test-run"


def test_a_viewer_with_figures_does_not_wait_for_a_slow_coordinator(
    coordinator: Coordinator, server: CountingServer, clock: Clock
) -> None:
    coordinator.run()
    clock.now += 12 * INTERVAL
    server.go_on.clear()
    found = coordinator.run()
    assert (found.value.name, found.problem) == ("test-run", None), "it was waited for"
    wait_until(lambda: server.asked["/api/run"] == 2, "second question")


@pytest.mark.parametrize("answer", [{"name": 3}, [], "text", None, {"name": "x", "experts": "many"}])
def test_what_is_not_understood_counts_as_no_answer(
    coordinator: Coordinator, server: CountingServer, answer: object
) -> None:
    server.answers["/api/run"] = answer
    with pytest.raises(Away, match="not as a coordinator"):
        coordinator.run()


def test_what_a_newer_coordinator_adds_is_left_out(coordinator: Coordinator, server: CountingServer) -> None:
    server.answers["/api/run"] = RUN | {"moon": "full"}
    assert coordinator.run().value.name == "test-run"


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


def test_the_key_travels_where_nobody_listens() -> None:
    for private in ("https://run.example.org", "http://127.0.0.1:8080", "http://localhost:80", "http://[::1]:8080"):
        assert is_private(private)
    for open_to_all in ("http://run.example.org", "http://192.168.1.2:8080", "http://localhost.evil.org", ""):
        assert not is_private(open_to_all)
