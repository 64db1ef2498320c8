"""The organizer's commands, against a server that speaks the contract."""

import json
import re
import time
from pathlib import Path
from urllib.parse import urlencode

import pytest

from app.join.problems import JoinProblem, ProblemKind
from app.organizing.admin import Action, admin
from swarm.access.user_names import is_one_line
from tests.app.join.conftest import refused
from tests.app.join.conftest import server as server
from tests.app.join.stand_in import Answer, StandIn
from tests.support.problems import raises_problem

KEY = "organizers-key"


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "admin.key"
    path.write_text(f"{KEY}\n")
    return path


@pytest.mark.parametrize(
    ("action", "argument", "body"),
    [
        ("announce", "back {soon}", {"text": "back {soon}"}),
        ("announce", "", {"text": ""}),
        ("announce", "  ", {"text": ""}),
        ("pause", None, {}),
        ("resume", None, {}),
        ("restore", "1200", {"step": "1200"}),
        ("stop", None, {}),
        ("remove-team", "River people", {"name": "River people"}),
    ],
)
def test_an_action_is_carried_out(
    server: StandIn, key_file: Path, action: str, argument: str | None, body: dict[str, str]
):
    server.answers[f"POST /api/admin/{action}"] = Answer(body={})
    server.clock_offset = 300  # an order is not a pass: it may come from a machine with a wrong clock
    line = admin(server.url, key_file, action, argument)
    heard = server.heard[-1]
    assert (heard.path, heard.bearer, heard.body) == (f"/api/admin/{action}", KEY, body)
    assert is_one_line(line)
    assert (argument or "").strip() in line
    assert (action == "announce" and not body["text"]) == (line == "The announcement is withdrawn.")
    assert action != "restore" or line.startswith("Ordered: back to the state of global step 1200.")


PEER = "QmQdReeSaZEjRPfQgJMeSZSnkLYLFc1P3RqMAqLJDDLTcL"  # which contributes under its user's name


def lists(banned: str = "", allowed: str = "") -> dict[str, list[str]]:
    """Decisions about one name at most."""
    return {"banned": [banned] if banned else [], "allowed": [allowed] if allowed else []}


@pytest.mark.parametrize(
    ("action", "name", "before", "after", "said"),
    [
        ("allow", "alice", lists(), lists(allowed="alice"), "alice may join."),
        ("allow", "alice", lists(allowed="alice"), lists(allowed="alice"), "allowed already"),
        ("disallow", "alice", lists(allowed="alice"), lists(), "`allow alice` is taken back"),
        ("disallow", "alice", lists(), lists(), "no order had allowed alice.*ban alice"),
        ("ban", " mallory ", lists(), lists("mallory"), "mallory is banned; every peer"),
        ("ban", "mallory", lists("mallory"), lists("mallory"), "banned already"),
        ("ban", PEER, lists(), lists(PEER), f"{PEER} is banned; every"),
        ("ban", "ghost", lists(), lists("ghost"), "ghost is banned, but nobody .* ban '~ghost'"),
        ("ban", "~ক\u09cd\u200cষ", lists(), lists("~ক\u09cd\u200cষ"), "~ক\u09cd\u200cষ is banned; every"),
        ("unban", "mallory", lists("mallory"), lists(), "mallory is no longer banned"),
        ("unban", "malory", lists("mallory"), lists("mallory"), "malory was not banned"),
    ],
)
def test_a_decision_about_a_name_is_told_with_what_it_has_changed(
    server: StandIn,
    key_file: Path,
    action: str,
    name: str,
    before: dict[str, list[str]],
    after: dict[str, list[str]],
    said: str,
):
    server.answers["GET /api/admin/decisions"] = Answer(body=before)
    server.answers[f"POST /api/admin/{action}"] = Answer(body=after)
    person = f"GET /api/person?{urlencode({'user': name.strip()})}"
    server.answers[person] = Answer(404 if name in ("ghost", PEER) else 200, body={})
    line = admin(server.url, key_file, action, name)
    order = next(heard for heard in server.heard if heard.path == f"/api/admin/{action}")
    assert (order.bearer, order.body) == (KEY, {"name": name.strip()})
    assert is_one_line(line) and re.search(said, line)


def test_a_team_is_renamed(server: StandIn, key_file: Path):
    server.answers["POST /api/admin/rename-team"] = Answer(body={})
    assert admin(server.url, key_file, "rename-team", "River", " Stream ") == "The team River is called Stream now."
    assert server.heard[-1].body == {"name": "River", "new": "Stream"}


