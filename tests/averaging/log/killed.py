"""Programs that are killed at any moment of their writing."""

import os
import subprocess
import sys
import textwrap

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
