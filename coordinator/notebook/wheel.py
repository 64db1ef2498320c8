"""Builds a wheel of the program that runs here, so that volunteers install exactly what their coordinator has.

No published release and no package index is needed.
It has the packages that a volunteer needs, without run files and pages of the dashboard.
"""

import base64
import hashlib
import importlib.metadata
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from swarm.errors import StorageError
from swarm.version import DISTRIBUTION

PACKAGES = ("app", "averaging", "coordinator", "corpus", "downstream", "experts", "swarm", "tokenizer", "trainer")
METADATA = {"METADATA": ("METADATA", "PKG-INFO"), "entry_points.txt": ("entry_points.txt",)}  # names when installed
SUFFIXES = (".py", ".jinja", ".po", ".sh", ".txt")
TAG = "py3-none-any"
EPOCH = (1980, 1, 1, 0, 0, 0)  # of all files, so that the same files make the same wheel


@dataclass(frozen=True)
class Program:
    """A wheel."""

    version: str
    file_name: str
    content: bytes

    @cached_property
    def sha256(self) -> str:
        """Of its content, in hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()


@lru_cache(maxsize=1)
def this_program() -> Program:
    """The program that runs here, as a wheel (binary distribution format, PEP 427).

    Raises:
        StorageError: its files cannot be read.
    """
    installed = importlib.metadata.distribution(DISTRIBUTION)
    stem = f"{DISTRIBUTION.replace('-', '_')}-{installed.version}"
    about = f"{stem}.dist-info"
    files = dict(_files())
    for name, names in METADATA.items():
        files[f"{about}/{name}"] = next(filter(None, map(installed.read_text, names)), "").encode()
    files[f"{about}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: sahaj\nRoot-Is-Purelib: true\nTag: {TAG}\n".encode()
    content = wheel(files, f"{about}/RECORD")
    return Program(installed.version, f"{stem}-{TAG}.whl", content)


def _files() -> Iterator[tuple[str, bytes]]:
    for package in PACKAGES:
        found = importlib.util.find_spec(package)
        assert found is not None and found.submodule_search_locations, "this program consists of its packages"
        folder = Path(found.submodule_search_locations[0])
        try:
            for path in sorted(one for one in folder.rglob("*") if one.suffix in SUFFIXES):
                yield f"{package}/{path.relative_to(folder).as_posix()}", path.read_bytes()
        except OSError as error:
            raise StorageError(
                f"{error.filename}: this part of the program cannot be read ({error.strerror})"
            ) from None


def wheel(files: dict[str, bytes], record: str) -> bytes:
    """A wheel of these files, by name; `record` is the name of its list of files."""
    lines = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in files.items()]
    whole = files | {record: "\n".join([*lines, f"{record},,", ""]).encode()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:  # compressed, it would depend on zlib's version
        for name, content in whole.items():
            info = zipfile.ZipInfo(name, EPOCH)
            info.external_attr = 0o644 << 16
            archive.writestr(info, content)
    return buffer.getvalue()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
