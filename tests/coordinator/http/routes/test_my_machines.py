import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from hivemind.p2p import PeerID

from coordinator.access.person_key import issue_key
from coordinator.http.routes.my_machines import ORDERS, PAUSES_FOR, QUESTIONS, describe
from coordinator.ledger.answers import MachineSummary
from coordinator.ledger.ingest import SessionReport
from coordinator.state_folder import PAUSES
from swarm import clock
from swarm.access.passes import Authority, load_authority
from swarm.access.pause_messages import PAUSE_ORDER, Doing
from swarm.identity import peer_id_of
from tests.coordinator.http.conftest import Serve, Service

Report = Callable[..., SessionReport]
MACHINES = "/api/me/machines"


@pytest.fixture
def peers(public_keys: list[bytes]) -> list[str]:
    return [str(peer_id_of(key)) for key in public_keys]


def give(service: Service, key: str, order: str, **body: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"}
    answer = service.client.post(f"{MACHINES}/{order}", json=body, headers=headers)
    assert answer.headers["cache-control"] == "no-store"
    return answer


def key_of(service: Service, user: str, peer_id: str | None = None) -> str:
    return issue_key(service.context.authority, "test-run", user, peer_id)[0]


def question(
    authority: Authority, user: str, peer_id: str, run: str = "test-run", life: float = 60.0
) -> dict[str, str]:
    own = authority.issue(run, user, PeerID.from_base58(peer_id), life)
    return {"peer_id": peer_id, "pass": base64.b64encode(own.to_bytes()).decode()}


def told(service: Service, user: str, peer_id: str) -> bool:
    asked = question(service.context.authority, user, peer_id)
    answer = service.client.post(PAUSE_ORDER, json=asked)
    assert answer.status_code == 200, answer.text
    return bool(answer.json()["paused"])


def test_a_machine_is_paused_and_resumed_and_no_other(serve: Serve, report: Report, peers: list[str]) -> None:
    service, (laptop, desktop) = serve(users=["asha"]), peers
    now = clock.now()
    service.context.ledger.record([report("c", peer_id=laptop, last_seen=now), report("d", peer_id=laptop)])
    service.context.ledger.record([report("e", peer_id=desktop, last_seen=now - 1, pause="battery")])
    key = key_of(service, "asha")
    answer = give(service, key, "pause", peer_id=laptop).json()
    assert answer["user"] == "asha"
    listed = {one["peer_id"]: one for one in answer["machines"]}
    assert [one["peer_id"] for one in answer["machines"]][:2] == [laptop, desktop], "the newest first, each once"
    assert (listed[laptop]["ordered"], listed[laptop]["doing"], listed[laptop]["pause"]) == (True, "training", "")
    assert (listed[desktop]["ordered"], listed[desktop]["doing"]) == (False, "pausing")
    assert listed[desktop]["pause"] == "battery" and listed[desktop]["samples_per_second"] == 0.0
    assert told(service, "asha", laptop) and not told(service, "asha", desktop)
    again = serve(users=["asha"])
    assert told(again, "asha", laptop), "a restart forgets no order"
    give(service, key, "pause")
    assert told(service, "asha", laptop) and told(service, "asha", desktop)
    give(service, key, "resume", peer_id=laptop)
    assert not told(service, "asha", laptop) and told(service, "asha", desktop)
    assert not any(one["ordered"] for one in give(service, key, "resume").json()["machines"])
    shown = service.client.get(MACHINES, headers={"Authorization": f"Bearer {key}"})
    assert shown.json()["machines"] and shown.headers["cache-control"] == "no-store"


def test_a_machine_goes_on_that_the_ledger_does_not_know_any_more(serve: Serve, peers: list[str]) -> None:
    service, (laptop, desktop) = serve(users=["asha"]), peers
    (service.context.folder / PAUSES).write_text(json.dumps({"paused": {"asha": peers}}))
    service = serve(users=["asha"])
    assert give(service, key_of(service, "asha", laptop), "resume", peer_id=desktop).status_code == 404
    assert told(service, "asha", desktop)
    assert give(service, key_of(service, "asha"), "resume", peer_id=laptop).status_code == 200
    assert not told(service, "asha", laptop) and told(service, "asha", desktop)
    give(service, key_of(service, "asha"), "resume")
    assert not told(service, "asha", desktop)


def test_nobody_pauses_the_machine_of_somebody_else(
    service: Service, report: Report, peers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hers, his = peers
    service.context.ledger.record([report("c", user="~asha", peer_id=hers), report("d", user="~asha", peer_id=his)])
    service.context.ledger.record([report("e", user="boat", peer_id="12D3KooWBoat")])
    for key in (
        key_of(service, "boat"),
        key_of(service, "asha"),  # of the Hub, whose name somebody has chosen
        key_of(service, "~asha", his),  # of somebody who has chosen the same name
        key_of(service, "~asha", "12D3KooWNobody"),
    ):
        refused = give(service, key, "pause", peer_id=hers)
        assert (refused.status_code, refused.json()["error"]) == (404, "not_found")
        give(service, key, "pause")
        assert not told(service, "~asha", hers)
    assert told(service, "~asha", his), "but their own they may"
    assert give(service, key_of(service, "~asha", hers), "resume").status_code == 200
    assert told(service, "~asha", his)
    forged = issue_key(load_authority(tmp_path / "other.key"), "test-run", "~asha", hers)[0]
    of_other_run = issue_key(service.context.authority, "other-run", "~asha", hers)[0]
    good = key_of(service, "~asha", hers)
    for key in (forged, of_other_run, good[:-2], service.context.admin_key):
        assert give(service, key, "pause", peer_id=hers).status_code == 401
    assert service.client.post(f"{MACHINES}/pause", json={"peer_id": hers}).status_code == 401
    assert service.client.get(MACHINES).status_code == 401
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now + 31 * 86400)
    assert give(service, good, "pause", peer_id=hers).status_code == 401, "expired"
    monkeypatch.undo()
    assert not told(service, "~asha", hers)


def test_a_machine_asks_with_its_own_pass(serve: Serve, report: Report, peers: list[str], tmp_path: Path) -> None:
    service, (laptop, other) = serve(users=["asha"]), peers
    service.context.ledger.record([report("c", peer_id=laptop)])
    give(service, key_of(service, "asha"), "pause", peer_id=laptop)
    ours, theirs = service.context.authority, load_authority(tmp_path / "other.key")
    late = service.client.post(PAUSE_ORDER, json=question(ours, "asha", laptop, life=-86400.0))
    assert late.json() == {"paused": True}, "in a long pause nobody renews a pass"
    assert not told(service, "boat", laptop), "the order is not of that person"
    for bad in (
        question(theirs, "asha", laptop),
        question(ours, "asha", laptop, run="other-run"),
        question(ours, "asha", other) | {"peer_id": laptop},
        question(ours, "asha", laptop) | {"pass": base64.b64encode(b"no pass").decode()},
        question(ours, "asha", laptop) | {"peer_id": "no peer id"},
    ):
        refused = service.client.post(PAUSE_ORDER, json=bad)
        assert (refused.status_code, refused.json()["error"]) == (403, "not_allowed")


def test_who_asks_or_orders_too_often_is_sent_away(serve: Serve, report: Report, peers: list[str]) -> None:
    service, (laptop, other) = serve(users=["asha"]), peers
    service.context.ledger.record([report("c", peer_id=laptop), report("d", user="boat", peer_id=other)])
    asked, key = question(service.context.authority, "asha", laptop), key_of(service, "asha")
    answers = [service.client.post(PAUSE_ORDER, json=asked).status_code for _ in range(QUESTIONS + 1)]
    assert answers == [200] * QUESTIONS + [429]
    assert not told(service, "boat", other), "others are answered"
    orders = [give(service, key, "pause", peer_id=laptop) for _ in range(ORDERS + 1)]
    assert [one.status_code for one in orders] == [200] * ORDERS + [429]
    assert int(orders[-1].headers["retry-after"]) > 0
    assert give(service, key_of(service, "boat"), "pause").status_code == 200


@pytest.mark.parametrize(
    ("present", "ago", "pause", "ordered", "doing"),
    [
        (True, 5.0, "", False, Doing.TRAINING),
        (True, 5.0, None, True, Doing.TRAINING),  # it will know in a moment
        (True, 5.0, "paused", True, Doing.PAUSING),
        (False, 600.0, "hours", False, Doing.PAUSING),  # it has left the run for it
        (False, PAUSES_FOR + 1, "hours", False, Doing.AWAY),
        (False, 9 * PAUSES_FOR, "paused", True, Doing.PAUSING),
        (False, 600.0, "", False, Doing.AWAY),
        (False, 600.0, "", True, Doing.AWAY),
    ],
)
def test_what_a_machine_does(present: bool, ago: float, pause: str | None, ordered: bool, doing: Doing) -> None:
    found = MachineSummary(
        peer_id="laptop",
        device="2 cores",
        last_seen=1e9 - ago,
        present=present,
        pause=pause,
        samples_per_second=3.0,
        samples=7,
    )
    machine = describe(found, 1e9, ordered=ordered)
    assert machine.doing is doing and machine.pause == (pause if doing is Doing.PAUSING else "")
    assert machine.samples_per_second == (3.0 if doing is Doing.TRAINING else 0.0)
