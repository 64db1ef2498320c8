"""What all parts of a machine share: whose session it is, the facts of the run, and what is to be sent and done."""

from collections import deque

from averaging.protocol.actions import Action, Send
from averaging.protocol.credentials import Credentials
from averaging.protocol.messages import Bandwidth, Contact, Message
from averaging.protocol.settings import Settings


class Session:
    """One session of a peer. Keeps actions in their order, and messages to itself, until they are taken."""

    def __init__(self, me: Contact, settings: Settings, credentials: Credentials):
        self.me, self.settings, self.timeouts, self.credentials = me, settings, settings.timeouts, credentials
        self.bandwidth: Bandwidth | None = None  # of this peer, once it is measured; calls tell it
        self.connected: tuple[str, ...] = ()  # sessions, if this peer accepts no connections; calls tell them
        self.speed = 0.0  # samples a second that this peer computes, or would; calls tell it
        self.on_probation: frozenset[str] = frozenset()  # users, as the newest notices say; plans name those that call
        self._actions: list[Action] = []
        self.to_self: deque[Message] = deque()  # messages of this machine to itself
        self.is_closed = False  # nothing more goes in

    def close(self) -> None:
        """Say and do nothing any more; what is in it still goes out."""
        self.is_closed = True
        self.to_self.clear()

    def send(self, to: str, message: Message) -> None:
        """Send a message to a session, which may be this one."""
        if self.is_closed:
            return
        if to == self.me.session:
            self.to_self.append(message)
        else:
            self._actions.append(Send(to, message))

    def act(self, action: Action) -> None:
        """Have the process do something."""
        if not self.is_closed:
            self._actions.append(action)

    def take(self) -> list[Action]:
        """What the process has to do now, in this order."""
        actions, self._actions = self._actions, []
        return actions
