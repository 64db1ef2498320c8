"""Datasets of the Hub, and what happens when they fail, or are not what the run file says."""

import itertools
import json
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow
import pytest
from pyarrow import parquet

from corpus.documents import DocumentStream, open_documents
from corpus.hub_dataset import TRIES, HubDataset
from corpus.source import Failed, Unusable
from swarm.errors import DataError
from swarm.run_file import DataSource, parse_run

datasets = pytest.importorskip("datasets")


@pytest.fixture
def hub_dataset(tmp_path: Path) -> str:
    """A folder that `load_dataset` loads like a dataset of the Hub: 2,000 rows in 20 row groups."""
    folder = tmp_path / "dataset"
    folder.mkdir()
    texts = [f"d{number}" for number in range(2_000)]
    parquet.write_table(
        pyarrow.table({"text": texts, "id": range(2_000)}), folder / "train.parquet", row_group_size=100
    )
    return str(folder)


def loads(monkeypatch: pytest.MonkeyPatch, rows: Callable[[list[int]], Iterator[dict[str, str]]], shards: int) -> None:
    """Every dataset of the Hub has these rows, in so many files."""
    made = partial(datasets.IterableDataset.from_generator, rows, gen_kwargs={"shards": list(range(shards))})
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: made())


def opened(hub: str, *, repeat: bool = False, shuffle: bool = True, seed: int = 0, **source: Any) -> DocumentStream:
    run = parse_run({"name": "test", "data": {"train": [{"path": "unused"}]}}, Path("run.yaml"))
    return open_documents(run, [DataSource(hub=hub, **source)], seed=seed, repeat=repeat, shuffle=shuffle)


def test_a_hub_dataset_streams_all_its_documents_in_their_order(hub_dataset: str) -> None:
    assert list(opened(hub_dataset, shuffle=False)) == [f"d{number}" for number in range(2_000)]


def test_peers_begin_at_different_row_groups_of_a_hub_dataset(hub_dataset: str) -> None:
    orders = [list(opened(hub_dataset, seed=seed)) for seed in (1, 2)]
    assert sorted(orders[0]) == sorted(orders[1]) and len(orders[0]) == 2_000
    begins = [{text[:-2] for text in order[:100]} for order in orders]
    assert begins[0] != begins[1]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"text_column": "body"}, "no column 'body' but text, id; set text_column"),
        ({"split": "test"}, "split"),
        ({"config": "bn"}, "bn"),
    ],
)
def test_a_wrong_hub_source_ends_in_one_clear_line(hub_dataset: str, source: dict[str, Any], says: str) -> None:
    with pytest.raises(DataError, match=says) as caught:
        next(iter(opened(hub_dataset, **source)))
    assert str(caught.value).startswith(hub_dataset) and "\n" not in str(caught.value)


def test_a_hub_dataset_that_is_not_there_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = datasets.exceptions.DatasetNotFoundError("Dataset 'a/b' doesn't exist on the Hub")
    monkeypatch.setattr(datasets, "load_dataset", Mock(side_effect=missing))
    with pytest.raises(DataError, match="a/b: no such dataset on the Hub"):
        next(iter(opened("a/b")))


@pytest.mark.parametrize("order", [None, 7])
def test_a_hub_dataset_goes_on_at_the_row_where_it_failed(monkeypatch: pytest.MonkeyPatch, order: int | None) -> None:
    failures = iter([True, True, False])

    def rows(shards: list[int]) -> Iterator[dict[str, str]]:
        for shard in shards:
            for row in range(10):
                if shard == 3 and row == 5 and next(failures, False):
                    raise ConnectionError("reset by peer")
                yield {"text": f"{shard}-{row}"}

    loads(monkeypatch, rows, shards=6)
    source = HubDataset(DataSource(hub="a/b"))
    items = list(source.one_pass(None if order is None else random.Random(order)))
    assert [item for item in items if isinstance(item, Failed)] == [Failed("reset by peer")] * 2
    texts = [item for item in items if isinstance(item, str)]
    assert sorted(texts) == [f"{shard}-{row}" for shard in range(6) for row in range(10)]
    assert (texts == sorted(texts)) == (order is None)


