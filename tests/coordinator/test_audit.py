"""Credit is for what groups averaged, not for what peers say of themselves."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hivemind.p2p import PeerID

from coordinator.absence import COMING_BACK, COMING_BACK_STEPS
from coordinator.audit import (
    CLAIM_WAIT,
    EVIDENCE_WAIT,
    ODD_STEPS,
    REMEMBERED,
    Audit,
    Evidence,
)
from coordinator.flags import Flag, Kind, SeenRound, odd_ones
from coordinator.ledger import Contribution, SessionReport, open_ledger
from coordinator.ledger_audit import Averaged
from swarm.records import Contribution as Told
from swarm.records import SessionRecord, mark_of
from swarm.records import Sighting as ToldSighting

HEAVIEST = 4096.0
LONGEST = 128  # tokens of a sample
NOW = 100.0


def peer(number: int) -> PeerID:
    return PeerID(b"\x12\x20" + bytes(31) + bytes([number]))


ASHA, BELA, CARO, DEVI = map(peer, range(4))


def report(who: PeerID, claims: dict[int, int], session: str = "a", user: str = "", loss: float = 6.0) -> SessionReport:
    return SessionReport(
        session_id=session * 32,
        user=user or str(who)[-3:],
        peer_id=str(who),
        client_mode=False,
        device="2 cores",
        started=0.0,
        last_seen=1.0,
        step=1,
        samples_per_second=1.0,
        averaging_rounds=1,
        averaging_failures=0,
        data_wait_fraction=0.0,
        left=False,
        contributions=tuple(Contribution(step, samples, 100 * samples, loss) for step, samples in claims.items()),
    )


def seen(step: int, **samples: float) -> SeenRound:
    names = {"asha": ASHA, "bela": BELA, "caro": CARO, "devi": DEVI}
    return SeenRound(step, {str(names[name]): one for name, one in samples.items()}, 1.0, 2.0)


def witness(user: str, step: int, **samples: int) -> tuple[PeerID, SessionRecord]:
    """The record of somebody who saw these peers bring these samples."""
    names = {"asha": ASHA, "bela": BELA, "caro": CARO, "devi": DEVI, "emil": peer(4)}
    told = [ToldSighting(peer=mark_of(names[name]), samples=one) for name, one in samples.items()]
    record = SessionRecord.construct(
        name=user, contributions=[Told(step=step, samples=1, tokens=1, loss=1.0, seen=told)]
    )
    return ASHA, record


def credited(reports: Sequence[SessionReport]) -> dict[str, dict[int, int]]:
    return {one.peer_id: {claim.step: claim.samples for claim in one.contributions} for one in reports}


def settle(
    audit: Audit, *reports: SessionReport, told: Evidence | None = None, newest: int = 7, now: float = NOW
) -> tuple[dict[str, dict[int, int]], list[Flag]]:
    settled, flags = audit.settle(reports, told or Evidence(), newest, now)
    return credited(settled), flags


def test_what_the_coordinator_saw_is_credited_and_no_more():
    audit = Audit({}, HEAVIEST, LONGEST, evidence=True)
    audit.saw(seen(5, asha=300.0, bela=200.0))
    found, flags = settle(audit, report(ASHA, {5: 300}), report(BELA, {5: 5000}))
    assert found == {str(ASHA): {5: 300}, str(BELA): {5: 200}}
    (flag,) = flags
    assert (flag.kind, flag.peer_id, flag.step) == (Kind.CLAIM, str(BELA), 5)
    assert flag.what == "claimed 5,000 samples of global step 6, of which 200 were averaged"
    again, flags = settle(audit, report(BELA, {5: 9000}))
    assert (again, flags) == ({str(BELA): {5: 200}}, [])  # said once


def test_tokens_shrink_with_the_samples():
    audit = Audit({}, HEAVIEST, LONGEST, evidence=True)
    audit.saw(seen(5, asha=30.0))
    ((settled,), _) = audit.settle([report(ASHA, {5: 90})], Evidence(), 7, NOW)
    assert settled.contributions == (Contribution(5, 30, 3000, 6.0),)


def test_a_peer_that_was_not_in_the_group_gets_nothing():
    audit = Audit({}, HEAVIEST, LONGEST, evidence=True)
    audit.saw(seen(5, asha=300.0))
    told = Evidence([witness("caro", 5, bela=200), witness("devi", 5, bela=200)])  # two who agree on a lie
    found, flags = settle(audit, report(BELA, {5: 200}), told=told)
    assert found == {str(BELA): {}}
    assert flags[0].what == "claimed 200 samples of global step 6, of which 0 were averaged"


def test_in_small_groups_others_tell_what_the_coordinator_did_not_see():
    audit = Audit({}, HEAVIEST, LONGEST, evidence=True, sees_all=False)
    audit.saw(seen(5, asha=300.0))
    told = Evidence([witness("caro", 5, bela=200), witness("devi", 5, asha=900), witness("emil", 5, caro=10)])
    reports = [report(ASHA, {5: 900}), report(BELA, {5: 500}), report(DEVI, {5: 40})]
    waiting, _ = settle(audit, *reports, told=told)
    assert waiting == {str(ASHA): {5: 300}, str(BELA): {}, str(DEVI): {}}
    found, flags = settle(audit, *reports, told=told, now=NOW + EVIDENCE_WAIT)
    assert found == {str(ASHA): {5: 300}, str(BELA): {5: 200}, str(DEVI): {5: 40}}  # nobody met the last one
    assert [flag.peer_id for flag in flags] == [str(BELA)]


def test_in_small_groups_a_sum_of_before_a_restart_is_no_limit():
    before = {5: Averaged(300, {(str(ASHA), "s"): 300})}
    audit = Audit(before, HEAVIEST, LONGEST, evidence=False, sees_all=False)
    assert settle(audit, report(BELA, {5: 200})) == ({str(BELA): {5: 200}}, [])


def test_two_sessions_of_a_peer_share_what_it_brought():
    audit = Audit({}, HEAVIEST, LONGEST, evidence=True)
    audit.saw(seen(5, asha=300.0))
    settled, flags = audit.settle(
        [report(ASHA, {5: 200}, "a"), report(ASHA, {5: 200}, "b")], Evidence(), newest=7, now=NOW
    )
    assert [one.contributions[0].samples for one in settled] == [200, 100]
    assert len(flags) == 1


def test_claims_wait_until_the_coordinator_knows_how_the_round_ended():
    audit = Audit({}, HEAVIEST, LONGEST, evidence=True)
    assert settle(audit, report(ASHA, {8: 10, 2**40: 10}), newest=7) == ({str(ASHA): {}}, [])
    audit.saw(seen(8, asha=10.0))
    assert settle(audit, report(ASHA, {8: 10, 2**40: 10}), newest=8) == ({str(ASHA): {8: 10}}, [])


def test_a_claim_of_long_ago_is_refused_and_told_once():
    audit = Audit({}, HEAVIEST, LONGEST, evidence=True)
    newest = REMEMBERED + 50
    found, flags = settle(audit, report(ASHA, {0: 100, 1: 100}), newest=newest)
    assert found == {str(ASHA): {}}
    assert [one.kind for one in flags] == [Kind.LATE]
    assert settle(audit, report(ASHA, {0: 100, 1: 100}), newest=newest)[1] == []


def back_after(steps: range) -> Audit:
    """The audit of a coordinator that was away in these global steps, and was in the round of the next one."""
    audit = Audit({}, HEAVIEST, LONGEST, evidence=True, went_away=steps.start)
    audit.saw(seen(steps.stop, asha=300.0))
    return audit


def test_what_was_done_while_there_was_no_coordinator_is_credited_however_long_ago():
    audit = back_after(range(100, 3000))
    told = Evidence([witness("asha", 150, bela=200), witness("asha", 2990, bela=210)])
    claims = report(BELA, {150: 200, 2990: 5000}, user="bela")
    assert settle(audit, claims, told=told, newest=3000) == ({str(BELA): {}}, [])
    found, flags = settle(audit, claims, told=told, newest=3000, now=NOW + EVIDENCE_WAIT)
    assert found == {str(BELA): {150: 200, 2990: 210}}
    assert [one.step for one in flags] == [2990]
    before = settle(audit, report(CARO, {99: 10}), newest=3000)
    assert before[0] == {str(CARO): {}} and [one.kind for one in before[1]] == [Kind.LATE]


def test_a_coordinator_that_was_cut_off_for_long_was_away_too():
    audit = back_after(range(100, 200))
    audit.saw(seen(5000, asha=300.0))
    for later in (0.0, EVIDENCE_WAIT):
        found, flags = settle(audit, report(BELA, {150: 9, 201: 9, 4000: 9}), newest=5000, now=NOW + later)
    assert (found, flags) == ({str(BELA): {201: 9, 4000: 9}}, [])


def test_of_steps_with_the_coordinator_nobody_is_believed_later():
    audit = back_after(range(100, 3000))
    newest = 3001 + REMEMBERED
    for _ in range(2):
        late = settle(audit, report(CARO, {3000: 10}), newest=newest, now=NOW + 100 * EVIDENCE_WAIT)
        assert late == ({str(CARO): {}}, [])  # a trainer that was cut off has done nothing wrong


def test_what_was_told_of_a_long_absence_is_not_told_again_under_another_session():
    audit = back_after(range(100, 3000))
    for later in (0.0, EVIDENCE_WAIT):
        found, _ = settle(audit, report(BELA, {150: 200}), newest=3000, now=NOW + later)
    assert found == {str(BELA): {150: 200}}
    settle(audit, report(BELA, {151: 200}), newest=3000, now=NOW + 2 * EVIDENCE_WAIT)  # the next portion
    for later in range(3, 6):
        found, flags = settle(audit, report(BELA, {150: 200}, "c"), newest=3000, now=NOW + later * EVIDENCE_WAIT)
        assert (found, flags) == ({str(BELA): {}}, [])


def test_a_long_absence_takes_little_memory():
    audit = back_after(range(4000))
    for start in range(0, 4000, 100):
        for later in (0.0, EVIDENCE_WAIT):
            claims = report(BELA, dict.fromkeys(range(start, start + 100), 5))
            found, _ = settle(audit, claims, newest=4000, now=NOW + start + later)
        assert len(found[str(BELA)]) == 100
        assert len(audit._steps) <= REMEMBERED + 101


def test_when_all_have_had_the_time_to_tell_of_it_an_absence_is_over():
    later, further = NOW + COMING_BACK + 1.0, 3001 + COMING_BACK_STEPS
    for now, newest, credit in [(later, 3000, {150: 5}), (NOW, further, {150: 5}), (later, further, {})]:
        audit = back_after(range(100, 3000))
        settle(audit, newest=3000)
        settle(audit, report(BELA, {150: 5}), newest=newest, now=now)
        found, flags = settle(audit, report(BELA, {150: 5}), newest=newest, now=now + EVIDENCE_WAIT)
        assert (found, flags) == ({str(BELA): credit}, [])


def test_a_peer_too_fast_to_weigh_all_it_computed_is_no_liar():
    audit = Audit({}, HEAVIEST, LONGEST, evidence=True)
    audit.saw(seen(5, asha=HEAVIEST))
    assert settle(audit, report(ASHA, {5: 6000})) == ({str(ASHA): {5: 4096}}, [])


def test_without_the_coordinator_the_members_of_the_group_are_believed():
    audit = Audit({}, HEAVIEST, LONGEST, evidence=True)
    told = Evidence(
        [witness("asha", 5, bela=200), witness("caro", 5, bela=210, asha=300), witness("devi", 5, bela=9000)]
    )
    assert settle(audit, report(BELA, {5: 5000}, user="bela"), told=told) == ({str(BELA): {}}, [])  # more may speak
    found, flags = settle(audit, report(BELA, {5: 5000}, user="bela"), told=told, now=NOW + 2 * EVIDENCE_WAIT)
    assert found == {str(BELA): {5: 210}}
    assert len(flags) == 1


def test_nobody_is_a_witness_for_himself():
    audit = Audit({}, HEAVIEST, LONGEST, evidence=True)
    told = Evidence([witness("bela", 5, bela=9000), witness("asha", 5, bela=20)])
    settle(audit, report(BELA, {5: 9000}, user="bela"), told=told)
    found, _ = settle(audit, report(BELA, {5: 9000}, user="bela"), told=told, now=NOW + 2 * EVIDENCE_WAIT)
    assert found == {str(BELA): {5: 20}}


@pytest.mark.parametrize(("others", "credit"), [(0, {5: 200}), (1, {5: 200}), (2, {})])
def test_one_who_denies_may_be_the_liar_and_two_are_not(others: int, credit: dict[int, int]):
    audit = Audit({}, HEAVIEST, LONGEST, evidence=True)
    told = Evidence([witness(f"user-{number}", 5, caro=10) for number in range(others)])
    settle(audit, report(BELA, {5: 200}), told=told)
    found, _ = settle(audit, report(BELA, {5: 200}), told=told, now=NOW + 2 * EVIDENCE_WAIT)
    assert found == {str(BELA): credit}


def test_each_user_has_one_voice_however_often_he_speaks():
    audit = Audit({}, HEAVIEST, LONGEST, evidence=True)
    told = Evidence([*[witness("asha", 5, bela=0)] * 9, witness("caro", 5, bela=200), witness("devi", 5, bela=200)])
    settle(audit, report(BELA, {5: 200}, user="bela"), told=told)
    found, flags = settle(audit, report(BELA, {5: 200}, user="bela"), told=told, now=NOW + 2 * EVIDENCE_WAIT)
    assert (found, flags) == ({str(BELA): {5: 200}}, [])


def test_who_tells_of_some_denies_nobody():
    audit = Audit({}, HEAVIEST, LONGEST, evidence=True)
    some = {"asha": 1, "caro": 1, "devi": 1, "emil": 1}
    told = Evidence([witness("user-1", 5, **some), witness("user-2", 5, **some)])
    settle(audit, report(BELA, {5: 200}), told=told)
    assert settle(audit, report(BELA, {5: 200}), told=told, now=NOW + 2 * EVIDENCE_WAIT) == ({str(BELA): {5: 200}}, [])


def test_what_nobody_saw_is_believed_up_to_what_a_peer_can_weigh():
    audit = Audit({}, HEAVIEST, LONGEST, evidence=False)
    claims = [report(BELA, {5: 2**40}, session) for session in "ab"]
    settled, _ = audit.settle(claims, Evidence(), 7, NOW)
    assert [[one.samples for one in report.contributions] for report in settled] == [[round(HEAVIEST)], []]


def test_a_claim_that_is_taken_back_to_nothing_disturbs_nobody():
    audit = Audit({}, HEAVIEST, LONGEST, evidence=True)
    audit.saw(seen(5, asha=300.0, bela=100.0))
    settle(audit, report(ASHA, {5: 300}), report(BELA, {5: 100}, "b"))
    found, _ = settle(audit, report(BELA, {5: 0}, "b"), report(ASHA, {5: 300}))
    assert found == {str(ASHA): {5: 300}, str(BELA): {}}


def test_a_sample_has_no_more_tokens_than_it_can_have():
    audit = Audit({}, HEAVIEST, LONGEST, evidence=True)
    audit.saw(seen(5, asha=30.0))
    lie = replace(report(ASHA, {}), contributions=(Contribution(5, 30, 2**40, 6.0),))
    ((settled,), _) = audit.settle([lie], Evidence(), 7, NOW)
    assert settled.contributions == (Contribution(5, 30, 30 * LONGEST, 6.0),)


def test_after_a_restart_no_more_is_credited_than_was_averaged():
    known = {(str(ASHA), "a" * 32): 100}
    audit = Audit({5: Averaged(350, known)}, HEAVIEST, LONGEST, evidence=True)
    again, flags = settle(audit, report(ASHA, {5: 100}))
    assert (again, flags) == ({str(ASHA): {5: 100}}, [])  # it is in the ledger already
    found, flags = settle(audit, report(BELA, {5: 200}, "b"), report(CARO, {5: 200}, "c"))
    assert found == {str(BELA): {5: 200}, str(CARO): {5: 50}}
    assert [one.peer_id for one in flags] == [str(CARO)]
    audit.saw(seen(5, caro=170.0))  # the step was done again
    assert settle(audit, report(CARO, {5: 170}, "d")) == ({str(CARO): {5: 170}}, [])


def test_where_nobody_tells_what_he_saw_nobody_waits_for_it():
    audit = Audit({}, HEAVIEST, LONGEST, evidence=False)
    assert settle(audit, report(BELA, {5: 200})) == ({str(BELA): {5: 200}}, [])


def test_what_a_peer_brought_is_credited_although_it_died_before_it_could_tell():
    audit = Audit({}, HEAVIEST, LONGEST, evidence=True)
    audit.saw(seen(5, asha=300.0, bela=200.0))
    alive, dead = report(ASHA, {5: 300}), report(BELA, {4: 90}, "b")
    audit.saw(seen(4, bela=90.0))
    assert settle(audit, alive, dead) == ({str(ASHA): {5: 300}, str(BELA): {4: 90}}, [])  # it may yet tell
    for _ in range(2):  # as long as the record stays, or a full disk would lose it
        found, flags = settle(audit, alive, dead, now=NOW + CLAIM_WAIT)
        assert (found, flags) == ({str(ASHA): {5: 300}, str(BELA): {4: 90, 5: 200}}, [])
    late = settle(audit, alive, report(BELA, {4: 90, 5: 200}, "b"), now=NOW + 2 * CLAIM_WAIT)[0]
    assert late[str(BELA)] == {4: 90, 5: 200}


def test_a_coordinator_that_stops_waits_for_no_claim_and_one_that_comes_after_it_is_not_counted_again(tmp_path: Path):
    ledger = open_ledger("sqlite:///ledger.db", tmp_path)
    first = Audit({}, HEAVIEST, LONGEST, evidence=True)
    round_of_both = seen(5, asha=300.0, bela=200.0)
    first.saw(round_of_both)
    settled, _ = first.settle([report(ASHA, {5: 300}), report(BELA, {}, "b")], Evidence(), 7, NOW, final=True)
    assert credited(settled) == {str(ASHA): {5: 300}, str(BELA): {5: 200}}
    ledger.record(settled)
    ledger.audit.write([round_of_both], [], 1.0)

    again = Audit(ledger.audit.averaged(REMEMBERED), HEAVIEST, LONGEST, evidence=True)
    settled, flags = again.settle([report(ASHA, {5: 300}), report(BELA, {5: 200}, "b")], Evidence(), 9, NOW)
    ledger.record(settled)
    assert flags == []
    assert {one.user: one.samples for one in ledger.leaderboard()} == {str(ASHA)[-3:]: 300, str(BELA)[-3:]: 200}
    ledger.close()


def test_what_was_added_has_as_many_tokens_as_its_samples_would_have():
    audit = Audit({}, HEAVIEST, LONGEST, evidence=True)
    audit.saw(seen(5, asha=300.0, bela=200.0))
    reports = [report(ASHA, {5: 300}, loss=5.5), report(BELA, {}, "b")]
    audit.settle(reports, Evidence(), 7, NOW)
    (_, settled), _ = audit.settle(reports, Evidence(), 7, NOW + CLAIM_WAIT)
    assert settled.contributions == (Contribution(5, 200, 20000, 5.5),)


def test_whose_loss_stays_far_above_the_others_is_marked_once():
    audit = Audit({}, HEAVIEST, LONGEST, evidence=True)
    flags = []
    for step in range(20):
        audit.saw(seen(step, asha=10.0, bela=10.0, caro=10.0))
        reports = [
            report(ASHA, {step: 10}),
            report(BELA, {step: 10}, "b", loss=6.2),
            report(CARO, {step: 10}, "c", loss=9.5 if step >= 5 else 6.0),
        ]
        flags += settle(audit, *reports, newest=step)[1]
    (flag,) = flags
    assert (flag.kind, flag.peer_id, flag.step) == (Kind.LOSS, str(CARO), 5 + ODD_STEPS - 1)
    assert flag.what == "its training loss is 9.50, the others' about 6.20"


def test_of_two_nobody_can_tell_whose_loss_is_odd():
    assert odd_ones({"a": 6.0, "b": 60.0}) == {}
    assert odd_ones({"a": 6.0, "b": 6.4, "c": 7.5}) == {"c": 6.4}
    assert odd_ones({"a": 6.0, "b": 6.4, "c": 1.0}) == {}  # a low loss is a good one, or a lie that harms nobody
