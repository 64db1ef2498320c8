"""A release, and how it becomes one commit of a repository on the Hub."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from coordinator.checkpoints.checkpoint import TrainerState
from coordinator.ledger.answers import compared
from coordinator.notebook.build import FILE_NAME
from coordinator.release.curve import PNG
from coordinator.release.hub import Head, HubRepository, NotAllowed
from experts.file_names import EXPERTS

CARD = "README.md"
OPTIONAL = frozenset({EXPERTS, FILE_NAME, PNG})  # files that one release has and the next may lack


@dataclass(frozen=True)
class Release:
    """What is uploaded: `files` by their names in the repository, and what the commit says."""

    state: TrainerState
    files: Mapping[str, Path | bytes]
    message: str
    description: str
    tags: tuple[str, ...] = ()

    def size(self, name: str) -> int:
        """Bytes of a file."""
        content = self.files[name]
        return len(content) if isinstance(content, bytes) else content.stat().st_size


def message(state: TrainerState) -> str:
    """The title of the commit: the global step and the held-out loss."""
    loss = "not evaluated" if state.eval_loss is None else f"held-out loss {state.eval_loss:.3f}"
    return f"Global step {state.step:,}: {loss}{compared(state.below_unigram)}"


def publish(
    repository: HubRepository,
    release: Release,
    goes_on: Callable[[], bool] = lambda: True,
    *,
    once: bool = True,
    check: Callable[[TrainerState | None], None] = lambda state: None,
) -> str:
    """Write a release as one commit, with its tags; returns the commit.

    What is at the Hub already is not sent again.

    Args:
        goes_on: called before each large file; if it returns False, the upload stops.
        once: if this checkpoint is the newest release already, only add tags.
        check: called with the state of the newest release; raises if that must not be replaced.

    Raises:
        NotAllowed, ReleaseError: nothing of it is visible; it can be tried again.
    """
    head = repository.head()
    check(head.state if head is not None else None)
    if once and head is not None and head.state == release.state:  # the response to an earlier attempt was lost
        commit = head.commit
    else:
        card = release.files[CARD]
        assert isinstance(card, bytes), "the card was made here"
        repository.check_card(card.decode())  # before hours of sending
        sent = repository.send(release.files, goes_on)
        commit = repository.commit(
            sent,
            release.message,
            release.description,
            after=head.commit if head is not None else None,
            without=stale(head, release),
        )
    for tag in release.tags:
        repository.tag(tag, commit)
    return commit


def stale(head: Head | None, release: Release) -> frozenset[str]:
    """Files of the last release that this one lacks, such as the notebook of a finished run."""
    if head is None or head.state is None:  # the files are not of a release
        return frozenset()
    return (head.files & OPTIONAL) - release.files.keys()


def check_owner(name: str, state: TrainerState | None, run: str, fingerprint: str) -> None:
    """Refuse a repository in which another run has its releases.

    Args:
        state: of the release in it, if there is one.

    Raises:
        NotAllowed: it is another run's.
    """
    if state is not None and (state.run, state.fingerprint) != (run, fingerprint):
        other = f"run {state.run}" if state.run != run else "a run of this name with other settings"
        raise NotAllowed(f"{name} holds a release of {other}; choose another release.repo in the run file")
