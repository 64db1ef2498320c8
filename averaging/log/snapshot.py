"""Snapshots: a state as chunks that are named by SHA-256, and the manifest that lists them.

Peers that hold the same state write the same bytes. A manifest and chunks may come from any peer: nothing is taken from
them that the digests, the layout and the run of the reader do not confirm.
"""

import hashlib
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from averaging.log.header import SnapshotName
from averaging.log.moment_codec import SIGNED, check_finite, decode, encode
from averaging.log.packing import Packed, pack, unpack
from averaging.log.state import Layout, State

FORMAT = 2  # of manifests and chunks
CHUNK = 1 << 20  # bytes; the last chunk of each vector may be shorter
LARGEST = 1 << 53  # of steps; a liar's must not grow beyond what can be encoded

_DIGEST = 32  # bytes
_PARAMETER, _MOMENT = 4, 2  # bytes of an element


class Manifest(Packed, frozen=True, tag=FORMAT, dict=True):
    """What a snapshot consists of. Its digest is the name of the snapshot in headers."""

    run: str  # fingerprint
    header: str  # digest of the header that it is the state after; empty if a genesis header names this snapshot
    step: int
    updates: int  # that were applied on the way
    elements: int
    first: int  # elements of the first moment
    second: int
    digests: bytes  # of the chunks: those of the parameters, then of each moment

    @cached_property
    def chunks(self) -> tuple[str, ...]:
        """Digests, in hex."""
        return tuple(self.digests[at : at + _DIGEST].hex() for at in range(0, len(self.digests), _DIGEST))

    @cached_property
    def encoded(self) -> bytes:
        """The bytes that are hashed and sent."""
        return pack(self)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the encoded manifest, in hex."""
        return hashlib.sha256(self.encoded).hexdigest()

    @property
    def name(self) -> SnapshotName:
        """What headers call this snapshot."""
        return SnapshotName(self.step, self.digest)

    @staticmethod
    def decode(encoded: bytes) -> "Manifest":
        """The manifest with these bytes. Whether it fits a run is for `check` to say.

        Raises:
            ValueError: they are no manifest of this format.
        """
        manifest: Manifest = unpack(Manifest, encoded)
        if manifest.encoded != encoded:
            raise ValueError("a manifest has only one encoding, and this is another")
        return manifest

    def check(self, run: str, layout: Layout) -> None:
        """Raise a ValueError unless it is of this run and can be of a state with this layout."""
        if self.run != run:
            raise ValueError(f"the snapshot of step {self.step} is of run {self.run!r}, and this is run {run!r}")
        moments = self.first, self.second
        if (self.elements, moments) != (layout.size, layout.moment_sizes):
            raise ValueError(
                f"the snapshot of step {self.step} has {self.elements} elements and moments of {moments} that do "
                f"not fit the run's {layout.size} and {layout.moment_sizes}"
            )
        if not 0 <= self.updates <= self.step < LARGEST:
            raise ValueError(f"a snapshot of step {self.step} cannot have {self.updates} updates")
        sizes = zip((self.elements, *moments), (_PARAMETER, _MOMENT, _MOMENT), strict=True)
        if len(self.digests) != _DIGEST * sum(-(-size * each // CHUNK) for size, each in sizes):
            raise ValueError(f"a manifest of {self.elements} elements cannot have {len(self.digests)} bytes of digests")


def write_snapshot(state: State, run: str, header: str, put: Callable[[str, bytes], None]) -> Manifest:
    """Hand each chunk of a rebased state to `put` by its digest, and last the manifest.

    Args:
        run: fingerprint.
        header: digest of the header that it is the state after; empty before the genesis header.

    Raises:
        ValueError: the state is not rebased, or not finite.
    """
    digests = []
    for vector, sign in zip((state.parameters, *state.moments), (None, *SIGNED), strict=True):
        for begin, end in _spans(len(vector), _size(sign)):
            content = _encode(vector[begin:end], sign)
            digests.append(hashlib.sha256(content).hexdigest())
            put(digests[-1], content)
    elements, first, second = (len(vector) for vector in (state.parameters, *state.moments))
    packed = bytes.fromhex("".join(digests))
    manifest = Manifest(run, header, state.step, state.updates, elements, first, second, packed)
    put(manifest.digest, manifest.encoded)
    return manifest


def read_snapshot(manifest: Manifest, get: Callable[[str], bytes | None], run: str, layout: Layout) -> State:
    """The state of a snapshot; `get` gives chunks by digest.

    Raises:
        ValueError: the snapshot does not fit the run, a chunk is missing or is another one, or a number is not finite.
    """
    manifest.check(run, layout)
    digests = iter(manifest.chunks)
    vectors = []
    for size, sign in zip((layout.size, *layout.moment_sizes), (None, *SIGNED), strict=True):
        vectors.append(vector := torch.empty(size))
        for begin, end in _spans(size, _size(sign)):
            digest = next(digests)
            what = f"the snapshot of step {manifest.step}, vector {len(vectors)}, elements {begin} to {end - 1}"
            content = get(digest)
            if content is None:
                raise ValueError(f"{what}: chunk {digest} is missing")
            if hashlib.sha256(content).hexdigest() != digest:
                raise ValueError(f"{what}: this is not chunk {digest}")
            if len(content) != (end - begin) * _size(sign):
                raise ValueError(f"{what}: chunk {digest} has {len(content)} bytes")
            try:
                vector[begin:end] = _decode(content, sign)
            except ValueError as error:
                raise ValueError(f"{what}: {error}") from error
    parameters, mean, square = vectors
    return State(manifest.step, manifest.updates, parameters, (mean, square))


def _encode(vector: Tensor, sign: bool | None) -> bytes:
    """Of a moment, or of parameters where `sign` is None."""
    if sign is not None:
        return encode(vector, signed=sign)
    check_finite(vector, "a chunk of parameters")
    return vector.detach().numpy().astype("<f4", copy=False).tobytes()


def _decode(content: bytes, sign: bool | None) -> Tensor:
    if sign is not None:
        return decode(content, signed=sign)
    vector = torch.from_numpy(np.frombuffer(content, "<f4").astype(np.float32))
    check_finite(vector, "a chunk of parameters")
    return vector


def _size(sign: bool | None) -> int:
    """Bytes of an element."""
    return _PARAMETER if sign is None else _MOMENT


def _spans(elements: int, size: int) -> Iterator[tuple[int, int]]:
    """The first element of each chunk of a vector, and the one after the last."""
    step = CHUNK // size
    for begin in range(0, elements, step):
        yield begin, min(begin + step, elements)
