"""What a trainer does about the organizer's notices: show announcements, and leave on a ban or the end of the run."""

from swarm.access.gate import Gate
from swarm.identity import Identity
from swarm.language import _


class OrganizerNotices:
    """Reads the notices that have reached this peer."""

    def __init__(self, gate: Gate, identity: Identity):
        self._gate, self._peer_id = gate, str(identity.peer_id)
        self._announced = ""

    def new_announcements(self) -> list[str]:
        """A line for the announcement that was not shown before."""
        announced, before = self._gate.notices.announcement, self._announced
        self._announced = announced
        return [_("From the organizer: {text}").format(text=announced)] if announced not in ("", before) else []

    def reason_to_leave(self) -> str | None:
        """Why this peer has to leave, if it has to."""
        notices = self._gate.notices
        if notices.stopped:
            return _("The organizer has ended the run.")
        if notices.bans(self._gate.own.user, self._peer_id):
            return _("The organizer has excluded you from this run.")
        return None
