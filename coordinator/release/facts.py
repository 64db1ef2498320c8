"""The facts of a model card, from a checkpoint and the ledger."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coordinator.checkpoints.checkpoint import TrainerState
from coordinator.ledger.answers import EvaluationRecord, Leader, StepBucket
from coordinator.ledger.ledger import Ledger
from coordinator.state_folder import UNNAMED
from swarm.access.passes import is_verified
from swarm.access.user_names import UNVERIFIED
from swarm.errors import StorageError
from swarm.run_file import MASK, RunFile

POINTS = 400  # of the curve; more would not be seen


@dataclass(frozen=True)
class Share:
    """What a user contributed: a fraction of all samples, and hours over all devices. `verified`: by the Hub."""

    user: str
    share: float
    hours: float
    verified: bool


@dataclass(frozen=True)
class Credit:
    """Users who are named, those with most samples first, and what the others contributed together."""

    named: tuple[Share, ...]
    others: int
    others_share: float
    unknown: tuple[str, ...] = ()  # names in the list of unnamed people that nobody in the run has


@dataclass(frozen=True)
class Record:
    """What the ledger says about a run: what went into it, people, and losses. `hours` are by names of devices."""

    samples: int
    tokens: int
    hours: Mapping[str, float]
    credit: Credit
    steps: Sequence[StepBucket]
    evaluations: Sequence[EvaluationRecord]


@dataclass(frozen=True)
class Facts:
    """Everything in a card. `record` is None where there is no ledger."""

    run: RunFile
    state: TrainerState
    parameters: int
    vocabulary: int
    repo: str
    record: Record | None
    curve: str | None = None  # name of the picture in the repository
    made: tuple[str, ...] = ()  # names of other files that go with it
    mask: str = MASK  # as the tokenizer writes it
    experts: int = 0  # in the file beside the model


def read_record(ledger: Ledger, run: RunFile, unnamed: frozenset[str]) -> Record:
    """What a ledger says about a run.

    Args:
        unnamed: names of people who do not want to be named, as `read_unnamed` returns them.

    Raises:
        LedgerError: it cannot be read.
    """
    totals = ledger.totals()
    whom = run.release.contributors if run.release else "none"  # peers were told when they joined
    credit = credit_of(ledger.leaderboard(), whom, unnamed)
    return Record(
        samples=totals.samples,
        tokens=totals.tokens,
        hours=ledger.people.hours(),
        credit=credit,
        steps=ledger.history.steps(POINTS),
        evaluations=ledger.history.evaluations(POINTS),
    )


def credit_of(leaders: Iterable[Leader], whom: str, unnamed: frozenset[str]) -> Credit:
    """The users whom a card names. Only `all` names unverified users, whose names were not chosen to be published.

    Args:
        whom: `verified`, `all` or `none`, as in the run file.
        unnamed: as `read_unnamed` returns them.
    """
    leaders = list(leaders)
    people = [Share(one.user, one.share, one.hours, is_verified(one.user)) for one in leaders if one.samples]
    named = tuple(
        one
        for one in people
        if whom != "none" and (one.verified or whom == "all") and as_listed(one.user) not in unnamed
    )
    chosen = frozenset(named)
    others = [one for one in people if one not in chosen]
    unknown = sorted(unnamed - {as_listed(one.user) for one in leaders})
    return Credit(named, len(others), sum(one.share for one in others), tuple(unknown))


def read_unnamed(*folders: Path) -> frozenset[str]:
    """Names of people who do not want to be named, from the file for that in each of these folders, where it exists.

    Raises:
        StorageError: a file cannot be read; nothing may be released without it.
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
            raise StorageError(
                f"{path}: cannot be read ({why}), and lists who is not to be named; correct it"
            ) from None
        names.update(map(as_listed, lines))
    return frozenset(names - {""})


def unknown_names(names: Iterable[str]) -> str:
    """A warning about names in that file that nobody in the run has, perhaps by a typing error."""
    return f"attention: {UNNAMED} has {', '.join(names)}, and nobody of that name has contributed; check the spelling"


def as_listed(written: str) -> str:
    """A name in the form in which names are compared; people write `@asha` or `Asha`."""
    return written.strip().removeprefix("@").removeprefix(UNVERIFIED).lower()
