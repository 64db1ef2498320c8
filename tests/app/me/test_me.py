import base64
import json
from pathlib import Path
from unittest.mock import Mock

import pytest
from hivemind.utils.crypto import RSAPublicKey

from app.join.coordinator_client import RunDescription
from app.join.peer_folder import default_folder
from app.join.problems import ProblemKind
from app.me.me import Figures, describe, me
from swarm.access.key_messages import KeyAnswer, to_sign
from swarm.access.passes import load_authority
from swarm.errors import StorageError
from swarm.identity import load_identity, peer_id_of
from tests.app.join.stand_in import OPEN_RUN, Answer, Heard, StandIn
from tests.support.problems import raises_problem

NOW = 1_000_000.0
OURS = KeyAnswer(user="asha", key="abc", expires=NOW + 30 * 86400)


def test_what_is_told() -> None:
    run = RunDescription.model_validate(OPEN_RUN | {"name": "river", "dashboard": "https://pages.example/"})
    assert describe(run, OURS, Figures(rank=3, samples=12_345, hours=6.25), NOW) == [
        "In river you are asha.",
        "12,345 samples in 6.2 hours: rank 3.",
        "Your page My machines: https://pages.example/my_machines?key=abc",
        "The key is good for 30 days. Keep it to yourself: anybody who has it can pause your machines and "
        "change your team.",
    ]
    chosen = OURS.model_copy(update={"user": "~asha", "peer_id": "Qm"})
    lines = describe(run.model_copy(update={"dashboard": ""}), chosen, None, NOW)
    assert lines[:2] == [
        "In river you are ~asha (a name of your own choice).",
        "Nothing has been counted for you yet.",
    ]
    assert lines[2].endswith("dashboard: abc") and lines[3].endswith("can pause this machine and change your team.")


@pytest.fixture
def coordinator() -> StandIn:
    stand_in = StandIn()
    stand_in.answers["GET /api/run"] = Answer(body=OPEN_RUN | {"name": "river", "dashboard": "https://pages.example"})
    return stand_in


def test_a_machine_asks_by_its_identity_while_its_peer_runs(coordinator: StandIn, tmp_path: Path) -> None:
    held = load_identity(tmp_path / "identity.key")

    def give(heard: Heard) -> Answer:
        return Answer(body={"user": "~asha", "peer_id": str(held.peer_id), "key": "k", "expires": NOW})

    coordinator.answers["POST /api/me/key"] = give
    said: list[str] = []
    me(coordinator.url, said.append, state=tmp_path)
    body = next(one.body for one in coordinator.heard if one.method == "POST")
    public_key, signature = base64.b64decode(body["public_key"]), base64.b64decode(body["signature"])
    assert peer_id_of(public_key) == held.peer_id
    content = to_sign("river", str(held.peer_id), body["time"])
    assert RSAPublicKey.from_bytes(public_key).verify(content, signature)
    assert said[0] == "In river you are ~asha (a name of your own choice)."
    assert "my_machines?key=k" in said[2]
    held.lock.close()


def test_who_has_joined_under_a_name_of_their_own_shows_no_token(
    coordinator: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAHAJ_HOME", str(tmp_path))
    monkeypatch.setenv("HF_TOKEN", "hf_of_somebody")
    folder = default_folder(coordinator.url)
    held = load_identity(folder / "identity.key")
    own = load_authority(tmp_path / "authority.key").issue("river", "~asha", held.peer_id, 60.0)
    question = {"peer_id": str(held.peer_id), "pass": base64.b64encode(own.to_bytes()).decode()}
    kept = {"question": question, "paused": False}
    (folder / "page.json").write_text(json.dumps(kept))
    coordinator.answers["POST /api/me/key"] = Answer(
        body={"user": "~asha", "peer_id": "Qm", "key": "k", "expires": NOW}
    )
    me(coordinator.url, print)
    assert all(one.bearer is None for one in coordinator.heard)
    held.lock.close()


def test_earlier_keys_are_revoked_with_a_new_one_which_is_told_not(coordinator: StandIn, tmp_path: Path) -> None:
    load_identity(tmp_path / "identity.key").lock.close()
    keys = iter(["first", "second"])
    answer = {"user": "~asha", "peer_id": "Qm", "expires": NOW}
    coordinator.answers["POST /api/me/key"] = lambda heard: Answer(body=answer | {"key": next(keys)})
    coordinator.answers["DELETE /api/me/key"] = Answer(body=answer)
    said: list[str] = []
    me(coordinator.url, said.append, state=tmp_path, revoke=True)
    assert [one.bearer for one in coordinator.heard if one.method == "DELETE"] == ["first"]
    assert said[0] == "All earlier keys and links to your page have stopped working."
    assert "key=second" in said[3] and not any("first" in line for line in said)


@pytest.mark.parametrize("fault", [{"expires": 1e999}, {"key": 7}])
def test_a_coordinator_that_answers_oddly_is_one_line(coordinator: StandIn, tmp_path: Path, fault: dict[str, float]):
    load_identity(tmp_path / "identity.key").lock.close()
    answer = {"user": "~asha", "peer_id": "Qm", "key": "k", "expires": NOW}
    coordinator.answers["POST /api/me/key"] = Answer(body=answer | fault)
    with raises_problem(ProblemKind.NOT_A_COORDINATOR):
        me(coordinator.url, print, state=tmp_path)


def test_without_a_token_or_a_peer(coordinator: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAHAJ_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with raises_problem(ProblemKind.TOKEN_MISSING, "join first"):
        me(coordinator.url, print)
    with raises_problem(ProblemKind.TOKEN_MISSING, "not the folder of a peer"):
        me(coordinator.url, print, state=tmp_path)
    (tmp_path / "identity.key").touch()
    for method in ("open", "stat"):
        monkeypatch.setattr(Path, method, Mock(side_effect=PermissionError(13, "Permission denied")))
        with pytest.raises(StorageError, match=r"cannot be read \(Permission denied\); correct the path"):
            me(coordinator.url, print, state=tmp_path)
