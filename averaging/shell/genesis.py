"""How a peer begins that need not ask others for a state: from its own disk, or as the one that opens the run."""

import asyncio
from collections.abc import Callable

from averaging.log.chain import Chain
from averaging.log.disk import Disk, Found
from averaging.log.header import Ballot, Certificate, Entry, Header, HeaderKind
from averaging.log.packing import unpack
from averaging.log.state import State
from averaging.protocol.messages import Accepted, Contact
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
    elif shell.machine.me.is_coordinator:
        found = _opened(shell, disk, first())
    if found is not None:
        _begin(shell, found)


def _opened(shell: Shell, disk: Disk, first: State) -> Found:
    """The log of a new run, which is on the disk then: its first header names the state."""
    name, ballot = shell.replay.begin(first).name, Ballot(0, shell.machine.me.session)
    run, opener = shell.settings.run, ballot.convener
    header = Header(run, first.step, HeaderKind.GENESIS, "", ballot, tie_breaker=opener, snapshot=name)
    entry = Entry(header, Certificate(ballot))
    disk.save_snapshots([name], since=first.step)
    disk.append([entry])
    return Found((entry,), (name,), name, replay=(), accepted=None, gaps=())


def _begin(shell: Shell, found: Found) -> None:
    """Tell the machine of the state that is in the replay, and of what the store has."""
    machine, now = shell.machine, asyncio.get_running_loop().time()
    chain, accepted = Chain(found.entries), _accepted(found)
    for name in found.snapshots:
        machine.fetching.made(name.digest, shell.replay.manifest(name.digest).chunks, now)
    for header in (*(entry.header for entry in chain.since(0)), *([accepted.header] if accepted else [])):
        for digest in header.chunks:
            if shell.replay.store.has(digest):
                machine.fetching.arrived(digest, now)
    machine.start(chain, found.snapshots, accepted, found.gaps, found.waited)
    machine.reached(chain.tip.step, now)


def _accepted(found: Found) -> Accepted | None:
    if found.accepted is None:
        return None
    ballot, header, contacts = found.accepted
    return Accepted(ballot, header, unpack(tuple[Contact, ...], contacts))
