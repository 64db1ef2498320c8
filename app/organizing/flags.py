"""What `sahaj admin` tells of audits: flags a line each, and the evidence of what is proved."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from swarm.files import write_file
from trainer.console.terminal_text import printable

LONGEST_EVIDENCE = 2**28  # bytes


class Flag(BaseModel):
    """Something odd that a peer did, and how often; `last` is a unix time in seconds."""

    user: str
    peer_id: str
    what: str
    times: int
    last: float


class Evidence(BaseModel):
    """What is proved of a user at a global step; the messages that prove it are left out."""

    user: str
    what: str
    step: int


def describe_flags(flags: Sequence[Flag], now: float) -> str:
    """One line for each flag; `now` is the unix time in seconds."""
    lines = [
        f"{printable(one.user)} ({printable(one.peer_id)}) {printable(one.what)}"
        f" - {one.times:,} times, last {_ago(now - one.last)} ago"
        for one in flags
    ]
    return "\n".join(lines) or "No flags."


def write_evidence(found: Sequence[Evidence], answer: bytes, name: str) -> str:
    """Write the coordinator's answer into this folder; returns a line for each thing that is proved, and the file.

    Raises:
        StorageError: the file cannot be written.
    """
    if not found:
        return f"There is no proof against {printable(name)}."
    file = Path(f"evidence-{''.join(one if one.isalnum() else '-' for one in name)}.json")
    write_file(file, answer)
    lines = [f"{printable(one.user)} {printable(one.what)}, step {one.step:,}" for one in found]
    return "\n".join([*lines, f"{file}: the signed messages that prove it; keep the file"])


def _ago(seconds: float) -> str:
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {name}"
    return f"{max(0.0, seconds):.0f} s"
