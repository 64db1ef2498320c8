"""Whether the ledger agrees with the peers' own logs, and with what the coordinator saw of averaging."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select

from coordinator.ledger import Ledger
from coordinator.ledger_audit import RoundRow

BROUGHT = re.compile(r"^global step (\d+): brought (\d+) samples")  # in a trainer's log


@dataclass(frozen=True)
class Agreement:
    """Samples that are missing in the ledger, and those that nobody brought; each with the places, for people."""

    lost: int
    double: int
    places: list[str]


def compare(peers: Path, ledger: Ledger) -> Agreement:
    """Compare what was brought to each global step, and by each person.

    A peer that dies between the end of a round and its own log has credit for what the coordinator saw; so more than
    is in the logs is right as far as it was averaged.

    Args:
        peers: holds a folder for each person, with the logs of their processes.
    """
    by_step, by_user = claimed(peers)
    credited = {one.step: one.samples for one in ledger.steps()}
    averaged = rounds(ledger)
    lost, double, places = 0, 0, []
    for step in sorted(by_step.keys() | credited.keys() | averaged.keys()):
        told, seen, credit = by_step[step], averaged.get(step, 0), credited.get(step, 0)
        missing, extra = max(0, max(told, seen) - credit), max(0, credit - max(told, seen))
        lost, double = lost + missing, double + extra
        if missing or extra:
            places.append(f"step {step}: {told} in the logs, {seen} averaged, {credit} in the ledger")
    for user, one in ((leader.user.lstrip("~"), leader) for leader in ledger.leaderboard()):
        if one.samples < by_user[user]:
            lost += by_user[user] - one.samples
            places.append(f"{user}: {by_user[user]} in the logs, {one.samples} in the ledger")
    return Agreement(lost, double, places)


def claimed(peers: Path) -> tuple[Counter[int], Counter[str]]:
    """What the trainers' own logs say that they brought: samples by global step, counted from 0, and by person."""
    by_step: Counter[int] = Counter()
    by_user: Counter[str] = Counter()
    for log in sorted(peers.glob("*/logs/trainer.jsonl*")):
        for message in _messages(log):
            if found := BROUGHT.match(message):
                by_step[int(found[1]) - 1] += int(found[2])
                by_user[log.parts[-3]] += int(found[2])
    return by_step, by_user


def rounds(ledger: Ledger) -> dict[int, int]:
    """Samples by global step, of the rounds that the coordinator took part in."""
    with ledger._engine.connect() as connection:
        return {row.step: row.samples for row in connection.execute(select(RoundRow.step, RoundRow.samples))}


def _messages(log: Path) -> Iterator[str]:
    for line in log.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)["message"]
