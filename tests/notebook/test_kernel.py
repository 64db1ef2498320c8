"""What the cell calls: whose machine it is, whose token, and how the peer's pages are shown."""

import http.server
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from unittest.mock import Mock

import pytest

from app.join.problems import ProblemKind
from app.notebook import kernel
from tests.support.waiting import PATIENCE

KAGGLE_HERE = {"KAGGLE_KERNEL_RUN_TYPE": "Interactive"}
SECRET = "hf_" + "a" * 34
COLAB = """
class SecretNotFoundError(Exception):
    def __init__(self, key):
        super().__init__(f"Secret {key} does not exist.")
def get(key):
    if key != "HF_TOKEN" or not VALUE:
        raise SecretNotFoundError(key)
    return VALUE
"""
KAGGLE = """
class BackendError(Exception):
    pass
class UserSecretsClient:
    def get_secret(self, label) -> str:
        if label != "HF_TOKEN" or not VALUE:
            raise BackendError(f"No user secrets exist for kernel id 1 and label {label}.")
        return VALUE
"""


def platform_modules(folder: Path, secret: str) -> Path:
    """The modules of Colab and Kaggle that tell secrets, with their interfaces; a folder for `sys.path`."""
    for name, source in (("google/colab/userdata.py", COLAB), ("kaggle_secrets.py", KAGGLE)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"VALUE = {secret!r}\n{source}")
    return folder


