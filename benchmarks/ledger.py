"""How the ledger bears a large run: a thousand peers that report each of five thousand global steps.

    python -m benchmarks.ledger [--peers 1000] [--steps 5000] [--database URL] [--json FILE]

In SQLite, and in PostgreSQL where a server can be started for it (both wait for the disk), or in the empty database
at a URL. What each peer brought is read from a header of the log, and the ledger's clock runs as if a step took 10
seconds; the benchmark does not wait for it. What counts: reading and writing a step takes much less than those 10
seconds, the leaderboard answers in under 0.1 s at the end, the file stays below 1 GB, and not one contribution is
missing or counted twice.
"""

import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from hivemind.p2p import PeerID
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sqlalchemy import create_engine, make_url, text

from averaging.log.header import Ballot, Header, HeaderKind, Member, Part
from benchmarks.support import command
from coordinator.ledger.ingest import SessionReport, day_of
from coordinator.ledger.ledger import Ledger, open_ledger
from coordinator.ledger.recorder import credited, ledger_id
from coordinator.ledger.storage.backup import backup_of
from swarm.errors import SahajError
from swarm.files import write_file
from tests.support.postgres_server import WhyNot, running_server

BEGAN = 1_700_000_000.0  # unix time of the first step
STEP_SECONDS = 10.0
DEVICES = 2  # of each user
LONGEST = 128  # tokens of a sample
SAMPLES, TOKENS = 4, 4 * LONGEST  # of each contribution
MASKED = 0.15  # of the tokens
QUESTIONS = 5  # times that each question is asked; the median counts


@dataclass(frozen=True)
class Figures:
    """Of one database; times in seconds."""

    peers: int
    steps: int
    credit_seconds_per_step: float  # reading a header; the mean
    credit_seconds_slowest_step: float
    write_seconds_per_step: float  # the mean
    write_seconds_slowest_step: float
    reading_again_seconds: float  # all reports once more, none of them new
    restart_seconds: float  # open the ledger and take in all reports once more
    leaderboard_seconds: float
    leaderboard_of_a_day_seconds: float
    sessions_seconds: float
    steps_seconds: float
    progress_seconds: float
    totals_seconds: float
    file_bytes: int
    back_up_seconds: float | None  # of an SQLite ledger at the end


