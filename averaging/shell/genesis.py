"""How a peer begins that need not ask others for a state: from its own disk, or as the one that opens the run."""

import asyncio
from collections.abc import Callable, Sequence

from averaging.log.chain import Chain
from averaging.log.disk import Disk
from averaging.log.header import Ballot, Certificate, Entry, Gap, Header, HeaderKind, SnapshotName
from averaging.log.state import State
from averaging.protocol.messages import Accepted
from averaging.shell.shell import Shell


def resume_or_open(shell: Shell, disk: Disk, first: Callable[[], State]) -> None:
    """Go on from the disk; a coordinator whose disk has nothing opens the run with the first state.

    Raises:
        StorageError: the disk cannot be read or written.
        ValueError: a snapshot on the disk does not fit the run.
    """
    found = disk.load()
    if found is not None:
        shell.replay.restore(found.base, found.replay)
        accepted = Accepted(*found.accepted) if found.accepted is not None else None
        _begin(shell, Chain(found.entries), found.snapshots, accepted, found.gaps, found.waited)
    elif shell.machine.me.is_coordinator:
        state = first()
        manifest = shell.replay.begin(state)
        ballot = Ballot(0, shell.machine.me.session)
        header = Header(
            shell.settings.run,
            state.step,
            HeaderKind.GENESIS,
            "",
            ballot,
            tie_breaker=ballot.convener,
            snapshot=manifest.name,
        )
        entry = Entry(header, Certificate(ballot))
        disk.save_snapshots([manifest.name], since=state.step)
        disk.append([entry])
        _begin(shell, Chain([entry]), [manifest.name])


def _begin(
    shell: Shell,
    chain: Chain,
    snapshots: Sequence[SnapshotName],
    accepted: Accepted | None = None,
    gaps: Sequence[Gap] = (),
    waited: float = 0.0,
) -> None:
    """Tell the machine of the state that is in the replay, and of what the store has."""
    machine, now = shell.machine, asyncio.get_running_loop().time()
    for name in snapshots:
        machine.fetching.made(name.digest, shell.replay.manifest(name.digest).chunks, now)
    for header in (*(entry.header for entry in chain.since(0)), *([accepted.header] if accepted else [])):
        for digest in header.chunks:
            if shell.store.has(digest):
                machine.fetching.arrived(digest, now)
    machine.start(chain, snapshots, accepted, gaps, waited)
    machine.reached(chain.tip.step, now)
