"""Passes expire by a time that stands still while the HTTP service does not answer."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from coordinator.access import renewals
from coordinator.access.decisions import PUBLISH_EVERY, open_access_control
from coordinator.access.renewals import GRACE, PassTime, answers, keep_pass_time
from coordinator.http.server import Server
from swarm import clock
from swarm.access.gate import SHUT_FRACTION, Gate
from swarm.access.passes import Pass, PassRefused
from swarm.identity import load_identity
from tests.support.waiting import wait_until

RUN = "small-run"
START = 1_700_000_000.0  # unix time in seconds
LIFETIME = 120.0  # seconds


class Run:
    """A coordinator and a trainer whose gates hear each notice at once, by a clock that only tests advance."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        self.now = START
        monkeypatch.setattr(clock, "now", lambda: self.now)
        identity = load_identity(folder / "coordinator.key")
        self.access = open_access_control(RUN, folder, identity, LIFETIME)
        self.passes = PassTime(self.access.notices.pass_time)
        self.trainer = load_identity(folder / "trainer.key").peer_id
        self.go_on(1.0, answers=True)
        own = self.issue("bela")
        (folder / "bela").mkdir()
        authority = self.access.authority.public_key
        self.gates = [self.access.gate, Gate(folder / "bela", RUN, authority, own, self.access.notices.current())]

    def issue(self, user: str) -> Pass:
        """A new pass for the trainer."""
        return self.access.authority.issue(RUN, user, self.trainer, LIFETIME)

    def go_on(self, seconds: float, *, answers: bool) -> None:
        """The coordinator shows signs of life meanwhile, and its service answers or does not."""
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + PUBLISH_EVERY)
            self.passes.note(answers, self.now)
            self.access.notices.pass_time = self.passes.time
            for gate in getattr(self, "gates", [self.access.gate]):
                gate.take_notice(self.access.notices.current())

    def admits(self, shown: Pass) -> list[bool]:
        """Whether the coordinator lets it in, and whether the other peer does."""
        return [_admits(gate, shown, self) for gate in self.gates]


def _admits(gate: Gate, shown: Pass, run: Run) -> bool:
    try:
        gate.admit(run.trainer, shown)
    except PassRefused:
        return False
    return True


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(tmp_path, monkeypatch)


def test_passes_expire_while_the_service_answers(run: Run):
    asha = run.issue("asha")
    run.go_on(LIFETIME - 1, answers=True)
    assert run.admits(asha) == [True, True]
    run.go_on(2, answers=True)
    assert run.admits(asha) == [False, False]


@pytest.mark.parametrize("left", [LIFETIME, LIFETIME / 2, SHUT_FRACTION * LIFETIME + 1])
def test_no_pass_expires_while_the_door_is_shut_however_often_the_coordinator_shows_life(run: Run, left: float):
    asha = run.issue("asha")
    run.go_on(LIFETIME - left, answers=True)
    run.go_on(600, answers=False)
    assert run.admits(asha) == [True, True]


def test_there_is_time_to_renew_when_the_door_is_open_again(run: Run):
    asha = run.issue("asha")
    run.go_on(600, answers=False)
    run.go_on(GRACE, answers=True)
    assert run.admits(asha) == [True, True]
    renewed = run.issue("asha")
    run.go_on(PUBLISH_EVERY, answers=True)
    assert run.admits(asha) == [False, False]
    assert run.admits(renewed) == [True, True]


def test_a_pass_that_had_expired_before_does_not_come_back(run: Run):
    asha = run.issue("asha")
    run.go_on(LIFETIME + 1, answers=True)
    run.go_on(600, answers=False)
    assert run.admits(asha) == [False, False]


def test_who_keeps_the_door_shut_does_not_escape_a_ban(run: Run):
    asha = run.issue("asha")
    run.go_on(600, answers=False)
    run.access.notices.ban("asha")
    run.go_on(1, answers=False)
    assert run.admits(asha) == [False, False]


def test_a_restart_goes_on_from_where_it_stood(run: Run, tmp_path: Path):
    asha = run.issue("asha")
    run.go_on(600, answers=False)
    run.access.notices.announce("Back in a minute.")
    again = open_access_control(RUN, tmp_path, load_identity(tmp_path / "trainer.key"), LIFETIME)
    run.passes = PassTime(again.notices.pass_time)
    run.access = again
    run.go_on(GRACE, answers=True)
    assert run.admits(asha) == [True, True]
    run.go_on(PUBLISH_EVERY, answers=True)
    assert run.admits(asha) == [False, False]


@pytest.fixture
def serving() -> Iterator[Callable[[FastAPI], Server]]:
    servers: list[Server] = []

    def start(app: FastAPI) -> Server:
        servers.append(Server(app, "127.0.0.1", 0))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def test_the_service_is_asked_from_outside(
    serving: Callable[[FastAPI], Server], run: Run, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(renewals, "CHECK_EVERY", 0.01)
    healthy, go_on = threading.Event(), threading.Event()
    healthy.set()
    app = FastAPI()

    @app.get("/healthz")
    def health() -> str:
        if not healthy.is_set():
            go_on.wait(60)
        return "ok"

    server, stop = serving(app), threading.Event()
    assert answers(server.url)
    noted: list[bool] = []
    monkeypatch.setattr(PassTime, "note", lambda _, answers, now: noted.append(answers))
    thread = threading.Thread(target=keep_pass_time, args=(server.url, run.access.notices, stop))
    thread.start()
    try:
        wait_until(lambda: noted[-1:] == [True], "answer")
        monkeypatch.setattr(renewals, "REQUEST_TIMEOUT", 0.1)
        healthy.clear()
        wait_until(lambda: noted[-1:] == [False], "silence")
        monkeypatch.setattr(renewals, "REQUEST_TIMEOUT", 60.0)
        healthy.set()
        go_on.set()
        wait_until(lambda: noted[-1:] == [True], "answer")
        server.stop()
        wait_until(lambda: noted[-1:] == [False], "silence")
    finally:
        stop.set()
        go_on.set()
        thread.join()
