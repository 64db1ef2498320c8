"""Attackers that speak the protocols of DHT and log themselves get nothing, and the swarm trains on.

Each case is a process of its own. They come in three crowds, each all at once, against one swarm that trains all
the while: those without a pass of their own, those with one, and those who only make noise.
"""

import time
from dataclasses import dataclass

import pytest

from app.demo.peers import Peer
from app.join.problems import ProblemKind
from app.organizing.admin import admin
from averaging.log.header import Header, HeaderKind
from coordinator.http.request_limits import JoinLimits
from coordinator.state_folder import ADMIN_KEY, LOG
from tests.access.attackers.crowds.join_requests import ATTEMPTS, QUIET
from tests.access.attackers.intruder import EVERYTHING
from tests.access.attackers.noise import FLOOD
from tests.access.guarded_swarm import TRAINERS, Attack, GuardedSwarm, Peak
from tests.faults.agreement import headers
from tests.support.small_swarm import COUNTING, TAKEN_OVER, text_of

pytestmark = [pytest.mark.swarm, pytest.mark.faults]
BAN_REACHES = 60.0  # seconds
WELL_FILLED = 0.8  # of the target batch: what a global step has at least, whatever somebody claims
POOR = 4  # global steps with less, until nothing of the peer is planned any more, and when it is tried again
GROWTH = 150_000_000  # bytes that no process of a peer grows by, whatever it is sent
OUTSIDERS = (
    "welcome",
    "no_pass",
    "forged_pass",
    "expired_pass",
    "borrowed_pass",
    "other_peer",
    "flood",
)
LIARS = ("ahead", "forger", "freeloader")
INSIDERS = ("replayed", "for_others", "odd_records", "patient", *LIARS)
NOISY = ("noise", "endless")


@pytest.fixture(scope="module")
def outside(swarm: GuardedSwarm) -> Attack:
    """All who have no pass of their own to show, one who has, and a crowd at the door."""
    with swarm.unharmed():
        return swarm.attack(*OUTSIDERS)


@dataclass(frozen=True)
class Inside:
    """What those with a pass have told, and the swarm before and after; steps are counted from 0."""

    attack: Attack
    owners: dict[str, tuple[str, str]]  # user and peer id by session
    headers: list[Header]  # of the global steps that were taken meanwhile
    newcomer: Peer


@pytest.fixture(scope="module")
def inside(swarm: GuardedSwarm) -> Inside:
    """All who have a pass and want more than it gives; global steps are taken while they lie, not only afterwards."""
    owners = {one.session_id: (one.user, one.peer_id) for one in swarm.ledger.sessions()}
    with swarm.unharmed():
        with swarm.attacking(*INSIDERS) as attack:
            swarm.wait(lambda: attack.begun(*LIARS), "beginning of all lies")
            before = swarm.done()
            newcomer = swarm.trainer("zoe")
            swarm.wait(lambda: attack.process.poll() is not None, "end of all lies")
            after = swarm.done()
            swarm.wait(lambda: brings("zoe", headers(swarm.state / LOG)), "contribution of the newcomer")
        assert attack.process.returncode == 0, attack.words()
        assert after - before >= 2, f"the swarm stalled\n{swarm.last_words()}"
    taken = [header for header in headers(swarm.state / LOG) if header.step > before]
    return Inside(attack, owners, taken, newcomer)


def brings(name: str, updates: list[Header]) -> bool:
    """Whether somebody has brought something to these updates."""
    return any(one.user == f"~{name}" and one.weight for header in updates for one in header.members)


@dataclass(frozen=True)
class Noise:
    """What the noisy ones have told, and by how much a process of the swarm has grown at most, in bytes."""

    attack: Attack
    growth: int


@pytest.fixture(scope="module")
def noise(swarm: GuardedSwarm) -> Noise:
    """Messages that are none, and messages without an end."""
    peak = Peak(swarm)
    with swarm.unharmed():
        attack = swarm.attack(*NOISY, meanwhile=peak.look)
    return Noise(attack, peak.growth)


def test_a_real_pass_opens_everything_that_the_attacks_try(swarm: GuardedSwarm, outside: Attack):
    got = outside.got("welcome")["got"]
    for peer in swarm.peer_ids():
        here = [gain for gain in got if gain.endswith(peer)]
        for gain in EVERYTHING:
            assert any(gain in one for one in here), f"no {gain} from {peer} in {got}"


def test_no_pass(swarm: GuardedSwarm, outside: Attack):
    told = outside.got("no_pass")
    assert told["got"] == [] and len(told["refusals"]) >= 3 * len(swarm.peer_ids())
    assert any("refused too often" in one for one in told["refusals"]), "refusing goes on at full cost"


def test_forged_pass(swarm: GuardedSwarm, outside: Attack):
    told = outside.got("forged_pass")
    assert told["got"] == [] and len(told["refusals"]) >= 2 * 3 * len(swarm.peer_ids())


def test_expired_pass(swarm: GuardedSwarm, outside: Attack):
    told = outside.got("expired_pass")
    assert told["got"] == [] and len(told["refusals"]) >= 3 * len(swarm.peer_ids())


