"""Packs circles side by side, the largest in the middle: Vega-Lite, unlike Vega, cannot."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

TURN = 0.15  # radians between two places that are tried
PITCH = 0.05  # how far the spiral moves out in a turn, in radii of the largest circle


def pack(radii: Sequence[float], aspect: float = 1.0, gap: float = 0.0) -> list[tuple[float, float]]:
    """Centres of circles that do not overlap, each at the first free place on a spiral from the middle.

    Args:
        radii: of the circles; the first ones come nearest to the middle.
        aspect: width of the whole by its height.
        gap: between two circles.
    """
    spiral = _spiral(radii, aspect, gap)
    room = np.full(len(spiral), np.inf)  # the distance of each place to the nearest circle
    centres = []
    for radius in radii:
        place = spiral[int(np.argmax(room >= radius + gap))]
        room = np.minimum(room, np.hypot(*(spiral - place).T) - radius)
        centres.append((float(place[0]), float(place[1])))
    return centres


def _spiral(radii: Sequence[float], aspect: float, gap: float) -> npt.NDArray[np.float64]:
    """Points (n, 2) from the middle outwards, farther than any circle can be."""
    sizes = np.asarray(radii, dtype=float) + gap
    farthest = 1.0 + 2.0 * np.sqrt((sizes**2).sum()) + 2.0 * sizes.max(initial=0.0)
    pitch = max(PITCH * sizes.max(initial=0.0), farthest / 100)
    angles = np.arange(0, 2 * np.pi * farthest / pitch, TURN)
    distances = pitch * angles / (2 * np.pi)
    stretch = np.sqrt(aspect)
    return np.stack([stretch * distances * np.cos(angles), distances / stretch * np.sin(angles)], axis=1)
