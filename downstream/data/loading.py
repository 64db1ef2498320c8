"""Loads the data of a task from files or from the Hub, and checks it before anything takes time."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from downstream.data.conll import read_conll
from downstream.data.examples import JSONL_SUFFIXES, TABLE_SUFFIXES, Example, Row, Split, TaskData, read_rows
from downstream.data.hub_dataset import load_splits, parse_name, rows_of_split
from downstream.tasks.tags import OUTSIDE
from downstream.tasks.task import Columns, Task
from swarm.errors import DataError

TRAIN, VALIDATION, TEST = "train", "validation", "test"


@dataclass(frozen=True)
class DataOptions:
    """Where labelled data is: three files, or a dataset with three splits."""

    train: Path | None = None
    validation: Path | None = None
    test: Path | None = None
    dataset: str | None = None
    columns: Columns = field(default_factory=Columns)


def load_data(task: Task, options: DataOptions, *, training: bool) -> TaskData:
    """Read and check the splits: all three or, without training, the test split alone.

    Raises:
        DataError: one of them is missing, unreadable, empty or not labelled as the task wants it.
    """
    names = (TRAIN, VALIDATION, TEST) if training else (TEST,)
    files = {TRAIN: options.train, VALIDATION: options.validation, TEST: options.test}
    if options.dataset is not None:
        if given := next((name for name, file in files.items() if file is not None), None):
            raise DataError(f"--dataset {options.dataset} and --{given} cannot be used together; give only one")
        found = _from_dataset(task, options.dataset, options.columns, names)
    else:
        found = [_from_file(task, files[name], name, options.columns) for name in names]
    for split in found:
        if not split.examples:
            raise DataError(f"{split.source}: the {split.name} split is empty; give one with examples")
    return task.normalized(TaskData(found[2], found[0], found[1]) if training else TaskData(found[0]))


def warnings_about_labels(known: Iterable[str], splits: Iterable[Split], learned_from: str) -> list[str]:
    """A line for each split that has labels which the model cannot predict; they count as missed.

    Raises:
        DataError: it can predict no label of a split; with the place of the first one.
    """
    allowed, warnings = set(known), []
    for split in splits:
        places: dict[str, str] = {}  # of the first of each unknown label
        count = 0
        for example in split.examples:
            for label in example.labels:
                if label not in allowed:
                    places.setdefault(label, example.place)
                    count += 1
        if not places:
            continue
        label, place = next(iter(places.items()))
        if not any(label in allowed and label != OUTSIDE for one in split.examples for label in one.labels):
            raise DataError(
                f"{place}: {label!r}, like every label of the {split.name} split, is unknown to {learned_from} "
                f"(known: {', '.join(sorted(allowed))}); correct the labels, or train with examples of them"
            )
        warnings.append(
            f"Labels unknown to {learned_from} count as missed: {', '.join(sorted(places))}; "
            f"{count:,} in {split.name}, the first at {place}"
        )
    return warnings


def seen_in_training(data: TaskData) -> int:
    """How many test examples are in the training split too, word for word."""
    known = set() if data.train is None else {example.inputs for example in data.train.examples}
    return sum(example.inputs in known for example in data.test.examples)


def _from_dataset(task: Task, dataset: str, columns: Columns, names: Iterable[str]) -> list[Split]:
    name = parse_name(dataset)
    splits = load_splits(name)
    return [_split(task, rows_of_split(name, splits, one), one, f"{name} {one}", columns) for one in names]


def _from_file(task: Task, path: Path | None, name: str, columns: Columns) -> Split:
    if path is None:
        raise DataError(f"the {name} split is missing; give --{name} FILE, or --dataset")
    kind = path.suffix.lower()
    # a table of tabs is what many CoNLL files are called
    if task.name == "ner" and kind not in (*JSONL_SUFFIXES, ".csv"):
        return read_conll(path, name)
    if kind not in JSONL_SUFFIXES + TABLE_SUFFIXES:
        raise DataError(f"{path}: unknown kind of file {kind!r}; give {', '.join(JSONL_SUFFIXES + TABLE_SUFFIXES)}")
    return _split(task, read_rows(path), name, str(path), columns)


def _split(task: Task, rows: Iterable[Row], name: str, source: str, columns: Columns) -> Split:
    return Split(name, source, tuple(_checked(task.example(row, columns)) for row in rows))


def _checked(example: Example) -> Example:
    """Refuse half of a surrogate pair, which a JSON escape can give and no tokenizer takes."""
    try:
        "".join(example.inputs + example.labels).encode()
    except UnicodeEncodeError:
        raise DataError(
            f"{example.place}: half of a surrogate pair, which is no character; correct the row or remove it"
        ) from None
    return example
