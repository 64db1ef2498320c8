"""What the coordinator saw of averaging, and what it found out about peers, in both kinds of database."""

from pathlib import Path

from msgspec import structs

from averaging.log.header import Header, Member, Part
from coordinator.ledger.ledger import Ledger, open_ledger
from coordinator.ledger.rounds import GRADIENT, LOSS, Flag, LoudGradients, OddLosses, SeenRound
from tests.averaging.log.headers import header, member


def test_rounds_are_kept(ledger: Ledger, ledger_url: str, tmp_path: Path):
    rounds = [SeenRound(step, 2.0**step, 1.5) for step in range(5)]
    ledger.rounds.write(rounds, [], now=1000.0)
    again = open_ledger(ledger_url, tmp_path)
    assert again.rounds.gradient_norms(since=2) == [4.0, 8.0, 16.0]
    again.close()


def test_a_round_that_is_done_again_replaces_the_first(ledger: Ledger):
    ledger.rounds.write([SeenRound(3, 1.0, 1.0)], [], now=1.0)
    ledger.rounds.write([SeenRound(3, 5.0, 1.0)], [], now=2.0)
    assert ledger.rounds.gradient_norms(0) == [5.0]


def test_flags_of_a_kind_are_one_with_a_count(ledger: Ledger):
    def flag(step: int, peer: str = "peer-e") -> Flag:
        return Flag(LOSS, "~<b>eve</b>", peer, step, f"odd in step {step}")

    ledger.rounds.write([], [flag(1), flag(2)], now=10.0)
    ledger.rounds.write([], [flag(7)], now=20.0)
    ledger.rounds.write([], [flag(4, "peer-f")], now=15.0)
    newest, older = ledger.rounds.flags()
    assert (newest.kind, newest.user, newest.step, newest.what) == (LOSS, "~<b>eve</b>", 7, "odd in step 7")
    assert (newest.times, newest.first, newest.last) == (3, 10.0, 20.0)
    assert (older.peer_id, older.times) == ("peer-f", 1)


def test_gradients_that_are_loud_for_three_steps_raise_one_flag_with_the_figure():
    def step(number: int, *loud: tuple[str, float]) -> Header:
        members = (member("asha.0", user="asha"), member("eve.0", user="eve"))
        return header(number, members=members, parts=(Part("asha.0", ("x",), loud),))

    watch, eve = LoudGradients(), ("eve.0", 12.34)
    quiet = [step(1, eve), step(2, eve), step(3), step(4, eve), step(5, eve, ("asha.0", 2.9))]
    assert not [flag for one in quiet for flag in watch.flags(one)]
    assert not watch.flags(header(6, members=(member("asha.0", user="asha"),)))  # eve brings nothing this time
    (flag,) = watch.flags(step(7, eve, ("asha.0", 2.9)))
    assert (flag.kind, flag.user, flag.peer_id, flag.step) == (GRADIENT, "eve", "eve", 6)
    assert flag.what == "sends gradients 12.3 times as large as its samples explain"
    assert not watch.flags(step(8, eve))


def test_a_loss_without_a_gradient_is_nobodys():
    def with_loss(name: str, loss: float, buffers: tuple[int, ...] = (1,)) -> Member:
        return structs.replace(member(f"{name}.0", user=name), loss=loss, buffers=buffers)

    watch, others = OddLosses(), [with_loss(f"p{number}", 5.0) for number in range(3)]
    told = [watch.flags(header(step, members=(*others, with_loss("asha", 99.0, ())))) for step in range(1, 5)]
    assert told == [[], [], [], []]
    found = [watch.flags(header(step, members=(*others, with_loss("asha", 99.0)))) for step in range(5, 8)]
    assert [[flag.user for flag in one] for one in found] == [[], [], ["asha"]]
