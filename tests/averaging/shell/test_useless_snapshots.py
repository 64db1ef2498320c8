"""A snapshot that cannot be taken over costs the peer that has told of it, and not the peer that has fetched it."""

import asyncio
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from averaging.log.header import SnapshotName
from averaging.log.snapshot import Manifest
from averaging.protocol.messages import Chunk, Log, Status, Want, WantLog
from averaging.shell.shell import Shell
from tests.averaging.log.headers import chain_of
from tests.averaging.shell.test_shell import states_are_equal
from tests.averaging.shell.test_stepping import step_of
from tests.averaging.shell.village import RUN, Village
from tests.support.virtual_time import in_virtual_time

LIAR = "mallory.0"
AHEAD = 1000  # steps
ENTRIES = tuple(chain_of(AHEAD + 5, run=RUN)[AHEAD - 40 :])


def false_snapshot(of: Manifest, *, fits: bool) -> tuple[SnapshotName, dict[str, bytes]]:
    """What a liar tells and sends: a manifest of another run, or one that fits, with chunks that do not."""
    chunks = [f"chunk {number}".encode() for number in range(len(of.chunks))]
    digests = tuple(hashlib.sha256(chunk).hexdigest() for chunk in chunks)
    manifest = replace(of, run=RUN if fits else "another run", step=AHEAD, chunks=digests)
    return manifest.name, {manifest.digest: manifest.encoded, **dict(zip(digests, chunks, strict=True))}


async def lie(village: Village, name: str, snapshot: SnapshotName, contents: dict[str, bytes]) -> None:
    """Tell a peer of a log that is far ahead, and answer whatever its sessions ask for."""
    answered: dict[str, int] = {}
    while True:
        await asyncio.sleep(0.2)
        shells = [shell for shell in village.shells.values() if shell.machine.me.user == name]
        for shell in shells:
            session = shell.machine.me.session
            shell.received(session, LIAR, Status(ENTRIES[-1].header.head, None, convenes=False), None)
            for message in village.sent.get(session, [])[answered.get(session, 0) :]:
                if isinstance(message, WantLog):
                    shell.received(session, LIAR, Log(ENTRIES, snapshot), None)
                if isinstance(message, Want):
                    for digest in message.digests:
                        if digest in contents:
                            shell.received(session, LIAR, Chunk(digest), contents[digest])
            answered[session] = len(village.sent.get(session, []))


@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize("name", ["dina", "bela", "coordinator"])
def test_a_peer_leaves_a_log_whose_snapshot_is_useless(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, fits: bool
) -> None:
    """A newcomer, a trainer that has a state, and the coordinator."""

    async def course() -> None:
        village = Village(tmp_path)
        coordinator = village.add("coordinator", begins=True)
        for one in ("asha", "bela", "chand"):
            village.train(village.add(one))
        await village.until(lambda: len(village.entries) > 7)
        newest = coordinator.replay.manifest(coordinator.machine.log.snapshots[-1].digest)
        snapshot, contents = false_snapshot(newest, fits=fits)
        lying = asyncio.create_task(lie(village, name, snapshot, contents))
        shell: Shell = village.add(name) if name == "dina" else village.shells[f"{name}.0"]
        await village.until(lambda: "cannot be used, so another peer is asked" in caplog.text)
        step = village.newest.step
        await village.until(lambda: village.newest.step > step + 10 and step_of(shell) > step + 8)
        lying.cancel()
        await asyncio.sleep(30.0)  # it is not heard any more
        await village.rest()
        states_are_equal(*village.shells.values())
        assert not shell.failure.done()
        assert shell.replay.loaded <= 2 and not any(shell.store.has(digest) for digest in contents)
        await village.end()

    in_virtual_time(course)
