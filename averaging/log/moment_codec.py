"""Moments in 16 bits: what an optimizer remembers, rounded so that a snapshot of it is small and exact.

A number keeps the 8 bits of its exponent. A moment with a sign keeps 7 bits of its fraction (bfloat16), one without, 8.
Rounding is stochastic, up with a probability of what is cut off, so that slow averages neither freeze nor lean to one
side. The random bits are a hash of (global step, number of the moment, index of the element). All of it is arithmetic
on the bits of floats as unsigned integers: every processor has the same result.
"""

import hashlib
import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from averaging.log.state import State

SIGNED = (True, False)  # which of the two moments has a sign: that of the gradient, not that of its square

_BLOCK = 1 << 15  # elements at a time: what is in between stays in the processor's cache
_ABSOLUTE = np.uint32(0x7FFFFFFF)  # all but the sign

Words = npt.NDArray[np.uint32]


def rebase(state: State) -> None:
    """Round the moments of a state, in place; a second time changes nothing. A part of each snapshot step.

    Raises:
        ValueError: a moment is not finite, or negative though it has no sign; moments before it are rounded.
    """
    for number, (moment, has_sign) in enumerate(zip(state.moments, SIGNED, strict=True)):
        round_moment(moment, state.step, number, signed=has_sign)


def round_moment(vector: Tensor, step: int, number: int, *, signed: bool) -> None:
    """Round a contiguous vector of float32, in place, to numbers that 16 bits can hold.

    Numbers that they hold are kept; those above the largest become it.

    Args:
        number: of the moment in the state.

    Raises:
        ValueError: a number is not finite, or negative though the moment has no sign; nothing was changed.
    """
    check_finite(vector, f"moment {number} of step {step}", signed=signed)
    words = _words(vector)
    cut = _cut(signed)
    kept = np.uint32(0xFFFFFFFF << cut & 0xFFFFFFFF)
    largest = np.uint32(0x7F7FFFFF) & kept
    for begin in range(0, len(words), _BLOCK):
        block = words[begin : begin + _BLOCK]
        noise = _hash(step, number, begin, len(block))
        np.right_shift(noise, np.uint32(32 - cut), out=noise)
        if signed:
            sign = block & ~_ABSOLUTE
        np.bitwise_and(block, _ABSOLUTE, out=block)  # and -0.0 is 0.0 where there is no sign
        np.add(block, noise, out=block)  # carries into what is kept, and from there into the exponent
        np.bitwise_and(block, kept, out=block)
        np.minimum(block, largest, out=block)
        if signed:
            np.bitwise_or(block, sign, out=block)


def encode(vector: Tensor, *, signed: bool) -> bytes:
    """A rounded vector as unsigned integers of 16 bits, little-endian.

    Raises:
        ValueError: it is not rounded, or not finite.
    """
    words = _words(vector)
    cut = np.uint32(_cut(signed))
    encoded = words >> cut
    if not np.array_equal(encoded << cut, words) or np.any(encoded > 0xFFFF):
        raise ValueError("these moments were not rounded to 16 bits; rebase the state first")
    narrow = encoded.astype("<u2")
    _check_encoded(narrow, signed)
    return narrow.tobytes()


def decode(encoded: bytes | memoryview, *, signed: bool) -> Tensor:
    """The float32 numbers of `encode`, as a new vector.

    Raises:
        ValueError: one of them is not finite, or half a number is there.
    """
    narrow = np.frombuffer(encoded, "<u2")
    _check_encoded(narrow, signed)
    return torch.from_numpy((narrow.astype(np.uint32) << np.uint32(_cut(signed))).view(np.float32))


def check_finite(vector: Tensor, what: str, *, signed: bool = True) -> None:
    """Raise a ValueError that names `what` if a number is not finite, or negative though it has no sign."""
    if not len(vector):
        return
    low, high = (float(bound) for bound in torch.aminmax(vector))  # not numbers if one of the vector is not
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(f"{what} holds numbers that are not finite")
    if low < 0 and not signed:
        raise ValueError(f"{what} holds negative numbers, such as {low:g}, and has no sign")


def _check_encoded(narrow: npt.NDArray[np.uint16], signed: bool) -> None:
    """Without a sign only the exponent of all ones is no number; with one, both halves have such."""
    exponents = narrow & 0x7FFF if signed else narrow
    first_of_infinity = 0x7F80 if signed else 0xFF00
    if np.any(exponents >= first_of_infinity):
        raise ValueError("encoded moments hold numbers that are not finite")


def _cut(signed: bool) -> int:
    """Bits of a fraction that are cut off; without a sign there is room for one bit more."""
    return 16 if signed else 15


def _words(vector: Tensor) -> Words:
    """The bits of a contiguous vector, in its own memory."""
    assert vector.dtype == torch.float32 and vector.is_contiguous() and vector.dim() == 1
    words: Words = vector.detach().numpy().view(np.uint32)
    return words


def _hash(step: int, number: int, first: int, count: int) -> Words:
    """32 random bits for each index: two rounds of Wellons' lowbias32, with a key before each. Low bits are worse."""
    key = hashlib.sha256(f"moment {number} of step {step}".encode()).digest()
    before, between = (np.uint32(int.from_bytes(key[at : at + 4], "little")) for at in (0, 4))
    mixed = np.arange(first, first + count, dtype=np.uint32)
    mixed += before  # wraps around, as all that follows
    shifted = mixed >> np.uint32(16)
    mixed ^= shifted
    mixed *= np.uint32(0x7FEB352D)
    mixed ^= between
    np.right_shift(mixed, np.uint32(15), out=shifted)
    mixed ^= shifted
    mixed *= np.uint32(0x846CA68B)
    return mixed
