"""The sentences that the demo's model fills, and how they are shown."""

import json
from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics

import pytest
from rich.console import Console

from app.demo.probes import SENTENCES, choose_probes, render, sample_sentences
from coordinator.ledger.answers import FilledSentence
from corpus.held_out import HELD_OUT
from swarm.run_file import MASK, RunFile, parse_run
from tokenizer.loading import save_tokenizer
from tokenizer.training import train_tokenizer

FITTING = "Nobody calls the function without the argument that it needs."


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFile:
    """With a tokenizer of which `function` and `argument` are tokens, but not `without`."""
    folder = tmp_path_factory.mktemp("run")
    content = {"tokenizer": {"vocab_size": 1000}, "data": {"train": [{"path": "a"}], "max_length": 32}}
    run = parse_run({"name": "demo", **content}, folder / "run.yaml")
    save_tokenizer(train_tokenizer(run, list(topics.values())), folder / "tokenizer")
    return run


@pytest.fixture
def probes_of(run: RunFile, tmp_path: Path) -> Callable[..., dict[str, str]]:
    def choose(*texts: str) -> dict[str, str]:
        (tmp_path / HELD_OUT).write_text("".join(json.dumps({"text": one}) + "\n" for one in texts))
        return choose_probes(run, tmp_path)

    return choose


def test_the_longest_frequent_word_that_is_one_token_is_masked(probes_of: Callable[..., dict[str, str]]) -> None:
    rare = "Whatever is documented here comes only a single time, in one module."
    assert probes_of(*[FITTING] * 5, rare) == {
        f"Nobody calls the {MASK} without the argument that it needs.": "function"
    }


def test_the_answer_is_written_as_the_tokenizer_writes_guesses(probes_of: Callable[..., dict[str, str]]) -> None:
    other = FITTING.replace("function", "Ｆunction")  # with a letter that NFKC makes another one
    assert probes_of(*[other] * 5) == {f"Nobody calls the {MASK} without the argument that it needs.": "Function"}


def test_no_more_sentences_are_chosen_than_are_shown(probes_of: Callable[..., dict[str, str]]) -> None:
    assert len(probes_of(*(f"In the case {number}, {FITTING}" for number in range(20)))) == SENTENCES


@pytest.mark.parametrize(
    "sentence",
    [FITTING.replace(" ", "-"), FITTING.replace("calls", "ca\x00ls"), f"{FITTING[:-1]} {MASK}", FITTING + "z" * 40],
    ids=["no words", "a control character", "a mask", "too many tokens"],
)
def test_what_the_coordinator_would_refuse_is_left_out(probes_of: Callable[..., dict[str, str]], sentence: str) -> None:
    assert probes_of(*[sentence] * 5) == {}


def test_a_single_document_gives_several_sentences() -> None:
    sentences = [f"Sentence {number} tells of the wide river and of all the boats on it." for number in range(20)]
    assert sample_sentences(["\n".join(sentences)], "en", 4) == [sentences[number] for number in (2, 7, 12, 17)]
    assert sample_sentences(["\n".join(sentences)], "en", 100) == sentences


def test_a_mask_is_shown_as_it_stands_and_not_as_markup() -> None:
    console = Console(width=100)
    filled = FilledSentence.of("To the [MASK].", [("[/b]", 0.25), ("sea", 0.1)])
    other = FilledSentence.of("Of the [MASK].", [("run", 0.5)])
    with console.capture() as captured:
        console.print(render([filled, other], {"To the [MASK].": "[b]sea"}))
    text = captured.get()
    for part in ("To the [MASK].", "[b]sea", "[/b] 25%", "sea 10%"):
        assert part in text
    assert "run 50%" not in text, "the run file's own have no answer"
