"""Headers of groups on their way into the ledger: a convener sends them until the coordinator has them on its disk."""

from collections.abc import Iterable
from typing import Any

from averaging.log.header import Entry, Header, HeaderKind, Member
from averaging.moshpit.group_round import is_first, step_of
from averaging.protocol.actions import Credit
from averaging.protocol.commit.objections import listing_objection
from averaging.protocol.contacts import Contacts
from averaging.protocol.messages import Commit, Vote
from averaging.protocol.session import Session

MOST = 1000  # headers that wait for a coordinator
AGAIN = 10.0  # seconds until they are sent once more


class Crediting:
    """Sends headers of the groups that this peer convened; at the coordinator, takes them in."""

    def __init__(self, session: Session, contacts: Contacts):
        self._session, self._contacts, self._settings = session, contacts, session.settings
        self._waiting: dict[str, Entry] = {}  # by digest
        self._told_at = -1e9
        self._is_on_disk: dict[str, bool] = {}  # of a coordinator, by digest, the newest last

    def add(self, entry: Entry) -> None:
        """This peer has convened the first round of a group."""
        self._waiting[entry.header.digest] = entry
        _keep_newest(self._waiting)
        self.tell()

    def tell(self) -> None:
        """Send what the coordinator may not have, to the coordinator that there is now."""
        others = [session for session, contact in self._contacts.others.items() if contact.is_coordinator]
        for coordinator in [self._session.me.session] if self._session.me.is_coordinator else others:
            for entry in self._waiting.values():
                gone = self._contacts.of_those_gone(one.session for one in entry.header.members)
                self._session.send(coordinator, Commit(entry, gone))

    def tick(self, now: float) -> None:
        """Send again what waits: the coordinator was away, or the run is over and this peer convenes no more."""
        if self._waiting and now >= self._told_at + AGAIN:
            self._told_at = now
            self.tell()

    def on_commit(self, sender: str, commit: Commit) -> None:
        """A group has averaged; for the coordinator, which believes the convener but for who the members are."""
        header = commit.entry.header
        if not (self._session.me.is_coordinator and sender == header.ballot.convener and self._is_possible(header)):
            return
        self._contacts.learn_of(commit)
        if not all(map(self._is_who_it_says, header.members)):
            return
        if header.digest not in self._is_on_disk:
            self._is_on_disk[header.digest] = False
            _keep_newest(self._is_on_disk)
            self._session.act(Credit((commit.entry,)))
        elif self._is_on_disk[header.digest]:
            self._answer(header)

    def credited(self, entries: Iterable[Entry]) -> None:
        """The process has done a `Credit`: these headers are on the disk."""
        for entry in entries:
            self._is_on_disk[entry.header.digest] = True
            self._answer(entry.header)

    def _answer(self, header: Header) -> None:
        self._session.send(header.ballot.convener, Vote(header.ballot, header.digest))

    def _is_possible(self, header: Header) -> bool:
        """Whether this can be of the first round of a group; what it says of its members is its convener's word."""
        settings, number = self._settings, header.ballot.number
        return (
            header.kind is HeaderKind.GROUP
            and header.run == settings.run
            and is_first(number)
            and header.step == step_of(number) + 1 <= settings.last_step
            and not listing_objection(header.members)
            and all(settings.may_bring(one.samples, one.weight) for one in header.members)
            and all(part.chunks and not part.loud for part in header.parts)
        )

    def _is_who_it_says(self, member: Member) -> bool:
        contact = self._contacts.get(member.session)
        return contact is not None and contact.user == member.user

    def on_vote(self, sender: str, vote: Vote, now: float) -> None:
        """The coordinator has a header."""
        if self._contacts.is_coordinator(sender):
            self._waiting.pop(vote.digest, None)


def _keep_newest(known: dict[str, Any]) -> None:
    for digest in list(known)[:-MOST]:
        del known[digest]
