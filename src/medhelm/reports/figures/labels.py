"""Placement of the labels of points, so that they cover neither each other nor the points. Units are pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

Box = tuple[float, float, float, float]
"""Left, top, right, bottom, in pixels."""

NARROW, WIDE = frozenset("iljtfrI.,:;'|!()[] -/"), frozenset("mwMW@%&")
"""Letters that are narrower or wider than most."""

HEIGHT = 1.25
"""Height of a line of text, in font sizes."""

RADII = (9.0, 14.0, 22.0, 34.0, 50.0, 70.0, 100.0)
"""Distances from a point at which its label is tried."""

DIRECTIONS = 16
"""Directions in which it is tried at each distance."""

OUTSIDE = 1e6
"""Penalty of a pixel outside the plot; a square pixel over a name costs 20, over a point 8, over a bar 3."""

SWEEPS = 12
"""Passes in which every label may move to a better place, given the others."""


@dataclass(frozen=True, slots=True)
class PlacedLabel:
    """Box of a placed label: its center and its size."""

    x: float
    y: float
    width: float
    height: float

    @property
    def box(self) -> Box:
        """Edges of the box."""
        return (
            self.x - self.width / 2, self.y - self.height / 2, self.x + self.width / 2, self.y + self.height / 2
        )  # fmt: skip


def text_width(text: str, size: float) -> float:
    """Estimate the width of a text in a sans-serif font of `size` pixels, rather too wide than too narrow."""
    return size * sum(
        0.34 if c in NARROW else 0.88 if c in WIDE else 1.0 if ord(c) > 0x2E80 else 0.7 if c.isupper() else 0.57
        for c in text
    )


def place(
    points: Sequence[tuple[float, float]],
    texts: Sequence[str],
    *,
    bounds: tuple[float, float],
    size: float = 11.0,
    bars: Sequence[Box] = (),
    radius: float = 6.0,
) -> list[PlacedLabel]:
    """Return a place for each text near its point.

    Parameters: points, x and y in pixels; texts, one per point; bounds, width and height of the plot; size
    of the font; bars, boxes to avoid, such as error bars; radius of a point. Each label takes the best of some places
    around its point, and may then move again, given the others. The result is deterministic.
    """
    sizes = [(text_width(text, size), size * HEIGHT) for text in texts]
    marks = np.array([(x - radius, y - radius, x + radius, y + radius) for x, y in points]).reshape(-1, 4)
    soft = np.array(bars, dtype=float).reshape(-1, 4)
    options = [_around(point, box) for point, box in zip(points, sizes, strict=True)]
    fixed = [
        OUTSIDE * _outside(boxes, bounds)
        + 8 * _overlap(boxes, marks).sum(axis=1)
        + 3 * _overlap(boxes, soft).sum(axis=1)
        + 1.2 * distances
        for boxes, distances in options
    ]
    order = sorted(range(len(points)), key=lambda i: (points[i][0], points[i][1]))
    chosen = np.array([boxes[int(cost.argmin())] for (boxes, _), cost in zip(options, fixed, strict=True)])
    for _ in range(SWEEPS):
        moved = False
        for i in order:
            others = np.delete(chosen, i, axis=0)
            boxes = options[i][0]
            best = boxes[int((fixed[i] + _overlap(boxes, others).sum(axis=1) * 20).argmin())]
            moved = moved or not np.array_equal(best, chosen[i])
            chosen[i] = best
        if not moved:
            break
    return [
        PlacedLabel(float(left + right) / 2, float(top + bottom) / 2, *box)
        for (left, top, right, bottom), box in zip(chosen, sizes, strict=True)
    ]


def overlap_area(first: PlacedLabel, second: PlacedLabel) -> float:
    """Return the overlap of two labels in square pixels."""
    return float(_overlap(np.array([first.box]), np.array([second.box]))[0, 0])


def _around(point: tuple[float, float], size: tuple[float, float]) -> tuple[Floats, Floats]:
    """Return boxes around a point, shape (n, 4), and their distances from it."""
    boxes, distances = [], []
    width, height = size
    for radius in RADII:
        for turn in range(DIRECTIONS):
            angle = 2 * math.pi * turn / DIRECTIONS
            across, down = math.cos(angle), math.sin(angle)
            # The side of the box that faces the point touches the circle.
            x = point[0] + across * radius + width / 2 * max(-1.0, min(1.0, across * 1.5))
            y = point[1] + down * radius + height / 2 * max(-1.0, min(1.0, down * 1.5))
            boxes.append((x - width / 2, y - height / 2, x + width / 2, y + height / 2))
            # At equal distances, the right side is easiest to read, then the left side.
            distances.append(radius + (0 if turn == 0 else 2 if turn == DIRECTIONS // 2 else 4))
    return np.array(boxes), np.array(distances)


def _overlap(first: Floats, second: Floats) -> Floats:
    """Return the overlaps of boxes in square pixels, shape (n, m)."""
    left = np.maximum(first[:, None, 0], second[None, :, 0])
    top = np.maximum(first[:, None, 1], second[None, :, 1])
    right = np.minimum(first[:, None, 2], second[None, :, 2])
    bottom = np.minimum(first[:, None, 3], second[None, :, 3])
    shared: Floats = np.clip(right - left, 0, None) * np.clip(bottom - top, 0, None)
    return shared


def _outside(boxes: Floats, bounds: tuple[float, float]) -> Floats:
    """Return the pixels by which boxes exceed the plot."""
    over = (
        np.clip(-boxes[:, 0], 0, None) + np.clip(boxes[:, 2] - bounds[0], 0, None)
        + np.clip(-boxes[:, 1], 0, None) + np.clip(boxes[:, 3] - bounds[1], 0, None)
    )  # fmt: skip
    found: Floats = over
    return found
