"""A mean is what its senders sent, and a sender that lies loses its own share alone."""

import random
import struct
import tracemalloc
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from averaging.reduce.clipping import Robust
from averaging.reduce.gradient_codec import BLOCK, LARGEST_WEIGHT, Compression, decode, encode_piece, encoded_bytes
from averaging.reduce.grid import Grid
from averaging.reduce.reducer import EncodedMean, average, weighted_mean

GRID = Grid(70_000)
CHUNK = GRID.count - 1  # the one that ends in a rest
ELEMENTS = GRID.size(CHUNK)
KINDS: tuple[Compression, ...] = ("8bit", "float16", "none")
WEIGHTS = {"ada": 700, "liar": 300, "zoe": 20}
HEADER = 4 + 4  # bytes of weight and tag
ROBUST: tuple[Robust, ...] = ("off", "watch", "enforce")
CROWD = {f"peer {number}": 10_000 * (number + 1) for number in range(6)}


def drawn(seed: int, elements: int = ELEMENTS) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(elements).astype(np.float32)


def honest(kind: Compression) -> dict[str, bytes]:
    return {session: encode_piece(drawn(seed), weight, kind) for seed, (session, weight) in enumerate(WEIGHTS.items())}


def averaged(pieces: dict[str, bytes], kind: Compression) -> EncodedMean:
    return average(GRID, kind, list(pieces.items()), CHUNK, WEIGHTS)


