"""A labelled file as lines with their numbers; whatever is wrong with it ends in one line."""

from collections.abc import Iterator
from pathlib import Path

from swarm.errors import DataError


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file without their ends, counted from 1; a byte order mark is dropped.

    Raises:
        DataError: the file is missing, cannot be read, or is not UTF-8.
    """
    if not path.is_file():
        raise DataError(f"{path}: no such file; correct the path")
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                # decoded here and not by open(), which could not tell the line; and only \n ends one
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield number, text.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}:{number}: not UTF-8 (byte {error.start + 1} of the line); convert the file to UTF-8"
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None
