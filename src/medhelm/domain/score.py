"""Scores of instances, and estimates over instances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from medhelm.domain.completion import Failure

Rule = Literal["corrected", "published"]
"""Rule of a metric: as its authors meant it, or exactly as the published leaderboard computed it."""

RULES: tuple[Rule, ...] = ("corrected", "published")
"""Both rules, the default one first."""

HALF = 0.5
"""Share of the scale from which a score counts as right, and a difference between judges as a disagreement."""

Resample = Literal["instances", "benchmarks", "none"]
"""Unit to resample for intervals and tests of scores."""

Parts = Mapping[str, tuple[float, float]]
"""Label -> numerator and denominator. The metric is the mean over labels of the ratios of sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One score of one instance. `value` is None if and only if `failure` is set."""

    metric: str
    """Name of the metric."""
    rule: Rule
    """Rule that was applied."""
    value: float | None
    """In the metric's own unit."""
    failure: Failure | None = None
    """Reason for the missing value."""
    parts: Parts = field(default_factory=dict)
    """Contribution to a metric that is not a mean over instances; empty for a mean."""
    cut: bool = False
    """True if the metric read only the beginning of a text; not stored with the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantBaseline:
    """Score of the same completion for every instance. A model below it is worse than guessing."""

    answer: str
    """The most frequent correct answer."""
    share: float
    """Share of instances where it is correct, 0..1."""
    values: Mapping[Rule, float | None]
    """Rule -> score in the metric's own unit; None if it cannot be scored."""
    metric: str = ""
    """Name of the metric: the benchmark's first one that needs no judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean with its 95% interval."""

    value: float
    """The mean, in the metric's own unit."""
    low: float
    """Lower end of the 95% interval."""
    high: float
    """Upper end of the 95% interval."""
    n: int
    """Instances in the mean."""
    n_failed: int = 0
    """Instances without a score, not in the mean."""
    method: str = ""
    """Method of the interval, such as `wilson` or `skew-t`: see `medhelm.analysis.means`."""
