"""Whoever says too much of its line is found out by those who had to wait for it."""

from dataclasses import replace

import pytest
from hivemind.p2p import PeerID

from trainer.averaging.lines.late import LONGEST_REMEMBERED, REMEMBERED, Memory, Wait, believed, blamed, carried
from trainer.averaging.lines.waits import Arrivals, last_alone
from trainer.averaging.told import MOST_WORDS, Told, Word

HONEST, LIAR, THIRD, FOURTH = (PeerID(bytes([number])) for number in range(4))
SAID, SEEN = 1e7, 1e5  # bytes a second


def group(*, by_senders: int = 0, by_means: int = 0, about: PeerID = LIAR, seen: float = SEEN) -> dict[PeerID, Told]:
    """Four peers that say the same of their lines, and so many of the others have seen somebody carry less."""
    told = {peer: Told(3, b"", False, 0, SAID, SAID) for peer in (HONEST, LIAR, THIRD, FOURTH)}
    others = [peer for peer in told if peer != about]
    for number, peer in enumerate(others[: by_senders + by_means]):
        told[peer] = replace(told[peer], late=(Word(about.to_bytes(), seen, number < by_senders),))
    return told


def test_two_who_saw_the_same_are_believed():
    assert [one.upload for one in believed(group(by_senders=2))] == [SAID, SEEN, SAID, SAID]
    assert [one.download for one in believed(group(by_means=3))] == [SAID, SEEN, SAID, SAID]


def test_nobody_is_believed_alone_and_nobody_speaks_of_itself():
    assert believed(group(by_senders=1)) == list(group(by_senders=1).values())
    alone = group()
    alone[LIAR] = replace(alone[LIAR], late=(Word(LIAR.to_bytes(), 2 * SAID, True),) * 2)
    alone[HONEST] = replace(alone[HONEST], late=(Word(LIAR.to_bytes(), SEEN, True),) * 2)
    assert [one.upload for one in believed(alone)] == [SAID] * 4


def test_words_never_make_a_line_faster():
    assert [one.upload for one in believed(group(by_senders=3, seen=2 * SAID))] == [SAID] * 4


def test_who_is_sent_gradients_sees_more_than_who_gets_means():
    told = group(by_senders=2)
    told[FOURTH] = replace(told[FOURTH], late=(Word(LIAR.to_bytes(), 10.0, False),))
    assert [one.upload for one in believed(told)] == [SAID, SEEN, SAID, SAID]


def test_a_line_of_which_nothing_was_said_is_known_by_what_was_seen():
    told = group(by_means=2)
    told[LIAR] = replace(told[LIAR], upload=0.0, download=0.0)
    assert believed(told)[1].upload == believed(told)[1].download == SEEN


def test_who_made_a_late_round_late_is_blamed():
    waits = [Wait(LIAR, 8.0, True), Wait(THIRD, 7.0, False)]
    assert blamed(waits, took=12.0, predicted=2.0) == waits[0]
    assert blamed(waits, took=12.0, predicted=8.0) is None  # about as long as was to be expected
    assert blamed(waits, took=40.0, predicted=2.0) is None  # it was not for one member alone
    assert blamed([], took=12.0, predicted=2.0) is None


def test_a_line_carries_ones_own_gradients_and_the_means_of_ones_part():
    assert carried(0.0, 4, 1e6) == 1e6
    assert carried(0.25, 4, 1e6) == pytest.approx(1.5e6)  # three quarters up, and a quarter to each of three
    assert carried(1.0, 4, 1e6) == pytest.approx(3e6)


def test_words_are_forgotten_and_last_longer_when_it_happens_again():
    memory, lengths = Memory(), []
    for _ in range(8):
        memory.next_round()
        memory.note(Word(LIAR.to_bytes(), SEEN, True))
        rounds = 0
        while memory.words():
            memory.next_round()
            rounds += 1
        lengths.append(rounds - 1)
    assert lengths[:3] == [REMEMBERED, 2 * REMEMBERED, 4 * REMEMBERED]
    assert lengths[-1] == LONGEST_REMEMBERED


def test_the_newest_word_on_a_peer_counts_and_the_newest_of_many():
    memory = Memory()
    memory.note(Word(LIAR.to_bytes(), 2 * SEEN, True))
    memory.note(Word(LIAR.to_bytes(), SEEN, False))
    assert memory.words() == [Word(LIAR.to_bytes(), SEEN, False)]
    for number in range(10, 30):
        memory.note(Word(bytes([number]), SEEN, True))
    assert [word.peer[0] for word in memory.words()] == list(range(30 - MOST_WORDS, 30))


def test_a_peer_waits_alone_for_whoever_sends_last():
    arrivals = Arrivals(senders=3, now=0.0)
    for piece, last in enumerate((4.0, 6.0)):
        arrivals.come(0, piece, 0.5 + piece)
        arrivals.come(1, piece, 1.0 + piece)
        arrivals.come(2, piece, last)
    assert arrivals.alone == {2: pytest.approx(5.0)}  # 3 for the first piece; the second was waited for from then on


def test_the_last_mean_was_waited_for_since_the_last_but_one():
    assert last_alone({1: 5.0, 2: 9.0, 3: 2.0}, began=1.0) == (2, 4.0)
    assert last_alone({1: 5.0}, began=1.0) == (1, 4.0)
    assert last_alone({}, began=1.0) is None
