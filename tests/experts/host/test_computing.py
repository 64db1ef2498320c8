"""Batches of calls of several callers, good and bad ones."""

import pytest
import torch
from torch import Tensor

from experts.codec import decode, encode
from experts.host.call_queue import Call, Direction
from experts.host.computing import Computing
from experts.host.settings import ExpertSettings
from experts.host.state import to_bytes
from experts.host.trained_expert import TrainedExpert

SETTINGS = ExpertSettings(grid=(4,), width=8, hidden=16)
A, B, ABSENT = (0,), (1,), (3,)


def computing() -> Computing:
    made = Computing(SETTINGS)
    made.experts = {uid: TrainedExpert(uid, SETTINGS) for uid in (A, B)}
    return made


def rows(count: int, seed: int = 0) -> Tensor:
    return torch.randn(count, SETTINGS.width, generator=torch.Generator().manual_seed(seed))


def forward(uid: tuple[int, ...], inputs: Tensor, caller: str = "amina") -> Call:
    return Call(caller, uid, Direction.FORWARD, len(inputs), encode(inputs))


def backward(uid: tuple[int, ...], inputs: Tensor, gradients: Tensor, caller: str = "amina", version: int = 0) -> Call:
    return Call(caller, uid, Direction.BACKWARD, len(inputs), encode(inputs) + encode(gradients), version)


def test_answers_come_in_the_order_of_the_calls():
    host = computing()
    inputs = [rows(count, count) for count in (3, 1, 5)]
    calls = [forward(A, inputs[0]), forward(B, inputs[1], "bimal"), forward(A, inputs[2], "chitra")]
    for call, sent, outcome in zip(calls, inputs, host.compute(calls), strict=True):
        assert not outcome.refused
        answer = decode(outcome.data, len(sent), SETTINGS.width)
        expected = host.experts[call.uid].forward(decode(encode(sent), len(sent), SETTINGS.width))
        torch.testing.assert_close(answer, expected, atol=float(expected.abs().max()) / 127, rtol=0)
    assert host.rows == 9


def test_gradients_of_a_batch_make_one_step():
    host = computing()
    calls = [backward(A, rows(3, seed), rows(3, seed + 10), caller) for seed, caller in enumerate("xyx")]
    outcomes = host.compute(calls)
    assert [outcome.refused for outcome in outcomes] == ["", "", ""]
    assert [outcome.version for outcome in outcomes] == [0, 0, 0]
    assert (host.experts[A].version, host.experts[B].version) == (1, 0)
    alone = computing()
    of_y = alone.compute([calls[1]])[0]
    assert host.served == {"x": 6, "y": 3}
    assert of_y.data == outcomes[1].data  # the gradients of the inputs are the caller's own


def not_finite(count: int) -> bytes:
    return encode(torch.full((count, SETTINGS.width), float("inf")))


@pytest.mark.parametrize(
    "bad",
    [
        Call("eve", A, Direction.FORWARD, 2, not_finite(2)),
        Call("eve", A, Direction.FORWARD, 3, encode(rows(2))),
        Call("eve", A, Direction.BACKWARD, 2, encode(rows(2))),
        Call("eve", A, Direction.BACKWARD, 2, encode(rows(2)) + not_finite(2)),
        Call("eve", A, Direction.BACKWARD, 2, not_finite(2) + encode(rows(2))),
        backward(A, rows(2), torch.full((2, SETTINGS.width), 3e38), "eve"),
        forward(ABSENT, rows(2), "eve"),
        backward(ABSENT, rows(2), rows(2), "eve"),
    ],
)
def test_a_bad_call_is_refused_changes_nothing_and_harms_no_other(bad: Call):
    host, alone = computing(), computing()
    before = to_bytes(host.experts[A])
    (outcome,) = host.compute([bad])
    assert outcome.refused
    assert not outcome.data
    assert not host.served["eve"]
    assert to_bytes(host.experts[A]) == before
    good = [forward(A, rows(2)), backward(A, rows(2), rows(2, 1))]
    first, refused, last = host.compute([good[0], bad, good[1]])
    assert refused.refused
    assert [first, last] == alone.compute(good)
    assert to_bytes(host.experts[A]) == to_bytes(alone.experts[A])
