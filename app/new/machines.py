"""Who will come: a table of volunteers, or numbers of machines of some kinds; and how fast they are with another model.

A table's samples per second hold for one model, that of the run with which they were measured. For another one they are
scaled by the operations of a sample: a core that computed 84 GFLOP/s with the model of 512 wide in `SIZES` had 68 with
that of 128. GPUs lose more, so small models are slower there than this says. A kind's speed is a third of what its data
sheet promises, or four or eight such cores. All of it is an estimate.
"""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.new.sizing import SizingError, Speed
from app.plan.forecast import outlook
from app.plan.table import FASTEST, MOST, Volunteers, read_table
from swarm.files import lookup_errors
from swarm.run_file import RunFile
from trainer.model_size import sample_flops

REFERENCE = Path(__file__).parents[2] / "runs" / "bengali.yaml"  # ALBERT-large, as the figures of runs/volunteers.csv
PREPARED = 250_000  # tokens a second that a peer makes samples of, with one core (measured)
DIGITS = 3  # of an estimated speed
COORDINATOR = Volunteers(device="coordinator", samples_per_second=0.0, down=100.0, up=100.0)
MACHINES = re.compile(r"(\d+) *x? *([a-z][a-z0-9-]*)", re.IGNORECASE)


@dataclass(frozen=True)
class Kind:
    """A usual machine."""

    tflops: float  # that training a wide model reaches
    down: float  # Mbit/s
    up: float
    hours: float  # a day


KINDS = {
    "laptop": Kind(0.3, 50.0, 10.0, 8.0),  # four cores
    "desktop": Kind(0.6, 50.0, 10.0, 8.0),  # eight cores
    "mac": Kind(1.2, 50.0, 10.0, 8.0),  # Apple silicon: 3.6 in 32 bits (M2)
    "rtx": Kind(17.0, 100.0, 20.0, 8.0),  # a gaming GPU: 51 TFLOP/s in 16 bits (RTX 3060)
    "t4": Kind(22.0, 200.0, 100.0, 8.0),  # a notebook on Colab or Kaggle: 65
    "l4": Kind(40.0, 500.0, 500.0, 24.0),  # 121
    "a100": Kind(104.0, 500.0, 500.0, 24.0),  # 312
    "h100": Kind(330.0, 500.0, 500.0, 24.0),  # 989
}


def read_volunteers(answer: str, measured: RunFile) -> tuple[Volunteers, ...]:
    """The rows of a table, or of machines such as `12 t4, 15 laptop`; a coordinator is added where none is named.

    Args:
        measured: the run whose model the samples per second are for, in a table and in the result.

    Raises:
        SizingError, TableError: one line.
    """
    parts = [part.strip() for part in answer.split(",")]
    found = [MACHINES.fullmatch(part) for part in parts]
    if not all(found):
        with lookup_errors(answer, SizingError):
            is_table = bool(Path(answer).suffix) or Path(answer).is_file()
        if not is_table:
            raise SizingError(f"{answer}: neither a table of volunteers nor machines such as `12 t4, 15 laptop`")
        rows = read_table(Path(answer))
    else:
        rows = tuple(_row(int(one[1]), one[2].lower(), measured) for one in found if one)
    if all(row.samples_per_second for row in rows):
        rows = (COORDINATOR, *rows)
    if (number := sum(row.count for row in rows)) > MOST:
        raise SizingError(f"{answer}: must be at most {MOST:,} machines with the coordinator, got {number:,}")
    return rows


def speed_of(rows: Sequence[Volunteers], measured: RunFile) -> Speed:
    """The speed of all together with another model, as `sahaj plan` predicts it."""
    return lambda run: outlook(run, at_model(rows, measured, run)).samples_per_second


def at_model(rows: Sequence[Volunteers], measured: RunFile, run: RunFile) -> tuple[Volunteers, ...]:
    """The same volunteers, with samples per second for the model of `run`."""
    ratio = sample_flops(measured) / sample_flops(run)

    def at_most(speed: float) -> float:
        return float(f"{min(speed, PREPARED / run.data.max_length):.{DIGITS}g}")

    return tuple(row.model_copy(update={"samples_per_second": at_most(row.samples_per_second * ratio)}) for row in rows)


def to_csv(rows: Sequence[Volunteers], name: str) -> str:
    """A table as `sahaj plan` reads it, for the model of the run `name`."""
    written = io.StringIO()
    written.write(
        f"# Who is expected in {name}. Samples per second are estimates for this model; trainers say theirs\n"
    )
    written.write("# when they start. Down and up are Mbit/s, hours are those of a day.\n")
    columns = list(Volunteers.model_fields)
    table = csv.writer(written, lineterminator="\n")
    table.writerow(columns)
    table.writerows([_cell(getattr(row, column)) for column in columns] for row in rows)
    return written.getvalue()


def _row(count: int, name: str, measured: RunFile) -> Volunteers:
    kind = KINDS.get(name.removesuffix("s") if name not in KINDS else name)
    if kind is None:
        raise SizingError(f"{name}: no such kind of machine; there are {', '.join(KINDS)}, or name a table")
    if not 0 < count <= MOST:
        raise SizingError(f"{count} {name}: must be 1 to {MOST:,} machines")
    speed = min(FASTEST, kind.tflops * 1e12 / sample_flops(measured))
    return Volunteers(
        device=name,
        count=count,
        samples_per_second=speed,
        down=kind.down,
        up=kind.up,
        client_mode=True,
        hours=kind.hours,
    )


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
