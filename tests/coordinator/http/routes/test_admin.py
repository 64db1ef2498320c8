import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from coordinator.access.admin_key import load_admin_key
from coordinator.ledger.rounds import LOSS, Flag
from coordinator.ledger.storage.database import LedgerError
from coordinator.state_folder import EVIDENCE
from swarm.errors import SwarmError
from tests.coordinator.http.conftest import Serve, Service
from tests.support.hub.stand_in import HubStandIn

ORDERS = {
    "ban": {"name": "asha"},
    "unban": {"name": "asha"},
    "allow": {"name": "asha"},
    "disallow": {"name": "asha"},
    "announce": {"text": "hello"},
    "pause": {},
    "resume": {},
    "stop": {},
}


def test_orders_need_the_key(service: Service) -> None:
    key = service.context.admin_key
    for order, body in ORDERS.items():
        path, before = f"/api/admin/{order}", service.context.notices.decisions
        bare = service.client.post(path, json=body)
        assert (bare.status_code, bare.json()["error"]) == (401, "token_missing"), order
        for wrong in ("0" * 64, key[:-1], key + "0"):
            answer = service.admin(order, wrong, **body)
            assert (answer.status_code, answer.json()["error"]) == (401, "token_rejected"), order
        assert service.client.post(path, auth=("admin", key), json=body).status_code == 401, order
        assert service.client.get(path).status_code == 405, order
        assert service.context.notices.decisions == before, order
        assert service.admin(order, **body).status_code == 200, order


def test_orders_count_at_once_and_survive_a_restart(serve: Serve, hub_stand_in: HubStandIn) -> None:
    service = serve(users=["asha"])
    asha, boat = hub_stand_in.add("asha"), hub_stand_in.add("boat")
    assert service.refusal(boat)[1] == "not_allowed"
    service.admin("allow", name="Boat")
    service.admin("ban", name="asha")
    decided = service.admin("announce", text="Sunday at noon").json()
    assert decided == {
        "banned": ["asha"],
        "allowed": ["Boat"],
        "announcement": "Sunday at noon",
        "paused": False,
        "stopped": False,
    }
    service.server.stop()
    again = serve(users=["asha"])
    assert again.context.admin_key == service.context.admin_key
    assert again.join(boat).status_code == 200
    assert again.refusal(asha)[1] == "banned"
    assert again.client.get("/api/notices").json()["announcement"] == "Sunday at noon"
    again.admin("unban", name="Asha")
    again.admin("disallow", name="boat")
    assert again.join(asha).status_code == 200
    assert again.refusal(boat)[1] == "not_allowed"
    for order, refusal in (("pause", "paused"), ("stop", "finished")):
        again.admin(order)
        assert again.refusal(asha)[1] == refusal
    again.admin("resume")
    assert again.join(asha).status_code == 200


def test_a_ban_is_of_the_name_as_it_stands_in_the_pass(service: Service, hub_stand_in: HubStandIn) -> None:
    assert service.join(hub_stand_in.add("BoatMan")).status_code == 200
    assert service.admin("ban", name="boatman").json()["banned"] == ["BoatMan", "boatman"]
    assert service.admin("ban", name="ASHA").json()["banned"] == ["ASHA", "BoatMan", "asha", "boatman"]  # of the ledger
    assert service.admin("unban", name="BOATMAN").json()["banned"] == ["ASHA", "asha"]


def test_the_swarm_goes_back_only_to_a_checkpoint_that_is_there(service: Service) -> None:
    answer = service.admin("restore", step=7)
    assert (answer.status_code, answer.json()["error"]) == (422, "malformed")
    assert "no whole checkpoint of global step 7; there are: none" in answer.json()["message"]
    assert service.client.post("/api/admin/restore", json={"step": 7}).status_code == 401


def test_one_whom_an_audit_has_shut_out_comes_back_with_the_machine(service: Service) -> None:
    notices = service.context.notices
    service.context.ledger.rounds.write([], [Flag(LOSS, "~Eve", "peer-e", 4, "works against the others")], now=50.0)
    notices.ban("~Eve", "peer-e", "~bo", "peer-b")
    assert service.admin("unban", name="~eve").json()["banned"] == ["peer-b", "~bo"]


def test_names_with_joiners_are_banned_and_emoji_announced(service: Service) -> None:
    name, text = "~র‍্যাঁদা می‌خواهم", "Thank you 👩‍🔬"
    assert service.admin("ban", name=name).json()["banned"] == [name]
    assert service.admin("unban", name=name).json()["banned"] == []
    assert service.admin("announce", text=text).json()["announcement"] == text


def test_a_ban_ends_while_the_ledger_is_away_but_machines_are_left(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.admin("ban", name="~eve")
    monkeypatch.setattr(service.context.ledger.rounds, "flags", Mock(side_effect=LedgerError("the disk is full")))
    assert service.admin("unban", name="~eve").status_code == 503
    assert not service.context.notices.decisions.banned


def test_malformed_orders_are_refused(service: Service) -> None:
    malformed: dict[str, list[dict[str, Any]]] = {
        "restore": [{"step": -1}, {"step": "last"}],
        "ban": [{}, {"name": ""}, {"name": "  "}, {"name": "a\nb"}, {"name": "a\u202eb"}],
        "allow": [{"name": "x" * 101}],
        "announce": [{"text": "two\nlines"}, {"text": "x" * 501}],
    }
    for order, bodies in malformed.items():
        for body in bodies:
            answer = service.admin(order, **body)
            assert (answer.status_code, answer.json()["error"]) == (422, "malformed"), (order, body)
    assert not service.context.notices.decisions.banned


def test_the_key_file_is_the_organizers_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "admin.key"
    key = load_admin_key(path)
    assert len(bytes.fromhex(key)) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_admin_key(path) == key
    path.chmod(0o644)
    load_admin_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    for content in (b"", b"short\n", b"\xff" * 64):
        path.write_bytes(content)
        with pytest.raises(SwarmError, match="key") as caught:
            load_admin_key(path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("what", ["decisions", "flags", "evidence?name=~eve", "evidence?name=peer-e"])
def test_what_is_decided_and_known_is_for_the_organizer_alone(service: Service, what: str) -> None:
    path, key = f"/api/admin/{what}", {"Authorization": f"Bearer {service.context.admin_key}"}
    nothing = {"banned": [], "allowed": [], "announcement": "", "paused": False, "stopped": False}
    for headers in ({}, {"Authorization": "Bearer no"}):
        assert service.client.get(path, headers=headers).status_code == 401
    assert service.client.get(path, headers=key).json() == (nothing if what == "decisions" else [])
    service.admin("ban", name="asha")
    flag = Flag(LOSS, "~eve", "peer-e", 4, "its training loss is 9.50, the others' about 6.20")
    service.context.ledger.rounds.write([], [flag], now=50.0)
    (service.context.folder / EVIDENCE).mkdir()
    proved = {"user": "~eve", "peer_id": "peer-e", "what": "signed two different pieces of chunk 3", "step": 4}
    (service.context.folder / EVIDENCE / "peer-e-4.json").write_text(json.dumps(proved))
    about = {"user": "~eve", "peer_id": "peer-e", "kind": "loss", "what": flag.what, "step": 4}
    told: dict[str, object] = {
        "decisions": nothing | {"banned": ["asha"]},
        "flags": [about | {"times": 1, "first": 50.0, "last": 50.0}],
        "evidence": [proved],
    }
    answer = service.client.get(path, headers=key)
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json() == told[what.partition("?")[0]]
