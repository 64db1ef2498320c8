"""What waits, what is on its way and what is being received: each has an end."""

import asyncio
import resource
import struct

import pytest

from averaging.bandwidth import Meter, OwnLine
from averaging.log.header import Ballot
from averaging.log.packing import pack as encode
from averaging.protocol.messages import Piece
from averaging.transport.limits import SMALL, Budget, Limits, allow_open_files
from averaging.transport.stream import Outbox, Stream
from averaging.transport.window import LARGEST, QUICK, REST, SLOW, SMALLEST, Window
from averaging.transport.wire_format import SLICE, FrameKind, Lane, acknowledgement, unpack
from tests.averaging.transport.peers import framed

PIECE = Piece(Ballot(1, "Qm" + "a" * 44 + ".00000001"), 3, 0)
ENCODED = encode(PIECE)


def test_a_queue_takes_no_more_than_its_bytes_and_its_entries():
    full = Outbox(most_bytes=2 * len(ENCODED) - 1, most_entries=10, largest=10_000)
    assert full.put(ENCODED, lambda: b"x" * 1000)
    assert not full.put(ENCODED, None)
    full.clear()
    assert len(full) == full.size == 0
    assert full.put(ENCODED, None)
    many = Outbox(most_bytes=10_000, most_entries=2, largest=10_000)
    assert [many.put(ENCODED, lambda: b"x") for _ in range(3)] == [True, True, False]


async def test_what_is_too_large_for_a_frame_is_not_sent():
    outbox = Outbox(most_bytes=100_000, most_entries=10, largest=1000)
    assert outbox.put(ENCODED, lambda: b"x" * 1000) and outbox.put(ENCODED, lambda: b"y")
    assert unpack(await outbox.take()) == (PIECE, b"y")


async def test_a_payload_is_made_when_its_turn_has_come_and_left_out_if_it_is_not_needed():
    outbox, made = Outbox(10_000, 10, 10_000), []
    outbox.put(ENCODED, lambda: made.append("first"))
    outbox.put(ENCODED, lambda: made.append("second") or b"x")  # type: ignore[func-returns-value]
    assert not made
    assert unpack(await outbox.take()) == (PIECE, b"x")
    assert made == ["first", "second"] and outbox.size == 0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("soft", "hard", "then"),
    [(256, 4096, 3000), (1024, 2000, 2000), (1024, resource.RLIM_INFINITY, 3000), (4096, 4096, None)],
)
def test_a_process_may_open_as_many_files_as_it_has_streams(
    soft: int, hard: int, then: int | None, monkeypatch: pytest.MonkeyPatch
):
    raised: list[int] = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: raised.append(limits[0]))
    allow_open_files(3000)
    assert raised == ([] if then is None else [then])


class Way:
    """Of a window's slices: by how long they wait, and how much the receiver's clock is ahead."""

    def __init__(self, ahead: float = 0.0):
        self.clock, self._ahead = Clock(), ahead
        self.window = Window(self.clock, Meter(self.clock))

    def carry_a_window(self, wait: float, receipts: float = 0.0) -> None:
        """Fill it; all slices come after waiting, and their receipts some seconds later."""
        while self.window.in_flight < self.window.size:
            self.window.sent(self.window.slice)
        self.clock.now += wait
        came = self.clock.now + self._ahead
        self.clock.now += receipts
        while self.window.in_flight:
            assert self.window.received(came)


@pytest.mark.parametrize("ahead", [-1000.0, 0.0, 1000.0])
@pytest.mark.parametrize("receipts", [0.0, 0.9])
def test_a_window_follows_how_long_slices_wait_and_not_how_long_receipts_do(ahead: float, receipts: float):
    way = Way(ahead)
    window = way.window
    for _ in range(12):
        way.carry_a_window(0.01, receipts)
    grown = window.size
    assert grown > 40 * SMALLEST
    way.carry_a_window(QUICK + 0.05, receipts)
    assert window.size == grown
    way.carry_a_window(SLOW + 0.1, receipts)
    assert window.size == grown, "a receiver that was busy takes in all at once"
    way.carry_a_window(SLOW + 0.1, receipts)
    assert window.size == grown // 2
    for _ in range(20):
        way.carry_a_window(3.0, receipts)
    assert window.size == SMALLEST
    assert not window.received(0.0)


def test_a_window_has_an_end():
    way = Way()
    for _ in range(40):
        way.carry_a_window(0.01)
    assert way.window.size == LARGEST


def test_a_window_begins_again_after_a_rest():
    way = Way()
    for _ in range(5):
        way.carry_a_window(0.01)
    way.clock.now += REST / 2
    way.carry_a_window(0.01)
    assert way.window.size > 2 * SMALLEST
    way.clock.now += 2 * REST
    way.window.sent(1)
    assert way.window.size == SMALLEST


