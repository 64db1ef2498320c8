"""The other peers of a run: those that the DHT lists, and those that have said goodbye."""

from collections.abc import Iterable

from averaging.protocol.messages import Contact, Goodbye


class Contacts:
    """Of one peer. A session that has said goodbye never comes back, whatever the DHT lists."""

    def __init__(self, me: Contact):
        self.me = me
        self.others: dict[str, Contact] = {}  # by session
        self.goodbyes: dict[str, Goodbye] = {}  # by session

    def listed(self, contacts: Iterable[Contact]) -> None:
        """The peers that the DHT lists now."""
        self.others = {
            one.session: one for one in contacts if one.session != self.me.session and one.session not in self.goodbyes
        }

    def get(self, session: str) -> Contact | None:
        """This peer or another, as far as it is known."""
        return self.me if session == self.me.session else self.others.get(session)

    def has_left(self, goodbye: Goodbye) -> None:
        """A session has said goodbye."""
        self.goodbyes[goodbye.session] = goodbye
        self.others.pop(goodbye.session, None)
