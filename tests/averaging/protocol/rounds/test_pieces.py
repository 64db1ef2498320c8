"""Which pieces make room for others."""

from averaging.log.header import Ballot
from averaging.protocol.messages import Piece
from averaging.protocol.rounds.pieces import MOST_SESSIONS, Pieces

CHUNKS = 3


def of(number: int, chunk: int = 0, attempt: int = 0) -> Piece:
    return Piece(Ballot(number, "convener"), chunk, attempt)


def full(*numbers: int) -> Pieces[int]:
    """Two pieces of each ballot."""
    pieces = Pieces[int](CHUNKS)
    for number in numbers:
        assert all(pieces.keep("asha.0", of(number, chunk), number) for chunk in range(2))
    return pieces


def test_a_piece_of_a_newer_ballot_takes_the_place_of_all_older_ones() -> None:
    pieces = full(1, 2, 3)
    assert pieces.keep("asha.0", of(4), 4)
    assert pieces.of("asha.0") == {of(4): 4}


def test_a_piece_of_the_newest_ballot_leaves_the_others_of_it() -> None:
    pieces = full(1, 2, 3)
    assert pieces.keep("asha.0", of(3, 2), 3)
    assert pieces.of("asha.0") == {of(3, chunk): 3 for chunk in range(CHUNKS)}


def test_a_piece_of_an_older_ballot_finds_no_room_among_newer_ones_though_there_are_still_older_ones() -> None:
    pieces = full(1, 2, 3)
    assert not pieces.keep("asha.0", of(2, 2), 2)
    assert len(pieces.of("asha.0")) == 2 * CHUNKS
    assert full(1, 2).keep("asha.0", of(1, 2), 1)  # there is room for two ballots


def test_one_ballot_has_no_more_room_than_two() -> None:
    pieces = Pieces[None](CHUNKS)
    kept = [pieces.keep("asha.0", of(1, chunk, attempt), None) for attempt in range(3) for chunk in range(CHUNKS)]
    assert kept == [True] * 2 * CHUNKS + [False] * CHUNKS


def test_what_is_sent_again_takes_no_room() -> None:
    pieces = Pieces[int](CHUNKS)
    assert all(pieces.keep("asha.0", of(1), time) for time in range(3 * CHUNKS))
    assert pieces.of("asha.0") == {of(1): 3 * CHUNKS - 1}


def test_a_peer_fills_the_room_of_its_own_sessions_alone() -> None:
    pieces = full(1, 2, 3)
    for session in range(MOST_SESSIONS + 1):
        assert pieces.keep(f"eve.{session}", of(9), session)
    assert len(pieces.of("asha.0")) == 2 * CHUNKS and not pieces.of("eve.0")
    assert all(pieces.of(f"eve.{session}") for session in range(1, MOST_SESSIONS + 1))


def test_pieces_of_other_ballots_are_dropped_and_their_senders_forgotten() -> None:
    pieces = full(1, 2, 3)
    pieces.keep("bela.0", of(1), 1)
    pieces.keep_only(lambda ballot: ballot >= of(3).ballot)
    assert pieces.of("asha.0") == {of(3): 3, of(3, 1): 3}
    assert not pieces.of("bela.0") and list(pieces._by_sender) == ["asha.0"]
