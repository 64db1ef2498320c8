"""A batch of masked samples, and the collator that makes it of instances."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from swarm.run_file import DataSection
from trainer.data.instances import SPECIAL_TOKENS, Instance
from trainer.data.masking import choose_masked, corrupt

# Few different shapes: each one has kernels of its own that torch prepares once and keeps (megabytes on a processor)
LENGTHS = 4  # padded lengths: quarters of the longest
POSITIONS = 64  # the number of masked positions is a multiple of it
NOT_COUNTED = -100  # label of padding among the masked positions; torch's losses ignore it


@dataclass(frozen=True)
class Batch:
    """B samples of at most L tokens, M of which are to be predicted."""

    input_ids: torch.Tensor  # [B, L] int64
    token_type_ids: torch.Tensor  # [B, L] int64: 0 in segment A, 1 in segment B
    attention_mask: torch.Tensor | None  # [B, L] int64: 1 on tokens; None if nothing is padded
    sentence_order_label: torch.Tensor  # [B] int64: 0 in order, 1 swapped
    masked_positions: (
        torch.Tensor
    )  # [M] int64: indices into the flattened B * L, computed on the CPU, where it blocks no GPU
    masked_labels: torch.Tensor  # [M] int64: the tokens that were there; NOT_COUNTED where padded

    @property
    def samples(self) -> int:
        """Number of samples."""
        return len(self.input_ids)

    @property
    def masked(self) -> int:
        """Number of tokens to predict."""
        return int((self.masked_labels != NOT_COUNTED).sum())

    @property
    def tokens(self) -> int:
        """Number of tokens, padding not counted."""
        mask = self.attention_mask
        return self.input_ids.numel() if mask is None else int(mask.sum())

    def to(self, device: torch.device) -> "Batch":
        """The batch on another device; the copy runs beside the computation where the device allows it."""
        if device.type == "cpu":
            return self

        def moved(tensor: torch.Tensor | None) -> Any:
            if tensor is None:
                return None
            return (tensor.pin_memory() if device.type == "cuda" else tensor).to(device, non_blocking=True)

        return Batch(**{field.name: moved(getattr(self, field.name)) for field in fields(self)})


class Collator:
    """Makes batches: pads, masks, and keeps the special tokens out of both."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, settings: DataSection):
        self._settings = settings
        self._pad, self._mask = int(tokenizer.pad_token_id), int(tokenizer.mask_token_id)
        self._cls, self._sep = int(tokenizer.cls_token_id), int(tokenizer.sep_token_id)
        # text can hold special tokens too: unknown characters, and "[SEP]" written out
        self._is_ordinary = np.ones(len(tokenizer), dtype=bool)
        self._is_ordinary[tokenizer.all_special_ids] = False
        self._ordinary = np.flatnonzero(self._is_ordinary)

    def __call__(self, instances: Sequence[Instance], rng: np.random.Generator) -> Batch:
        """Pad to the longest of the instances and mask (see `trainer.data.masking`)."""
        lengths = np.array([len(one.first) + len(one.second) + SPECIAL_TOKENS for one in instances])
        width = padded_length(int(lengths.max()), self._settings.max_length)
        ids = np.full((len(instances), width), self._pad, dtype=np.int64)
        types = np.zeros_like(ids)
        for row, one in enumerate(instances):
            boundary = len(one.first) + 1
            end = boundary + 1 + len(one.second)
            ids[row, 0], ids[row, boundary], ids[row, end] = self._cls, self._sep, self._sep
            ids[row, 1:boundary], ids[row, boundary + 1 : end] = one.first, one.second
            types[row, boundary + 1 : end + 1] = 1
        masked = choose_masked(self._is_ordinary[ids], self._settings.masked_fraction, self._settings.max_ngram, rng)
        positions = np.flatnonzero(masked)
        labels = ids.reshape(-1)[positions]
        ids.reshape(-1)[positions] = corrupt(labels, self._mask, self._ordinary, rng)
        filling = -len(positions) % POSITIONS
        padded = bool((lengths < width).any())
        return Batch(
            input_ids=torch.from_numpy(ids),
            token_type_ids=torch.from_numpy(types),
            attention_mask=(
                torch.from_numpy((np.arange(width) < lengths[:, None]).astype(np.int64)) if padded else None
            ),
            sentence_order_label=torch.tensor([int(one.swapped) for one in instances]),
            masked_positions=torch.from_numpy(np.pad(positions, (0, filling))),
            masked_labels=torch.from_numpy(np.pad(labels, (0, filling), constant_values=NOT_COUNTED)),
        )

    def longest(self, samples: int) -> Batch:
        """A batch as large as one of so many samples can be: drawn tokens, as many as a sample may have."""
        rng = np.random.default_rng(0)
        tokens = rng.choice(self._ordinary, (samples, self._settings.max_length - SPECIAL_TOKENS))
        cut = tokens.shape[1] // 2
        return self([Instance(row[:cut], row[cut:], swapped=False) for row in tokens], rng)


def padded_length(length: int, longest: int) -> int:
    """The length to pad to: the next quarter of the longest that a sample may have."""
    quarter = -(-longest // LENGTHS)
    return max(length, min(longest, -(-length // quarter) * quarter))
