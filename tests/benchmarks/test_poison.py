"""The benchmark of poisoned gradients, on a model and runs so small that only its machinery shows."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.learning.learner import HeldOut, begun
from benchmarks.poison.attacks import ATTACKS, NO_ATTACK
from benchmarks.poison.course import Course, weights_with
from benchmarks.poison.measuring import peers_of, prepared

SMALL = {
    "model": {"hidden_size": 16, "embedding_size": 16, "intermediate_size": 32, "num_attention_heads": 2},
    "tokenizer": {"vocab_size": 512, "max_documents": 200},
    "data": {"max_length": 16, "validation_samples": 32},
}


@pytest.mark.parametrize(("share", "liars"), [(0.06, 1), (0.15, 1), (0.25, 2)])
def test_liars_have_their_share_of_the_weight_of_16_peers(share: float, liars: int) -> None:
    honest, weight = weights_with(share, liars)
    assert len(honest) + liars == 16
    assert liars * weight / (sum(honest) + liars * weight) == pytest.approx(share, abs=0.005)


@pytest.mark.faults
def test_scaling_down_takes_the_weight_of_a_loud_liar_and_little_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.poison.course.HONEST", (8, 8, 8, 8, 16, 16))
    monkeypatch.setattr("benchmarks.poison.course.ONE_MORE", 8)
    run = prepared(tmp_path, None, 6, SMALL)
    course = Course(run, begun(run), HeldOut(run), seed=0)
    peers = peers_of(run, 0.15, 1, seed=0)
    loud = next(one for one in ATTACKS if one.name == "times-minus-10")
    clean, again = (course.train(peers, NO_ATTACK, "off").loss for _ in range(2))
    assert clean == again
    attacked, undefended = (course.train(peers, loud, robust) for robust in ("enforce", "off"))
    honest = [name for name in attacked.weights if name != "liar-00"]
    assert attacked.share_lost(["liar-00"]) > 0.5 > 10 * attacked.share_lost(honest)
    assert not any(undefended.lost.values())
    assert np.isfinite([attacked.loss, undefended.loss]).all()  # in six steps nothing shows
