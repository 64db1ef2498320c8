"""What a trainer does about the notices that everybody gets: show what is new, and leave on a ban or the run's end."""

from swarm.access.gate import Gate
from swarm.identity import Identity
from trainer.console.moments import best_line


class OrganizerNotices:
    """Reads the notices that have reached this peer."""

    def __init__(self, gate: Gate, identity: Identity):
        self._gate, self._peer_id = gate, str(identity.peer_id)
        self._announced, self._best = "", gate.notices.best  # a best checkpoint of before is no news

    def new_lines(self) -> list[str]:
        """A line for an announcement, and one for a best checkpoint, that were not shown before."""
        notices, lines = self._gate.notices, []
        if notices.announcement not in ("", self._announced):
            lines.append(f"From the organizer: {notices.announcement}")
        if notices.best is not None and notices.best != self._best:
            lines.append(best_line(notices.best))
        self._announced, self._best = notices.announcement, notices.best or self._best
        return lines

    def reason_to_leave(self) -> str | None:
        """Why this peer has to leave, if it has to."""
        notices = self._gate.notices
        if notices.stopped:
            return "The organizer has ended the run."
        if notices.bans(self._gate.own.user, self._peer_id):
            return "The organizer has excluded you from this run."
        return None
