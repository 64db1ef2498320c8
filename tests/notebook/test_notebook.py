"""The notebook as a file, and the wheel that it installs."""

import csv
import hashlib
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat

from coordinator.http.badges import plain
from coordinator.notebook.build import at_the_hub, invitation, notebook_for
from coordinator.notebook.wheel import PACKAGES, Program, this_program
from swarm.run_file import ReleaseSection
from tests.app.join.stand_in import OPEN_RUN
from tests.support.waiting import PATIENCE

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


def test_the_rules_of_the_platforms_are_told_before_the_button() -> None:
    welcome = nbformat.reads(notebook_for(LINK, this_program()).decode(), as_version=4).cells[0].source
    assert "research.google.com/colaboratory/faq.html" in welcome and "quota" in welcome


def test_a_link_is_text_in_the_cell_whatever_is_in_it() -> None:
    hostile = 'https://x/"; import os; os.abort(); "'
    notebook = nbformat.reads(notebook_for(hostile, this_program()).decode(), as_version=4)
    (line,) = [line for line in notebook.cells[1].source.splitlines() if line.startswith("URL = ")]
    told: dict[str, str] = {}
    exec(line, told)
    assert told["URL"] == hostile


def write_notebook(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "app.cli", "notebook", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)


def test_the_command_writes_the_notebook_of_the_run_whose_program_may_be_another(
    served: tuple[str, Path], tmp_path: Path
) -> None:
    url, folder = served
    other = Program("7.1.0", "sahaj_swarm-7.1.0-py3-none-any.whl", b"")
    (folder / "api").mkdir()
    (folder / "api" / "run").write_text(json.dumps(OPEN_RUN))
    (folder / "join.ipynb").write_bytes(notebook_for(LINK, other, run="river"))
    out = tmp_path / "join.ipynb"
    done = write_notebook(f"{url}/", "--out", out)
    assert done.returncode == 0 and url in done.stdout, done.stderr
    assert out.read_bytes() == (folder / "join.ipynb").read_bytes()


def test_without_an_answer_no_notebook_of_a_run_is_written(served: tuple[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "join.ipynb"
    for link, status in (("http://127.0.0.1:9", 22), ("run.yaml", 20), (served[0], 25)):
        done = write_notebook(link, "--out", out)
        assert (done.returncode, done.stderr.count("\n")) == (status, 1), done.stderr
    assert not out.exists()


def test_the_wheel_is_the_program_that_runs_here(tmp_path: Path) -> None:
    program = this_program()
    path = tmp_path / program.file_name
    path.write_bytes(program.content)
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        record = next(name for name in names if name.endswith("/RECORD"))
        listed = {row[0] for row in csv.reader(io.StringIO(archive.read(record).decode()))}
    assert listed == set(names)
    assert {name.split("/")[0] for name in names} == {*PACKAGES, f"sahaj_swarm-{program.version}.dist-info"}
    assert all(
        name.endswith((".py", ".jinja", ".po", "/join.sh", "/constraints.txt"))
        for name in names
        if "dist-info" not in name
    ), "no files of the organizer"
    target = tmp_path / "installed"
    install = ("-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", target, path)
    subprocess.run([sys.executable, *install], check=True, timeout=PATIENCE)
    for package in ("app/join/join.py", "trainer/train.py"):
        assert (target / package).read_bytes() == Path(package).read_bytes()
    where = f"import sys; sys.path.insert(0, {str(target)!r}); import app.cli; print(app.cli.__file__)"
    told = subprocess.run([sys.executable, "-I", "-c", where], check=True, capture_output=True, text=True)
    assert told.stdout.startswith(str(target))
    this_program.cache_clear()
    assert this_program().sha256 == program.sha256 == hashlib.sha256(program.content).hexdigest()


def test_a_release_has_the_notebook_where_others_can_come_by_its_link() -> None:
    assert invitation("river", f"{LINK}/") == {"join.ipynb": notebook_for(LINK, this_program(), run="river")}
    for link in (None, "", "http://127.0.0.1:8080", "http://localhost:8080"):
        assert invitation("river", link) == {}
    release = ReleaseSection(repo="river/boats")
    assert at_the_hub(release) == "https://huggingface.co/river/boats/blob/main/join.ipynb"
    assert at_the_hub(release.model_copy(update={"private": True})) == ""
