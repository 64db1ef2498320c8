import pytest

from dashboard.api.answers import Evaluation, History
from dashboard.api.client import Found
from dashboard.charts.curve_tables import loss_table, smoothed
from dashboard.charts.specifications import STEP, TIME


def test_smoothing_begins_at_the_first_value_and_follows() -> None:
    even = smoothed([4.0, 4.0, 4.0, 2.0, 2.0], 0.8)
    assert even[:3] == pytest.approx([4.0, 4.0, 4.0])
    assert 2.0 < even[4] < even[3] < 4.0
    assert smoothed([3.0, 1.0], 0.0) == [3.0, 1.0]


def test_the_table_of_word_frequencies_is_one_row_of_the_losses_once_it_is_known() -> None:
    known = Evaluation(step=5, time=50.0, loss=6.0, unigram_loss=7.0)
    unknown = Evaluation(step=9, time=90.0, loss=5.0)
    for number, (evaluations, losses) in enumerate((([known, unknown], [7.0]), ([unknown], []))):
        for axis in (STEP, TIME):
            table = loss_table(Found(History(evaluations=evaluations), float(number)), [], axis, 0.9)
            rows = table[table["kind"] == "unigram"]
            assert list(rows["loss"]) == losses and rows["x"].isna().all()
