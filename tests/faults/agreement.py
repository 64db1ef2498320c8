"""Whether the ledger agrees with the peers' own logs, and with what the coordinator saw of averaging."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select

from coordinator.ledger import Ledger
from coordinator.ledger_rounds import RoundRow
from coordinator.ledger_schema import ContributionRow, SessionRow

# in a trainer's log
BROUGHT = re.compile(r"^global step (\d+): brought (\d+) samples.* averaged with (\d+) others")


Claims = defaultdict[int, Counter[str]]  # samples by global step, counted from 0, and person


@dataclass(frozen=True)
class Agreement:
    """Samples that are missing in the ledger, and those that nobody brought, or somebody else; with the places."""

    lost: int
    double: int
    places: list[str]


def compare(peers: Path, ledger: Ledger) -> Agreement:
    """Compare what was brought to each global step.

    A peer that dies between the end of a round and its own log has credit for what the coordinator saw; so more than
    is in the logs is right as far as it was averaged. A step that a peer took alone is credited if nobody knows better:
    if the others took that step, too, it was none of theirs.

    Args:
        peers: holds a folder for each person, with the logs of their processes.
    """
    together, alone = claimed(peers)
    credited = {one.step: one.samples for one in ledger.steps()}
    averaged, people = rounds(ledger), credited_people(ledger)
    lost, double, places = 0, 0, []
    for step in sorted(together.keys() | alone.keys() | credited.keys() | averaged.keys()):
        told, solo = together[step].total(), alone[step].total()
        seen, credit = averaged.get(step, 0), credited.get(step, 0)
        missing, extra = max(0, max(told, seen) - credit), max(0, credit - max(told + solo, seen))
        brought = together[step] + alone[step]
        to_whom = sum((people[step] - brought).values()) - max(0, credit - brought.total())  # more than they brought
        misplaced = max(0, to_whom)
        lost, double = lost + missing, double + extra + misplaced
        if missing or extra or misplaced:
            words = f"{dict(together[step])} in the logs, {dict(alone[step])} alone"
            places.append(f"step {step}: {words}, {seen} averaged, {dict(people[step])} in the ledger")
    return Agreement(lost, double, places)


def claimed(peers: Path) -> tuple[Claims, Claims]:
    """What the trainers' own logs say that they brought to a mean of several, and to steps that they took alone."""
    together, alone = Claims(Counter), Claims(Counter)
    for log in sorted(peers.glob("*/logs/trainer.jsonl*")):
        for message in _messages(log):
            if found := BROUGHT.match(message):
                kind = together if int(found[3]) else alone
                kind[int(found[1]) - 1][log.parts[-3]] += int(found[2])
    return together, alone


def rounds(ledger: Ledger) -> dict[int, int]:
    """Samples by global step, of the rounds that the coordinator took part in."""
    with ledger._engine.connect() as connection:
        return {row.step: row.samples for row in connection.execute(select(RoundRow.step, RoundRow.samples))}


def credited_people(ledger: Ledger) -> Claims:
    """Samples by global step and person, of the steps that are not rolled up yet."""
    people = Claims(Counter)
    person, samples = SessionRow.user_name, ContributionRow.samples
    query = select(ContributionRow.step, person, samples).join(
        SessionRow, SessionRow.session_id == ContributionRow.session_id
    )
    with ledger._engine.connect() as connection:
        for row in connection.execute(query):
            people[row.step][row.user_name.removeprefix("~").lower()] += row.samples
    return people


def _messages(log: Path) -> Iterator[str]:
    for line in log.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)["message"]
