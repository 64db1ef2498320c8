"""What `sahaj admin` does: it sends an organizer's command to a running coordinator."""

import re
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from pydantic import BaseModel

from app.join.address import is_private
from app.join.coordinator_client import CoordinatorClient
from app.join.problems import JoinProblem, ProblemKind
from app.organizing.flags import LONGEST_EVIDENCE, describe_flags, write_evidence
from swarm.access.user_names import UNVERIFIED, is_one_line

LONGEST_KEY = 1024  # characters
PEER_ID = re.compile(r"Qm[1-9A-HJ-NP-Za-km-z]{44}")  # names are shorter
LONGEST_NAME, LONGEST_TEXT, LONGEST_STEP = 100, 500, 12  # characters


class Action(str, Enum):
    """What an organizer can do."""

    ALLOW = "allow"
    DISALLOW = "disallow"
    BAN = "ban"
    UNBAN = "unban"
    ANNOUNCE = "announce"
    PAUSE = "pause"
    RESUME = "resume"
    RESTORE = "restore"
    STOP = "stop"
    REMOVE_TEAM = "remove-team"
    RENAME_TEAM = "rename-team"
    FLAGS = "flags"
    EVIDENCE = "evidence"


@dataclass(frozen=True)
class Effect:
    """The argument of an action, and what is said when it is done."""

    argument: str | None  # its key in the request
    done: str = ""  # empty: the answer is told (`app.organizing.flags`)


EFFECTS = {
    Action.ALLOW: Effect("name", "{0} may join."),
    Action.DISALLOW: Effect(
        "name", "`allow {0}` is taken back; a pass that {0} already has stays valid until it expires."
    ),
    Action.BAN: Effect("name", "{0} is banned; every peer knows within a minute."),
    Action.UNBAN: Effect("name", "{0} is no longer banned."),
    Action.ANNOUNCE: Effect("text", "Announced: {0}"),
    Action.PAUSE: Effect(None, "The run is paused: newcomers are asked to come back later, those who train go on."),
    Action.RESUME: Effect(None, "The run is open again."),
    Action.RESTORE: Effect(
        "step", "Ordered: back to the state of global step {0}. The coordinator's console says when it is done."
    ),
    Action.STOP: Effect(
        None,
        "The run is stopped: trainers leave within a minute. `sahaj admin LINK resume` takes it back, "
        "Ctrl-C ends the coordinator.",
    ),
    Action.REMOVE_TEAM: Effect("name", "The team {0} is removed; its people keep their own credit."),
    Action.RENAME_TEAM: Effect("name", "The team {0} is called {1} now."),
    Action.FLAGS: Effect(None),
    Action.EVIDENCE: Effect("name"),
}
UNCHANGED = {  # orders about a name, and what is said when they change nothing
    Action.ALLOW: "{0} was allowed already.",
    Action.DISALLOW: "Nothing has changed: no order had allowed {0}. To shut {0} out: `ban {0}`.",
    Action.BAN: "{0} was banned already.",
    Action.UNBAN: "Nothing has changed: {0} was not banned.",
}
UNKNOWN = (
    "{0} is banned, but nobody with that name has contributed yet. Copy the name from the leaderboard; a self-chosen "
    "name begins with ~, as in `sahaj admin LINK ban '~{0}'`."
)


def admin(
    url: str,
    key_file: Path,
    action: Action | str,
    argument: str | None = None,
    new: str | None = None,
    *,
    insecure: bool = False,
) -> str:
    """Carry out an action at a running coordinator; returns a line that says what has changed.

    Args:
        argument: a name to allow, ban or unban, the text of an announcement (empty: none any more), or a team's name.
        new: what the team is called from now on.
        insecure: send the key although the connection is not encrypted.

    Raises:
        JoinProblem: the coordinator cannot be asked, does not accept the key, or refuses.
    """
    action = _action(action)
    body = body_of(action, argument, new)
    with CoordinatorClient(url, tolerance=float("inf")) as client:
        if not (insecure or is_private(client.base)):
            raise JoinProblem(
                ProblemKind.ADMIN_KEY,
                f"{client.base}: not encrypted: your key could be read on its way; use https, or "
                "http://127.0.0.1 on the coordinator's machine, or send it all the same with --insecure",
            )
        key = read_key(key_file)
        try:
            if action is Action.FLAGS:
                return describe_flags(client.ask("GET", "/api/admin/flags", bearer=key), time.time())
            if action is Action.EVIDENCE:
                path = f"/api/admin/evidence?{urlencode(body)}"
                return write_evidence(client.ask("GET", path, bearer=key, at_most=LONGEST_EVIDENCE), body["name"])
            if action in UNCHANGED:
                return _decide_about(client, key, action, body["name"])
            client.ask("POST", f"/api/admin/{action.value}", bearer=key, body=body)
        except JoinProblem as problem:
            if problem.status in (401, 403):
                raise JoinProblem(
                    ProblemKind.ADMIN_KEY,
                    f"{key_file}: not the key of the run at {client.base}; give it with --key NAME-state/admin.key",
                    status=problem.status,
                ) from None
            raise
    told = body.get(EFFECTS[action].argument or "")
    return "The announcement is withdrawn." if told == "" else EFFECTS[action].done.format(told, body.get("new"))


