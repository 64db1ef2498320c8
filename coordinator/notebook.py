"""The notebook by which a volunteer joins from Colab, Kaggle or any Jupyter: a few words, and one cell to run."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from coordinator.http.credit import HUB, plain
from coordinator.program import Program, this_program
from swarm.hosts import is_this_machine
from swarm.run_file import RunFile

CELL = Path(__file__).with_name("notebook_cell.py")
FILE_NAME = "join.ipynb"

WELCOME = """# Join {run}

Many people train one language model together here, each with whatever computer they have: this notebook lends the
one that Google, Kaggle or you provide. You need no knowledge of training, and nothing can be broken.

1. Choose a GPU if you can: in Colab *Runtime → Change runtime type*, in Kaggle *Settings → Accelerator*. Without one
   it works, too, only slower. On Kaggle also switch on *Settings → Turn on internet*.
2. {link}Press the round button at the left of the cell below. It installs the program (a minute or two), asks for
   a Hugging Face token if the run wants to know who you are, and begins.

A token [without any permission](https://huggingface.co/settings/tokens) is enough: *Create new token*,
*Fine-grained*, no box ticked. What you type is neither shown nor saved. Instead of typing it you may keep it among
the secrets of Colab (the key at the left) or Kaggle (*Add-ons → Secrets*), with the name `HF_TOKEN`.
"""
ASKED_LINK = "Write the link that the organizer has sent you into the field *URL*. "

MEANWHILE = """## What you see then

- The program fetches text from the Internet, hides some of its words, and lets the model guess them. How it would
  have guessed better is called a *gradient*. Those of all people together make one *global step*, after which
  everybody's model is a little better.
- **Loss** says how bad the guesses are: it falls. **You** is what you have brought, **Swarm** what all have.
- **To stop**, press the button again (or *Runtime → Interrupt execution*). What you have brought stays counted.
  Press it once more to go on.
- If the page loses its connection, the work goes on for as long as the machine is yours. If the machine was taken
  away, run the cell again.

The cell runs the program that the run's organizer offers, with all that this notebook may see: use it for runs of
people whom you trust. Others of the run see your name, the kind of device and what it has computed.
"""


def notebook_for(url: str, program: Program, *, run: str = "a training run") -> bytes:
    """The notebook of a run, in Jupyter's format 4.5.

    Args:
        url: the run's link; empty: the field is left to whoever opens the notebook, and so is which coordinator's
            program of this version it installs. With a link it installs this very program and no other.
        run: its name, for the heading.
    """
    heading = WELCOME.format(run=plain(run), link="" if url else ASKED_LINK)
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "id": "welcome", "metadata": {}, "source": heading},
        {
            "cell_type": "code",
            "id": "join",
            "metadata": {"cellView": "form"},
            "execution_count": None,
            "outputs": [],
            "source": code(url, program),
        },
        {"cell_type": "markdown", "id": "meanwhile", "metadata": {}, "source": MEANWHILE},
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


def invitation(run: RunFile) -> dict[str, bytes]:
    """The notebook as a file of a release, by its name; nothing where the run has no link that others can use."""
    url = run.access.url if run.access else None
    if not url or is_this_machine(urlsplit(url).hostname or ""):
        return {}
    return {FILE_NAME: notebook_for(url.rstrip("/"), this_program(), run=run.name)}


def at_the_hub(run: RunFile, step: int) -> str:
    """Where the notebook of a release lies for everybody to open; empty before there is one."""
    released = run.release is not None and not run.release.private and step >= run.release.every
    return f"{HUB}{run.release.repo}/blob/main/{FILE_NAME}" if run.release and released and invitation(run) else ""


def code(url: str, program: Program) -> str:
    """The cell, with the run's link and the program in it."""
    pinned = [program.version, program.file_name, program.sha256 if url else ""]
    filled = {
        'URL = ""': f"URL = {json.dumps(url)}",
        'VERSION, WHEEL, SHA256 = "", "", ""': "VERSION, WHEEL, SHA256 = " + ", ".join(map(json.dumps, pinned)),
    }
    source = CELL.read_text(encoding="utf-8")
    for empty, full in filled.items():
        assert source.count(empty) == 1, "the cell has one place for it"
        source = source.replace(empty, full)
    return source
