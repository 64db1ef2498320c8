"""Servers on loopback that stand in for a coordinator and for the Hub, and a machine without a login."""

import base64
import hashlib
import json
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hivemind.dht import DHT

from app.join.background.page_orders import PageOrders
from app.join.background.pass_renewal import Renewal
from swarm import secret_variables
from swarm.access.join_messages import JoinRequest
from tests.app.join.stand_in import OPEN_RUN, Answer, Heard, StandIn
from trainer.options import TrainerOptions

RUN = """
name: little
description: A run for tests.
language: bn
data:
  train:
    - hub: owner/text
  validation:
    - path: held-out.jsonl
tokenizer:
  path: /organizer/tokenizer
  vocab_size: 64
"""


class Trained:
    """What the training loop was called with."""

    def __init__(self) -> None:
        self.calls: list[Any] = []


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> Trained:
    called = Trained()
    loop = types.ModuleType("trainer.train")
    loop.train = lambda *arguments: called.calls.append(arguments)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "trainer.train", loop)
    return called


def begun_renewal(trainer: TrainerOptions) -> Renewal:
    """What renews the pass once training begins, beside what asks for orders of the page; neither is really begun."""
    begun: list[Any] = []
    with pytest.MonkeyPatch.context() as patched:
        for kind in (Renewal, PageOrders):
            patched.setattr(kind, "start", lambda self, *_: begun.append(self))
        trainer.when_joined(cast(DHT, None))
    renewal, page = begun
    assert isinstance(renewal, Renewal) and isinstance(page, PageOrders)
    return renewal


@pytest.fixture
def server() -> Iterator[StandIn]:
    stand_in = StandIn()
    yield stand_in
    stand_in.close()


@pytest.fixture
def coordinator(server: StandIn) -> StandIn:
    """Answers that this is a run which wants a token."""
    server.answers["GET /api/run"] = Answer(body=OPEN_RUN | {"access": {"open": False, "users": 2}})
    return server


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    stand_in = StandIn()
    monkeypatch.setenv("HF_ENDPOINT", stand_in.url)
    yield stand_in
    stand_in.close()


@pytest.fixture(autouse=True)
def nobody_is_logged_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(secret_variables, "_hidden", {})
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def request_to_join() -> JoinRequest:
    return JoinRequest(public_key=base64.b64encode(b"key"), peer_id="Qm", version="0.1.0")


@pytest.fixture(scope="session")
def tokenizer_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A tokenizer as its folder holds it, file by file."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    special = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    engine = Tokenizer(models.Unigram([(token, 0.0) for token in [*special, "a", "b"]], unk_id=1))
    folder = tmp_path_factory.mktemp("tokenizer")
    PreTrainedTokenizerFast(
        tokenizer_object=engine,
        pad_token="<pad>",
        unk_token="<unk>",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    ).save_pretrained(folder)
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.fixture
def fingerprint_of(tokenizer_files: dict[str, bytes], tmp_path: Path) -> Callable[[str], str]:
    """What a coordinator would announce for a run file with that tokenizer."""

    def announce(run: str) -> str:
        from swarm.run_file import load_run
        from swarm.run_file.fingerprint import fingerprint
        from tokenizer.loading import read_tokenizer, tokenizer_digest

        folder = tmp_path / "organizer"
        folder.mkdir(exist_ok=True)
        for name, content in tokenizer_files.items():
            (folder / name).write_bytes(content)
        path = tmp_path / "organizer.yaml"
        path.write_text(run)
        return fingerprint(load_run(path), tokenizer_digest(read_tokenizer(str(folder)))).digest

    return announce


@pytest.fixture
def opened(
    coordinator: StandIn, tokenizer_files: dict[str, bytes], fingerprint_of: Callable[[str], str], tmp_path: Path
) -> StandIn:
    """The coordinator of an open run: it signs a pass for whoever shows a token or a name."""
    from hivemind.p2p import PeerID

    from swarm.access.notices import Notices, sign_notices
    from swarm.access.passes import load_authority

    authority = load_authority(tmp_path / "authority.key")
    announced = fingerprint_of(RUN)

    def encoded(content: bytes) -> str:
        return base64.b64encode(content).decode()

    def let_in(heard: Heard) -> Answer:
        user = "alice" if heard.bearer else f"~{heard.body['name']}"
        own = authority.issue("little", user, PeerID.from_base58(heard.body["peer_id"]), 3600.0)
        return Answer(
            body={
                "user": user,
                "pass": encoded(own.to_bytes()),
                "expires": own.expires,
                "authority": encoded(authority.public_key),
                "notices": encoded(sign_notices(Notices(time=time.time()), authority, "little")),
                "initial_peers": ["/ip4/127.0.0.1/tcp/1/p2p/QmQdReeSaZEjRPfQgJMeSZSnkLYLFc1P3RqMAqLJDDLTcL"],
                "manifest": {
                    "run": RUN,
                    "fingerprint": announced,
                    "tokenizer": [
                        {"name": name, "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
                        for name, content in tokenizer_files.items()
                    ],
                },
            }
        )

    coordinator.answers["GET /api/run"] = Answer(body=OPEN_RUN)
    coordinator.answers["POST /api/join"] = let_in
    for name, content in tokenizer_files.items():
        coordinator.answers[f"GET /api/tokenizer/{name}"] = Answer(body=content)
    return coordinator


def refused(error: str, message: str = "a reason; a way out") -> str:
    return json.dumps({"error": error, "message": message})
