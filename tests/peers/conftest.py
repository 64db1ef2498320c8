"""A small run: text that Python carries, a tokenizer, and a swarm whose processes end with the test."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import pytest

from swarm.files import write_file
from swarm.run_file import dump_run, parse_run
from tests.support.small_swarm import SmallSwarm, run_content
from tokenizer.command import train_from_run

HELD_OUT = 6  # documents
DOCUMENTS = 46  # enough text for a tokenizer of 800 pieces


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.jsonl and validation.jsonl."""
    folder = tmp_path_factory.mktemp("corpus")
    lines = [json.dumps({"text": topics[name]}) + "\n" for name in sorted(topics)[:DOCUMENTS]]
    write_file(folder / "validation.jsonl", "".join(lines[:HELD_OUT]))
    write_file(folder / "train.jsonl", "".join(lines[HELD_OUT:]))
    return folder


@pytest.fixture(scope="session")
def tokenizer_folder(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tokenizer of all small runs."""
    folder = tmp_path_factory.mktemp("tokenizer")
    run = parse_run(run_content(corpus, target_batch_size=64, total_steps=10), folder / "run.yaml")
    write_file(folder / "run.yaml", dump_run(run))
    train_from_run(folder / "run.yaml")
    return folder / "tokenizer"


@pytest.fixture
def small_swarm(corpus: Path, tokenizer_folder: Path, tmp_path: Path) -> Iterator[Callable[..., SmallSwarm]]:
    """`small_swarm(total_steps=3)`: a run whose coordinator is up; all its processes are killed in the end.

    Its peers are honest: nobody may be flagged.
    """
    made: list[SmallSwarm] = []

    def make(**settings: Any) -> SmallSwarm:
        made.append(SmallSwarm(tmp_path, corpus, tokenizer_folder, **settings))
        made[-1].coordinator()
        return made[-1]

    with contextlib.ExitStack() as ending:
        yield make
        for one in made:
            ending.callback(one.kill_all)
        assert not [flag for one in made for flag in one.ledger.rounds.flags()], "honest peers were flagged"
