"""What a caller and a host send each other: messages of a head and a payload, strict on both sides.

A message is two lengths, of four bytes each, a head in MessagePack, and a payload of raw bytes: encoded rows
(`experts.codec`) one after the other, or a state. The first message in each direction is a hello
(`swarm.access.greeting`).
"""

import asyncio
import struct
from contextlib import AbstractAsyncContextManager, nullcontext
from enum import Enum
from typing import Any, TypeVar

import msgspec

from experts.codec import encoded_bytes
from experts.grid import Uid
from experts.host.call_queue import Call, Direction
from experts.host.settings import ExpertSettings, HostLimits
from swarm.access.gate import Gate
from swarm.access.greeting import Greeting
from swarm.tasks import within

HANDLE = "sahaj.experts"  # of the streams
VERSION = 3  # of everything here
LONGEST_HEAD = 64 * 2**10
MOST_PARTS = 256  # experts in one request
LONGEST_REASON = 120  # characters
_LENGTHS = struct.Struct(">II")

T = TypeVar("T")


class Kind(str, Enum):
    """What is asked."""

    FORWARD = "forward"
    BACKWARD = "backward"
    STATE = "state"  # of one expert
    PING = "ping"


class _Packed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    pass


class Part(_Packed, frozen=True):
    """The rows for one expert: encoded inputs in the payload, followed by encoded gradients on the way back."""

    uid: tuple[int, ...]
    rows: int = 0
    version: int = 0  # of the expert at the forward call, on the way back; of a state, the one that the caller has


class Request(_Packed, frozen=True):
    """A question. The answer has the same number, and may come after those to later ones."""

    number: int
    kind: Kind
    parts: tuple[Part, ...] = ()


class Result(_Packed, frozen=True):
    """What came of one part."""

    uid: tuple[int, ...]
    version: int = 0
    size: int = 0  # bytes in the payload
    refused: str = ""  # why there is no answer


class Answer(_Packed, frozen=True):
    """Results in the order of the parts."""

    number: int
    results: tuple[Result, ...] = ()
    schedule_factor: float = 1.0  # of a coordinator to a ping: what experts' learning rates are multiplied by now


def greeting(gate: Gate, run: str, settings: ExpertSettings) -> Greeting:
    """Both sides have to agree on the run's fingerprint and on the settings of its experts."""
    return Greeting(gate, VERSION, f"{run} with experts {settings.fingerprint}")


def message(head: Any, *payload: bytes) -> bytes:
    """A message as it is sent, with a payload of these pieces."""
    packed = msgspec.msgpack.encode(head)
    return b"".join((_LENGTHS.pack(len(packed), sum(map(len, payload))), packed, *payload))


async def read_message(
    reader: asyncio.StreamReader,
    kind: type[T],
    longest_head: int,
    longest_payload: int,
    seconds: float,
    room: AbstractAsyncContextManager[object] | None = None,
) -> tuple[T, bytes]:
    """The next message, which may be waited for without end, but arrives within `seconds` once it has begun.

    Args:
        longest_head: in bytes, as `longest_payload`.
        room: entered while a message that has begun is received, as a limit on all that are.

    Raises:
        ValueError: it is too long, or of another form.
        EOFError: the stream has ended.
        asyncio.TimeoutError: it does not arrive.
    """
    head_size, payload_size = _LENGTHS.unpack(await reader.readexactly(_LENGTHS.size))
    if head_size > longest_head or payload_size > longest_payload:
        raise ValueError(f"a message of {head_size:,} and {payload_size:,} bytes")
    async with room or nullcontext(), within(seconds):
        head, payload = await reader.readexactly(head_size), await reader.readexactly(payload_size)
    try:
        return msgspec.msgpack.decode(head, type=kind), payload
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not of this form: {str(error)!r:.120}") from None


def calls_of(request: Request, payload: bytes, caller: str, settings: ExpertSettings, limits: HostLimits) -> list[Call]:
    """The calls in a request for forward or backward.

    Raises:
        ValueError: rows and bytes do not fit together, or there are too many.
    """
    check_parts(request.parts)
    direction = Direction(request.kind.value)
    copies = 2 if direction is Direction.BACKWARD else 1
    rows = sum(part.rows for part in request.parts)
    if rows > limits.request_rows:
        raise ValueError(f"{rows:,} rows in a request, more than {limits.request_rows:,}")
    calls, at, view = [], 0, memoryview(payload)  # megabytes are not copied
    for part in request.parts:
        if not 0 < part.rows <= limits.request_rows or part.version < 0:
            raise ValueError(f"{part.rows} rows for one expert, version {part.version}")
        end = at + copies * encoded_bytes(part.rows, settings.width)
        calls.append(Call(caller, part.uid, direction, part.rows, view[at:end], part.version))
        at = end
    if at != len(payload):
        raise ValueError(f"{len(payload)} bytes are not {at}")
    return calls


def check_parts(parts: tuple[Part, ...]) -> None:
    """Raises ValueError if there are too many, or two of them are for the same expert."""
    if len(parts) > MOST_PARTS:
        raise ValueError(f"{len(parts)} parts in a request, more than {MOST_PARTS}")
    if len({part.uid for part in parts}) < len(parts):
        raise ValueError("several parts for one expert")


def split(answer: Answer, payload: bytes, asked: tuple[Part, ...]) -> dict[Uid, tuple[Result, bytes]]:
    """What a host answered, by expert; those that it refused are left out.

    Raises:
        ValueError: these are not the answers to the parts asked for.
    """
    if [result.uid for result in answer.results] != [part.uid for part in asked]:
        raise ValueError("answers for other experts")
    answered, at = {}, 0
    for result in answer.results:
        if result.size < 0 or result.version < 0:
            raise ValueError("negative numbers in an answer")
        if not result.refused:
            answered[result.uid] = result, payload[at : at + result.size]
        at += result.size
    if at != len(payload):
        raise ValueError(f"an answer of {len(payload)} bytes, not {at}")
    return answered
