"""Messages of other peers are limited in length and depth, before their pass is checked.

Upstream reserves as many bytes as a stream's header announces: a peer that announces 2^40 bytes and goes on sending
fills the memory. And it unpacks nested tuples by recursion: a kilobyte of them overflows a thread's stack, and the
process ends without a word.
"""

import asyncio
import threading
from typing import Any

from hivemind.p2p import P2P
from hivemind.utils import MSGPackSerializer

from swarm.access.refusals import count_refusal

LONGEST_MESSAGE = 8 * 2**20  # bytes; parts of a mean and of a state are a tenth of it
DEEPEST = 8  # tuples, and other things that are packed on their own, within each other; ours go three deep


class MessageRefused(ValueError):
    """A peer sent a message that is longer or deeper than any of ours."""


def limit_messages() -> None:
    """For this process and those that it forks."""
    P2P.receive_raw_data = staticmethod(receive_raw_data)
    MSGPackSerializer._decode_ext_types = classmethod(_decode_ext_types)


async def receive_raw_data(reader: asyncio.StreamReader) -> bytes:
    """As upstream.

    Raises:
        MessageRefused: the stream cannot be read any further.
    """
    length = int.from_bytes(await reader.readexactly(P2P.HEADER_LEN), P2P.BYTEORDER)
    if length > LONGEST_MESSAGE:
        count_refusal()
        raise MessageRefused(f"a message of {length:,} bytes")
    return await reader.readexactly(length)


class _Depth(threading.local):
    now = 0


_depth = _Depth()
_decode_upstream = MSGPackSerializer._decode_ext_types.__func__


def _decode_ext_types(serializer: type[MSGPackSerializer], type_code: int, data: bytes) -> Any:
    if _depth.now >= DEEPEST:
        raise MessageRefused(f"a message of more than {DEEPEST} layers")
    _depth.now += 1
    try:
        return _decode_upstream(serializer, type_code, data)
    finally:
        _depth.now -= 1
