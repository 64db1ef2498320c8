"""The whole way of `sahaj join`, with a stand-in for the coordinator and for training itself."""

import base64
import itertools
import logging
import stat
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.join.admission import _claim
from app.join.join import JoinOptions, _view, join
from app.join.peer_folder import IDENTITY, free_folders, name_of
from app.join.problems import ProblemKind
from swarm.access.notices import Notices
from swarm.errors import StorageError, SwarmError
from swarm.logging import logs
from tests.app.join.conftest import RUN, Trained, begun_renewal
from tests.app.join.stand_in import Answer, Heard, StandIn
from tests.support.forked import run_together
from tests.support.problems import raises_problem
from tests.support.waiting import wait_until
from tests.swarm.logging.conftest import begun as begun
from tests.trainer.console.test_view import VIEW
from trainer.options import VolunteerOptions

SECRET = "hf_very_secret"
MINE = {"name": "alice", "auth": {"accessToken": {"role": "read"}}}


def options(tmp_path: Path, **changes: Any) -> JoinOptions:
    return replace(JoinOptions(state=tmp_path / "peer", chosen=VolunteerOptions(device="cpu")), **changes)


def test_no_secret_is_in_the_log_of_a_join_however_much_is_logged(
    opened: StandIn,
    hub: StandIn,
    trained: Trained,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    begun: None,
):
    logs.start(logs.Level.DEBUG)
    hub.answers["GET /api/whoami-v2"] = Answer(body=MINE)
    monkeypatch.setenv("HF_TOKEN", SECRET)
    join(opened.url, options(tmp_path))
    [(_, trainer, _, _)] = trained.calls
    logging.getLogger("trainer.example").error("a library quotes its headers: {'authorization': 'Bearer %s'}", SECRET)
    log = (tmp_path / "peer" / logs.FOLDER / "trainer.jsonl").read_bytes()
    assert b"The leaderboard calls you alice" in log and b"a library quotes" in log
    shown = trainer.gate.own.to_bytes()
    key = trainer.identity.path.read_bytes()
    for secret in (SECRET.encode(), shown, shown[-32:], key, key[-32:]):
        assert secret not in log
        assert base64.b64encode(secret)[:20] not in log and secret.hex().encode()[:20] not in log


def test_with_a_token(
    opened: StandIn,
    hub: StandIn,
    trained: Trained,
    fingerprint_of: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    hub.answers["GET /api/whoami-v2"] = Answer(body=MINE)
    monkeypatch.setenv("HF_TOKEN", SECRET)
    join(opened.url, options(tmp_path, verbose=True))
    [(run, trainer, _, _)] = trained.calls
    assert trainer.gate.own.user == "alice"
    assert trainer.gate.admit(trainer.identity.peer_id, trainer.gate.own).user == "alice"
    assert trainer.network.initial_peers == ["/ip4/127.0.0.1/tcp/1/p2p/QmQdReeSaZEjRPfQgJMeSZSnkLYLFc1P3RqMAqLJDDLTcL"]
    assert not trainer.network.client_mode
    assert run.name == "little"
    assert trainer.fingerprint == fingerprint_of(RUN) and trainer.tokenizer.mask_token == "[MASK]"
    shown = capfd.readouterr()
    assert "asking for a pass:" in shown.out
    assert "Ctrl-C" in shown.out
    assert SECRET not in shown.out + shown.err
    written = [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert not written


def test_a_renewal_says_what_is_trained(opened: StandIn, trained: Trained, tmp_path: Path):
    join(opened.url, options(tmp_path, name="bob"))
    [(_, trainer, _, _)] = trained.calls
    renewal = begun_renewal(trainer)
    answer = renewal._contact.renew()
    assert answer.user == "~bob"
    first, last = (heard.body for heard in opened.heard if heard.path == "/api/join")
    assert first["fingerprint"] is None
    assert last["fingerprint"]["data.max_length"] == "512"
    assert last["public_key"] == first["public_key"]


def test_another_fingerprint_is_refused(opened: StandIn, trained: Trained, tmp_path: Path):
    change_answer(opened, lambda body: body["manifest"].update(fingerprint="0" * 16))
    with raises_problem(ProblemKind.WRONG_FINGERPRINT, match="0000000000000000"):
        join(opened.url, options(tmp_path, name="bob"))
    assert not trained.calls


def test_a_pass_that_is_somebody_elses_is_not_used(opened: StandIn, trained: Trained, tmp_path: Path):
    change_answer(opened, lambda body: body.update(authority="AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="))
    with pytest.raises(SwarmError, match="was not given to this peer by the run's authority"):
        join(opened.url, options(tmp_path, name="bob"))
    assert not trained.calls


def test_without_a_peer_to_join_by_nothing_begins(opened: StandIn, trained: Trained, tmp_path: Path):
    change_answer(opened, lambda body: body.update(initial_peers=["nonsense"]))
    with raises_problem(ProblemKind.MANIFEST, match="names no peer"):
        join(opened.url, options(tmp_path, name="bob"))
    assert not trained.calls


def test_local_text_of_a_run_on_this_machine(opened: StandIn, trained: Trained, tmp_path: Path):
    own = tmp_path / "own.txt"
    own.write_text("text")
    change_answer(
        opened, lambda body: body["manifest"].update(run=RUN.replace("hub: owner/text", "path: relative.jsonl"))
    )
    with raises_problem(ProblemKind.MANIFEST, match="--data"):
        join(opened.url, options(tmp_path, name="bob"))
    # the lock of the peer's identity is held while the process lives
    join(opened.url, options(tmp_path, name="bob", data=own, state=tmp_path / "other"))
    assert trained.calls[0][0].data.train[0].path == str(own)


def test_the_rights_of_a_folder_of_other_things_are_left_alone(opened: StandIn, trained: Trained, tmp_path: Path):
    folder = tmp_path / "www"
    folder.mkdir(mode=0o755)
    (folder / "index.html").touch(0o644)
    for name in ("traffic.json", "page.json", "pause"):
        (folder / name).touch()
    with pytest.raises(StorageError, match=r"www: holds something other than a peer; choose a new folder with --state"):
        join(opened.url, options(tmp_path, name="bob", state=folder))
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "index.html")] == [0o755, 0o644]
    (folder / "index.html").unlink()  # a day's traffic or a pause may have been noted before the peer was ever let in
    join(opened.url, options(tmp_path, name="bob", state=folder))
    (folder / "index.html").touch()
    (folder / "identity.key").unlink()  # `link` is there
    join(opened.url, options(tmp_path, name="bob", state=folder))
    assert len(trained.calls) == 2


