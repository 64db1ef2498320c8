"""Muon's step: what it does to singular values, and that every processor takes it with the same bits."""

import hashlib
import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from averaging.log.moment_codec import rebase
from averaging.log.snapshot import read_snapshot, write_snapshot
from averaging.log.state import Layout, State
from averaging.optimizers.muon import MATRIX_BITS, POLYNOMIALS, SAFETY, SQUARE_BITS, move_matrix, orthogonalized
from averaging.optimizers.state_step import StateOptimizer, initial_state
from swarm.run_file import OptimizerSection

SETTINGS = OptimizerSection(name="muon", learning_rate=0.01, warmup_steps=1, total_steps=1000, weight_decay=0.1)
LAYOUT = Layout(
    ("embeddings.word.weight", "layer.weight", "layer.bias", "pooler.weight", "classifier.weight"),
    ((300, 64), (96, 64), (96,), (64, 64), (2, 64)),
    has_muon=True,
)
PROGRAM = "from tests.averaging.optimizers.test_muon import steps; steps()"


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    """The same numbers on every processor."""
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


def taken(state: State, steps: int) -> State:
    optimizer = StateOptimizer(LAYOUT, SETTINGS)
    for step in range(steps):
        state = optimizer.step(state, LAYOUT.flat([drawn(*shape, seed=step) for shape in LAYOUT.shapes]))
    return state


def first() -> State:
    return initial_state(LAYOUT, [drawn(*shape, seed=1000) for shape in LAYOUT.shapes])


@pytest.mark.parametrize("shape", [(64, 64), (32, 200), (200, 32), (1, 5)], ids=str)
@pytest.mark.parametrize("size", [1e-20, 1.0, 1e15])
def test_singular_values_are_brought_near_one_and_directions_stay(shape: tuple[int, int], size: float):
    matrix = drawn(*shape) * size
    ours = orthogonalized(matrix)
    left, values, right = torch.linalg.svd(matrix.double(), full_matrices=False)
    assert (values / values.norm()).min() > 1e-3  # or they would stay smaller
    diagonal = left.T @ ours @ right.T
    assert diagonal.diagonal().min() > 0.86 and diagonal.diagonal().max() < 1.13
    assert (diagonal - diagonal.diagonal().diag()).abs().max() < 1e-4


def test_all_is_exact_arithmetic_on_integers():
    """A computation with Python's rules for integers of 64 bits, which knows no order of sums, gives the same bits."""
    matrix = drawn(48, 160)
    norm = float(torch.linalg.vector_norm(matrix, dtype=torch.float64))
    mantissa, exponent = math.frexp(norm)
    norm = math.ceil(mantissa * 2**20) * 2.0 ** (exponent - 20)

    def integers(values: np.ndarray, bits: int) -> np.ndarray:
        return np.rint(values * 2.0**bits).astype(np.int64)

    def product(one: np.ndarray, other: np.ndarray, bits: int) -> np.ndarray:
        assert (np.abs(one) @ np.abs(other)).max() < 2**53
        return (one @ other) * 2.0**-bits

    ours = integers(matrix.numpy().astype(np.float64) / (SAFETY * norm), MATRIX_BITS)
    for a, b, c in POLYNOMIALS:
        square = integers(product(ours, ours.T, 2 * MATRIX_BITS), SQUARE_BITS)
        fourth = integers(product(square, square, 2 * SQUARE_BITS), SQUARE_BITS)
        terms = square * 2.0**-SQUARE_BITS * (b / SAFETY**3) + fourth * 2.0**-SQUARE_BITS * (c / SAFETY**5)
        moved = product(integers(terms, SQUARE_BITS), ours, MATRIX_BITS + SQUARE_BITS)
        ours = integers(moved + ours * 2.0**-MATRIX_BITS * (a / SAFETY), MATRIX_BITS)
    assert np.array_equal(orthogonalized(matrix).numpy(), ours * 2.0**-MATRIX_BITS)


def test_the_order_of_the_sums_does_not_matter():
    matrix, order = drawn(64, 512), torch.from_numpy(np.random.default_rng(1).permutation(512))
    assert torch.equal(orthogonalized(matrix[:, order]), orthogonalized(matrix)[:, order])
    one, other = matrix @ matrix.T, matrix[:, order] @ matrix[:, order].T
    assert not torch.equal(one, other)  # as it does in float32


