import base64
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import pytest

from coordinator.http import request_limits
from coordinator.http.request_limits import JoinLimits
from swarm.access.join_messages import JoinAnswer
from swarm.access.notices import read_notices
from swarm.access.passes import check_pass, read_pass
from swarm.identity import peer_id_of
from swarm.run_file import load_run
from swarm.run_file.fingerprint import Fingerprint
from tests.coordinator.http.conftest import ADDRESS, OURS, Serve, Service, as_peer
from tests.support.hub.stand_in import HubStandIn
from tests.support.waiting import PATIENCE, wait_until


def test_a_listed_user_gets_a_pass_for_their_peer_and_the_manifest(
    serve: Serve, hub_stand_in: HubStandIn, public_keys: list[bytes], tmp_path
) -> None:
    service = serve(users=["Asha"], pass_lifetime=60.0)  # the Hub does not mind the case of a name
    answered = service.join(hub_stand_in.add("asha"))
    assert (answered.status_code, answered.headers["cache-control"]) == (200, "no-store")
    answer = JoinAnswer.model_validate_json(answered.content)
    assert (answer.user, answer.initial_peers) == ("asha", [ADDRESS])
    assert answer.standing is not None and (answer.standing.samples, answer.standing.days) == (64, 1)
    authority = service.context.authority.public_key
    assert answer.authority == authority
    its = read_pass(answer.pass_)
    check_pass(its, authority, "test-run", peer_id_of(public_keys[0]))
    assert (its.user, its.expires) == ("asha", answer.expires)
    assert not read_notices(answer.notices, authority, "test-run").banned
    copy = tmp_path / "run.yaml"
    copy.write_text(answer.manifest.run)
    assert load_run(copy).name == "test-run"
    assert "hidden-word" not in answer.manifest.run
    assert answer.manifest.fingerprint == service.context.fingerprint.digest
    assert [one.name for one in answer.manifest.tokenizer] == ["tokenizer.json", "tokenizer_config.json"]


def test_who_may_come_in_under_each_kind_of_access(serve: Serve, hub_stand_in: HubStandIn) -> None:
    asha, boat = hub_stand_in.add("asha"), hub_stand_in.add("boat", "River")
    listed = serve(users=["asha"])
    assert listed.join(asha).json()["user"] == "asha"
    assert listed.refusal(boat)[:2] == (403, "not_allowed")
    status, error, message = listed.refusal(name="asha")
    assert (status, error) == (401, "token_missing")
    assert "token" in message
    members = serve(organizations=["river"])
    assert members.join(boat).json()["user"] == "boat"
    status, error, message = members.refusal(asha)
    assert (status, error) == (403, "not_allowed")
    assert "asha" in message and "river" in message
    mixed = serve(open=True, users=["asha"])
    assert mixed.join(boat, name="asha").json()["user"] == "boat"
    assert mixed.join(name="  asha   of the river ").json()["user"] == "~asha of the river"


def test_a_name_that_is_none_is_malformed(service: Service) -> None:
    odd = ("#coordinator", "~asha", " ~asha", "a\nb", "a\x00b", "\u200d", "a\u202eb", "a\u2028b", "x" * 41)
    for name in (None, "", "   ", *odd):
        assert service.refusal(name=name)[:2] == (422, "malformed"), name


def test_names_in_other_scripts_are_names(service: Service) -> None:
    for name in ("আশা", "ক্‌ষ", "Ana María", "👩‍🚀"):
        assert service.join(name=name).json()["user"] == "~" + name


def test_a_peer_id_belongs_to_its_key(service: Service, public_keys: list[bytes]) -> None:
    other = as_peer(public_keys[1])
    assert service.refusal(name="asha", peer_id=other["peer_id"])[:2] == (422, "malformed")
    assert service.refusal(name="asha", public_key=base64.b64encode(b"no key").decode())[:2] == (422, "malformed")
    assert service.refusal(name="asha", public_key="%%%")[:2] == (422, "malformed")


