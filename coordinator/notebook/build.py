"""Builds the notebook with which a volunteer joins from Colab, Kaggle or Jupyter: a short text, and one cell to run."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from coordinator.http.badges import HUB, plain
from coordinator.notebook.wheel import Program, this_program
from swarm.hosts import is_this_machine
from swarm.run_file import ReleaseSection

CELL = Path(__file__).with_name("cell.py")
FILE_NAME = "join.ipynb"

WELCOME = """# Join {run}

Many people train one language model together here, each with whatever computer they have: this notebook lends the
one that Google, Kaggle or you provide. You need no knowledge of training.

The provider decides what such a computer may be used for. Colab's
[FAQ](https://research.google.com/colaboratory/faq.html) has been quoted as disallowing *running distributed computing
workers* for those without a paid balance of compute units, and may end such a session or restrict an account: read it
before you press the button. Kaggle gives each account a quota of hours of GPU a week, and this uses it up.

1. Choose a GPU if you can: in Colab *Runtime → Change runtime type*, in Kaggle *Settings → Accelerator*. Without one
   it works, too, only slower. On Kaggle also switch on *Settings → Turn on internet*.
2. {link}Press the round button at the left of the cell below. It installs the program (a minute or two), asks for
   a Hugging Face token if the run needs one, and begins.

A token [without any permission](https://huggingface.co/settings/tokens) is enough: *Create new token*,
*Fine-grained*, no box ticked. What you type is neither shown nor saved. Instead of typing it you may keep it among
the secrets of Colab (the key at the left) or Kaggle (*Add-ons → Secrets*), with the name `HF_TOKEN`.
"""
ASKED_LINK = """Write the link that the organizer has sent you into the field *URL* (on Kaggle: between the quotes
   of `URL`), or type it when the cell asks. """

MEANWHILE = """## What you see then

- The program fetches text from the Internet, hides some of its words, and lets the model guess them. A *gradient*
  says how the model must change to guess better. The gradients of all people together make one *global step*, after
  which everybody's model is a little better.
- **Loss** says how bad the guesses are: it falls. **You** is what you have contributed,
  **Swarm** what all people have.
- **To stop**, press the button again (or *Runtime → Interrupt execution*). What you have contributed
  still counts. Press it once more to go on.
- If the page loses its connection, the work goes on for as long as the machine is yours. If the machine was taken
  away, run the cell again.

The cell runs the program that the run's organizer offers, with all that this notebook may see: use it for runs of
people whom you trust. Others see your name, the kind of device and what it has computed. If the public model card is
to name contributors, the cell says so before training begins: stop it then, and tell the organizer if you do not want
to be named.
"""


def notebook_for(url: str, program: Program, *, run: str = "a training run") -> bytes:
    """The notebook of a run, in Jupyter's format 4.5.

    Args:
        url: the run's link, with which the notebook installs exactly this program. If it is empty, the reader fills it
            in, and the notebook installs the program of that coordinator, which must have the same version.
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


def invitation(name: str, link: str | None) -> dict[str, bytes]:
    """The notebook of a run as a file of a release, by its name; empty if others cannot use the link."""
    link = link_for_others(link)
    return {FILE_NAME: notebook_for(link, this_program(), run=name)} if link else {}


def at_the_hub(release: ReleaseSection) -> str:
    """URL of the notebook in a release that has one; empty if the release is private."""
    return "" if release.private else f"{HUB}{release.repo}/blob/main/{FILE_NAME}"


def link_for_others(url: str | None) -> str:
    """A run's link; empty if it has none, or one that works only on this machine."""
    host = urlsplit(url or "").hostname or ""
    return "" if not url or is_this_machine(host) else url.rstrip("/")


def code(url: str, program: Program) -> str:
    """The source of the cell, with the run's link and the program filled in."""
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