def test_a_hub_dataset_with_a_damaged_file_is_read_up_to_that_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(shards: list[int]) -> Iterator[dict[str, str]]:
        for shard in shards:
            if shard == 3:
                raise pyarrow.ArrowInvalid("Couldn't deserialize thrift")
            yield {"text": f"{shard}"}

    loads(monkeypatch, rows, shards=6)
    source = HubDataset(DataSource(hub="a/b"))
    passes = [list(itertools.islice(source.one_pass(random.Random(seed)), 99)) for seed in range(25)]
    assert {item for items in passes for item in items if isinstance(item, str)} == set("01245")
    assert any(isinstance(items[0], Failed) for items in passes), "it comes first in one of them"
    for items in passes:
        *_, last = items
        assert items[-TRIES:-1] == [Failed("Couldn't deserialize thrift")] * (TRIES - 1)
        assert isinstance(last, Unusable) and "damaged" in last.reason
    held_out = HubDataset(DataSource(hub="a/b")).one_pass(None)  # its end must not depend on a damaged file
    assert list(itertools.islice(held_out, 12)) == [*"012"] + [Failed("Couldn't deserialize thrift")] * 9


@pytest.mark.parametrize("intact", [True, False])
def test_a_program_that_trains_goes_on_where_a_damaged_file_comes_first(
    monkeypatch: pytest.MonkeyPatch, intact: bool
) -> None:
    def rows(shards: list[int]) -> Iterator[dict[str, str]]:
        for shard in shards:
            if shard or not intact:
                raise pyarrow.ArrowInvalid("Couldn't deserialize thrift")
            yield {"text": "good"}

    loads(monkeypatch, rows, shards=2)
    run = parse_run({"name": "test", "data": {"train": [{"path": "unused"}]}}, Path("run.yaml"))
    clock = itertools.count(0.0, 60.0)
    for seed in range(6 if intact else 1):
        documents = open_documents(
            run,
            [DataSource(hub="a/b")],
            seed=seed,
            repeat=True,
            now=lambda: next(clock),
            sleep=lambda _: time.sleep(0.01),
        )
        if intact:
            assert next(iter(documents)) == "good"
        else:
            with pytest.raises(DataError, match="a/b: not one usable document"):
                next(iter(documents))


def test_a_hub_that_cannot_be_reached_is_tried_again(monkeypatch: pytest.MonkeyPatch, hub_dataset: str) -> None:
    load, failures = datasets.load_dataset, iter([True, True])

    def sometimes(*args: Any, **options: Any) -> Any:
        if next(failures, False):
            raise ConnectionError("no route to host")
        return load(*args, **options)

    monkeypatch.setattr(datasets, "load_dataset", sometimes)
    items = HubDataset(DataSource(hub=hub_dataset)).one_pass(None)
    assert list(itertools.islice(items, 3)) == [Failed("no route to host")] * 2 + ["d0"]


def test_an_answer_that_is_no_json_ends_only_a_source_that_was_never_read(
    monkeypatch: pytest.MonkeyPatch, hub_dataset: str
) -> None:
    load, failures = datasets.load_dataset, iter([False, True, True])

    def sometimes(*args: Any, **options: Any) -> Any:
        if next(failures):
            raise json.JSONDecodeError("Expecting value", "<html>", 0)
        return load(*args, **options)

    monkeypatch.setattr(datasets, "load_dataset", sometimes)
    source = HubDataset(DataSource(hub=hub_dataset))
    assert next(source.one_pass(None)) == "d0"
    assert isinstance(next(source.one_pass(None)), Failed)
    with pytest.raises(DataError, match="Expecting value"):
        next(HubDataset(DataSource(hub=hub_dataset)).one_pass(None))