def test_another_version_is_refused(service: Service) -> None:
    major, minor, _ = OURS.split(".", 2)
    assert service.join(name="asha", version=f"{major}.{minor}.99").status_code == 200
    status, error, message = service.refusal(name="asha", version=f"{major}.{int(minor) + 1}.0")
    assert (status, error) == (426, "wrong_version")
    assert OURS in message and f"{major}.{int(minor) + 1}" in message
    assert service.refusal(name="asha", version="newest")[:2] == (422, "malformed")


def test_other_settings_are_refused_with_the_fields_named(service: Service, our_fingerprint: Fingerprint) -> None:
    ours = dict(our_fingerprint.values)
    assert service.join(name="asha", fingerprint=ours).status_code == 200
    changed = ours | {"model.hidden_size": "2\n3", "tokenizer": '"' + "b" * 500 + '"'}
    status, error, message = service.refusal(name="asha", fingerprint=changed)
    assert (status, error) == (409, "wrong_fingerprint")
    assert "model.hidden_size: 1024 here, 2?3 there" in message and "tokenizer" in message
    many = service.refusal(name="asha", fingerprint={f"key {number}": "x" * 300 for number in range(100)})
    assert many[0] == 409 and len(many[2]) < 1000


def test_a_pause_is_for_newcomers_and_a_stop_for_all(service: Service, our_fingerprint: Fingerprint) -> None:
    service.context.notices.pause()
    paused = service.join(name="asha")
    assert (paused.status_code, paused.json()["error"]) == (503, "paused")
    assert int(paused.headers["retry-after"]) > 0
    known = dict(our_fingerprint.values)
    assert service.join(name="asha", fingerprint=known).status_code == 200
    service.context.notices.stop()
    assert service.refusal(name="asha", fingerprint=known)[:2] == (410, "finished")
    service.context.notices.resume()
    assert service.join(name="asha").status_code == 200
    service.step[0] = 100
    assert service.refusal(name="asha")[:2] == (410, "finished")


def test_the_banned_stay_out_by_name_and_by_peer(service: Service, hub_stand_in: HubStandIn) -> None:
    token = hub_stand_in.add("Asha")
    service.context.notices.ban("asha")
    status, error, message = service.refusal(token)
    assert (status, error) == (403, "banned")
    assert "Asha" in message
    assert service.join(name="asha").status_code == 200  # nobody says that this is the same person
    service.context.notices.ban("~asha")
    assert service.refusal(name="asha")[:2] == (403, "banned")
    assert service.join(name="boat").status_code == 200
    service.context.notices.ban(service.peer["peer_id"])
    assert service.refusal(name="boat")[:2] == (403, "banned")


def test_the_hub_rejects_is_away_or_talks_nonsense(serve: Serve, hub_stand_in: HubStandIn) -> None:
    service = serve(users=["asha"])
    token = hub_stand_in.add("asha")
    assert service.refusal("hf_unknown")[:2] == (401, "token_rejected")
    assert service.refusal("ünknown")[:2] == (401, "token_rejected")
    assert service.refusal(hub_stand_in.add("river", kind="org"))[:2] == (401, "token_rejected")
    hub_stand_in.failing = 500
    away = service.join(token)
    assert (away.status_code, away.json()["error"]) == (503, "hub_away")
    assert int(away.headers["retry-after"]) > 0
    hub_stand_in.failing = 429
    assert service.refusal(token)[:2] == (503, "hub_away")
    hub_stand_in.failing = None
    hub_stand_in.garbled = b"<html>"
    assert service.refusal(token)[:2] == (503, "hub_away")
    hub_stand_in.garbled = None
    hub_stand_in.away()
    assert service.refusal(token)[:2] == (503, "hub_away")
    hub_stand_in.back()
    assert service.join(token).status_code == 200


