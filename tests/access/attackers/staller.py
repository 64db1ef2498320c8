"""`sahaj join` of a changed program, which takes parts to reduce and never says a word of them."""

from averaging.protocol.messages import Chunk, Message, Reduced, Reducing
from averaging.transport.streams import Payload, Transport
from tests.support.small_swarm import run_closely


def run_stalling(arguments: list[str]) -> None:
    """Be such a trainer."""
    send = Transport.send

    def keeps_back(self: Transport, to: str, message: Message, payload: Payload = None) -> None:
        if not isinstance(message, Reduced | Reducing | Chunk):
            send(self, to, message, payload)

    Transport.send = keeps_back  # type: ignore[method-assign]
    run_closely(arguments)
