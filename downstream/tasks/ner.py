"""Named entities: a tag for each word, in BIO, scored by entity."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from downstream.data.examples import Example, Row, Split, TaskData
from downstream.tasks.alignment import NO_LABEL, Window, align_labels, labels_of_words
from downstream.tasks.tags import BIO, OUTSIDE, all_tags, as_bio, check_tag, scheme_of
from downstream.tasks.task import Columns, Encoded, Scores, Task, encode_inputs
from swarm.errors import DataError
from tokenizer.normalization import SPACE

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from transformers import PreTrainedTokenizerFast

OVERLAP = 4  # two windows of a long sentence share a fourth of their tokens, so that most words have both neighbours


class NamedEntities(Task):
    """Which words name a person, a place or whatever else the data tells apart."""

    name = "ner"
    head = "ForTokenClassification"
    collator = "DataCollatorForTokenClassification"
    pipeline = "token-classification"
    scores = ("f1", "accuracy", "precision", "recall")
    input_columns = ("tokens", "words")
    label_columns = ("tags", "ner_tags")

    def example(self, row: Row, columns: Columns) -> Example:
        """The sentence in a row whose columns hold lists or, as in CSV, text with spaces between its words."""
        words = _listed(self.value(row, columns.inputs, self.input_columns, "--input-column"), row.place, "tokens")
        tags = _listed(self.value(row, columns.labels, self.label_columns, "--label-column"), row.place, "tags")
        if len(words) != len(tags):
            raise DataError(f"{row.place}: {len(words)} tokens but {len(tags)} tags; every token needs one tag")
        if not words:
            raise DataError(f"{row.place}: a sentence without tokens; remove the row")
        for tag in tags:
            check_tag(tag, row.place)
        return Example(words, tags, row.place)

    def normalized(self, data: TaskData) -> TaskData:
        """BIOES and BILOU as BIO."""
        scheme = scheme_of(itertools.chain.from_iterable(split.examples for split in data.splits))
        if scheme == BIO:
            return data
        splits = {split.name: _split_in_bio(split) for split in data.splits}
        return replace(data, **splits, notes=(*data.notes, f"The tags are {scheme}; they are read as {BIO}."))

    def labels(self, train: Split) -> tuple[str, ...]:
        """`O`, and B and I of each type of entity."""
        found = all_tags(tag for example in train.examples for tag in example.labels)
        if len(found) == 1:
            raise DataError(f"{train.source}: every tag is {OUTSIDE}; training needs sentences with entities")
        return found

    def predictable(self, names: Iterable[str]) -> set[str]:
        """The tags in BIO."""
        return {as_bio((name,))[0] for name in names}

    def pipeline_options(self, max_length: int) -> str:
        """A pipeline reads windows too, and tags words by their first token."""
        return f"aggregation_strategy='first', stride={max_length // OVERLAP}"

    def encode(
        self,
        examples: Sequence[Example],
        tokenizer: "PreTrainedTokenizerFast",
        max_length: int,
        numbers: Mapping[str, int] | None = None,
    ) -> Encoded:
        """The tokens of the words, a long sentence in windows; the first token of each word carries its tag."""
        overlap = max_length // OVERLAP
        encoded = encode_inputs(examples, tokenizer, max_length, split_into_words=True, overlap=overlap)
        if numbers is not None:
            space = tokenizer.get_vocab().get(SPACE)
            for owner, feature, words in zip(encoded.owners, encoded.features, encoded.words, strict=True):
                spaces = {position for position, token in enumerate(feature["input_ids"]) if token == space}
                labels = [numbers.get(tag, NO_LABEL) for tag in encoded.examples[owner].labels]
                feature["labels"] = align_labels(labels, words, spaces)
        return encoded

    def predictions(self, encoded: Encoded, chosen: "NDArray[Any]", names: Mapping[int, str]) -> list[tuple[str, ...]]:
        """A tag in BIO for each word; words of which no token is left are outside of names."""
        windows: list[list[Window]] = [[] for _ in encoded.examples]
        for owner, words, row in zip(encoded.owners, encoded.words, chosen, strict=True):
            windows[owner].append(([names.get(int(number), OUTSIDE) for number in row[: len(words)]], words))
        return [
            as_bio(labels_of_words(read, len(example.inputs), absent=OUTSIDE))
            for example, read in zip(encoded.examples, windows, strict=True)
        ]

    def score(self, truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Scores:
        """F1, precision and recall of whole entities as `conlleval` counts them, and accuracy of tags."""
        from seqeval.metrics import accuracy_score
        from seqeval.metrics.sequence_labeling import precision_recall_fscore_support

        true, given = [list(tags) for tags in truth], [list(tags) for tags in predicted]
        precision, recall, f1, _ = precision_recall_fscore_support(true, given, average="micro", zero_division=0)
        return {
            "f1": float(f1),
            "accuracy": float(accuracy_score(true, given)),
            "precision": float(precision),
            "recall": float(recall),
        }


def _split_in_bio(split: Split) -> Split:
    return replace(split, examples=tuple(replace(one, labels=as_bio(one.labels)) for one in split.examples))


def _listed(value: Any, place: str, what: str) -> tuple[str, ...]:
    parts = value.split() if isinstance(value, str) else value
    if not isinstance(parts, list) or not all(isinstance(part, str) and part.strip() for part in parts):
        raise DataError(f"{place}: {what} must be a list of texts none of which is empty, got {str(value)[:60]!r}")
    return tuple(parts)
