import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AlbertForPreTraining, PreTrainedTokenizerFast

from coordinator.evaluation.evaluator import evaluate
from swarm.run_file import RunFile, parse_run
from trainer.data import Batch
from trainer.model import PretrainingModel, build_model


def test_losses_are_means_over_all_positions_and_samples_however_they_are_grouped(
    model: PretrainingModel, batches: list[Batch]
) -> None:
    token_losses, order_losses, hits = [], [], 0
    model.eval()
    for batch in batches:
        with torch.no_grad():
            scores = AlbertForPreTraining.forward(model, input_ids=batch.input_ids, token_type_ids=batch.token_type_ids)
        tokens = scores.prediction_logits.flatten(0, 1)[batch.masked_positions]
        for score, label in zip(tokens, batch.masked_labels, strict=True):
            token_losses.append(-score.log_softmax(-1)[label])
        for score, label in zip(scores.sop_logits, batch.sentence_order_label, strict=True):
            order_losses.append(-score.log_softmax(-1)[label])
            hits += int(score.argmax() == label)
    found = evaluate(model, batches)
    assert found.samples == 7
    assert found.masked_lm_loss == pytest.approx(float(torch.stack(token_losses).mean()), rel=1e-5)
    assert found.sentence_order_loss == pytest.approx(float(torch.stack(order_losses).mean()), rel=1e-5)
    assert found.sentence_order_accuracy == hits / 7


@pytest.mark.parametrize("model", [{"architecture": "modernbert"}, {"sentence_order": False}])
def test_a_model_that_does_not_learn_the_order_has_no_score_of_it(
    model: dict[str, Any], run: RunFile, tokenizer: PreTrainedTokenizerFast, batches: list[Batch]
) -> None:
    content = run.model_dump(exclude={"model": {"embedding_size", "sentence_order"}})
    content["model"] |= model
    found = evaluate(build_model(parse_run(content, Path("run.yaml")), tokenizer), batches)
    assert (found.sentence_order_loss, found.sentence_order_accuracy, found.samples) == (None, None, 7)
    assert found.masked_lm_loss == pytest.approx(math.log(len(tokenizer)), abs=0.3)


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_left_as_it_was(model: PretrainingModel, batches: list[Batch], training: bool) -> None:
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.train(training)
    evaluate(model, batches)
    assert model.training == training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_dropout_does_not_blur_an_evaluation(model: PretrainingModel, batches: list[Batch]) -> None:
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.5
    model.train()
    assert evaluate(model, batches) == evaluate(model, batches)


def test_a_model_that_fails_is_left_in_its_mode(model: PretrainingModel, batches: list[Batch]) -> None:
    def broken() -> object:
        yield batches[0]
        raise OSError("the disk is gone")

    model.train()
    with pytest.raises(OSError, match="the disk is gone"):
        evaluate(model, broken())  # type: ignore[arg-type]
    assert model.training


def test_an_evaluation_on_nothing_is_refused(model: PretrainingModel, batches: list[Batch]) -> None:
    for nothing in ([], batches[2:]):
        with pytest.raises(ValueError, match="no masked position"):
            evaluate(model, nothing)
