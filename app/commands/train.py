"""What `sahaj train` does: from options to a training peer."""

import contextlib
import getpass
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from swarm.dht.node import Network
from swarm.errors import RunFileError, SahajError
from swarm.leaving import GRACE
from swarm.logging import logs
from swarm.private_folder import keep_private
from swarm.run_file import RunFile
from trainer.console.view import ConsoleView
from trainer.options import TrainerOptions
from trainer.startup_timer import Steps
from trainer.train import train

LONGEST_NAME = 64  # characters; what session records allow


class NameProblem(SahajError):
    """The name cannot be shown on a leaderboard."""

    exit_status = 2


def volunteer(
    run: RunFile,
    *,
    initial_peers: tuple[str, ...],
    name: str | None,
    state: Path | None,
    client_mode: bool,
    listen: tuple[str, ...],
    announce: tuple[str, ...],
    relays: tuple[str, ...],
    device: str | None,
    micro_batch: int | None,
    compile: bool,
    country: str | None,
    max_upload: float | None,
    max_download: float | None,
    grace: float | None,
    verbose: bool,
    process_started: float,
) -> None:
    """Train as one peer of a run; without a state folder the peer's identity ends with the process.

    Raises:
        SahajError: the run gives passes, the name cannot be shown, or whatever keeps a peer from training.
    """
    if run.access is not None:
        raise RunFileError(f"{run.name}: this run gives passes; join it with `sahaj join LINK`")
    name = name or user_name()
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise NameProblem(f"--name {name!r}: must have 1 to {LONGEST_NAME} printable characters")
    network = Network(
        initial_peers=initial_peers,
        listen=listen or Network.listen,
        announce=announce,
        client_mode=client_mode,
        relays=relays,
    )
    with contextlib.ExitStack() as stack:
        folder = state or Path(stack.enter_context(_passing_folder()))
        with ConsoleView(Console()) as view:
            for problem in (keep_private(folder), logs.write_to(folder / logs.FOLDER, "trainer")):
                if problem:
                    view.message(problem)
            options = TrainerOptions(
                name=name,
                state_folder=folder,
                network=network,
                device=device,
                micro_batch=micro_batch,
                compile=compile,
                country=country,
                max_upload=max_upload,
                max_download=max_download,
                grace=GRACE if grace is None else grace,
                steps=Steps(view.message if verbose else None),
            )
            train(run, options, view, process_started)


@contextlib.contextmanager
def _passing_folder() -> Iterator[Path]:
    """A folder for this process alone; it stays only if the program fails, for its log tells why."""
    folder = Path(tempfile.mkdtemp(prefix="sahaj-"))
    try:
        yield folder
    except (SahajError, KeyboardInterrupt, SystemExit):
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def user_name() -> str:
    """The name of whoever runs this, or a plain one where the system does not know (in containers)."""
    try:
        return getpass.getuser()[:LONGEST_NAME]
    except (KeyError, OSError):
        return "volunteer"
