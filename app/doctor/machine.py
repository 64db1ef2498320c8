"""What is observed of this machine without torch."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from app.join.hub_token import HubToken, check_token, find_token
from app.join.machine_checks import existing_parent
from app.join.peer_folder import IDENTITY
from app.join.problems import JoinProblem
from swarm.errors import StorageError
from swarm.files import storage_errors

PROBE = bytes(4096)


@dataclass(frozen=True)
class TokenSeen:
    """The Hugging Face token of this machine, and what the Hub says about it."""

    token: HubToken | None
    user: str = ""
    problem: JoinProblem | None = None


def try_to_write(folder: Path) -> StorageError | None:
    """Whether a peer's folder can be written to, or made; nothing is left behind."""
    try:
        with (
            storage_errors(folder / IDENTITY),
            tempfile.TemporaryFile(dir=existing_parent(folder), prefix=".sahaj-") as file,
        ):
            file.write(PROBE)
            file.flush()
    except StorageError as error:
        return error
    return None


def look_for_token() -> TokenSeen:
    """Find the token as joining does, and ask the Hub whose it is."""
    token = None
    try:
        token = find_token()
        if token is None:
            return TokenSeen(None)
        return TokenSeen(token, check_token(token, allow_write=False))
    except JoinProblem as problem:
        return TokenSeen(token, problem=problem)
