"""A peer's identity: one RSA key on disk, which gives its libp2p peer id and its signatures.

Because both come from the same key, a signature proves which peer wrote a record.
"""

import contextlib
import fcntl
import hashlib
import os
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO

import multihash
from cryptography.hazmat.primitives import serialization
from hivemind.dht.crypto import RSASignatureValidator
from hivemind.p2p import PeerID
from hivemind.proto import crypto_pb2
from hivemind.utils.crypto import RSAPrivateKey, RSAPublicKey

from swarm.errors import SwarmError
from swarm.files import storage_errors, write_file
from swarm.language import _

LOCK_PATIENCE = 3.0  # seconds to wait for the key file
LOCK_RETRY = 0.2
LONGEST_KEY = 1024  # bytes in hivemind's form; ours take 380, and the larger a key is, the longer is every check


class IdentityInUse(SwarmError):
    """Another process on this machine is this peer."""


@dataclass(frozen=True)
class Identity:
    """The key of a peer. `lock` holds the key file for as long as this process lives."""

    path: Path
    peer_id: PeerID
    private_key: RSAPrivateKey
    lock: IO[bytes]

    @property
    def subkey(self) -> bytes:
        """The DHT subkey under which only this peer can write."""
        return RSASignatureValidator(self.private_key).local_public_key


def load_identity(path: Path) -> Identity:
    """Read the key file, or make a new one; the same file gives the same address after a restart.

    Raises:
        IdentityInUse: another process on this machine uses it.
        SwarmError: the file is no key.
        StorageError: it cannot be read or written.
    """
    with storage_errors(path):  # as of a folder that may not be looked into
        is_there = path.exists()
    if not is_there:
        key = crypto_pb2.PrivateKey(key_type=crypto_pb2.KeyType.RSA, data=RSAPrivateKey().to_bytes())
        write_file(path, key.SerializeToString(), mode=0o600, replaces=False)
    with storage_errors(path):
        lock = path.open("rb")
    if not _locked(lock) or not _is_at(path, lock):
        lock.close()
        raise IdentityInUse(
            _(
                "{path}: another process on this machine is this peer; stop it, or choose another folder with --state"
            ).format(path=path)
        )
    try:
        peer_id, private_key = read_key(path, lock)
    except SwarmError:
        lock.close()
        raise
    os.set_inheritable(lock.fileno(), False)
    return Identity(path, peer_id, private_key, lock)


def read_key(path: Path, file: IO[bytes]) -> tuple[PeerID, RSAPrivateKey]:
    """The peer id and the key in an open key file, which another process may use.

    Raises:
        SwarmError: it is no key.
    """
    try:
        serialized = file.read()
        private_key = RSAPrivateKey.__new__(RSAPrivateKey)
        private_key.__setstate__({"_private_key": crypto_pb2.PrivateKey.FromString(serialized).data})
        return PeerID.from_identity(serialized), private_key
    except Exception:
        told = _("{path}: not an identity file; remove it to get a new identity")
        raise SwarmError(told.format(path=path)) from None


@lru_cache(maxsize=1024)  # the keys of those who call; a call that raises is not remembered
def peer_id_of(public_key: bytes) -> PeerID:
    """The libp2p peer id that belongs to a public key in hivemind's form.

    Raises:
        ValueError: it is no RSA public key in hivemind's encoding: with trailing bytes one key would pass for many.
    """
    if len(public_key) > LONGEST_KEY:
        raise ValueError("not an RSA public key of a usual length")
    try:
        read = RSAPublicKey.from_bytes(public_key)
    except Exception:
        raise ValueError("not an RSA public key") from None
    if read.to_bytes() != public_key:
        raise ValueError("not an RSA public key in hivemind's form")
    key = read._public_key
    encoded = crypto_pb2.PublicKey(
        key_type=crypto_pb2.RSA,
        data=key.public_bytes(
            encoding=serialization.Encoding.DER, format=serialization.PublicFormat.SubjectPublicKeyInfo
        ),
    ).SerializeToString()
    return PeerID(multihash.encode(hashlib.sha256(encoded).digest(), multihash.coerce_code("sha2-256")))


def _is_at(path: Path, file: IO[bytes]) -> bool:
    """Whether an open file is still the one at `path`; else another process has put one of its own there."""
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    return False


def _locked(file: IO[bytes]) -> bool:
    """Lock the file for this process; helpers of one that was killed let go of it after a moment."""
    for _attempt in range(round(LOCK_PATIENCE / LOCK_RETRY)):
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(LOCK_RETRY)
    return False