def _decide_about(client: CoordinatorClient, key: str, action: Action, name: str) -> str:
    before = client.parse(_Decisions, client.ask("GET", "/api/admin/decisions", bearer=key))
    order = client.ask("POST", f"/api/admin/{action.value}", bearer=key, body={"name": name})
    after = client.parse(_Decisions, order)
    if after == before:
        return UNCHANGED[action].format(name)
    is_clear = action is not Action.BAN or name.startswith(UNVERIFIED) or PEER_ID.fullmatch(name)
    if not (is_clear or _has_given(client, name)):
        return UNKNOWN.format(name)
    return EFFECTS[action].done.format(name)


def _has_given(client: CoordinatorClient, name: str) -> bool:
    """Whether the run knows a name, or cannot say."""
    try:
        client.ask("GET", f"/api/person?{urlencode({'user': name})}")
    except JoinProblem as problem:
        return problem.status != 404
    return True


def body_of(action: Action, argument: str | None, new: str | None = None) -> dict[str, Any]:
    """The body of the request.

    Raises:
        JoinProblem: the argument is missing, too long, or not wanted.
    """
    key = EFFECTS[action].argument
    if (new is not None) != (action is Action.RENAME_TEAM):
        wrong = "takes one argument" if new is not None else "needs a team and its new name"
        raise JoinProblem(ProblemKind.MALFORMED, f"{action.value}: {wrong}, as `{_example(action)}`")
    if key is None:
        if argument is not None:
            raise JoinProblem(ProblemKind.MALFORMED, f"{action.value}: takes no argument, got {argument!r}")
        return {}
    longest = LONGEST_NAME if key == "name" else LONGEST_TEXT
    if key == "step":
        if argument is None or not argument.isdecimal() or len(argument) > LONGEST_STEP:
            raise JoinProblem(
                ProblemKind.MALFORMED, f"{action.value}: needs the global step of a checkpoint, as `{_example(action)}`"
            )
        return {key: int(argument)}
    text = (argument or "").strip()
    if argument is None or (key == "name" and not text):
        raise JoinProblem(
            ProblemKind.MALFORMED,
            f"{action.value}: needs {'a name' if key == 'name' else 'a text'}, as `{_example(action)}`",
        )
    if len(text) > longest or not is_one_line(text):
        raise JoinProblem(
            ProblemKind.MALFORMED, f"{action.value}: the {key} must be one line of at most {longest} characters"
        )
    return {key: text} if new is None else {key: text, "new": _new_name(new)}


def _new_name(text: str) -> str:
    if len(text) > LONGEST_NAME or not is_one_line(text) or not text.strip():
        raise JoinProblem(
            ProblemKind.MALFORMED, f"rename-team: the new name must be one line of at most {LONGEST_NAME} characters"
        )
    return text.strip()


def read_key(path: Path) -> str:
    """The organizer's key.

    Raises:
        JoinProblem: this is not a key file.
    """
    try:
        key = path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        raise JoinProblem(
            ProblemKind.ADMIN_KEY,
            f"{path}: no such key file; give the one in the coordinator's state folder, --key NAME-state/admin.key",
        ) from None
    except (OSError, UnicodeDecodeError):
        raise JoinProblem(
            ProblemKind.ADMIN_KEY, f"{path}: cannot be read as a key file; give the organizer's with --key"
        ) from None
    if not key or len(key) > LONGEST_KEY or not key.isprintable() or " " in key:
        raise JoinProblem(ProblemKind.ADMIN_KEY, f"{path}: not a key file; give the organizer's with --key")
    return key


def _action(action: Action | str) -> Action:
    try:
        return Action(action)
    except ValueError:
        known = ", ".join(each.value for each in Action)
        raise JoinProblem(ProblemKind.MALFORMED, f"{action}: no such action; there are {known}") from None


def _example(action: Action) -> str:
    examples = {
        Action.ANNOUNCE: "'Back at nine'",
        Action.RESTORE: "1200",
        Action.REMOVE_TEAM: "'River people'",
        Action.RENAME_TEAM: "'River people' Stream",
    }
    return f"sahaj admin LINK {action.value} {examples.get(action, 'alice')}"


class _Decisions(BaseModel):
    banned: frozenset[str]
    allowed: frozenset[str]
