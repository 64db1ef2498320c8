"""Who the volunteer is: the token to show, or the name to use in an open run."""

import getpass
from collections.abc import Callable

from app.join.address import is_private
from app.join.coordinator_client import Access, CoordinatorClient
from app.join.hub_token import HubToken, ask_for_token, check_token, find_token
from app.join.problems import JoinProblem, ProblemKind
from swarm.access.user_names import LONGEST_CHOSEN, chosen_name
from swarm.language import _, speak
from swarm.logging.startup_timer import StartupTimer

Volunteer = tuple[HubToken | None, str | None]  # the token to show, or the name to use


def identify(
    client: CoordinatorClient,
    name: str | None,
    timer: StartupTimer,
    say: Callable[[str], None],
    *,
    allow_write_token: bool = False,
    notebook: bool = False,
) -> Volunteer:
    """Ask who may join, and find out who this is: see `who`."""
    with timer("asking the coordinator"):
        run = client.run()
    speak(run.language)
    if warning := warning_about_token(run.access, name, client.base):
        say(warning)
    with timer("finding out who you are"):
        return who(run.access, name, allow_write_token=allow_write_token, notebook=notebook)


def who(access: Access, name: str | None, *, allow_write_token: bool = False, notebook: bool = False) -> Volunteer:
    """The token to show, or the name to use in an open run; a name that is given takes precedence over a token.

    Raises:
        JoinProblem: the name or the token cannot be used, or nobody can be asked for one.
    """
    if name is not None and chosen_name(name) is None:
        raise JoinProblem(
            ProblemKind.BAD_NAME,
            _("--name {name}: must have 1 to {n} visible characters and not begin with # or ~").format(
                name=repr(name), n=LONGEST_CHOSEN
            ),
        )
    if access.open and name is not None:
        return None, name
    token = find_token()
    if token is None:
        if access.open:
            return None, user_name()
        token = ask_for_token()
    try:
        check_token(token, allow_write=allow_write_token, notebook=notebook)
    except JoinProblem as problem:
        if not access.open:
            raise
        if problem.kind is ProblemKind.HUB_AWAY:
            return None, user_name()
        reason = _("{problem}; or join without a token: --name NAME").format(problem=problem)
        raise JoinProblem(problem.kind, reason) from None
    return token, None


def warning_about_token(access: Access, name: str | None, url: str) -> str | None:
    """What to say before a token is asked for or sent, where others could read it on its way."""
    needs_none = access.open and name is not None
    if needs_none or is_private(url):
        return None
    return _(
        "Note: {url} is not encrypted, so others could read your token on the way. To avoid that, press Ctrl-C and "
        "ask the organizer for an https link."
    ).format(url=url)


def user_name() -> str:
    """The login name, or a plain one where the system knows none (in containers)."""
    try:
        return getpass.getuser()[:LONGEST_CHOSEN]
    except (KeyError, OSError):
        return "volunteer"
