import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

from downstream.data.examples import Example
from downstream.tasks.alignment import NO_LABEL, align_labels, first_tokens, labels_of_words
from downstream.tasks.classify import Classification
from downstream.tasks.ner import NamedEntities

X = NO_LABEL


def test_the_first_subword_carries_the_label_and_nothing_else_does():
    assert align_labels([5, 0, 7], [None, 0, 0, 1, 2, 2, 2, None]) == [X, 5, X, 0, 7, X, X, X]


def test_where_the_first_subword_is_but_a_space_the_next_one_carries_the_label_too():
    assert align_labels([5, 6], [None, 0, 0, 0, 1, None], spaces={1}) == [X, 5, 5, X, 6, X]
    assert align_labels([5, 6], [None, 0, 1, 1, None], spaces={1, 2}) == [X, 5, 6, 6, X]
    assert align_labels([5], [None, 0], spaces={1}) == [X, 5]


def test_words_that_were_cut_off_or_left_no_token_lose_their_label():
    assert align_labels([5, 6, 7], [None, 0, 2, 2, None]) == [X, 5, 7, X, X]
    assert align_labels([5, 6, 7], [None, 0, None]) == [X, 5, X]
    assert align_labels([], [None, None]) == [X, X]


def test_words_of_the_second_segment_do_not_exist_here_so_the_first_token_of_a_word_is_its_first_position():
    assert first_tokens([None, 0, 0, 3, None]) == {0: 1, 3: 3}


def test_predictions_are_read_where_labels_were_put_and_lost_words_get_the_absent_one():
    predicted = ["?", "B-PER", "?", "I-PER", "?", "?"]
    assert labels_of_words([(predicted, [None, 0, 0, 2, None])], 4, absent="O") == ("B-PER", "O", "I-PER", "O")


def test_of_two_windows_the_one_counts_in_which_a_word_is_farther_from_the_ends():
    first = ["?", "A", "A", "A", "A", "?"], [None, 0, 1, 2, 3, None]
    second = ["?", "B", "B", "B", "B", "?"], [None, 2, 3, 4, 5, None]
    assert labels_of_words([first, second], 6, absent="O") == ("A", "A", "A", "B", "B", "B")


def test_labels_survive_the_way_to_subwords_and_back(tokenizer: PreTrainedTokenizerFast):
    words = ("রবীন্দ্রনাথ", "(ঢাকা)", "।", "২০১৯", "উত্\u200dসব", "দু:খ", "হয়।।", "river")
    tags = ("B-PER", "B-LOC", "O", "I-LOC", "B-PER", "O", "I-PER", "B-LOC")
    task = NamedEntities()
    names = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    numbers = {name: number for number, name in enumerate(names)}
    encoded = task.encode([Example(words, tags, "here")], tokenizer, 128, numbers)
    (feature,) = encoded.features
    assert encoded.truncated == 0
    assert len(feature["labels"]) == len(feature["input_ids"])
    assert [feature["labels"][position] for position in first_tokens(encoded.words[0]).values()] == [
        numbers[tag] for tag in tags
    ]
    chosen = np.array([[max(label, 0) for label in feature["labels"]]])
    assert task.predictions(encoded, chosen, dict(enumerate(names))) == [tags]


def test_both_ways_to_write_a_bengali_letter_become_the_same_tokens(tokenizer: PreTrainedTokenizerFast):
    task = NamedEntities()
    one = task.encode([Example(("হ\u09df",), ("O",), "here")], tokenizer, 128)
    two = task.encode([Example(("হ\u09af\u09bc",), ("O",), "here")], tokenizer, 128)
    assert one.features == two.features
    assert tokenizer.unk_token_id not in one.features[0]["input_ids"]


def test_a_word_of_which_normalization_leaves_nothing_is_outside(tokenizer: PreTrainedTokenizerFast):
    task = NamedEntities()
    encoded = task.encode([Example(("ঢাকা", "\u200c", "যান"), ("B-LOC", "O", "O"), "here")], tokenizer, 128)
    chosen = np.ones((1, len(encoded.words[0])), dtype=int)
    assert task.predictions(encoded, chosen, {0: "O", 1: "B-LOC"}) == [("B-LOC", "O", "B-LOC")]


@pytest.mark.parametrize("max_length", [8, 9, 13, 32])
def test_long_sentences_are_read_whole_in_windows(max_length: int, tokenizer: PreTrainedTokenizerFast):
    """Each word keeps its label at its first token, and at no other, wherever a window begins."""
    task = NamedEntities()
    names = ("O", "B-LOC", "B-PER")
    words, tags = ("থেকে", "ঢাকা", "রবীন্দ্রনাথ"), ("O", "B-LOC", "B-PER")
    examples = [Example(words * times, tags * times, "here") for times in (1, 20)]
    encoded = task.encode(examples, tokenizer, max_length, {name: number for number, name in enumerate(names)})
    assert encoded.truncated == 0
    assert len(encoded.features) == len(encoded.owners) > 2
    assert all(len(feature["labels"]) == len(feature["input_ids"]) <= max_length for feature in encoded.features)
    starts = {int(tokenizer(word).input_ids[1]): number for number, word in enumerate(words)}
    for feature in encoded.features:
        for token, label in zip(feature["input_ids"], feature["labels"], strict=True):
            assert label in (NO_LABEL, starts.get(token, NO_LABEL)), "no label but at the first token of a word"
    width = max(len(feature["labels"]) for feature in encoded.features)
    chosen = np.array([[*feature["labels"], *[0] * (width - len(feature["labels"]))] for feature in encoded.features])
    assert task.predictions(encoded, chosen.clip(0), dict(enumerate(names))) == encoded.truth


def test_long_texts_are_cut_and_counted(tokenizer: PreTrainedTokenizerFast):
    examples = [Example(("ঢাকা " * length,), ("city",), "here") for length in (1, 200)]
    encoded = Classification().encode(examples, tokenizer, 32, {"city": 0})
    assert encoded.truncated == 1
    assert [len(feature["input_ids"]) <= 32 for feature in encoded.features] == [True, True]
