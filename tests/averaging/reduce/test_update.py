"""All peers apply the same update, and it is that of one process with all their data."""

import pytest
import torch
from torch import Tensor, nn

from averaging.log.state import Layout, State
from averaging.optimizers.state_step import StateOptimizer, initial_state
from averaging.reduce.gradient_codec import LARGEST, Compression, encode
from averaging.reduce.grid import Grid
from averaging.reduce.reducer import average
from averaging.shell.replay import decode_update
from swarm.run_file import OptimizerSection
from tests.averaging.reduce.rounds import chunks_of_round, drawn, sender

SETTINGS = OptimizerSection(learning_rate=0.1, warmup_steps=2, total_steps=100, epsilon=3e-5)
CLASSES, WIDTH = 400, 60
TOKENS = (512, 3, 77, 1, 200)  # masked tokens of each peer: samples differ in length
STEPS = 4


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, 128), nn.Tanh(), nn.Linear(128, CLASSES))


def layout() -> Layout:
    return Layout.of(model().named_parameters(), has_muon=False)


def tokens_of(step: int, peer: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(100 * step + peer)
    labels = torch.randint(0, CLASSES, (TOKENS[peer],), generator=generator)
    return torch.randn(TOKENS[peer], WIDTH, generator=generator) + labels[:, None] / CLASSES, labels


def gradient_at(parameters: Tensor, batches: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Of the mean loss over all tokens of all batches."""
    net = model()
    for own, values in zip(net.parameters(), layout().views(parameters), strict=True):
        own.data.copy_(values)
    inputs, labels = (torch.cat(one) for one in zip(*batches, strict=True))
    nn.functional.cross_entropy(net(inputs), labels).backward()
    return layout().flat([one.grad for one in net.parameters() if one.grad is not None])


def first_state() -> State:
    return initial_state(layout(), list(model().parameters()))


def swarm_states(kind: Compression) -> list[State]:
    """Of each peer, after every peer has computed its tokens and stepped with its own decoding of the update."""
    grid, optimizer = Grid(layout().size), StateOptimizer(layout(), SETTINGS)
    states = [first_state() for _ in TOKENS]
    for step in range(STEPS):
        members = {}
        for peer, (state, weight) in enumerate(zip(states, TOKENS, strict=True)):
            gradient = gradient_at(state.parameters, [tokens_of(step, peer)])
            members[f"peer {peer}"] = sender(grid, kind, [(gradient * weight, weight)])
        chunks = chunks_of_round(members, {session: [0] for session in members}, grid, kind)
        states = [optimizer.step(state, decode_update(chunks, grid, kind)) for state in states]
    return states


def one_process() -> State:
    state = first_state()
    for step in range(STEPS):
        gradient = gradient_at(state.parameters, [tokens_of(step, peer) for peer in range(len(TOKENS))])
        state = StateOptimizer(layout(), SETTINGS).step(state, gradient)
    return state


def test_peers_with_different_numbers_of_tokens_are_one_process_with_all_of_them():
    swarm, alone = swarm_states("none"), one_process()
    assert (alone.parameters - first_state().parameters).abs().max() > 0.02  # the steps went somewhere
    for state in swarm:
        assert (state.parameters - alone.parameters).abs().max() < 1e-5


@pytest.mark.parametrize("kind", ["8bit", "float16", "none"])
def test_all_peers_are_at_the_same_bits(kind: Compression):
    first, *others = swarm_states(kind)
    for other in others:
        assert torch.equal(first.parameters, other.parameters)
        assert all(torch.equal(one, two) for one, two in zip(first.moments, other.moments, strict=True))


def test_with_8_bits_peers_end_near_one_process():
    alone, begun = one_process().parameters, first_state().parameters
    assert (swarm_states("8bit")[0].parameters - alone).norm() < 0.02 * (alone - begun).norm()


def test_the_largest_update_that_can_be_encoded_leaves_numbers_in_the_state():
    grid, state = Grid(layout().size), first_state()
    largest = [
        encode(LARGEST * drawn(grid, 0).sign().numpy()[grid.slice(chunk)], "8bit") for chunk in range(grid.count)
    ]
    for _ in range(3):
        state = StateOptimizer(layout(), SETTINGS).step(state, decode_update(largest, grid, "8bit"))
    assert all(vector.isfinite().all() for vector in (state.parameters, *state.moments))


def test_an_update_lacks_those_that_were_left_out_of_a_chunk_and_nothing_else():
    grid = Grid(70_000)
    gradients = {"a": drawn(grid, 0), "b": drawn(grid, 1)}
    members = {session: sender(grid, "none", [(gradient * 10, 10)]) for session, gradient in gradients.items()}
    chunks = []
    for chunk in range(grid.count):
        present = ["a"] if chunk == 2 else ["a", "b"]
        pieces = [(session, members[session].piece([0], chunk)) for session in present]
        chunks.append(average(grid, "none", pieces, chunk, {"a": 10, "b": 10}).encoded)
    expected = (gradients["a"] + gradients["b"]) / 2
    expected[grid.slice(2)] = gradients["a"][grid.slice(2)]
    torch.testing.assert_close(decode_update(chunks, grid, "none"), expected)


def test_an_update_with_other_chunks_than_the_grids_is_refused():
    grid = Grid(70_000)
    chunks = [encode(drawn(grid, 0).numpy()[grid.slice(chunk)], "8bit") for chunk in range(grid.count)]
    for wrong in (chunks[:-1], [*chunks, chunks[0]], []):
        with pytest.raises(ValueError, match=f"an update has {grid.count} chunks"):
            decode_update(wrong, grid, "8bit")
    with pytest.raises(ValueError, match="elements take"):
        decode_update([chunks[-1], *chunks[1:-1], chunks[0]], grid, "8bit")
