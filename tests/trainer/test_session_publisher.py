"""What a session's record tells of hosts, while a process is one session after the other."""

from trainer.session_publisher import SessionTally

FIRST, SECOND = "1" * 32, "2" * 32


def test_a_session_tells_what_it_was_served_since_it_began() -> None:
    served = {"hema": 5}
    tally = SessionTally(lambda: served)
    assert tally.of(FIRST) == [("hema", 5)]
    served = {"hema": 9, "kavi": 20}
    assert tally.of(FIRST) == [("kavi", 20), ("hema", 9)]
    served = {"hema": 10, "kavi": 20}
    assert tally.of(SECOND) == [("hema", 1)], "what was not told yet is the next session's"
    assert tally.of(SECOND) == [("hema", 1)]
    served = {"hema": 10, "kavi": 24}
    assert tally.of(SECOND) == [("kavi", 4), ("hema", 1)]


def test_a_record_has_room_for_those_that_served_most() -> None:
    tally = SessionTally(lambda: {str(number): number for number in range(1, 1000)})
    told = tally.of(FIRST)
    assert len(told) == 128 and told[0] == ("999", 999)
