"""What a model card tells, gathered from a checkpoint and the ledger."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coordinator.checkpoints.retention import TrainerState
from coordinator.ledger.answers import StepBucket
from coordinator.ledger.ledger import EvaluationRecord, Leader, Ledger
from coordinator.state_folder import UNNAMED
from swarm.access.names import UNVERIFIED
from swarm.errors import StorageError
from swarm.run_file import MASK, RunFile

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
    unknown: tuple[str, ...] = ()  # who does not want to be named, and is nobody of the run


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
    mask: str = MASK  # as the tokenizer writes it


def read_record(ledger: Ledger, run: RunFile, unnamed: frozenset[str], *, has_passes: bool) -> Record:
    """What a ledger knows of a run.

    Args:
        unnamed: who does not want to be named, as `read_unnamed` gives it.
        has_passes: without them the Hub vouches for nobody.

    Raises:
        LedgerError: it cannot be read.
    """
    totals = ledger.totals()
    whom = run.release.contributors if run.release else "none"  # whoever joined was told
    credit = credit_of(ledger.leaderboard(), whom, unnamed, has_passes=has_passes)
    work = Work(totals.samples, totals.tokens, ledger.people.hours(), credit)
    return Record(work, Curves(ledger.history.steps(POINTS), ledger.history.evaluations(POINTS)))


def credit_of(leaders: Iterable[Leader], whom: str, unnamed: frozenset[str], *, has_passes: bool) -> Credit:
    """Whom a card names. A name that its owner typed, or a computer has, was never meant for ever: only 'all' names it.

    Args:
        whom: `verified`, `all` or `none`, as in the run file.
        unnamed: as `read_unnamed` gives it.
        has_passes: without them the Hub vouches for nobody.
    """
    leaders = list(leaders)
    people = [
        Share(one.user, one.share, one.hours, has_passes and not one.user.startswith(UNVERIFIED))
        for one in leaders
        if one.samples
    ]
    named = tuple(
        one for one in people if whom != "none" and (one.verified or whom == "all") and _name(one.user) not in unnamed
    )
    chosen = frozenset(named)
    others = [one for one in people if one not in chosen]
    unknown = sorted(unnamed - {_name(one.user) for one in leaders})
    return Credit(named, len(others), sum(one.share for one in others), tuple(unknown))


def read_unnamed(*folders: Path) -> frozenset[str]:
    """Who does not want to be named, by the file for that in each of these folders, if it has one.

    Raises:
        StorageError: it is there and cannot be read: nothing may be released without it.
    """
    names: set[str] = set()
    for folder in folders:
        path = folder / UNNAMED
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise StorageError(f"{path}: cannot be read ({why}), and tells who is not to be named; mend it") from None
        names.update(map(_name, lines))
    return frozenset(names - {""})


def unknown_names(names: Iterable[str]) -> str:
    """What is said where somebody who does not want to be named is nobody of the run, perhaps by a slip."""
    return f"attention: {UNNAMED} has {', '.join(names)}, and nobody of that name has contributed; see the spelling"


def _name(written: str) -> str:
    """A name as it is compared: people write one as `@asha` or as `Asha`."""
    return written.strip().removeprefix("@").removeprefix(UNVERIFIED).lower()
