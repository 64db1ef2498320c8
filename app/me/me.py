"""What `sahaj me` does: it tells a person's figures in a run, and the link to their own page."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from pydantic import ValidationError

from app.join.coordinator_client import CoordinatorClient
from app.join.problems import JoinProblem
from app.me.personal_key import ask_for_key
from swarm.access.join_messages import Message
from swarm.access.key_messages import KeyAnswer
from swarm.access.passes import UNVERIFIED
from trainer.console.terminal_text import printable

PAGE = "my_machines"  # of the dashboard
DAY = 86400.0  # seconds


class Figures(Message):
    """Of `GET /api/person`, what is told here."""

    rank: int
    samples: int
    hours: float


class Pages(Message):
    """Of `GET /api/run`, where its pages are."""

    dashboard: str = ""


@dataclass(frozen=True)
class Me:
    """A person in a run. `figures` are None before the first sample is counted."""

    run: str
    key: KeyAnswer
    figures: Figures | None
    dashboard: str  # URL; empty if it is not known


def me(url: str, say: Callable[[str], None], *, state: Path | None = None, allow_write_token: bool = False) -> None:
    """Tell the person at this machine who they are in the run, and how to open their page.

    Raises:
        SahajError: the coordinator cannot be asked, or does not know the person.
    """
    with CoordinatorClient(url) as client:
        key = ask_for_key(client, state, allow_write_token=allow_write_token)
        pages = Pages.model_validate_json(client.ask("GET", "/api/run"))
        found = Me(client.run_name(), key, _figures(client, key.user), pages.dashboard)
    for line in describe(found, time.time()):
        say(line)


def describe(found: Me, now: float) -> list[str]:
    """The lines to print.

    Args:
        now: unix time in seconds.
    """
    key, figures = found.key, found.figures
    unverified = " (a name of your own choice)" if key.user.startswith(UNVERIFIED) else ""
    lines = [f"In {printable(found.run)} you are {printable(key.user)}{unverified}."]
    if figures is None:
        lines.append("Nothing has been counted for you yet.")
    else:
        lines.append(f"{figures.samples:,} samples in {figures.hours:,.1f} hours: rank {figures.rank:,}.")
    what = "this machine" if key.peer_id else "your machines"
    if found.dashboard:
        lines.append(f"Your page: {found.dashboard.rstrip('/')}/{PAGE}?key={quote(key.key)}")
    else:
        lines.append(f"Your key for the page 'My machines' of the run's dashboard: {key.key}")
    days = max(1, round((key.expires - now) / DAY))
    lines.append(f"The key is good for {days} days. Keep it to yourself: its holder can pause {what}.")
    return lines


def _figures(client: CoordinatorClient, user: str) -> Figures | None:
    try:
        return Figures.model_validate_json(client.ask("GET", f"/api/person?user={quote(user, safe='')}"))
    except ValidationError:
        return None
    except JoinProblem as problem:
        if problem.status == 404:  # somebody of whom nothing was counted
            return None
        raise
