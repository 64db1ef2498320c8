"""Who will come: machines by kind, tables, and their speed with another model."""

from pathlib import Path

import pytest

from app.new.machines import COORDINATOR, KINDS, REFERENCE, at_model, read_volunteers, speed_of, to_csv
from app.new.sizing import SizingError
from app.plan.table import FASTEST, TableError, read_table
from swarm.run_file import RunFile, load_run

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def large() -> RunFile:
    return load_run(REFERENCE)


@pytest.fixture(scope="module")
def small() -> RunFile:
    return load_run(ROOT / "runs" / "demo.yaml")


def test_numbers_of_machines_become_a_table(large: RunFile):
    coordinator, notebooks, laptops = read_volunteers("12 t4, 3x Laptops", large)
    assert coordinator == COORDINATOR
    assert (notebooks.device, notebooks.count, laptops.device, laptops.count) == ("t4", 12, "laptops", 3)
    assert notebooks.samples_per_second == pytest.approx(22 / 0.985, rel=0.01)  # TFLOP/s, TFLOP a sample


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_a_row(kind: str, large: RunFile):
    rows = read_volunteers(f"1 {kind}", large)
    assert rows[-1].samples_per_second > 0


@pytest.mark.parametrize(
    "answer, message",
    [
        ("3 toasters", "toasters: no such kind of machine; there are laptop, "),
        ("0 t4", "0 t4: must be 1 to 1,000 machines"),
        ("1000 t4", "1000 t4: must be at most 1,000 machines with the coordinator, got 1,001"),
        ("600 t4, 600 mac", "at most 1,000 machines with the coordinator, got 1,201"),
        ("x" * 300, "cannot be read (File name too long)"),
        ("many", "many: neither a table of volunteers nor machines such as"),
        ("", "neither a table"),
        ("no.csv", "no.csv: no such table"),
    ],
)
def test_what_is_neither_ends_in_one_line(answer: str, message: str, large: RunFile):
    with pytest.raises((SizingError, TableError)) as told:
        read_volunteers(answer, large)
    assert message in str(told.value)
    assert "\n" not in str(told.value)


def test_a_table_keeps_its_coordinator(large: RunFile):
    table = ROOT / "runs" / "volunteers.csv"
    assert read_volunteers(str(table), large) == read_table(table)


def test_speeds_are_those_of_the_model(large: RunFile, small: RunFile):
    rows = read_volunteers("2 laptop", large)
    assert at_model(rows, large, large)[1].samples_per_second == pytest.approx(rows[1].samples_per_second, rel=0.01)
    faster = at_model(rows, large, small)[1].samples_per_second
    back = at_model(at_model(rows, large, small), small, large)
    assert faster > 300 * rows[1].samples_per_second
    assert back[1].samples_per_second == pytest.approx(rows[1].samples_per_second, rel=0.01)


def test_no_peer_computes_more_than_it_prepares(large: RunFile, small: RunFile):
    (_, gpu) = at_model(read_volunteers("1 h100", large), large, small)
    assert gpu.samples_per_second == pytest.approx(250_000 / 64, rel=0.01)


def test_a_machine_that_is_too_fast_for_a_tiny_model_is_as_fast_as_a_table_allows(small: RunFile):
    assert read_volunteers("1 h100", small)[-1].samples_per_second == FASTEST


def test_all_together_are_as_fast_as_a_plan_says(large: RunFile):
    one, two = (speed_of(read_volunteers(f"{count} h100", large), large)(large) for count in (1, 2))
    assert 0 < one < two


def test_the_table_that_is_written_can_be_read(large: RunFile, tmp_path: Path):
    rows = at_model(read_volunteers("12 t4, 3 laptop", large), large, large)
    (tmp_path / "volunteers.csv").write_text(to_csv(rows, "a-run"))
    assert read_table(tmp_path / "volunteers.csv") == rows
