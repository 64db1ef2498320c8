import datetime
from zoneinfo import ZoneInfo

import pytest

from dashboard import texts

GAP = texts.GAP
NOW = datetime.datetime(2026, 3, 14, 12, 0, tzinfo=datetime.timezone.utc).timestamp()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (0, "0"),
        (7, "7"),
        (2.26, "2.3"),
        (8420, "8,420"),
        (9999.7, f"10.0{GAP}k"),
        (12_345, f"12.3{GAP}k"),
        (999_949, f"1,000{GAP}k".replace(",", "")),
        (999_951, f"1.00{GAP}M"),
        (1_234_567, f"1.23{GAP}M"),
        (369_000_000, f"369{GAP}M"),
        (183_768_749_394, f"184{GAP}B"),
        (2.5e12, f"2.50{GAP}T"),
        (-1_500_000, f"-1.50{GAP}M"),
    ],
)
def test_numbers_are_short(value: float | None, shown: str) -> None:
    assert texts.number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(None, None), (0, None), (0.01, None), (17, "+17"), (-3, "-3"), (69_632, f"+69.6{GAP}k")]
)
def test_a_change_has_a_sign_and_none_is_left_out(value: float | None, shown: str | None) -> None:
    assert texts.change(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (float("nan"), None),
        (2.456, "2.46 nats better than word frequencies alone"),
        (-1.0, "1.00 nats worse than word frequencies alone"),
    ],
)
def test_a_loss_is_below_or_above_word_frequencies(value: float | None, shown: str | None) -> None:
    assert texts.below_frequencies(value) == shown


@pytest.mark.parametrize(
    ("fraction", "shown"),
    [(None, "–"), (0, f"0{GAP}%"), (1, f"100{GAP}%"), (0.123, f"12{GAP}%"), (0.0312, f"3.1{GAP}%"),
     (0.0004, f"0.04{GAP}%"), (0.000001, f"<{GAP}0.01{GAP}%")],
)  # fmt: skip
def test_small_parts_keep_their_digits(fraction: float | None, shown: str) -> None:
    assert texts.percent(fraction) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(3, "just now"), (60, "1 minute ago"), (3000, "50 minutes ago"), (7200, "2 hours ago"), (864_000, "10 days ago")],
)
def test_ages_are_told_in_one_unit(seconds: float, shown: str) -> None:
    assert texts.ago(seconds) == shown


def test_a_moment_is_told_in_the_readers_zone() -> None:
    dhaka, new_york = ZoneInfo("Asia/Dhaka"), ZoneInfo("America/New_York")
    assert texts.moment(NOW, dhaka, NOW) == "today 18:00"
    assert texts.moment(NOW + 9 * 3600, dhaka, NOW) == "15 March 03:00"
    assert texts.moment(NOW + 9 * 3600, new_york, NOW) == "today 17:00"
    assert texts.moment(NOW + 365 * 86_400, dhaka, NOW) == "14 March 2027 18:00"


@pytest.mark.parametrize("time", [1e12, -1e12, 1e300, float("nan"), float("inf")])
def test_a_time_that_no_calendar_has_is_not_known(time: float) -> None:
    assert texts.day(time, datetime.timezone.utc) == texts.moment(time, datetime.timezone.utc, NOW) == texts.DASH


@pytest.mark.parametrize(
    "text", ["<b>x</b>", "[x](javascript:alert(1))", "*a* _b_ `c`", ":red[x]", "$x^2$", "# h", "a|b"]
)
def test_every_mark_of_outside_text_is_escaped(text: str) -> None:
    escaped = texts.plain(text)
    assert escaped.replace("\\", "").replace(texts.JOINER, "") == text
    for mark in "<>[]()*_`:$#|":
        assert escaped.count(mark) == escaped.count(f"\\{mark}")


@pytest.mark.parametrize(
    "text", [":smile:", ":material/verified:", "https://evil.example", "www.evil.example", "a@b.org"]
)
def test_what_is_found_in_plain_text_is_broken_up(text: str) -> None:
    assert texts.JOINER in texts.plain(text)


def test_characters_that_turn_or_hide_others_are_left_out() -> None:
    assert texts.line("ab\u202ecd\u200b\x07e\nf\ue000") == "ab cd e f"


def test_scripts_that_need_joiners_keep_them() -> None:
    assert texts.line("ক\N{ZERO WIDTH JOINER}ষ") == "ক\N{ZERO WIDTH JOINER}ষ"


@pytest.mark.parametrize(("code", "shown"), [("hi", "Hindi"), ("bn", "Bengali"), ("bn-BD", "Bengali"), ("xx", "xx")])
def test_a_language_has_its_english_name(code: str, shown: str) -> None:
    assert texts.language(code) == shown


def test_long_text_is_cut() -> None:
    assert texts.line("long " * 1000, 20) == "long long long long…"
    assert len(texts.name("x" * 10_000)) == texts.LONGEST_NAME


def test_only_pictures_over_https_are_shown() -> None:
    assert texts.picture("https://huggingface.co/a.png") == "https://huggingface.co/a.png"
    for url in (
        None,
        "",
        "http://x.org/a.png",
        "javascript:alert(1)",
        "data:image/svg+xml,<svg/>",
        "https://",
        "https://[",
    ):
        assert texts.picture(url) is None


def test_a_link_to_the_hub_leads_to_nowhere_else() -> None:
    assert texts.hub_page("asha", True) == "https://huggingface.co/asha"
    assert texts.hub_page("../x?y#z", True) == "https://huggingface.co/..%2Fx%3Fy%23z"
    assert texts.hub_page("~asha", False) is None
