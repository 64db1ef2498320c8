"""What an audit says of directions."""

import numpy as np

from averaging.reduce.agreement import agreements
from averaging.reduce.gradient_codec import encode_piece

SIZE, NAMES = 4096, ("asha", "bela", "chand", "dipa", "eve", "farid")


def cosines(turned: float) -> dict[str, float]:
    """Of five honest senders and `eve`, who sends so many times what she has computed."""
    drawn = np.random.default_rng(1)
    slope = drawn.standard_normal(SIZE)
    pieces, weights = {}, {}
    for number, name in enumerate(NAMES):
        weights[name] = 100 * (number + 1)
        gradient = slope + drawn.standard_normal(SIZE) * 30 / np.sqrt(weights[name])
        gradient *= turned if name == "eve" else 1.0
        pieces[name] = encode_piece(gradient.astype(np.float32), weights[name], "8bit")
    return dict(agreements(SIZE, "8bit", pieces, weights, {name: name for name in NAMES}))


def test_honest_senders_agree_and_one_that_is_turned_around_does_not() -> None:
    assert all(cosine > 0.1 for cosine in cosines(1.0).values())
    found = cosines(-1.0)
    assert found.pop("eve") < -0.1 and all(cosine > 0.1 for cosine in found.values())


def test_a_loud_liar_does_not_have_the_others_point_against_it() -> None:
    found = cosines(-100.0)
    assert found.pop("eve") < -0.1 and all(cosine > 0.1 for cosine in found.values())
