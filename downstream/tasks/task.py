"""The interface of a task: rows become examples, examples tokens, and predictions scores."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from downstream.data.examples import Example, Row, Split, TaskData
from swarm.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from transformers import PreTrainedTokenizerFast

Scores = dict[str, float]  # by name, each from 0 to 1


@dataclass(frozen=True)
class Columns:
    """The names of the two columns that matter; None finds a customary one."""

    inputs: str | None = None
    labels: str | None = None


@dataclass(frozen=True)
class Encoded:
    """The examples of a split as a model reads them, short ones first, so that batches need little padding."""

    examples: tuple[Example, ...]
    features: list[dict[str, Any]]
    """The model's inputs, one example after the other; where labels were given also those."""
    words: tuple[tuple[int | None, ...], ...]
    """For each feature and token the number of its word in the example, None for special tokens."""
    owners: tuple[int, ...]
    """For each feature the number of its example: one that is read in windows has several."""
    truncated: int
    """How many examples were cut to the length that the model reads."""

    @property
    def truth(self) -> list[tuple[str, ...]]:
        """The labels of each example."""
        return [example.labels for example in self.examples]


class Task(ABC):
    """Named entities or classification; both have examples, labels and a head of Transformers."""

    name: ClassVar[str]
    head: ClassVar[str]
    """How the names of the classes of Transformers end that have this head."""
    collator: ClassVar[str]
    """What Transformers calls the collator that makes a batch of features."""
    pipeline: ClassVar[str]
    """What Transformers calls a pipeline for this task."""
    scores: ClassVar[tuple[str, ...]]
    """Names of the scores; the first one chooses the best epoch and is the one to compare by."""
    input_columns: ClassVar[tuple[str, ...]]
    label_columns: ClassVar[tuple[str, ...]]

    @abstractmethod
    def example(self, row: Row, columns: Columns) -> Example:
        """The example in a row.

        Raises:
            DataError: a column is missing or its value makes no sense.
        """

    def normalized(self, data: TaskData) -> TaskData:
        """The same data with labels in the one way in which the task writes them.

        Raises:
            DataError: they contradict each other.
        """
        return data

    @abstractmethod
    def labels(self, train: Split) -> tuple[str, ...]:
        """The labels that a model learns from these examples, in the order of their numbers.

        Raises:
            DataError: there is nothing to tell apart.
        """

    def predictable(self, names: Iterable[str]) -> set[str]:
        """What `predictions` can hold of a model that has these names for its labels."""
        return set(names)

    @abstractmethod
    def pipeline_options(self, max_length: int) -> str:
        """Further arguments, as Python, of a pipeline with a model that reads so many tokens."""

    @abstractmethod
    def encode(
        self,
        examples: Sequence[Example],
        tokenizer: "PreTrainedTokenizerFast",
        max_length: int,
        numbers: Mapping[str, int] | None = None,
    ) -> Encoded:
        """Cut the examples into tokens, at most `max_length` a feature; `numbers` gives labels to train with, those
        that it lacks are left out of the loss."""

    @abstractmethod
    def predictions(self, encoded: Encoded, chosen: "NDArray[Any]", names: Mapping[int, str]) -> list[tuple[str, ...]]:
        """For each example the labels that a model chose.

        Args:
            chosen: label numbers, [features] or [features, tokens]; what is beyond a feature's tokens is ignored.
            names: the label of each number.
        """

    @abstractmethod
    def score(self, truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Scores:
        """How good predictions are, by the names in `scores`."""

    def value(self, row: Row, asked: str | None, customary: tuple[str, ...], option: str) -> Any:
        """The value of a column: the one asked for, or the first customary one that the row has.

        Raises:
            DataError: there is none.
        """
        found = next((name for name in ((asked,) if asked else customary) if name in row.values), None)
        if found is None:
            wanted = asked or " or ".join(customary)
            present = ", ".join(map(str, list(row.values)[:8])) or "none at all"
            raise DataError(f"{row.place}: no column {wanted}, but {present}; name it with {option}")
        return row.values[found]


def encode_inputs(
    examples: Sequence[Example],
    tokenizer: "PreTrainedTokenizerFast",
    max_length: int,
    *,
    split_into_words: bool,
    overlap: int = 0,
) -> Encoded:
    """The tokens of each example, without labels.

    Args:
        overlap: how many tokens two windows of a long example share, of which a word that the second begins within
            counts to the first alone; with 0 an example is cut to its first `max_length` tokens.
    """
    ordered = tuple(sorted(examples, key=lambda one: sum(map(len, one.inputs))))
    texts = [list(one.inputs) if split_into_words else one.inputs[0] for one in ordered]
    batch = tokenizer(
        texts,
        is_split_into_words=split_into_words,
        truncation=True,
        max_length=max_length,
        stride=overlap,
        return_overflowing_tokens=overlap > 0,
    )
    owners = tuple(batch.pop("overflow_to_sample_mapping", range(len(ordered))))
    features = [{name: batch[name][number] for name in batch} for number in range(len(owners))]
    words = [tuple(batch.word_ids(number)) for number in range(len(owners))]
    for number in range(1, len(owners)):
        if owners[number] == owners[number - 1]:
            words[number] = _without_first_word(words[number])
    truncated = 0 if overlap else sum(bool(one.overflowing) for one in batch.encodings)
    return Encoded(ordered, features, tuple(words), owners, truncated)


def _without_first_word(words: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """What a window tells of words when the window before it has the first token of its first one."""
    first = next((word for word in words if word is not None), None)
    return tuple(None if word == first else word for word in words)
