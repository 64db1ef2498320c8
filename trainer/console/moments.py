"""The moments that a volunteer is told of once: milestones of their own, and a best checkpoint of the run."""

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING

from swarm import clock
from swarm.language import _
from swarm.milestones import Kind, Milestone, Standing, reached

if TYPE_CHECKING:  # its module takes seconds to import, and a wrong link should be reported at once
    from swarm.access.notices import BestCheckpoint


class Milestones:
    """Follows one person's standing: as the coordinator says it now and then, and by what this peer adds meanwhile.

    What other machines of the person add is known at the next word of the coordinator. `learn` may be called by another
    thread; without it nothing is told.
    """

    def __init__(self, now: Callable[[], float] = clock.now):
        self._now = now
        self._learned: Standing | None = None
        self._standing: Standing | None = None
        self._samples, self._time = 0, 0.0  # of this peer, when it was last asked

    def learn(self, standing: Standing | None) -> None:
        """What the coordinator says; None if it does not know."""
        if standing is not None:
            self._learned = standing

    def new_lines(self, samples: int) -> list[str]:
        """A line for each milestone since the last call.

        Args:
            samples: that this peer has contributed.
        """
        now, learned, before = self._now(), self._learned, self._standing
        more, hours = samples - self._samples, (now - self._time) / 3600
        self._learned, self._samples, self._time = None, samples, now
        if before is None:
            self._standing = learned
            return []
        today = datetime.datetime.fromtimestamp(now, datetime.timezone.utc).date()
        standing = before.after(more, max(0.0, hours), today, gave=more > 0)
        self._standing = standing if learned is None else standing.joined(learned)
        return [milestone_line(one) for one in reached(before, self._standing)]


def milestone_line(milestone: Milestone) -> str:
    """What is told of a milestone."""
    if milestone.kind is Kind.SAMPLES:
        told = _("That was your {n}th sample here. Thank you!")
    elif milestone.kind is Kind.HOURS:
        told = _("Your machines have given {n} hours to this run. Thank you!")
    else:
        told = _("Day {n} in a row here. Thank you!")
    return told.format(n=f"{milestone.number:,}")


def best_line(best: "BestCheckpoint") -> str:
    """What everybody is told of a checkpoint that is better than all before."""
    if best.below is None:
        told = _("Best checkpoint so far: global step {step}, loss {loss} on text kept out of training.")
    else:
        told = _(
            "Best checkpoint so far: global step {step}, loss {loss} on text kept out of training, {below} lower than "
            "guessing from word frequencies alone."
        )
    lines = [told.format(step=f"{best.step:,}", loss=f"{best.loss:.2f}", below=f"{best.below or 0.0:.2f}")]
    if best.sentence:
        lines.append(_("It fills in: {sentence}").format(sentence=best.sentence))
    return " ".join(lines)
