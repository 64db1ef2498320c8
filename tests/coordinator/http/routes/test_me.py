import base64
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from app.me.personal_key import sign_request
from coordinator.access.person_key import issue_key, read_key
from coordinator.http.key_holders import REQUESTS
from coordinator.http.request_limits import JoinLimits
from coordinator.ledger.ingest import SessionReport
from swarm import clock
from swarm.access.key_messages import FRESH_FOR, KeyRequest
from swarm.access.passes import load_authority
from swarm.identity import load_identity
from tests.coordinator.http.conftest import Serve, Service
from tests.support.hub.stand_in import HubStandIn

Report = Callable[..., SessionReport]
KEY = "/api/me/key"


@pytest.fixture
def identity(tmp_path: Path) -> Path:
    path = tmp_path / "peer" / "identity.key"
    load_identity(path).lock.close()
    return path


def whose(service: Service, key: str) -> tuple[int, str | None]:
    answer = service.client.get("/api/me", headers={"Authorization": f"Bearer {key}"})
    assert answer.headers["cache-control"] == "no-store"
    return answer.status_code, answer.json().get("user")


def ask(service: Service, request: KeyRequest) -> httpx.Response:
    return service.client.post(KEY, json=request.model_dump(mode="json"))


def test_a_hub_user_has_a_key_for_all_machines(serve: Serve, hub_stand_in: HubStandIn) -> None:
    service = serve(users=["asha"])
    token = hub_stand_in.add("asha")
    answer = service.client.post(KEY, headers={"Authorization": f"Bearer {token}"}).json()
    assert (answer["user"], answer["peer_id"]) == ("asha", None)
    assert whose(service, answer["key"]) == (200, "asha")
    key = read_key(answer["key"], service.context.authority.public_key, "test-run")
    assert (key.user, key.peer_id) == ("asha", None)
    stranger = service.client.post(KEY, headers={"Authorization": f"Bearer {hub_stand_in.add('boat')}"})
    assert (stranger.status_code, stranger.json()["error"]) == (403, "not_allowed")
    refused = service.client.post(KEY, headers={"Authorization": "Bearer hf_unknown"})
    assert (refused.status_code, refused.json()["error"]) == (401, "token_rejected")
    assert service.client.post(KEY).json()["error"] == "token_missing"


def test_a_machine_has_a_key_for_itself(service: Service, identity: Path, report: Report) -> None:
    request = sign_request(identity, "test-run", clock.now())
    unknown = ask(service, request)
    assert (unknown.status_code, unknown.json()["error"]) == (403, "not_allowed")
    peer_id = str(load_identity(identity).peer_id)
    service.context.ledger.record([report("c", user="~asha", peer_id=peer_id)])
    answer = ask(service, request).json()
    assert (answer["user"], answer["peer_id"]) == ("~asha", peer_id)
    key = read_key(answer["key"], service.context.authority.public_key, "test-run")
    assert (key.user, key.peer_id) == ("~asha", peer_id), "it is for no other machine of that name"


@pytest.mark.parametrize("fault", ["run", "old", "future", "signature", "another's public key"])
def test_a_request_that_the_machine_has_not_signed_now_is_refused(
    service: Service, identity: Path, public_keys: list[bytes], report: Report, fault: str
) -> None:
    service.context.ledger.record([report("c", user="~asha", peer_id=str(load_identity(identity).peer_id))])
    late = {"old": -FRESH_FOR - 1, "future": FRESH_FOR + 60}.get(fault, 0.0)
    request = sign_request(identity, "other-run" if fault == "run" else "test-run", clock.now() + late)
    if fault == "signature":
        request = request.model_copy(update={"signature": b"not one"})
    body = request.model_dump(mode="json")
    if fault == "another's public key":
        body["public_key"] = base64.b64encode(public_keys[0]).decode()
    refused = service.client.post(KEY, json=body)
    assert (refused.status_code, refused.json()["error"]) == (422, "malformed")


def test_keys_that_are_not_good(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = service.context.authority, load_authority(tmp_path / "other.key")
    good, _ = issue_key(ours, "test-run", "asha", None)
    for bad in (
        issue_key(ours, "other-run", "asha", None)[0],
        issue_key(theirs, "test-run", "asha", None)[0],
        good[:-3],
        good + "A" * 1000,
        "%",
        service.context.admin_key,
    ):
        assert whose(service, bad)[0] == 401
    assert service.client.get("/api/me").status_code == 401
    assert whose(service, good) == (200, "asha")
    service.context.notices.ban("Asha")
    assert whose(service, good)[0] == 403
    service.context.notices.unban("asha")
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now + 31 * 86400)
    assert whose(service, good)[0] == 401


def test_asking_for_keys_is_limited_and_uses_up_no_attempt_to_join(serve: Serve) -> None:
    service = serve(open=True, limits=JoinLimits(per_address=2))
    assert [service.client.post(KEY).status_code for _ in range(3)] == [401, 401, 429]
    assert [service.client.post("/api/join", json={}).status_code for _ in range(3)] == [422, 422, 429]
    assert "too many requests for a key" in service.client.post(KEY).json()["message"]


def test_requests_with_a_key_are_limited_by_its_holder(service: Service) -> None:
    asha, boat = (issue_key(service.context.authority, "test-run", user, None)[0] for user in ("asha", "boat"))
    assert {whose(service, asha)[0] for _ in range(REQUESTS)} == {200}
    refused = service.client.get("/api/me", headers={"Authorization": f"Bearer {asha}"})
    assert (refused.status_code, refused.json()["error"]) == (429, "too_many")
    assert int(refused.headers["retry-after"]) >= 1
    assert whose(service, boat) == (200, "boat")
    revoked = service.client.delete(KEY, headers={"Authorization": f"Bearer {asha}"})
    assert revoked.status_code == 200, "a thief of the key cannot keep its holder from this"


def test_revoked_keys_are_refused_and_new_ones_are_good_at_once(serve: Serve, hub_stand_in: HubStandIn) -> None:
    service = serve(users=["asha", "boat"])
    tokens = {user: {"Authorization": f"Bearer {hub_stand_in.add(user)}"} for user in ("asha", "boat")}

    def new_key(user: str) -> str:
        return str(service.client.post(KEY, headers=tokens[user]).json()["key"])

    old, other, boats = new_key("asha"), new_key("asha"), new_key("boat")
    machines, _ = issue_key(service.context.authority, "test-run", "asha", "a peer")  # of a name like that
    revoked = service.client.delete(KEY, headers={"Authorization": f"Bearer {old}"})
    assert (revoked.status_code, revoked.json()["user"]) == (200, "asha")
    assert "revoked" in service.client.get("/api/me", headers={"Authorization": f"Bearer {other}"}).json()["message"]
    assert service.client.delete(KEY, headers={"Authorization": f"Bearer {old}"}).status_code == 401
    new = new_key("asha")
    assert [whose(service, key)[0] for key in (old, other, new, boats, machines)] == [401, 401, 200, 200, 200]
