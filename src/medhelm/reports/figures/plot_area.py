"""Plot area of figure 5: conversion of win rates and dollars to pixels and back, axis ticks, places of names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from medhelm.reports.figures.labels import Box, PlacedLabel, place

if TYPE_CHECKING:
    from medhelm.analysis.leaderboard.types import Average

SMALL, LARGE = (620, 420), (880, 640)
"""Width and height in pixels, for few and for many models."""

MANY = 14
"""Largest number of models in a small plot."""

FONT_SIZE = 11.0
"""Font size of names, in pixels."""

LEADER = 16.0
"""Distance in pixels above which a line joins point and name."""

TICKS = (
    (1.0,),
    (1.0, 3.0),
    (1.0, 2.0, 5.0),
    (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
    (1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0),
)
"""Ticks within a power of ten, coarse to fine."""

FEWEST_TICKS, MOST_TICKS = 4, 12


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """One model of the plot."""

    name: str
    """Name shown in the plot."""
    cost_usd: float
    """Cost, above 0."""
    value: float
    """Win rate."""
    low: float
    """Lower end of its interval; the win rate itself without an interval."""
    high: float
    """Upper end."""


def interval_of(average: Average) -> tuple[float, float]:
    """Return the ends of an interval; the value itself if nothing was resampled."""
    low = average.value if average.low is None else average.low
    high = average.value if average.high is None else average.high
    return low, high


@dataclass(frozen=True, slots=True)
class PlotArea:
    """Plot area with a linear axis of win rates and a logarithmic axis of dollars."""

    width: int
    """Pixels."""
    height: int
    """Pixels."""
    low: float
    """Win rate at the lower edge."""
    high: float
    """Win rate at the upper edge."""
    cheap: float
    """Dollars at the left edge."""
    dear: float
    """Dollars at the right edge."""

    def down(self, value: float) -> float:
        """Return the distance of a win rate from the top, in pixels."""
        return self.height * (self.high - value) / (self.high - self.low)

    def win_rate(self, down: float) -> float:
        """Return the win rate at a distance from the top."""
        return round(self.high - down / self.height * (self.high - self.low), 6)

    def across(self, dollars: float) -> float:
        """Return the distance of a cost from the left edge, in pixels."""
        return self.width * math.log(dollars / self.cheap) / math.log(self.dear / self.cheap)

    def dollars(self, across: float) -> float:
        """Return the cost at a distance from the left edge."""
        return float(f"{self.cheap * (self.dear / self.cheap) ** (across / self.width):.6g}")

    @property
    def ticks(self) -> list[float]:
        """Return round costs for the axis: the coarsest steps that give enough ticks."""
        powers = range(math.floor(math.log10(self.cheap)), math.ceil(math.log10(self.dear)) + 1)
        found: list[float] = []
        for steps in TICKS:
            every = [float(f"{step}e{power}") for power in powers for step in steps]
            found = [tick for tick in every if self.cheap <= tick <= self.dear]
            if len(found) >= FEWEST_TICKS:
                break
        return found[:: math.ceil(len(found) / MOST_TICKS)] if found else []

    def names(self, spots: Sequence[PlotPoint], frontier: Sequence[PlotPoint]) -> list[PlacedLabel]:
        """Return places of names that avoid points, error bars and the frontier line."""
        points = [(self.across(spot.cost_usd), self.down(spot.value)) for spot in spots]
        bars = [
            (x - 2, self.down(spot.high), x + 2, self.down(spot.low))
            for (x, _), spot in zip(points, spots, strict=True)
        ]
        corners = [(self.across(spot.cost_usd), self.down(spot.value)) for spot in frontier]
        texts = [spot.name for spot in spots]
        return place(
            points, texts, bounds=(self.width, self.height), size=FONT_SIZE, bars=[*bars, *_along_steps(corners)]
        )

    def leader(self, spot: PlotPoint, label: PlacedLabel) -> dict[str, float] | None:
        """Return the line from a point to its name, in dollars and win rates; None if the name is near."""
        x, y = self.across(spot.cost_usd), self.down(spot.value)
        left, top, right, bottom = label.box
        end = min(max(x, left), right), min(max(y, top + 2), bottom - 2)
        if math.dist(end, (x, y)) <= LEADER:
            return None
        return {"x": spot.cost_usd, "y": round(spot.value, 6), "x2": self.dollars(end[0]), "y2": self.win_rate(end[1])}


def plot_area(averages: Sequence[Average], costs: Sequence[float]) -> PlotArea:
    """Return a plot area that covers all intervals, in tenths, and all costs above 0, with margins."""
    lows, highs = zip(*(interval_of(average) for average in averages), strict=True)
    bottom = max(0.0, math.floor((min(lows) - 0.02) * 10) / 10)
    top = min(1.0, math.ceil((max(highs) + 0.02) * 10) / 10)
    low, high = math.log(min(costs)), math.log(max(costs))
    # At least a factor of 2 from edge to edge, so that there are round costs for ticks.
    room = max((high - low) * 0.12, (math.log(2.0) - (high - low)) / 2)
    size = LARGE if len(averages) > MANY else SMALL
    return PlotArea(*size, bottom, top, math.exp(low - room), math.exp(high + room))


def spread(heights: Sequence[float], room: float) -> list[float]:
    """Move lines of text apart so that none covers another, within `room` if possible."""
    gap = min(FONT_SIZE * 1.3, room / max(len(heights), 1))
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    found = list(heights)
    free = gap / 2
    for i in order:
        found[i] = max(found[i], free)
        free = found[i] + gap
    free = room - gap / 2
    for i in reversed(order):
        found[i] = min(found[i], free)
        free = found[i] - gap
    return found


def _along_steps(corners: Sequence[tuple[float, float]]) -> list[Box]:
    """Return thin boxes along a step line: across at the height of the first point, then up or down to the second."""
    boxes: list[Box] = []
    for (x, y), (x2, y2) in pairwise(corners):
        boxes += [(x, y - 2, x2, y + 2), (x2 - 2, min(y, y2), x2 + 2, max(y, y2))]
    return boxes
