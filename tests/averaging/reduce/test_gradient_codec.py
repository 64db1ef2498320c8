"""What travels is as long as it has to be, the same on every machine, and close to what was meant."""

import struct
from typing import Any

import numpy as np
import pytest
import torch
from hivemind.compression import CompressionInfo, Uniform8BitQuantization
from transformers import AlbertConfig

from averaging.reduce.gradient_codec import BLOCK, LARGEST, Compression, Floats, decode, encode, encoded_bytes
from tests.averaging.reduce.fixed_batches import VOCABULARY, fixed_batch
from trainer.models.albert import AlbertPretraining

KINDS: tuple[Compression, ...] = ("8bit", "float16", "none")
LENGTHS = (1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 4096, 5000)
ERRORS: dict[Compression, float] = {"8bit": 0.008, "float16": 0.0003, "none": 0.0}  # of normally distributed numbers


def drawn(elements: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(elements).astype(np.float32)


def off(values: Floats, meant: Floats) -> float:
    return float(np.linalg.norm(values - meant) / np.linalg.norm(meant))


def in_8_bits(scales: list[float], integers: bytes) -> bytes:
    return b"int8" + b"".join(struct.pack("<f", scale)[2:] for scale in scales) + integers


@pytest.mark.parametrize("elements", LENGTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_vector_comes_back_as_it_was_but_for_rounding(kind: Compression, elements: int):
    values = drawn(elements)
    encoded = encode(values, kind)
    assert len(encoded) == encoded_bytes(elements, kind)
    assert off(decode(encoded, elements, kind), values) <= ERRORS[kind]


@pytest.mark.parametrize("scale", [1e-12, 1e-4, 1.0, 1e4])
def test_8_bits_are_as_exact_for_small_gradients_as_for_large_ones(scale: float):
    values = drawn(5000) * np.float32(scale)
    assert off(decode(encode(values, "8bit"), 5000, "8bit"), values) <= ERRORS["8bit"]


def test_zeros_stay_zeros():
    values = drawn(4 * BLOCK)
    values[BLOCK : 2 * BLOCK] = 0
    values[3] = 0
    decoded = decode(encode(values, "8bit"), len(values), "8bit")
    assert not decoded[BLOCK : 2 * BLOCK].any() and decoded[3] == 0


def test_numbers_that_processors_may_flush_to_zero_are_sent_as_zeros():
    values = np.full(BLOCK, 1e-38, np.float32)
    assert not decode(encode(values, "8bit"), BLOCK, "8bit").any()


@pytest.mark.parametrize("kind", KINDS)
def test_large_numbers_and_infinities_become_the_largest(kind: Compression):
    values = np.array([np.inf, -np.inf, 1e30, -65_504.0, 1.0], np.float32)
    decoded = decode(encode(values, kind), 5, kind)
    assert np.isfinite(decoded).all()
    np.testing.assert_allclose(decoded[:4], [LARGEST, -LARGEST, LARGEST, -LARGEST], rtol=0.005)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_a_number_is_not_encoded(kind: Compression):
    values = drawn(300)
    values[299] = np.nan
    with pytest.raises(ValueError, match="not a number"):
        encode(values, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", [-1, 1, 4, 10**6])
def test_a_wrong_length_is_refused(kind: Compression, change: int):
    encoded = encode(drawn(5000), kind)
    wrong = encoded[:change] if change < 0 else encoded + bytes(change)
    with pytest.raises(ValueError, match=f"5000 elements take {len(encoded)} bytes, got {len(wrong)}"):
        decode(wrong, 5000, kind)
    with pytest.raises(ValueError, match="elements take"):
        decode(encoded, 5000 + change, kind)
    with pytest.raises(ValueError, match="got 0"):
        decode(b"", 5000, kind)


def test_another_kind_of_the_same_length_is_refused():
    fitting = next(n for n in range(1, 10_000) if encoded_bytes(n, "8bit") == encoded_bytes(2048, "float16"))
    with pytest.raises(ValueError, match="the encoding must be b'fp16', got b'int8'"):
        decode(encode(drawn(fitting), "8bit"), 2048, "float16")


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan, 70_000.0, 3e38])
def test_numbers_that_are_not_finite_or_too_large_are_refused(number: float):
    values = np.array([1.0, number], np.float32)
    with pytest.raises(ValueError, match="not finite or beyond"):
        decode(b"fp32" + values.tobytes(), 2, "none")
    if not abs(number) <= LARGEST:
        with np.errstate(over="ignore"), pytest.raises(ValueError, match="not finite or beyond"):
            decode(b"fp16" + values.astype(np.float16).tobytes(), 2, "float16")


@pytest.mark.parametrize("scale", [np.inf, -np.inf, np.nan, -1.0, 520.0, 3e38, 1e-38])
@pytest.mark.parametrize("elements", [BLOCK, BLOCK + 3])
def test_scales_that_no_peer_sends_are_refused(scale: float, elements: int):
    scales = [1.0] * ((elements - 1) // BLOCK) + [scale]
    with pytest.raises(ValueError, match="the scale of a block is"):
        decode(in_8_bits(scales, bytes(elements)), elements, "8bit")


def test_the_smallest_integer_is_no_trouble():
    assert decode(in_8_bits([2.0], b"\x80\x7f"), 2, "8bit").tolist() == [-256.0, 254.0]


def test_on_a_real_gradient_8_bits_are_no_worse_than_hiveminds_for_any_large_tensor():
    torch.manual_seed(0)
    shape: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "embedding_size": BLOCK,
        "hidden_size": 256,
        "intermediate_size": 512,
    }
    model = AlbertPretraining(AlbertConfig(num_hidden_layers=2, num_attention_heads=2, **shape))
    model(fixed_batch(0, 0)).loss.backward()
    tensors = [parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None]
    flat = torch.cat(tensors).numpy()
    decoded = torch.split(torch.from_numpy(decode(encode(flat, "8bit"), len(flat), "8bit")), [len(t) for t in tensors])
    hiveminds = Uniform8BitQuantization()
    large = 0
    for ours, tensor in zip(decoded, tensors, strict=True):
        assert off(ours.numpy(), tensor.numpy()) < 0.03  # biases and layer norms too, beside whatever they lie
        if len(tensor) >= 4096:
            large += 1
            theirs = hiveminds.extract(hiveminds.compress(tensor, CompressionInfo.from_tensor(tensor)))
            assert off(ours.numpy(), tensor.numpy()) < off(theirs.numpy(), tensor.numpy())
    assert large >= 5


def test_an_element_is_off_by_the_largest_in_its_block_at_most_in_252_parts():
    values = np.exp(6 * drawn(200 * BLOCK)) * np.sign(drawn(200 * BLOCK, seed=1))  # over twenty orders of magnitude
    values = np.clip(values, -LARGEST, LARGEST)
    blocks = np.abs(values).reshape(-1, BLOCK).max(axis=1)
    error = np.abs(decode(encode(values, "8bit"), len(values), "8bit") - values).reshape(-1, BLOCK).max(axis=1)
    assert (error <= blocks / 252).all()  # half of 126: the scale is rounded up by 1/128 at most
