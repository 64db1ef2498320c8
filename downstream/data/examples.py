"""Labelled examples: the one form of all files and datasets."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Example:
    """The words of a sentence with a tag for each; for classification one text and its one label."""

    inputs: tuple[str, ...]
    labels: tuple[str, ...]
    place: str
    """For messages: a file and a line, or a dataset, a split and a row."""


@dataclass(frozen=True)
class Split:
    """The examples of one purpose: train, validation or test."""

    name: str
    source: str
    """A file, or a dataset and its split."""
    examples: tuple[Example, ...]
    left_out: tuple[str, ...] = field(default=())
    """One line for each sentence that could not be used: where it is, and why."""


@dataclass(frozen=True)
class TaskData:
    """The data of a task; for evaluation alone only `test`."""

    test: Split
    train: Split | None = None
    validation: Split | None = None
    notes: tuple[str, ...] = ()
    """Lines for people: how it was read."""

    @property
    def splits(self) -> tuple[Split, ...]:
        """Those that are there, in their usual order."""
        return tuple(split for split in (self.train, self.validation, self.test) if split is not None)
