"""For whom a round waits."""

import itertools

import pytest
from msgspec.structs import replace

from averaging.log.chain import Chain
from averaging.log.header import Ballot, Head, HeaderKind, SnapshotName
from averaging.protocol.actions import Apply, Average, SaveProposal, Send
from averaging.protocol.messages import Call, Contact, Meet, Offer, Piece, Plan, Propose, Report, Status, Vote
from averaging.protocol.peer import LogPeer
from averaging.protocol.rounds.batch_progress import ANSWERED, FORGIVEN, LATELY, MISSES, MOST_DOUBLINGS, PeerViews
from averaging.protocol.settings import Settings
from tests.averaging.believing import Believing
from tests.averaging.log.headers import chain_of

HERE = Head(3, "here")
ME = Contact("coordinator.0", "coordinator", reachable=True, is_coordinator=True)
ASHA = Contact("asha.0", "asha", reachable=True)
EVE = Contact("eve.0", "eve", reachable=True)


def leading(target_samples: int = 4, chunks: int = 1, snapshot_every: int = 99, me: Contact = ME) -> LogPeer:
    """A coordinator at the first header of a run, or another peer there."""
    settings = Settings("run", target_samples=target_samples, chunks=chunks, snapshot_every=snapshot_every)
    machine = LogPeer(me, settings, Believing(), 0.0, held=("old",))
    machine.start(Chain(chain_of(1, kind=HeaderKind.GENESIS, tie_breaker=ME.session)), [SnapshotName(0, "old")])
    return machine


def told(**samples: int) -> PeerViews:
    """What everybody has gathered; they missed the last rounds, but for those with an underscore."""
    views = PeerViews()
    for name, its in samples.items():
        views.note(name, HERE, its, now=10.0)
    for _ in range(MISSES):
        views.round_closed("here", [name for name in samples if name.startswith("_")], now=10.0)
    return views


def test_who_has_missed_rounds_counts_nothing_while_others_bring_something() -> None:
    views = told(_asha=6, _bela=0, chand=9)
    assert set(views.expected("here", now=11.0)) == {"_asha", "_bela"}
    assert views.gathered("here", now=11.0) == 6
    views.note("_asha", HERE, 0, now=11.0)  # after a step
    assert views.gathered("here", now=11.0) == 0
    views.round_closed("here", ["_asha", "_bela", "chand"], now=12.0)
    assert views.gathered("here", now=12.0) == 9


def test_it_is_counted_on_again_after_a_while_and_later_each_time() -> None:
    views, now, waits = PeerViews(), 0.0, []
    views.note("asha", HERE, 10, now)
    peer = views.peers["asha"]
    for _ in range(MISSES + 7):
        views.note("asha", HERE, 10, now)
        views.round_closed("here", [], now)
        last = now
        while not peer.is_counted_on(now):
            now += 1.0
        waits.append(now - last)
    assert waits == [0.0] * (MISSES - 1) + [FORGIVEN * 2 ** min(number, MOST_DOUBLINGS) for number in range(8)]
    views.note("asha", HERE, 10, now)
    views.round_closed("here", ["asha"], now)
    assert not peer.missed


def test_it_counts_where_no_other_brings_anything() -> None:
    views = told(_coordinator=0, bela=4, chand=9)
    assert set(views.expected("here", now=11.0)) == {"_coordinator", "bela", "chand"}
    assert views.gathered("here", now=11.0) == 13


def test_rounds_that_did_not_wait_for_it_are_not_held_against_it() -> None:
    views = told(_asha=10, chand=9)
    later = 10.0 + FORGIVEN / 2
    views.round_closed("here", ["_asha"], now=later)
    for name in ("_asha", "chand"):
        views.note(name, HERE, 10, now=10.0 + FORGIVEN)
    assert set(views.expected("here", now=10.0 + FORGIVEN)) == {"_asha", "chand"}


