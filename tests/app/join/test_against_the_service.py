"""`sahaj join` and `sahaj admin` against the coordinator's real HTTP service, with a stand-in for the Hub."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from app.doctor.machine import TokenSeen
from app.doctor.network import ask_for_run
from app.doctor.observing import ask_for_pass
from app.doctor.peer_process import look_at_peer
from app.join.coordinator_client import RunDescription
from app.join.hub_token import HubToken
from app.join.join import JoinOptions, join
from app.join.problems import ProblemKind
from app.organizing.admin import admin
from coordinator.access.admin_key import load_admin_key
from coordinator.access.decisions import NoticeStore
from coordinator.http.app import make_app
from coordinator.http.server import Server
from coordinator.ledger.ledger import open_ledger
from coordinator.run_context import RunStatus, ServiceContext
from swarm.access.passes import load_authority
from swarm.run_file import load_run
from swarm.run_file.fingerprint import OPTIMIZER_VERSION, fingerprint
from swarm.version import program_version
from tests.app.join.conftest import RUN, Trained, begun_renewal
from tests.support.hub.stand_in import HubStandIn
from tests.support.problems import raises_problem
from tests.support.waiting import PATIENCE
from tokenizer.loading import read_tokenizer, tokenizer_digest
from trainer.options import VolunteerOptions


@dataclass
class Service:
    url: str
    key: Path
    hub: HubStandIn


@pytest.fixture
def service(tokenizer_files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    state, folder = tmp_path / "state", tmp_path / "tokenizer"
    folder.mkdir()
    for name, content in tokenizer_files.items():
        (folder / name).write_bytes(content)
    path = tmp_path / "run.yaml"
    path.write_text(RUN + "access:\n  users: [alice]\n")
    run, authority = load_run(path), load_authority(state / "authority.key")
    ledger = open_ledger("sqlite:///ledger.db", state)
    with HubStandIn() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        context = ServiceContext(
            run=run,
            fingerprint=fingerprint(run, tokenizer_digest(read_tokenizer(str(folder)))),
            folder=state,
            ledger=ledger,
            say=print,
            tokenizer_folder=folder,
            authority=authority,
            notices=NoticeStore(state, authority, run.name),
            admin_key=load_admin_key(state / "admin.key"),
            status=lambda: RunStatus(step=0, samples_gathered=12, stepped_at=0.0),
            addresses=lambda: ["/ip4/127.0.0.1/tcp/1/p2p/QmQdReeSaZEjRPfQgJMeSZSnkLYLFc1P3RqMAqLJDDLTcL"],
            order_rollback=lambda step: None,
        )
        server = Server(make_app(context), "127.0.0.1", 0)
        yield Service(server.url, state / "admin.key", hub)
        server.stop()
    ledger.close()


def test_from_the_link_to_training_and_out_again(
    service: Service, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    homes = iter(range(100))

    def come(token: str) -> None:
        monkeypatch.setenv("HF_TOKEN", token)
        join(service.url, JoinOptions(state=tmp_path / f"peer-{next(homes)}", chosen=VolunteerOptions(device="cpu")))

    alice, bob = service.hub.add("alice"), service.hub.add("bob")
    come(alice)
    [(_, trainer, _, _)] = trained.calls
    assert trainer.gate.own.user == "alice"
    renewal = begun_renewal(trainer)
    assert renewal._contact.renew().user == "alice"
    renewal._gate.take_notice(renewal._contact.fetch_notices())

    with raises_problem(ProblemKind.NOT_ALLOWED, match="bob"):
        come(bob)
    admin(service.url, service.key, "allow", "bob")
    come(bob)

    admin(service.url, service.key, "pause")
    with raises_problem(ProblemKind.PAUSED):
        come(alice)
    assert renewal._contact.renew().user == "alice"  # who is there stays
    admin(service.url, service.key, "resume")

    admin(service.url, service.key, "ban", "alice")
    with raises_problem(ProblemKind.BANNED):
        come(alice)
    with raises_problem(ProblemKind.BANNED):
        renewal._contact.renew()
    admin(service.url, service.key, "unban", "alice")
    come(alice)

    service.hub.revoke(bob)
    with raises_problem(ProblemKind.TOKEN_REJECTED):
        come(bob)

    other = tmp_path / "other.key"
    load_admin_key(other)
    with raises_problem(ProblemKind.ADMIN_KEY):
        admin(service.url, other, "stop")
    admin(service.url, service.key, "stop")
    with raises_problem(ProblemKind.FINISHED):
        come(alice)
    assert len(trained.calls) == 3


def test_a_volunteer_with_another_optimizer_is_refused_and_told_what_differs(
    service: Service, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HF_TOKEN", service.hub.add("alice"))
    monkeypatch.setattr("swarm.run_file.fingerprint.fingerprint", partial(fingerprint, optimizer_version=1))
    differ = rf"optimizer\.version: {OPTIMIZER_VERSION} here, 1 there.*the program that the coordinator"
    with raises_problem(ProblemKind.WRONG_FINGERPRINT, match=differ):
        join(service.url, JoinOptions(state=tmp_path / "peer", chosen=VolunteerOptions(device="cpu")))
    assert not trained.calls


def test_the_doctor_is_answered_as_a_volunteer_would_be(service: Service, tmp_path: Path):
    """Whether that volunteer may join, without joining."""
    seen = ask_for_run(service.url, PATIENCE)[0]
    assert isinstance(seen, RunDescription) and seen.version == program_version()
    peer = look_at_peer(tmp_path / "peer")
    alice = TokenSeen(HubToken(service.hub.add("alice"), "HF_TOKEN"), "alice")
    assert ask_for_pass(service.url, peer, alice, seen).user == "alice"
    bob = TokenSeen(HubToken(service.hub.add("bob"), "HF_TOKEN"), "bob")
    with raises_problem(ProblemKind.NOT_ALLOWED, "ask the organizer to add you"):
        ask_for_pass(service.url, peer, bob, seen)
    admin(service.url, service.key, "ban", "alice")
    with raises_problem(ProblemKind.BANNED):
        ask_for_pass(service.url, peer, alice, seen)
    assert not (tmp_path / "peer").exists()
