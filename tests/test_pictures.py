"""What the documentation shows: whether it says that figures are made up, and nothing of the machine that made it."""

import re

import pytest

SHOWN = ("*.md", "docs/**/*", "notebooks/*", "runs/*", "dashboard/*.md", "dashboard/**/*.toml", "*.yaml", "Dockerfile")
OF_A_MACHINE = re.compile(rb"(?<![\w.~$}/-])/(root|home|work|tmp|Users|var/folders)/[\w.-]+")
MADE_UP = re.compile(r"!\[[^\]]*\]\((?:docs/)?pictures/dashboard-\w+\.png\)\n\n\*The run in this picture is made up: ")


def test_nothing_of_the_machine_is_shown(pytestconfig: pytest.Config):
    files = [path for pattern in SHOWN for path in pytestconfig.rootpath.glob(pattern) if path.is_file()]
    assert len(files) > 20
    found = {path.name: match[0] for path in files if (match := OF_A_MACHINE.search(path.read_bytes()))}
    assert found == {}
    with_notes = re.compile(rb"tEXt|iTXt|zTXt|eXIf")  # in a PNG: programs, people, files
    assert not [path.name for path in files if path.suffix == ".png" and with_notes.search(path.read_bytes())]


def test_each_picture_of_the_dashboard_says_that_its_run_is_made_up(pytestconfig: pytest.Config):
    pictures = 0
    for page in (pytestconfig.rootpath / "README.md", *pytestconfig.rootpath.glob("docs/**/*.md")):
        text = page.read_text(encoding="utf-8")
        shown = re.findall(r"\]\((?:docs/)?pictures/dashboard-\w+\.png\)", text)
        assert len(MADE_UP.findall(text)) == len(shown), page.name
        pictures += len(shown)
    assert pictures
