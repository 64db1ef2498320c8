"""What a page knows of its reader."""

import datetime
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest

from dashboard import page_context


@pytest.mark.parametrize("unknown", ["Europe/Atlantis", "../etc/passwd", "UTC\0", "x" * 9999])
def test_a_zone_that_this_machine_does_not_know_is_utc(monkeypatch: pytest.MonkeyPatch, unknown: str) -> None:
    context = SimpleNamespace(timezone=unknown)
    monkeypatch.setattr(page_context, "st", SimpleNamespace(context=context))
    assert page_context.zone() == datetime.timezone.utc
    context.timezone = "Asia/Dhaka"
    assert page_context.zone() == ZoneInfo("Asia/Dhaka")
