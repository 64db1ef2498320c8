"""Each fault is named in its line, with the way out, and in no other one."""

import errno
import json
import re
import socket
from dataclasses import replace
from typing import Any

import httpx
import pytest

from app.doctor.asking import Broken
from app.doctor.examination import results
from app.doctor.machine import TokenSeen
from app.doctor.network import PeerAddress
from app.doctor.observing import Observed
from app.doctor.peer_process import PassSeen
from app.doctor.report import as_json, is_faulty, summary
from app.doctor.results import Check, Mark, TooLate
from app.join.hub_token import HubToken
from app.join.problems import JoinProblem, ProblemKind, explain
from app.join.proxy import Proxy
from swarm.errors import StorageError
from tests.app.doctor.conftest import FIRST, SECOND, URL, described, with_link, with_run

NOW = 1e9
PROXY = Proxy("HTTPS_PROXY", "proxy.example:3128")
TOKEN = HubToken("hf_secret", "HF_TOKEN")
RELAYED = PeerAddress("/ip4/192.0.2.3/tcp/4001/p2p/QmRelay/p2p-circuit/p2p/QmThird", "QmThird", "192.0.2.3", 4001)
REFUSED, SILENT = ConnectionRefusedError(), TimeoutError()
GOOD, EXPIRED = PassSeen("asha", NOW + 600, good=True), PassSeen("asha", NOW - 600, good=True)


def problem(kind: ProblemKind, message: str = "a reason; a way out") -> JoinProblem:
    return JoinProblem(kind, message)


def lines(observed: Observed) -> dict[Check, tuple[Mark, str]]:
    return {one.check: (one.mark, one.message) for one in results(observed, NOW)}


def not_ok(observed: Observed) -> dict[Check, Mark]:
    return {check: mark for check, (mark, _) in lines(observed).items() if mark is not Mark.OK}


def test_without_a_fault_all_lines_are_ok(observed: Observed):
    found = results(observed, NOW)
    assert [one.check for one in found] == [check for check in Check if check is not Check.LINK]
    assert not not_ok(observed)
    assert not is_faulty(found)
    assert summary(found) == "Nothing keeps this machine from joining."


def test_what_was_not_checked_is_not_praised(observed: Observed):
    found = results(with_run(observed, answered="see token", peers={}), NOW)
    assert not is_faulty(found)
    assert "could be checked" in summary(found)


def test_without_a_link_only_the_machine_is_looked_at(observed: Observed):
    found = results(replace(observed, run=None), NOW)
    assert [one.check for one in found] == [Check.PYTHON, Check.TORCH, Check.MEMORY, Check.DISK, Check.TOKEN]
    assert "sahaj doctor LINK" in summary(found)


@pytest.mark.parametrize(
    ("changes", "check", "mark", "words"),
    [
        ({"torch": Broken("ImportError: libc10.so")}, Check.TORCH, Mark.FAULT, r"ImportError: libc10.so.*install"),
        ({"torch": TooLate()}, Check.TORCH, Mark.WARNING, "--patience"),
        ({"unwritable": StorageError("/home/x: could not be saved; y")}, Check.DISK, Mark.FAULT, "could not be saved"),
        ({"unwritable": OSError("odd")}, Check.DISK, Mark.FAULT, "the check itself failed.*odd"),
        ({"computer": TooLate()}, Check.DISK, Mark.WARNING, "not done in time"),
        ({"token": TokenSeen(None)}, Check.TOKEN, Mark.WARNING, "`sahaj join` will ask for one; make one at"),
        ({"token": TokenSeen(TOKEN, "", problem(ProblemKind.TOKEN_REJECTED))}, Check.TOKEN, Mark.FAULT, "a way out"),
        ({"token": TokenSeen(TOKEN, "", problem(ProblemKind.HUB_AWAY))}, Check.TOKEN, Mark.WARNING, "a way out"),
        ({"token": TooLate()}, Check.TOKEN, Mark.WARNING, "has not said in time"),
        ({"run": problem(ProblemKind.BAD_URL)}, Check.LINK, Mark.FAULT, "a way out"),
    ],
)
def test_faults_of_the_machine(observed: Observed, changes: dict[str, Any], check: Check, mark: Mark, words: str):
    found = {one.check: one for one in results(replace(observed, **changes), NOW)}
    assert found[check].mark is mark
    assert re.search(words, found[check].message), found[check].message
    assert {one.check for one in found.values() if one.mark is Mark.FAULT} <= {check}


@pytest.mark.parametrize(
    ("computer", "check", "mark"),
    [
        ({"disk_free": 1e6}, Check.DISK, Mark.FAULT),
        ({"memory_total": 5e8, "memory_available": 4e8}, Check.MEMORY, Mark.FAULT),
        ({"memory_available": 4e8}, Check.MEMORY, Mark.WARNING),
    ],
)
def test_shortages_of_the_machine_are_told_as_by_joining(
    observed: Observed, computer: dict[str, Any], check: Check, mark: Mark
):
    assert not isinstance(observed.computer, Exception)
    assert not_ok(replace(observed, computer=replace(observed.computer, **computer))) == {check: mark}


