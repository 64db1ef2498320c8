"""What plans assume of the model and of compression is what the model and hivemind do."""

from pathlib import Path

import pytest
import torch
from hivemind.compression.base import CompressionInfo
from transformers import AlbertConfig

from swarm.run_file import load_run
from trainer.averaging.compression import gradient_compression, state_compression
from trainer.averaging.wire import LARGE_TENSOR, Compression, gradient_bytes, state_bytes
from trainer.model import PretrainingModel
from trainer.model_size import tensor_sizes

RUNS = Path(__file__).resolve().parents[2] / "runs"


@pytest.mark.parametrize("name", ["demo", "english", "bengali"])
def test_the_size_of_the_model_is_known_without_building_it(name: str):
    run = load_run(RUNS / f"{name}.yaml")
    config = AlbertConfig(
        vocab_size=run.tokenizer.vocab_size,
        max_position_embeddings=run.data.max_length,
        **run.model.model_dump(exclude={"seed"}),
    )
    with torch.device("meta"):
        model = PretrainingModel(config)
    assert sorted(tensor_sizes(run)) == sorted(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("kind", ["8bit", "float16", "none"])
def test_bytes_on_the_wire_are_those_that_hivemind_sends(kind: Compression):
    tensors = [torch.randn(LARGE_TENSOR - 1), torch.randn(LARGE_TENSOR), torch.randn(4 * LARGE_TENSOR)]
    sizes = [tensor.numel() for tensor in tensors]
    for compression, bytes_of in ((gradient_compression, gradient_bytes), (state_compression, state_bytes)):
        sent = sum(
            len(compression(kind).compress(tensor, CompressionInfo.from_tensor(tensor)).buffer) for tensor in tensors
        )
        assert bytes_of(sizes, kind) == pytest.approx(sent, rel=0.01)
