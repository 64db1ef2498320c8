"""What is compared in `benchmarks.experts` differs in what it says, and in nothing else."""

import asyncio
import json

import pytest
import torch
from torch import nn
from transformers import AlbertConfig

from benchmarks.experts import __main__ as experts
from benchmarks.experts import convergence, throughput
from benchmarks.experts.masked_lm import AddedTerm
from experts.expert import new_expert
from experts.layer.local import LocalExperts
from experts.layer.mixture import MixtureOfExperts
from trainer.data import Batch
from trainer.models.albert import AlbertPretraining


def test_a_batch_of_a_trainer_and_one_of_the_pipeline_go_through_the_same_blocks():
    hosts = throughput.Hosts()
    throughput.step(throughput.DelayedExperts(hosts, delay=0), torch.Generator().manual_seed(0))
    assert hosts.worked == pytest.approx(throughput.BATCH_SECONDS)
    before = hosts.worked
    asyncio.run(throughput.pipeline_step(hosts, delay=0))
    hosts.close()
    computed_once = (throughput.FORWARD + throughput.BACKWARD) * throughput.ROWS * throughput.BLOCKS
    assert hosts.worked - before == pytest.approx(computed_once)


def test_the_figures_name_the_pipeline_and_the_mixture_by_delay():
    by_delay = dict.fromkeys(experts.DELAYS, 2.0)
    speeds = throughput.Throughput(by_delay, dict.fromkeys(experts.TRAINERS, by_delay))
    figures = json.loads(json.dumps(experts.throughput_figures(speeds)))
    assert set(figures["pipeline"]) == set(figures["dmoe"]) == {"0", "50", "100", "200"}
    assert experts.throughput_table(speeds).row_count == 1 + len(experts.TRAINERS)


def test_the_dense_block_has_the_matrices_of_as_many_experts_as_a_row_has():
    def weights(block: nn.Module) -> int:
        return sum(one.numel() for one in block.parameters() if one.dim() > 1)

    block = convergence.DenseTerm(convergence.TRUNK, convergence.WIDTH, convergence.ACTIVE * convergence.HIDDEN).block
    assert weights(block) == convergence.ACTIVE * weights(new_expert(convergence.WIDTH, convergence.HIDDEN, 0))


def test_digits_move_within_the_picture_and_held_out_ones_are_not_trained_on():
    digits = convergence.Digits(seed=0)
    pixels, labels = digits.batch()
    assert pixels.shape == (convergence.BATCH, 144)
    assert len(set(labels.tolist())) == 10
    held_out, _ = digits.held_out
    assert {round(float(one), 4) for one in pixels.sum(1)} <= {
        round(float(one), 4) for one in digits._padded.sum((1, 2))
    }
    assert not set(digits._train.tolist()) & set(range(0, len(digits._padded), 3))
    assert len(held_out) == convergence.HELD_OUT_COPIES * len(range(0, len(digits._padded), 3))


@pytest.mark.parametrize("make", [convergence.dense, convergence.mixture(4, delay=2, failures=0.1, seed=0)])
def test_digits_are_learned(make):
    course = convergence.learn(make, seed=0, steps=200)
    assert course.accuracy > 0.5


def small_model() -> AlbertPretraining:
    torch.manual_seed(0)
    config = AlbertConfig(
        vocab_size=50,
        embedding_size=8,
        max_position_embeddings=16,
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=32,
    )
    return AlbertPretraining(config).eval()


def a_batch() -> Batch:
    tokens = torch.randint(50, (4, 16), generator=torch.Generator().manual_seed(0))
    positions = torch.arange(0, 64, 5)
    return Batch(
        input_ids=tokens,
        token_type_ids=torch.zeros_like(tokens),
        attention_mask=None,
        sentence_order_label=torch.tensor([0, 1, 0, 1]),
        masked_positions=positions,
        masked_labels=tokens.flatten()[positions],
    )


def small_mixture() -> MixtureOfExperts:
    caller = LocalExperts({(0, 0): new_expert(8, 16, 0), (1, 1): new_expert(8, 16, 1)})
    return MixtureOfExperts(16, 8, (2, 2), caller, off_share=0.0)


def test_a_term_is_added_once_and_off_it_leaves_the_trunk():
    batch = a_batch()
    trunk = small_model().predict(batch)
    model, term = small_model(), small_mixture()
    added = AddedTerm(model, term)
    assert torch.equal(model.predict(batch), trunk)  # fresh
    nn.init.normal_(term.up.weight)
    called: list[int] = []
    term.register_forward_hook(lambda _, inputs, mixture: called.append(len(inputs[0])))
    assert not torch.allclose(model.predict(batch), trunk)
    assert called == [len(batch.masked_positions)]
    added.is_on = False
    assert torch.equal(model.predict(batch), trunk)
