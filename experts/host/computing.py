"""Computes a batch of calls: those to the same expert together, in both directions. For one thread alone."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from experts.codec import decode, encode_each, encoded_bytes, is_finite
from experts.grid import Uid
from experts.host.call_queue import Call, Direction
from experts.host.settings import ExpertSettings
from experts.host.trained_expert import Gradients, TrainedExpert


@dataclass(frozen=True)
class Outcome:
    """The answer to a call."""

    data: bytes = b""  # encoded outputs, or gradients of the inputs
    version: int = 0  # of the expert that answered
    refused: str = ""  # why there is no answer; empty if there is


class Computing:
    """The experts of a host."""

    def __init__(self, settings: ExpertSettings):
        self._settings = settings
        self.experts: dict[Uid, TrainedExpert] = {}
        self.schedule_factor = 1.0  # of their learning rate
        self.rows = 0  # that were answered, in both directions
        self.served: Counter[str] = Counter()  # rows that were answered on the way back, by caller

    def compute(self, calls: Sequence[Call]) -> list[Outcome]:
        """Answer calls, in their order. A call that cannot be answered changes nothing and harms no other."""
        outcomes: dict[int, Outcome] = {}
        groups: dict[tuple[Uid, Direction], list[int]] = {}
        for at, call in enumerate(calls):
            groups.setdefault((call.uid, call.direction), []).append(at)
        for (uid, direction), places in groups.items():
            expert = self.experts.get(uid)
            together = [calls[at] for at in places]
            if expert is None:
                answers = [Outcome(refused="not here")] * len(places)
            elif direction is Direction.FORWARD:
                answers = self._forward(expert, together)
            else:
                answers = self._backward(expert, together)
            outcomes |= zip(places, answers, strict=True)
        return [outcomes[at] for at in range(len(calls))]

    def _forward(self, expert: TrainedExpert, calls: Sequence[Call]) -> list[Outcome]:
        decoded = [self._decoded(call) for call in calls]
        good = [tensors[0] for tensors in decoded if not isinstance(tensors, Outcome)]
        if not good:
            return [one for one in decoded if isinstance(one, Outcome)]
        answers = iter(self._answers(expert.forward(_cat(good)), [len(one) for one in good], expert.version))
        return [one if isinstance(one, Outcome) else next(answers) for one in decoded]

    def _backward(self, expert: TrainedExpert, calls: Sequence[Call]) -> list[Outcome]:
        decoded = [self._decoded(call) for call in calls]
        of_caller: dict[str, list[int]] = {}
        for at, call in enumerate(calls):
            if not isinstance(decoded[at], Outcome):
                of_caller.setdefault(call.caller, []).append(at)
        together = [self._together(expert, places, calls, decoded) for places in of_caller.values()]
        version = expert.version
        answers = expert.backward(together, self.schedule_factor)
        outcomes = [one if isinstance(one, Outcome) else Outcome() for one in decoded]
        for (caller, places), answer in zip(of_caller.items(), answers, strict=True):
            if isinstance(answer, ValueError):
                for at in places:
                    outcomes[at] = Outcome(refused=str(answer))
                continue
            counts = [calls[at].rows for at in places]
            for at, outcome in zip(places, self._answers(answer, counts, version), strict=True):
                outcomes[at] = outcome
                self.served[caller] += 0 if outcomes[at].refused else calls[at].rows
        return outcomes

    def _together(
        self,
        expert: TrainedExpert,
        places: Sequence[int],
        calls: Sequence[Call],
        decoded: Sequence[tuple[Tensor, ...] | Outcome],
    ) -> Gradients:
        pairs = [pair for at in places if not isinstance(pair := decoded[at], Outcome)]
        is_fresh = [fresh for at in places for fresh in [expert.is_fresh(calls[at].version)] * calls[at].rows]
        return Gradients(_cat([one[0] for one in pairs]), _cat([one[1] for one in pairs]), is_fresh)

    def _decoded(self, call: Call) -> tuple[Tensor, ...] | Outcome:
        """Inputs, and gradients on the way back; or why there are none."""
        length = encoded_bytes(call.rows, self._settings.width)
        count = 2 if call.direction is Direction.BACKWARD else 1
        try:
            if len(call.data) != count * length:
                raise ValueError(f"{len(call.data)} bytes are not {call.rows} rows")
            parts = [call.data[at * length : (at + 1) * length] for at in range(count)]
            return tuple(decode(part, call.rows, self._settings.width) for part in parts)
        except ValueError as error:
            return Outcome(refused=str(error))

    def _answers(self, rows: Tensor, counts: Sequence[int], version: int) -> list[Outcome]:
        """To calls of so many rows each."""
        outcomes = []
        for count, encoded in zip(counts, encode_each(rows, counts), strict=True):
            if is_finite(encoded, count):
                self.rows += count
                outcomes.append(Outcome(encoded, version))
            else:
                outcomes.append(Outcome(refused="the expert's answer is not finite"))
        return outcomes


def _cat(tensors: Sequence[Tensor]) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))
