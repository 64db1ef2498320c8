"""One style for the charts that the program draws with matplotlib, as SVG or PNG.

matplotlib is imported where something is drawn: a command's start does not wait for it.
"""

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 760, 440  # pixels of an SVG; a PNG has twice as many
MARGIN = 0.15  # inches
# Okabe & Ito (2008): colour-blind people can tell them apart
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_, VERMILION, _, _, _, SKY, _ = COLOURS
INK, GRID = "#222222", "#dddddd"
DASHES = (6, 4)
STYLE: dict[Any, Any] = {  # names of matplotlib's parameters
    "text.parse_math": False,  # names are shown as they are, also with a dollar sign
    "svg.fonttype": "none",  # text stays text: whatever shows the picture has the fonts of more scripts
    "svg.hashsalt": "sahaj",  # the same chart gives the same file
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.titlelocation": "left",
    "axes.titlepad": 12,
    "grid.color": GRID,
    "legend.frameon": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "ytick.left": False,
}


def draw(paint: Callable[["Figure"], None], kind: str = "svg") -> bytes:
    """The file of a chart, `svg` or `png`, that `paint` draws on an empty figure."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.font_manager import fontManager
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    fonts = ["DejaVu Sans"]  # comes with matplotlib
    if kind == "png":  # other scripts are drawn where this computer has fonts for them; for an SVG, its reader's has
        fonts += sorted({font.name for font in fontManager.ttflist if font.name.startswith(("Noto Sans ", "Lohit "))})
    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    file = io.BytesIO()
    with matplotlib.rc_context(STYLE | {"font.family": "sans-serif", "font.sans-serif": fonts}):
        figure = Figure((WIDTH / 72, HEIGHT / 72), layout=ConstrainedLayoutEngine(w_pad=MARGIN, h_pad=MARGIN))
        paint(figure)
        figure.savefig(file, format=kind, dpi=72 if kind == "svg" else 144, metadata=metadata)
    return file.getvalue()
