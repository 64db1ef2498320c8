"""What `sahaj admin` tells of audits: flags a line each, and the evidence of what is proved."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from app.join.problems import JoinProblem, ProblemKind
from swarm.files import write_file
from trainer.console.terminal_text import printable

T = TypeVar("T")

LONGEST_EVIDENCE = 2**28  # bytes


def describe_flags(answer: bytes, now: float) -> str:
    """One line for each flag; `now` is the unix time in seconds.

    Raises:
        JoinProblem: the answer is not a coordinator's.
    """
    flags = _read(list[_Flag], answer, "a list of flags")
    lines = [
        f"{printable(one.user)} ({printable(one.peer_id)}) {printable(one.what)}"
        f" - {one.times:,} times, last {_ago(now - one.last)} ago"
        for one in flags
    ]
    return "\n".join(lines) or "No flags."


def write_evidence(answer: bytes, name: str) -> str:
    """Into a file of this folder; returns a line for each thing that is proved, and where it stands.

    Raises:
        JoinProblem: the answer is not a coordinator's, or the file cannot be written.
    """
    found = _read(list[_Evidence], answer, "evidence")
    if not found:
        return f"There is no proof against {printable(name)}."
    file = Path(f"evidence-{''.join(one if one.isalnum() else '-' for one in name)}.json")
    write_file(file, answer)
    lines = [f"{printable(one.user)} {printable(one.what)}, step {one.step:,}" for one in found]
    return "\n".join([*lines, f"{file}: the signed messages that prove it; keep the file"])


class _Evidence(BaseModel):
    user: str
    what: str
    step: int


class _Flag(BaseModel):
    user: str
    peer_id: str
    what: str
    times: int
    last: float


def _read(kind: type[T], answer: bytes, what: str) -> T:
    try:
        return TypeAdapter(kind).validate_json(answer)
    except ValidationError:
        raise JoinProblem(
            ProblemKind.MANIFEST, f"the coordinator's answer is not {what}; is it of another version?"
        ) from None


def _ago(seconds: float) -> str:
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {name}"
    return f"{max(0.0, seconds):.0f} s"
