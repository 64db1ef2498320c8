"""The picture of a demo in the README: what a real one says, as SVG.

python -m benchmarks.demo_picture docs/pictures/demo.svg
"""

import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from app.startup import set_verbosity
from benchmarks.support import command

WIDTH = 80  # characters


def main(picture: Annotated[Path, typer.Argument(help="The SVG file to write.")]) -> None:
    """Play the demo in a folder that is gone afterwards, and draw what it says if all of it happened."""
    set_verbosity(verbose=False)
    from app.demo.demo import DemoOptions, run_demo

    picture = picture.absolute()
    console = Console(width=WIDTH, record=True, force_terminal=False)
    with tempfile.TemporaryDirectory(prefix="sahaj-picture-") as folder:
        os.chdir(folder)
        options = DemoOptions(corpus=None, run=None, trainers=3, steps=None, out=Path("out/demo"), dashboard=False)
        status = run_demo(options, console)
        os.chdir(picture.parent)
    if status:
        raise typer.Exit(status)
    console.save_svg(str(picture), title="make demo")


if __name__ == "__main__":
    command.run(main)