def test_a_processor_is_fine_unless_a_gpu_is_idle(observed: Observed):
    assert not isinstance(observed.torch, Exception) and not isinstance(observed.computer, Exception)
    computer = replace(observed.computer, device="cpu", device_memory=None)
    torch = replace(observed.torch, device="cpu", device_memory=None)
    assert not not_ok(replace(observed, torch=torch, computer=computer))
    idle = replace(torch, idle_gpu=True)
    assert not_ok(replace(observed, torch=idle, computer=computer)) == {Check.TORCH: Mark.WARNING}


def test_an_open_run_needs_no_token(observed: Observed):
    opened = with_link(observed, run=described(access={"open": True}))
    assert not not_ok(replace(opened, token=TokenSeen(None)))
    bad = replace(opened, token=TokenSeen(TOKEN, "", problem(ProblemKind.TOKEN_TOO_STRONG)))
    assert not_ok(bad) == {Check.TOKEN: Mark.WARNING}
    assert "--name NAME" in lines(bad)[Check.TOKEN][1]


def failing(error: Exception, proxy: str = "") -> JoinProblem:
    """As the client reports it."""
    try:
        raise httpx.ConnectError("failed") from error
    except httpx.ConnectError as raised:
        return explain(URL, raised, proxy)


@pytest.mark.parametrize(
    ("changes", "check", "words"),
    [
        (
            {"addresses": (no_name := failing(socket.gaierror(socket.EAI_AGAIN, "x"))), "run": no_name, "ahead": None},
            Check.DNS,
            "the name servers of this machine do not answer",
        ),
        (
            {"addresses": (no_host := failing(socket.gaierror(socket.EAI_NONAME, "x"))), "run": no_host},
            Check.DNS,
            "typing mistakes",
        ),
        ({"run": failing(REFUSED), "ahead": None}, Check.COORDINATOR, "nothing is listening on port 443"),
        ({"run": failing(OSError(errno.ENETUNREACH, "x"))}, Check.COORDINATOR, "no network route"),
        ({"run": problem(ProblemKind.NO_ANSWER, "no answer in time")}, Check.COORDINATOR, "no answer in time"),
        ({"run": problem(ProblemKind.NOT_A_COORDINATOR)}, Check.COORDINATOR, "a way out"),
        ({"run": problem(ProblemKind.TLS, "its certificate is not valid")}, Check.ENCRYPTION, "certificate"),
        (
            {"run": failing(REFUSED, PROXY.shown), "proxy": PROXY},
            Check.PROXY,
            "HTTPS_PROXY.*nothing is listening there",
        ),
        ({"run": problem(ProblemKind.NOT_A_COORDINATOR), "proxy": PROXY}, Check.COORDINATOR, "a way out"),
        (
            {"run": problem(ProblemKind.NOT_A_COORDINATOR), "proxy": PROXY, "url": URL.replace("https", "http")},
            Check.PROXY,
            "NO_PROXY=run.example.org",
        ),
        ({"ahead": 300.0}, Check.CLOCK, "5 minutes behind the coordinator's"),
        ({"ahead": -9.0}, Check.CLOCK, "8 s ahead of the coordinator's"),
        ({"run": described(version="7.2.0")}, Check.VERSION, "works with Sahaj 7.2.0.*install that version"),
    ],
)
def test_faults_on_the_way_to_the_coordinator(observed: Observed, changes: dict[str, Any], check: Check, words: str):
    found = {one.check: one for one in results(with_link(observed, **changes), NOW)}
    assert [one.check for one in found.values() if one.mark is Mark.FAULT] == [check]
    assert re.search(words, found[check].message), found[check].message


@pytest.mark.parametrize("ahead", [-3.5, 0.0, 2.5])
def test_the_date_of_an_answer_is_rounded_to_seconds(observed: Observed, ahead: float):
    assert not not_ok(with_link(observed, ahead=ahead))


def test_a_name_that_only_the_proxy_knows(observed: Observed):
    nameless = with_link(observed, addresses=problem(ProblemKind.NO_SUCH_HOST), proxy=PROXY)
    assert not_ok(nameless) == {Check.DNS: Mark.WARNING}


def test_a_coordinator_that_is_away_behind_a_proxy_is_no_fault_of_the_proxy(observed: Observed):
    away = problem(ProblemKind.COORDINATOR_AWAY)
    found = not_ok(with_link(observed, run=away, proxy=PROXY))
    assert found[Check.COORDINATOR] is Mark.FAULT
    assert found[Check.PROXY] is Mark.WARNING


