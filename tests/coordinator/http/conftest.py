import base64
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import numpy
import pytest
from hivemind.utils.crypto import RSAPrivateKey
from safetensors.numpy import save_file

from coordinator.access.admin_key import load_admin_key
from coordinator.access.decisions import NoticeStore
from coordinator.checkpoints.checkpoint import MODEL, STATE, TrainerState
from coordinator.checkpoints.checksums import write_sums
from coordinator.http.app import make_app
from coordinator.http.request_limits import JoinLimits
from coordinator.http.server import Server
from coordinator.ledger.ingest import SessionReport
from coordinator.ledger.ledger import Ledger, open_ledger
from coordinator.run_context import RunStatus, ServiceContext
from swarm.access.passes import load_authority
from swarm.identity import peer_id_of
from swarm.run_file import RunFile, parse_run
from swarm.run_file.fingerprint import Fingerprint, fingerprint
from swarm.version import program_version
from tests.support.hub.stand_in import hub_stand_in as hub_stand_in
from tests.support.waiting import PATIENCE

OURS = program_version()
ADDRESS = "/ip4/127.0.0.1/tcp/31337/p2p/12D3KooWNothingButAName"


def make_run(**access: Any) -> RunFile:
    content = {
        "name": "test-run",
        "data": {"train": [{"path": "river.txt"}], "max_length": 64},
        "coordinator": {"ledger": "postgresql://keeper:hidden-word@db/ledger", "probes": ["To the [MASK]."]},
        "optimizer": {"warmup_steps": 10, "total_steps": 100},
        "access": access or {"users": ["asha"]},
    }
    return parse_run(content, Path("run.yaml"))


@dataclass
class Service:
    """The service on a real server, and a client that talks to it. `step` may be changed."""

    context: ServiceContext
    server: Server
    client: httpx.Client
    peer: dict[str, Any]
    step: list[int]

    def join(self, token: str | None = None, **changes: Any) -> httpx.Response:
        headers = {b"Authorization": f"Bearer {token}".encode("latin-1")} if token else {}
        return self.client.post("/api/join", json=self.peer | changes, headers=headers)

    def refusal(self, token: str | None = None, **changes: Any) -> tuple[int, str, str]:
        answer = self.join(token, **changes)
        assert answer.headers["cache-control"] == "no-store"
        body = answer.json()
        assert set(body) == {"error", "message"}
        assert "\n" not in body["message"]
        return answer.status_code, body["error"], body["message"]

    def admin(self, order: str, key: str | None = None, **body: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {key or self.context.admin_key}"}
        return self.client.post(f"/api/admin/{order}", json=body, headers=headers)


Serve = Callable[..., Service]


@pytest.fixture(scope="session")
def public_keys() -> list[bytes]:
    return [RSAPrivateKey().get_public_key().to_bytes() for _ in range(2)]


@pytest.fixture(scope="session")
def our_fingerprint() -> Fingerprint:
    return fingerprint(make_run(), "a" * 64)


def small_checkpoint(folder: Path, step: int, saved_at: str) -> None:
    """A whole checkpoint, of a model with a single weight."""
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    state = TrainerState("test-run", step, 64, 9.25, saved_at, "fingerprint", "sahaj")
    (path / STATE).write_text(json.dumps(asdict(state)))
    save_file({"weight": numpy.zeros(1, numpy.float32)}, path / MODEL)
    write_sums(path)


def as_peer(public_key: bytes, version: str = OURS) -> dict[str, Any]:
    return {
        "public_key": base64.b64encode(public_key).decode(),
        "peer_id": str(peer_id_of(public_key)),
        "version": version,
    }


@pytest.fixture
def ledger(tmp_path: Path, report: Callable[..., SessionReport]) -> Iterator[Ledger]:
    opened = open_ledger("sqlite:///ledger.db", tmp_path / "state")
    for letter, user, samples in (("a", "asha", 32), ("b", "~boat", 8)):
        steps = dict.fromkeys((1, 2), (samples, 9.5))
        plain = report(letter, user=user, peer_id=f"12D3KooWSecretPeer{letter}", steps=steps)
        opened.record([replace(plain, averaging_failures=1, data_wait_fraction=0.1, pause="hours")])
    opened.record_evaluation(2, 9.25, sentence_order_loss=0.69, samples=64, unigram_loss=9.75, now=1100.0)
    yield opened
    opened.close()


@pytest.fixture
def serve(tmp_path: Path, ledger: Ledger, public_keys: list[bytes], our_fingerprint: Fingerprint) -> Iterator[Serve]:
    """`serve(users=["asha"])` starts the service of a run with this access; a second one goes on in its folder."""
    state, tokenizer = tmp_path / "state", tmp_path / "tokenizer"
    tokenizer.mkdir()
    (tokenizer / "tokenizer.json").write_text(json.dumps({"model": "pieces"}))
    (tokenizer / "tokenizer_config.json").write_text("{}")
    (tokenizer / ".hidden").write_text("hidden-word")
    (tokenizer / "optimizer.pt").write_text("hidden-word")
    open_services: list[Service] = []

    def start(
        limits: JoinLimits | None = None,
        run: RunFile | None = None,
        notebook_at_hub: Callable[[], str] = str,
        problem: Callable[[], str] = str,
        **access: Any,
    ) -> Service:
        authority = load_authority(state / "authority.key")
        run = run or make_run(**access)
        step = [7]
        context = ServiceContext(
            run=run,
            fingerprint=our_fingerprint,
            folder=state,
            ledger=ledger,
            say=print,
            tokenizer_folder=tokenizer,
            authority=authority,
            notices=NoticeStore(state, authority, run.name),
            admin_key=load_admin_key(state / "admin.key"),
            status=lambda: RunStatus(step[0], 12, 1700000000.0, problem(), notebook_at_hub()),
            addresses=lambda: [ADDRESS],
            order_rollback=lambda step: None,
        )
        context = replace(context, limits=limits) if limits else context
        server = Server(make_app(context), "127.0.0.1", 0)
        # no connection is kept: httpcore may close an idle one in the moment in which another thread takes it
        once = httpx.Limits(max_keepalive_connections=0)
        client = httpx.Client(base_url=server.url, timeout=PATIENCE, trust_env=False, limits=once)
        open_services.append(Service(context, server, client, as_peer(public_keys[0]), step))
        return open_services[-1]

    yield start
    for service in open_services:
        service.client.close()
        threading.Thread(target=service.server.stop).start()  # it takes a moment for which nobody has to wait


@pytest.fixture
def service(serve: Serve) -> Service:
    """That of an open run."""
    return serve(open=True)


@pytest.fixture
def client(service: Service) -> httpx.Client:
    """That talks to it."""
    return service.client
