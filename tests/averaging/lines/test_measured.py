"""What a line carries, from the kernel's books."""

import asyncio
import math
import multiprocessing
import os
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from trainer.averaging.lines.caps import Caps
from trainer.averaging.lines.measured import Books, OwnLine, Sample, Source, fastest_stretch
from trainer.averaging.lines.sockets import Connection, connections, listener
from trainer.averaging.lines.speeds import KEPT, Direction, Line

EVERY = 0.1  # seconds between samples
MEGA = 10**6  # bytes


def rates(*seconds_and_speeds: tuple[float, float], waited: bool = True) -> list[Sample]:
    """A round in which so many megabytes a second went up for so many seconds each; a tenth of it came down."""
    samples, sent = [Sample(0.0, 0, 0, False)], 0.0
    for seconds, speed in seconds_and_speeds:
        for _ in range(round(seconds / EVERY)):
            sent += speed * EVERY * MEGA
            samples.append(Sample(samples[-1].time + EVERY, round(sent), round(sent / 10), waited))
    return samples


def upload(samples: Sequence[Sample]) -> float:
    stretch = fastest_stretch(samples, lambda sample: sample.sent)
    return math.nan if stretch is None else stretch.speed / MEGA


def test_the_fastest_stretch_of_a_round_counts():
    assert upload(rates((1, 2.5), (15, 0.3), (1, 0.1))) == pytest.approx(2.5, rel=0.01)
    assert upload(rates((15, 0.25))) == pytest.approx(0.25, rel=0.01)


def test_a_burst_does_not_make_a_slow_line_fast():
    assert upload(rates((0.1, 0.6), (15, 0.25))) == pytest.approx(0.25, rel=0.08)


def test_a_round_that_is_over_at_once_says_nothing():
    assert math.isnan(upload(rates((0.2, 100.0))))
    assert math.isnan(upload(rates((1.9, 0.25))))


def test_an_upload_that_did_not_wait_for_the_line_is_no_measurement_of_it():
    known = OwnLine(Line(upload=Direction(measured=(2.0 * MEGA,))))
    known.take_in(rates((5, 0.5), waited=False))
    assert known.upload == 2.0 * MEGA
    known.take_in(rates((5, 3.0), waited=False))
    assert known.upload == pytest.approx(3.0 * MEGA)


def test_a_round_in_which_there_was_little_to_carry_says_nothing():
    line = OwnLine(Line())
    line.take_in(rates((0.3, 0.4), (5, 0.0), waited=False))
    assert (line.upload, line.download) == (0.0, 0.0)


def test_a_line_that_is_cut_is_not_taken_for_a_thin_one():
    def sent(packets: int, arrived: int) -> list[Connection]:
        return [Connection(b"a", arrived, 0, 1, packets, 0.0)]

    books = Books(sent(1, 0), 0.0)
    for number in range(1, 100):
        books.add(sent(1, 4000 if number > 1 else 0), number * EVERY)
    assert not books.samples[5].stood_still and books.samples[8].stood_still
    line = OwnLine(Line())
    line.take_in(books.samples)
    assert line.upload == 0.0
    for number in range(100, 150):
        books.add(sent(1, 4000 + (number - 99) * 12_500), number * EVERY)
    line.take_in(books.samples)
    assert line.upload == pytest.approx(125_000.0), "one Mbit/s is thin and not cut"


def test_a_peer_that_hangs_does_not_hide_what_another_one_sends():
    def received(seconds: float) -> list[Connection]:
        hanging = Connection(b"a", 0, 0, 1, 10, 0.0)
        return [hanging, Connection(b"b", 0, round(125_000 * seconds), 0, 0, 0.0)]

    books = Books(received(0.0), 0.0)
    for number in range(1, 50):
        books.add(received(number * EVERY), number * EVERY)
    line = OwnLine(Line())
    line.take_in(books.samples, Source.DOWNLOAD)
    assert line.download == pytest.approx(125_000.0)


