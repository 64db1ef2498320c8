"""What the benchmark of a GPU counts can be checked without one."""

from pathlib import Path

import pytest
import torch

from benchmarks import gpu
from swarm.errors import SahajError
from swarm.run_file import parse_run

SHAPE = {
    "hidden_size": 32,
    "embedding_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
RUN = parse_run(
    {
        "name": "gpu",
        "language": "en",
        "tokenizer": {"vocab_size": 500},
        "data": {"train": [{"path": "text.txt"}], "max_length": 64},
        "model": SHAPE,
    },
    Path("run.yaml"),
)


def test_the_operations_counted_are_those_of_the_matrix_products_on_paper() -> None:
    config, collator = gpu.prepare(RUN)
    batch = collator.longest(4)
    hidden, narrow, inner, layers, vocabulary = 32, 16, 64, 3, 500
    tokens, length, masked, samples = 4 * 64, 64, len(batch.masked_positions), 4
    attention = 4 * hidden * hidden + 2 * length * hidden  # multiplications for a token
    fed, head = 2 * hidden * inner, hidden * narrow + narrow * vocabulary
    shared = tokens * (narrow * hidden + layers * attention) + samples * (hidden * hidden + 2 * hidden)
    ours = shared + tokens * (layers - 1) * fed + (masked + samples) * fed + masked * head
    stock = shared + tokens * (layers * fed + head)
    # an addition for each multiplication; backward, a product for each of the two factors
    assert gpu.model_flops(config, batch, ours=True) == 2 * 3 * ours
    assert gpu.model_flops(config, batch, ours=False) == 2 * 3 * stock


def test_each_side_is_measured_on_the_same_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "SECONDS", 0.0)
    config, collator = gpu.prepare(RUN)
    batch, cpu = collator.longest(4), torch.device("cpu")
    ours = [gpu.Side(True, torch.bfloat16), gpu.Side(True, torch.bfloat16, hands_over=True)]
    sides = [*ours, gpu.Side(False, torch.float32), gpu.Side(False, torch.bfloat16)]
    losses = [gpu.stepper(config, batch, side, cpu)() for side in sides]
    assert losses == pytest.approx([losses[0]] * 4, rel=0.01)
    figures = gpu.measure(config, batch, sides, cpu, repeats=2, peak=1e-3)
    assert list(figures) == ["ours, bfloat16", "ours, bfloat16, handed over", "stock, float32", "stock, bfloat16"]
    for one in figures.values():
        assert one is not None
        assert len(one["repeats"]) == 2
        assert one["tokens_per_second"] == pytest.approx(64 * one["samples_per_second"], rel=0.05)
    assert gpu.table({4: {**figures, "ours, float16": None}}, "a GPU").row_count == 5


def test_a_batch_that_does_not_fit_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def step() -> float:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(gpu, "stepper", lambda *_: step)
    config, collator = gpu.prepare(RUN)
    side = gpu.Side(False, torch.float32)
    assert gpu.measure(config, collator.longest(1), [side], torch.device("cpu"), 2, 1.0) == {side.name: None}


def test_without_a_gpu_and_with_impossible_sizes_it_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for there, sizes, said in ((False, "8", "needs a GPU"), (True, "8,no", "--sizes 8,no: "), (True, "0", "above 0")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        with pytest.raises(SahajError, match=said) as caught:
            gpu.main(sizes=sizes)
        assert "\n" not in str(caught.value)
