"""What an audit says of directions."""

import numpy as np

from averaging.reduce.agreement import Agreement, agreements
from averaging.reduce.gradient_codec import encode_piece

SIZE, NAMES = 4096, ("asha", "bela", "chand", "dipa", "eve", "farid")


def agreeing(turned: float) -> dict[str, Agreement]:
    """Five honest senders and `eve`, who sends so many times what she has computed."""
    drawn = np.random.default_rng(1)
    slope = drawn.standard_normal(SIZE)
    pieces, weights = {}, {}
    for number, name in enumerate(NAMES):
        weights[name] = 100 * (number + 1)
        gradient = slope + drawn.standard_normal(SIZE) * 30 / np.sqrt(weights[name])
        gradient *= turned if name == "eve" else 1.0
        pieces[name] = encode_piece(gradient.astype(np.float32), weights[name], "8bit")
    return {one.session: one for one in agreements(SIZE, "8bit", pieces, weights, {name: name for name in NAMES})}


def cosines(turned: float) -> dict[str, float]:
    return {name: one.cosine for name, one in agreeing(turned).items()}


def test_honest_senders_agree_and_one_that_is_turned_around_does_not() -> None:
    assert all(cosine > 0.1 for cosine in cosines(1.0).values())
    found = cosines(-1.0)
    assert found.pop("eve") < -0.1 and all(cosine > 0.1 for cosine in found.values())


def test_a_loud_liar_does_not_have_the_others_point_against_it() -> None:
    found = cosines(-100.0)
    assert found.pop("eve") < -0.1 and all(cosine > 0.1 for cosine in found.values())


def test_one_that_sends_four_times_what_it_has_computed_is_loud() -> None:
    usual, loud = agreeing(1.0)["eve"].loudness, agreeing(4.0)["eve"].loudness
    assert loud > 3.0 and 0.5 < usual < 1.5