def test_two_processes_that_start_at_once_are_two_peers(tmp_path: Path) -> None:
    run_together(tmp_path, {name: (be_a_peer, (tmp_path, name)) for name in ("asha", "bimal")})
    folders = {name: (tmp_path / f"{name}.is").read_text() for name in ("asha", "bimal")}
    assert sorted(folders.values()) == ["192.0.2.1", "192.0.2.1-2"]
    assert len({(tmp_path / "cache" / "sahaj" / one / IDENTITY).read_bytes() for one in folders.values()}) == 2


def be_a_peer(place: Path, name: str) -> None:
    def told_by_both(what: str) -> bool:
        return len(list(place.glob(f"*.{what}"))) == 2

    free = free_folders("http://192.0.2.1")
    first = next(free)
    (place / f"{name}.chose").touch()
    wait_until(lambda: told_by_both("chose"), "both have chosen")
    identity = _claim(itertools.chain([first], free), print)
    (place / f"{name}.is").write_text(identity.path.parent.name)
    wait_until(lambda: told_by_both("is"), "both are peers")


def test_a_session_beside_another_one_says_that_it_is_a_further_peer(
    opened: StandIn, trained: Trained, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for told, folder in ((False, name_of(opened.url)), (True, f"{name_of(opened.url)}-2")):  # the first keeps its lock
        join(opened.url, options(tmp_path, name="asha", state=None))
        assert trained.calls[-1][1].identity.path.parent.name == folder
        said = " ".join(capfd.readouterr().out.split())
        assert ("Another session of this run is already running on this machine;" in said) == told


@pytest.mark.parametrize("service", [True, False])
def test_a_log_is_no_live_view_whatever_is_to_be_coloured(
    service: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with _view(JoinOptions(service=service)) as view:
        view.update(VIEW)
        assert capsys.readouterr().out.startswith("global step 1,234 of 125,000 | ")


def test_a_strong_token_does_not_reach_the_coordinator(
    opened: StandIn, hub: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    hub.answers["GET /api/whoami-v2"] = Answer(body={"name": "alice", "auth": {"accessToken": {"role": "write"}}})
    monkeypatch.setenv("HF_TOKEN", SECRET)
    with raises_problem(ProblemKind.TOKEN_TOO_STRONG):
        join(opened.url, options(tmp_path))
    assert not any(heard.bearer for heard in opened.heard)


def change_answer(server: StandIn, change: Callable[[dict[str, Any]], None]) -> None:
    """Let the coordinator answer something else to a request to join."""
    usual = server.answers["POST /api/join"]

    def changed(heard: Heard) -> Answer:
        assert callable(usual)
        answer = usual(heard)
        assert isinstance(answer.body, dict)
        change(answer.body)
        return answer

    server.answers["POST /api/join"] = changed


def test_one_who_is_banned_while_training_ends_with_that_status(
    opened: StandIn, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):

    def train(_run: Any, trainer: Any, *_: Any) -> bool:
        banned = Notices(banned=frozenset({trainer.gate.own.user}))
        monkeypatch.setattr(type(trainer.gate), "notices", property(lambda _: banned))
        return False

    monkeypatch.setattr(sys.modules["trainer.train"], "train", train)
    with raises_problem(ProblemKind.BANNED):
        join(opened.url, options(tmp_path, name="asha"))
