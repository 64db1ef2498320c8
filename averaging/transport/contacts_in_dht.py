"""The list of peers: each session stores its contact in the DHT, and reads those of others.

Some five peers hold the list, and send all of it, 2.7 KB a session, to each that looks. So a peer looks the more rarely
the more there are: among eight each holder sends 6 KB a second. For a session that calls, a peer looks at once.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable

from hivemind.dht import DHT
from hivemind.p2p import PeerID
from hivemind.utils import get_logger

from averaging.protocol.messages import Contact
from averaging.transport.calling_out import Whereabouts, checked
from averaging.transport.pass_credentials import is_admitted
from averaging.transport.wire_format import is_session_of
from swarm import clock
from swarm.access.gate import Gate
from swarm.access.passes import PassRefused
from swarm.access.user_names import COORDINATOR
from swarm.dht.records import CONTACT_LIFETIME, ContactRecord, read_contacts, store_contact
from swarm.identity import Identity
from swarm.tasks import within

logger = get_logger(__name__)

TELL_EVERY = 10.0  # seconds
LOOK_EVERY = 5.0  # at most as often as that
SPARING = 0.6  # seconds between two looks, for each pair of a session that looks and one that is listed
LONGEST = CONTACT_LIFETIME / 2  # between two looks: a session that one of them misses stays listed
LOOK_AGAIN = 1.0  # between two looks for sessions that have connected
SOUGHT = 30.0  # for which a session that has connected is looked for


class Listing:
    """The sessions of a run. One that a look at the DHT has missed is listed until its record expires.

    Args:
        gate: knows who may take part, and under which name.
        own: our session, which is not listed.
    """

    def __init__(self, gate: Gate, own: str):
        self._gate, self._own = gate, own
        self._newest: dict[str, tuple[PeerID, ContactRecord, float]] = {}  # by peer: it has one session at a time

    def take(self, found: Iterable[tuple[PeerID, ContactRecord, float]]) -> None:
        """Take in records, with their signers and when they expire; of each peer the newest counts."""
        for peer_id, record, expires in found:
            peer = peer_id.to_base58()
            known = self._newest.get(peer)
            if is_session_of(record.session, peer) and (known is None or expires > known[2]):
                self._newest[peer] = peer_id, record, expires

    def contacts(self, now: float) -> dict[str, Contact]:
        """Those who are there, by session."""
        self._newest = {peer: one for peer, one in self._newest.items() if one[2] > now}
        contacts = [self._contact(peer_id, record) for peer_id, record, _ in self._newest.values() if not record.left]
        return {one.session: one for one in contacts if one is not None and one.session != self._own}

    @property
    def whereabouts(self) -> dict[str, Whereabouts]:
        """By session, of those that are behind a router, as of the last look."""
        records = [record for _, record, _ in self._newest.values() if not record.reachable]
        return {one.session: checked(one.seen, one.home) for one in records}

    def _contact(self, peer_id: PeerID, record: ContactRecord) -> Contact | None:
        try:
            user = self._gate.admit(peer_id, record.shown_pass).user
        except PassRefused as error:
            logger.debug(f"{record.session} is not listed: {error}")
            return None
        is_coordinator = record.is_coordinator and user == COORDINATOR
        contact = Contact(record.session, user, record.reachable, is_coordinator, record.proof)
        if not is_admitted(contact, self._gate.authority, self._gate.run_name):
            logger.debug(f"{record.session} is not listed: others would not believe that it is {user}'s")
            return None
        return contact


class Discovery:
    """Tells others of our session, and us of theirs."""

    def __init__(self, dht: DHT, run_name: str, identity: Identity, me: Contact, gate: Gate):
        self._dht, self._run_name, self._identity, self._me, self._gate = dht, run_name, identity, me, gate
        self.listing = Listing(gate, me.session)
        self.listed: dict[str, Contact] = {}  # by session, as of the last look
        self._news = 0  # sessions that the last look has added
        self._own = Whereabouts()
        self._is_called = asyncio.Event()  # by a session that is not listed
        self._sought: dict[str, float] = {}  # such sessions, and until when they are looked for

    async def keep(self, heard: Callable[[dict[str, Contact]], object]) -> None:
        """Go on for ever, and call back with all contacts every few seconds; its errors are raised."""
        told_at, told, looked_at = float("-inf"), self._own, float("-inf")
        while True:
            self._is_called.clear()
            try:
                if clock.now() >= told_at + TELL_EVERY or told != self._own:
                    telling = self._own
                    await self.tell()
                    told_at, told = clock.now(), telling
            except Exception as error:  # no peer is there, or the DHT is slow: the next attempt will tell
                logger.debug(f"telling of our contact in the DHT: {error!r}")
            self._sought = {one: until for one, until in self._sought.items() if clock.now() < until}
            if self._sought.keys() - self.listed.keys() or clock.now() >= looked_at + self._pause:
                try:
                    before, self.listed, looked_at = self.listed.keys(), await self.look(), clock.now()
                    self._news = len(self.listed.keys() - before)
                except Exception as error:
                    logger.debug(f"looking for contacts in the DHT: {error!r}")
            if looked_at > float("-inf"):
                heard(self.listed)
            await asyncio.sleep(LOOK_AGAIN)
            with contextlib.suppress(asyncio.TimeoutError):
                async with within(LOOK_EVERY - LOOK_AGAIN):
                    await self._is_called.wait()

    @property
    def _pause(self) -> float:
        """Seconds between two looks. While a tenth of the list is new, as after a coordinator's restart, it grows."""
        return 0.0 if 10 * self._news > len(self.listed) else min(LONGEST, SPARING * len(self.listed) ** 2)

    def connected(self, session: str) -> None:
        """A session has opened a stream: if it is not listed, look for it soon, and again until it is."""
        if session not in self.listed:
            self._sought[session] = clock.now() + SOUGHT
            self._is_called.set()

    def is_at(self, own: Whereabouts) -> None:
        """Tell others soon, if this peer is elsewhere than they were told."""
        if own != self._own:
            self._own = own
            self._is_called.set()

    async def tell(self) -> bool:
        """Have our session listed for the next while; whether that could be stored."""
        return await asyncio.to_thread(store_contact, self._dht, self._run_name, self._identity, self._record())

    async def look(self) -> dict[str, Contact]:
        """The others, by session."""
        self.listing.take(await asyncio.to_thread(read_contacts, self._dht, self._run_name))
        return self.listing.contacts(clock.now())

    async def withdraw(self, timeout: float = 2.0) -> None:
        """Have our session listed no longer, if that can be done in so many seconds. Before another session is told."""
        try:
            gone = self._record(left=True)
            await asyncio.to_thread(store_contact, self._dht, self._run_name, self._identity, gone, timeout)
        except Exception as error:  # leaving does not fail because nobody is there to hear it
            logger.debug(f"the contact record was not withdrawn: {error!r}")

    def _record(self, left: bool = False) -> ContactRecord:
        return ContactRecord(
            session=self._me.session,
            shown_pass=self._gate.own.to_bytes(),
            reachable=self._me.reachable,
            is_coordinator=self._me.is_coordinator,
            left=left,
            proof=self._me.proof,
            seen=list(self._own.seen),
            home=list(self._own.home),
        )
