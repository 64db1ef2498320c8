"""How one peer is connected to the others of a run: its sessions, one after the other, and their streams."""

import asyncio
import secrets
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from hivemind.dht import DHT

from averaging.bandwidth import NO_CAPS, Caps, OwnLine
from averaging.protocol.credentials import Credentials
from averaging.protocol.messages import Contact, Message
from averaging.shell.shell import Shell
from averaging.transport.contacts_in_dht import Discovery
from averaging.transport.hole_punching import HolePuncher
from averaging.transport.loop import join_daemon
from averaging.transport.pass_credentials import PassCredentials
from averaging.transport.stream import Payload
from averaging.transport.streams import Transport
from swarm.access.gate import Gate
from swarm.access.passes import Authority
from swarm.identity import Identity
from swarm.run_file import RunFile
from swarm.tasks import Tasks

LOOK_EVERY = 0.25  # seconds between two looks at the streams: which have broken or carry something, and how much
GOODBYE = 3.0  # seconds for the last words


@dataclass(frozen=True)
class Membership:
    """Who a peer is in a run.

    Args:
        folder: of the log, which a coordinator needs; others keep what they hold in memory if there is none.
        authority: of the run; only the coordinator has it.
        caps: what the volunteer lets the run take of the line.
    """

    run: RunFile
    fingerprint: str
    dht: DHT
    identity: Identity
    gate: Gate
    folder: Path | None = None
    authority: Authority | None = None
    caps: Caps = NO_CAPS

    @cached_property
    def credentials(self) -> Credentials:
        """What this peer signs and checks with."""
        return PassCredentials(self.identity, self.gate, self.authority)

    def new_contact(self) -> Contact:
        """Of a new session."""
        session = f"{self.dht.peer_id.to_base58()}.{secrets.token_hex(4)}"
        contact = Contact(session, self.gate.own.user, not self.dht.client_mode, self.authority is not None)
        return self.credentials.introduced(contact)


class Connection:
    """The sessions of a peer, one after the other: streams to the others, and the list of who they are."""

    def __init__(self, membership: Membership):
        self._membership = membership
        self.sessions: list[str] = []  # one after the other
        self._line = OwnLine(membership.caps)
        self._transport: Transport | None = None
        self._session = ""
        self._discovery: Discovery | None = None
        self._tasks = Tasks()
        self._changing = asyncio.Lock()

    @property
    def traffic(self) -> int:
        """Bytes that all sessions have carried."""
        return self._line.traffic

    async def open(self, me: Contact, shell: Shell) -> None:
        """Begin a session, and end the one before it."""
        self.sessions.append(me.session)
        async with self._changing:
            await self._close()
            one = self._membership
            self._p2p = await join_daemon(one.dht)
            self._session, received = me.session, partial(shell.received, me.session)
            transport = Transport(self._p2p, one.gate, one.fingerprint, me.session, received, line=self._line)
            self._transport = transport
            await transport.start()
            self._discovery = discovery = Discovery(one.dht, one.run.name, one.identity, me, one.gate)
            keeping = discovery.keep(lambda found: shell.contacts(found.values(), one.gate.notices.on_probation))
            self._tasks = Tasks(shell.fail)
            self._tasks.begin(keeping)
            self._tasks.begin(self._watch(transport, discovery, shell))
            if not me.reachable:
                self._tasks.begin(HolePuncher(self._p2p, transport, discovery, shell.connected).run())

    def renew(self, shell: Shell) -> Contact:
        """Have another session begin; returns its contact."""
        me = self._membership.new_contact()
        shell.tasks.begin(self.open(me, shell))
        return me

    def send(self, session: str, to: str, message: Message, payload: Payload = None) -> None:
        """Send a message some time soon, or never; never if it is of another session than the open one."""
        if self._transport is not None and session == self._session:
            self._transport.send(to, message, payload)

    async def leave(self) -> None:
        """Wait until the last words are heard, and end the session."""
        if self._transport is not None:
            await self._transport.flush(GOODBYE)
        async with self._changing:
            await self._tasks.cancel()  # first, or one of them could have the session listed again
            if self._discovery is not None:
                await self._discovery.withdraw()
            await self._close()

    async def _watch(self, transport: Transport, discovery: Discovery, shell: Shell) -> None:
        before: dict[str, int] = {}
        while True:
            now = transport.received
            for session in before.keys() - now.keys():
                shell.lost(session)
            for session in now.keys() - before.keys():
                discovery.connected(session)
            shell.moving([session for session, received in now.items() if received != before.get(session, 0)])
            before = now
            bandwidth = self._line.bandwidth()
            if bandwidth is not None:
                shell.measured(bandwidth)
            await asyncio.sleep(LOOK_EVERY)

    async def _close(self) -> None:
        await self._tasks.cancel()
        if self._transport is not None:
            await self._transport.stop()
            await self._p2p.shutdown()
        self._transport, self._discovery = None, None
