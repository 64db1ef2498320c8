"""The forecast as a picture: who computes, who averages, and what would help."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from app.plan.forecast import Forecast
from swarm.display import charts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LONGEST = 48  # characters of a label beside the bars
ROW, BAR = 38, 26  # pixels of height: a row of volunteers with two bars, and one bar
MARGINS = 180  # pixels of height for titles, legend and axes


def svg(forecast: Forecast) -> bytes:
    """The content of an SVG file."""
    height = MARGINS + ROW * len(forecast.rows) + BAR * (2 + len(forecast.changes))
    return charts.draw(partial(paint, forecast), height=height)


def paint(forecast: Forecast, figure: "Figure") -> None:
    """Draw each row's share of samples and of averaging, and below the speed of each plan."""
    rows, changes = forecast.rows, forecast.changes
    shares, speeds = figure.subplots(2, height_ratios=[ROW * len(rows) + 40, BAR * (2 + len(changes))])
    names = [f"{row.count:,} x {_short(row.device)}\n{row.role.value}" for row in rows]
    _bars(shares, names, [row.samples for row in rows], [charts.VERMILION] * len(rows), "{:.0%}", -0.2, 0.36)
    _bars(shares, names, [row.parts for row in rows], [charts.BLUE] * len(rows), "{:.0%}", 0.2, 0.36)
    legend = ["share of the samples", "share of the averaging"]
    shares.legend(shares.containers, legend, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)
    shares.set_title(f"{forecast.run}: {forecast.peers:,} peers", fontsize=14)
    _bars(
        speeds,
        ["equal parts", "with this plan", *(_short(change.name) for change in changes)],
        [
            outlook.samples_per_second
            for outlook in (forecast.equal, forecast.planned, *(change.outlook for change in changes))
        ],
        [charts.BLUE, charts.VERMILION, *[charts.GREEN] * len(changes)],
        "{:,.1f}",
    )
    speeds.set_title("samples a second")


def _bars(
    axes: "Axes",
    names: Sequence[str],
    values: Sequence[float],
    colours: Sequence[str],
    form: str,
    shift: float = 0.0,
    thickness: float = 0.6,
) -> None:
    places = range(len(names))
    bars = axes.barh([place + shift for place in places], values, thickness, color=colours)
    axes.bar_label(bars, fmt=form, padding=4)
    axes.set_yticks(places, names)
    axes.set_ylim(len(names) - 0.5, -0.5)  # the first one on top
    axes.xaxis.set_visible(False)
    axes.grid(visible=False)
    axes.spines.bottom.set_visible(False)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
