"""The name and version of the installed program. Its command is `sahaj`, which is another project's name on PyPI."""

import importlib.metadata
import re

DISTRIBUTION = "sahaj-swarm"
VERSION = re.compile(r"(\d+)\.(\d+)(?:\D.*)?")


def program_version() -> str:
    """The version of the program that runs here."""
    return importlib.metadata.version(DISTRIBUTION)


def release_of(version: str) -> tuple[str, str] | None:
    """Major and minor version, in which all peers of a run must agree; None if it is not of the form 0.1.0."""
    found = VERSION.fullmatch(version)
    return (found[1], found[2]) if found else None


def describe_mismatch(run: str, here: str) -> str:
    """The message for a person whose program has another version than the run."""
    return (
        f"this run works with Sahaj {run}, not with {here}; "
        "install that version, or join with the command or the notebook that the organizer shares"
    )
