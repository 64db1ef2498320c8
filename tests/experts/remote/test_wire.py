"""Messages, and what is not one."""

import asyncio
from typing import Any

import pytest
import torch

from experts.codec import encode
from experts.host.call_queue import Direction
from experts.host.settings import ExpertSettings, HostLimits
from experts.remote import wire
from experts.remote.wire import Answer, Kind, Part, Request, Result

SETTINGS = ExpertSettings(grid=(2, 2), width=4, hidden=8)
LIMITS = HostLimits(request_rows=16)
ROWS = encode(torch.ones(2, 4))


def read(data: bytes, kind: Any = Request, longest: int = 1000) -> Any:
    async def reading() -> Any:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        return await wire.read_message(reader, kind, longest, longest, 1.0)

    return asyncio.run(reading())


@pytest.mark.parametrize(
    "head",
    [
        Request(3, Kind.BACKWARD, (Part((1, 2), 3, 4), Part((0, 0), 1))),
        Answer(3, (Result((1, 2), 5, 7), Result((0, 0), refused="busy"))),
    ],
)
def test_what_is_sent_is_read(head: Any):
    assert read(wire.message(head, b"bytes"), type(head)) == (head, b"bytes")


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff\x00\x00\x00\x00",
        b"\x00\x00\x00\x00\xff\xff\xff\xff",
        b"\x00\x00\x00\x00\x00\x00\x00\x00",
        wire.message({"number": 1}),
        wire.message([1, "other", []]),
        wire.message([1, "forward", [[["x"], 1, 0]]]),
        wire.message([1, "forward", [], 4]),
        b"\x00\x00\x03\xe8\x00\x00\x00\x00" + b"\x91" * 1000,  # nested deeply
    ],
)
def test_what_is_no_message_is_refused(data: bytes):
    with pytest.raises(ValueError, match=r"\w"):
        read(data)


def test_half_a_message_is_an_end():
    with pytest.raises(EOFError):
        read(wire.message(Request(1, Kind.PING))[:-1])


def test_calls_have_their_share_of_the_payload():
    other = encode(torch.zeros(1, 4))
    request = Request(1, Kind.FORWARD, (Part((0, 0), 2), Part((1, 1), 1)))
    first, second = wire.calls_of(request, ROWS + other, "amina", SETTINGS, LIMITS)
    assert (first.uid, first.rows, first.data) == ((0, 0), 2, ROWS)
    assert (second.uid, second.rows, second.data) == ((1, 1), 1, other)
    (back,) = wire.calls_of(Request(1, Kind.BACKWARD, (Part((0, 0), 2, 9),)), 2 * ROWS, "amina", SETTINGS, LIMITS)
    assert (back.direction, back.version, back.data) == (Direction.BACKWARD, 9, 2 * ROWS)


@pytest.mark.parametrize(
    ("kind", "parts", "payload"),
    [
        (Kind.FORWARD, (Part((0, 0), 2),), ROWS + b"x"),
        (Kind.FORWARD, (Part((0, 0), 2),), ROWS[:-1]),
        (Kind.FORWARD, (Part((0, 0), 0),), b""),
        (Kind.FORWARD, (Part((0, 0), -2),), b""),
        (Kind.FORWARD, (Part((0, 0), 3), Part((0, 1), -1)), ROWS),
        (Kind.FORWARD, (Part((0, 0), 20), Part((0, 1), -18)), ROWS),
        (Kind.FORWARD, (Part((0, 0), 17),), encode(torch.ones(17, 4))),
        (Kind.FORWARD, tuple(Part((0, at), 6) for at in range(3)), encode(torch.ones(18, 4))),
        (Kind.FORWARD, (Part((0, 0), 1), Part((0, 0), 1)), ROWS),
        (Kind.FORWARD, tuple(Part((0, at), 1) for at in range(wire.MOST_PARTS + 1)), b""),
        (Kind.BACKWARD, (Part((0, 0), 2),), ROWS),
        (Kind.BACKWARD, (Part((0, 0), 2, -1),), 2 * ROWS),
        (Kind.FORWARD, (Part((0, 0), 2**62),), ROWS),
    ],
)
def test_rows_that_do_not_fit_are_refused(kind: Kind, parts: tuple[Part, ...], payload: bytes):
    with pytest.raises(ValueError, match=r"\w"):
        wire.calls_of(Request(1, kind, parts), payload, "eve", SETTINGS, LIMITS)


def test_answers_are_split_and_refusals_left_out():
    asked = (Part((0, 0), 2), Part((0, 1), 2), Part((1, 0), 1))
    answer = Answer(1, (Result((0, 0), 4, 3), Result((0, 1), refused="busy"), Result((1, 0), 5, 2)))
    split = wire.split(answer, b"abcde", asked)
    assert {uid: data for uid, (_, data) in split.items()} == {(0, 0): b"abc", (1, 0): b"de"}
    assert split[1, 0][0].version == 5


@pytest.mark.parametrize(
    "results",
    [
        (),
        (Result((0, 1), 4, 5),),
        (Result((0, 0), 4, 5), Result((0, 0), 4, 0)),
        (Result((0, 0), 4, 6),),
        (Result((0, 0), 4, 4),),
        (Result((0, 0), 4, -1),),
        (Result((0, 0), -4, 5),),
    ],
)
def test_answers_to_something_else_are_refused(results: tuple[Result, ...]):
    with pytest.raises(ValueError, match=r"\w"):
        wire.split(Answer(1, results), b"abcde", (Part((0, 0), 2),))