def with_number(piece: bytes, kind: Compression, number: float) -> bytes:
    """The piece with this as its last number, in 8 bits as the scale of the last block."""
    packed = {"8bit": struct.pack("<f", number)[2:], "none": struct.pack("<f", number)}.get(kind)
    if packed is None:
        with np.errstate(over="ignore"):
            packed = np.float16(number).tobytes()
    end = HEADER + 2 * -(-ELEMENTS // BLOCK) if kind == "8bit" else len(piece)
    return piece[: end - len(packed)] + packed + piece[end:]


def with_weight(piece: bytes, weight: int) -> bytes:
    return struct.pack("<I", weight) + piece[4:]


ATTACKS: dict[str, Callable[[bytes, Compression], bytes]] = {
    "not a number": lambda piece, kind: with_number(piece, kind, float("nan")),
    "infinity": lambda piece, kind: with_number(piece, kind, float("inf")),
    "a giant": lambda piece, kind: with_number(piece, kind, 3e38),
    "a negative giant": lambda piece, kind: with_number(piece, kind, -3e38),
    "more weight than called": lambda piece, kind: with_weight(piece, 301),
    "the largest weight": lambda piece, kind: with_weight(piece, 2**32 - 1),
    "no weight": lambda piece, kind: with_weight(piece, 0),
    "nothing": lambda piece, kind: b"",
    "less than a weight": lambda piece, kind: piece[:3],
    "a weight alone": lambda piece, kind: piece[:4],
    "a byte too few": lambda piece, kind: piece[:-1],
    "a byte too many": lambda piece, kind: piece + b"\0",
    "a megabyte too many": lambda piece, kind: piece + bytes(2**20),
    "another chunk": lambda piece, kind: encode_piece(drawn(1, GRID.size(0)), 300, kind),
    "another kind": lambda piece, kind: piece[:4] + b"int4" + piece[8:],
    "noise": lambda piece, kind: random.Random(0).randbytes(len(piece)),
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_liar_loses_its_own_share_alone(kind: Compression, attack: str):
    pieces = honest(kind)
    without = averaged({session: piece for session, piece in pieces.items() if session != "liar"}, kind)
    pieces["liar"] = ATTACKS[attack](pieces["liar"], kind)
    assert averaged(pieces, kind) == EncodedMean(without.encoded, ("liar",))


@pytest.mark.parametrize("kind", KINDS)
def test_a_liar_that_sends_first_or_last_changes_nothing_either(kind: Compression):
    pieces = honest(kind)
    broken = with_number(pieces.pop("liar"), kind, float("nan"))
    without = averaged(pieces, kind).encoded
    assert averaged({"liar": broken, **pieces}, kind) == EncodedMean(without, ("liar",))
    assert averaged({**pieces, "liar": broken}, kind) == EncodedMean(without, ("liar",))


@pytest.mark.parametrize("kind", KINDS)
def test_honest_pieces_pass_and_their_mean_is_near(kind: Compression):
    mean = averaged(honest(kind), kind)
    exact = sum(weight * drawn(seed).astype(float) for seed, weight in enumerate(WEIGHTS.values())) / 1020
    assert mean.excluded == ()
    error = np.linalg.norm(decode(mean.encoded, ELEMENTS, kind) - exact) / np.linalg.norm(exact)
    assert error < {"8bit": 0.011, "float16": 0.0004, "none": 1e-7}[kind]


def test_sessions_that_are_not_in_the_plan_are_left_out():
    pieces = honest("8bit")
    stranger = encode_piece(drawn(9), 10**6, "8bit")
    assert averaged({**pieces, "stranger": stranger}, "8bit") == EncodedMean(
        averaged(pieces, "8bit").encoded, ("stranger",)
    )
    weightless = average(
        GRID, "8bit", [*pieces.items(), ("guest", with_weight(stranger, 0))], CHUNK, {**WEIGHTS, "guest": 0}
    )
    assert weightless == EncodedMean(averaged(pieces, "8bit").encoded, ("guest",))


def test_without_a_usable_piece_there_is_no_mean():
    for pieces in ({}, {"liar": b"?"}):
        with pytest.raises(ValueError, match="no piece of the chunk can be used"):
            averaged(pieces, "8bit")


def test_a_chunk_that_is_not_on_the_grid_is_refused():
    with pytest.raises(ValueError, match=f"chunk {GRID.count} is not on the grid"):
        average(GRID, "8bit", list(honest("8bit").items()), GRID.count, WEIGHTS)


def test_a_mean_is_exact_to_the_last_bit_even_at_the_largest_weights():
    weights = (LARGEST_WEIGHT, 1, 3, 2**28 + 1)
    gradients = [drawn(seed, 200) for seed in range(len(weights))]
    mean = weighted_mean(zip(gradients, weights, strict=True), 200)
    for place in range(200):
        exact = sum(Fraction(float(one[place])) * w for one, w in zip(gradients, weights, strict=True)) / sum(weights)
        assert mean[place] == pytest.approx(np.float32(float(exact)), rel=1.2e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_memory_does_not_grow_with_the_number_of_senders(kind: Compression):
    chunk = 0
    piece = encode_piece(drawn(0, GRID.size(chunk)), 5, kind)
    sessions = [f"session {number}" for number in range(300)]
    pieces, weights = [(session, piece) for session in sessions], dict.fromkeys(sessions, 5)
    tracemalloc.start()
    try:
        average(GRID, kind, pieces, chunk, weights)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40 * GRID.size(chunk) + 100_000


def test_what_a_sender_sends_sets_the_size_of_nothing():
    large = with_weight(bytes(HEADER) + bytes(encoded_bytes(10**7, "none")), 5)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="no piece of the chunk can be used"):
            average(GRID, "none", [("liar", large)], CHUNK, {"liar": 5})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def crowd(kind: Compression, times: float) -> tuple[dict[str, np.ndarray], list[tuple[str, bytes]]]:
    """Gradients of noise, one of them so many times larger, and their pieces."""
    gradients = {
        session: drawn(seed) * np.float32((times if seed == 3 else 1.0) * 10 / np.sqrt(weight))
        for seed, (session, weight) in enumerate(CROWD.items())
    }
    return gradients, [(session, encode_piece(one, CROWD[session], kind)) for session, one in gradients.items()]


@pytest.mark.parametrize("kind", KINDS)
def test_where_no_sender_is_loud_the_bytes_are_the_same_whether_or_not_that_is_looked_for(kind: Compression) -> None:
    _, pieces = crowd(kind, 1.0)
    off, watching, enforcing = (average(GRID, kind, pieces, CHUNK, CROWD, robust) for robust in ROBUST)
    assert off == watching == enforcing and not off.loud


@pytest.mark.parametrize("kind", KINDS)
def test_a_loud_sender_is_named_and_scaled_down_where_that_is_enforced(kind: Compression) -> None:
    gradients, pieces = crowd(kind, -50.0)
    off, watching, enforcing = (average(GRID, kind, pieces, CHUNK, CROWD, robust) for robust in ROBUST)
    assert off.encoded == watching.encoded and not off.loud
    ((session, times),) = watching.loud
    assert session == "peer 3" and times == pytest.approx(50, rel=0.05) and enforcing.loud == watching.loud
    gradients[session] = gradients[session] * np.float32((2.0 / times) ** 2)
    expected = sum(CROWD[one] * gradient for one, gradient in gradients.items()) / sum(CROWD.values())
    assert decode(enforcing.encoded, ELEMENTS, kind) == pytest.approx(expected, abs=2e-3)


def test_pieces_that_cannot_be_used_are_not_among_those_that_are_compared() -> None:
    _, pieces = crowd("none", 50.0)
    broken = [(session, piece[:-1] if session == "peer 0" else piece) for session, piece in pieces]
    fewer = average(GRID, "none", broken, CHUNK, CROWD, "enforce")
    assert fewer.excluded == ("peer 0",)
    assert fewer.encoded == average(GRID, "none", pieces[1:], CHUNK, CROWD, "enforce").encoded
    assert [session for session, _ in fewer.loud] == ["peer 3"]
