"""From the log to the state: `state[s + 1] = step(state[s], update[s])`, the same bytes on every peer."""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from averaging.log.content_store import Store
from averaging.log.header import Entry, Header, HeaderKind, SnapshotName
from averaging.log.moment_codec import rebase
from averaging.log.snapshot import Manifest, read_snapshot, write_snapshot
from averaging.log.state import State
from averaging.optimizers.state_step import StateOptimizer
from averaging.reduce.gradient_codec import Compression, decode, encode
from averaging.reduce.grid import Grid
from swarm.errors import StorageError

logger = logging.getLogger(__name__)

NEAR = 0.01  # of the way since the snapshot before; other processors differ by some 1e-4 of it, after a hundred steps


class Replay:
    """The newest state of one peer. One thread at a time changes it; a state that was handed out stays as it is.

    Args:
        store: of updates and snapshots.
    """

    def __init__(
        self,
        run: str,
        optimizer: StateOptimizer,
        grid: Grid,
        compression: Compression,
        snapshot_every: int,
        store: Store,
    ):
        self.state: State | None = None  # None: nothing was loaded yet
        self.loaded = 0  # snapshots since the start: gradients of what was there before are of no use
        self._run, self._optimizer, self._grid, self._compression = run, optimizer, grid, compression
        self._snapshot_every, self.store = snapshot_every, store

    def begin(self, state: State) -> Manifest:
        """The state that a run begins with, and the snapshot that its genesis header names."""
        rebase(state)
        self.state = state
        return write_snapshot(state, self._run, "", self.store.put)

    def restore(self, base: SnapshotName, following: Sequence[Entry]) -> None:
        """Go on from what the disk has: a snapshot, and the entries after it."""
        self.state = replace(self._read(base.digest), step=base.step)
        for entry in following:
            self.apply(entry)
        self.loaded = 0

    def manifest(self, digest: str) -> Manifest:
        """What a snapshot consists of, which is held."""
        return Manifest.decode(self._content(digest))

    def checked(self, encoded: bytes) -> Manifest:
        """A manifest that has come.

        Raises:
            ValueError: it is none, or its snapshot does not fit the run.
        """
        manifest = Manifest.decode(encoded)
        manifest.check(self._run, self._optimizer.layout)
        return manifest

    def load(self, snapshot: str, header: Header) -> None:
        """Take over a snapshot, all of whose chunks are here: it is the state after this header.

        Raises:
            ValueError: it is not, or it does not fit the run.
        """
        self.state = replace(self._read(snapshot), step=header.step)
        self.loaded += 1

    def adopt(self, snapshot: SnapshotName, following: Sequence[Entry]) -> None:
        """Go on from another snapshot of a step that was taken, and take the steps after it again."""
        state = replace(self._read(snapshot.digest), step=snapshot.step)
        for entry in following:
            state = self._stepped(state, entry.header)
        self.state = state

    def is_near(self, other: str, own: str, before: str) -> bool:
        """Whether two snapshots of a step differ by little, in comparison with how far the own one has moved."""
        try:
            vectors = [(one.parameters, *one.moments) for one in map(self._read, (other, own, before))]
        except ValueError as error:
            logger.warning("snapshot %s is another than this peer's %s, and cannot be used: %s", other, own, error)
            return False
        return all(bool((a - b).norm() <= NEAR * (b - c).norm()) for a, b, c in zip(*vectors, strict=True))

    def apply(self, entry: Entry) -> Manifest | None:
        """Follow a committed header, whose chunks are here; after a snapshot step, the new snapshot.

        There is none where there is no room for it: the log goes on from an older one.
        """
        header = entry.header
        assert self.state is not None and header.step == self.state.step + 1, "a step was left out"
        if header.kind is HeaderKind.ROLLBACK:
            assert header.snapshot is not None
            self.load(header.snapshot.digest, header)
            return None
        self.state = self._stepped(self.state, header)
        return None if header.step % self._snapshot_every else self._snapshot(self.state, header.digest)

    def _stepped(self, state: State, header: Header) -> State:
        """The state after an update."""
        gradient = self._gradient(header)
        if gradient is None:  # what is not stepped may be read while it is rebased
            after = replace(state.with_own_moments(), gradient_norm=None)
        else:
            after = self._optimizer.step(state, gradient)
        after.step = header.step
        if header.step % self._snapshot_every == 0:
            rebase(after)
        return after

    # -- of a run in small groups, whose peers apply different updates

    def write_snapshot(self) -> Manifest | None:
        """Of the newest state, which stays as it is; None: there is no room for it."""
        assert self.state is not None
        state = self.state.with_own_moments()
        rebase(state)
        return self._snapshot(state, "")

    def encode_parameters(self) -> tuple[str, ...]:
        """Keep the newest parameters as chunks of the grid, exactly; their digests, or none if there is no room."""
        assert self.state is not None
        values, digests = self.state.parameters.numpy(), []
        for chunk in range(self._grid.count):
            content = encode(values[self._grid.slice(chunk)], "none")
            digests.append(hashlib.sha256(content).hexdigest())
            try:
                self.store.put(digests[-1], content)
            except StorageError as error:
                logger.warning("parameters are not averaged: %s", error)
                return ()
        return tuple(digests)

    def take_parameters(self, chunks: Sequence[str]) -> None:
        """Go on with the mean of parameters in these chunks, which are here."""
        assert self.state is not None
        try:
            parameters = decode_update([self._content(digest) for digest in chunks], self._grid, "none")
        except ValueError as error:
            logger.warning("parameters stay as they are: %s", error)
        else:
            self.state = replace(self.state, parameters=parameters)

    # -- what they have in common

    def _gradient(self, header: Header) -> Tensor | None:
        """Of an update; None if there is none, or if it is none of this run, which all peers find alike."""
        if not header.parts:
            return None
        chunks = [self._content(digest) for digest in header.chunks]
        try:
            return decode_update(chunks, self._grid, self._compression)
        except ValueError as error:
            logger.warning("the update of step %d changes nothing: %s", header.step, error)
            return None

    def _snapshot(self, state: State, header: str) -> Manifest | None:
        try:
            with self.store.all_or_none() as put:
                return write_snapshot(state, self._run, header, put)
        except StorageError as error:
            logger.warning("there is no snapshot of step %d: %s", state.step, error)
            return None

    def _read(self, snapshot: str) -> State:
        return read_snapshot(self.manifest(snapshot), self.store.get, self._run, self._optimizer.layout)

    def _content(self, digest: str) -> bytes:
        content = self.store.get(digest)
        if content is None:
            raise ValueError(f"chunk {digest} is not here")
        return content


def decode_update(chunks: Sequence[bytes | memoryview], grid: Grid, kind: Compression) -> Tensor:
    """The mean gradient of a global step, of shape [elements], float32 on the processor.

    Args:
        chunks: all of them, in the order of the grid.

    Raises:
        ValueError: there are more or fewer chunks, or one of them is none.
    """
    if len(chunks) != grid.count:
        raise ValueError(f"an update has {grid.count} chunks, got {len(chunks)}")
    gradient = torch.empty(grid.elements)
    values = gradient.numpy()
    for chunk, encoded in enumerate(chunks):
        decode(encoded, grid.size(chunk), kind, out=values[grid.slice(chunk)])
    return gradient
