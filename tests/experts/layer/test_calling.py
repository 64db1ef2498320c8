"""Rows reach their experts in one batch each, and what hosts answer or fail to answer does no harm."""

import math
from collections.abc import Callable, Collection, Mapping

import pytest
import torch

from experts.expert import new_expert
from experts.grid import Uid, all_uids
from experts.layer.calling import LARGEST, call_experts
from experts.layer.gate import NONE, Choice, best_alive
from experts.layer.local import LocalExperts

GRID = (2, 3)
WIDTH = 8
EXPERTS = {uid: new_expert(WIDTH, 16, seed) for seed, uid in enumerate(all_uids(GRID))}


class Recorded:
    """Experts that notes the calls, and some of which fail in one direction or answer something else."""

    def __init__(
        self,
        silent: Collection[Uid] = (),
        silent_backward: Collection[Uid] = (),
        spoil: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ):
        self._local = LocalExperts(EXPERTS, learning_rate=None)
        self._silent, self._silent_backward, self._spoil = silent, silent_backward, spoil
        self.forwards: list[Mapping[Uid, torch.Tensor]] = []
        self.backwards: list[tuple[Mapping[Uid, torch.Tensor], Mapping[Uid, torch.Tensor]]] = []

    def alive(self) -> Collection[Uid]:
        return self._local.alive()

    def forward(self, inputs: Mapping[Uid, torch.Tensor]) -> dict[Uid, torch.Tensor]:
        self.forwards.append(inputs)
        return self._answers(self._local.forward(inputs), self._silent)

    def backward(
        self, inputs: Mapping[Uid, torch.Tensor], gradients: Mapping[Uid, torch.Tensor]
    ) -> dict[Uid, torch.Tensor]:
        self.backwards.append((inputs, gradients))
        return self._answers(self._local.backward(inputs, gradients), self._silent_backward)

    def _answers(self, answers: dict[Uid, torch.Tensor], silent: Collection[Uid]) -> dict[Uid, torch.Tensor]:
        spoil = self._spoil or (lambda answer: answer)
        return {uid: spoil(answer) for uid, answer in answers.items() if uid not in silent}


def random_rows(count: int = 12) -> torch.Tensor:
    return torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(0))


def some_choice(count: int = 12, experts: int = 2) -> Choice:
    generator = torch.Generator().manual_seed(1)
    return best_alive([torch.randn(count, length, generator=generator) for length in GRID], list(EXPERTS), experts)


def uids_of(choice: Choice) -> list[list[Uid]]:
    return [[tuple(uid) for uid in row] for row in choice.coordinates.tolist()]


def test_each_row_gets_the_outputs_of_its_experts():
    rows, choice = random_rows(), some_choice()
    outputs, answered = call_experts(Recorded(), rows, choice)
    assert answered.all()
    expected = [[EXPERTS[uid](row[None])[0] for uid in uids] for row, uids in zip(rows, uids_of(choice), strict=True)]
    torch.testing.assert_close(outputs, torch.stack([torch.stack(one) for one in expected]))


def test_there_is_one_call_in_each_direction_with_one_batch_for_each_expert():
    caller, choice = Recorded(), some_choice()
    outputs, _ = call_experts(caller, random_rows().requires_grad_(), choice)
    outputs.sum().backward()
    rows_of = {uid: sum(uid in uids for uids in uids_of(choice)) for uid in EXPERTS}
    (called,), ((inputs, gradients),) = caller.forwards, caller.backwards
    assert {uid: len(rows) for uid, rows in called.items()} == {uid: count for uid, count in rows_of.items() if count}
    torch.testing.assert_close(dict(inputs), dict(called))
    assert {uid: len(rows) for uid, rows in gradients.items()} == {uid: len(rows) for uid, rows in called.items()}


def test_gradients_are_those_of_the_experts_in_one_process():
    rows, twin, choice = random_rows().requires_grad_(), random_rows().requires_grad_(), some_choice()
    outputs, _ = call_experts(Recorded(), rows, choice)
    factors = torch.randn_like(outputs)
    (outputs * factors).sum().backward()
    for number, uids in enumerate(uids_of(choice)):
        for place, uid in enumerate(uids):
            (EXPERTS[uid](twin[number][None])[0] * factors[number, place]).sum().backward()
    torch.testing.assert_close(rows.grad, twin.grad)


def test_an_expert_that_does_not_answer_is_left_out_in_both_directions():
    choice, silent = some_choice(), (0, 1)
    caller = Recorded(silent=[silent])
    rows = random_rows().requires_grad_()
    outputs, answered = call_experts(caller, rows, choice)
    heard = torch.tensor([[uid != silent for uid in uids] for uids in uids_of(choice)])
    assert torch.equal(answered, heard)
    assert not heard.all()
    assert not outputs[~heard].any()
    outputs.sum().backward()
    ((inputs, gradients),) = caller.backwards
    assert silent not in inputs
    assert silent not in gradients


