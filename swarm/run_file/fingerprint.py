"""What peers of a run must agree on, as one short string, and where two of them differ.

It covers what changes the meaning of a gradient or the bytes on the wire: the model, the tokenizer, how text becomes
samples, the optimizer and which version of it computes the step, how averaging adds up, overlaps, compresses and scales
down, and what experts are. It leaves out what each peer may choose for itself: where its text comes from and how much
of its line it gives.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

from pydantic import BaseModel

from swarm.run_file import RunFile

SAMPLE_FIELDS = frozenset({"max_length", "masked_fraction", "max_ngram", "short_sample_probability"})
EXPERTS_FIELDS = frozenset({"grid", "width", "hidden", "experts_of_a_row", "off_share", "balancing", "learning_rate"})
OPTIMIZER_VERSION = 3  # raised when `averaging/optimizers` computes other numbers from the same settings
DIGEST_LENGTH = 16  # hexadecimal digits: 64 bits, plenty to tell mistakes apart


@dataclass(frozen=True)
class Fingerprint:
    """Keys of the run file with their values as canonical JSON, in the order of the keys."""

    values: tuple[tuple[str, str], ...]

    @cached_property
    def digest(self) -> str:
        """A short string that is equal exactly where all values are."""
        return hashlib.sha256(json.dumps(self.values).encode()).hexdigest()[:DIGEST_LENGTH]


def fingerprint(run: RunFile, tokenizer_digest: str, optimizer_version: int = OPTIMIZER_VERSION) -> Fingerprint:
    """The fingerprint of a run that is trained with the tokenizer of that digest.

    A value that is written out in the run file and one that is left to its default count the same.
    """
    values: dict[str, object] = {"tokenizer": tokenizer_digest, "optimizer.version": optimizer_version}
    values |= _section("model", run.model)
    if run.model.start_from is not None:  # a folder may move; what was in it is the first snapshot, which has a digest
        values["model.start_from"] = PurePath(run.model.start_from).name or "folder"
    values |= _section("data", run.data, SAMPLE_FIELDS)
    values |= _section("optimizer", run.optimizer)
    values |= _section("averaging", run.averaging)
    if run.experts is not None:
        values |= _section("experts", run.experts, EXPERTS_FIELDS)
    if run.access.robust == "enforce":  # the other two change no number
        values["access.robust"] = run.access.robust
    return Fingerprint(tuple(sorted((key, json.dumps(value)) for key, value in values.items())))


def differences(ours: Fingerprint, theirs: Fingerprint) -> list[str]:
    """One line for each key on which two peers differ, with both values."""
    here, there = dict(ours.values), dict(theirs.values)
    return [
        f"{key}: {_shown(here, key)} here, {_shown(there, key)} there"
        for key in sorted(here.keys() | there.keys())
        if here.get(key) != there.get(key)
    ]


def _section(name: str, section: BaseModel, fields: frozenset[str] | None = None) -> dict[str, object]:
    content = section.model_dump(mode="json", include=set(fields) if fields else None)
    return {f"{name}.{key}": value for key, value in content.items()}


def _shown(values: Mapping[str, str], key: str) -> str:
    """A value without JSON's quotes; peers with another version of this program may lack the key."""
    value = values.get(key, "null")
    return "absent" if value == "null" else value.strip('"')
