"""Finds or asks for the Hugging Face token, and checks that it can do no harm.

The token proves who the volunteer is; it needs no permission for that. It is kept in memory only; neither the `repr` of
a `HubToken` nor any message shows it.
"""

import getpass
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from app.join.address import is_loopback
from app.join.problems import JoinProblem, ProblemKind, certificates_problem
from swarm.language import _, mark
from swarm.secret_variables import hide, hub_token, secret

TOKEN_PAGE = "https://huggingface.co/settings/tokens"
PATIENCE = 15.0  # seconds to wait for the Hub
SAVED = mark("the saved login")  # a source
LONGEST = 4096  # characters; some kinds of tokens are long


@dataclass(frozen=True)
class HubToken:
    """A token and where it came from."""

    value: str = field(repr=False)
    source: str


def how_to_make() -> str:
    """Where a token that can do no harm comes from."""
    return _("make one at {page}: Create new token, Fine-grained, no box ticked").format(page=TOKEN_PAGE)


def login_command() -> str:
    """What a person types to save a login; where join.sh has installed the program, no search path has this command."""
    beside = Path(sys.executable).with_name("hf")
    return shlex.join([str(beside) if beside.is_file() else "hf", "auth", "login"])


def find_token() -> HubToken | None:
    """The token of a variable or of the saved login, if there is one.

    Raises:
        JoinProblem: it cannot be a token.
    """
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if given := secret(name):
            return _token(given, name)
    saved = hub_token()
    return _token(saved, _(SAVED)) if saved else None


def ask_for_token() -> HubToken:
    """Ask the person, with hidden input in a terminal.

    Raises:
        JoinProblem: nobody can be asked, nothing was typed, or it cannot be a token.
    """
    if not _has_terminal():
        raise JoinProblem(
            ProblemKind.TOKEN_MISSING,
            _(
                "this run needs a Hugging Face token, one without permissions is enough; {how}; "
                "`export HF_TOKEN=hf_...`, then join again"
            ).format(how=how_to_make()),
        )
    try:
        typed = getpass.getpass(
            _("Hugging Face token, without permissions ({page}; not shown): ").format(page=TOKEN_PAGE)
        )
    except EOFError:
        typed = ""
    if not typed.strip():
        raise JoinProblem(ProblemKind.TOKEN_MISSING, _("no token was typed; {how}").format(how=how_to_make()))
    token = _token(typed, _("your input"))
    hide("HF_TOKEN", token.value)  # for when this process begins again after a pause
    return token


def check_token(token: HubToken, *, allow_write: bool, notebook: bool = False, service: bool = False) -> str:
    """Ask the Hub whose token this is; returns the name.

    Args:
        allow_write: accept a token that may change things on the Hub.
        notebook: advise what to do in a notebook, which has no command line.
        service: advise what to do for a service, which sees no HF_TOKEN.

    Raises:
        JoinProblem: the Hub does not know the token or does not answer, or the token may write.
    """
    answer = _whoami(token, notebook=notebook)
    may = what_it_may_change(answer)
    if may and not allow_write:
        if notebook:
            told = _(
                "the token from {source} {may}; joining needs no permissions, so {how}, then type it here, or keep "
                "it as the secret HF_TOKEN"
            )
        elif service:
            told = _(
                "the token from {source} {may}; joining needs no permissions, so {how}, log in with it: `{command}`, "
                "then install again; or accept this one with --allow-write-token"
            )
        else:
            told = _(
                "the token from {source} {may}; joining needs no permissions, so {how}, `export HF_TOKEN=hf_...`, "
                "then join again; or accept this one with --allow-write-token"
            )
        told = told.format(source=token.source, may=may, how=how_to_make(), command=login_command())
        raise JoinProblem(ProblemKind.TOKEN_TOO_STRONG, told)
    return str(answer["name"])


def what_it_may_change(answer: Mapping[str, Any]) -> str | None:
    """In a few words, what the token may do beyond reading, from the Hub's `whoami-v2`; None if nothing.

    A token whose permissions the Hub does not tell, such as that of a browser login, counts as one that may write.
    """
    token = _mapping(_mapping(answer.get("auth")).get("accessToken"))
    role = token.get("role")
    if role == "read":
        return None
    if role == "fineGrained":
        permissions = _fine_grained(_mapping(token.get("fineGrained")))
        writing = sorted({name for name in permissions if not name.endswith(".read")})
        return _("has permissions beyond reading ({names})").format(names=", ".join(writing[:3])) if writing else None
    if role in ("write", "admin"):
        return _("has write permission")
    return _("may have permissions, but the Hub does not say which")


def _has_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _token(text: str, source: str) -> HubToken:
    """Refuse what cannot go into a header: the HTTP library's error would show it."""
    text = text.strip()
    if not (text.isascii() and text.isprintable()) or " " in text or len(text) > LONGEST:
        raise JoinProblem(
            ProblemKind.TOKEN_REJECTED,
            _("{source}: not a token (it has spaces or odd characters); {how}").format(
                source=source, how=how_to_make()
            ),
        )
    return HubToken(text, source)


def _how_to_replace(token: HubToken, *, notebook: bool) -> str:
    """Where a new token comes from, and where to put it so that it is found in place of this one."""
    if notebook:
        told = _("{how}, then type it here, or keep it as the secret HF_TOKEN")
    elif token.source == _(SAVED):
        told = _("{how}, then log in with it: `{command}`")
    else:
        told = _("{how}, `export HF_TOKEN=hf_...`, then try again")
    return told.format(how=how_to_make(), command=login_command())


def _whoami(token: HubToken, *, notebook: bool) -> Mapping[str, Any]:
    hub = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
    try:
        # not through huggingface_hub, which has no timeout here
        response = httpx.get(
            f"{hub}/api/whoami-v2",
            headers={"Authorization": f"Bearer {token.value}"},
            timeout=PATIENCE,
            trust_env=not is_loopback(hub),
            follow_redirects=True,
        )
        if response.status_code in (401, 403):
            raise JoinProblem(
                ProblemKind.TOKEN_REJECTED,
                _("the Hub does not accept the token from {source}, which may have expired; {how}").format(
                    source=token.source, how=_how_to_replace(token, notebook=notebook)
                ),
            )
        answer = response.raise_for_status().json()
    except OSError as error:  # before anything was sent
        raise certificates_problem(hub, error) from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, ImportError) as error:  # the last one of a SOCKS proxy
        raise JoinProblem(
            ProblemKind.HUB_AWAY,
            _(
                "{hub}: the Hub gave no usable answer when asked who you are ({error}); check your connection, or try "
                "again in some minutes"
            ).format(hub=hub, error=type(error).__name__),
        ) from None
    if not isinstance(answer, dict) or not isinstance(answer.get("name"), str):
        raise JoinProblem(ProblemKind.HUB_AWAY, _("{hub}: not the Hugging Face Hub; check HF_ENDPOINT").format(hub=hub))
    return answer


def _fine_grained(granted: Mapping[str, Any]) -> list[str]:
    """All permissions of a fine-grained token: those for everything, and those for some repositories."""
    lists = [granted.get("global")]
    scoped = granted.get("scoped")
    lists += [_mapping(scope).get("permissions") for scope in scoped] if isinstance(scoped, list) else []
    return [str(name) for names in lists if isinstance(names, list) for name in names]


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
