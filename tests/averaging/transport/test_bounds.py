"""What waits, what is on its way and what is being received: each has an end."""

import asyncio
import resource

import pytest

from averaging.bandwidth.meter import Meter
from averaging.bandwidth.own_line import OwnLine
from averaging.log.header import Ballot
from averaging.protocol.messages import Piece
from averaging.transport.frames import FrameKind, Lane, frame
from averaging.transport.limits import SMALL, Budget, Limits, allow_open_files
from averaging.transport.stream import SLICE, Outbox, Stream
from averaging.transport.window import FIRST, LARGEST, SMALLEST, Window
from averaging.transport.wire import encode, unpack

PIECE = Piece(Ballot(1, "Qm" + "a" * 44 + ".00000001"), 3, 0)
ENCODED = encode(PIECE)


def test_a_queue_takes_no_more_than_its_bytes_and_its_entries():
    full = Outbox(most_bytes=len(ENCODED) + 100, most_entries=10, largest=10_000)
    assert full.put(ENCODED, b"x" * 100)
    assert not full.put(ENCODED, b"x")
    assert full.clear() == 1 and full.size == 0
    assert full.put(ENCODED, b"x" * 100)
    many = Outbox(most_bytes=10_000, most_entries=2, largest=10_000)
    assert [many.put(ENCODED, lambda: b"x") for _ in range(3)] == [True, True, False]


def test_what_is_too_large_for_a_frame_is_not_sent():
    async def story() -> None:
        outbox = Outbox(most_bytes=100_000, most_entries=10, largest=1000)
        assert not outbox.put(ENCODED, b"x" * 1000)
        assert outbox.put(ENCODED, lambda: b"x" * 1000) and outbox.put(ENCODED, lambda: b"y")
        assert unpack(await outbox.take()) == (PIECE, b"y")

    asyncio.run(story())


def test_a_payload_is_made_when_its_turn_has_come_and_left_out_if_it_is_not_needed():
    async def story() -> None:
        outbox, made = Outbox(10_000, 10, 10_000), []
        outbox.put(ENCODED, lambda: made.append("first"))
        outbox.put(ENCODED, lambda: made.append("second") or b"x")  # type: ignore[func-returns-value]
        assert not made
        assert unpack(await outbox.take()) == (PIECE, b"x")
        assert made == ["first", "second"] and outbox.size == 0

    asyncio.run(story())


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


def test_a_window_follows_the_time_that_acknowledgements_take():
    clock = Clock()
    window = Window(clock, Meter(clock))

    def send_all(seconds: float) -> None:
        while window.in_flight < window.size:
            window.sent(2**18)
        clock.now += seconds
        while window.in_flight:
            assert window.received()

    send_all(0.1)
    assert window.size == 2 * FIRST
    for _ in range(20):
        send_all(0.1)
    assert window.size == LARGEST
    for _ in range(20):
        send_all(3.0)
    assert window.size == SMALLEST
    assert not window.received()


def test_nothing_is_sent_while_the_window_is_full():
    async def story() -> None:
        window = Window(Clock(), Meter(Clock()))
        await window.room()
        window.sent(FIRST)
        waiting = asyncio.create_task(window.room())
        await asyncio.sleep(0)
        assert not waiting.done()
        window.received()
        await waiting

    asyncio.run(story())


@pytest.mark.parametrize("total", [3 * SMALL * 10, 100 * SMALL])
def test_a_peer_that_sends_slowly_takes_its_own_share_only(total: int):
    async def story() -> None:
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
        await asyncio.sleep(0.01)
        assert entered == ["slow", "another", "slow", "slow"] and budget.taken <= total
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert budget.taken == 0 and not budget._taken_by

    asyncio.run(story())


def test_all_peers_together_take_no_more_than_the_total():
    async def story() -> None:
        budget = Budget(total=SMALL * 10, each=SMALL * 6)
        most = 0

        async def receive(peer: int) -> None:
            nonlocal most
            async with budget.hold(str(peer), SMALL * 4):
                most = max(most, budget.taken)
                await asyncio.sleep(0)

        await asyncio.gather(*(receive(peer) for peer in range(40)))
        assert most == SMALL * 8 and budget.taken == 0

    asyncio.run(story())


def test_bytes_of_a_message_count_before_it_is_whole():
    async def story() -> None:
        reader, clock = asyncio.StreamReader(), Clock()
        stream = Stream(
            Lane.BULK,
            "peer",
            reader,
            None,  # type: ignore[arg-type]  # nothing is sent
            opened_here=True,
            limits=Limits(),
            budget=Budget(2**24, 2**24),
            line=OwnLine(),
            clock=clock,
            receive=lambda message, payload: None,
            wrong_chunk=lambda: None,
            other_frame=lambda kind, body: None,
        )
        reading = asyncio.create_task(stream._read())
        whole = frame(FrameKind.MESSAGE, bytes(2**20))
        clock.now = 7.0
        reader.feed_data(whole[: 2**18])
        for _ in range(20):
            await asyncio.sleep(0)
        assert 2**18 - 2 * SLICE < stream.received_bytes <= 2**18
        assert stream.active_at == 7.0
        reading.cancel()

    asyncio.run(story())