def test_one_bad_round_changes_nothing_and_two_do():
    line = OwnLine(Line())
    for _ in range(3):
        line.take_in(rates((5, 2.0)))
    line.take_in(rates((5, 0.5)))
    assert line.upload == pytest.approx(2.0 * MEGA)
    line.take_in(rates((5, 0.5)))
    assert line.upload == pytest.approx(0.5 * MEGA)


def test_a_cap_is_never_exceeded():
    line = OwnLine(Line(Direction(cap=1.0 * MEGA), Direction(cap=0.5 * MEGA)))
    line.take_in(rates((5, 2.0)))
    assert (line.upload, line.download) == (1.0 * MEGA, 0.5 * MEGA)


def test_a_line_carries_as_much_down_as_up_unless_more_was_seen():
    line = OwnLine(Line())
    assert (line.upload, line.download) == (0.0, 0.0)
    line.take_in(rates((5, 2.0)))
    assert line.download == line.upload


def test_a_download_says_nothing_of_the_upload():
    line = OwnLine(Line())
    line.take_in(rates((5, 20.0)), Source.DOWNLOAD)
    assert line.upload == 0.0
    assert line.download == pytest.approx(2.0 * MEGA)


def test_a_probe_that_the_other_side_has_slowed_down_says_nothing():
    line = OwnLine(Line())
    line.take_in(rates((2.5, 0.4), waited=False), Source.PROBE)
    assert not line.upload_was_seen
    line.take_in(rates((2.5, 0.4)), Source.PROBE)
    assert line.upload == pytest.approx(0.4 * MEGA)
    assert line.download == line.upload, "nothing came down that would say something"


def test_what_a_volunteer_allows_is_told_before_anything_is_measured():
    line = OwnLine.within(Caps.of(8.0, 16.0))
    assert (line.upload, line.download) == (1.0 * MEGA, 2.0 * MEGA)
    line.take_in(rates((5, 30.0)))
    assert (line.upload, line.download) == (1.0 * MEGA, 2.0 * MEGA)


def test_processes_that_were_forked_share_what_they_measure():
    line = OwnLine(Line())
    for speed in (2.0, 3.0, 2.0):
        measuring = multiprocessing.get_context("fork").Process(target=line.take_in, args=(rates((5, speed)),))
        measuring.start()
        measuring.join()
    assert line.upload == pytest.approx(2.0 * MEGA)
    assert len(line.line.upload.measured) == KEPT


def test_connections_come_and_go():
    def one(name: bytes, sent: int, waiting: int = 0, full: float = 0.0) -> Connection:
        return Connection(name, sent, 0, waiting, 0, full)

    books = Books([one(b"a", 1000)], 0.0)
    books.add([one(b"a", 1500, 1), one(b"b", 10)], 0.1)
    books.add([one(b"a", 2000, 1)], 0.2)
    books.add([one(b"a", 2100, 1, full=0.1), one(b"b", 20)], 0.3)
    assert [sample.sent for sample in books.samples] == [0, 510, 1010, 1120]
    assert [sample.waited for sample in books.samples] == [False, False, True, False]


def test_the_kernel_counts_what_a_process_sends_to_other_computers_only():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            client.sendall(b"within this computer")
            assert connections(os.getpid()) == []


def test_who_listens_on_a_unix_socket_is_known():
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        path = str(Path(folder) / "socket")
        server.bind(path)
        server.listen()
        assert listener(path) == os.getpid()


def test_where_nothing_can_be_measured_a_round_goes_on():
    class Nowhere:
        daemon_listen_maddr = {"unix": "/nowhere"}  # noqa: RUF012

    async def average() -> str:
        line = OwnLine(Line())
        async with line.measured(Nowhere()):
            return f"averaged, {line.upload:g} bytes a second"

    assert asyncio.run(average()) == "averaged, 0 bytes a second"