@pytest.fixture
def clean_modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Without those of platforms, but with a namespace to which others have added a folder already."""
    for name in list(sys.modules):
        if name == "google" or name.startswith(("google.colab", "kaggle_secrets")):
            monkeypatch.delitem(sys.modules, name)
    google = ModuleType("google")
    google.__path__ = [str(tmp_path / "google")]
    monkeypatch.setitem(sys.modules, "google", google)
    return monkeypatch


@pytest.mark.parametrize(
    ("environment", "platform"),
    [
        ({"COLAB_RELEASE_TAG": "release-colab_20261101"}, "colab"),
        ({"COLAB_GPU": ""}, "colab"),
        ({"KAGGLE_KERNEL_RUN_TYPE": "Interactive"}, "kaggle"),
        ({"HOME": "/home/asha"}, "notebook"),
    ],
)
def test_whose_machine_it_is(environment: dict[str, str], platform: str) -> None:
    assert kernel.recognize(environment) == platform
    command = kernel.command("python", "https://run.example.org", "", platform)
    assert ("--client-mode" in command) == (platform != "notebook")


@pytest.mark.parametrize("platform", ["colab", "kaggle"])
def test_the_token_comes_from_the_secrets_of_the_platform(
    platform: str, tmp_path: Path, clean_modules: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clean_modules.syspath_prepend(platform_modules(tmp_path, SECRET))
    assert kernel.find_token(platform, {}) == SECRET
    assert kernel.find_token(platform, {"HF_TOKEN": "hf_other"}) == "hf_other"
    assert SECRET not in capsys.readouterr().out


@pytest.mark.parametrize(("platform", "problem"), [("colab", "SecretNotFoundError"), ("kaggle", "BackendError")])
def test_a_secret_that_is_not_there_is_said_in_a_line(
    platform: str, problem: str, tmp_path: Path, clean_modules: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clean_modules.syspath_prepend(platform_modules(tmp_path, ""))
    assert kernel.find_token(platform, {}) == ""
    assert capsys.readouterr().out.startswith(
        f"There is no secret HF_TOKEN for this notebook ({problem}); you are asked"
    )


def test_pages_are_shown_and_other_lines_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    pages: list[dict[str, str]] = []
    lines = [b'{"text/plain": "one"}\n', b"sahaj: nothing is listening there\n", b"\xff[1, 2]\n", b"7\n", b"\n"]
    kernel.follow(lines, pages.append)
    assert pages == [{"text/plain": "one"}]
    assert capsys.readouterr().out == "sahaj: nothing is listening there\n\ufffd[1, 2]\n7\n"


def test_the_token_goes_to_the_peer_by_its_environment_alone() -> None:
    peer = kernel.start([sys.executable, "-c", "import os; print(os.environ['HF_TOKEN'])"], SECRET)
    said, _ = peer.communicate(timeout=PATIENCE)
    assert said.decode().strip() == SECRET
    assert SECRET not in " ".join(kernel.command("python", "https://run.example.org", "asha", "colab"))


def test_a_coordinator_that_does_not_answer_leaves_it_to_the_peer_to_say_why() -> None:
    assert kernel.is_open_run(kernel.about("http://127.0.0.1:1")) is None
    assert kernel.is_open_run(kernel.about("ftp://")) is None
    assert kernel.is_open_run(kernel.about("http://run.example.org:port")) is None


@pytest.fixture
def coordinator() -> Iterator[Callable[[bool], str]]:
    """`coordinator(True)`: the link of an open run, as far as a kernel asks about it."""
    servers = []

    def serve(is_open: bool) -> str:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps({"access": {"open": is_open}}).encode())

            def log_message(self, *_: object) -> None: ...

        servers.append(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, args=(0.02,), daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def picky(tmp_path: Path) -> str:
    """A Python that refuses the secret as one that may write, and else says what it was given."""
    path = tmp_path / "python"
    path.write_text(f'#!/bin/sh\n[ "$HF_TOKEN" = {SECRET} ] && exit 28\necho "given: $HF_TOKEN $*"\n')
    path.chmod(0o755)
    return str(path)


def test_a_token_that_may_write_is_not_the_end(
    coordinator: Callable[[bool], str], picky: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    asked: list[str] = []

    def getpass(prompt: str) -> str:
        asked.append(prompt)
        return "hf_fine"

    monkeypatch.setattr(kernel.getpass, "getpass", getpass)
    kernel.join(picky, coordinator(False))
    assert "given: hf_fine" in capfd.readouterr().out and len(asked) == 1
    wants = (ProblemKind.TOKEN_MISSING, ProblemKind.TOKEN_REJECTED, ProblemKind.TOKEN_TOO_STRONG)
    assert wants == kernel.WANTS_TOKEN


def test_in_an_open_run_no_token_is_looked_for(
    coordinator: Callable[[bool], str], picky: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    for name, value in KAGGLE_HERE.items():
        monkeypatch.setenv(name, value)
    kernel.join(picky, coordinator(True))
    said = capfd.readouterr().out
    assert "--name kaggle" in said and "secret" not in said


@pytest.mark.parametrize("problem", [NotImplementedError, EOFError])
def test_where_nobody_can_be_asked_a_line_says_where_to_put_the_token(
    problem: type[Exception], coordinator: Callable[[bool], str], picky: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(kernel.getpass, "getpass", Mock(side_effect=problem))
    with pytest.raises(SystemExit, match="on Kaggle, add it under Add-ons, Secrets, with the name HF_TOKEN"):
        kernel.join(picky, coordinator(False))


def interrupt_once_it_is_heard(before: object, shown: threading.Event | None = None) -> None:
    """As somebody does who presses the button, once a page is shown; earlier it would end the tests."""
    while signal.getsignal(signal.SIGINT) is before or not (shown is None or shown.is_set()):
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_before_the_peer_has_begun_ends_it_quietly(capfd: pytest.CaptureFixture[str]) -> None:
    peer = kernel.start([sys.executable, "-c", "import time; time.sleep(60)"], "")
    before = signal.getsignal(signal.SIGINT)
    threading.Thread(target=interrupt_once_it_is_heard, args=(before,)).start()
    assert kernel.CLOSING_LINES[kernel.show(peer)] == kernel.STOPPED
    assert signal.getsignal(signal.SIGINT) is before
    assert "Traceback" not in capfd.readouterr().out


def test_an_interrupt_reaches_the_peer_once_and_what_it_says_then_is_shown(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = threading.Event()
    monkeypatch.setattr("IPython.display.DisplayHandle.update", lambda *_, **__: shown.set())
    program = (
        "import json, signal, time\n"
        "asked = []\n"
        "signal.signal(signal.SIGINT, lambda *_: asked.append(1))\n"
        "print(json.dumps({'text/plain': 'page'}), flush=True)\n"
        "while not asked: time.sleep(0.05)\n"
        "time.sleep(1)\n"
        "print('asked', len(asked))\n"
    )
    peer = kernel.start([sys.executable, "-c", program], "")
    before = signal.getsignal(signal.SIGINT)
    threading.Thread(target=interrupt_once_it_is_heard, args=(before, shown)).start()
    assert kernel.show(peer) == 0
    assert "asked 1" in capfd.readouterr().out
