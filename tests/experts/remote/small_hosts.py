"""Hosts and callers of a guarded run, without a DHT: callers are told which host has which expert."""

import asyncio
import dataclasses
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from hivemind.p2p import P2P
from torch import Tensor

from averaging.transport.loop import LoopThread
from experts.grid import Uid, all_uids
from experts.host.computing import Computing
from experts.host.settings import ExpertSettings, HostLimits
from experts.host.trained_expert import TrainedExpert
from experts.host.worker import Worker
from experts.remote import wire
from experts.remote.remote_experts import RemoteExperts
from experts.remote.service import ExpertService
from experts.remote.wire import HANDLE, VERSION
from swarm.access.gate import Gate
from swarm.access.greeting import Hello
from tests.averaging.transport.peers import Guarded, Peers
from tests.support.waiting import wait_until

RUN = "0123abcd"
SETTINGS = ExpertSettings(grid=(2, 2), width=8, hidden=16)
ALL: tuple[Uid, ...] = tuple(all_uids(SETTINGS.grid))


def rows(count: int = 3, seed: int = 0) -> Tensor:
    return torch.randn(count, SETTINGS.width, generator=torch.Generator().manual_seed(seed))


class Host:
    """A service with some experts."""

    def __init__(self, loop: LoopThread, p2p: P2P, gate: Gate, uids: Iterable[Uid], limits: HostLimits):
        self.loop, self.p2p, self.gate = loop, p2p, gate
        self.computing = Computing(SETTINGS)
        self.computing.experts = {uid: TrainedExpert(uid, SETTINGS) for uid in uids}
        self.worker = Worker(self.computing, limits)
        self.schedule_factor = 1.0  # that it tells
        self.service = ExpertService(
            p2p, gate, RUN, SETTINGS, self.worker, schedule_factor=lambda: self.schedule_factor
        )

    async def start(self) -> None:
        self._running = asyncio.create_task(self.worker.run())
        await self.service.start()

    async def stop(self) -> None:
        await self.service.stop()
        self._running.cancel()

    @property
    def versions(self) -> dict[Uid, int]:
        return {uid: expert.version for uid, expert in self.computing.experts.items()}


class SmallHosts:
    """All of a test."""

    def __init__(self, loop: LoopThread, folder: Path):
        self.loop, self.guarded = loop, Guarded(folder)
        self.peers = Peers(loop, self.guarded)
        self.hosts: list[Host] = []
        self.callers: list[RemoteExperts] = []

    def host(self, uids: Iterable[Uid] = ALL, limits: HostLimits | None = None, **changes: Any) -> Host:
        p2p = self.peers.daemon()
        gate = self.guarded.gate(f"host{len(self.hosts)}", p2p.peer_id)
        limits = dataclasses.replace(limits or HostLimits(busy_pause=0.0), **changes)
        self.hosts.append(Host(self.loop, p2p, gate, uids, limits))
        self.loop.call(self.hosts[-1].start())
        return self.hosts[-1]

    def caller(
        self,
        *hosts: Host,
        timeout: float = 60.0,
        name: str = "",
        lifetime: float = 3600.0,
        settings: ExpertSettings = SETTINGS,
    ) -> RemoteExperts:
        p2p = self.peers.daemon()
        gate = self.guarded.gate(name or f"caller{len(self.callers)}", p2p.peer_id, lifetime)
        self.callers.append(RemoteExperts(self.loop, p2p, gate, RUN, settings, timeout))
        self.callers[-1].use({uid: host.p2p.peer_id for host in hosts for uid in host.computing.experts})
        return self.callers[-1]

    def intruder(self, gate: Gate | None = None) -> "Intruder":
        return Intruder(self.loop, self.peers.daemon(), gate)

    def stop(self) -> None:
        for caller in self.callers:
            caller.close()
        for host in self.hosts:
            self.loop.call(host.stop())
        self.peers.stop()


class Intruder:
    """Streams by hand, with any bytes."""

    def __init__(self, loop: LoopThread, p2p: P2P, gate: Gate | None):
        self.loop, self.p2p = loop, p2p
        self.gate = gate
        self._begun: list[asyncio.StreamWriter] = []

    def says(self, host: Host, *messages: bytes) -> bytes:
        """Send all of it, and return what comes until the host closes the stream, which it must do."""

        async def saying() -> bytes:
            _, reader, writer = await self.p2p.call_binary_stream_handler(host.p2p.peer_id, HANDLE)
            try:
                for one in messages:
                    writer.write(one)
                return await asyncio.wait_for(reader.read(), 120.0)
            except asyncio.TimeoutError:
                raise AssertionError("the host keeps the stream open") from None
            except ConnectionError:  # it was closed before all was said
                return b""
            finally:
                writer.transport.abort()

        return self.loop.call(saying())

    def begins(self, host: Host) -> None:
        """Open a stream, send the first byte of a hello, and no more; until it has arrived."""
        before = set(host.service._strangers.peers)

        async def beginning() -> None:
            _, _, writer = await self.p2p.call_binary_stream_handler(host.p2p.peer_id, HANDLE)
            writer.write(b"\0")
            self._begun.append(writer)

        self.loop.call(beginning())
        wait_until(lambda: set(host.service._strangers.peers) - before, "the beginning of a hello")

    def hello(self, **changes: Any) -> bytes:
        shown = self.gate.own.to_bytes() if self.gate else b""
        fields = {"version": VERSION, "run": f"{RUN} with experts {SETTINGS.fingerprint}", "shown": shown}
        return wire.message(Hello(**{**fields, **changes}))


def sent(caller: RemoteExperts, host: Host) -> int:
    return caller._hosts[host.p2p.peer_id.to_base58()].connection.requests


@contextmanager
def held_up(host: Host) -> Iterator[None]:
    """Its computing thread does nothing meanwhile; it is a frozen host, as far as callers can see."""
    go_on = threading.Event()

    holds = host.worker._thread.submit(go_on.wait)
    try:
        yield
    finally:
        go_on.set()
        holds.result()
