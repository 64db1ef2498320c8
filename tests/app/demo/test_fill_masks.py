import io
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from app.demo.fill_masks import FilledMask, Prediction, choose_word, fill_masks, frequent_tokens, render
from coordinator.checkpoints.checkpoint import CheckpointError
from tests.support.waiting import PATIENCE

SENTENCE = "The boats of 12 peers go down-river."
# [CLS] ▁The ▁boat s ▁of ▁ 12 ▁peers ▁go ▁down - ri ver . [SEP]
WORDS = [None, 0, 1, 1, 2, 3, 3, 4, 5, 6, 7, 8, 8, 9, None]
SPANS = [
    (0, 0), (0, 3), (3, 8), (8, 9), (9, 12), (12, 13), (13, 15), (15, 21),
    (21, 24), (24, 29), (29, 30), (30, 32), (32, 35), (35, 36), (0, 0),
]  # fmt: skip


def chosen(sentence: str, words: list[int | None], spans: list[tuple[int, int]]) -> int | None:
    """Where all tokens fit."""
    return choose_word(sentence, words, spans, [True] * len(words))


def test_the_longest_word_that_is_one_token_is_masked() -> None:
    position = chosen(SENTENCE, WORDS, SPANS)
    assert position is not None
    assert SENTENCE[slice(*SPANS[position])].strip() == "peers"


def test_a_word_that_does_not_fit_is_not_masked() -> None:
    peers = SPANS.index((15, 21))
    position = choose_word(SENTENCE, WORDS, SPANS, [place != peers for place in range(len(SPANS))])
    assert position is not None
    assert SENTENCE[slice(*SPANS[position])].strip() == "down"


def test_tokens_that_come_often_are_frequent() -> None:
    assert frequent_tokens([0, 1, 2, 3997]) == {2, 3}
    assert frequent_tokens([0, 0]) == frozenset()


def test_of_equally_long_words_the_first_is_masked() -> None:
    assert chosen("go on", [0, 1], [(0, 2), (2, 5)]) == 0


def test_a_word_may_begin_with_a_token_for_the_space_before_it() -> None:
    assert chosen("a boat", [0, 1, 1], [(0, 1), (1, 2), (2, 6)]) == 2


def test_a_word_with_signs_above_and_below_its_letters_is_a_word() -> None:
    assert chosen("এই নৌকা।", [0, 1, 2], [(0, 2), (2, 7), (7, 8)]) == 1


@pytest.mark.parametrize(
    ("sentence", "words", "spans"),
    [
        ("", [None, None], [(0, 0), (0, 0)]),
        ("12 !", [0, 1], [(0, 2), (2, 4)]),
        ("boats", [0, 0], [(0, 4), (4, 5)]),
    ],
    ids=["nothing", "no letters", "two tokens"],
)
def test_a_sentence_without_a_fitting_word_is_left_alone(
    sentence: str, words: list[int | None], spans: list[tuple[int, int]]
) -> None:
    assert chosen(sentence, words, spans) is None


ALL = range(100_000)  # tokens


def test_masks_are_filled_by_the_checkpoint(checkpoint: Path) -> None:
    filled = fill_masks(checkpoint, ["Nobody knows the river.", "123", "All the boats.", "To the sea."], ALL, count=2)
    assert [one.sentence for one in filled] == ["Nobody knows [MASK] river.", "All [MASK] boats."]
    assert [one.answer for one in filled] == ["the", "the"]
    for one in filled:
        probabilities = [prediction.probability for prediction in one.predictions]
        assert len(probabilities) == 5
        assert probabilities == sorted(probabilities, reverse=True)
        assert 0 < sum(probabilities) <= 1 + 1e-6
        assert one.predictions[0].token == "the"  # what this checkpoint was taught to say


def test_the_same_checkpoint_and_sentences_give_the_same_result(checkpoint: Path) -> None:
    sentences = ["Nobody knows the river.", "All the boats."]
    assert fill_masks(checkpoint, sentences, ALL) == fill_masks(checkpoint, iter(sentences), ALL)


def test_only_frequent_words_are_masked(checkpoint: Path) -> None:
    assert fill_masks(checkpoint, ["Nobody knows the river."], frozenset()) == []


def test_a_sentence_longer_than_the_model_reads_is_cut(checkpoint: Path) -> None:
    (filled,) = fill_masks(checkpoint, ["all the boats " * 100], ALL)
    assert filled.sentence.startswith("all [MASK] boats all the boats")


def test_a_folder_that_is_no_checkpoint_ends_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        fill_masks(tmp_path, ["All the boats."], ALL)


def test_loading_leaves_the_console_alone(checkpoint: Path) -> None:
    program = "import sys; from pathlib import Path; from app.demo.fill_masks import fill_masks; "
    program += "fill_masks(Path(sys.argv[1]), ['All the boats.'], range(100000))"
    loaded = subprocess.run(
        [sys.executable, "-c", program, str(checkpoint)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    assert loaded.stdout + loaded.stderr == ""


def test_a_mask_is_shown_as_it_stands_and_not_as_markup() -> None:
    console = Console(file=io.StringIO(), width=100)
    console.print(render([FilledMask("To the [MASK].", "[b]sea", (Prediction("[/b]", 0.25), Prediction("sea", 0.1)))]))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    for part in ("To the [MASK].", "[b]sea", "[/b] 25%", "sea 10%"):
        assert part in text
