"""Which batches are worth computing, and which gradients count."""

import pytest

from averaging.protocol.buffers import Buffers
from averaging.protocol.settings import Settings
from averaging.protocol.staleness import has_use, is_fresh

SETTINGS = Settings(run="run", target_samples=100, chunks=1, snapshot_every=10)


@pytest.mark.parametrize(("head", "counts"), [(6, True), (7, True), (8, True), (9, False)])
def test_a_gradient_counts_until_two_more_steps_are_decided(head: int, counts: bool) -> None:
    assert is_fresh(7, head) == counts


@pytest.mark.parametrize(
    ("offered", "gathered", "overlap", "expected"),
    [
        (0, 99, True, True),
        (0, 100, True, False),  # enough for the step that has not begun
        (100, 99, True, True),  # one step is being averaged, the next one is computed
        (100, 99, False, False),
        (120, 80, True, False),
    ],
)
def test_a_peer_computes_for_this_step_and_with_overlap_for_the_next(
    offered: int, gathered: int, overlap: bool, expected: bool
) -> None:
    buffers = Buffers()
    if offered:
        buffers.add(1, samples=offered)
        buffers.offer()
    buffers.add(1, samples=gathered)
    assert has_use(buffers, SETTINGS, overlap=overlap) == expected
