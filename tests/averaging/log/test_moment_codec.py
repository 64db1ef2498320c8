"""Moments in 16 bits: what they keep, how they are rounded, and that nothing depends on the machine."""

import hashlib
import math
from collections.abc import Iterable

import numpy as np
import pytest
import torch
from torch import Tensor

from averaging.log import moment_codec
from averaging.log.state import State

STEP = 7
LARGEST = torch.finfo(torch.float32).max


def vector(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float32)


def some(elements: int, seed: int = 0) -> Tensor:
    """Numbers over all of the range that gradients have."""
    draw = torch.Generator().manual_seed(seed)
    exponents = torch.randint(-40, 2, (elements,), generator=draw)
    return torch.ldexp(torch.randn(elements, generator=draw), exponents)


def rounded(numbers: Tensor, *, signed: bool, step: int = STEP, number: int = 0) -> Tensor:
    copy = numbers.clone()
    moment_codec.round_moment(copy, step, number, signed=signed)
    return copy


def bits(numbers: Tensor) -> bytes:
    return numbers.numpy().tobytes()


@pytest.mark.parametrize("signed", [True, False])
def test_rounded_numbers_survive_encoding_and_rounding_to_the_bit(signed: bool) -> None:
    numbers = some(100_003) if signed else some(100_003).abs()
    once = rounded(numbers, signed=signed)
    assert not torch.equal(once, numbers)
    encoded = moment_codec.encode(once, signed=signed)
    assert len(encoded) == 2 * len(numbers)
    assert bits(moment_codec.decode(encoded, signed=signed)) == bits(once)
    assert bits(rounded(once, signed=signed)) == bits(once)
    assert bits(rounded(once, signed=signed, step=STEP + 1)) == bits(once)  # at any other step too


@pytest.mark.parametrize(("signed", "fraction"), [(True, 7), (False, 8)])
def test_a_number_becomes_one_of_its_two_neighbours(signed: bool, fraction: int) -> None:
    numbers = some(100_000) if signed else some(100_000).abs()
    error = (rounded(numbers, signed=signed) - numbers).abs()
    assert (error <= torch.ldexp(numbers.abs(), torch.tensor(-fraction))).all()
    below, above = 1 + 2**-fraction, 1 + 2 * 2**-fraction
    assert set(rounded(torch.full((1000,), (below + above) / 2), signed=signed).tolist()) == {below, above}


@pytest.mark.parametrize("signed", [True, False])
def test_rounding_leans_to_no_side(signed: bool) -> None:
    fraction = 7 if signed else 8
    for share in (0.01, 0.25, 0.5, 0.9):
        number = 1 + share * 2**-fraction
        up = (rounded(torch.full((400_000,), number), signed=signed) > number).double().mean()
        assert up == pytest.approx(share, abs=0.004)  # five standard deviations
    if signed:
        assert bits(rounded(-some(10_000), signed=True)) == bits(-rounded(some(10_000), signed=True))


def test_a_slow_average_neither_freezes_nor_wanders() -> None:
    """Second moments with beta 0.999 move by less than half a unit of the last place in a step."""
    average = torch.full((20_000,), 1.0)
    for step in range(3000):
        average.mul_(0.999).add_(0.001 * 0.5)
        moment_codec.round_moment(average, step, 1, signed=False)
    exact = 0.5 + 0.5 * 0.999**3000
    assert average.mean() == pytest.approx(exact, rel=0.002)
    assert average.std() / exact < 0.05


def test_special_numbers() -> None:
    tiny = math.ldexp(1.0, -149)  # the smallest denormal
    one = rounded(vector(0.0, -0.0, LARGEST, -LARGEST, 1.5, -2.0), signed=True)
    top = float(np.uint32(0x7F7F0000).view(np.float32))
    assert one.tolist() == [0.0, 0.0, top, -top, 1.5, -2.0]
    assert math.copysign(1, one[1].item()) == -1
    other = rounded(vector(0.0, -0.0, LARGEST), signed=False)
    assert other.view(torch.int32).tolist() == [0, 0, 0x7F7F8000]
    small = rounded(torch.full((1_000_000,), 1000 * tiny), signed=False)
    assert set(small.view(torch.int32).tolist()) == {0, 1 << 15}
    assert small.double().mean() == pytest.approx(1000 * tiny, rel=0.05)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("signed", [True, False])
def test_what_is_not_finite_is_refused_in_one_line(bad: float, signed: bool) -> None:
    numbers = vector(*[1.1] * 70_000, bad)
    before = numbers.clone()
    with pytest.raises(ValueError, match=r"^moment 1 of step 7 holds numbers that are not finite$"):
        moment_codec.round_moment(numbers, STEP, 1, signed=signed)
    assert bits(numbers) == bits(before)
    with pytest.raises(ValueError):
        moment_codec.encode(numbers[-1:].clone(), signed=signed)


