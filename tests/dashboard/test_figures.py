import math
from itertools import combinations

import pytest

from dashboard.api.addresses import is_private
from dashboard.api.answers import Evaluation, Fill, Guess, History, Leader, Sentence
from dashboard.api.client import Found
from dashboard.charts.packing import pack
from dashboard.charts.specifications import STEP, TIME
from dashboard.charts.tables import across, loss_table, smoothed
from dashboard.views.machines import flag
from dashboard.views.overview import notebook_links
from dashboard.views.people import SEEN, last_here
from dashboard.views.sentences import way_to, with_best_guess


@pytest.mark.parametrize("aspect", [1.0, 2.4])
def test_bubbles_do_not_touch(aspect: float) -> None:
    radii = [1 / (1 + number / 5) + 0.05 for number in range(120)]
    places = pack(radii, aspect, gap=0.02)
    assert places[0] == (0.0, 0.0)
    for (one, first), (other, second) in combinations(zip(places, radii, strict=True), 2):
        assert math.dist(one, other) >= first + second + 0.0199


def test_bubbles_fill_the_shape_that_is_asked_for() -> None:
    places = pack([0.2] * 150, 2.4, gap=0.02)
    wide, high = max(abs(x) for x, _ in places), max(abs(y) for _, y in places)
    assert 1.8 < wide / high < 3.2


def test_nobody_and_somebody_alone_are_packed() -> None:
    assert pack([]) == []
    assert pack([1.0]) == [(0.0, 0.0)]


def test_smoothing_begins_at_the_first_value_and_follows() -> None:
    even = smoothed([4.0, 4.0, 4.0, 2.0, 2.0], 0.8)
    assert even[:3] == pytest.approx([4.0, 4.0, 4.0])
    assert 2.0 < even[4] < even[3] < 4.0
    assert smoothed([3.0, 1.0], 0.0) == [3.0, 1.0]


def test_a_step_without_a_time_stands_between_its_neighbours() -> None:
    assert across([1, 2, 3], [10.0, None, 30.0], TIME) == [10.0, 20.0, 30.0]
    assert across([1, 2, 3], [None, None, None], STEP) == [1.0, 2.0, 3.0]
    assert all(math.isnan(place) for place in across([1, 2], [None, None], TIME))


def test_the_table_of_word_frequencies_is_one_row_of_the_losses_once_it_is_known() -> None:
    known = Evaluation(step=5, time=50.0, loss=6.0, unigram_loss=7.0)
    unknown = Evaluation(step=9, time=90.0, loss=5.0)
    for number, (evaluations, losses) in enumerate((([known, unknown], [7.0]), ([unknown], []))):
        for axis in (STEP, TIME):
            table = loss_table(Found(History(evaluations=evaluations), float(number)), [], axis, 0.9)
            rows = table[table["kind"] == "unigram"]
            assert list(rows["loss"]) == losses and rows["x"].isna().all()


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


def test_when_somebody_was_here_last_is_one_of_four() -> None:
    def leader(last_seen: float, here: int = 0) -> Leader:
        return Leader(user="asha", samples=1, last_seen=last_seen, sessions_present=here)

    now = 30 * 86_400.0
    assert last_here(leader(now, here=1), now) == SEEN[0]
    assert last_here(leader(now - 3600), now) == SEEN[1]
    assert last_here(leader(now - 3 * 86_400), now) == SEEN[2]
    assert last_here(leader(0), now) == SEEN[3]


def test_flags_are_of_two_letters() -> None:
    assert flag("bd") == "🇧🇩"
    assert flag("<b>") == flag("") == flag("B1") == flag("éé") == ""


def test_a_notebook_opens_in_colab_and_kaggle_where_they_can_reach_it() -> None:
    colab, kaggle = "https://colab.research.google.com", "https://www.kaggle.com"
    github = "https://github.com/org/repo/blob/main/notebooks/join.ipynb"
    assert notebook_links(github) == (
        f"{colab}/github/org/repo/blob/main/notebooks/join.ipynb",
        f"{kaggle}/kernels/welcome?src={github}",
    )
    assert notebook_links("https://huggingface.co/org/model/blob/main/join.ipynb") == (
        f"{colab}/#fileId=https%3A//huggingface.co/org/model/blob/main/join.ipynb",
        f"{kaggle}/kernels/welcome?src=https://huggingface.co/org/model/resolve/main/join.ipynb",
    )
    nowhere = (f"{colab}/#create=true", f"{kaggle}/code/new")
    served = "https://run.example.org/join.ipynb"
    assert notebook_links(served) == (nowhere[0], f"{kaggle}/kernels/welcome?src={served}")
    for other in ("", "javascript:alert(1).ipynb", "https://evil.example/org", "http://127.0.0.1:8080/join.ipynb"):
        assert notebook_links(other) == nowhere


def test_the_key_travels_where_nobody_listens() -> None:
    for private in ("https://run.example.org", "http://127.0.0.1:8080", "http://localhost:80", "http://[::1]:8080"):
        assert is_private(private)
    for open_to_all in ("http://run.example.org", "http://192.168.1.2:8080", "http://localhost.evil.org", ""):
        assert not is_private(open_to_all)
