"""What the organizer tells everybody while they train: announcements, a ban, the end of the run."""

from swarm.access.gate import Gate
from swarm.identity import Identity


class Organizer:
    """The organizer's voice in one peer; silent in a run that gives no passes."""

    def __init__(self, gate: Gate | None, identity: Identity):
        self._gate, self._peer_id = gate, str(identity.peer_id)
        self._announced = ""

    def news(self) -> list[str]:
        """What was not told before."""
        if self._gate is None:
            return []
        announced, before = self._gate.notices.announcement, self._announced
        self._announced = announced
        return [f"From the organizer: {announced}"] if announced not in ("", before) else []

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
