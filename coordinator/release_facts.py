"""What a model card tells, gathered from a checkpoint and the ledger."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coordinator.checkpoint_folder import TrainerState
from coordinator.ledger import EvaluationRecord, Leader, Ledger
from coordinator.ledger_curves import StepBucket
from coordinator.state_folder import UNNAMED
from swarm.names import UNVERIFIED
from swarm.run_file import RunFile

POINTS = 400  # of the curve; more would not be seen


@dataclass(frozen=True)
class Share:
    """What somebody did: a fraction of all samples, and hours over all devices. The Hub vouches for verified ones."""

    user: str
    share: float
    hours: float
    verified: bool


@dataclass(frozen=True)
class Credit:
    """Those who are named, the one with most samples first, and what the others did together."""

    named: tuple[Share, ...]
    others: int
    others_share: float


@dataclass(frozen=True)
class Work:
    """What the run has cost: samples, tokens, and hours of sessions by the names of their devices."""

    samples: int
    tokens: int
    hours: Mapping[str, float]
    credit: Credit


@dataclass(frozen=True)
class Curves:
    """The training loss by global step, and the held-out evaluations."""

    steps: Sequence[StepBucket]
    evaluations: Sequence[EvaluationRecord]


@dataclass(frozen=True)
class Record:
    """What the ledger knows of a run."""

    work: Work
    curves: Curves


@dataclass(frozen=True)
class Facts:
    """Everything that a card is made of. `work` is None where there is no ledger."""

    run: RunFile
    state: TrainerState
    parameters: int
    vocabulary: int
    repo: str
    work: Work | None
    curve: str | None = None  # name of the picture in the repository
    made: tuple[str, ...] = ()  # names of other files that go with it


def read_record(ledger: Ledger, run: RunFile, state_folder: Path, *, has_passes: bool) -> Record:
    """What a ledger knows of a run.

    Args:
        has_passes: without them the Hub vouches for nobody.

    Raises:
        LedgerError: it cannot be read.
    """
    totals = ledger.totals()
    whom = run.release.contributors if run.release else "verified"
    credit = credit_of(ledger.leaderboard(), whom, _unnamed(state_folder), has_passes=has_passes)
    work = Work(totals.samples, totals.tokens, dict(ledger.census.hours()), credit)
    return Record(work, Curves(ledger.history.steps(POINTS), ledger.history.evaluations(POINTS)))


def credit_of(leaders: Iterable[Leader], whom: str, unnamed: frozenset[str], *, has_passes: bool) -> Credit:
    """Whom a card names. A name that its owner typed, or a computer has, was never meant for ever: only 'all' names it.

    Args:
        whom: `verified`, `all` or `none`, as in the run file.
        unnamed: in lower case.
        has_passes: without them the Hub vouches for nobody.
    """
    people = [
        Share(one.user, one.share, one.hours, has_passes and not one.user.startswith(UNVERIFIED))
        for one in leaders
        if one.samples
    ]
    named = tuple(
        one for one in people if whom != "none" and (one.verified or whom == "all") and one.user.lower() not in unnamed
    )
    others = [one for one in people if one not in named]
    return Credit(named, len(others), sum(one.share for one in others))


def _unnamed(state_folder: Path) -> frozenset[str]:
    """Who does not want to be named, in lower case."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        lines = (state_folder / UNNAMED).read_text(encoding="utf-8").splitlines()
        return frozenset(line.strip().lower() for line in lines)
    return frozenset()
