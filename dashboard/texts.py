"""Figures, times and names as people read them, in their language; what comes from outside is made plain text first."""

import datetime
import math
import re
import unicodedata
from urllib.parse import quote, urlsplit

from babel import Locale
from babel.dates import format_date

from dashboard.language import _, current, several

GAP = "\N{NARROW NO-BREAK SPACE}"
JOINER = "\N{WORD JOINER}"  # invisible, of no width
DASH = "–"  # where a figure is not known
UNVERIFIED = "~"  # begins a name that somebody chose
HUB = "https://huggingface.co/"
LONGEST_NAME, LONGEST_TEXT = 60, 600  # characters shown

_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}  # control, direction, surrogates, private use, line ends
_KEPT = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"  # scripts of South Asia need them
_PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")


def line(text: str, longest: int = LONGEST_TEXT) -> str:
    """Text from outside as one line of limited length, without characters that hide or turn around others."""
    seen = "".join(
        letter if letter in _KEPT or unicodedata.category(letter) not in _INVISIBLE else " "
        for letter in text[: 4 * longest]
    )
    short = " ".join(seen.split())
    return short if len(short) <= longest else short[: longest - 1].rstrip() + "…"


def plain(text: str, longest: int = LONGEST_TEXT) -> str:
    """Text from outside, for Markdown: it looks as it was written, whatever it contains.

    Every mark is escaped. Addresses, :emoji: and :material/icons: are found in what is left after that, so marks
    that make them are followed by an invisible joiner.
    """
    escaped = _PUNCTUATION.sub(r"\\\1", line(text, longest))
    return re.sub(r"(?i)(\\[:@]|www)", rf"\1{JOINER}", escaped)


def name(user: str) -> str:
    """A person's name for Markdown."""
    return plain(user, LONGEST_NAME) or _("(no name)")


def hub_page(user: str, verified: bool) -> str | None:
    """A person's page on the Hub, if the Hub verified them."""
    return HUB + quote(user, safe="") if verified else None


def picture(url: str | None) -> str | None:
    """The URL of an avatar, if a page may show it."""
    try:
        parts = urlsplit(url or "")
    except ValueError:
        return None
    return url if parts.scheme == "https" and parts.hostname and len(url or "") < 2000 else None


def language(code: str) -> str:
    """Hindi, for hi."""
    base = code.partition("-")[0].casefold()
    if (current(), base) == ("en", "bn"):
        return "Bengali"  # as the documentation and model cards; CLDR says Bangla
    return str(Locale(current()).languages.get(base, line(code, 30)))


def number(value: float | None) -> str:
    """1.2 M, for 1234567."""
    if value is None or not math.isfinite(value):
        return DASH
    size = abs(value)
    for limit, unit, name in ((999.95e9, 1e12, "T"), (999.95e6, 1e9, "B"), (999.95e3, 1e6, "M"), (9999.5, 1e3, "k")):
        if size >= limit:
            return f"{value / unit:.{_decimals(size / unit)}f}{GAP}{name}"
    if size >= 100 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 0.05 else f"{value:.2g}"


def _decimals(shown: float) -> int:
    return 0 if shown >= 99.95 else 1 if shown >= 9.995 else 2


def change(value: float | None) -> str | None:
    """+1.2 M or -3, or nothing where nothing has changed."""
    if value is None or not math.isfinite(value) or round(value, 1) == 0:
        return None
    return ("+" if value > 0 else "-") + number(abs(value))


def below_frequencies(value: float | None) -> str | None:
    """2.46 nats better than word frequencies alone: a held-out loss beside that of a table of them."""
    if value is None or not math.isfinite(value):
        return None
    if value >= 0:
        words = _("{nats} nats better than word frequencies alone")
    else:
        words = _("{nats} nats worse than word frequencies alone")
    return words.format(nats=f"{abs(value):.2f}")


def percent(fraction: float | None) -> str:
    """12 %, and 0.3 % where there is little."""
    if fraction is None or not math.isfinite(fraction):
        return DASH
    shown = 100 * fraction
    if 0 < shown < 0.01:
        return f"<{GAP}0.01{GAP}%"
    decimals = 2 if 0 < shown < 0.1 else 1 if 0 < shown < 10 else 0
    return f"{shown:.{decimals}f}{GAP}%"


def ago(seconds: float) -> str:
    """5 minutes ago."""
    return _("just now") if seconds < 45 else _("{time} ago").format(time=span(seconds))


def span(seconds: float) -> str:
    """5 minutes, 3 hours, 12 days."""
    minutes, hours, days = (max(1, round(seconds / size)) for size in (60, 3600, 86_400))
    if seconds < 5400:
        return several("{n} minute", "{n} minutes", minutes).format(n=minutes)
    if seconds < 129_600:
        return several("{n} hour", "{n} hours", hours).format(n=hours)
    return several("{n} day", "{n} days", days).format(n=f"{days:,}")


def moment(time: float, zone: datetime.tzinfo, now: float) -> str:
    """Today 18:05, 14 December 18:05; the year where it is another one."""
    there, today = _there(time, zone), datetime.datetime.fromtimestamp(now, zone)
    if there is None:
        return DASH
    if there.date() == today.date():
        return _("today {time}").format(time=f"{there:%H:%M}")
    return f"{_date(there, '' if there.year == today.year else ' y')} {there:%H:%M}"


def day(time: float, zone: datetime.tzinfo) -> str:
    """14 December 2026."""
    there = _there(time, zone)
    return DASH if there is None else _date(there, " y")


def calendar_day(iso: str) -> str:
    """14 December 2026, for 2026-12-14."""
    try:
        return _date(datetime.datetime.fromisoformat(iso), " y")
    except ValueError:
        return DASH


def file_name(*parts: str) -> str:
    """A name for a file that any system takes, from texts of any kind."""
    return re.sub(r"[^\w.-]+", "-", "-".join(parts)).strip("-.")[:80] or "card"


def _there(time: float, zone: datetime.tzinfo) -> datetime.datetime | None:
    """The moment in a zone; None where calendars have none."""
    try:
        return datetime.datetime.fromtimestamp(time, zone)
    except (ValueError, OverflowError, OSError):
        return None


def _date(there: datetime.datetime, year: str) -> str:
    return format_date(there, f"d MMMM{year}", locale=current())


def people(amount: int) -> str:
    """1 person, 3 people."""
    return several("{n} person", "{n} people", amount).format(n=number(amount))
