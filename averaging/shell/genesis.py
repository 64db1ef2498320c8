"""How a peer begins that need not ask others for a state: from its own disk, or as the one that opens the run."""

import asyncio
from collections.abc import Callable

from averaging.log.chain import Chain
from averaging.log.disk import Disk, Found
from averaging.log.header import Ballot, Certificate, Entry, Header, HeaderKind
from averaging.log.packing import unpack
from averaging.log.state import State
from averaging.moshpit.peer import GroupPeer
from averaging.protocol.messages import Accepted, Contact
from averaging.protocol.peer import LogPeer
from averaging.shell.locked_machine import Machine
from averaging.shell.replay import Replay


def begin(machine: Machine, replay: Replay, disk: Disk | None, first: Callable[[], State]) -> None:
    """Resume from the disk; a coordinator without a log on its disk opens the run with the first state.

    Args:
        disk: that of a coordinator, or of a peer that keeps the log on one. In small groups there is no log on it.

    Raises:
        StorageError: the disk cannot be read or written.
        ValueError: a snapshot on the disk does not fit the run.
    """
    opens = machine.me.is_coordinator
    assert disk is not None or not opens, "a coordinator has a folder"
    if isinstance(machine, GroupPeer):
        if opens:
            replay.state = state = first()
            machine.begin(state.step)
    elif disk is not None:
        found = disk.load()
        if found is not None:
            replay.restore(found.base, found.replay)
        elif opens:
            found = _opened(machine, replay, disk, first())
        if found is not None:
            _start(machine, replay, found)


def _opened(machine: LogPeer, replay: Replay, disk: Disk, first: State) -> Found:
    """The log of a new run, which is on the disk then: its first header names the state."""
    name, opener, run = replay.begin(first).name, machine.me.session, machine.session.settings.run
    ballot = Ballot(0, opener)
    header = Header(run, first.step, HeaderKind.GENESIS, "", ballot, tie_breaker=opener, snapshot=name)
    entry = Entry(header, Certificate(ballot))
    disk.save_snapshots([name], since=first.step)
    disk.append([entry])
    return Found((entry,), (name,), name, replay=(), accepted=None, gaps=())


def _start(machine: LogPeer, replay: Replay, found: Found) -> None:
    """Tell the machine of the state that is in the replay, and of what the store has."""
    now, chain, saved = asyncio.get_running_loop().time(), Chain(found.entries), found.accepted
    accepted = saved and Accepted(saved[0], saved[1], unpack(tuple[Contact, ...], saved[2]))
    for name in found.snapshots:
        machine.fetching.made(name.digest, replay.manifest(name.digest).chunks, now)
    for header in (*(entry.header for entry in chain.since(0)), *([accepted.header] if accepted else [])):
        for digest in header.chunks:
            if replay.store.has(digest):
                machine.fetching.arrived(digest, now)
    machine.start(chain, found.snapshots, accepted, found.gaps, found.waited)
    machine.reached(chain.tip.step, now)
