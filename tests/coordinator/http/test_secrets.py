import gc
import logging
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, FunctionType, ModuleType

import pytest

from coordinator.access.hub_identity import Hub, HubUser
from swarm.access.join_messages import Refused
from tests.coordinator.http.conftest import Serve
from tests.support.hub.stand_in import HubStandIn
from tests.support.waiting import PATIENCE


def reachable(root: object) -> Iterator[object]:
    """Everything that an object leads to, but code and modules."""
    seen, left = set(), [root]
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, type | ModuleType | FunctionType | FrameType):
            continue
        seen.add(id(one))
        yield one
        left.extend(gc.get_referents(one))
        if isinstance(one, dict):
            left.extend(one)  # the collector passes over keys that are strings


def holds(root: object, secret: str) -> bool:
    return any(
        secret in one if isinstance(one, str) else secret.encode() in one
        for one in reachable(root)
        if isinstance(one, str | bytes | bytearray)
    )


def test_no_secret_reaches_a_log_an_answer_or_the_disk(
    serve: Serve,
    hub_stand_in: HubStandIn,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    service = serve(users=["asha"])
    secrets = [hub_stand_in.add("asha"), hub_stand_in.add("boat"), "hf_unknown0123456789"]
    answers = [service.join(token) for token in secrets]
    hub_stand_in.failing = 500
    answers.append(service.join(hub_stand_in.add("later")))
    hub_stand_in.failing = None
    hub_stand_in.garbled = b"nonsense"
    answers.append(service.join(hub_stand_in.add("garbled")))
    hub_stand_in.away()
    answers.append(service.join(hub_stand_in.add("away")))
    assert [answer.status_code for answer in answers] == [200, 403, 401, 503, 503, 503]
    answers.append(service.client.post("/api/join", content=b"{", headers={"Authorization": f"Bearer {secrets[0]}"}))
    answers += [service.admin("pause"), service.admin("pause", "f" * 64)]
    service.server.stop()
    secrets += [*hub_stand_in.accounts, "f" * 64]
    key = service.context.admin_key
    told = caplog.text + "".join(capfd.readouterr()) + "".join(answer.text for answer in answers)
    assert "Traceback" not in told
    assert not [secret for secret in [*secrets, key] if secret in told]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files for secret in secrets if secret.encode() in path.read_bytes()]
    assert [path.name for path in files if key.encode() in path.read_bytes()] == ["admin.key"]


def test_the_memory_of_the_hub_holds_no_token(hub_stand_in: HubStandIn) -> None:
    hub = Hub(PATIENCE)
    good, bad = hub_stand_in.add("asha", "river"), "hf_bad0123456789"
    user = hub.ask(good)
    assert isinstance(user, HubUser) and (user.name, user.organizations) == ("asha", {"river"})
    refusals = [hub.ask(token) for token in (bad, bad, "hf\nbad")]
    hub_stand_in.failing = 500
    refusals.append(hub.ask(hub_stand_in.add("boat")))
    hub_stand_in.away()
    refusals.append(hub.ask(hub_stand_in.add("later")))
    secrets = [good, bad, *hub_stand_in.accounts]
    assert holds(hub_stand_in, good)  # the search finds what is there
    assert not [secret for secret in secrets for one in (hub, *refusals) if holds(one, secret)]
    for one in refusals:
        assert isinstance(one, Refused) and "\n" not in one.message
