"""Renewing over libp2p: the access policy holds, and no token is needed where the Hub has verified the user lately."""

import asyncio
import base64
import contextlib
import json
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from hivemind.p2p import P2P, PeerID

from app.join.background.pass_renewal import _ask_over_libp2p
from coordinator.access import renewals
from coordinator.access.hub_identity import VERIFIED_FOR, Remembered
from coordinator.access.renewals import ATTEMPTS, Renewals, open_renewals
from swarm import clock
from swarm.access.join_messages import LONGEST_RENEWAL, Refused, Renewed, renewal_handle
from swarm.access.passes import check_pass, load_authority, read_pass
from swarm.access.user_names import COORDINATOR
from swarm.identity import load_identity, peer_id_of
from tests.coordinator.http.conftest import Serve, Service, as_peer
from tests.support.hub.stand_in import HubStandIn


class Peer:
    """A trainer that has joined over HTTP, and its coordinator."""

    def __init__(self, service: Service, public_key: bytes, token: str | None = None, **changes: Any):
        self.service, self.peer_id, self.joining = service, peer_id_of(public_key), as_peer(public_key) | changes
        answer = service.client.post(
            "/api/join", json=self.joining, headers={"Authorization": f"Bearer {token}"} if token else {}
        )
        assert answer.status_code == 200, answer.text
        self.shown = base64.b64decode(answer.json()["pass"])
        self.renewals = Renewals(service.context)

    def renew(self, shown: bytes | None = None, caller: PeerID | None = None, **changes: Any) -> Renewed | Refused:
        shown = self.shown if shown is None else shown
        body = self.joining | {"pass": base64.b64encode(shown).decode()} | changes
        return self.renewals.answer(_json(body), caller or self.peer_id)

    def refusal(self, *args: Any, **kwargs: Any) -> str:
        answer = self.renew(*args, **kwargs)
        assert isinstance(answer, Refused)
        return answer.error.value


def _json(body: dict[str, Any]) -> bytes:
    return json.dumps(body).encode()


@pytest.fixture
def asha(serve: Serve, hub_stand_in: HubStandIn, public_keys: list[bytes]) -> Peer:
    """On the run's list, and vouched for by the Hub at this moment."""
    return Peer(serve(users=["asha"], organizations=["river"]), public_keys[0], hub_stand_in.add("asha"))


def test_who_was_vouched_for_lately_needs_no_token(
    asha: Peer, hub_stand_in: HubStandIn, monkeypatch: pytest.MonkeyPatch
):
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now + VERIFIED_FOR / 2)  # the pass has expired meanwhile
    answer = asha.renew()
    assert isinstance(answer, Renewed) and answer.user == "asha"
    context = asha.service.context
    check_pass(read_pass(answer.pass_), context.authority.public_key, context.run.name, asha.peer_id)
    assert answer.notices and answer.initial_peers
    assert answer.standing is not None
    monkeypatch.setattr(clock, "now", lambda: now + VERIFIED_FOR + 1)
    monkeypatch.setattr(context.verified_users, "_clock", clock.now)
    assert asha.refusal(shown=answer.pass_) == "token_missing", "a pass begets no passes for ever"


def test_the_hubs_word_is_for_one_peer_and_lost_at_a_restart(asha: Peer, public_keys: list[bytes]):
    context = asha.service.context
    another = peer_id_of(public_keys[1])
    stolen = context.authority.issue(context.run.name, "asha", another, 3600.0).to_bytes()
    theirs = as_peer(public_keys[1])
    assert asha.refusal(shown=stolen, caller=another, **theirs) == "token_missing"
    after_restart = replace(context, verified_users=Remembered(1, clock.now))
    asha.renewals = Renewals(after_restart)
    assert asha.refusal() == "token_missing"


def test_who_is_banned_or_not_on_the_list_any_more_is_refused(
    asha: Peer, hub_stand_in: HubStandIn, public_keys: list[bytes]
):
    board = asha.service.context.notices
    board.allow("bob")
    bob = Peer(asha.service, public_keys[1], hub_stand_in.add("bob"))
    assert isinstance(bob.renew(), Renewed)
    board.disallow("bob")
    assert bob.refusal() == "not_allowed"
    for banned in ("asha", str(asha.peer_id)):
        board.ban(banned)
        assert asha.refusal() == "banned"
        board.unban(banned)
    assert isinstance(asha.renew(), Renewed)
    board.stop()
    assert asha.refusal() == "finished"