def test_a_token_without_encryption(observed: Observed):
    plain = with_link(observed, url="http://192.0.2.7:8080")
    assert not_ok(plain) == {Check.ENCRYPTION: Mark.WARNING}
    assert not not_ok(with_link(plain, run=described(access={"open": True})))
    assert not not_ok(with_link(observed, url="http://127.0.0.1:8080"))


@pytest.mark.parametrize(
    ("changes", "mark", "words"),
    [
        ({"passes": [EXPIRED]}, Mark.FAULT, "expired 10 minutes ago.*join again"),
        (
            {"passes": [EXPIRED], "answered": problem(ProblemKind.BANNED, "asha is banned")},
            Mark.FAULT,
            "a new one is refused: asha is banned",
        ),
        ({"passes": [replace(GOOD, good=False)]}, Mark.FAULT, "of another run"),
        ({"passes": [GOOD]}, Mark.OK, "the coordinator gives one to asha"),
        ({"answered": problem(ProblemKind.BANNED)}, Mark.FAULT, "a way out"),
        ({"answered": problem(ProblemKind.PAUSED)}, Mark.WARNING, "a way out"),
        ({"answered": Broken("no module named hivemind")}, Mark.FAULT, "no module named hivemind.*install the program"),
        ({"answered": TooLate()}, Mark.WARNING, "not answered in time"),
        ({"answered": "it is away"}, Mark.SKIPPED, "it is away"),
    ],
)
def test_passes(observed: Observed, changes: dict[str, Any], mark: Mark, words: str):
    found, message = lines(with_run(observed, **changes))[Check.PASS]
    assert found is mark, message
    assert re.search(words, message), message


@pytest.mark.parametrize(
    ("peers", "mark", "words"),
    [
        ({FIRST: None, SECOND: None}, Mark.OK, "all 2 known peers"),
        ({FIRST: None}, Mark.OK, "one known peer takes connections on TCP port 31337"),
        ({FIRST: REFUSED}, Mark.FAULT, "QmFirst: nothing is listening there.*TCP to port 31337"),
        ({FIRST: SILENT, SECOND: SILENT}, Mark.FAULT, "no answer.*port 31337, 4001"),
        ({FIRST: SILENT, SECOND: None}, Mark.WARNING, "the coordinator's port for peers.*QmFirst: no answer"),
        ({FIRST: None, SECOND: REFUSED}, Mark.WARNING, "1 of 2 known peers.*QmSecond: nothing is listening there"),
        ({FIRST: OSError(errno.EHOSTUNREACH, "x")}, Mark.FAULT, "no network route"),
        ({FIRST: None, replace(FIRST, host="10.0.0.1"): SILENT}, Mark.OK, "one known peer"),
        ({}, Mark.FAULT, "announces no address.*coordinator.announce"),
        ({FIRST: None, RELAYED: REFUSED}, Mark.WARNING, "QmRelay/p2p-circuit/p2p/QmThird: nothing is listening there"),
    ],
)
def test_peers(observed: Observed, peers: dict[Any, Any], mark: Mark, words: str):
    found, message = lines(with_run(observed, peers=peers))[Check.PEERS]
    assert found is mark, message
    assert re.search(words, message), message


def test_peers_are_not_known_where_no_pass_was_given(observed: Observed):
    found = lines(with_run(observed, peers={}, answered=problem(ProblemKind.BANNED)))
    assert found[Check.PEERS] == (Mark.SKIPPED, "not checked: see pass")
    found = lines(with_run(observed, peers={}, answered="it is away"))
    assert found[Check.PEERS] == (Mark.SKIPPED, "not checked: it is away")


def test_client_mode_is_no_fault(observed: Observed):
    behind_router = with_run(observed, client_mode=True)
    assert not not_ok(behind_router)
    assert "client mode" in lines(behind_router)[Check.INCOMING][1]
    assert "on this machine" in lines(with_run(observed, own_address="127.0.0.1"))[Check.INCOMING][1]
    assert "cannot average for others" in lines(with_run(observed, client_mode=True, udp=False))[Check.INCOMING][1]
    opens_ways = lines(with_run(observed, client_mode=True, udp=True))[Check.INCOMING][1]
    assert "UDP gets through" in opens_ways and "cannot average for others" not in opens_ways
    assert not_ok(with_run(observed, own_address="")) == {Check.INCOMING: Mark.SKIPPED}


def test_json_for_somebody_who_helps_has_no_token(observed: Observed):
    told = json.loads(as_json(results(with_run(observed, answered=problem(ProblemKind.BANNED)), NOW), "0.1.0"))
    assert told["ok"] is False
    assert {"check": "pass", "mark": "fault", "message": "a reason; a way out"} in told["checks"]
    assert "hf_secret" not in json.dumps(told)


def test_a_bug_in_a_check_is_a_line(observed: Observed):
    assert "the check itself failed" in lines(with_link(observed, url=7))[Check.DNS][1]
