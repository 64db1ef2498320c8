"""Rows travel with eight bits an element, and bytes from others cannot do harm."""

import math
import struct

import pytest
import torch

from experts.codec import decode, encode, encode_each, encoded_bytes, is_finite


def random_rows(rows: int, width: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("size", [1e-30, 1e-3, 1.0, 1e30])
def test_elements_are_off_by_half_of_a_step_of_their_row_at_most(size: float):
    rows = random_rows(50, 256) * size * torch.logspace(-3, 3, 50).unsqueeze(1)
    decoded = decode(encode(rows), 50, 256)
    half_a_step = rows.abs().amax(dim=1, keepdim=True) / 127 / 2
    assert ((decoded - rows).abs() <= half_a_step * 1.001).all()


def test_rows_take_a_byte_an_element_and_four_more():
    assert len(encode(random_rows(7, 256))) == encoded_bytes(7, 256) == 7 * 260


@pytest.mark.parametrize("shape", [(0, 256), (3, 0), (0, 0)])
def test_nothing_is_encoded_as_nothing(shape: tuple[int, int]):
    assert decode(encode(torch.zeros(shape)), *shape).shape == shape


def test_zeros_and_the_smallest_numbers_stay_what_they_are():
    smallest = torch.full((1, 4), 1.4e-45)
    assert decode(encode(torch.cat([torch.zeros(1, 4), smallest])), 2, 4).abs().max() <= 1.4e-45


def test_half_precision_is_encoded_as_float32_is():
    rows = random_rows(4, 16).bfloat16()
    assert encode(rows) == encode(rows.float())


@pytest.mark.parametrize("counts", [[7], [3, 4], [1, 0, 6]])
def test_runs_of_rows_are_encoded_as_if_they_were_alone(counts: list[int]):
    rows = random_rows(7, 16)
    assert encode_each(rows, counts) == [encode(some) for some in rows.split(counts)]


@pytest.mark.parametrize("element", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_can_be_sent_and_is_refused(element: float):
    rows = random_rows(3, 8)
    rows[1, 2] = element
    assert [is_finite(one, 1) for one in encode_each(rows, [1, 1, 1])] == [True, False, True]
    with pytest.raises(ValueError, match="not finite"):
        decode(encode(rows), 3, 8)


def test_a_scale_that_makes_elements_infinite_is_refused():
    data = struct.pack("<f", 3e38) + bytes([127] * 4)
    with pytest.raises(ValueError, match="not finite"):
        decode(data, 1, 4)


@pytest.mark.parametrize(("rows", "width"), [(2, 8), (4, 8), (3, 9), (-3, -12), (0, 0)])
def test_bytes_of_another_length_are_refused(rows: int, width: int):
    with pytest.raises(ValueError, match="encoded rows"):
        decode(encode(random_rows(3, 8)), rows, width)
