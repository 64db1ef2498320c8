"""Credit is what headers say: weight times the share of chunks that include it."""

from fractions import Fraction

import pytest
from msgspec.structs import replace

from averaging.log.credit import contributions, loudness
from averaging.log.header import Exclusion, Part
from averaging.log.shares import LOUDEST
from tests.averaging.log.headers import header, member
from tests.simulation.ledger import Ledger

UPDATE = header(
    members=(member("a1", 30, user="ann"), member("b1", 20), member("c1", 10), member("reader", 0)),
    parts=(Part("a1", ("w", "x")), Part("b1", ("y",))),
    exclusions=(Exclusion("b1", (0,)), Exclusion("c1", (0, 1, 2))),
)


def test_a_sender_that_is_missing_from_a_chunk_is_credited_for_the_others() -> None:
    ledger = Ledger()
    ledger.enter(UPDATE)
    assert ledger.of_header(UPDATE.digest) == {"a1": Fraction(30), "b1": Fraction(40, 3)}


def test_a_header_counts_once_however_often_it_is_read() -> None:
    ledger = Ledger()
    for _ in range(3):
        ledger.enter(UPDATE)
    assert ledger.tokens_by_user() == {"ann": 30, "b1": Fraction(40, 3)}


def test_two_headers_of_a_step_keep_their_credit_and_sessions_of_a_user_add_up() -> None:
    ledger = Ledger()
    ledger.enter(UPDATE)
    other = header(members=(member("a2", 7, user="ann"),), parts=(Part("a2", ("v",)),))
    ledger.enter(other)
    assert ledger.tokens_by_user()["ann"] == 37
    assert ledger.of_header(other.digest) == {"a2": 7}
    assert ledger.of_header("unknown") == {}


def test_a_header_without_an_update_credits_nobody() -> None:
    ledger = Ledger()
    ledger.enter(header(members=(member("a1"),)))
    assert ledger.tokens_by_user() == {}


def test_samples_are_credited_by_the_same_share_and_the_loss_of_the_swarm_is_their_mean() -> None:
    told = [replace(one, samples=6, loss=loss) for one, loss in zip(UPDATE.members, (2.0, 4.0, None), strict=False)]
    update = replace(UPDATE, members=tuple(told))
    assert [one.samples for one in contributions(update)] == [6, 4]
    assert update.loss == pytest.approx((30 * 2.0 + 20 * 4.0) / 50)
    assert UPDATE.loss is None


def test_a_gradient_is_loud_if_the_reducers_of_most_of_the_vector_say_so() -> None:
    def said(*parts: tuple[int, tuple[tuple[str, float], ...]]) -> dict[str, float]:
        return loudness(header(parts=tuple(Part("r", ("x",) * chunks, loud) for chunks, loud in parts)))

    assert said((3, (("eve", 9.0),))) == {"eve": 9.0}
    assert said((3, (("eve", 9.0),)), (2, (("eve", 40.0),))) == {"eve": 9.0}
    assert said((2, (("ann", 1e9),)), (3, ())) == {}  # a reducer that lies about another
    assert said((2, (("ann", 1e9),)), (2, ())) == {}
    assert said((2, (("ann", 1e9), ("eve", 5.0))), (3, (("eve", 7.0),))) == {"eve": 7.0}
    assert said() == {}


def test_where_a_run_bounds_members_credit_follows_what_they_count_with_and_what_their_gradients_are_worth() -> None:
    members = [member("eve.0", 7000, "eve"), member("eve.1", 3000, "eve"), *(member(f"p{n}.0", 100) for n in range(9))]
    said = (Part("p0.0", ("x", "y"), (("p1.0", 4.0),)), Part("p2.0", ("z", "w"), ()))
    update = header(members=tuple(members), parts=said)
    free = {one.session: one.samples for one in contributions(update)}
    assert free == {one.session: one.samples for one in members}
    bound = {one.session: one.samples for one in contributions(update, enforces=True)}
    assert float(bound["eve.0"] + bound["eve.1"]) / 900 == pytest.approx(0.15 / 0.85, abs=0.01)
    assert bound["p0.0"] == 100
    assert bound["p1.0"] == 100, "one reducer alone is not heard"
    both = replace(update, parts=tuple(replace(part, loud=(("p1.0", 4.0),)) for part in said))
    heard = {one.session: one.samples for one in contributions(both, enforces=True)}
    assert heard["p1.0"] == 100 * (Fraction(LOUDEST) / 4) ** 2
