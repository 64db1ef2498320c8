"""Builds the notebook with which a volunteer joins from Colab, Kaggle or Jupyter: a short text, and one cell to run."""

import ast
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from coordinator.http.badges import HUB, plain
from coordinator.notebook.wheel import Program, this_program
from coordinator.notebook.words import meanwhile, welcome
from swarm.hosts import is_this_machine
from swarm.language import SOURCE, Language, mark
from swarm.run_file import ReleaseSection

CELL = Path(__file__).with_name("cell.py")
FILE_NAME = "join.ipynb"
ENGLISH = Language()
# words of the cell in comments, from which Colab makes a form
FORM = (
    mark("Run this cell to join"),
    mark("only for an open run; otherwise your Hugging Face name is used"),
)


def notebook_for(url: str, program: Program, *, run: str = "", language: str = SOURCE) -> bytes:
    """The notebook of a run, in Jupyter's format 4.5.

    Args:
        url: the run's link, with which the notebook installs exactly this program. If it is empty, the reader fills it
            in, and the notebook installs the program of that coordinator, which must have the same version.
        run: its name, for the heading.
        language: code of the one in which it is written.
    """
    spoken = Language(language)
    heading = welcome(spoken, plain(run) or spoken.text(mark("a training run")), has_link=url != "")
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "id": "welcome", "metadata": {}, "source": heading},
        {
            "cell_type": "code",
            "id": "join",
            "metadata": {"cellView": "form"},
            "execution_count": None,
            "outputs": [],
            "source": code(url, program, spoken),
        },
        {"cell_type": "markdown", "id": "meanwhile", "metadata": {}, "source": meanwhile(spoken)},
    ]
    content = {
        "cells": [cell | {"source": cell["source"].strip().splitlines(keepends=True)} for cell in cells],
        "metadata": {
            "accelerator": "GPU",
            "colab": {"gpuType": "T4", "provenance": []},
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


def invitation(name: str, link: str | None, language: str = SOURCE) -> dict[str, bytes]:
    """The notebook of a run as a file of a release, by its name; empty if others cannot use the link."""
    link = link_for_others(link)
    return {FILE_NAME: notebook_for(link, this_program(), run=name, language=language)} if link else {}


def at_the_hub(release: ReleaseSection) -> str:
    """URL of the notebook in a release that has one; empty if the release is private."""
    return "" if release.private else f"{HUB}{release.repo}/blob/main/{FILE_NAME}"


def link_for_others(url: str | None) -> str:
    """A run's link; empty if it has none, or one that works only on this machine."""
    host = urlsplit(url or "").hostname or ""
    return "" if not url or is_this_machine(host) else url.rstrip("/")


def code(url: str, program: Program, language: Language = ENGLISH) -> str:
    """The source of the cell, with the run's link, the program and its words filled in."""
    source = CELL.read_text(encoding="utf-8")
    texts = {text: told for text in cell_texts(source) if (told := language.text(text)) != text}
    pinned = [program.version, program.file_name, program.sha256 if url else ""]
    filled = {
        **{text: " ".join(language.text(text).replace('"', "'").split()) for text in FORM},
        'URL = ""': f"URL = {json.dumps(url)}",
        "TEXTS: dict[str, str] = {}": f"TEXTS: dict[str, str] = {json.dumps(texts, ensure_ascii=False)}",
        'VERSION, WHEEL, SHA256 = "", "", ""': "VERSION, WHEEL, SHA256 = " + ", ".join(map(json.dumps, pinned)),
    }
    for empty, full in filled.items():
        assert source.count(empty) == 1, "the cell has one place for it"
        source = source.replace(empty, full)
    return source


def cell_texts(source: str) -> list[str]:
    """What the cell tells: the texts of its `_("...")`."""
    return [
        str(node.args[0].value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "_"
        and isinstance(node.args[0], ast.Constant)
    ]
