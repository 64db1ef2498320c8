"""Labelled data from the Hub, with the two tasks by which sahajBERT was measured as presets."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from downstream.data.examples import Row
from swarm.errors import DataError, in_a_line
from swarm.secret_variables import hub_token
from tokenizer.loading import is_hub_name


@dataclass(frozen=True)
class DatasetName:
    """A dataset repository, or a folder of the same layout, and which of its configurations."""

    repository: str
    config: str | None = None

    def __str__(self) -> str:
        return self.repository if self.config is None else f"{self.repository}:{self.config}"


PRESETS = {
    # Pan et al. 2017, in the split of Rahimi et al. 2019
    "wikiann-bn": DatasetName("unimelb-nlp/wikiann", "bn"),
    # Soham news articles; Kakwani et al. 2020
    "indicglue-sna.bn": DatasetName("ai4bharat/indic_glue", "sna.bn"),
}


def parse_name(name: str) -> DatasetName:
    """A preset, `owner/name`, `owner/name:configuration`, or a folder.

    Raises:
        DataError: it is none of these.
    """
    if name in PRESETS:
        return PRESETS[name]
    if Path(name).is_dir():
        return DatasetName(name)
    repository, _, config = name.partition(":")
    if not is_hub_name(repository):
        raise DataError(f"{name}: no such dataset; give {' or '.join(PRESETS)}, owner/name or owner/name:configuration")
    return DatasetName(repository, config or None)


def load_splits(name: DatasetName) -> dict[str, Any]:
    """The splits of a dataset by their names.

    Raises:
        DataError: there is none, or it cannot be had now.
    """
    import datasets

    try:
        loaded = datasets.load_dataset(name.repository, name.config, token=hub_token())
    except datasets.exceptions.DatasetNotFoundError:
        raise DataError(f"{name}: no such dataset on the Hub, or it needs `hf auth login`; check its name") from None
    except Exception as error:  # errors of httpx, fsspec, pyarrow and datasets share no base
        raise DataError(f"{name}: cannot be loaded ({in_a_line(error)}); check its name and your connection") from None
    return dict(loaded)


def rows_of_split(name: DatasetName, splits: dict[str, Any], split: str) -> Iterator[Row]:
    """The rows of a split, with the names of labels that are stored as numbers.

    Raises:
        DataError: the dataset has no such split.
    """
    if split not in splits:
        raise DataError(f"{name}: no split {split}, but {', '.join(splits)}; give files instead")
    dataset = splits[split]
    names = {column: found for column, feature in dataset.features.items() if (found := _label_names(feature))}
    for number, values in enumerate(dataset, start=1):
        named = {column: _named(values[column], found) for column, found in names.items()}
        yield Row({**values, **named}, f"{name} {split} row {number}")


def _label_names(feature: Any) -> list[str] | None:
    """The names behind a column of class numbers, or of lists of them."""
    return getattr(getattr(feature, "feature", feature), "names", None)


def _named(value: Any, names: list[str]) -> Any:
    if isinstance(value, list):
        return [_named(one, names) for one in value]
    # the Hub marks hidden labels of a test split with -1
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else value
