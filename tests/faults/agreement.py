"""Whether the ledger agrees with the headers of the coordinator's log, and those with the trainers' own logs."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from averaging.log.credit import contributions
from averaging.log.disk import LOG_FILE
from averaging.log.entry_file import EntryFile
from averaging.log.header import Header
from coordinator.ledger.ledger import Ledger
from coordinator.state_folder import LOG

# in a trainer's log
BROUGHT = re.compile(r"^global step (\d+): brought (\d+) samples")


@dataclass(frozen=True)
class Agreement:
    """Samples that the ledger lacks, samples that it has and no header, and the places."""

    lost: int
    double: int
    places: list[str]


def compare(peers: Path, state: Path, ledger: Ledger) -> Agreement:
    """Compare the ledger with the headers by step and by person, and the headers with what trainers have logged.

    A peer that dies between a commit and its own log has credit that its log does not tell of.

    Args:
        peers: holds a folder for each person, with the logs of their processes.
        state: folder of the coordinator.
    """
    in_headers = brought(headers(state / LOG))
    in_ledger: Counter[object] = Counter({one.step + 1: one.samples for one in ledger.steps()})  # which counts from 0
    credited: Counter[object] = Counter({folder_of(one.user): one.samples for one in ledger.leaderboard()})
    unheard = said(peers) - in_headers
    lost, double, places = unheard.total(), 0, [f"{one}: {unheard[one]} are in no header" for one in sorted(unheard)]
    for have, should in ((in_ledger, total(in_headers, 0)), (credited, total(in_headers, 1))):
        missing, extra = should - have, have - should
        lost, double = lost + missing.total(), double + extra.total()
        places += [f"{one}: {have[one]} in the ledger, {should[one]} in headers" for one in (*missing, *extra)]
    return Agreement(lost, double, places)


def headers(folder: Path) -> list[Header]:
    """All that are on a coordinator's disk, those of chains that have lost included."""
    found = [record.entry.header for record in EntryFile(folder / LOG_FILE).load()]
    return list({header.digest: header for header in found}.values())


def brought(found: Iterable[Header]) -> Counter[tuple[int, str]]:
    """Samples by global step and person, as headers say."""
    counted: Counter[tuple[int, str]] = Counter()
    for header in found:
        for one in contributions(header):
            counted[one.step, folder_of(one.user)] += round(one.samples)
    return counted


def said(peers: Path) -> Counter[tuple[int, str]]:
    """The same, as the trainers' own logs say."""
    counted: Counter[tuple[int, str]] = Counter()
    for log in sorted(peers.glob("*/logs/trainer.jsonl*")):
        for line in log.read_text(encoding="utf-8").splitlines():
            if found := BROUGHT.match(json.loads(line)["message"]):
                counted[int(found[1]), log.parts[-3].lower()] += int(found[2])
    return counted


def folder_of(user: str) -> str:
    """The name of a person's folder."""
    return user.removeprefix("~").lower()


def total(counted: Counter[tuple[int, str]], place: int) -> Counter[object]:
    """Sums by step (0) or by person (1)."""
    sums: Counter[object] = Counter()
    for key, samples in counted.items():
        sums[key[place]] += samples
    return sums
