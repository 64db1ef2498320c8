"""Headers of groups on their way into the ledger: a convener sends them until the coordinator says that it has them."""

from collections.abc import Callable

from averaging.log.header import Entry, Header, Kind, Member
from averaging.moshpit.group_round import is_first, step_of
from averaging.protocol.actions import Action, Credit
from averaging.protocol.contacts import Contacts
from averaging.protocol.messages import Commit, Message, Vote
from averaging.protocol.settings import Settings

MOST = 1000  # headers that wait for a coordinator
AGAIN = 10.0  # seconds until they are sent once more


class Crediting:
    """Of one peer; of the coordinator, too."""

    def __init__(
        self,
        contacts: Contacts,
        settings: Settings,
        is_guarded: bool,
        send: Callable[[str, Message], None],
        act: Callable[[Action], None],
    ):
        self._contacts, self._settings, self._is_guarded, self._send, self._act = (
            contacts,
            settings,
            is_guarded,
            send,
            act,
        )
        self._waiting: dict[str, Entry] = {}  # by digest
        self._told_at = -1e9
        self._credited: dict[str, None] = {}  # digests, the newest last

    def add(self, entry: Entry) -> None:
        """This peer has convened the first round of a group."""
        self._waiting[entry.header.digest] = entry
        for digest in list(self._waiting)[:-MOST]:
            del self._waiting[digest]
        self.tell()

    def tell(self) -> None:
        """Send what the coordinator may not have, to the coordinator that there is now."""
        others = [session for session, contact in self._contacts.others.items() if contact.is_coordinator]
        for coordinator in [self._contacts.me.session] if self._contacts.me.is_coordinator else others:
            for entry in self._waiting.values():
                self._send(coordinator, Commit(entry))

    def tick(self, now: float) -> None:
        """Send again what waits: the coordinator was away, or the run is over and this peer convenes no more."""
        if self._waiting and now >= self._told_at + AGAIN:
            self._told_at = now
            self.tell()

    def on_commit(self, sender: str, entry: Entry) -> None:
        """A group has averaged; for the coordinator, which believes the convener but for who the members are."""
        header, me = entry.header, self._contacts.me
        is_its = sender == header.ballot.convener and all(map(self._is_who_it_says, header.members))
        if me.is_coordinator and is_its and self._is_possible(header):
            if header.digest not in self._credited:
                self._act(Credit((entry,)))
            self._credited[header.digest] = None
            for digest in list(self._credited)[:-MOST]:
                del self._credited[digest]
            self._send(sender, Vote("", header.ballot, header.digest))

    def _is_possible(self, header: Header) -> bool:
        """Whether this can be of the first round of a group; what it says of its members is its convener's word."""
        settings, number = self._settings, header.ballot.number
        sessions = [one.session for one in header.members]
        return (
            header.kind is Kind.GROUP
            and header.run == settings.run
            and is_first(number)
            and header.step == step_of(number) + 1 <= settings.last_step
            and sessions == sorted(set(sessions))
            and all(settings.may_bring(one.samples, one.weight) for one in header.members)
        )

    def _is_who_it_says(self, member: Member) -> bool:
        contact = self._contacts.get(member.session)
        return contact.user == member.user if contact is not None else not self._is_guarded

    def on_vote(self, sender: str, vote: Vote) -> None:
        """The coordinator has a header."""
        if (contact := self._contacts.get(sender)) is not None and contact.is_coordinator:
            self._waiting.pop(vote.digest, None)
