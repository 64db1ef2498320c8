"""Labelled examples, whatever file they came from."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Example:
    """The words of a sentence with a tag for each; for classification one text and its one label."""

    inputs: tuple[str, ...]
    labels: tuple[str, ...]
    place: str
    """Where it stands, for messages: a file and a line, or a dataset, a split and a row."""


@dataclass(frozen=True)
class Split:
    """The examples of one purpose: train, validation or test."""

    name: str
    source: str
    """A file, or a dataset and its split."""
    examples: tuple[Example, ...]
    left_out: tuple[str, ...] = field(default=())
    """For each sentence that could not be used, one line that says where it is and why."""


@dataclass(frozen=True)
class Corpus:
    """The data of a task. Without training there is only `test`."""

    test: Split
    train: Split | None = None
    validation: Split | None = None
    notes: tuple[str, ...] = ()
    """Lines for people about how it was read."""

    @property
    def splits(self) -> tuple[Split, ...]:
        """Those that are there, in their usual order."""
        return tuple(split for split in (self.train, self.validation, self.test) if split is not None)
