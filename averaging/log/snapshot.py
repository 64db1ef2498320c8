"""Snapshots: a state as chunks that are named by SHA-256, and the manifest that lists them.

Peers that hold the same state write the same bytes. A manifest and chunks may come from any peer: nothing is taken from
them that the digests, the layout and the run of the reader do not confirm.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from averaging.log.header import SnapshotName
from averaging.log.moment_codec import SIGNED, check_finite, decode, encode
from averaging.log.packing import pack, unpack
from averaging.log.state import Layout, State

FORMAT = 2  # of manifests and chunks
CHUNK = 1 << 20  # bytes; the last chunk of each vector may be shorter
LARGEST = 1 << 53  # of the counts in a manifest

_DIGEST = 32  # bytes
_FIELDS = tuple[int, str, str, int, int, int, int, int, bytes]  # as a manifest is encoded
_PARAMETER, _MOMENT = 4, 2  # bytes of an element


@dataclass(frozen=True)
class Manifest:
    """What a snapshot consists of. Its digest is the name of the snapshot in headers."""

    run: str  # fingerprint
    header: str  # digest of the header that it is the state after; empty if a genesis header names this snapshot
    step: int
    updates: int  # that were applied on the way
    elements: int
    moments: tuple[int, int]  # elements of each
    chunks: tuple[str, ...]  # digests: those of the parameters, then of each moment

    @cached_property
    def encoded(self) -> bytes:
        """The bytes that are hashed and sent."""
        digests = b"".join(bytes.fromhex(one) for one in self.chunks)
        fields = [self.run, self.header, self.step, self.updates, self.elements, *self.moments, digests]
        return pack([FORMAT, *fields])

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
        version, run, header, step, updates, elements, first, second, digests = unpack(_FIELDS, encoded)
        if version != FORMAT:
            raise ValueError(f"format {version} of a manifest is not known, only {FORMAT}")
        if not (all(0 <= one < LARGEST for one in (step, updates, elements, first, second)) and updates <= step):
            raise ValueError("no manifest: step, updates and elements are counts, and no step has two updates")
        if len(digests) != _DIGEST * _count(elements, (first, second)):
            raise ValueError(f"a manifest of {elements} elements does not have {len(digests)} bytes of digests")
        chunks = tuple(digests[at : at + _DIGEST].hex() for at in range(0, len(digests), _DIGEST))
        manifest = Manifest(run, header, step, updates, elements, (first, second), chunks)
        if manifest.encoded != encoded:
            raise ValueError("a manifest has only one encoding, and this is another")
        return manifest

    def check(self, run: str, layout: Layout) -> None:
        """Raise a ValueError unless it is of this run and of a state with this layout."""
        if self.run != run:
            raise ValueError(f"the snapshot of step {self.step} is of run {self.run!r}, and this is run {run!r}")
        if (self.elements, self.moments) != (layout.size, layout.moment_sizes):
            raise ValueError(
                f"the snapshot of step {self.step} has {self.elements} elements and moments of {self.moments} that do "
                f"not fit the run's {layout.size} and {layout.moment_sizes}"
            )


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
    manifest = Manifest(run, header, state.step, state.updates, elements, (first, second), tuple(digests))
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


def _count(elements: int, moments: tuple[int, int]) -> int:
    """Chunks of a snapshot; rounded up for each vector."""
    return -(-elements * _PARAMETER // CHUNK) + sum(-(-one * _MOMENT // CHUNK) for one in moments)
