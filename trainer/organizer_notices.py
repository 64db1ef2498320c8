"""What a trainer does about the notices that everybody gets: show what is new, and leave on a ban or the run's end."""

from swarm.access.gate import Gate
from swarm.identity import Identity
from swarm.language import _
from trainer.console.moments import best_line


class OrganizerNotices:
    """Reads the notices that have reached this peer."""

    def __init__(self, gate: Gate, identity: Identity):
        self._gate, self._peer_id = gate, str(identity.peer_id)
        self._announced, self._best = "", gate.notices.best  # a best checkpoint of before is no news
        self._is_doubted = False

    def new_lines(self) -> list[str]:
        """A line for each of what was not shown before: an announcement, a best checkpoint, the user's probation."""
        notices, lines = self._gate.notices, []
        if notices.announcement not in ("", self._announced):
            lines.append(_("From the organizer: {text}").format(text=notices.announcement))
        if notices.best is not None and notices.best != self._best:
            lines.append(best_line(notices.best))
        is_doubted = self._gate.own.user in notices.on_probation
        if is_doubted != self._is_doubted:
            lines.append(_probation_line(is_doubted))
        self._announced, self._best, self._is_doubted = notices.announcement, notices.best or self._best, is_doubted
        return lines

    def reason_to_leave(self) -> str | None:
        """Why this peer has to leave, if it has to."""
        notices = self._gate.notices
        if notices.stopped:
            return _("The organizer has ended the run.")
        if notices.bans(self._gate.own.user, self._peer_id):
            return _("The organizer has banned you from this run.")
        return None


def _probation_line(begins: bool) -> str:
    if not begins:
        return _("Your results count in full again.")
    return _(
        "For now your results are not used: they differ from the others' more than usual, or are unusually large. "
        "Training on a different text can cause this. You need to do nothing; the organizer sees the figures."
    )
