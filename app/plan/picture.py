"""The forecast as a picture: who computes, who averages, and what would help. A plain SVG that any browser shows."""

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from app.plan.forecast import Forecast

WIDTH, LABELS, LINE = 860, 300, 26  # pixels
LONGEST = 48  # characters that fit beside the bars
BARS = WIDTH - LABELS - 90
COMPUTING, AVERAGING, HELP = "#d97706", "#2563eb", "#059669"


def svg(forecast: Forecast) -> str:
    """The text of an SVG file."""
    shapes: list[str] = []
    top = 34
    shapes.append(_text(16, top, f"{forecast.run}: {forecast.volunteers:,} volunteers", size=18, bold=True))
    top += 20
    for legend, colour, left in (("share of the samples", COMPUTING, 16), ("share of the averaging", AVERAGING, 196)):
        shapes.append(_bar(left, top, 12, colour))
        shapes.append(_text(left + 18, top + 11, legend))
    top += 30
    for row in forecast.rows:
        shapes.append(_text(16, top + 9, f"{row.count:,} x {row.device}"))
        shapes.append(_text(16, top + 21, row.role.value, size=10))
        shapes += _measure(top, row.samples, f"{row.samples:.0%}", COMPUTING)
        shapes += _measure(top + 11, row.parts, f"{row.parts:.0%}", AVERAGING)
        top += LINE + 8
    top += 24
    shapes.append(_text(16, top, "samples a second", size=15, bold=True))
    top += 12
    speeds = [("equal parts", forecast.equal.samples_per_second, AVERAGING)]
    speeds.append(("with this plan", forecast.planned.samples_per_second, COMPUTING))
    speeds += [(change.name, change.outlook.samples_per_second, HELP) for change in forecast.changes]
    most = max(speed for _, speed, _ in speeds) or 1.0
    for name, speed, colour in speeds:
        shapes.append(_text(16, top + 12, name))
        shapes += _measure(top + 2, speed / most, f"{speed:,.1f}", colour)
        top += LINE
    return "\n".join(_document(shapes, top + 16)) + "\n"


def _document(shapes: Sequence[str], height: int) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="12">'
    )
    yield f'<rect width="{WIDTH}" height="{height}" fill="white"/>'
    yield from shapes
    yield "</svg>"


def _measure(top: int, fraction: float, figure: str, colour: str) -> list[str]:
    length = round(BARS * fraction)
    return [_bar(LABELS, top, max(length, 1), colour), _text(LABELS + length + 6, top + 10, figure)]


def _bar(left: int, top: int, length: int, colour: str) -> str:
    return f'<rect x="{left}" y="{top}" width="{length}" height="10" rx="2" fill="{colour}"/>'


def _text(left: int, base: int, text: str, *, size: int = 12, bold: bool = False) -> str:
    text = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{left}" y="{base}" font-size="{size}"{weight}>{escape(text)}</text>'
