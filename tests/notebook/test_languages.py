"""The notebook in the run's language."""

import ast
import json

import nbformat
import pytest

from app.notebook import kernel
from coordinator.notebook.build import CELL, FORM, cell_texts, code, notebook_for
from coordinator.notebook.wheel import Program
from swarm.language import NAMES, SOURCE, Language

LINK = "https://run.example.org"
PROGRAM = Program("7.1.0", "sahaj_swarm-7.1.0-py3-none-any.whl", b"")
OTHERS = sorted(NAMES.keys() - {SOURCE})


class Hostile(Language):
    """A language whose texts try to be code."""

    def text(self, text: str) -> str:
        return '"; import os; os.abort(); "\nimport os; os.abort()'


@pytest.mark.parametrize("language", OTHERS)
def test_the_notebook_is_valid_in_every_language(language: str) -> None:
    notebook = nbformat.reads(notebook_for(LINK, PROGRAM, run="river", language=language).decode(), as_version=4)
    nbformat.validate(notebook)
    compile(notebook.cells[1].source, "cell", "exec")
    english = nbformat.reads(notebook_for(LINK, PROGRAM, run="river").decode(), as_version=4)
    for ours, theirs in zip(notebook.cells, english.cells, strict=True):
        assert ours.source != theirs.source
    assert f'URL = "{LINK}"  # @param' in notebook.cells[1].source and PROGRAM.sha256 in notebook.cells[1].source
    assert not any(form in notebook.cells[1].source for form in FORM)


def test_a_bengali_notebook_speaks_bengali() -> None:
    notebook = nbformat.reads(notebook_for(LINK, PROGRAM, run="river", language="bn").decode(), as_version=4)
    above, cell, below = (one.source for one in notebook.cells)
    assert above.startswith("# river-এ যোগ দিন\n") and below.startswith("## এরপর যা দেখবেন\n")
    assert cell.startswith("# @title যোগ দিতে এই ঘরটি চালান {")
    assert texts_in(cell)["The run's link: "] == "প্রশিক্ষণের লিংক: "


def test_a_translation_is_text_in_the_cell_whatever_is_in_it() -> None:
    cell = code(LINK, PROGRAM, Hostile())
    names = {type(node).__name__ for node in ast.parse(cell).body}
    assert names == {type(node).__name__ for node in ast.parse(code(LINK, PROGRAM)).body}
    assert "os.abort()" not in {ast.unparse(node) for node in ast.walk(ast.parse(cell)) if isinstance(node, ast.Call)}
    assert set(texts_in(cell)) == set(cell_texts(CELL.read_text()))


def test_the_kernel_tells_in_the_language_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    class Done:
        returncode, stdout = 0, json.dumps(Language("bn").texts())

    def run(command: list[str], **_: object) -> Done:
        asked.append(command)
        return Done()

    monkeypatch.setattr(kernel.subprocess, "run", run)
    assert kernel.translations("python", "") == kernel.translations("python", "en") == {} and not asked
    assert kernel.translations("python", "bn")["Loading the program …"] == "প্রোগ্রাম লোড হচ্ছে …"
    assert asked[0][:3] == ["python", "-I", "-c"] and asked[0][-1] == "bn"


def texts_in(cell: str) -> dict[str, str]:
    (found,) = [node for node in ast.parse(cell).body if isinstance(node, ast.AnnAssign)]
    assert found.value is not None
    told = ast.literal_eval(found.value)
    assert isinstance(told, dict)
    return told
