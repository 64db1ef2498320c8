"""What is compared in `benchmarks.learning` is the same on both sides, but for the recipe."""

import json
from itertools import islice

import pytest
import torch
from transformers import AlbertForPreTraining

from benchmarks.learning import __main__ as learning
from benchmarks.learning.learner import HeldOut, begun, learn, our_batches
from swarm.run_file import RunFile

SENTENCE = "The {} of a {} is the {}. "
WORDS = ("name", "list", "value", "file", "object", "number", "key", "result", "string", "index")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFile:
    """Ours, as the benchmark prepares it, for a small text."""
    folder = tmp_path_factory.mktemp("learning")
    texts = [
        "".join(SENTENCE.format(*(WORDS[(i * j + k) % 10] for k in range(3))) for j in range(40)) for i in range(40)
    ]
    corpus = folder / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    text = learning.Text(learning.DEFAULT_RUN, corpus, stock_steps=8)
    small = {
        "model": {"hidden_size": 32, "intermediate_size": 64, "embedding_size": 16},
        "data": {"validation_samples": 16},
        "averaging": {"target_batch_size": 64},
    }
    return learning.with_changes(learning.prepared(text, folder), small)


def test_the_stock_curve_has_the_loss_of_the_stock_model(run: RunFile) -> None:
    stock_run = learning.stock_of(run, 8)
    model = learning.stock_model(stock_run).eval()
    stock = AlbertForPreTraining(type(model.config)(**model.config.to_diff_dict())).eval()
    stock.load_state_dict(model.state_dict())
    batch = next(learning.stock_batches(stock_run, seed=0))
    labels = torch.full_like(batch.input_ids, -100)
    labels.view(-1)[batch.masked_positions] = batch.masked_labels
    assert batch.attention_mask is not None
    assert 0.1 < batch.masked / int(batch.attention_mask.sum()) < 0.2
    with torch.no_grad():
        theirs = stock(
            input_ids=batch.input_ids,
            token_type_ids=batch.token_type_ids,
            attention_mask=batch.attention_mask,
            labels=labels,
            sentence_order_label=batch.sentence_order_label,
        ).loss
        assert float(model(batch).loss) == pytest.approx(float(theirs), rel=1e-5)


def test_both_sides_are_measured_on_the_same_held_out_text_and_take_as_many_samples_in_a_step(run: RunFile) -> None:
    stock, ours = learning.stock_of(run, 8), learning.with_steps(run, 2)
    assert stock.data.validation == ours.data.validation
    held_out = HeldOut(stock)
    curves = [
        learn(stock, learning.stock_model(stock), learning.stock_batches(stock, 0), held_out, 4),
        learn(ours, begun(ours), our_batches(ours, 0), held_out, 1),
    ]
    assert [[point.samples for point in curve.points] for curve in curves] == [[0, 256, 512], [0, 64, 128]]
    assert curves[1].samples_to(curves[1].end.loss) in (64, 128)
    assert curves[1].samples_to(0.0) is None


def test_a_seed_is_a_course_of_its_own(run: RunFile) -> None:
    first, again, other = (
        [batch.input_ids.tolist() for batch in islice(learning.stock_batches(run, seed), 2)] for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other
