"""What the organizer tells everybody while they train: announcements, a ban, the end of the run."""

from swarm.gate import Gate
from swarm.identity import Identity


class Organizer:
    """The organizer's voice in one peer; silent in a run that gives no passes."""

    def __init__(self, gate: Gate | None, identity: Identity):
        self._gate, self._peer_id = gate, str(identity.peer_id)
        self._announced = ""
        self._restored_at = gate.notices.restored_at if gate else 0  # no news for a newcomer

    def news(self) -> list[str]:
        """What was not told before."""
        if self._gate is None:
            return []
        notices, told = self._gate.notices, []
        if notices.restored_at > self._restored_at:
            self._restored_at = notices.restored_at
            told.append(f"The swarm goes back to an older state of the model, as global step {notices.restored_at:,}.")
        if notices.announcement != self._announced:
            self._announced = notices.announcement
            told += [f"From the organizer: {self._announced}"] if self._announced else []
        return told

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
