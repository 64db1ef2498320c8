"""A file system that is soon full."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


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
