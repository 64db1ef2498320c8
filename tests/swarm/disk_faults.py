"""What happens to disks: a process is killed in the middle of a write, or there is no room."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE


def killed_after(program: str, lines: int, *arguments: object) -> list[str]:
    """Run a program until it has said so many lines, kill it, and return all that it has said by then."""
    writer = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": ":".join(sys.path), "PYTHONUNBUFFERED": "1"},
        text=True,
    )
    assert writer.stdout is not None
    said = [writer.stdout.readline().strip() for _ in range(lines)]
    writer.kill()
    said += [line.strip() for line in writer.stdout if line.endswith("\n")]
    assert writer.wait(timeout=PATIENCE) == -9
    return said


@contextmanager
def small_disk(place: Path, kibibytes: int) -> Iterator[Path]:
    """Mount one at `place`; skips the test where that is not allowed."""
    place.mkdir()
    try:
        command = ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(place)]
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("only root may mount a small disk, on Linux")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
