"""How good it was: scores and estimates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from medhelm.domain.completion import Failure

Rule = Literal["corrected", "published"]
"""How a metric is computed: as its authors meant it, or bug for bug as the published leaderboard did."""

RULES: tuple[Rule, ...] = ("corrected", "published")
"""Both rules, the default one first."""

Parts = Mapping[str, tuple[float, float]]
"""Label -> numerator and denominator: the number is the mean over labels of the ratios of their sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One number for one instance. `value` is None if and only if `failure` is set."""

    metric: str
    """Name of the metric."""
    rule: Rule
    """Which of its two rules was applied."""
    value: float | None
    """In the metric's own unit."""
    failure: Failure | None = None
    """Why there is no number."""
    parts: Parts = field(default_factory=dict)
    """What the instance contributes to a number that is no mean over instances; empty where it is a mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantBaseline:
    """What one and the same answer to every question scores: a model below it has learned nothing of the task."""

    answer: str
    """The most frequent right answer."""
    share: float
    """How often it is the right one, 0..1."""
    values: Mapping[Rule, float | None]
    """Rule -> what it scores, in the metric's own unit; None where it cannot be scored."""
    metric: str = ""
    """Name of the metric: the first of the benchmark that needs no judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean and how far it can be trusted."""

    value: float
    """The mean, in the metric's own unit."""
    low: float
    """Lower end of the 95 % interval."""
    high: float
    """Upper end of the 95 % interval."""
    n: int
    """Instances behind it."""
    n_failed: int = 0
    """Instances without a number, left out of the mean."""
    method: str = ""
    """How the interval was made, such as `wilson` or `bootstrap-2000`."""
