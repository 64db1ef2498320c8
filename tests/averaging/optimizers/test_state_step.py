"""The step of the log has the same bits everywhere, and leaves what others read as it is."""

from dataclasses import replace

import pytest
import torch

from averaging.log.state import Layout, State
from averaging.optimizers.state_step import StateOptimizer, initial_state
from swarm.run_file import OptimizerSection

SETTINGS = OptimizerSection(learning_rate=0.01, warmup_steps=10, total_steps=60, weight_decay=0.1)
# beyond torch's grain; tensors that begin at odd places of the vector, and vectors' lengths that leave a rest
SHAPES = ((1031, 257), (257,), (300_007,), (64, 33), (1,), (128, 1))
LAYOUT = Layout(tuple("abcdef"), SHAPES)


def drawn(seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [(1 + place) * torch.randn(shape, generator=generator) for place, shape in enumerate(SHAPES)]


def bits(state: State) -> list[bytes]:
    return [vector.numpy().tobytes() for vector in (state.parameters, *state.moments)]


def test_the_number_of_threads_and_the_place_in_memory_change_not_a_bit():
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 5, 16):
            torch.set_num_threads(threads)
            state = initial_state(LAYOUT, drawn(0))
            for step in range(3):
                # the same numbers at another distance from a vector's alignment
                moved = torch.cat([torch.zeros(threads % 8), LAYOUT.flat(drawn(1 + step))])[threads % 8 :]
                state = StateOptimizer(LAYOUT, SETTINGS).step(state, moved)
            results.append(bits(state))
    finally:
        torch.set_num_threads(before)
    assert all(result == results[0] for result in results)


@pytest.mark.parametrize("name", ["lamb", "muon"])
def test_a_step_leaves_the_state_that_others_read_and_the_gradient_as_they_are(name: str):
    layout = replace(LAYOUT, has_muon=name == "muon")
    state, gradient = initial_state(layout, drawn(0)), layout.flat(drawn(1))
    before, own = bits(state), gradient.clone()
    after = StateOptimizer(layout, SETTINGS.model_copy(update={"name": name})).step(state, gradient)
    assert bits(state) == before and (state.step, state.updates) == (0, 0)
    assert torch.equal(gradient, own)
    assert after.gradient_norm == pytest.approx(float(gradient.double().norm()), rel=1e-12)
    assert not set(bits(after)) & set(before)


def test_the_learning_rate_goes_by_steps_and_the_corrections_by_updates():
    """After resets and rollbacks there are fewer updates than steps, and the rate is zero at the run's last step."""
    optimizer, gradient = StateOptimizer(LAYOUT, SETTINGS), LAYOUT.flat(drawn(1))
    first, last = (initial_state(LAYOUT, drawn(0)) for _ in range(2))
    last.step = SETTINGS.total_steps  # after headers without an update
    first, last = optimizer.step(first, gradient), optimizer.step(last, gradient)
    assert torch.equal(last.parameters, LAYOUT.flat(drawn(0))) and not torch.equal(first.parameters, last.parameters)
    assert all(torch.equal(one, other) for one, other in zip(first.moments, last.moments, strict=True))
    assert (last.step, last.updates) == (SETTINGS.total_steps + 1, 1)


@pytest.mark.parametrize(
    "gradient", [torch.zeros(LAYOUT.size - 1), torch.zeros(LAYOUT.size, dtype=torch.float64), torch.zeros(1)], ids=str
)
def test_a_gradient_of_another_shape_or_type_is_refused_before_anything_moves(gradient: torch.Tensor):
    state = initial_state(LAYOUT, drawn(0))
    before = bits(state)
    with pytest.raises(ValueError, match="an update has"):
        StateOptimizer(LAYOUT, SETTINGS).step(state, gradient)
    assert bits(state) == before and state.step == 0


def test_parameters_of_another_layout_are_refused():
    with pytest.raises(ValueError, match="the layout"):
        initial_state(LAYOUT, drawn(0)[1:])
