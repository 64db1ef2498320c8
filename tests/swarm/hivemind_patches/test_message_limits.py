"""What other peers send, as hivemind reads it."""

import asyncio

import pytest
from hivemind.p2p import P2P
from hivemind.utils import MSGPackSerializer

from swarm.hivemind_patches.message_limits import DEEPEST, LONGEST_MESSAGE, MessageRefused, limit_messages


def read(content: bytes) -> bytes:
    async def from_stream() -> bytes:
        reader = asyncio.StreamReader()
        reader.feed_data(content)
        reader.feed_eof()
        return await P2P.receive_raw_data(reader)

    limit_messages()
    return asyncio.run(from_stream())


def framed(length: int, content: bytes) -> bytes:
    return length.to_bytes(P2P.HEADER_LEN, P2P.BYTEORDER) + content


@pytest.mark.parametrize("content", [b"", b"hello", bytes(LONGEST_MESSAGE)], ids=["empty", "short", "longest"])
def test_messages_arrive_whole(content: bytes):
    assert read(framed(len(content), content)) == content


@pytest.mark.parametrize("length", [LONGEST_MESSAGE + 1, 2**40, 2**64 - 1])
def test_a_message_that_is_too_long_is_not_read(length: int):
    with pytest.raises(MessageRefused, match="bytes"):
        read(framed(length, b"the beginning"))


def test_a_message_that_breaks_off_is_none():
    with pytest.raises(asyncio.IncompleteReadError):
        read(framed(10, b"short"))


def nested(layers: int) -> bytes:
    content: tuple[object, ...] = ()
    for _ in range(layers - 1):
        content = (content,)
    return MSGPackSerializer.dumps(content)


@pytest.mark.parametrize("layers", [1, 3, DEEPEST])
def test_tuples_in_tuples_arrive_as_they_were(layers: int):
    limit_messages()
    assert MSGPackSerializer.dumps(MSGPackSerializer.loads(nested(layers))) == nested(layers)


def test_a_message_that_is_too_deep_is_refused_and_no_crash():
    limit_messages()
    deep = nested(DEEPEST + 1)
    for _ in range(500):  # a tuple of one: an extension with length and type, and a list in it
        deep = b"\xc9" + (1 + len(deep)).to_bytes(4, "big") + b"\x40\x91" + deep
    for message in (nested(DEEPEST + 1), deep):
        with pytest.raises(MessageRefused, match="layers"):
            MSGPackSerializer.loads(message)
    assert MSGPackSerializer.loads(nested(DEEPEST))  # what was refused leaves nothing behind
