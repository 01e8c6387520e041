"""Scales from numbers to pixels, and their ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
"""Distances of ticks, times a power of ten."""

LOG_STEPS = ((1, 2, 5), (1, 3), (1,))
"""Ticks within a power of ten, from many to few."""


@dataclass(frozen=True, slots=True)
class LinearScale:
    """A range of numbers on a range of pixels. Numbers outside are placed at the nearer end."""

    low: float
    """Number at `start`."""
    high: float
    """Number at `end`, above `low`."""
    start: float
    """Pixel of `low`."""
    end: float
    """Pixel of `high`; below `start` on an axis that rises."""

    def __call__(self, value: float) -> float:
        """Return the pixel of a number."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[float]:
        """Return at most `most` round numbers within the range."""
        return linear_ticks(self.low, self.high, most)


@dataclass(frozen=True, slots=True)
class LogScale:
    """A range of positive numbers on a range of pixels, equal ratios equally far apart."""

    low: float
    """Number at `start`, above 0."""
    high: float
    """Number at `end`, above `low`."""
    start: float
    """Pixel of `low`."""
    end: float
    """Pixel of `high`."""

    def __call__(self, value: float) -> float:
        """Return the pixel of a positive number."""
        inside = min(max(value, self.low), self.high)
        share = math.log(inside / self.low) / math.log(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 7, least: int = 2) -> list[float]:
        """Return round numbers within the range, at most `most` unless the range spans more powers of ten.

        Parameters: least, how many powers of ten and simple multiples must be in the range to be its ticks.
        """
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        found: list[float] = []
        for steps in LOG_STEPS:
            found = [step * 10.0**power for power in powers for step in steps]
            found = [tick for tick in found if self.low * (1 - 1e-9) <= tick <= self.high * (1 + 1e-9)]
            if len(found) <= most:
                break
        if len(found) >= least:
            return found[:: math.ceil(len(found) / most)]
        return [tick for tick in linear_ticks(self.low, self.high, 2 + least) if tick > 0]


def linear_ticks(low: float, high: float, most: int) -> list[float]:
    """Return at most `most` round numbers from low to high.

    >>> linear_ticks(0.13, 0.91, 6)
    [0.2, 0.4, 0.6, 0.8]
    """
    rough = (high - low) / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    for step in (step * power * larger for larger in (1, 10) for step in STEPS):
        first = math.ceil(low / step - 1e-9)
        found = [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]
        if len(found) <= most:
            break
    places = max(0, 1 - math.floor(math.log10(step)))
    return [round(tick, places) for tick in found]


def domain(
    values: Iterable[float | None], *, low: float | None = None, high: float | None = None
) -> tuple[float, float]:
    """Return a range with round ends that holds all known values, within the ends of the metric's scale.

    Parameters: low, high, ends of the metric's scale; None for no end. Identical values get a range around them.

    >>> domain([0.42, 0.61, None], low=0, high=1)
    (0.4, 0.65)
    """
    known = finite(values)
    if not known:
        start = 0.0 if low is None else low
        return start, max(1.0 if high is None else high, start + 1e-6)
    least, most = min(known), max(known)
    smallest = 0.1 if low is None or high is None else (high - low) / 10
    spread = max((most - least) * 1.08, smallest, 1e-6 * max(abs(least), abs(most)))
    middle = (least + most) / 2
    step = next(s for s in _steps(spread) if spread / s <= 8)
    start, end = math.floor((middle - spread / 2) / step) * step, math.ceil((middle + spread / 2) / step) * step
    start = start if low is None else max(start, min(low, least))
    end = end if high is None else min(end, max(high, most))
    return round(start, 9), round(end, 9) if end > start else start + smallest


def _steps(spread: float) -> Iterable[float]:
    """Yield round steps, from a tenth of the spread up."""
    first = math.floor(math.log10(spread)) - 1
    return (step * 10.0**power for power in count(first) for step in (1.0, 2.0, 5.0))


def finite(values: Iterable[float | None]) -> list[float]:
    """Return the values that are known and finite."""
    return [value for value in values if value is not None and math.isfinite(value)]


def known(value: float | None) -> float | None:
    """Return a value, or None for nan and infinity."""
    return None if value is None or not math.isfinite(value) else float(value)


def tick_text(value: float, ticks: Iterable[float]) -> str:
    """Return a tick with the decimals that all ticks of its axis need.

    >>> tick_text(0.5, [0.25, 0.5]), tick_text(-2.0, [-2.0, 0.0])
    ('0.50', '−2')
    """
    places = max((_decimals(tick) for tick in ticks), default=0)
    return f"{value:.{places}f}".replace("-", "−")


def _decimals(value: float) -> int:
    text = f"{value:.6f}".rstrip("0")
    return len(text.partition(".")[2])


def dollars(value: float) -> str:
    """Return an amount of US dollars: cents from 10 cents on, two significant digits below.

    >>> dollars(0.0042), dollars(0.5), dollars(3.0), dollars(12345.6)
    ('$0.0042', '$0.50', '$3', '$12,346')
    """
    if value >= 10 or value == round(value):
        return f"${value:,.0f}"
    if value >= 0.1:
        return f"${value:.2f}"
    places = min(1 - math.floor(math.log10(value)), 12)
    return f"${value:.{places}f}".rstrip("0")
