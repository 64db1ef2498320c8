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
        self.schedule_factor = 1.0  # what their learning rate is multiplied by
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
        (inputs,), refused = self._decoded(calls)
        counts = [call.rows for call, reason in zip(calls, refused, strict=True) if not reason]
        answers = iter(self._answers(expert.forward(inputs), counts, expert.version) if counts else ())
        return [Outcome(refused=reason) if reason else next(answers) for reason in refused]

    def _backward(self, expert: TrainedExpert, calls: Sequence[Call]) -> list[Outcome]:
        outcomes = [Outcome()] * len(calls)
        of_caller: dict[str, list[int]] = {}
        for at, call in enumerate(calls):
            of_caller.setdefault(call.caller, []).append(at)
        places, sent = [], []  # of the calls that can be read, by caller
        for positions in of_caller.values():
            (inputs, gradients), refused = self._decoded([calls[at] for at in positions])
            for at, reason in zip(positions, refused, strict=True):
                outcomes[at] = Outcome(refused=reason)
            readable = [at for at in positions if not outcomes[at].refused]
            is_fresh: list[bool] = []
            for at in readable:
                is_fresh += [expert.is_fresh(calls[at].version)] * calls[at].rows
            if readable:
                places.append(readable)
                sent.append(Gradients(inputs, gradients, is_fresh))
        version = expert.version
        for readable, answer in zip(places, expert.backward(sent, self.schedule_factor), strict=True):
            if isinstance(answer, ValueError):
                answers = [Outcome(refused=str(answer))] * len(readable)
            else:
                answers = self._answers(answer, [calls[at].rows for at in readable], version)
            for at, outcome in zip(readable, answers, strict=True):
                outcomes[at] = outcome
                self.served[calls[at].caller] += 0 if outcome.refused else calls[at].rows
        return outcomes

    def _decoded(self, calls: Sequence[Call]) -> tuple[list[Tensor], list[str]]:
        """Read calls of one direction.

        Returns:
            Inputs, and gradients on the way back, of all calls that can be read, one after the other; and for each call
            why it cannot, or nothing.
        """
        width, per_call = self._settings.width, 2 if calls[0].direction is Direction.BACKWARD else 1
        tensors = [torch.empty(sum(call.rows for call in calls), width) for _ in range(per_call)]
        refused, begin = [], 0
        for call in calls:
            length, end = encoded_bytes(call.rows, width), begin + call.rows
            try:
                if len(call.data) != per_call * length:
                    raise ValueError(f"{len(call.data)} bytes are not {call.rows} rows")
                for at, tensor in enumerate(tensors):
                    decode(call.data[at * length : (at + 1) * length], call.rows, width, into=tensor[begin:end])
            except ValueError as error:
                refused.append(str(error))
                continue
            refused.append("")
            begin = end
        return [tensor[:begin] for tensor in tensors], refused

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
