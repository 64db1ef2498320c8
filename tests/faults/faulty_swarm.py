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
from tests.forked import Forked, start_function
from tests.peers.small_swarm import SmallSwarm, newest_step_said

BROUGHT = re.compile(r"^global step (\d+): brought (\d+) samples")  # in a trainer's log
Credit = Counter[tuple[str, int]]  # samples by user and global step, counted from 0


class FaultySwarm(SmallSwarm):
    """A small swarm whose processes stand still at a phase when they are told to."""

    def fork(
        self, name: str, command: list[object], log: Path, environment: Mapping[str, str] = MappingProxyType({})
    ) -> Forked:
        """Start `sahaj` as a process that can be held."""
        return start_function(held.run_held, list(map(str, command)), str(self.folder / "held" / name), out=log)

    def catch(self, peer: Peer, phase: str) -> None:
        """Wait until the peer stands still at the phase."""
        folder = self.folder / "held" / peer.name
        held.hold(folder, phase)
        self.wait(lambda: held.is_held(folder, phase), f"{phase} of {peer.name}")

    def let_go(self, peer: Peer, phase: str) -> None:
        """Have it go on, if it is still there."""
        held.release(self.folder / "held" / peer.name, phase)

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
