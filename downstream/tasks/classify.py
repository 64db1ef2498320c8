"""Classification: one label for each text."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from downstream.data.examples import Example, Row, Split
from downstream.tasks.alignment import NO_LABEL
from downstream.tasks.task import Columns, Encoded, Scores, Task, encode_inputs
from swarm.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from transformers import PreTrainedTokenizerFast


class Classification(Task):
    """Which of several kinds a text is."""

    name = "classify"
    head = "ForSequenceClassification"
    collator = "DataCollatorWithPadding"
    pipeline = "text-classification"
    scores = ("macro_f1", "accuracy")  # the first chooses epochs: accuracy is high where rare labels are never given
    input_columns = ("text",)
    label_columns = ("label",)

    def example(self, row: Row, columns: Columns) -> Example:
        """The text in a row and its label, a text or a whole number."""
        text = self.value(row, columns.inputs, self.input_columns, "--input-column")
        label = self.value(row, columns.labels, self.label_columns, "--label-column")
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"{row.place}: the text must not be empty, got {str(text)[:60]!r}; remove the row")
        if isinstance(label, bool) or not isinstance(label, str | int) or not str(label).strip():
            raise DataError(f"{row.place}: the label must be a text or a whole number, got {str(label)[:60]!r}")
        return Example((text,), (str(label).strip(),), row.place)

    def labels(self, train: Split) -> tuple[str, ...]:
        """All labels, in the order of the alphabet."""
        found = tuple(sorted({example.labels[0] for example in train.examples}))
        if len(found) == 1:
            raise DataError(f"{train.source}: every label is {found[0]!r}; training needs at least two labels")
        return found

    def pipeline_options(self, max_length: int) -> str:
        """By itself a pipeline dies on texts that are longer than the model reads."""
        return "truncation=True"

    def encode(
        self,
        examples: Sequence[Example],
        tokenizer: "PreTrainedTokenizerFast",
        max_length: int,
        numbers: Mapping[str, int] | None = None,
    ) -> Encoded:
        """The tokens of the texts, and the number of each label."""
        encoded = encode_inputs(examples, tokenizer, max_length, split_into_words=False)
        if numbers is not None:
            for example, feature in zip(encoded.examples, encoded.features, strict=True):
                feature["labels"] = numbers.get(example.labels[0], NO_LABEL)
        return encoded

    def predictions(self, encoded: Encoded, chosen: "NDArray[Any]", names: Mapping[int, str]) -> list[tuple[str, ...]]:
        """One label for each text."""
        return [(names[int(number)],) for number in chosen]

    def score(self, truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Scores:
        """The fraction of texts that are right, and the mean F1 of all labels, rare ones counting as much."""
        from sklearn.metrics import accuracy_score, f1_score

        true, given = [labels[0] for labels in truth], [labels[0] for labels in predicted]
        return {
            "accuracy": float(accuracy_score(true, given)),
            "macro_f1": float(f1_score(true, given, average="macro", zero_division=0)),
        }
