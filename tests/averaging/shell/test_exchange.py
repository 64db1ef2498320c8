"""What a peer keeps of what others send: as much as it may need; the rest is dropped."""

from pathlib import Path

from msgspec.structs import replace

from averaging.log.header import Ballot
from averaging.protocol.messages import Piece
from averaging.protocol.rounds.pieces import MOST_SESSIONS
from averaging.reduce.gradient_codec import encoded_bytes, piece_bytes
from tests.averaging.shell.virtual.village import Village


async def test_pieces_of_failed_rounds_make_room_for_those_of_the_next(tmp_path: Path) -> None:
    village = Village(tmp_path)
    shell = village.add("coordinator", begins=True)
    content = bytes(piece_bytes(village.grid.size(0), "none"))
    promised = Ballot(2**60, "x.0")
    shell.received("coordinator.0", "asha.0", Piece(promised, 0, 0), content)
    assert not shell._exchange._pieces.of("asha.0"), "a piece of a ballot that this peer knows nothing of was kept"
    shell.machine.voting.voter.promise(promised)
    for number in range(5):
        for attempt in range(village.grid.count):
            shell.received("coordinator.0", "asha.0", Piece(Ballot(number, "x.0"), 0, attempt), content)
    kept = shell._exchange._pieces.of("asha.0")
    assert len(kept) <= 2 * village.grid.count
    assert {name.ballot.number for name in kept} == {4}
    shell.received("coordinator.0", "asha.0", Piece(Ballot(9, "x.0"), 0, 0), content[:-1])
    shell.received("coordinator.0", "asha.0", Piece(Ballot(9, "x.0"), village.grid.count, 0), content)
    assert {name.ballot.number for name in kept} == {4}, "a piece of another size was kept"
    for session in range(3 * MOST_SESSIONS):
        shell.received("coordinator.0", f"eve.{session}", Piece(promised, 0, 0), content)
    kept_of = list(shell._exchange._pieces._by_sender)
    assert kept_of == ["asha.0", *(f"eve.{session}" for session in range(2 * MOST_SESSIONS, 3 * MOST_SESSIONS))]


async def test_what_a_reducer_sends_unasked_is_no_longer_than_a_mean(tmp_path: Path) -> None:
    village = Village(tmp_path)
    shell = village.add("coordinator", begins=True)
    village.train(village.add("asha"))
    reducing, exchange = shell.machine.reducing, shell._exchange
    await village.until(lambda: reducing.plan is not None and reducing.is_reducer("asha.0"))
    longest = encoded_bytes(village.grid.size(0), "none")
    assert exchange._is_expected("asha.0", "0" * 64, longest)
    assert not exchange._is_expected("asha.0", "0" * 64, longest + 1)


async def test_no_piece_is_signed_for_a_ballot_that_was_given_up(tmp_path: Path) -> None:
    village = Village(tmp_path)
    village.add("coordinator", begins=True)
    shell = village.add("asha")
    village.train(shell)
    reducing, exchange = shell.machine.reducing, shell._exchange
    await village.until(lambda: reducing.plan is not None and bool(reducing.plan.buffers_of("asha.0")))
    plan = reducing.plan
    assert plan is not None and exchange.sent_piece(plan, 0) is not None
    assert exchange.sent_piece(replace(plan, ballot=Ballot(plan.ballot.number - 1, "x.0")), 0) is None


async def test_the_trainers_thread_ends_no_round_while_a_chunk_is_looked_up(tmp_path: Path) -> None:
    village = Village(tmp_path)
    shell = village.add("coordinator", begins=True)
    asked: list[bool] = []
    shell.machine.reducing.has_mean = lambda *_: asked.append(shell._locked.lock.locked())  # type: ignore
    shell._exchange.chunk("asha.0", "0" * 64)
    assert asked == [True]
