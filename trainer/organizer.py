"""What the organizer tells everybody while they train: announcements, a ban, the end of the run."""

from swarm.gate import Gate
from swarm.identity import Identity


class Organizer:
    """The organizer's voice in one peer; silent in a run that gives no passes."""

    def __init__(self, gate: Gate | None, identity: Identity):
        self._gate, self._peer_id = gate, str(identity.peer_id)
        self._announced = ""

    def news(self) -> list[str]:
        """Announcements that were not read before."""
        text = self._gate.notices.announcement if self._gate else ""
        if text == self._announced:
            return []
        self._announced = text
        return [f"From the organizer: {text}"] if text else []

    def ending(self) -> str | None:
        """Why this peer has to leave, if it has to."""
        if self._gate is None:
            return None
        notices = self._gate.notices
        if notices.stopped:
            return "The organizer has ended the run."
        if notices.bans(self._gate.own.user, self._peer_id):
            return "The organizer has excluded you from this run."
        return None
