"""A run of a month by three hundred people, to look at: the coordinator's HTTP service, and no swarm behind it.

    python -m tests.recorded_month --port 8899 [--folder F] [--people 300] [--days 30] [--state running]

The ledger is written into the folder (by default one that is gone afterwards). In the other states a page must look
intended, too: nobody has come yet (`empty`), the organizer has `paused` the run, or it is `finished`.
"""

import random
import tempfile
import time
from enum import Enum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import runs
from coordinator.state_folder import ADMIN_KEY
from swarm.run_file import RunFile, load_run, parse_run
from tests.recorded_month.people import DAY, sittings
from tests.recorded_month.serving import serving
from tests.recorded_month.training import train
from tests.recorded_month.writing import write_month

ANNOUNCEMENT = (
    "Sunday at noon (UTC) we look at the model together. <b>Bring tea</b> [and](javascript:alert(3)) friends."
)


class State(str, Enum):
    """What is to be seen."""

    RUNNING = "running"
    EMPTY = "empty"
    PAUSED = "paused"
    FINISHED = "finished"


def record(folder: Path, *, people: int = 300, days: float = 30, now: float, state: State = State.RUNNING) -> RunFile:
    """Write the month that ends at a unix time; the same arguments give the same rows. Returns its run file."""
    folder.mkdir(parents=True, exist_ok=True)
    began = now - days * DAY
    there = [] if state == State.EMPTY else sittings(people, began, now, random.Random(7))
    run = month_run(folder)
    training = train(there, began, now, run.averaging.target_batch_size, np.random.default_rng(7))
    if state == State.FINISHED:
        run = month_run(folder, total_steps=int(training.numbers[-1]) + 1)
    write_month(folder, run, training, began, now)
    return run


def month_run(folder: Path, total_steps: int = 125_000) -> RunFile:
    """The Bengali run, open to everybody."""
    content = load_run(Path(runs.__path__[0]) / "bengali.yaml").model_dump()
    optimizer = content["optimizer"]
    content["optimizer"] = optimizer | {
        "total_steps": total_steps,
        "warmup_steps": min(optimizer["warmup_steps"], total_steps // 10),
    }
    content["coordinator"]["keep_every"] = 10_000
    content["access"] = {"open": True, "organizations": ["river-people"]}
    return parse_run(content, folder / "run.yaml")


def main(
    port: Annotated[int, typer.Option(help="0: any free one")] = 8899,
    folder: Annotated[Path | None, typer.Option(help="for the ledger; by default one that is gone afterwards")] = None,
    people: int = 300,
    days: float = 30,
    state: State = State.RUNNING,
) -> None:
    """Write the month, serve it until Ctrl-C."""
    with tempfile.TemporaryDirectory(prefix="sahaj-month-") as temporary:
        place = folder or Path(temporary)
        began = time.perf_counter()
        for old in place.glob("ledger.db*"):
            old.unlink()
        run = record(place, people=people, days=days, now=time.time(), state=state)
        typer.echo(f"written in {time.perf_counter() - began:.1f} s")
        with serving(run, place, port, going_on=state in (State.RUNNING, State.PAUSED)) as served:
            board = served.context.notices
            board.announce(ANNOUNCEMENT if state == State.RUNNING else "")
            board.pause() if state == State.PAUSED else board.resume()
            typer.echo(f"{served.url}  (the admin key is in {place / ADMIN_KEY})")
            try:
                while True:
                    time.sleep(60)
            except KeyboardInterrupt:
                typer.echo("stopped")


if __name__ == "__main__":
    typer.run(main)