def test_a_slow_hub_holds_up_nobody_else(serve: Serve, hub_stand_in: HubStandIn) -> None:
    service = serve(users=["asha"])
    hub_stand_in.hold()
    with ThreadPoolExecutor() as pool:
        slow = pool.submit(service.join, hub_stand_in.add("asha"))
        wait_until(lambda: hub_stand_in.asked, "question to the Hub")
        assert service.client.get("/healthz").status_code == 200
        assert not slow.done()
        hub_stand_in.let_go()
        assert slow.result().status_code == 200


def test_a_slow_hub_counts_as_away(serve: Serve, hub_stand_in: HubStandIn) -> None:
    hub_stand_in.hold()
    service = serve(users=["asha"], limits=JoinLimits(hub_timeout=0.2))
    assert service.refusal(hub_stand_in.add("asha"))[:2] == (503, "hub_away")


def test_a_second_time_the_hub_is_not_asked(serve: Serve, hub_stand_in: HubStandIn) -> None:
    service = serve(users=["asha"])
    token = hub_stand_in.add("asha")
    for _ in range(3):
        assert service.join(token).status_code == 200
        assert service.refusal("hf_unknown")[:2] == (401, "token_rejected")
    assert len(hub_stand_in.asked) == 2
    # what can be refused without the Hub is
    service.refusal(hub_stand_in.add("asha"), version="9.9.9")
    assert len(hub_stand_in.asked) == 2


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", 422), (b"", 422), (b"[]", 422), (b"\xff\xfe", 422), (b"[" * 60_000, 422), (b"x" * 65_537, 413)],
)
def test_a_malformed_body_is_refused_in_one_line(service: Service, body: bytes, status: int) -> None:
    headers = {"Content-Type": "application/json"}
    for content in (body, iter([body])):  # with its length announced, and without
        answer = service.client.post("/api/join", content=content, headers=headers)
        assert (answer.status_code, answer.json()["error"]) == (status, "malformed")
        assert "\n" not in answer.json()["message"]


def test_what_was_sent_is_not_repeated(service: Service) -> None:
    for changes in ({"peer_id": ["hf_secret"]}, {"name": {"hf_secret": "hf_secret"}}, {"fingerprint": "hf_secret"}):
        assert "hf_secret" not in service.refusal(**changes)[2]


def test_a_thousand_attempts_are_answered_and_most_refused(
    serve: Serve, hub_stand_in: HubStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_limits, "DELAY", 0.0)
    service = serve(users=["asha"], limits=JoinLimits(per_address=20, window=600.0))

    def attempts(numbers: range) -> list[httpx.Response]:
        with httpx.Client(
            base_url=service.client.base_url, timeout=PATIENCE
        ) as client:  # in one of several threads, httpx races
            return [replace(service, client=client).join(f"hf_guess{number}") for number in numbers]

    with ThreadPoolExecutor(8) as pool:
        answers = [one for some in pool.map(attempts, [range(first, 1000, 8) for first in range(8)]) for one in some]
    statuses = [answer.status_code for answer in answers]
    assert (statuses.count(401), statuses.count(429)) == (20, 980)
    assert len(hub_stand_in.asked) == 20
    late = answers[-1]
    assert late.json()["error"] == "too_many" and 0 < int(late.headers["retry-after"]) <= 600
    assert service.client.get("/api/run").status_code == 200


def test_a_user_has_attempts_of_their_own(serve: Serve, hub_stand_in: HubStandIn) -> None:
    service = serve(users=["asha", "boat"], limits=JoinLimits(per_user=3))
    devices = [hub_stand_in.add("asha") for _ in range(4)]
    assert [service.join(token).status_code for token in devices] == [200, 200, 200, 429]
    assert service.join(hub_stand_in.add("boat")).status_code == 200


def test_an_error_of_ours_is_one_line(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    service.step[:] = []
    answer = service.join(name="asha")
    assert (answer.status_code, answer.json()["error"]) == (500, "unavailable")
    assert "Traceback" not in caplog.text and "IndexError" in caplog.text
    service.step.append(7)
    assert service.join(name="asha").status_code == 200