def test_a_step_has_the_size_of_adams_and_decays():
    parameter, mean = torch.zeros(128, 512), torch.zeros(128, 512)
    move_matrix(parameter, drawn(128, 512), mean, (parameter, mean), settings=SETTINGS, scale=0.5, learning_rate=0.01)
    assert float(parameter.square().mean().sqrt()) == pytest.approx(0.2 * 0.01, rel=0.05)
    assert torch.allclose(mean, drawn(128, 512) * 0.5 * (1 - SETTINGS.momentum))
    ones, mean = torch.ones(128, 512), torch.zeros(128, 512)
    move_matrix(ones, drawn(128, 512), mean, (ones, mean), settings=SETTINGS, scale=0.5, learning_rate=0.01)
    assert torch.allclose(ones - parameter, torch.full((128, 512), 1 - 0.01 * SETTINGS.weight_decay))


def test_only_hidden_matrices_take_it_and_they_have_no_second_moment():
    assert LAYOUT.matrices == (False, True, False, True, False)
    assert LAYOUT.moment_sizes == (LAYOUT.size, 300 * 64 + 96 + 2 * 64)
    after, adam = taken(first(), 3), OptimizerSection(**{**SETTINGS.model_dump(), "name": "adamw"})
    plain = Layout(LAYOUT.names, LAYOUT.shapes)
    other = initial_state(plain, LAYOUT.views(first().parameters))
    for step in range(3):
        gradient = LAYOUT.flat([drawn(*shape, seed=step) for shape in LAYOUT.shapes])
        other = StateOptimizer(plain, adam).step(other, gradient)
    pairs = zip(LAYOUT.views(after.parameters), LAYOUT.views(other.parameters), LAYOUT.matrices, strict=True)
    assert all(torch.equal(ours, theirs) != is_matrix for ours, theirs, is_matrix in pairs)


def test_snapshots_are_smaller_by_the_second_moments_and_read_again():
    state, chunks = taken(first(), 3), dict[str, bytes]()
    rebase(state)
    manifest = write_snapshot(state, "run", "", chunks.__setitem__)
    size = sum(len(chunks[digest]) for digest in manifest.chunks)
    assert size == 4 * LAYOUT.size + 2 * LAYOUT.size + 2 * LAYOUT.moment_sizes[1]
    again = read_snapshot(manifest, chunks.get, "run", LAYOUT)
    pairs = zip((state.parameters, *state.moments), (again.parameters, *again.moments), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    with pytest.raises(ValueError, match="do not fit"):
        read_snapshot(manifest, chunks.get, "run", Layout(LAYOUT.names, LAYOUT.shapes))


def steps() -> None:
    """Print the parameters after 200 steps."""
    sys.stdout.buffer.write(taken(first(), 200).parameters.numpy().tobytes())


def test_two_hundred_steps_are_the_same_without_the_instructions_of_newer_processors():
    """Of torch; the elementwise step of the other tensors may round otherwise there."""
    older = {"ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    there = subprocess.run(command, env={**os.environ, **older}, capture_output=True, check=True).stdout
    here = taken(first(), 200).parameters
    vectors = zip(
        LAYOUT.views(here), LAYOUT.views(torch.frombuffer(bytearray(there), dtype=torch.float32)), strict=True
    )
    for (ours, theirs), is_matrix in zip(vectors, LAYOUT.matrices, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-6)
        assert torch.equal(ours, theirs) or not is_matrix


def test_the_number_of_threads_changes_not_a_bit():
    before, digests = torch.get_num_threads(), set()
    try:
        for threads in (1, 2, 3, 16):
            torch.set_num_threads(threads)
            digests.add(hashlib.sha256(taken(first(), 3).parameters.numpy().tobytes()).hexdigest())
    finally:
        torch.set_num_threads(before)
    assert len(digests) == 1


def test_a_gradient_of_zeros_moves_nothing():
    assert not orthogonalized(torch.zeros(8, 16)).any()
    state = taken(first(), 3)
    after = StateOptimizer(LAYOUT, SETTINGS).step(state, torch.zeros(LAYOUT.size))
    moved = [
        not torch.equal(one, other)
        for one, other in zip(LAYOUT.views(state.parameters), LAYOUT.views(after.parameters), strict=True)
    ]
    assert moved == [not is_matrix for is_matrix in LAYOUT.matrices]
    assert torch.equal(LAYOUT.views(state.moments[0])[1], LAYOUT.views(after.moments[0])[1])
