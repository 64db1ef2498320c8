"""`sahaj plan`: the same function as in a round, a readable report, and one line for a bad table."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from app.plan.forecast import DAY, MEGABIT, Forecast, forecast, outlook, step_of
from app.plan.forecast_report import render
from app.plan.table import TableError, Volunteers, read_table
from averaging.load_balancing.plan import Node, Role, make_plan, unplanned
from swarm.run_file import RunFile, load_run, parse_run
from tests.support.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[3]
RUN = ROOT / "runs" / "english.yaml"
TABLE = ROOT / "runs" / "volunteers.csv"
HEADER = "device,count,samples_per_second,down,up,client_mode,hours\n"


@pytest.fixture(scope="module")
def run() -> RunFile:
    return load_run(RUN)


def shown(found: Forecast) -> str:
    console = Console(width=160)
    with console.capture() as captured:
        console.print(render(found))
    return captured.get()


def volunteers(**changes: object) -> Volunteers:
    row = {"device": "laptop", "samples_per_second": 10.0, "down": 100.0, "up": 20.0}
    return Volunteers.model_validate(row | changes)


def test_a_device_may_be_called_anything(run: RunFile):
    assert "[/bold] 2" in shown(forecast(run, [volunteers(device="[/bold] 2")]))


def averaging(run: RunFile, **changes: object) -> RunFile:
    content = run.model_dump(mode="json")
    content["averaging"] |= changes
    return parse_run(content, RUN)


def test_the_forecast_is_the_plan_of_a_round(run: RunFile):
    rows = [volunteers(count=5), volunteers(samples_per_second=0.0, up=500.0, down=500.0)]
    peers = [Node(10.0, 20 * MEGABIT, 100 * MEGABIT)] * 5 + [Node(0.0, 500 * MEGABIT, 500 * MEGABIT)]
    found, step = forecast(run, rows), step_of(run)
    made = make_plan(peers, step)
    assert found.planned.step_seconds == pytest.approx(made.step_seconds)
    assert found.planned.averaging_seconds == pytest.approx(made.averaging_seconds)
    assert found.equal.averaging_seconds == pytest.approx(unplanned(peers, step).averaging_seconds)
    assert found.planned.samples_per_second == pytest.approx(4096 / made.step_seconds)
    assert found.planned.days == pytest.approx(run.optimizer.total_steps * made.step_seconds / DAY)
    assert sum(row.parts for row in found.rows) == pytest.approx(1.0)
    assert sum(row.samples for row in found.rows) == pytest.approx(1.0)
    assert outlook(run, rows) == found.planned


def test_who_comes_for_half_of_the_day_brings_half_as_much(run: RunFile):
    always = forecast(run, [volunteers(count=48, up=1000.0, down=1000.0)])
    half = forecast(run, [volunteers(count=48, up=1000.0, down=1000.0, hours=12.0)])
    assert half.planned.samples_per_second == pytest.approx(always.planned.samples_per_second / 2, rel=0.05)


def test_a_round_sends_what_the_encoding_says(run: RunFile):
    elements = forecast(run, [volunteers()]).parameters
    wire = {kind: step_of(averaging(run, compression=kind)).wire_bytes for kind in ("8bit", "float16", "none")}
    assert wire["none"] == pytest.approx(4 * elements, rel=1e-3)
    assert wire["float16"] == pytest.approx(2 * elements, rel=1e-3)
    assert wire["8bit"] == pytest.approx(elements * (1 + 2 / 128), rel=1e-3)


def test_what_would_help_is_found(run: RunFile):
    def best(rows: list[Volunteers], of: RunFile = run) -> str:
        return forecast(of, rows).changes[0].name

    gpus = volunteers(count=30, samples_per_second=100.0, client_mode=True)
    assert best([gpus, volunteers(up=5.0)]) == "a machine at 1,000 Mbit/s that only averages"
    assert best([gpus, volunteers(up=1000.0, down=1000.0)], averaging(run, compression="none")) in (
        "averaging.compression: float16",
        "a batch of 8,192",
    )
    balanced = [volunteers(count=4, samples_per_second=100.0, up=100.0, down=100.0)]
    assert best(balanced, averaging(run, overlap=False)) == "averaging.overlap: true"


def test_processors_as_the_limit_are_named(run: RunFile):
    report = shown(forecast(run, [volunteers(count=3, samples_per_second=1.0, up=1000.0, down=1000.0)]))
    assert "computing is the limit" in report


def test_a_table_that_nobody_can_average_with_is_told(run: RunFile):
    found = forecast(run, [volunteers(count=3, client_mode=True)])
    assert found.planned.days is None
    assert found.planned.idle_fraction == 1.0
    report = shown(found)
    assert "never" in report
    assert "No peer could average" in report


def test_the_example_is_planned_and_reported(run: RunFile):
    found = forecast(run, read_table(TABLE))
    report = shown(found)
    assert found.planned.samples_per_second > found.equal.samples_per_second
    for row in read_table(TABLE):
        assert row.device in report
    assert found.rows[0].role is Role.AGGREGATOR
    assert "What helps most" in report


def test_what_a_table_leaves_out_has_a_default(tmp_path: Path):
    lines = "T4, 3, 28.5, 200, 100, yes, 8\nhost,,0,500,500,,\n"
    (tmp_path / "table.csv").write_text("\ufeff# expected\n" + HEADER + lines)
    rows = read_table(tmp_path / "table.csv")
    assert (rows[0].device, rows[0].samples_per_second, rows[0].up) == ("T4", 28.5, 100.0)
    assert (rows[0].client_mode, rows[1].count, rows[1].hours) == (True, 1, 24.0)


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "no volunteers in it"),
        (HEADER + "T4,3,28,200,100\n", "line 2 has 5 cells, the header has 7 columns"),
        (HEADER + "T4,2.5,28,200,100,no,8\n", "line 2: count must be a whole number, got '2.5'"),
        (HEADER + "T4,3,fast,200,100,no,8\n", "line 2: samples_per_second must be a number, got 'fast'"),
        (HEADER + "T4,3,28,200,nan,no,8\n", "line 2: up must be a finite number"),
        (HEADER + "T4,3,28,200,100,maybe,8\n", "line 2: client_mode must be true or false, got 'maybe'"),
        (HEADER + "T4,3,28,,100,no,8\n", "line 2: down is missing"),
        (HEADER + "T4,3,0,200,100,yes,8\n", "neither average nor compute"),
        (HEADER + "host,3,0,200,100,no,8\n", "nobody computes"),
        (HEADER + "T4,900,1,200,100,no,8\n" * 2, "at most 1,000 volunteers, got 1,800"),
        (HEADER.replace("down", "donw") + "T4,3,28,200,100,no,8\n", "unknown key donw; did you mean down"),
        (HEADER.replace("down", "up") + "T4,3,28,200,100,no,8\n", "a column is given twice"),
        (HEADER + '"T4,3\n', "line 2"),
    ],
)
def test_a_bad_table_ends_in_one_line(text: str, message: str, tmp_path: Path):
    (tmp_path / "table.csv").write_text(text)
    with pytest.raises(TableError, match=r"table\.csv") as told:
        read_table(tmp_path / "table.csv")
    assert message in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("make", [lambda path: path, lambda path: path.mkdir(), lambda path: path.write_bytes(b"\xff")])
def test_a_table_that_cannot_be_read_is_told(make, tmp_path: Path):
    make(tmp_path / "table.csv")
    with pytest.raises(TableError, match=r"table\.csv"):
        read_table(tmp_path / "table.csv")


def sahaj(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "app.cli", "plan", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=PATIENCE)


def test_the_command_line(tmp_path: Path):
    done = sahaj(TABLE, "--run", RUN, "--json", "plan.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Colab T4" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"plan.json"}
    figures = json.loads((tmp_path / "plan.json").read_text())
    assert figures["peers"] == 49
    assert [row["device"] for row in figures["rows"]] == [row.device for row in read_table(TABLE)]
    missing = sahaj("no.csv", "--run", RUN, "--json", "other.json", cwd=tmp_path)
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr == "sahaj: no.csv: no such table; runs/volunteers.csv is an example\n"
    without_run = sahaj(TABLE, cwd=tmp_path)
    assert (without_run.returncode, len(without_run.stderr.splitlines())) == (2, 1)
    assert "run.yaml: no such run file" in without_run.stderr
    assert not (tmp_path / "other.json").exists()


def test_the_plan_needs_neither_torch_nor_hivemind(tmp_path: Path):
    code = (
        "import sys; sys.argv = ['sahaj', 'plan', *sys.argv[1:]]\n"
        "from app.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print({'torch', 'hivemind', 'transformers', 'scipy'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, TABLE, "--run", RUN], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stderr.strip() == "set()"
