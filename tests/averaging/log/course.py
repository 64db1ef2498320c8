"""A peer that writes a run to a folder of its own, and finds it again."""

import hashlib
from pathlib import Path

import torch

from averaging.log import moment_codec
from averaging.log.disk import Disk, Found
from averaging.log.header import Certificate, Entry, Header, HeaderKind, Part, SnapshotName
from averaging.log.snapshot import write_snapshot
from averaging.log.state import State
from tests.averaging.log.headers import FIRST, header

LIMIT = 0  # bytes of memory: everything is read from the folder


def content_of(step: int, chunk: int) -> bytes:
    return f"chunk {chunk} of step {step}".encode()


def named(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def state(step: int) -> State:
    made = State(step, step, torch.full((10,), float(step)), (torch.full((10,), 0.1), torch.full((10,), 0.2)))
    moment_codec.rebase(made)
    return made


class Course:
    """A peer that writes down a run: a snapshot at the beginning and after every third step."""

    def __init__(self, folder: Path, run: str = "run"):
        self.folder, self.run, self.disk = folder, run, Disk(folder, LIMIT)
        self.entries: list[Entry] = []
        self.snapshots = [self.snapshot(0, "")]
        self.add(HeaderKind.GENESIS, snapshot=self.snapshots[0])
        self.disk.save_snapshots(self.snapshots, 0)

    def snapshot(self, step: int, after: str) -> SnapshotName:
        return write_snapshot(state(step), self.run, after, self.disk.contents.put).name

    def update(self, step: int) -> Part:
        """Its chunks are in the store."""
        contents = [content_of(step, chunk) for chunk in range(2)]
        for content in contents:
            self.disk.contents.put(named(content), content)
        return Part("a.0", tuple(map(named, contents)))

    def next(self, kind: HeaderKind, **fields: object) -> Header:
        before = self.entries[-1].header if self.entries else None
        step, previous = (before.step + 1, before.digest) if before else (0, "")
        return header(step, previous, run=self.run, kind=kind, **fields)

    def add(self, kind: HeaderKind = HeaderKind.UPDATE, **fields: object) -> None:
        if kind is HeaderKind.UPDATE:
            fields["parts"] = (self.update(len(self.entries)),)
        self.entries.append(Entry(self.next(kind, **fields), Certificate(FIRST, ("a.0",))))
        self.disk.append(self.entries[-1:])
        step = self.entries[-1].header.step
        if kind is HeaderKind.UPDATE and step % 3 == 0:
            self.snapshots.append(self.snapshot(step, self.entries[-1].header.digest))
            self.disk.save_snapshots(self.snapshots, 0)

    def restarted(self) -> Found:
        self.disk = Disk(self.folder, LIMIT)
        found = self.disk.load()
        assert found is not None
        return found

    def drop(self, digest: str) -> None:
        (self.folder / "contents" / digest).unlink()
