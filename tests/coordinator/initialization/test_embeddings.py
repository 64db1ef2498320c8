"""Vectors of new tokens from those of old ones, and the static vectors that tell which tokens are alike."""

import itertools
import random

import pytest
import torch

from coordinator.initialization.embeddings import means_of_similar, sparsemax, with_old_moments
from coordinator.initialization.shared_tokens import shared_tokens
from coordinator.initialization.token_vectors import co_occurrences, positive_information, token_vectors

OLD, WIDTH = 300, 5
SHARED = {7: 40, 3: 11, 20: 0, 21: 299}
SIZE = 200


@pytest.fixture
def old() -> torch.Tensor:
    draw = torch.Generator().manual_seed(1)
    return torch.randn(OLD, WIDTH, generator=draw) @ torch.randn(WIDTH, WIDTH, generator=draw) + 3


@pytest.fixture
def vectors() -> torch.Tensor:
    return torch.randn(SIZE, 8, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("carry", [means_of_similar, with_old_moments])
def test_shared_tokens_keep_their_rows_to_the_last_bit_and_a_second_time_gives_the_same(carry, old, vectors):
    torch.manual_seed(3)
    rows = carry(old, SHARED, vectors)
    assert rows.shape == (SIZE, WIDTH) and torch.isfinite(rows).all()
    for new, theirs in SHARED.items():
        assert torch.equal(rows[new], old[theirs])
    drawn = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(1)), "it drew from the generator of others"
    assert torch.equal(rows, carry(old, SHARED, vectors))


def test_other_tokens_have_convex_means_of_shared_ones(vectors):
    weights = means_of_similar(torch.eye(OLD), SHARED, vectors)  # a mean of unit vectors shows its weights
    assert (weights >= 0).all() and weights.sum(1) == pytest.approx(1.0)
    assert weights[:, [one for one in range(OLD) if one not in SHARED.values()]].abs().max() == 0


def test_a_token_takes_most_from_the_one_that_it_is_most_like(vectors):
    vectors[50] = 2 * vectors[3] + 0.1 * vectors[7]
    weights = means_of_similar(torch.eye(OLD), SHARED, vectors)[50]
    assert int(weights.argmax()) == SHARED[3] and weights.max() > 0.5


def test_a_token_that_the_text_lacks_is_the_mean_of_all_and_gives_nothing(old, vectors):
    vectors[[3, 60]] = 0.0
    rows = means_of_similar(old, SHARED, vectors)
    assert rows[60] == pytest.approx(old[[40, 0, 299]].mean(0), abs=1e-5)
    assert torch.equal(rows[3], old[11])


def test_sparsemax_is_the_projection_on_the_simplex():
    found = sparsemax(torch.tensor([[1.0, 0.8, -1.0], [0.0, 0.0, 0.0], [3.0, 0.0, 1.0]]))
    assert found == pytest.approx(torch.tensor([[0.6, 0.4, 0.0], [1 / 3, 1 / 3, 1 / 3], [1.0, 0.0, 0.0]]))


def test_without_enough_shared_tokens_mean_and_covariance_are_those_of_the_old_ones(old, vectors):
    own = torch.tensor([token for token in range(SIZE) if token not in SHARED])
    rows = with_old_moments(old, SHARED, vectors)[own]
    assert rows.mean(0) == pytest.approx(old.mean(0), abs=1e-3)
    assert torch.cov(rows.T) == pytest.approx(torch.cov(old.T), abs=1e-2)


def test_tokens_that_are_alike_in_the_text_stay_alike(old, vectors):
    vectors[51] = vectors[50]
    rows = with_old_moments(old, {}, vectors)
    assert rows[51] == pytest.approx(rows[50], abs=1e-4)


def test_tokens_that_the_text_lacks_are_drawn_with_the_same_moments(old):
    rows = with_old_moments(old, {}, torch.zeros(20_000, 8))
    assert rows.mean(0) == pytest.approx(old.mean(0), abs=0.1)
    assert torch.cov(rows.T) == pytest.approx(torch.cov(old.T), rel=0.1, abs=0.2)


def test_a_single_token_that_the_text_has_is_drawn_too(old):
    vectors = torch.zeros(5, 8)
    vectors[1] = 1.0
    assert torch.isfinite(with_old_moments(old, {0: 0}, vectors)).all()


def test_tokens_between_the_same_neighbours_have_similar_vectors():
    draw = random.Random(0)
    boats, birds, others = (0, 1), (2, 3), range(6, 60)
    sentences = [
        [*draw.choices(others, k=3), draw.choice(kind), near, *draw.choices(others, k=3)]
        for kind, near in itertools.islice(itertools.cycle([(boats, 4), (birds, 5)]), 4000)
    ]
    vectors = token_vectors(sentences, 61, 16)
    assert vectors.shape == (61, 16)
    similar = torch.nn.functional.cosine_similarity
    assert similar(vectors[0], vectors[1], 0) > 0.9 and similar(vectors[2], vectors[3], 0) > 0.9
    assert similar(vectors[0], vectors[2], 0) < 0.5
    assert not vectors[60].any()  # the text lacks it
    assert torch.equal(vectors, token_vectors(iter(sentences), 61, 16))


def test_neighbours_are_counted_by_nearness_within_sentences():
    counts = co_occurrences([[0, 1, 2], [2, 3]], 5).to_dense()
    expected = torch.zeros(5, 5)
    for one, other, weight in ((0, 1, 1.0), (1, 2, 1.0), (0, 2, 0.5), (2, 3, 1.0)):
        expected[one, other] = expected[other, one] = weight
    assert torch.equal(counts, expected)
    information = positive_information(co_occurrences([[0, 1, 2], [2, 3]], 5)).to_dense()
    assert (information >= 0).all() and torch.isfinite(information).all()
    assert information[0, 1] > information[0, 2]


def test_a_text_of_one_token_has_vectors_of_zero():
    assert token_vectors([[1]], 4).abs().max() == 0


def test_tokens_are_the_same_however_their_words_begin():
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "boat", "##s", "river", ","]
    bert = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(
            models.WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]")
        ),
        mask_token="[MASK]",
        **special,
    )
    marked = ["<mask>", "▁boat", "boat", "s", "<pad>", "▁,", "<unk>", "▁s"]
    albert = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.Unigram([(piece, -1.0) for piece in marked], unk_id=6)),
        mask_token="<mask>",
        pad_token="<pad>",
        unk_token="<unk>",
    )
    assert shared_tokens(bert, albert) == {0: 4, 1: 5, 3: 6, 4: 0, 5: 8, 6: 1}
