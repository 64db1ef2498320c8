"""What a model puts for the masks of fixed sentences."""

import pytest
import torch
from transformers import AlbertForMaskedLM, PreTrainedTokenizerFast

from coordinator.evaluation.probes import fill, likeliest, read_probes
from swarm.errors import RunFileError
from swarm.run_file import RunFile
from trainer.models.albert import AlbertPretraining

PROBES = ["The boats go down to the [MASK].", "[MASK] on the river knows the others."]


def with_probes(run: RunFile, *probes: str) -> RunFile:
    return run.model_copy(update={"coordinator": run.coordinator.model_copy(update={"probes": list(probes)})})


def test_a_gap_is_filled_as_transformers_would(
    run: RunFile, tokenizer: PreTrainedTokenizerFast, model: AlbertPretraining
) -> None:
    probes = read_probes(with_probes(run, *PROBES), tokenizer)
    model.train()
    filled = fill(model, tokenizer, probes)
    assert model.training
    assert [one.text for one in filled] == PROBES
    public = AlbertForMaskedLM(model.config).eval()
    public.load_state_dict(model.state_dict(), strict=False)
    for one in filled:
        batch = tokenizer(one.text, return_tensors="pt")
        position = batch["input_ids"][0].tolist().index(tokenizer.mask_token_id)
        with torch.no_grad():
            scores = public(**batch).logits[0, position]
        expected = likeliest(scores, tokenizer, 5)
        assert [guess.token for guess in one.guesses] == [token for token, _ in expected]
        assert [guess.probability for guess in one.guesses] == pytest.approx([p for _, p in expected], rel=1e-3)
        assert len(one.guesses) == 5


def test_what_reads_the_same_is_told_once(tokenizer: PreTrainedTokenizerFast) -> None:
    scores = torch.zeros(len(tokenizer))
    scores[[tokenizer.convert_tokens_to_ids("▁s"), tokenizer.convert_tokens_to_ids("s")]] = torch.tensor([9.0, 8.0])
    found = [token for token, _ in likeliest(scores, tokenizer, 5)]
    assert len(found) == len(set(found)) == 5
    assert "" not in found


def test_a_sentence_longer_than_the_model_reads_is_told(run: RunFile, tokenizer: PreTrainedTokenizerFast) -> None:
    with pytest.raises(RunFileError, match=r"coordinator\.probes: .* has \d+ tokens, but data\.max_length is 64"):
        read_probes(with_probes(run, "boats " * 30 + "[MASK]"), tokenizer)