def test_a_pass_is_renewed_for_its_own_peer_and_by_its_own_authority(
    asha: Peer, public_keys: list[bytes], tmp_path: Path
):
    context, name = asha.service.context, asha.service.context.run.name
    another = peer_id_of(public_keys[1])
    assert asha.refusal(caller=another) == "malformed"
    assert asha.refusal(caller=another, peer_id=str(another)) == "malformed"
    theirs = context.authority.issue(name, "asha", another, 3600.0).to_bytes()
    assert asha.refusal(shown=theirs) == "malformed"
    assert asha.refusal(shown=theirs, caller=another) == "malformed", "peer_id is not the caller's"
    foreign = load_authority(tmp_path / "foreign.key").issue(name, "asha", asha.peer_id, 3600.0)
    assert asha.refusal(shown=foreign.to_bytes()) == "malformed"
    old = context.authority.issue(name, "asha", asha.peer_id, -VERIFIED_FOR - 1)
    assert asha.refusal(shown=old.to_bytes()) == "malformed"


def test_another_name_than_the_hubs_is_not_renewed(asha: Peer):
    context = asha.service.context
    for name in ("bob", COORDINATOR):
        shown = context.authority.issue(context.run.name, name, asha.peer_id, 3600.0)
        assert asha.refusal(shown=shown.to_bytes()) == "not_allowed"


def test_where_the_run_is_open_a_chosen_name_stays(service: Service, public_keys: list[bytes]):
    boat = Peer(service, public_keys[0], name="boat")
    answer = boat.renew(name="asha")
    assert isinstance(answer, Renewed) and answer.user == "~boat"
    boat.service.context.notices.ban("~boat")
    assert boat.refusal() == "banned"


def test_junk_and_too_many_attempts_are_refused(asha: Peer):
    for junk in (b"", b"{}", b"\xff" * 10, b" " * (LONGEST_RENEWAL + 1)):
        answer = asha.renewals.answer(junk, asha.peer_id)
        assert isinstance(answer, Refused) and answer.error.value == "malformed"
    for _ in range(ATTEMPTS - 4):
        assert isinstance(asha.renew(), Renewed)
    assert asha.refusal() == "too_many"


def test_over_real_libp2p(service: Service, tmp_path: Path):
    """Two daemons; the trainer's one says who calls."""
    identity = load_identity(tmp_path / "trainer.key")
    boat = Peer(service, identity.private_key.get_public_key().to_bytes(), name="boat")
    body = _json(boat.joining | {"pass": base64.b64encode(boat.shown).decode()})

    async def story() -> list[bytes | None]:
        here = await P2P.create(host_maddrs=["/ip4/127.0.0.1/tcp/0"])
        first = [str(one) for one in await here.get_visible_maddrs()]
        trainer = await P2P.create(initial_peers=first, identity_path=str(identity.path), host_maddrs=[])
        stranger = await P2P.create(initial_peers=first, host_maddrs=[])
        dht: Any = SimpleNamespace(run_coroutine=lambda _: here.daemon_listen_maddr)
        opened = contextlib.ExitStack()
        await asyncio.to_thread(opened.enter_context, open_renewals(service.context, dht))
        try:
            handle, coordinator = renewal_handle(service.context.run.name), str(here.peer_id)
            nodes: list[Any] = [SimpleNamespace(p2p=one) for one in (trainer, stranger)]
            return [await _ask_over_libp2p(Mock(), node, coordinator, handle, body) for node in nodes]
        finally:
            await asyncio.to_thread(opened.close)
            for one in (trainer, stranger, here):
                await one.shutdown()

    own, strangers = asyncio.run(story())
    assert Renewed.model_validate_json(own or b"").user == "~boat"
    assert Refused.model_validate_json(strangers or b"").error.value == "malformed"


def test_a_daemon_that_does_not_answer_at_the_end_hides_no_error_and_leaves_no_thread(monkeypatch: pytest.MonkeyPatch):
    joined = Mock(_client=AsyncMock(), shutdown=lambda: asyncio.sleep(3600.0))
    monkeypatch.setattr(renewals, "join_daemon", AsyncMock(return_value=joined))
    monkeypatch.setattr(renewals, "CLOSE_TIMEOUT", 0.1)
    with pytest.raises(ZeroDivisionError), open_renewals(Mock(), Mock()):
        raise ZeroDivisionError
    assert "renewals" not in {thread.name for thread in threading.enumerate()}
