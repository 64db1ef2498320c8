"""Which chunks a coordinator looks at, whom it asks, and who is answered."""

from msgspec.structs import replace

from averaging.log.header import Ballot, Exclusion, Header, HeaderKind, Member, Part
from averaging.protocol.actions import Action, Audit, Observe, Send
from averaging.protocol.auditing import ANSWERS, Auditing, reducer_of, senders_of
from averaging.protocol.contacts import Contacts
from averaging.protocol.messages import Contact, ShownAccount, ShownPiece, WantProof
from averaging.protocol.rounds.reliability import Patience
from averaging.protocol.session import Session
from averaging.protocol.settings import Settings
from tests.averaging.believing import Believing

COORDINATOR = Contact("coordinator.0", "coordinator", True, is_coordinator=True)
NAMES = ("asha.0", "bela.0", "chand.0")
CHUNKS = 32  # one is looked at in every step


def auditing(me: Contact, robust: str = "watch") -> tuple[Auditing, Session]:
    """Of a peer that knows all others."""
    session = Session(me, Settings("run", 100, CHUNKS, 100, robust=robust), Believing())  # type: ignore[arg-type]
    contacts = Contacts(me, Believing())
    contacts.listed([COORDINATOR, *(Contact(one, one, True) for one in NAMES)])
    return Auditing(session, contacts, Patience()), session


def update(step: int, reducer: str = "asha.0") -> Header:
    """That all three have brought gradients to; bela's are missing from chunk 5."""
    members = (
        *(Member(one, one, (0,), 10, True) for one in NAMES),
        Member(COORDINATOR.session, "coordinator", (), 0, True),
    )
    parts = (Part(reducer, tuple(f"{chunk:064}" for chunk in range(CHUNKS))),)
    return Header(
        "run", step, HeaderKind.UPDATE, "before", Ballot(1, "c"), members, parts, (Exclusion("bela.0", (5,)),)
    )  # fmt: skip


def asked(actions: list[Action]) -> dict[str, WantProof]:
    return {one.to: one.message for one in actions if isinstance(one, Send) and isinstance(one.message, WantProof)}


def test_senders_are_those_whose_pieces_are_in_the_mean() -> None:
    assert senders_of(update(1), 4) == NAMES
    assert senders_of(update(1), 5) == ("asha.0", "chand.0")
    assert reducer_of(update(1), CHUNKS - 1) == "asha.0"


def test_each_chunk_is_looked_at_sometime_and_nobody_is_asked_for_one_of_its_own() -> None:
    seen = set()
    for step in range(400):
        one, session = auditing(COORDINATOR)
        one.committed(update(step), 0.0)
        seen |= {want.chunk for want in asked(session.take()).values()}
        one, session = auditing(COORDINATOR)
        one.committed(update(step, COORDINATOR.session), 0.0)
        assert not asked(session.take())
    assert seen == set(range(CHUNKS))


def test_pieces_are_compared_after_each_step_of_which_it_was_a_member() -> None:
    for header, is_member in ((update(1), True), (update(2), True), (replace(update(3), members=()), False)):
        one, session = auditing(COORDINATOR)
        one.committed(header, 0.0)
        observed = [action for action in session.take() if isinstance(action, Observe)]
        assert [action.header for action in observed] == [header] * is_member
        assert all(("asha.0", "asha.0") in action.users for action in observed)


def test_a_trainer_looks_at_nothing_and_nor_does_a_run_that_compares_nothing() -> None:
    for one, session in (auditing(Contact("asha.0", "asha", True)), auditing(COORDINATOR, "off")):
        for reducer in ("asha.0", COORDINATOR.session):
            one.committed(update(1, reducer), 0.0)
            assert not session.take()


def test_it_sums_again_once_all_have_shown_theirs_and_what_was_not_asked_for_is_not_kept() -> None:
    one, session = auditing(COORDINATOR)
    one.committed(update(1), 0.0)
    wants = asked(session.take())
    want = wants["asha.0"]
    name = want.instance, want.ballot, want.chunk
    assert not one.expects("dipa.0", ShownPiece(*name))
    assert not one.expects("bela.0", ShownAccount(*name))
    assert not one.expects("asha.0", ShownPiece(want.instance, want.ballot, want.chunk + 1))
    for sender in senders_of(update(1), want.chunk):
        assert one.expects(sender, ShownPiece(*name))
        one.on_shown(sender, ShownPiece(*name), 1.0)
        assert not one.expects(sender, ShownPiece(*name))
    assert not session.take()
    one.on_shown("asha.0", ShownAccount(*name), 1.0)
    users = tuple((one, one) for one in NAMES)
    assert session.take() == [Audit(update(1), want.chunk, (*users, (COORDINATOR.session, "coordinator")))]


def test_one_that_is_silent_does_not_hold_it_up_for_ever() -> None:
    one, session = auditing(COORDINATOR)
    one.committed(update(1), 0.0)
    session.take()
    one.committed(update(2), 1.0)
    assert not asked(session.take())  # one at a time
    one.tick(ANSWERS)
    (audit,) = session.take()
    assert isinstance(audit, Audit)


def test_a_reducer_that_shows_nothing_is_not_depended_on_for_a_while() -> None:
    one, session = auditing(COORDINATOR)
    one.committed(update(1), 0.0)
    name = "before", Ballot(1, "c"), asked(session.take())["asha.0"].chunk
    for sender in NAMES[1:]:
        one.on_shown(sender, ShownPiece(*name), 1.0)
    one.tick(ANSWERS)
    assert [name for name in NAMES if not one._patience.trusts(name, ANSWERS)] == ["asha.0"]


def test_where_all_are_silent_it_is_the_coordinator_that_was_away() -> None:
    one, _ = auditing(COORDINATOR)
    one.committed(update(1), 0.0)
    one.tick(ANSWERS)
    assert all(one._patience.trusts(name, ANSWERS) for name in NAMES)


def test_a_step_in_which_it_took_no_part_is_left_alone() -> None:
    one, session = auditing(COORDINATOR)
    for step in range(20):
        header = update(step)
        one.committed(replace(header, members=header.members[:-1]), 0.0)
    assert not session.take()


def test_nobody_else_is_shown_anything() -> None:
    one, session = auditing(Contact("asha.0", "asha", True))
    want = WantProof("before", Ballot(1, "c"), 3)
    for stranger in ("bela.0", "dipa.0"):
        one.on_want(stranger, want, 0.0)
        assert not session.take()
    one.on_want(COORDINATOR.session, want, 0.0)
    name = want.instance, want.ballot, want.chunk
    assert session.take() == [
        Send(COORDINATOR.session, ShownPiece(*name)),
        Send(COORDINATOR.session, ShownAccount(*name)),
    ]
