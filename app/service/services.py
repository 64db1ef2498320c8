"""`sahaj service`: what its commands do, whatever starts the services of this machine."""

import getpass
import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from app.installation import command
from app.join.address import coordinator_url
from app.join.peer_folder import PAUSE, cache_folder, in_use, is_file, name_of
from app.service.launchd import Launchd
from app.service.service import State
from app.service.service_options import check_login, service_for
from app.service.start_script import by_hand, ended
from app.service.systemd import Systemd, lingers
from app.startup import INTERRUPTED
from swarm.errors import SahajError
from swarm.files import remove_file, write_file
from swarm.language import _
from swarm.logging import logs

Say = Callable[[str], None]
Manager = Launchd | Systemd


def manager_of_this_machine() -> Manager:
    """What starts services here.

    Raises:
        SahajError: there is nothing of the kind.
    """
    if sys.platform == "darwin":
        return Launchd()
    if shutil.which("systemctl") is None:
        raise SahajError(
            "systemctl: not found, and services need systemd or a Mac; start the trainer in tmux, by cron at @reboot, "
            f"or as `nohup {shlex.quote(command())} join LINK &`"
        )
    return Systemd()


def install(url: str, arguments: Sequence[str], options: dict[str, Any], say: Say) -> None:
    """Start a trainer now and with each login.

    Raises:
        SahajError: it cannot be one, or a peer runs in its folder already.
    """
    manager = manager_of_this_machine()
    service = service_for(url, arguments, options, say)
    try:
        manager.check()
    except SahajError as error:
        raise SahajError(f"{error} with `{by_hand(service.link, tuple(arguments))}`, in tmux or from cron") from None
    if service.name not in manager.installed() and in_use(service.folder):
        reason = _("{folder}: a peer runs there; stop it first (Ctrl-C), then install")
        raise SahajError(reason.format(folder=service.folder))
    write_token = bool(options.get("allow_write_token"))
    check_login(service.link, options.get("name"), say, allow_write_token=write_token)
    manager.install(service)
    told = _("{service}: installed and started; it starts again at each login, and after a crash.")
    say(told.format(service=service.label))
    say(_("To see what it prints: {command}").format(command=manager.where_it_tells(service.name)))
    if isinstance(manager, Systemd) and not lingers(getpass.getuser()):
        say(
            _("It stops when you log out. To have it run without a login: {command}").format(
                command="loginctl enable-linger"
            )
        )


def status(url: str | None, say: Say) -> None:
    """Say in a few lines what the services do."""
    manager = manager_of_this_machine()

    def tell(name: str, folder: Path) -> None:
        state = manager.state(name)
        say(f"{name}: {described(state)}")
        if is_file(folder / PAUSE):
            say("  " + _("you have paused it: `sahaj service resume` goes on"))
        if line := manager.last_line(name):  # also of one that has ended: launchd does not tell why
            say(f"  {line}")
        say(f"  {manager.where_it_tells(name)}")
        say("  " + _("log: {folder}").format(folder=folder / logs.FOLDER))

    _each(_chosen(manager, url), tell, say)


def described(state: State) -> str:
    """A state in a few words."""
    reason = ended(state.status) if state.status else ""
    if state.runs:
        told = _("running")
    elif state.waits and reason:
        told = _("stopped ({reason}); it starts again within a minute")
    elif state.waits:
        told = _("starts again within a minute")
    elif state.status is None:
        told = _("not running")
    elif state.status in (0, INTERRUPTED):
        told = _("ended: the run is done, or it was stopped")
    else:
        told = _("stopped and will not restart: {reason}")
    since = _(" (since {time})").format(time=state.since) if state.since and not state.waits else ""
    return told.format(reason=reason) + since


def pause(url: str | None, say: Say) -> None:
    """Have the services pause, within two seconds, until they resume; also after a restart."""

    def have_pause(name: str, folder: Path) -> None:
        write_file(folder / PAUSE, "")
        say(_("{service}: pauses until `sahaj service resume`.").format(service=name))

    _each(_chosen(manager_of_this_machine(), url), have_pause, say)


def resume(url: str | None, say: Say) -> None:
    """End that pause."""

    def go_on(name: str, folder: Path) -> None:
        remove_file(folder / PAUSE)
        say(_("{service}: goes on.").format(service=name))

    _each(_chosen(manager_of_this_machine(), url), go_on, say)


def remove(url: str | None, say: Say) -> None:
    """Stop the services, and do not start them again; folders of peers stay."""
    manager = manager_of_this_machine()

    def stop(name: str, folder: Path) -> None:
        manager.remove(name)
        say(_("{service}: removed. {folder} stays; `sahaj leave` removes it.").format(service=name, folder=folder))
        remove_file(folder / PAUSE)

    _each(_chosen(manager, url), stop, say)


def refuse_to_leave(url: str | None) -> None:
    """See that no service is left behind that would start in folders that are removed.

    Raises:
        SahajError: there is one.
    """
    try:
        installed = manager_of_this_machine().installed()
    except SahajError:  # no services here
        return
    home = cache_folder()
    for name, folder in installed.items():
        if folder.parent == home and (url is None or name == name_of(url)):
            reason = _("{folder}: a service trains there; `sahaj service remove` first, then leave")
            raise SahajError(reason.format(folder=folder))


def _each(services: dict[str, Path], act: Callable[[str, Path], None], say: Say) -> None:
    """Do this for each service, by its name and folder; if it fails for one, the others are still done.

    Raises:
        SahajError: the last problem; earlier ones have been printed.
    """
    problems = []
    for name, folder in services.items():
        try:
            act(name, folder)
        except SahajError as error:
            problems.append(error)
    for problem in problems[:-1]:
        say(str(problem))
    if problems:
        raise problems[-1]


def _chosen(manager: Manager, url: str | None) -> dict[str, Path]:
    """The folders of the services of a run, or of all; by their names."""
    installed = manager.installed()
    if url is None:
        chosen = installed
    else:
        name = name_of(coordinator_url(url))
        chosen = {name: installed[name]} if name in installed else {}
    if not chosen:
        if installed:
            told = _("no service of {run} is installed; there is {others}; `sahaj service install LINK` makes one")
        else:
            told = _("no service of {run} is installed; `sahaj service install LINK` makes one")
        raise SahajError(told.format(run=url or _("any run"), others=", ".join(installed)))
    return chosen
