"""What `sahaj train` does: it joins a run that gives no passes, by the address of a peer."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from app.join.join import user_name
from swarm.errors import RunFileError, SahajError
from swarm.logging import logs
from swarm.private_folder import keep_private
from swarm.run_file import RunFile
from trainer.console.view import ConsoleView
from trainer.options import TrainerOptions, VolunteerOptions
from trainer.startup_timer import StartupTimer
from trainer.train import train

LONGEST_NAME = 64  # characters; what session records allow


class NameProblem(SahajError):
    """The name cannot be shown on a leaderboard."""

    exit_status = 2


def train_by_address(
    run: RunFile,
    initial_peers: tuple[str, ...],
    name: str | None,
    state: Path | None,
    chosen: VolunteerOptions,
    *,
    verbose: bool,
    process_started: float,
) -> None:
    """Train as one peer of a run; without a state folder the peer's identity ends with the process.

    Raises:
        SahajError: the run gives passes, the name cannot be shown, or the peer cannot train.
    """
    if run.access is not None:
        raise RunFileError(f"{run.name}: this run gives passes; join it with `sahaj join LINK`")
    name = name or user_name(LONGEST_NAME)
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise NameProblem(f"--name {name!r}: must have 1 to {LONGEST_NAME} printable characters")
    network = chosen.network(initial_peers, client_mode=bool(chosen.client_mode))
    with contextlib.ExitStack() as stack:
        folder = state or Path(stack.enter_context(_temporary_folder()))
        view = stack.enter_context(ConsoleView(Console()))
        for problem in (keep_private(folder), logs.write_to(folder / logs.FOLDER, "trainer")):
            if problem:
                view.message(problem)
        timer = StartupTimer(view.message) if verbose else StartupTimer()
        train(run, TrainerOptions(name, folder, network, chosen, timer=timer), view, process_started)


@contextlib.contextmanager
def _temporary_folder() -> Iterator[Path]:
    """A folder for this process alone; it stays only after an unforeseen error, as its log tells why."""
    folder = Path(tempfile.mkdtemp(prefix="sahaj-"))
    try:
        yield folder
    except (SahajError, KeyboardInterrupt, SystemExit):
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
