"""The table of volunteers that an organizer expects: CSV with a header line."""

import csv
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

from pydantic import Field, ValidationError, model_validator

from swarm.errors import SahajError
from swarm.run_file import Count, Section
from swarm.run_file.validation_messages import describe

MOST = 1_000  # volunteers in a table; a forecast for so many takes some 20 seconds
FASTEST = 1e6  # samples a second


class TableError(SahajError):
    """The table of volunteers is missing, unreadable, or holds a key or a value that is not allowed."""

    exit_status = 2


class Volunteers(Section):
    """A row: volunteers with the same device and the same line."""

    device: str = Field(description="what it is, for the report", min_length=1)
    count: Count = Field(1, le=MOST, description="how many volunteers have it")
    samples_per_second: float = Field(
        ge=0, le=FASTEST, description="what each computes; 0: it only averages, as the coordinator"
    )
    down: float = Field(gt=0, le=1e6, description="Mbit/s from the Internet")
    up: float = Field(gt=0, le=1e6, description="Mbit/s to the Internet")
    client_mode: bool = Field(False, description="accepts no connections, as behind most routers and in notebooks")
    hours: float = Field(24.0, gt=0, le=24, description="hours a day in which it takes part")

    @model_validator(mode="after")
    def _is_of_use(self) -> "Volunteers":
        if self.client_mode and not self.samples_per_second:
            raise ValueError("in client mode and with samples_per_second 0 it could neither average nor compute")
        return self


def read_table(path: Path) -> tuple[Volunteers, ...]:
    """Read and check a table.

    Raises:
        TableError: one line that names file, row, key, value and what is allowed.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise TableError(f"{path}: no such table; runs/volunteers.csv is an example") from None
    except (OSError, UnicodeDecodeError) as error:
        raise TableError(f"{path}: cannot be read as a table of volunteers ({error})") from None
    rows = tuple(_rows(path, text))
    if not rows:
        raise TableError(f"{path}: no volunteers in it; each row needs at least {_needed()}")
    if (number := sum(row.count for row in rows)) > MOST:
        raise TableError(f"{path}: must have at most {MOST:,} volunteers, got {number:,}")
    if not any(row.samples_per_second for row in rows):
        raise TableError(f"{path}: nobody computes; at least one row needs samples_per_second above 0")
    return rows


def _rows(path: Path, text: str) -> Iterator[Volunteers]:
    lines = csv.reader(StringIO(text), skipinitialspace=True)
    header: list[str] | None = None
    try:
        for line in lines:
            cells = [cell.strip() for cell in line]
            if not any(cells) or cells[0].startswith("#"):
                continue
            if header is None:
                header = cells
                if len(set(header)) < len(header):
                    raise TableError(f"{path}: line {lines.line_num}: a column is given twice in {', '.join(header)}")
                continue
            if len(cells) != len(header):
                raise TableError(
                    f"{path}: line {lines.line_num} has {len(cells)} cells, the header has {len(header)} columns"
                )
            given = {key: cell for key, cell in zip(header, cells, strict=True) if cell}
            yield Volunteers.model_validate_strings(given, strict=False)
    except ValidationError as error:
        raise TableError(f"{path}: line {lines.line_num}: {describe(error, Volunteers)}") from None
    except csv.Error as error:
        raise TableError(f"{path}: line {lines.line_num}: not valid CSV ({error})") from None


def _needed() -> str:
    return ", ".join(name for name, field in Volunteers.model_fields.items() if field.is_required())
