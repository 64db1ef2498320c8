"""The notebook as a file, and the wheel that it installs."""

import csv
import hashlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat

from coordinator.http.credit import plain
from coordinator.notebook import at_the_hub, invitation, notebook_for
from coordinator.program import PACKAGES, this_program
from swarm.run_file import parse_run

LINK = "https://run.example.org"


def test_the_notebook_in_the_repository_is_what_the_command_writes(pytestconfig) -> None:
    kept = (pytestconfig.rootpath / "notebooks" / "join.ipynb").read_bytes()
    assert kept == notebook_for("", this_program()), "write it anew: sahaj notebook --out notebooks/join.ipynb"


def test_the_notebook_of_a_run_is_valid_and_has_its_link_and_the_program_in_its_one_cell() -> None:
    notebook = nbformat.reads(notebook_for(LINK, this_program(), run="রান_1 *x*").decode(), as_version=4)
    nbformat.validate(notebook)
    (cell,) = [cell for cell in notebook.cells if cell.cell_type == "code"]
    compile(cell.source, "cell", "exec")
    assert f'URL = "{LINK}"  # @param' in cell.source
    assert this_program().sha256 in cell.source
    assert notebook.cells[0].source.splitlines()[0] == f"# Join {plain('রান_1 *x*')}"


def test_a_link_is_text_in_the_cell_whatever_is_in_it() -> None:
    hostile = 'https://x/"; import os; os.abort(); "'
    notebook = nbformat.reads(notebook_for(hostile, this_program()).decode(), as_version=4)
    (line,) = [line for line in notebook.cells[1].source.splitlines() if line.startswith("URL = ")]
    told: dict[str, str] = {}
    exec(line, told)
    assert told["URL"] == hostile


def test_the_command_writes_a_notebook(tmp_path: Path) -> None:
    out = tmp_path / "join.ipynb"
    command = [sys.executable, "-m", "app.cli", "notebook", "run.example.org/", "--out", str(out)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert LINK in done.stdout
    assert out.read_bytes() == notebook_for(LINK, this_program())
    wrong = subprocess.run([*command[:4], "run.yaml"], check=False, capture_output=True, text=True, timeout=60)
    assert wrong.returncode == 20 and len(wrong.stderr.splitlines()) == 1


def test_the_wheel_is_the_program_that_runs_here(tmp_path: Path) -> None:
    program = this_program()
    path = tmp_path / program.file_name
    path.write_bytes(program.content)
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        record = next(name for name in names if name.endswith("/RECORD"))
        listed = {row[0] for row in csv.reader(io.StringIO(archive.read(record).decode()))}
    assert listed == set(names)
    assert {name.split("/")[0] for name in names} == {*PACKAGES, f"sahaj-{program.version}.dist-info"}
    assert all(name.endswith(".py") for name in names if "dist-info" not in name), "no files of the organizer"
    target = tmp_path / "installed"
    install = ("-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", target, path)
    subprocess.run([sys.executable, *install], check=True, timeout=120)
    for package in ("app/joining/join.py", "trainer/loop.py"):
        assert (target / package).read_bytes() == Path(package).read_bytes()
    where = f"import sys; sys.path.insert(0, {str(target)!r}); import app.cli; print(app.cli.__file__)"
    told = subprocess.run([sys.executable, "-I", "-c", where], check=True, capture_output=True, text=True)
    assert told.stdout.startswith(str(target))
    this_program.cache_clear()
    assert this_program().sha256 == program.sha256 == hashlib.sha256(program.content).hexdigest()


def test_a_release_has_the_notebook_where_others_can_come_by_its_link() -> None:
    content = {
        "name": "river",
        "data": {"train": [{"hub": "river/texts"}]},
        "access": {"open": True, "url": f"{LINK}/"},
        "release": {"repo": "river/boats", "every": 100},
    }
    run = parse_run(content, Path("run.yaml"))
    assert invitation(run) == {"join.ipynb": notebook_for(LINK, this_program(), run="river")}
    assert at_the_hub(run, 99) == ""
    assert at_the_hub(run, 100) == "https://huggingface.co/river/boats/blob/main/join.ipynb"
    hidden = content | {"release": {"repo": "river/boats", "every": 100, "private": True}}
    assert at_the_hub(parse_run(hidden, Path("run.yaml")), 100) == ""
    at_home = parse_run(content | {"access": {"open": True}}, Path("run.yaml"))
    here_alone = parse_run(content | {"access": {"open": True, "url": "http://127.0.0.1:8080"}}, Path("run.yaml"))
    for run in (at_home, here_alone):
        assert invitation(run) == {} and at_the_hub(run, 100) == ""
