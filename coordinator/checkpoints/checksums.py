"""Checksums of a checkpoint's files, because readers of tensors do not notice flipped bits.

The format is that of `sha256sum`, so that `sha256sum --check SHA256SUMS` checks a copy.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

SUMS = "SHA256SUMS"


def write_sums(folder: Path) -> None:
    """Write the checksums of all files that are in the folder now."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name != SUMS)
    (folder / SUMS).write_text(_lines({name: _sum(folder / name) for name in names}), encoding="utf-8")


def with_sum(folder: Path, name: str) -> bytes:
    """The folder's checksums, and that of a file which has come into it since they were written.

    Raises:
        OSError, ValueError: there are no sums, or no such file.
    """
    return _lines(read_sums(folder) | {name: _sum(folder / name)}).encode()


def check_sums(folder: Path) -> None:
    """Compare the files with their checksums.

    Raises:
        OSError, ValueError: there are no sums, or a file is missing or not what was written.
    """
    for name, expected in read_sums(folder).items():
        if _sum(folder / name) != expected:
            raise ValueError(f"{name} is not what was saved")


def read_sums(folder: Path) -> dict[str, str]:
    """The checksums that were written, by the names of the files.

    Raises:
        OSError, ValueError: there are no sums.
    """
    lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    if not lines:
        raise ValueError(f"{SUMS} is empty")
    return {Path(name).name: expected for expected, _, name in (line.partition("  ") for line in lines)}


def _lines(sums: Mapping[str, str]) -> str:
    return "".join(f"{expected}  {name}\n" for name, expected in sums.items())


def _sum(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()