@pytest.mark.parametrize(
    ("action", "arguments", "told"),
    [
        ("ban", (), "ban: takes name, as `sahaj admin LINK ban alice`"),
        ("ban", ("bob", "eve"), "ban: takes name"),
        ("pause", ("now",), "pause: takes no argument, as `sahaj admin LINK pause`"),
        ("announce", (), "sahaj admin LINK announce 'Back at nine'"),
        ("restore", (), "sahaj admin LINK restore 1200"),
        ("rename-team", ("River",), "rename-team: takes name and new, as `.* rename-team 'River people' Stream`"),
        ("explode", (), "explode: no such action; there are allow, "),
    ],
)
def test_a_mistaken_command_is_not_sent(
    server: StandIn, key_file: Path, action: str, arguments: tuple[str, ...], told: str
):
    with raises_problem(ProblemKind.MALFORMED, match=told):
        admin(server.url, key_file, action, *arguments)
    assert not server.heard


def test_who_stops_a_run_is_told_the_way_back_and_the_end(server: StandIn, key_file: Path):
    server.answers["POST /api/admin/stop"] = Answer(body={})
    line = admin(server.url, key_file, "stop")
    assert "`sahaj admin LINK resume`" in line
    assert "Ctrl-C" in line


@pytest.mark.parametrize("answer", [Answer(401, refused("token_rejected")), Answer(403, '{"detail": "no"}')])
def test_a_wrong_key(server: StandIn, key_file: Path, answer: Answer):
    server.answers["POST /api/admin/stop"] = answer
    with raises_problem(ProblemKind.ADMIN_KEY) as problem:
        admin(server.url, key_file, Action.STOP)
    assert str(key_file) in str(problem.value)
    assert KEY not in str(problem.value)
    assert "--key NAME-state/admin.key" in str(problem.value)
    assert problem.value.exit_status == 41


@pytest.mark.parametrize("content", [b"", b"two words", b"\xff\xfe", b"x" * 2000])
def test_a_file_that_holds_no_key(server: StandIn, tmp_path: Path, content: bytes):
    path = tmp_path / "odd.key"
    path.write_bytes(content)
    with raises_problem(ProblemKind.ADMIN_KEY, match=r"odd\.key"):
        admin(server.url, path, "stop")


def test_no_key_file(server: StandIn, tmp_path: Path):
    with raises_problem(ProblemKind.ADMIN_KEY, match=r"no such key file; .* --key NAME-state/admin\.key"):
        admin(server.url, tmp_path / "absent", "stop")


def test_the_key_does_not_travel_in_the_clear(key_file: Path):
    with raises_problem(ProblemKind.ADMIN_KEY, match="not encrypted"):
        admin("http://192.0.2.1:8080", key_file, "stop")


def test_the_coordinators_refusal_is_told(server: StandIn, key_file: Path):
    server.answers["GET /api/admin/decisions"] = Answer(body=lists())
    server.answers["POST /api/admin/ban"] = Answer(422, refused("malformed", "nobody: no such user"))
    with pytest.raises(JoinProblem, match="nobody: no such user"):
        admin(server.url, key_file, "ban", "nobody")


def test_the_coordinator_is_away(server: StandIn, key_file: Path):
    server.close()
    with raises_problem(ProblemKind.COORDINATOR_AWAY):
        admin(server.url, key_file, "pause")


def test_flags_are_told_a_line_each(server: StandIn, key_file: Path):
    server.answers["GET /api/admin/flags"] = Answer(body="[]")
    assert admin(server.url, key_file, "flags") == "No flags."
    about = {"user": "~e\x1b[31mve", "peer_id": "QmPeer", "what": "claimed too much", "times": 1200}
    server.answers["GET /api/admin/flags"] = Answer(body=json.dumps([about | {"last": time.time() - 7200}] * 2))
    first, second = admin(server.url, key_file, "flags").split("\n")
    assert first == second
    assert first.isprintable()
    assert first.endswith("ve (QmPeer) claimed too much - 1,200 times, last 2 h ago")
    assert (server.heard[-1].method, server.heard[-1].bearer) == ("GET", KEY)


def test_an_answer_that_is_no_list_of_flags(server: StandIn, key_file: Path):
    server.answers["GET /api/admin/flags"] = Answer(body={"detail": "?"})
    with pytest.raises(JoinProblem, match="of another version"):
        admin(server.url, key_file, "flags")


def test_evidence_is_written_into_a_file(
    server: StandIn, key_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    proved = {"user": "~eve", "peer_id": "12D3", "what": "signed two different pieces of chunk 3", "step": 1400}
    server.answers["GET /api/admin/evidence?name=~eve"] = Answer(body=json.dumps([proved]))
    said = admin(server.url, key_file, "evidence", "~eve").splitlines()
    assert said[0] == "~eve signed two different pieces of chunk 3, step 1,400"
    assert said[1].startswith("evidence--eve.json: ")
    assert json.loads((tmp_path / "evidence--eve.json").read_text()) == [proved]
    server.answers["GET /api/admin/evidence?name=asha"] = Answer(body="[]")
    assert admin(server.url, key_file, "evidence", "asha") == "There is no proof against asha."