def test_what_a_member_offers_and_does_not_send_is_not_planned_with_for_a_while() -> None:
    """It makes no more than two steps on a part of the batch, and holds no more rounds up."""
    machine = leading()
    asha = replace(ASHA, reachable=False)
    steps: list[tuple[float, int]] = []  # when each was taken, and its samples
    now, gathered, lie = 0.0, 1, 4 * 4
    while now < 60.0:
        now += 0.25
        gathered += now % 1 == 0
        eve = Contact(f"eve.{now // 6:.0f}", "eve", reachable=False)  # another session now and then
        machine.contacts([eve, asha], now)  # she calls first
        for session, samples in ((asha.session, gathered), (eve.session, lie)):
            machine.receive(session, Report(machine.head, samples), now)
        machine.tick(now)
        for action in machine.take_actions():
            match action:
                case Send(to, Meet() as meet):
                    samples = gathered if to == asha.session else lie
                    offers = (Offer(len(steps), weight=samples, samples=samples, loss=0.0),) if samples else ()
                    machine.receive(to, Call(meet.instance, meet.ballot, offers, None), now)
                case Send(asha.session, Plan() as plan) if plan.buffers_of(asha.session):
                    machine.receive(asha.session, Piece(plan.ballot, 0, plan.parts[0].attempt), now)
                case Send(asha.session, Propose() as proposal):
                    machine.receive(asha.session, Vote(proposal.ballot, proposal.header.digest), now)
                case Average(plan, chunk, attempt, _):
                    machine.averaged(plan.ballot, chunk, attempt, f"chunk {len(steps)}", now)
                case SaveProposal(accepted):
                    machine.proposal_saved(accepted.ballot, now)
                case Apply(entry):
                    steps.append((now, sum(one.samples for one in entry.header.members)))
                    gathered = 1  # a batch that was computed meanwhile
    poor = [at for at, samples in steps if samples < 4]
    assert len(steps) > 5 and MISSES <= len(poor) <= MISSES + 60.0 / FORGIVEN
    assert all(later - before >= FORGIVEN for before, later in itertools.pairwise(poor[1:]))


def test_a_report_of_more_than_any_peer_can_bring_counts_nothing() -> None:
    machine = leading()
    machine.contacts([ASHA], 0.0)
    for samples, counted in ((17, 0), (16, 16)):
        machine.receive(ASHA.session, Report(machine.head, samples), 1.0)
        assert machine.progress.gathered(1.0) == counted


def doubting(user: str) -> LogPeer:
    """A coordinator with two trainers, asha and eve, one of whom is on probation; a batch has four samples."""
    machine = leading()
    machine.contacts([ASHA, EVE], 0.0)
    machine.session.on_probation = frozenset([user])
    return machine


def test_users_on_probation_fill_no_batch_while_others_train() -> None:
    machine = doubting("eve")
    machine.receive(EVE.session, Report(machine.head, 9), 1.0)
    assert machine.progress.gathered(1.0) == 9, "nobody else trains"
    for samples in (3, 0):  # also in the moment after a step
        machine.receive(ASHA.session, Report(machine.head, samples), 1.0)
        assert machine.progress.gathered(1.0) == samples
        assert not machine.progress.is_full(1.0)
    machine.receive(ASHA.session, Report(machine.head, 4), 1.0)
    assert machine.progress.is_full(1.0)


@pytest.mark.parametrize(("doubted", "shown"), [("eve", 1), ("asha", 9)])
def test_what_a_peer_on_probation_has_is_shown_as_the_convener_counts_it(doubted: str, shown: int) -> None:
    machine = leading(me=EVE)
    machine.contacts([ME, ASHA], 0.0)
    machine.session.on_probation = frozenset([doubted])
    machine.computed(9, 1.0, samples=9)
    machine.receive(ME.session, Status(machine.head, None, convenes=True, gathered=1), 1.0)
    assert machine.progress.gathered(1.0) == shown


def test_a_user_on_probation_that_is_first_at_a_header_does_not_fill_the_batch_alone() -> None:
    machine = doubting("eve")
    machine.receive(ASHA.session, Report(Head(-1, "the one before"), 3), 1.0)
    machine.receive(EVE.session, Report(machine.head, 9), 1.0)
    assert machine.progress.gathered(1.0) == 0 and not machine.progress.is_full(1.0)


def test_users_on_probation_are_not_waited_with_for_one_that_brings_nothing_any_more() -> None:
    machine, now = doubting("eve"), 1.0
    machine.receive(ASHA.session, Report(machine.head, 3), now)
    while not machine.progress.is_full(now):
        now += 2.0
        for session, samples in ((ASHA.session, 0), (EVE.session, 9)):
            machine.receive(session, Report(machine.head, samples), now)
    assert LATELY < now < LATELY + 5.0


