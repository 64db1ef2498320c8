"""What `sahaj me` does: it tells a person's figures in a run, and the link to their own page."""

import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from app.join.coordinator_client import CoordinatorClient, RunDescription
from app.join.problems import JoinProblem
from app.me.personal_key import PATH, ask_for_key
from swarm.access.join_messages import Message
from swarm.access.key_messages import KeyAnswer
from swarm.access.user_names import UNVERIFIED
from swarm.language import _, speak
from trainer.console.terminal_text import printable

PAGE = "my_machines"  # of the dashboard
DAY = 86400.0  # seconds


class Figures(Message):
    """Of `GET /api/person`, what is told here."""

    rank: int
    samples: int
    hours: float


def me(
    url: str,
    say: Callable[[str], None],
    *,
    state: Path | None = None,
    allow_write_token: bool = False,
    revoke: bool = False,
) -> None:
    """Tell the person at this machine who they are in the run, and how to open their page.

    Args:
        revoke: make all earlier keys of this person, or of the machine of a self-chosen name, stop working.

    Raises:
        SahajError: the coordinator cannot be asked, or does not know the person.
    """
    with CoordinatorClient(url) as client:
        run = client.run()
        speak(run.language)
        key = ask_for_key(client, run.name, state, say, allow_write_token=allow_write_token)
        if revoke:
            client.ask("DELETE", PATH, bearer=key.key)
            say(_("All earlier keys and links to your page have stopped working."))
            key = ask_for_key(client, run.name, state, say, allow_write_token=allow_write_token)
        figures = _figures(client, key.user)
    for line in describe(run, key, figures, time.time()):
        say(line)


def describe(run: RunDescription, key: KeyAnswer, figures: Figures | None, now: float) -> list[str]:
    """The lines to print.

    Args:
        figures: None before the first sample is counted.
        now: unix time in seconds.
    """
    is_chosen = key.user.startswith(UNVERIFIED)
    who = _("In {run} you are {name} (a name of your own choice).") if is_chosen else _("In {run} you are {name}.")
    lines = [who.format(run=run.name, name=printable(key.user))]
    if figures is None:
        lines.append(_("Nothing has been counted for you yet."))
    else:
        given = _("{samples} samples in {hours} hours: rank {rank}.")
        samples, hours, rank = f"{figures.samples:,}", f"{figures.hours:,.1f}", f"{figures.rank:,}"
        lines.append(given.format(samples=samples, hours=hours, rank=rank))
    if run.dashboard:
        link = f"{printable(run.dashboard.rstrip('/'))}/{PAGE}?key={quote(key.key)}"
        lines.append(_("Your page My machines: {link}").format(link=link))
    else:
        lines.append(
            _("Your key for the page 'My machines' of the run's dashboard: {key}").format(key=printable(key.key))
        )
    days = max(1, round((key.expires - now) / DAY))
    good = (
        _(
            "The key is good for {days} days. Keep it to yourself: anybody who has it can pause this machine and "
            "change your team."
        )
        if key.peer_id
        else _(
            "The key is good for {days} days. Keep it to yourself: anybody who has it can pause your machines and "
            "change your team."
        )
    )
    lines.append(good.format(days=days))
    return lines


def _figures(client: CoordinatorClient, user: str) -> Figures | None:
    try:
        return client.parse(Figures, client.ask("GET", f"/api/person?user={quote(user, safe='')}"))
    except JoinProblem as problem:
        if problem.status == 404:  # somebody of whom nothing was counted
            return None
        raise
