"""From a link and options of `sahaj join` to a service, once they are known to be good."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from app.installation import installation
from app.join.address import coordinator_url
from app.join.coordinator_client import CoordinatorClient
from app.join.hub_token import SAVED, HubToken, check_token, how_to_make, login_command
from app.join.peer_folder import HOME, PAUSE, cache_folder, name_of
from app.join.problems import JoinProblem, ProblemKind
from app.join.volunteer import warning_about_token
from app.service.service import Service, kept_environment
from app.service.start_script import AS_IT_IS, BY_JOIN_SCRIPT, final_statuses
from swarm.access.user_names import is_one_line
from swarm.errors import SahajError
from swarm.language import _, speak
from trainer.pausing.machine import Machine
from trainer.pausing.wishes import When, Wishes

OWN = {"state": "--state", "pause_file": "--pause-file", "notebook": "--notebook"}  # options that it sets, or has not
STOPS_WITHIN = 30  # seconds after those of --grace


def service_for(url: str, arguments: Sequence[str], options: dict[str, Any], say: Callable[[str], None]) -> Service:
    """The service that trains in a run.

    Args:
        arguments: options of `sahaj join`, as they were typed.
        options: the same, as they were understood.

    Raises:
        SahajError: it cannot have them.
    """
    link = coordinator_url(url)
    _check(arguments, options)
    home = cache_folder()
    folder = home / name_of(link)
    environment, left_out = kept_environment(os.environ)
    if left_out:
        told = _("Note: the service does not get {names}, which may hold a secret.")
        say(told.format(names=", ".join(left_out)))
    updates = installation() is not None
    own = ("--state", str(folder), "--pause-file", str(folder / PAUSE), "--service")
    start = (f"{link}/join.sh",) if updates else (str(_program()), "join", link)
    return Service(
        name=folder.name,
        link=link,
        folder=folder,
        script=BY_JOIN_SCRIPT if updates else AS_IT_IS,
        words=(*start, *arguments, *own),
        final=final_statuses(updates=updates),
        environment={**environment, HOME: str(home)},
        seconds_to_stop=STOPS_WITHIN + int(options.get("grace") or 0),
    )


def check_login(link: str, name: str | None, say: Callable[[str], None], *, allow_write_token: bool) -> None:
    """See that the run answers, and that its service will have a token if the run asks for one.

    A token of HF_TOKEN does not count: it would have to be written into the service.

    Raises:
        JoinProblem: the coordinator does not answer, or the saved login is missing or cannot be used.
    """
    from huggingface_hub import get_token

    with CoordinatorClient(link) as client:
        run = client.run()
    speak(run.language)
    saved = get_token()
    if run.access.open and (name is not None or saved is None):
        return
    if saved is None:
        raise JoinProblem(
            ProblemKind.TOKEN_MISSING,
            _(
                "{link}: this run needs a Hugging Face token, and a service cannot ask for one; log in once with "
                "`{command}` and a token without permissions ({how}), then install again"
            ).format(link=link, command=login_command(), how=how_to_make()),
        )
    if warning := warning_about_token(run.access, name, client.base):
        say(warning)
    check_token(HubToken(saved, _(SAVED)), allow_write=allow_write_token, service=True)


def _check(arguments: Sequence[str], options: dict[str, Any]) -> None:
    for name, option in OWN.items():
        if options.get(name):
            raise SahajError(_("{option}: a service has its own; leave it out").format(option=option))
    data = options.get("data")
    if data is not None and not data.is_absolute():
        told = _("--data {data}: a service starts in another folder; give the full path, {path}")
        raise SahajError(told.format(data=data, path=data.absolute()))
    Machine(Wishes(when=options.get("when") or When())).check()  # a service would find it out at each start
    for argument in arguments:
        if not is_one_line(argument):
            told = _("{argument}: contains characters that a service cannot take; leave them out")
            raise SahajError(told.format(argument=repr(argument)))


def _program() -> Path:
    program = Path(sys.executable).with_name("sahaj")
    if not program.is_file():
        told = _("{program}: not found; install the program first with the command that the organizer shares")
        raise SahajError(told.format(program=program))
    return program
