"""The traffic of a day, over restarts and midnight."""

import datetime
from pathlib import Path

import pytest

from trainer.pausing.daily_traffic import SAVE_EVERY, DailyTraffic

DAY = datetime.datetime(2026, 11, 26, 12)


def test_a_restart_goes_on_where_it_was_and_another_day_begins_at_zero(tmp_path: Path) -> None:
    now, file = DAY, tmp_path / "traffic.json"
    traffic = DailyTraffic(file, lambda: now)
    assert traffic.today == 0
    for total in (100, 100, SAVE_EVERY, SAVE_EVERY + 300):
        traffic.carried(total)
    assert traffic.today == SAVE_EVERY + 300
    again = DailyTraffic(file, lambda: now)
    assert again.today == SAVE_EVERY, "what was carried since it was saved is little"
    again.carried(50)
    assert again.today == SAVE_EVERY + 50
    now = DAY + datetime.timedelta(days=1)
    assert again.today == 0
    again.carried(80)
    assert again.today == 30
    assert DailyTraffic(file, lambda: now).today == 30


@pytest.mark.parametrize("content", ["", "{}", '{"day": "yesterday", "bytes": 3}', '{"day": "2026-11-26"}', "[1]"])
def test_a_file_that_says_nothing_is_begun_anew(tmp_path: Path, content: str) -> None:
    (tmp_path / "traffic.json").write_text(content)
    assert DailyTraffic(tmp_path / "traffic.json", lambda: DAY).today == 0


def test_a_disk_that_takes_nothing_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "traffic.json").mkdir()
    traffic = DailyTraffic(tmp_path / "traffic.json", lambda: DAY)
    traffic.carried(2 * SAVE_EVERY)
    assert traffic.today == 2 * SAVE_EVERY
