import logging
import os
import socket
import stat
import subprocess
import sys
import tempfile
from multiprocessing import resource_sharer
from pathlib import Path

import pytest

from swarm.logging import file as log_file
from swarm.logging import logs
from tests.support.waiting import PATIENCE, wait_until
from tests.swarm.disk_faults import small_disk
from tests.swarm.logging.conftest import lines, messages

logger = logging.getLogger("trainer.example")
pytestmark = pytest.mark.usefixtures("begun")

HAMMERED = """
import logging, multiprocessing, sys, threading
from pathlib import Path
from swarm.logging import file as log_file
from swarm.logging import logs

log_file.LARGEST, log_file.KEPT = 20_000, 50
logger = logging.getLogger("trainer.example")

class Averager(multiprocessing.get_context("fork").Process):
    def run(self):
        write()

def write():
    for number in range(300):
        logger.error("%d %s", number, "x" * 100)

logs.start(logs.Level.DEBUG)  # at which nothing is left out
logs.write_to(Path(sys.argv[1]), "trainer")
threads = [threading.Thread(target=write) for _ in range(2)]
for thread in threads:
    thread.start()
child = Averager()
child.start()  # in the midst of the others' writing
for thread in threads:
    thread.join()
child.join()
"""


def test_each_process_has_a_file_of_its_own_and_no_line_is_lost_or_torn_when_they_rotate(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", HAMMERED, str(tmp_path)], check=True, timeout=PATIENCE)
    expected = {"trainer": 600, "trainer-averager": 300}
    for name, count in expected.items():
        files = sorted(tmp_path.glob(f"{name}.jsonl*"))
        assert len(files) > 2
        found = [line for file in files for line in lines(file) if line["logger"] == "trainer.example"]
        assert len(found) == count
        assert {line["process"] for line in found} == {name}
        assert len({line["pid"] for line in found}) == 1
    assert {path.name.partition(".")[0] for path in tmp_path.iterdir()} == set(expected)


def test_old_files_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_file, "LARGEST", 5000)
    logs.write_to(tmp_path, "trainer")
    for number in range(500):
        logs.console_line(f"{number} {'x' * 100}")
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) == log_file.KEPT + 1 and max(sizes) <= 5000
    assert messages(tmp_path / "trainer.jsonl")[-1].startswith("499 ")


def test_what_was_said_before_the_folder_was_known_is_in_the_log(tmp_path: Path) -> None:
    logger.info("first")
    logger.debug("too little to be told")
    logging.getLogger("httpx").info("GET https://somewhere/?signed=1")
    assert logs.write_to(tmp_path, "trainer") is None
    logger.info("second")
    told = messages(tmp_path / "trainer.jsonl")
    assert told[0] == "first" and told[-1] == "second" and len(told) == 3


def test_no_more_is_kept_in_memory_than_somebody_would_read(tmp_path: Path) -> None:
    for number in range(2 * logs.BUFFERED):
        logs.console_line(str(number))
    logs.write_to(tmp_path, "trainer")
    assert messages(tmp_path / "trainer.jsonl")[-2:] == [str(logs.BUFFERED - 1), "the log begins, at level info"]


def test_levels_are_found_by_what_the_console_says(tmp_path: Path) -> None:
    logs.write_to(tmp_path, "coordinator")
    for line in ("global step 3: saved", "problem: the disk is full", "attention: asha claimed too much"):
        logs.console_line(line)
    told = lines(tmp_path / "coordinator.jsonl")[1:]
    assert [(line["logger"], line["level"]) for line in told] == [
        ("sahaj", "INFO"),
        ("sahaj", "WARNING"),
        ("sahaj", "WARNING"),
    ]


def test_the_log_has_the_traceback_of_what_the_console_says_in_a_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logs.write_to(tmp_path, "coordinator")
    try:
        raise ZeroDivisionError("by nothing")
    except ZeroDivisionError as error:
        logs.log_failure(error, "the ledger was not written")
    told = lines(tmp_path / "coordinator.jsonl")[-1]
    assert told["message"] == "the ledger was not written" and "by nothing" in told["exception"]
    assert capfd.readouterr() == ("", "")


def test_an_error_that_a_thread_of_a_library_survives_is_in_the_log_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logs.write_to(tmp_path, "coordinator")
    logs.log_uncaught(tmp_path)
    with tempfile.TemporaryFile() as file:
        address, _ = vars(resource_sharer.DupFd(file.fileno()))["_id"]
    try:
        with socket.socket(socket.AF_UNIX) as killed:
            killed.connect(address)  # and asks for nothing any more
        log = tmp_path / "coordinator.jsonl"
        wait_until(lambda: "goes on after an error" in messages(log)[-1], "a line in the log")
        assert "resource_sharer" in lines(log)[-1]["exception"]
    finally:
        resource_sharer.stop(PATIENCE)
    assert capfd.readouterr() == ("", "")


def test_only_its_owner_reads_a_log(tmp_path: Path) -> None:
    logs.write_to(tmp_path / "new", "trainer")
    assert stat.S_IMODE((tmp_path / "new" / "trainer.jsonl").stat().st_mode) == 0o600


def test_a_folder_that_cannot_be_written_is_told_once_and_stops_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "logs"
    folder.write_text("this is no folder")
    problem = logs.write_to(folder, "trainer")
    assert problem is not None and str(folder) in problem and "\n" not in problem
    for _ in range(10):
        logger.error("in vain")
    folder.unlink()
    logger.info("there is room now")
    missing = 11  # with the line that says that the log begins
    assert messages(folder / "trainer.jsonl") == [f"[{missing} messages before this one are missing] there is room now"]
    assert capfd.readouterr() == ("", "")


def test_a_file_that_went_bad_is_opened_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    logs.write_to(tmp_path, "trainer")
    file = logs._State.file
    assert file is not None and file.stream is not None
    os.close(file.stream.fileno())
    logger.info("in vain")
    logger.info("it works again")
    assert messages(tmp_path / "trainer.jsonl")[-1] == "[1 messages before this one are missing] it works again"
    assert capfd.readouterr() == ("", "")


def test_a_full_disk_loses_messages_and_nothing_else(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with small_disk(tmp_path / "disk", 64) as disk:
        logs.write_to(disk, "trainer")
        filling = disk / "filling"
        filling.write_bytes(bytes(32 * 1024))
        for number in range(400):
            logs.console_line(f"{number} {'x' * 100}")
        full = messages(disk / "trainer.jsonl")
        assert 0 < len(full) < 400
        filling.unlink()
        logs.console_line("there is room now")
        missing = 401 - len(full)  # with the line that says that the log begins
        last = f"[{missing} messages before this one are missing] there is room now"
        assert messages(disk / "trainer.jsonl") == [*full, last], "whole lines, and no others"
        logs.stop()
    assert capfd.readouterr() == ("", "")
