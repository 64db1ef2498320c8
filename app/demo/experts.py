"""The demo's experts: the section of its run file, two hosts, and what came of them."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from app.demo.peers import Peer
from coordinator.ledger.ledger import Ledger
from swarm.access.user_names import UNVERIFIED
from swarm.run_file import ExpertsSection

HOSTS = ("Hema", "Kavi")
WIDTH, HIDDEN = 64, 256  # small, as the demo's model is
LEARNING_RATE = 2e-3  # of each expert's Adam; higher than the default, as small experts bear larger steps
HOLDINGS = re.compile(r"^Serving (.*; keeping copies of .*)\.$", re.MULTILINE)
NOTHING = "no expert; keeping copies of no expert"
CALLS = re.compile(r"^Experts: (.*)$", re.MULTILINE)
FIGURES = re.compile(r"([\d,]+) calls, ([\d,]+) without an answer; ([\d,]+) of ([\d,]+) batches")


@dataclass(frozen=True)
class HostSummary:
    """One host: tokens for which it has credit, and how it ended."""

    name: str
    tokens_served: int
    fate: str


@dataclass(frozen=True)
class ExpertsSummary:
    """What came of experts. Calls and batches are those of trainers that ended in order; losses are held out, in nats.

    `whole_batches` are those in which each token had answers of as many experts as it may have.
    """

    experts: int
    calls: int
    failures: int
    batches: int
    whole_batches: int
    loss_with_experts: float | None
    loss_trunk_alone: float | None
    hosts: list[HostSummary]


def holds_some(host: Peer) -> bool:
    """Whether a host serves or copies an expert, as it said last."""
    return host.said(HOLDINGS)[-1:] not in ([], [NOTHING])


def serves_some(host: Peer) -> bool:
    """Whether it serves one."""
    return any(not one.startswith("no expert;") for one in host.said(HOLDINGS)[-1:])


def experts_section(count: int) -> dict[str, Any]:
    """So many experts, in a grid that is as square as it can be."""
    rows = next(number for number in range(math.isqrt(count), 0, -1) if count % number == 0)
    grid = [rows, count // rows] if rows > 1 else [count]
    section = ExpertsSection(
        grid=grid, width=WIDTH, hidden=HIDDEN, experts_of_a_row=min(2, count), learning_rate=LEARNING_RATE
    )
    return section.model_dump()


def summarize_experts(count: int, trainers: Iterable[Peer], hosts: Iterable[Peer], ledger: Ledger) -> ExpertsSummary:
    """Collect the figures from logs and ledger."""
    said = [FIGURES.match(line) for one in trainers for line in one.said(CALLS)]
    sums = [sum(int(found.group(at).replace(",", "")) for found in said if found) for at in range(1, 5)]
    calls, failures, whole, batches = sums
    newest = next((one for one in reversed(ledger.evaluations()) if one.loss_with_experts is not None), None)
    served = {one.user: one.tokens_served for one in ledger.leaderboard()}
    return ExpertsSummary(
        experts=count,
        calls=calls,
        failures=failures,
        batches=batches,
        whole_batches=whole,
        loss_with_experts=newest.loss_with_experts if newest else None,
        loss_trunk_alone=newest.loss if newest else None,
        hosts=[HostSummary(one.name, served.get(UNVERIFIED + one.name, 0), one.fate) for one in hosts],
    )


def described(found: ExpertsSummary) -> list[str]:
    """The figures in some lines."""
    share = found.whole_batches / found.batches if found.batches else math.nan
    lines = [
        f"{found.experts} experts: {found.calls:,} calls, {found.failures:,} without an answer; in {share:.1%} of the "
        "batches every token had answers of all its experts"
    ]
    if found.loss_with_experts is not None:
        lines.append(
            f"held-out loss {found.loss_with_experts:.3f} nats with experts, {found.loss_trunk_alone:.3f} of the trunk "
            "alone; `sahaj demo` without --experts trains the same model without them"
        )
    return lines + [f"  {one.name}, host: {one.tokens_served:,} tokens served, {one.fate}" for one in found.hosts]


def experts_problems(found: ExpertsSummary) -> list[str]:
    """What did not happen as it should have."""
    problems = []
    if not found.calls or found.failures == found.calls:
        problems.append("no expert answered a trainer")
    if found.loss_with_experts is None:
        problems.append("no evaluation with experts")
    if not any(one.tokens_served for one in found.hosts):
        problems.append("no host has credit")
    return problems + [f"{one.name} {one.fate}" for one in found.hosts if "error" in one.fate]
