"""A session with a real pass that is listed and connected as all members are, and says what it likes."""

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from hivemind.utils import MSGPackSerializer, get_dht_time

from averaging.protocol.messages import Chunk, Contact, Log, Message, WantLog
from averaging.transport.pass_credentials import PassCredentials
from averaging.transport.streams import Transport
from swarm.access.passes import read_pass
from swarm.dht.records import ContactRecord
from swarm.hivemind_patches.dht_protocol import PassProtocol
from tests.access.attackers.credentials import Credentials, Raw, Scene, sealed
from tests.access.attackers.intruder import Intruder, say
from tests.access.attackers.reading import records_of
from tests.support.waiting import PATIENCE

LISTED_EVERY = 5.0  # seconds
SPEAKS_EVERY = 0.5


class Member:
    """Its answers go to the peer that has said something; all that it was told is in `heard`."""

    def __init__(self, intruder: Intruder, own: Credentials, protocol: PassProtocol):
        self.intruder, self.own, self._protocol = intruder, own, protocol
        self.session = f"{intruder.identity.peer_id}.{secrets.token_hex(4)}"
        gate: Any = SimpleNamespace(own=Raw(own.shown), admit=lambda peer, shown: SimpleNamespace(user=""))
        self.credentials = PassCredentials(intruder.identity, gate)
        self.contact = self.credentials.introduced(Contact(self.session, read_pass(own.shown).user, reachable=True))
        self.transport = Transport(intruder.p2p, gate, intruder.scene.fingerprint, self.session, self._hears)
        self.answers: Callable[[str, Message], Iterable[Message]] = lambda sender, message: ()
        self.heard: list[tuple[str, Message]] = []
        self._listed_at = float("-inf")

    @classmethod
    async def enter(cls, scene: Scene, name: str) -> "Member":
        """Join at the door, and listen."""
        intruder = await Intruder.create(scene, name)
        own = intruder.enter(name)
        member = cls(intruder, own, await intruder.dht(own))
        await member.transport.start()
        return member

    def _hears(self, sender: str, message: Message, payload: bytes | None) -> None:
        self.heard.append((sender, message))
        for answer in self.answers(sender, message):
            self.tell(sender, answer)

    def tell(self, session: str, message: Message) -> None:
        """Send a message; chunks are junk."""
        self.transport.send(session, message, (lambda: b"junk") if isinstance(message, Chunk) else None)

    async def others(self) -> list[Contact]:
        """The sessions that the DHT lists, but for ours."""
        records = await records_of(self.intruder, self._protocol, "contacts")
        values = [MSGPackSerializer.loads(record.value.partition(b"[author:")[0]) for record in records]
        return [
            Contact(
                one["session"], read_pass(one["shown_pass"]).user, one["reachable"], one["is_coordinator"], one["proof"]
            )
            for one in values
            if one["session"] != self.session
        ]

    async def be_listed(self) -> None:
        """As members are."""
        if time.monotonic() < self._listed_at + LISTED_EVERY:
            return
        self._listed_at = time.monotonic()
        me = self.contact
        record = ContactRecord(
            session=self.session,
            shown_pass=self.own.shown,
            reachable=me.reachable,
            is_coordinator=False,
            left=False,
            proof=me.proof,
        )
        sealed_record = sealed(
            self.intruder.scene, self.own, "contacts", self.own.identity.subkey, record.dict(), get_dht_time() + 30
        )
        for peer in self.intruder.targets:
            await self.intruder.store(self._protocol, peer, sealed_record)

    async def log(self) -> Log:
        """The run's log, as a newcomer is told it."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            for _, message in self.heard:
                if isinstance(message, Log) and message.snapshot is not None:
                    return message
            for one in await self.others():
                self.tell(one.session, WantLog(None))
            await asyncio.sleep(SPEAKS_EVERY)
        raise AssertionError("no peer has told its log")

    async def lie(self, seconds: float, says: Callable[[list[Contact]], Iterable[tuple[str, Message]]]) -> None:
        """Be there for so long, and say to whom what `says` wants, twice a second; tell the test of the beginning."""
        until = time.monotonic() + seconds
        others: list[Contact] = []
        has_begun = False
        while time.monotonic() < until:
            await self.be_listed()
            others = await self.others() or others
            for session, message in says(others):
                self.tell(session, message)
            if others and not has_begun:
                has_begun = True
                say({"began": True})
            await asyncio.sleep(SPEAKS_EVERY)
