"""Folders and files stay small enough to be looked through."""

import subprocess
from collections import Counter

import pytest

MOST_FILES, MOST_LINES = 14, 320  # in a folder, subfolders aside; in a Python file


def test_folders_and_files_are_small(pytestconfig: pytest.Config):
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    out = subprocess.run(listed, cwd=pytestconfig.rootpath, check=True, capture_output=True, text=True).stdout
    files = [path for line in out.splitlines() if (path := pytestconfig.rootpath / line).exists()]
    assert len(files) > 500
    beside = Counter(str(path.parent.relative_to(pytestconfig.rootpath)) for path in files)
    assert {folder: count for folder, count in beside.items() if count > MOST_FILES} == {}
    lines = {str(path): path.read_bytes().count(b"\n") for path in files if path.suffix == ".py"}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}
