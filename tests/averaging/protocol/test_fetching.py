"""Who is asked for what, when, and when somebody else is."""

import pytest

from averaging.log.chain import Chain
from averaging.log.header import Certificate, Entry, Part
from averaging.protocol.catching_up.catching_up import CatchingUp
from averaging.protocol.catching_up.trust import Trust
from averaging.protocol.contacts import Contacts
from averaging.protocol.fetching import LONGEST, QUICK, SLOWEST, TOGETHER, Fetching
from averaging.protocol.messages import Chunk, Contact, Message, Want
from averaging.protocol.session import Session
from averaging.protocol.settings import Settings, Timeouts
from tests.averaging.believing import Believing, certified
from tests.averaging.log.headers import FIRST, header

TIMEOUTS = Timeouts()


def fetching_of(asked: list[tuple[str, str]]) -> Fetching:
    """It notes source and digest of each question."""

    def send(to: str, message: Message) -> None:
        assert isinstance(message, Want)
        asked.extend((to, digest) for digest in message.digests)

    return Fetching(send, TIMEOUTS)


def test_a_source_whose_bytes_come_in_is_not_late() -> None:
    asked: list[tuple[str, str]] = []
    fetching = fetching_of(asked)
    fetching.want(["chunk"], ["thin", "other"], 0.0)
    for tenth in range(200):
        fetching.moving("thin", tenth / 10)
        fetching.tick(tenth / 10)
    assert asked == [("thin", "chunk")] and fetching.is_moving(20.0)
    fetching.tick(19.9 + TIMEOUTS.fetch)
    assert asked == [("thin", "chunk"), ("other", "chunk")]
    assert not fetching.is_moving(19.9 + LONGEST)


def test_bytes_that_never_become_a_chunk_do_not_count_for_ever() -> None:
    asked: list[tuple[str, str]] = []
    fetching = fetching_of(asked)
    fetching.want(["chunk"], ["drip", "other"], 0.0)
    for second in range(int(SLOWEST) + 3):
        fetching.moving("drip", float(second))
        fetching.tick(float(second))
    assert asked[-1] == ("other", "chunk")


def test_slow_sources_are_asked_for_one_chunk_at_a_time_and_quick_ones_for_more() -> None:
    for seconds, most in ((QUICK / 10, 4), (QUICK + 0.1, 1)):
        asked: list[tuple[str, str]] = []
        fetching = fetching_of(asked)
        fetching.want([f"chunk {number}" for number in range(20)], ["source"], 0.0)
        come, now = 0, 0.0
        for _ in range(8):
            now += seconds
            fetching.moving("source", now)
            fetching.on_chunk("source", Chunk(asked[come][1]), now)
            come += 1
        assert len(asked) - come == most


def test_few_sources_are_asked_at_a_time() -> None:
    asked: list[tuple[str, str]] = []
    fetching = fetching_of(asked)
    fetching.want([f"chunk {number}" for number in range(50)], [f"source {number}" for number in range(20)], 0.0)
    assert len(asked) == TOGETHER


@pytest.mark.parametrize(("is_member", "asked_at_once"), [(True, []), (False, [("convener", "chunk")])])
def test_reducers_send_a_new_update_to_members_and_others_ask_for_it(
    is_member: bool, asked_at_once: list[tuple[str, str]]
) -> None:
    asked: list[tuple[str, str]] = []
    fetching = fetching_of(asked)
    session = Session(
        Contact("me.0", "me", reachable=True), Settings("run", 1, chunks=1, snapshot_every=5), Believing()
    )
    trust = Trust(Contacts(session.me, Believing()), "run", Believing())
    following = CatchingUp(session, fetching, trust)
    genesis = header(0, voters=("v1",))
    update = header(1, genesis.digest, parts=(Part("convener", ("chunk",)),))
    chain, votes = Chain([Entry(genesis, Certificate(FIRST))]), certified(FIRST, ("v1", FIRST.convener))
    following.offered("convener", Entry(update, votes), chain, 0.0, is_member=is_member)
    assert asked == asked_at_once


def test_a_source_that_was_silent_is_not_asked_while_another_answers() -> None:
    """A reducer of old updates may be long gone; each of them would cost its patience again."""
    asked: list[tuple[str, str]] = []
    fetching = fetching_of(asked)
    for step in range(8):
        update = header(step, parts=(Part("gone.0", (f"mean {step}",)),))
        fetching.want_header(update, ["source.0"], 0.0, is_new=False)
    now = 0.0
    while fetching.wanted and now < 60.0:
        now += 0.1
        for digest in [digest for source, digest in asked if source == "source.0"]:
            fetching.arrived(digest, now, "source.0")
        fetching.tick(now)
    assert not fetching.wanted and now < 2 * TIMEOUTS.fetch
    assert sum(source == "gone.0" for source, _ in asked) <= 1


def test_what_a_peer_does_not_want_any_more_is_not_asked_for() -> None:
    asked: list[tuple[str, str]] = []
    fetching = fetching_of(asked)
    fetching.want(["gone", "kept"], ["source.0"], 0.0)
    fetching.want_only(["kept"])
    asked.clear()
    fetching.tick(100.0)
    assert asked == [("source.0", "kept")] and set(fetching.wanted) == {"kept"}