def test_samples_of_sessions_that_are_not_listed_fill_no_batch_either() -> None:
    machine = doubting("eve")
    machine.receive(ASHA.session, Report(machine.head, 3), 1.0)
    machine.receive("eve.1", Report(machine.head, 9), 1.0)
    assert machine.progress.gathered(1.0) == 3


@pytest.mark.parametrize(("doubted", "has_plan"), [("eve", False), ("nobody", True)])
def test_a_round_to_which_only_users_on_probation_bring_enough_fails(doubted: str, has_plan: bool) -> None:
    machine = doubting(doubted)
    for contact, samples in ((EVE, 0), (ASHA, 4)):
        machine.receive(contact.session, Report(machine.head, samples), 1.0)
    actions = machine.take_actions()
    (meet,) = {action.message for action in actions if isinstance(action, Send) and isinstance(action.message, Meet)}
    for contact, samples in ((ASHA, 1), (EVE, 9)):
        offer = Offer(0, weight=samples, samples=samples, loss=0.0)
        machine.receive(contact.session, Call(meet.instance, meet.ballot, (offer,), None), 1.0)
    sent = [action.message for action in machine.take_actions() if isinstance(action, Send)]
    assert any(isinstance(message, Plan) for message in sent) == has_plan


def test_a_peer_that_reports_at_each_answer_is_not_answered_without_end() -> None:
    machine = leading()
    machine.contacts([ASHA], 0.0)
    machine.take_actions()
    answered = []
    for now in (1.0, 1.0, 1.1, 1.0 + ANSWERED, 1.0 + ANSWERED):
        machine.receive(ASHA.session, Report(machine.head, 1), now)
        answered += [now for action in machine.take_actions() if isinstance(action, Send)]
    assert answered == [1.0, 1.0 + ANSWERED]


def test_a_peer_that_reports_a_batch_and_never_calls_opens_ever_fewer_rounds() -> None:
    """While the others have not gathered the batch by themselves."""
    machine = leading(target_samples=1000)
    machine.contacts([ASHA, Contact("eve.0", "eve", reachable=True)], 0.0)
    opened: dict[Ballot, float] = {}
    for tick in range(4 * 900):
        now = tick / 4
        for session, samples in ((ASHA.session, int(now)), ("eve.0", 1000)):
            machine.receive(session, Report(machine.head, samples), now)
        machine.tick(now)
        for action in machine.take_actions():
            match action:
                case Send(ASHA.session, Meet() as meet):
                    opened.setdefault(meet.ballot, now)
                    offers = (Offer(0, weight=int(now), samples=int(now), loss=0.0),) if now >= 1.0 else ()
                    machine.receive(ASHA.session, Call(meet.instance, meet.ballot, offers, None), now)
    pauses = [later - before for before, later in itertools.pairwise(opened.values())]
    assert len(opened) < MISSES + MOST_DOUBLINGS + 900 / (FORGIVEN * 2**MOST_DOUBLINGS)
    assert sorted(pauses) == pauses and pauses[-1] >= FORGIVEN * 2**MOST_DOUBLINGS


def test_a_lone_trainer_that_was_late_again_and_again_gets_its_step() -> None:
    """Each round that it misses must leave it the time for the next one."""
    machine = leading(chunks=3, snapshot_every=5)
    machine.contacts([ASHA], 0.0)
    now = 0.0
    asked: list[tuple[Meet, float]] = []
    while now < 60.0:
        now += 0.25
        machine.receive(ASHA.session, Report(machine.head, 4), now)
        machine.tick(now)
        meets = [
            one.message for one in machine.take_actions() if isinstance(one, Send) and isinstance(one.message, Meet)
        ]
        asked += [(meet, now) for meet in meets if meet.ballot not in [known.ballot for known, _ in asked]]
        answered = [meet for meet, at in asked if at == now - 1.0 and now > 30.0]  # a second is no long time
        for meet in answered:
            offers = (Offer(0, weight=9, samples=4, loss=8.0),)
            machine.receive(ASHA.session, Call(machine.log.tip.digest, meet.ballot, offers, None), now)
            machine.tick(now)
            sent = [one.message for one in machine.take_actions() if isinstance(one, Send)]
            assert any(isinstance(message, Plan) for message in sent)
            return
    raise AssertionError("it was never asked and waited for")