def test_an_expert_that_does_not_answer_the_backward_call_gives_no_gradient():
    choice, silent = some_choice(experts=1), (0, 1)
    rows = random_rows().requires_grad_()
    outputs, answered = call_experts(Recorded(silent_backward=[silent]), rows, choice)
    assert answered.all()
    outputs.sum().backward()
    assert rows.grad is not None
    with_gradient = rows.grad.abs().sum(dim=1) > 0
    assert with_gradient.tolist() == [uids != [silent] for uids in uids_of(choice)]
    assert not with_gradient.all()


SPOILED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "not a number": lambda answer: answer.fill_(math.nan),
    "infinite": lambda answer: answer.index_fill_(0, torch.tensor([0]), -math.inf),
    "absurdly large": lambda answer: answer.index_fill_(1, torch.tensor([0]), 2 * LARGEST),
    "too few rows": lambda answer: answer[1:],
    "too wide": lambda answer: torch.cat([answer, answer], 1),
    "another type": lambda answer: answer.double(),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_an_answer_that_cannot_be_true_counts_as_none(spoil: Callable[[torch.Tensor], torch.Tensor]):
    outputs, answered = call_experts(Recorded(spoil=spoil), random_rows(), some_choice())
    assert not answered.any()
    assert not outputs.any()


def test_a_gradient_that_cannot_be_true_counts_as_none():
    class Liar(Recorded):
        def backward(
            self, inputs: Mapping[Uid, torch.Tensor], gradients: Mapping[Uid, torch.Tensor]
        ) -> dict[Uid, torch.Tensor]:
            return {uid: answer * math.nan for uid, answer in super().backward(inputs, gradients).items()}

    rows = random_rows().requires_grad_()
    call_experts(Liar(), rows, some_choice())[0].sum().backward()
    assert rows.grad is not None
    assert not rows.grad.any()


def test_an_answer_of_an_expert_that_was_not_asked_is_ignored():
    class Eager(Recorded):
        def forward(self, inputs: Mapping[Uid, torch.Tensor]) -> dict[Uid, torch.Tensor]:
            return super().forward(inputs) | {(7, 7): torch.zeros(1, WIDTH)}

    assert call_experts(Eager(), random_rows(), some_choice())[1].all()


@pytest.mark.parametrize("choice", [some_choice(0), best_alive([torch.zeros(4, 2), torch.zeros(4, 3)], [], 2)])
def test_without_rows_or_experts_nobody_is_called(choice: Choice):
    caller = Recorded()
    rows = random_rows(len(choice.coordinates)).requires_grad_()
    outputs, answered = call_experts(caller, rows, choice)
    assert outputs.shape == (*answered.shape, WIDTH)
    outputs.sum().backward()
    assert not caller.forwards
    assert not caller.backwards


def test_missing_experts_of_a_row_are_not_called():
    caller = Recorded()
    coordinates = torch.tensor([[[0, 1], [NONE, NONE]], [[0, 1], [1, 2]]])
    outputs, answered = call_experts(caller, random_rows(2), Choice(coordinates, ()))
    assert answered.tolist() == [[True, False], [True, True]]
    assert not outputs[0, 1].any()
    assert {uid: len(rows) for uid, rows in caller.forwards[0].items()} == {(0, 1): 2, (1, 2): 1}


def test_half_precision_travels_as_float32_and_its_gradient_comes_back_as_it_was():
    caller = Recorded()
    rows = random_rows().bfloat16().requires_grad_()
    outputs, _ = call_experts(caller, rows, some_choice())
    outputs.sum().backward()
    assert all(one.dtype == torch.float32 for one in caller.forwards[0].values())
    assert rows.grad is not None
    assert rows.grad.dtype == torch.bfloat16


def test_experts_are_given_gradients_without_the_scale_of_the_loss():
    plain, scaled, rows = Recorded(), Recorded(), random_rows()
    gradients = []
    for caller, scale in ((plain, 1.0), (scaled, 2.0**16)):
        inputs = rows.clone().requires_grad_()
        outputs, _ = call_experts(caller, inputs, some_choice(), scale)
        (outputs.square().sum() * scale).backward()
        assert inputs.grad is not None
        gradients.append(inputs.grad / scale)
    torch.testing.assert_close(dict(scaled.backwards[0][1]), dict(plain.backwards[0][1]))
    torch.testing.assert_close(*gradients)


def test_experts_are_not_called_with_gradients_that_have_overflown():
    caller, rows, choice = Recorded(), random_rows().requires_grad_(), some_choice()
    outputs, _ = call_experts(caller, rows, choice, 2.0**16)
    factors = torch.ones_like(outputs)
    factors[0, 0, 0] = math.inf
    (outputs * factors).sum().backward()
    ((inputs, gradients),) = caller.backwards
    assert inputs.keys() == gradients.keys() == caller.forwards[0].keys() - {uids_of(choice)[0][0]}
    assert rows.grad is not None and rows.grad.isfinite().all()
