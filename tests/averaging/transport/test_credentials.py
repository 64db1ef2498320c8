"""Real keys: what was signed counts, what was forged does not, and what it costs."""

from pathlib import Path

import msgpack
import pytest
from msgspec.structs import replace

from averaging.log.header import Ballot, Head, HeaderKind, Reset
from averaging.protocol import credentials as signed
from averaging.protocol.messages import Contact
from averaging.transport.pass_credentials import PassCredentials
from averaging.transport.wire_format import LONGEST_BYTES
from swarm.access.passes import load_authority
from swarm.access.user_names import COORDINATOR
from swarm.identity import Identity, load_identity
from tests.averaging.log.headers import header
from tests.averaging.transport.peers import Guarded

VOTE = signed.vote("session", "instance", Ballot(3, "convener"), "digest")


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> list[Identity]:
    folder = tmp_path_factory.mktemp("identities")
    return [load_identity(folder / f"{name}.key") for name in ("amina", "bimal", "coordinator")]


@pytest.fixture
def guarded(tmp_path: Path) -> Guarded:
    return Guarded(tmp_path)


@pytest.fixture
def amina(identities: list[Identity], guarded: Guarded) -> PassCredentials:
    return PassCredentials(identities[0], guarded.gate("amina", identities[0].peer_id))


@pytest.fixture
def bimal(identities: list[Identity], guarded: Guarded) -> PassCredentials:
    return PassCredentials(identities[1], guarded.gate("bimal", identities[1].peer_id))


@pytest.fixture
def coordinator(identities: list[Identity], guarded: Guarded) -> PassCredentials:
    return PassCredentials(identities[2], guarded.gate(COORDINATOR, identities[2].peer_id), guarded.authority)


def session(identity: Identity, number: int = 1) -> str:
    return f"{identity.peer_id.to_base58()}.{number:08x}"


def test_a_session_is_believed_by_its_own_key_only(
    identities: list[Identity], amina: PassCredentials, bimal: PassCredentials
):
    hers = amina.sign(VOTE)
    assert bimal.verify(session(identities[0]), VOTE, hers)
    assert not bimal.verify(session(identities[0]), VOTE + b"0", hers)
    assert not amina.verify(session(identities[0]), VOTE, bimal.sign(VOTE))
    key, signature = msgpack.unpackb(hers)
    his_key, his_signature = msgpack.unpackb(bimal.sign(VOTE))
    forged = [[key, his_signature], [his_key, signature], [key + b"\0", signature], [key], [key, 1], 7, None]
    for made in [b"", b"\xc1", b"x" * 500, *(msgpack.packb(one) for one in forged)]:
        assert not bimal.verify(session(identities[0]), VOTE, made)
    assert not bimal.verify("nobody", VOTE, hers) and not bimal.verify("", VOTE, hers)
    assert len(hers) < 600  # bytes; five of them make a certificate of nine voters


def test_a_contact_is_what_its_pass_says(
    identities: list[Identity], amina: PassCredentials, bimal: PassCredentials, coordinator: PassCredentials
):
    hers = amina.introduced(Contact(session(identities[0]), "amina", True))
    assert bimal.admits(hers) and len(hers.proof) <= LONGEST_BYTES
    for change in ({"user": "bimal"}, {"reachable": False}, {"session": session(identities[0], 2)}, {"proof": b""}):
        assert not bimal.admits(replace(hers, **change))
    for lie in (
        Contact(session(identities[0]), "amina", True, is_coordinator=True),
        Contact(session(identities[0]), COORDINATOR, True, is_coordinator=True),
        Contact(session(identities[0]), "somebody", True),
        Contact(session(identities[1]), "amina", True),
        Contact("made up.00000001", "amina", True),
    ):
        assert not bimal.admits(amina.introduced(lie))
    assert bimal.admits(coordinator.introduced(Contact(session(identities[2]), COORDINATOR, True, True)))


def test_a_contact_is_believed_when_its_pass_has_expired(identities: list[Identity], guarded: Guarded):
    """Or peers would disagree about a header that was proposed again later."""
    expired = PassCredentials(identities[0], guarded.gate("old", identities[0].peer_id, lifetime=-1.0))
    contact = expired.introduced(Contact(session(identities[0]), "old", True))
    assert expired.admits(contact)


def test_only_the_authority_orders_resets_and_signs_heads(
    identities: list[Identity], amina: PassCredentials, coordinator: PassCredentials, tmp_path: Path
):
    reset = header(7, "0" * 64, kind=HeaderKind.RESET, resets=(Reset(7, Ballot(9, session(identities[2]))),))
    real = signed.ordered(reset, coordinator)
    assert signed.is_ordered(real, amina)
    (tmp_path / "other").mkdir()
    stranger = PassCredentials(identities[0], amina._gate, load_authority(tmp_path / "other" / "authority.key"))
    for forger in (amina, stranger):
        assert not signed.is_ordered(signed.ordered(reset, forger), amina)
    assert not signed.is_ordered(replace(real, voters=(session(identities[0]),)), amina)
    assert not signed.is_ordered(replace(reset, order=amina.sign(signed.order(reset))), amina)
    head = signed.head(Head(7, real.digest, real.resets), None)
    assert amina.is_authorized(head, coordinator.authorize(head))
    assert not amina.is_authorized(head, real.order) and not amina.is_authorized(head, b"")
