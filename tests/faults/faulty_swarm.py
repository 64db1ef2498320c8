"""A swarm whose processes can be caught at a phase of a global step."""

import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from app.demo.peers import Peer
from tests.faults import held
from tests.faults.agreement import compare
from tests.support.forked import Forked, start_function
from tests.support.hosts import Hosts
from tests.support.small_swarm import SmallSwarm, newest_step_said, text_of
from tests.support.waiting import wait_until

RECOVERED = 2  # global steps until all take part again ...
RECONNECTED = 20.0  # ... or seconds: TCP doubles its pauses, so a cable that was out for 12 s is tried again 13 s later


class FaultySwarm(SmallSwarm):
    """A small swarm whose processes stand still at a phase when they are told to; each may be on a host of its own."""

    def __init__(self, *args: Any, hosts: Hosts | None = None, **settings: Any):
        self.hosts = hosts
        super().__init__(*args, **settings)

    def start(self, *options: object) -> None:
        """A coordinator and two trainers, Bela with these options, until both have brought something."""
        self.coordinator()
        self.trainer("asha")
        self.trainer("bela", *options)
        self.wait(lambda: self.both_since(0), "global step of two trainers")

    def host(self, name: str) -> str:
        """The address of the peer's host."""
        return self.hosts.addresses[name] if self.hosts else super().host(name)

    def fork(
        self, name: str, command: list[object], log: Path, environment: Mapping[str, str] = MappingProxyType({})
    ) -> Forked:
        """Start `sahaj` as a process that can be held."""
        namespace = self.hosts.namespace(name) if self.hosts else None
        told = self.folder / "held" / name
        return start_function(held.run_held, list(map(str, command)), str(told), namespace, out=log)

    def catch(self, peer: Peer, phase: str, *, cut_off: bool = False) -> None:
        """Wait until the peer stands still at the phase; `cut_off`: without its cable from that moment on."""
        folder = self.folder / "held" / peer.name
        held.hold(folder, phase, self.hosts.pulling_cable(peer.name) if cut_off and self.hosts else ())
        self.wait(lambda: held.is_held(folder, phase), f"{phase} of {peer.name}")

    def let_go(self, peer: Peer, phase: str) -> None:
        """Have it go on, if it is still there."""
        held.release(self.folder / "held" / peer.name, phase)

    def living(self, name: str) -> Peer:
        """The peer of that name that runs."""
        (peer,) = (one for one in self.peers if one.name == name and one.process.poll() is None)
        return peer

    def both_since(self, step: int) -> bool:
        """Whether both trainers have brought something to a global step from this one on."""
        return any(one.peers == 2 and one.step >= step for one in self.steps())

    def wait_until_recovered(self, came_back_at: int) -> None:
        """Both trainers take part again, within two global steps of this one or `RECONNECTED` seconds of now."""
        began = time.monotonic()
        self.wait(lambda: self.both_since(came_back_at), "global step of both trainers")
        together = min(one.step for one in self.steps() if one.peers == 2 and one.step >= came_back_at)
        steps, seconds = together - came_back_at, time.monotonic() - began
        assert steps <= RECOVERED or seconds <= RECONNECTED, (
            f"back after {steps} steps and {seconds:.0f} s\n{self.last_words()}"
        )
        for peer in self.peers:
            assert "Traceback" not in text_of(peer), text_of(peer)

    def newest(self) -> int:
        """The newest global step that any living peer says is done."""
        return max(newest_step_said(peer) for peer in self.peers if peer.process.poll() is None)

    def wait_for_agreement(self) -> None:
        """Until the ledger has what headers say, and no more; the coordinator reads them once a second."""

        def places() -> list[str]:
            return compare(self.folder / "peers", self.state, self.ledger).places

        wait_until(lambda: not places(), lambda: "agreement:\n" + "\n".join(places()), every=0.5)
