"""The agent of a service for launchd, as a property list."""

import plistlib
from pathlib import Path
from xml.parsers.expat import ExpatError

from app.service.service import Service
from app.service.start_script import final_ends_as_success

RESTART_AFTER = 60  # seconds between two starts
STATE = "--state"


def agent(service: Service, log: Path) -> bytes:
    """The content of its plist file; see launchd.plist(5).

    Args:
        log: file for what it prints.
    """
    script = final_ends_as_success(service.script, service.final)
    return plistlib.dumps(
        {
            "Label": service.label,
            "ProgramArguments": ["/bin/sh", "-c", script, "sahaj", *service.words],
            "EnvironmentVariables": dict(service.environment),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": RESTART_AFTER,
            "ExitTimeOut": service.seconds_to_stop,
            "StandardOutPath": str(log),
            "StandardErrorPath": str(log),
        }
    )


def folder_of(content: bytes) -> Path | None:
    """The peer's folder of an agent; None if it is not one of ours."""
    try:
        words = plistlib.loads(content)["ProgramArguments"]
        return Path(words[words.index(STATE) + 1])
    except (plistlib.InvalidFileException, ExpatError, KeyError, ValueError, IndexError, TypeError):
        return None