def test_clocks_may_drift():
    way, ahead = Way(), 0.0
    for _ in range(10_000):
        way.clock.now += 10.0
        ahead += 0.001  # a hundred times what clocks do
        way._ahead = ahead
        way.carry_a_window(0.01)
    assert way.window.size >= SMALLEST


async def test_nothing_is_sent_while_the_window_is_full():
    window = Window(Clock(), Meter(Clock()))
    await window.room()
    window.sent(SMALLEST)
    waiting = asyncio.create_task(window.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    window.received(0.0)
    await waiting


@pytest.mark.parametrize("total", [3 * SMALL * 10, 100 * SMALL])
async def test_a_peer_that_sends_slowly_takes_its_own_share_only(total: int):
    budget = Budget(total, each=SMALL * 10)
    entered = []

    async def receive(peer: str, size: int) -> None:
        async with budget.hold(peer, size):
            entered.append(peer)
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(receive("slow", SMALL * 6)) for _ in range(50)]
    await asyncio.sleep(0)
    assert entered == ["slow"]
    tasks.append(asyncio.create_task(receive("another", SMALL * 6)))
    tasks.append(asyncio.create_task(receive("slow", SMALL)))  # what is small never waits
    await asyncio.sleep(0)
    assert entered == ["slow", "another", "slow"]
    tasks[0].cancel()
    await turns()
    assert entered == ["slow", "another", "slow", "slow"] and budget.taken <= total
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert budget.taken == 0 and not budget._taken_by


async def test_all_peers_together_take_no_more_than_the_total():
    budget = Budget(total=SMALL * 10, each=SMALL * 6)
    most = 0

    async def receive(peer: int) -> None:
        nonlocal most
        async with budget.hold(str(peer), SMALL * 4):
            most = max(most, budget.taken)
            await asyncio.sleep(0)

    await asyncio.gather(*(receive(peer) for peer in range(40)))
    assert most == SMALL * 8 and budget.taken == 0


class Written:
    """What a stream has written, as a writer that never waits."""

    def __init__(self) -> None:
        self.transport, self.content = self, bytearray()

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, content: bytes) -> None:
        self.content += content

    async def drain(self) -> None:
        pass

    def frames(self) -> list[tuple[FrameKind, int]]:
        """Kinds, and lengths as they are told."""
        found, at = [], 0
        while at < len(self.content):
            kind, size = struct.unpack_from(">BI", self.content, at)
            found.append((FrameKind(kind), size))
            at += 5 + (0 if kind == FrameKind.MESSAGE else size)
        return found


def stream_between(reader: asyncio.StreamReader, writer: Written, clock: Clock) -> Stream:
    return Stream(
        Lane.BULK,
        "peer",
        reader,
        writer,  # type: ignore[arg-type]
        limits=Limits(),
        budget=Budget(2**24, 2**24),
        line=OwnLine(clock=clock),
        clock=clock,
        receive=lambda message, payload: None,
        renewed=lambda body: None,
    )


async def turns(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_slices_are_acknowledged_in_the_middle_of_a_message_that_goes_the_other_way():
    reader, written, outbox = asyncio.StreamReader(), Written(), Outbox(2**24, 10, 2**23)
    stream = stream_between(reader, written, Clock())
    outbox.put(ENCODED, lambda: bytes(2**20))
    tasks = [asyncio.create_task(stream._write(outbox)), asyncio.create_task(stream._read())]
    await turns()
    begun = written.frames()
    assert [kind for kind, _ in begun] == [
        FrameKind.MESSAGE,
        FrameKind.SLICE,
    ]  # the window is full
    assert stream.is_in_message
    reader.feed_data(framed(bytes(2**18))[: 5 + 3 * (5 + SLICE)])
    await turns()
    assert written.frames() == [*begun, *[(FrameKind.RECEIVED, 8)] * 3]
    for _ in range(1000):
        reader.feed_data(acknowledgement(0.0))
        await turns(10)
        if not stream.is_in_message:
            break
    sent = [size for kind, size in written.frames() if kind is FrameKind.SLICE]
    assert sum(sent) == written.frames()[0][1] > 2**20
    for task in tasks:
        task.cancel()


async def test_bytes_of_a_message_count_before_it_is_whole():
    reader, clock = asyncio.StreamReader(), Clock()
    stream = stream_between(reader, Written(), clock)
    reading = asyncio.create_task(stream._read())
    whole = framed(bytes(2**20))
    clock.now = 7.0
    reader.feed_data(whole[: 2**18])
    for _ in range(20):
        await asyncio.sleep(0)
    assert 2**18 - 2 * SLICE < stream.received_bytes <= 2**18
    assert stream.active_at == 7.0
    reading.cancel()