def main(
    peers: Annotated[int, typer.Option(min=1)] = 1000,
    steps: Annotated[int, typer.Option(min=1, help="Global steps.")] = 5000,
    database: Annotated[str | None, typer.Option(metavar="URL", help="Measure this one, which must be empty.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """Measure, print a table, and write the JSON file if one is asked for."""
    found: dict[str, Figures] = {}
    for url in [database] if database else ["sqlite:///ledger.db", "postgresql"]:
        try:
            with _database(url) as (place, folder):
                found[make_url(place).get_backend_name()] = measure(place, folder, peers, steps)
        except WhyNot as reason:
            Console(stderr=True).print(f"PostgreSQL is left out: {reason}")
    _print(found)
    if json_file:
        write_file(json_file, json.dumps({name: asdict(one) for name, one in found.items()}, indent=2) + "\n")


def measure(url: str, folder: Path, peers: int, steps: int) -> Figures:
    """A whole run, then the questions that the dashboard asks.

    Raises:
        SahajError: the sums are not what was reported.
    """
    ledger = open_ledger(url, folder)
    times: list[float] = []
    crediting: list[float] = []
    reports: list[SessionReport] = []
    for told, header in track(_run(peers, steps), make_url(url).get_backend_name(), total=steps, transient=True):
        began = time.perf_counter()
        reports = credited(told, [header], (), MASKED, told[0].last_seen)
        crediting.append(time.perf_counter() - began)
        began = time.perf_counter()
        ledger.record(reports, now=reports[0].last_seen)
        times.append(time.perf_counter() - began)
    now = BEGAN + steps * STEP_SECONDS
    again = _seconds(lambda: ledger.record(reports, now=now))
    ledger.close()
    began = time.perf_counter()
    ledger = open_ledger(url, folder)
    ledger.record(reports, now=now)
    restart = time.perf_counter() - began
    _check(ledger, peers, steps)
    figures = Figures(
        peers=peers,
        steps=steps,
        credit_seconds_per_step=round(statistics.mean(crediting), 4),
        credit_seconds_slowest_step=round(max(crediting), 4),
        write_seconds_per_step=round(statistics.mean(times), 4),
        write_seconds_slowest_step=round(max(times), 4),
        reading_again_seconds=round(again, 4),
        restart_seconds=round(restart, 4),
        leaderboard_seconds=_asked(lambda: ledger.leaderboard(now)),
        leaderboard_of_a_day_seconds=_asked(lambda: ledger.leaderboard(now, since=day_of(now))),
        sessions_seconds=_asked(lambda: ledger.sessions(now)),
        steps_seconds=_asked(ledger.steps),
        progress_seconds=_asked(lambda: ledger.progress(now)),
        totals_seconds=_asked(ledger.totals),
        file_bytes=_bytes(url, folder),
        back_up_seconds=_asked(ledger.back_up) if backup_of(make_url(url)) else None,
    )
    ledger.close()
    return figures


def _run(peers: int, steps: int) -> Iterator[tuple[list[SessionReport], Header]]:
    """All reports after each global step, and its header; a peer's loss falls as the run goes on."""
    ids = [str(PeerID(b"\x12\x20" + number.to_bytes(32, "big"))) for number in range(peers)]
    sessions = [f"{one}.{number:08x}" for number, one in enumerate(ids)]
    for step in range(steps):
        members = tuple(
            Member(
                session,
                f"user-{number // DEVICES}",
                (step,),
                weight=round(TOKENS * MASKED),
                reachable=False,
                samples=SAMPLES,
                loss=9.0 - step / steps + number / peers,
            )
            for number, session in enumerate(sessions)
        )
        ballot = Ballot(step + 1, "coordinator.0")
        parts = (Part(sessions[0], ("0" * 64,)),)
        yield (
            [
                SessionReport(
                    session_id=ledger_id(session),
                    user=f"user-{number // DEVICES}",
                    peer_id=ids[number],
                    client_mode=True,
                    device="Tesla T4, 2 cores",
                    started=BEGAN,
                    last_seen=BEGAN + (step + 1) * STEP_SECONDS,
                    step=step + 1,
                    samples_per_second=12.5,
                    averaging_rounds=step + 1,
                    averaging_failures=0,
                    data_wait_fraction=0.01,
                    left=False,
                )
                for number, session in enumerate(sessions)
            ],
            Header("run", step + 1, HeaderKind.UPDATE, "0" * 64, ballot, members=members, parts=parts),
        )


def _check(ledger: Ledger, peers: int, steps: int) -> None:
    """Everything was counted, and once, however often it was reported."""
    totals, expected = ledger.totals(), SAMPLES * peers * steps
    by_step = {(one.samples, one.peers) for one in ledger.steps()}
    by_user = sum(one.samples for one in ledger.leaderboard())
    if (totals.steps, totals.samples, by_user, by_step) != (steps, expected, expected, {(SAMPLES * peers, peers)}):
        raise SahajError(f"the ledger holds {totals.samples} samples where {expected} were reported")


@contextlib.contextmanager
def _database(url: str) -> Iterator[tuple[str, Path]]:
    """The database and the folder for its state; `postgresql` alone starts a server."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sahaj-bench-")))
        yield (stack.enter_context(running_server(durable=True)) if url == "postgresql" else url), folder


def _bytes(url: str, folder: Path) -> int:
    """What the database takes on the disk, with what SQLite has yet to move from its log."""
    place = make_url(url)
    if place.get_backend_name() == "sqlite":
        return sum(file.stat().st_size for file in folder.glob(f"{place.database}*"))
    engine = create_engine(place)
    with engine.connect() as connection:
        size = connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one()
    engine.dispose()
    return int(size)


def _asked(question: Callable[[], object]) -> float:
    return round(statistics.median(_seconds(question) for _ in range(QUESTIONS)), 4)


def _seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _print(found: dict[str, Figures]) -> None:
    table = Table("", *found)
    rows = [asdict(one) for one in found.values()]
    for name in Figures.__dataclass_fields__:
        unit = "{:,.4f}" if "_seconds" in name else "{:,}"
        figures = ("" if row[name] is None else unit.format(row[name]) for row in rows)
        table.add_row(name.replace("_", " "), *figures)
    Console().print(table)


if __name__ == "__main__":
    command.run(main)
