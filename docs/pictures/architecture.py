"""Draws docs/pictures/architecture.svg from the code's imports: `python docs/pictures/architecture.py`.

Packages stand on a diagonal, in the order of the floors in pyproject.toml. A line leaves a package to the right and
turns down to each package that it imports; the number at the turn counts the imports. An import upwards would run to
the left, which `lint-imports` refuses.
"""

import ast
from collections import Counter
from dataclasses import dataclass
from html import escape
from pathlib import Path

import grimp
from importlinter.api import read_configuration

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "pictures" / "architecture.svg"
CONTAINERS = ("", "averaging")  # one panel each; "" is the repository
WIDTH, ROW, COLUMN, LABELS, TITLE, BOX = 1330, 46, 88, 440, 58, 28  # pixels
LETTER = 6.6  # pixels, on average
DARK, LIGHT, LINE, BAND = "#24476b", "#dbe7f3", "#6a8caf", "#f3f1ea"


@dataclass(frozen=True)
class Panel:
    """The packages of a container, the uppermost first, and how often each imports another."""

    container: str
    floors: dict[str, int]  # by package; 0 is the lowest
    imports: dict[tuple[str, str], int]


def panels() -> list[Panel]:
    """What the picture shows: each container with the floors of its contract."""
    settings = read_configuration(str(ROOT / "pyproject.toml"))
    graph = grimp.build_graph(*settings["session_options"]["root_packages"], cache_dir=None)
    layers = {
        "".join(one.get("containers", [])): one["layers"]
        for one in settings["contracts_options"]
        if one["type"] == "layers"
    }
    return [_panel(graph, container, layers[container]) for container in CONTAINERS]


def _panel(graph: grimp.ImportGraph, container: str, layers: list[str]) -> Panel:
    prefix = f"{container}." if container else ""
    floors = {name.strip(): len(layers) - 1 - row for row, layer in enumerate(layers) for name in layer.split("|")}
    imports: Counter[tuple[str, str]] = Counter()
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            if module.startswith(prefix) and imported.startswith(prefix):
                above, below = (name.removeprefix(prefix).split(".")[0] for name in (module, imported))
                imports[above, below] += above != below
    return Panel(container, floors, {pair: count for pair, count in imports.items() if count})


def describe(container: str, name: str, longest: int) -> str:
    """The first sentence of the docstring of a package or module, cut to so many characters."""
    path = ROOT / container / name
    source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")
    sentence = " ".join((ast.get_docstring(ast.parse(source)) or "").split()).split(". ")[0].rstrip(".")
    return sentence if len(sentence) <= longest else sentence[: longest - 1].rsplit(" ", 1)[0] + " …"


def drawn(panel: Panel, top: int) -> list[str]:
    """The SVG elements of a panel whose upper edge is at `top`."""
    names, half = list(panel.floors), BOX // 2
    y = {name: top + TITLE + ROW * number + ROW // 2 for number, name in enumerate(names)}
    x = {name: LABELS + COLUMN * number + COLUMN // 2 for number, name in enumerate(names)}
    title = f"Inside {panel.container}/" if panel.container else "Imports between the packages of the repository"
    bands = [
        f'<rect x="8" y="{y[name] - ROW // 2}" width="{WIDTH - 16}" height="{ROW}" fill="{BAND}"/>'
        for name in names
        if panel.floors[name] % 2
    ]
    labels = [f'<text x="16" y="{top + 36}" font-size="18" font-weight="bold">{title}</text>'] + [
        f'<text x="16" y="{y[name] - 3}" font-size="14"><tspan font-weight="bold">{name}</tspan>'
        f'<tspan fill="#666"> · floor {panel.floors[name]}</tspan></text>'
        f'<text x="16" y="{y[name] + 15}" font-size="12" fill="#444">'
        f"{escape(describe(panel.container, name, int((x[name] - COLUMN // 2 - 16) / LETTER)))}</text>"
        for name in names
    ]
    lines = [
        f'<path d="M{x[above]} {y[above]}H{x[below]}V{y[below] - half}" fill="none" stroke="{LINE}" '
        'marker-end="url(#arrow)"/>'
        for above, below in sorted(panel.imports)
    ]
    boxes = [
        f'<rect x="{x[name] - COLUMN // 2 + 1}" y="{y[name] - half}" width="{COLUMN - 2}" height="{BOX}" rx="5" '
        f'fill="{DARK}"/><text x="{x[name]}" y="{y[name] + 4}" class="middle" fill="white">{name}</text>'
        for name in names
    ]
    counts = [
        f'<g><title>{above} imports {below}</title><circle cx="{x[below]}" cy="{y[above]}" r="{9 + count // 20}" '
        f'fill="{LIGHT}" stroke="{LINE}"/><text x="{x[below]}" y="{y[above] + 4}" class="middle">{count}</text></g>'
        for (above, below), count in sorted(panel.imports.items())
    ]
    return [*bands, *labels, *lines, *boxes, *counts]


def picture() -> str:
    """The whole SVG."""
    parts, top = [], 0
    for panel in panels():
        parts += drawn(panel, top)
        top += TITLE + ROW * len(panel.floors)
    size = f'width="{WIDTH}" height="{top + 12}"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="DejaVu Sans, Arial, sans-serif">
<style>.middle {{font-size: 11px; text-anchor: middle}}</style>
<marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0L8 4L0 8z" fill="{LINE}"/></marker>
<rect {size} fill="white"/>
{chr(10).join(parts)}
</svg>
"""


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
