"""Called by the cell of a notebook: finds the token, starts the peer as a process, and displays its pages.

This runs in the kernel's own Python, which may lack the program's libraries, so it uses only the standard library and
IPython. The peer is a process of its own because hivemind forks.
"""

import getpass
import importlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from http.client import HTTPException
from typing import IO, Any

TEXTS: dict[str, str] = {}  # what people are told, in the run's language, by the English words


def mark(text: str) -> str:
    """A text that is translated where it is shown."""
    return text


def _(text: str) -> str:
    """A text in the run's language."""
    return TEXTS.get(text, text)


STOPPED = mark("Stopped. Run the cell again to go on.")
CLOSING_LINES = {
    0: mark("Run the cell again to join again."),
    130: STOPPED,
    -signal.SIGTERM: STOPPED,
}  # by exit status
TRANSLATIONS = "import json, sys; from swarm.language import Language; print(json.dumps(Language(sys.argv[1]).texts()))"
WANTS_TOKEN = (26, 27, 28)  # exit statuses: none was given, the Hub does not know it, it may change things there
PATIENCE = 10.0  # seconds to wait for the coordinator
SECRET = "HF_TOKEN"
TOKEN_PAGE = "https://huggingface.co/settings/tokens"
NAMES = {"colab": "Google Colab", "kaggle": "Kaggle", "notebook": mark("this notebook")}
LIMITS = {
    "colab": mark(
        "Colab ends a session after some hours, or when its page is closed for long; your contribution still counts. "
        "Its FAQ is said to disallow distributed computing without a paid balance: "
        "https://research.google.com/colaboratory/faq.html"
    ),
    "kaggle": mark(
        "Kaggle ends a session after 12 hours, or after 20 minutes without you; your contribution still counts. The "
        "hours count against your weekly GPU quota."
    ),
    "notebook": mark("It trains for as long as this cell runs."),
}


def join(python: str, url: str, name: str = "") -> None:
    """Join the run at the URL and show it until it ends or the cell is interrupted.

    Args:
        python: the interpreter that has the program.
        name: self-chosen, for an open run.
    """
    platform = recognize(os.environ)
    run = about(url)
    TEXTS.update(translations(python, os.environ.get("SAHAJ_LANGUAGE") or str(run.get("language", ""))))
    print(_("Joining from {place}.").format(place=_(NAMES[platform])), _(LIMITS[platform]))
    is_open = is_open_run(run)
    if is_open:  # no token is needed: one that is kept for other work may be too strong
        name = name or platform
    token = "" if is_open else find_token(platform, os.environ)
    if not token and is_open is False:
        token = ask_for_token()
    end = show(start(command(python, url, name, platform), token))
    if end in WANTS_TOKEN and not is_open:
        end = show(start(command(python, url, name, platform), ask_for_token()))
    print(_(CLOSING_LINES.get(end, "")))


def recognize(environment: Mapping[str, str]) -> str:
    """Whose machine this is: colab, kaggle, or any other notebook."""
    if "COLAB_RELEASE_TAG" in environment or "COLAB_GPU" in environment:
        return "colab"
    return "kaggle" if "KAGGLE_KERNEL_RUN_TYPE" in environment else "notebook"


def find_token(platform: str, environment: Mapping[str, str]) -> str:
    """The token of the platform's secrets or of the environment; empty if there is none."""
    if given := environment.get(SECRET, "").strip():
        return given
    try:
        if platform == "colab":
            return str(importlib.import_module("google.colab.userdata").get(SECRET) or "").strip()
        if platform == "kaggle":
            client = importlib.import_module("kaggle_secrets").UserSecretsClient()
            return str(client.get_secret(SECRET) or "").strip()
    except Exception as problem:  # no such secret, no access to it, no network: each has classes of its own
        told = _(
            "There is no secret {name} for this notebook ({reason}); you are asked for a token if the run needs one."
        )
        print(told.format(name=SECRET, reason=type(problem).__name__))
    return ""


def ask_for_token() -> str:
    """A token that the volunteer types; ends the cell with a line if none is typed."""
    try:
        question = _("Hugging Face token, without any permission ({page}; not shown): ")
        token = getpass.getpass(question.format(page=TOKEN_PAGE)).strip()
    except (EOFError, NotImplementedError):  # the latter in a notebook that Kaggle runs by itself
        told = _(
            "This notebook cannot ask you for a token; on Kaggle, add it under Add-ons, Secrets, with the name {name}."
        )
        sys.exit(told.format(name=SECRET))
    return token or sys.exit(_("No token was typed. Run the cell again."))


def about(url: str) -> dict[str, Any]:
    """What the coordinator says of its run; empty if it says nothing, in which case the peer will say why."""
    try:
        with urllib.request.urlopen(f"{url}/api/run", timeout=PATIENCE) as answer:
            return dict(json.load(answer))
    except (OSError, HTTPException, ValueError, TypeError):
        return {}


def is_open_run(run: Mapping[str, Any]) -> bool | None:
    """Whether anybody may join the run; None if its coordinator does not say."""
    try:
        return bool(run["access"]["open"])
    except (KeyError, TypeError):
        return None


def translations(python: str, language: str) -> dict[str, str]:
    """The program's translations, which its own Python reads; none where there are none."""
    if language in ("", "en"):
        return {}
    command = [python, "-I", "-c", TRANSLATIONS, language]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return dict(json.loads(done.stdout)) if done.returncode == 0 else {}


def command(python: str, url: str, name: str, platform: str) -> list[str]:
    """The command line of the peer. Colab and Kaggle accept no connections."""
    chosen = ["--name", name] if name else []
    closed = ["--client-mode"] if platform in ("colab", "kaggle") else []
    return [python, "-I", "-m", "app.cli", "join", url, "--notebook", *chosen, *closed]


def start(command: list[str], token: str) -> "subprocess.Popen[bytes]":
    """Start the peer in a session of its own, so that an interrupt reaches it only through `show`."""
    environment = os.environ | ({SECRET: token} if token else {})
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def show(peer: "subprocess.Popen[bytes]") -> int:
    """Display the peer's pages until it has ended, and forward interrupts to it; returns its exit status."""
    from IPython.display import DisplayHandle

    view = DisplayHandle()

    begun = False

    def stop(*_: object) -> None:
        # while Python itself still starts, SIGINT would end in a traceback
        peer.send_signal(signal.SIGINT if begun else signal.SIGTERM)

    def update(page: dict[str, Any]) -> None:
        nonlocal begun
        begun = True
        view.update(page, raw=True)

    before = signal.signal(signal.SIGINT, stop)
    try:
        view.display({"text/plain": _("Loading the program …")}, raw=True)
        assert peer.stdout is not None, "its output is a pipe"
        follow(peer.stdout, update)
        return peer.wait()
    finally:
        if peer.poll() is None:  # it could not be shown
            stop()
        signal.signal(signal.SIGINT, before)


def follow(output: IO[bytes] | Iterable[bytes], update: Callable[[dict[str, Any]], object]) -> None:
    """Pass each page to `update`; print every other line, such as an error."""
    for line in output:
        text = line.decode(errors="replace").rstrip()
        try:
            page = json.loads(text)
        except ValueError:
            page = None
        if isinstance(page, dict):
            update(page)
        elif text:
            print(text)
