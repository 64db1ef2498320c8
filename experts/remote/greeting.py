"""The first message of a stream in each direction: the same version, run and settings, and a good pass."""

from hivemind.p2p import PeerID

from experts.host.settings import ExpertSettings
from experts.remote.wire import VERSION, Hello
from swarm.access.gate import Gate
from swarm.access.refusals import is_blocked

HANDLE = "sahaj.experts"  # of the streams


class Greeting:
    """Makes our hello, and checks those of others."""

    def __init__(self, gate: Gate, run: str, settings: ExpertSettings):
        self._gate, self._run, self._settings = gate, run, settings.fingerprint

    @property
    def hello(self) -> Hello:
        """Ours, with the newest pass."""
        return Hello(VERSION, self._run, self._settings, self._gate.own.to_bytes())

    def check(self, hello: Hello, peer_id: PeerID) -> str:
        """The user behind a peer.

        Raises:
            ValueError: it is of another run, or was refused too often.
            PassRefused: its pass is not good.
        """
        if is_blocked(peer_id):
            raise ValueError("it was refused too often")
        if (hello.version, hello.run, hello.settings) != (VERSION, self._run, self._settings):
            theirs = f"version {hello.version} in run {hello.run!r:.80} with experts {hello.settings!r:.20}"
            raise ValueError(f"it speaks {theirs}; we: {VERSION}, {self._run!r}, {self._settings}")
        return self.user(peer_id, hello.shown)

    def user(self, peer_id: PeerID, shown: bytes) -> str:
        """The user to whom a pass was given.

        Raises:
            PassRefused: it is not good, or not any longer.
        """
        return self._gate.admit(peer_id, shown).user
