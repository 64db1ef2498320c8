from dashboard.api.answers import Fill, Guess, Sentence
from dashboard.views.sentences import way_to, with_best_guess


def fill(step: int, best: str) -> Fill:
    return Fill(step=step, sentences=[Sentence(text="The [MASK] shines", guesses=[Guess(token=best, probability=0.5)])])


def test_the_way_to_a_guess_names_only_changes() -> None:
    fills = [fill(1, "the"), fill(2, "the"), fill(3, "sun"), fill(4, "moon")]
    assert way_to(fills, 0, 3) == "Best guess: **the** (step 1) → **sun** (step 3) → **moon** (step 4)"
    assert way_to(fills, 0, 2) == "Best guess: **the** (step 1) → **sun** (step 3)"
    assert way_to(fills, 0, 1) == ""
    assert way_to(fills, 7, 3) == ""


def test_the_blank_is_filled_with_the_best_guess() -> None:
    assert with_best_guess(fill(1, "sun").sentences[0]) == "The :primary[**sun**] shines"
    assert with_best_guess(fill(1, "]**<b>").sentences[0]) == r"The :primary[**\]\*\*\<b\>**] shines"
    assert with_best_guess(Sentence(text="no mask *here*")) == r"no mask \*here\*"