def test_somebody_elses_pass_with_a_key_of_ones_own(outside: Attack):
    told = outside.got("borrowed_pass")
    assert told["lent"] >= len(TRAINERS) and told["got"] == []


def test_own_pass_with_another_peer_id(swarm: GuardedSwarm, outside: Attack):
    told = outside.got("other_peer")
    assert told["got"] == [] and len(told["refusals"]) >= 3 * len(swarm.peer_ids())


def test_a_thousand_attempts_to_join(outside: Attack, inside: Inside):
    told = outside.got("flood")
    statuses = told["statuses"]
    assert sum(statuses.values()) == ATTEMPTS and set(statuses) <= {"200", "422", "429"}, statuses
    assert statuses["429"] >= ATTEMPTS - 2 * JoinLimits.per_address
    assert (told["elsewhere"], told["health"]) == (200, 200), told
    assert 0 < told["retry_after"] <= JoinLimits.window
    assert inside.attack.got("patient")["status"] == 200, "the address stays shut out"


def test_replayed_records(inside: Inside):
    told = inside.attack.got("replayed")
    assert told["taken"] > 2 * len(TRAINERS) and told["got"] == []


def test_records_for_another_user(swarm: GuardedSwarm, inside: Inside):
    told = inside.attack.got("for_others")
    assert told["victims"] >= len(TRAINERS) and told["got"] == []
    after = {one.session_id: (one.user, one.peer_id) for one in swarm.ledger.sessions()}
    assert inside.owners.items() <= after.items(), "somebody's session became another's"
    lies = [user for user, peer_id in after.values() if peer_id == told["peer_id"]]
    assert told["stored"] and lies and set(lies) == {"~mallory"}, lies


def test_records_that_are_too_long_or_never_expire(inside: Inside):
    assert inside.attack.got("odd_records")["got"] == []


def test_a_newcomer_among_liars_takes_over_the_runs_state_and_no_false_one(inside: Inside):
    assert inside.attack.got("ahead")["asked"] > 0, "the lies were not heard"
    took = list(map(int, inside.newcomer.said(TAKEN_OVER)))
    assert len(took) == 1 and took[0] <= inside.headers[-1].step
    assert brings("zoe", inside.headers), "what it computes does not fit the run"


def test_forged_votes_goodbyes_resets_and_rollbacks_are_not_believed(inside: Inside):
    assert inside.attack.got("forger")["told"] > 100, "the lies were not heard"
    liars = {inside.attack.got(name)["session"] for name in LIARS}
    assert {header.kind for header in inside.headers} == {HeaderKind.UPDATE}
    for header in inside.headers:
        assert header.ballot.convener not in liars and header.tie_breaker not in liars
        assert not any(one.weight for one in header.members if one.session in liars)


def test_samples_without_gradients_are_not_credited_and_make_no_step_on_a_part_of_the_batch(
    swarm: GuardedSwarm, inside: Inside
):
    assert inside.attack.got("freeloader")["called"] > 2, "the lies were not heard"
    poor = [step for step in inside.headers if sum(one.samples for one in step.members) < WELL_FILLED * swarm.target]
    assert len(poor) <= POOR, [(one.step, [(m.user, m.samples) for m in one.members]) for one in poor]
    assert swarm.ledger.rounds.flags() == []
    credit = {leader.user: leader.samples for leader in swarm.ledger.leaderboard()}
    assert not credit.get("~freeloader") and all(credit[f"~{name}"] > 0 for name in TRAINERS)


def test_oversized_and_malformed_messages(noise: Noise):
    told = noise.attack.got("noise")
    assert told["sent"] > 100 and told["answered"] > 0
    assert noise.growth < GROWTH, f"a process has grown by {noise.growth:,} bytes"


def test_a_message_without_an_end(noise: Noise):
    assert noise.attack.got("endless")["poured"] < FLOOD, "all of it was taken"


def test_a_ban_reaches_everybody(swarm: GuardedSwarm):
    eve = swarm.trainer("eve")
    with swarm.attacking("banned", name="eve") as rogue:
        swarm.wait(lambda: eve.said(COUNTING), "first sample of the one who will be banned")
        swarm.wait(lambda: rogue.begun("banned"), "first look of the rogue")
        (first,) = rogue.told("banned")
        for gain in ("a stored record", "a status", "bytes of the state"):
            assert sum(gain in one for one in first["before"]) >= 3, f"a real pass did not open it: {first}"
        admin(swarm.url, swarm.state / ADMIN_KEY, "ban", "~eve")
        banned_at = time.time()
        swarm.wait(lambda: eve.process.poll() is not None, "end of the banned trainer", BAN_REACHES)
        assert time.time() - banned_at < BAN_REACHES
        assert "The organizer has banned you" in text_of(eve) and eve.process.returncode == ProblemKind.BANNED
        swarm.wait(lambda: rogue.process.poll() is not None, "end of the rogue", 2 * BAN_REACHES)
        told = rogue.got("banned")
    assert told["quiet"] >= QUIET and told["last_gain"] - banned_at < BAN_REACHES, (told, banned_at)
    assert told["join_status"] == 403
    swarm.wait_for_step(swarm.done() + 1)
    assert "Traceback" not in text_of(eve)
