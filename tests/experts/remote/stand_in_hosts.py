"""A caller in virtual time, whose hosts are stand-ins: they answer, or fail, after as many seconds as a test says."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hivemind.p2p import PeerID

from experts.remote import remote_experts
from experts.remote.remote_experts import RemoteExperts, _Group
from experts.remote.wire import Answer, Kind, Part, Result
from tests.experts.remote.small_hosts import ALL, RUN, SETTINGS


class StandIn:
    """A host and the caller's connection to it."""

    def __init__(self, name: str):
        self.peer_id = PeerID(name.encode())
        self.seconds, self.error = 0.1, None  # type: float, Exception | None
        self.asked: list[Kind] = []
        self.is_open, self.refused = False, ""

    async def ask(self, kind: Kind, parts: tuple[Part, ...] = (), payload: bytes = b"") -> tuple[Answer, bytes]:
        self.asked.append(kind)
        await asyncio.sleep(self.seconds)
        self.is_open = True
        if self.error is not None:
            raise self.error
        return Answer(len(self.asked), tuple(Result(part.uid, refused=self.refused) for part in parts)), b""

    def close(self) -> None:
        self.is_open = False


class _Here:
    """The loop that runs."""

    def soon(self, function: Callable[..., object], *arguments: Any) -> None:
        function(*arguments)

    def call(self, work: Coroutine[Any, Any, Any], timeout: float | None = None) -> Any:
        raise AssertionError("a thread that waits for this loop would be the loop's own")


class Caller(RemoteExperts):
    """Each host has one expert."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *hosts: StandIn, timeout: float = 3.0, hurries: bool = True):
        super().__init__(_Here(), None, None, RUN, SETTINGS, timeout, hurries=hurries)  # type: ignore[arg-type]
        by_peer = {host.peer_id: host for host in hosts}
        monkeypatch.setattr(remote_experts, "HostConnection", lambda *arguments: by_peer[arguments[-1]])
        self.table(*hosts)

    def table(self, *hosts: StandIn) -> None:
        self.use({uid: host.peer_id for uid, host in zip(ALL, hosts, strict=False)})

    async def batch(self, kind: Kind = Kind.FORWARD) -> set[Any]:
        """Experts that answer a call of three rows for each that is alive."""
        groups = {self._routes[uid]: [_Group((Part(uid, 3),), b"")] for uid in self.alive()}
        answers: dict[Any, Any] = {}
        await self._ask_all(kind, groups, answers)
        return set(answers)
