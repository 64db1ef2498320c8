"""What the cell of a notebook meets: a platform's Python with a torch of its own, and a coordinator's wheel."""

import functools
import http.server
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.notebook.wheel import wheel

TORCH = "2.9.0+cu126"  # of the platform
KERNEL = 'def join(python, url, name):\n    print(f"JOINED {url} as {name!r} with {python}")\n'


def make_wheel(folder: Path, name: str, version: str, files: dict[str, bytes], *needs: str) -> Path:
    """A wheel in `folder`, of a distribution with these files."""
    stem = f"{name.replace('-', '_')}-{version}"
    about = f"{stem}.dist-info"
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {version}",
        *(f"Requires-Dist: {one}" for one in needs),
    ]
    files = files | {
        f"{about}/METADATA": "\n".join([*lines, ""]).encode(),
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}-py3-none-any.whl"
    path.write_bytes(wheel(files, f"{about}/RECORD"))
    return path


@pytest.fixture(scope="session")
def platform_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a platform that has a torch of its own, built for its GPUs."""
    folder = tmp_path_factory.mktemp("platform")
    subprocess.run([sys.executable, "-m", "venv", folder / "base"], check=True, capture_output=True)
    python = folder / "base" / "bin" / "python"
    torch = make_wheel(folder, "torch", TORCH, {"torch/__init__.py": f"__version__ = {TORCH!r}\n".encode()})
    install = ("-m", "pip", "--disable-pip-version-check", "install", "--no-index", "--no-deps", torch)
    subprocess.run([python, *install], check=True, capture_output=True)
    return python


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The URL of a server on loopback, and the folder that it serves."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def date_time_string(self, timestamp: float | None = None) -> str:
        """Of a clock that is five minutes ahead: the clocks of the two may differ."""
        return super().date_time_string(time.time() + 300.0)

    def log_message(self, *_: object) -> None:
        """Tests read their own output."""
