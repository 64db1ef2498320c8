"""When checkpoints are released, and with which tags."""

import re
from collections.abc import Collection, Iterable


def next_release(steps: Iterable[int], released: int, every: int, total: int) -> int | None:
    """Which of the checkpoints at these global steps is to be released now, if one is.

    It is the first one at or after the newest multiple of `every` that was reached. Older multiples are left out: they
    were due while the Hub could not be reached. At the end of the run it is the last checkpoint.

    Args:
        released: the newest global step that was released, 0 if none was.
    """
    due = [step for step in steps if step > released and (step // every > released // every or step >= total)]
    if not due:
        return None
    newest = max(due)
    return newest if newest >= total else min(step for step in due if step // every == newest // every)


def tags_of(step: int, tagged: int, milestones: int | None, total: int) -> tuple[str, ...]:
    """The tags of the release of a global step; `tagged` is the step of the newest release before it, 0 if none."""
    tags = []
    if milestones is not None and step // milestones > tagged // milestones:
        tags.append(f"step-{step}")
    if step >= total:
        tags.append("final")
    return tuple(tags)


def missing_tags(step: int, there: Collection[str], milestones: int | None, total: int) -> tuple[str, ...]:
    """The tags that the newest release lacks because the coordinator was stopped between its commit and its tags.

    Args:
        step: of that release.
        there: all tags of the repository.
    """
    tagged = [int(found[1]) for tag in there if (found := re.fullmatch(r"step-(\d+)", tag))]
    before = max((one for one in tagged if one <= step), default=0)
    return tuple(tag for tag in tags_of(step, before, milestones, total) if tag not in there)
