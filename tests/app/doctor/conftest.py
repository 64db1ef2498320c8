"""Stand-ins for a coordinator and the Hub, as the tests of joining have them, and observations without a fault."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from app.doctor.machine import TokenSeen
from app.doctor.network import LinkSeen, PeerAddress
from app.doctor.observing import Observed, RunSeen
from app.doctor.peer_process import TorchSeen
from app.join.coordinator_client import RunDescription
from app.join.hub_token import HubToken
from app.join.machine_checks import Computer
from swarm.access.join_messages import JoinAnswer
from tests.app.join.conftest import (
    coordinator,
    fingerprint_of,
    hub,
    nobody_is_logged_in,
    opened,
    server,
    tokenizer_files,
)

__all__ = ["coordinator", "fingerprint_of", "hub", "nobody_is_logged_in", "opened", "server", "tokenizer_files"]

GB = 1e9
URL = "https://run.example.org"
DESCRIPTION: dict[str, Any] = {"name": "little", "version": "0.1.0", "fingerprint": "f" * 16, "access": {"open": False}}
FIRST = PeerAddress("/ip4/192.0.2.1/tcp/31337/p2p/QmFirst", "QmFirst", "192.0.2.1", 31337)
SECOND = PeerAddress("/ip4/192.0.2.2/tcp/4001/p2p/QmSecond", "QmSecond", "192.0.2.2", 4001)


def described(**changes: Any) -> RunDescription:
    return RunDescription.model_validate(DESCRIPTION | changes)


@pytest.fixture
def answer() -> JoinAnswer:
    """To somebody who asks for a pass."""
    encoded = base64.b64encode(b"x").decode()
    return JoinAnswer.model_validate(
        {
            "user": "asha",
            "pass": encoded,
            "expires": 1e10,
            "notices": encoded,
            "initial_peers": [FIRST.address],
            "authority": encoded,
            "manifest": {"run": "", "fingerprint": "", "tokenizer": []},
        }
    )


@pytest.fixture
def link() -> LinkSeen:
    """All is well."""
    return LinkSeen(URL, ["192.0.2.7"], described(), 0.0)


@pytest.fixture
def observed(link: LinkSeen, answer: JoinAnswer) -> Observed:
    """A machine and a way to a run without a fault."""
    torch = TorchSeen(
        version="2.13.0", device="cuda", name="a GPU", formats=["bfloat16"], device_memory=16 * GB, idle_gpu=False
    )
    return Observed(
        torch=torch,
        computer=Computer(50 * GB, 16 * GB, 16 * GB, 8 * GB, "cuda", 16 * GB),
        unwritable=None,
        token=TokenSeen(HubToken("hf_secret", "HF_TOKEN"), "asha"),
        run=RunSeen(link, answer, None, [], {FIRST: None}, "QmFirst", "192.0.2.9", client_mode=False),
        version="0.1.0",
    )


def with_link(observed: Observed, **changes: Any) -> Observed:
    """The same, but for what the link shows."""
    assert isinstance(observed.run, RunSeen)
    return replace(observed, run=replace(observed.run, link=replace(observed.run.link, **changes)))


def with_run(observed: Observed, **changes: Any) -> Observed:
    """The same, but for what the run shows."""
    assert isinstance(observed.run, RunSeen)
    return replace(observed, run=replace(observed.run, **changes))