def test_a_negative_second_moment_is_refused() -> None:
    with pytest.raises(ValueError, match=r"moment 1 of step 7 holds negative numbers, such as -0\.5"):
        moment_codec.round_moment(vector(1.0, -0.5), STEP, 1, signed=False)
    with pytest.raises(ValueError):
        moment_codec.encode(vector(-0.5), signed=False)


@pytest.mark.parametrize("signed", [True, False])
def test_every_16_bits_are_a_number_or_refused(signed: bool) -> None:
    refused = []
    for first in range(0, 1 << 16, 128):
        encoded = np.arange(first, first + 128, dtype="<u2").tobytes()
        try:
            numbers = moment_codec.decode(encoded, signed=signed)
        except ValueError:
            refused.append(first)
        else:
            assert torch.isfinite(numbers).all()
            assert moment_codec.encode(numbers, signed=signed) == encoded
    assert refused == ([0x7F80, 0xFF80] if signed else [0xFF00, 0xFF80])  # the exponent of all ones
    with pytest.raises(ValueError):
        moment_codec.decode(b"\x00\x00\x00", signed=signed)


def test_moments_that_are_not_rounded_are_not_encoded() -> None:
    with pytest.raises(ValueError, match="rebase the state first"):
        moment_codec.encode(vector(0.1), signed=True)
    with pytest.raises(ValueError, match="rebase the state first"):
        moment_codec.encode(rounded(vector(1.5), signed=False) + 2**-8, signed=True)


@pytest.mark.parametrize("signed", [True, False])
def test_the_number_of_threads_changes_nothing(signed: bool) -> None:
    numbers = some(200_001) if signed else some(200_001).abs()
    whole = rounded(numbers, signed=signed)
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 3)
    try:
        assert bits(rounded(numbers, signed=signed)) == bits(whole)
    finally:
        torch.set_num_threads(threads)


def test_steps_moments_and_indices_have_noise_of_their_own() -> None:
    numbers = torch.full((10_000,), 1 + 2**-9)
    one = rounded(numbers, signed=True) > numbers
    others = [
        rounded(numbers, signed=True, step=STEP + 1),
        rounded(numbers, signed=True, number=1),
        rounded(torch.cat([numbers[:1], numbers]), signed=True)[1:],
    ]
    for other in others:
        up = other > numbers
        both = (one & up).double().mean() / (one.double().mean() * up.double().mean())
        assert both == pytest.approx(1, abs=0.15)


def test_the_numbers_are_the_same_on_every_machine() -> None:
    """Digests that were computed once: whoever changes them splits every run that is under way."""
    words = np.arange(70_000, dtype=np.uint32) * np.uint32(0x9E3779B1) & np.uint32(0x7EFFFFFF)
    numbers = torch.from_numpy(words.view(np.float32))
    signed = moment_codec.encode(rounded(numbers, signed=True, step=1234), signed=True)
    unsigned = moment_codec.encode(rounded(numbers, signed=False, step=1234, number=1), signed=False)
    assert signed[:1200] == by_hand(words[:600], 1234, 0, 0, cut=16)
    assert signed[80_000:81_200] == by_hand(words[40_000:40_600], 1234, 0, 40_000, cut=16)
    assert unsigned[:1200] == by_hand(words[:600], 1234, 1, 0, cut=15)
    assert hashlib.sha256(signed).hexdigest()[:16] == "09aa5e04c7f2da89"
    assert hashlib.sha256(unsigned).hexdigest()[:16] == "80474b79c8af1394"


def by_hand(words: Iterable[int], step: int, number: int, first: int, cut: int) -> bytes:
    """The codec again, one positive number at a time, in whole numbers without a bound."""
    key = hashlib.sha256(f"moment {number} of step {step}".encode()).digest()
    encoded = b""
    for index, word in enumerate(words, first):
        mixed = (index + int.from_bytes(key[:4], "little")) % 2**32
        mixed = (mixed ^ mixed >> 16) * 0x7FEB352D % 2**32 ^ int.from_bytes(key[4:8], "little")
        mixed = (mixed ^ mixed >> 15) * 0x846CA68B % 2**32
        encoded += (int(word) + (mixed >> 32 - cut) >> cut).to_bytes(2, "little")
    return encoded


def test_a_rebased_state_stays_as_it_is() -> None:
    state = State(100, 90, some(1000), (some(1000, 1), some(1000, 2).abs()))
    parameters = state.parameters.clone()
    moment_codec.rebase(state)
    once = [moment.clone() for moment in state.moments]
    moment_codec.rebase(state)
    assert bits(state.parameters) == bits(parameters)
    assert [bits(moment) for moment in state.moments] == [bits(moment) for moment in once]
