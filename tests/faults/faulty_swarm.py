"""A swarm whose processes can be caught at a phase of a global step, and whether its accounts agree afterwards."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlalchemy import func, select

from app.demo_peers import Peer
from coordinator.ledger_audit import RoundRow
from coordinator.ledger_schema import ContributionRow, SessionRow
from tests.faults import held
from tests.faults.hosts import Hosts
from tests.forked import Forked, start_function
from tests.peers.small_swarm import SmallSwarm, newest_step_said, text_of

RECOVERED = 2  # global steps until all take part again
BROUGHT = re.compile(r"^global step (\d+): brought (\d+) samples")  # in a trainer's log
Credit = Counter[tuple[str, int]]  # samples by user and global step, counted from 0


class FaultySwarm(SmallSwarm):
    """A small swarm whose processes stand still at a phase when they are told to; each may be on a host of its own."""

    def __init__(self, *args: Any, hosts: Hosts | None = None, **settings: Any):
        super().__init__(*args, **settings)
        self.hosts = hosts

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

    def catch(self, peer: Peer, phase: str) -> None:
        """Wait until the peer stands still at the phase."""
        folder = self.folder / "held" / peer.name
        held.hold(folder, phase)
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
        """Both trainers take part again, not later than two global steps after this one."""
        self.wait(lambda: self.both_since(came_back_at), "global step of both trainers")
        together = min(one.step for one in self.steps() if one.peers == 2 and one.step >= came_back_at)
        assert together - came_back_at <= RECOVERED, f"back after {together - came_back_at} steps\n{self.last_words()}"
        for peer in self.peers:
            assert "Traceback" not in text_of(peer), text_of(peer)

    def newest(self) -> int:
        """The newest global step that any living peer says is done."""
        return max(newest_step_said(peer) for peer in self.peers if peer.process.poll() is None)

    def claimed(self) -> Credit:
        """What the trainers' own logs say that they brought."""
        claims: Credit = Counter()
        for log in sorted((self.folder / "peers").glob("*/logs/trainer.jsonl*")):
            for message in _messages(log):
                if found := BROUGHT.match(message):
                    claims[log.parts[-3], int(found[1]) - 1] += int(found[2])
        return claims

    def credited(self) -> Credit:
        """What the ledger gives them credit for."""
        samples = (
            select(SessionRow.user_name, ContributionRow.step, func.sum(ContributionRow.samples))
            .join(ContributionRow, ContributionRow.session_id == SessionRow.session_id)
            .group_by(SessionRow.user_name, ContributionRow.step)
        )
        with self.ledger._engine.connect() as connection:
            return Counter({(user, step): int(count) for user, step, count in connection.execute(samples)})

    def averaged(self) -> dict[int, int]:
        """Samples by global step, of the rounds that the coordinator took part in."""
        with self.ledger._engine.connect() as connection:
            found = connection.execute(select(RoundRow.step, RoundRow.samples))
            return {row.step: row.samples for row in found}

    def disagreements(self) -> list[str]:
        """Contributions that are lost or counted twice, by the peers' own logs and by what the coordinator saw."""
        claimed, credited, averaged = self.claimed(), self.credited(), self.averaged()
        found = [
            f"{user} brought {samples} samples to step {step}, and has credit for {credited[user, step]}"
            for (user, step), samples in sorted(claimed.items())
            if credited[user, step] != samples
        ]
        by_step: Counter[int] = Counter()
        for (_, step), samples in credited.items():
            by_step[step] += samples
        return found + [
            f"step {step} averaged {samples} samples, and {by_step[step]} are credited"
            for step, samples in sorted(averaged.items())
            if by_step[step] != samples
        ]


def _messages(log: Path) -> Iterator[str]:
    for line in log.read_text(encoding="utf-8").splitlines():
        record: dict[str, Any] = json.loads(line)
        yield record["message"]
