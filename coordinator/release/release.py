"""A release: which checkpoint is due, and what of it goes to the Hub, in one commit."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from coordinator.checkpoints.retention import TrainerState
from coordinator.evaluation.unigram import compared
from coordinator.notebook.build import FILE_NAME
from coordinator.release.curve import PNG, SVG
from coordinator.release.hub import Head, HubRepository, NotAllowed

CARD = "README.md"
NOT_ALWAYS = frozenset({FILE_NAME, PNG, SVG})  # files that one release has and the next may not


@dataclass(frozen=True)
class Release:
    """What goes to the Hub; `files` are by name in the repository. `tag` is a name for the commit, if it has one."""

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
        once: if this checkpoint is the newest release, only add tags; its card may say less than a newer one would.
        check: raises if a release of this state may not be changed; the commit fails where another came meanwhile.

    Raises:
        NotAllowed, ReleaseError: nobody sees anything of it; come again.
    """
    head = repository.head()
    check(head.state if head is not None else None)
    if once and head is not None and head.state == release.state:  # the answer to an earlier attempt was lost
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
    """Files of the release before that this one has no more, as the notebook of a run that is over."""
    if head is None or head.state is None:  # whatever is there, it is not ours
        return frozenset()
    return (head.files & NOT_ALWAYS) - release.files.keys()


def next_release(steps: Iterable[int], released: int, every: int, total: int) -> int | None:
    """Which of the checkpoints at these global steps is to be released now, if one is.

    It is the first one at or after the newest multiple of `every` that was reached; those of older multiples are left
    out, for the Hub was away when they were due. At the end of the run it is the last one.

    Args:
        released: the newest global step that was released, 0 if none was.
    """
    due = [step for step in steps if step > released and (step // every > released // every or step >= total)]
    if not due:
        return None
    newest = max(due)
    return newest if newest >= total else min(step for step in due if step // every == newest // every)


def tags_of(step: int, tagged: int, milestones: int | None, total: int) -> tuple[str, ...]:
    """The tags of a release, `tagged` being the step of the newest one before it (0: none)."""
    tags = []
    if milestones is not None and step // milestones > tagged // milestones:
        tags.append(f"step-{step}")
    if step >= total:
        tags.append("final")
    return tuple(tags)


def missing_tags(step: int, there: Collection[str], milestones: int | None, total: int) -> tuple[str, ...]:
    """The tags that the newest release lacks, for the coordinator was stopped between its commit and its tags.

    Args:
        step: of that release.
        there: all tags of the repository.
    """
    tagged = [int(found[1]) for tag in there if (found := re.fullmatch(r"step-(\d+)", tag))]
    before = max((one for one in tagged if one <= step), default=0)
    return tuple(tag for tag in tags_of(step, before, milestones, total) if tag not in there)


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
