"""Who we say we are, and whether others are who they say."""

from hivemind.p2p import PeerID

from averaging.transport.frames import VERSION, FrameRefused, Hello
from averaging.transport.wire import is_session_of
from swarm.gate import Gate
from swarm.passes import PassRefused
from swarm.shut_out import is_shut_out


class Greeting:
    """Of one session. `gate` is None where everybody may take part."""

    def __init__(self, gate: Gate | None, run: str, session: str):
        self._gate, self._run, self.session = gate, run, session
        self._shown = self._own_pass()

    @property
    def hello(self) -> bytes:
        """Ours, with the newest pass."""
        return Hello(self._run, self.session, self._own_pass()).to_bytes()

    def is_renewed(self) -> bool:
        """Whether our pass is another one than at the last question."""
        before, self._shown = self._shown, self._own_pass()
        return self._shown != before

    def check(self, hello: Hello, peer_id: PeerID) -> None:
        """Raises FrameRefused or PassRefused if this is no session of that peer in this run."""
        if is_shut_out(peer_id):
            raise FrameRefused("it was refused too often")
        if (hello.version, hello.run) != (VERSION, self._run):
            theirs = f"version {hello.version} in run {hello.run!r:.80}"
            raise FrameRefused(f"it speaks {theirs}, we speak {VERSION} in {self._run}")
        if not is_session_of(hello.session, peer_id.to_base58()):
            raise FrameRefused(f"session {hello.session!r:.80} is not its own")
        if hello.session == self.session:
            raise FrameRefused("it is this session itself")
        self.admit(peer_id, hello.shown)

    def admit(self, peer_id: PeerID, shown: bytes) -> None:
        """Raises PassRefused if this pass is not good now."""
        if self._gate:
            self._gate.admit(peer_id, shown)

    def _own_pass(self) -> bytes:
        return self._gate.own.to_bytes() if self._gate else b""


REFUSALS = (ValueError, PassRefused)  # of what a peer sends
