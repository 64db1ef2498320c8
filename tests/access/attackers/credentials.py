"""What an attacker knows of the swarm, and what he shows there: any key with any pass, true or not."""

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hivemind.dht.routing import DHTID
from hivemind.dht.validation import DHTRecord
from hivemind.p2p import PeerID
from hivemind.proto import auth_pb2
from hivemind.utils import MSGPackSerializer
from hivemind.utils.auth import AuthorizedRequestBase, AuthorizedResponseBase, AuthorizerBase
from hivemind.utils.crypto import RSAPublicKey

from swarm.dht.passes_in_dht import PassValidator
from swarm.identity import Identity


@dataclass(frozen=True)
class Scene:
    """What an intruder knows of the swarm."""

    folder: Path  # his own
    run: str
    run_file: Path
    url: str
    address: str  # of the coordinator's peer
    peers: tuple[str, ...]  # peer ids, the coordinator's first
    fingerprint: str  # of the run; it follows from the public run file and the tokenizer
    authority: Path  # for passes that had been good once


@dataclass(frozen=True)
class Credentials:
    """What an intruder shows: a key that signs, and the public key and pass that it claims to go with."""

    identity: Identity
    shown: bytes = b""  # a pass; none at all if empty
    public_key: bytes | None = None  # the identity's own if absent

    @property
    def claimed_key(self) -> bytes:
        """In hivemind's form."""
        return self.public_key or self.identity.private_key.get_public_key().to_bytes()


class Shown(AuthorizerBase):
    """Shows any credentials, and believes whatever is answered."""

    def __init__(self, credentials: Credentials):
        self._token = auth_pb2.AccessToken(
            username="x", public_key=credentials.claimed_key, signature=credentials.shown
        )

    def toward(self, peer: PeerID) -> "Shown":
        return self

    async def sign_request(self, request: AuthorizedRequestBase, service_public_key: RSAPublicKey | None) -> None:
        request.auth.client_access_token.CopyFrom(self._token)

    async def validate_response(self, response: AuthorizedResponseBase, request: AuthorizedRequestBase) -> bool:
        return True

    async def sign_response(self, response: AuthorizedResponseBase, request: AuthorizedRequestBase) -> None:
        raise NotImplementedError("an intruder answers nobody")

    async def validate_request(self, request: AuthorizedRequestBase) -> bool:
        raise NotImplementedError("an intruder answers nobody")


def key_of(scene: Scene, name: str) -> bytes:
    """A key of the DHT as it travels."""
    return DHTID.generate(source=f"{scene.run}_{name}").to_bytes()


def sealed(
    scene: Scene, author: Credentials, name: str, subkey: bytes | None, value: object, expiration: float
) -> DHTRecord:
    """A record of the author, signed as peers of the run do."""
    gate: Any = SimpleNamespace(own=Raw(author.shown), run_name=scene.run)
    validator = PassValidator(gate, author.identity)
    validator._key_bytes = author.claimed_key
    bare = DHTRecord(key_of(scene, name), MSGPackSerializer.dumps(subkey), MSGPackSerializer.dumps(value), expiration)
    return DHTRecord(bare.key, bare.subkey, validator.sign_value(bare), expiration)


@dataclass(frozen=True)
class Raw:
    """A pass in its bytes, or bytes that are none."""

    content: bytes

    def to_bytes(self) -> bytes:
        return self.content
