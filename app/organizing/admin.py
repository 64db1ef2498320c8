"""What `sahaj admin` does: it sends an organizer's command to a running coordinator."""

import re
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from urllib.parse import urlencode

from pydantic import BaseModel

from app.join.address import is_private
from app.join.coordinator_client import CoordinatorClient
from app.join.problems import JoinProblem, ProblemKind
from app.organizing.flags import LONGEST_EVIDENCE, Evidence, Flag, describe_flags, write_evidence
from swarm.access.user_names import UNVERIFIED

LONGEST_KEY = 1024  # characters
PEER_ID = re.compile(r"Qm[1-9A-HJ-NP-Za-km-z]{44}")  # names are shorter


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
    """The arguments of an action, and what is said when it is done."""

    arguments: tuple[str, ...] = ()  # their keys in the request
    done: str = ""  # empty: the answer is told (`app.organizing.flags`)


EFFECTS = {
    Action.ALLOW: Effect(("name",), "{0} may join."),
    Action.DISALLOW: Effect(
        ("name",), "`allow {0}` is taken back; a pass that {0} already has stays valid until it expires."
    ),
    Action.BAN: Effect(("name",), "{0} is banned; every peer knows within a minute."),
    Action.UNBAN: Effect(("name",), "{0} is no longer banned."),
    Action.ANNOUNCE: Effect(("text",), "Announced: {0}"),
    Action.PAUSE: Effect((), "The run is paused: newcomers are asked to come back later, those who train go on."),
    Action.RESUME: Effect((), "The run is open again."),
    Action.RESTORE: Effect(
        ("step",), "Ordered: back to the state of global step {0}. The coordinator's console says when it is done."
    ),
    Action.STOP: Effect(
        (),
        "The run is stopped: trainers leave within a minute. `sahaj admin LINK resume` takes it back, "
        "Ctrl-C ends the coordinator.",
    ),
    Action.REMOVE_TEAM: Effect(("name",), "The team {0} is removed; its people keep their own credit."),
    Action.RENAME_TEAM: Effect(("name", "new"), "The team {0} is called {1} now."),
    Action.FLAGS: Effect(),
    Action.EVIDENCE: Effect(("name",)),
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
                flags = client.parse(list[Flag], client.ask("GET", "/api/admin/flags", bearer=key))
                return describe_flags(flags, time.time())
            if action is Action.EVIDENCE:
                path = f"/api/admin/evidence?{urlencode(body)}"
                answer = client.ask("GET", path, bearer=key, at_most=LONGEST_EVIDENCE)
                return write_evidence(client.parse(list[Evidence], answer), answer, body["name"])
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
    return "The announcement is withdrawn." if body.get("text") == "" else EFFECTS[action].done.format(*body.values())


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


def body_of(action: Action, *given: str | None) -> dict[str, str]:
    """The body of the request; what may stand in it is for the coordinator to say.

    Raises:
        JoinProblem: there are too few arguments, or too many.
    """
    keys, values = EFFECTS[action].arguments, [one.strip() for one in given if one is not None]
    if len(keys) != len(values):
        takes = " and ".join(keys) or "no argument"
        raise JoinProblem(ProblemKind.MALFORMED, f"{action.value}: takes {takes}, as `{_example(action)}`")
    return dict(zip(keys, values, strict=True))


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
    usual = "alice" if EFFECTS[action].arguments else ""
    return f"sahaj admin LINK {action.value} {examples.get(action, usual)}".strip()


class _Decisions(BaseModel):
    banned: frozenset[str]
    allowed: frozenset[str]
