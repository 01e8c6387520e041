"""How good it was: scores, records, runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from medhelm.domain.answered import Completion, Failure, Usage
from medhelm.domain.asked import Taxonomy, Tier

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
class Record:
    """Everything about one instance in one run."""

    position: int
    """Place of the instance in the run, from 0."""
    instance_id: str
    """Name of the instance."""
    cluster: str
    """Its cluster; empty if independent."""
    group: str = ""
    """Its group; empty where there are none."""
    request_digest: bytes
    """Key of the completion in the cache; empty if it was made within this process."""
    completion: Completion
    """What came back."""
    scores: tuple[Score, ...]
    """Every metric under both rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """What one and the same answer to every question scores: a model below it has learned nothing of the task."""

    answer: str
    """The most frequent right answer."""
    share: float
    """How often it is the right one, 0..1."""
    values: Mapping[Rule, float | None]
    """Rule -> what it scores on the main metric, in its own unit; None where it cannot be scored."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One model on one benchmark with fixed settings: numbers only, no text of patients or models."""

    id: str
    """Digest of what was run: benchmark, data, model, settings."""
    benchmark: str
    """Name of the benchmark."""
    title: str
    """Name of the benchmark for people."""
    taxonomy: Taxonomy
    """Its place in the taxonomy."""
    benchmark_digest: str
    """Digest of its definition."""
    data_digest: str
    """Digest of the data files and of the selection of instances."""
    model: str
    """Name of the model."""
    tier: Tier
    """Real data or sample rows."""
    status: Literal["complete", "partial", "failed"]
    """All instances have a completion or a failure of their own; stopped before; or nothing could be asked."""
    settings: Mapping[str, Any]
    """What the user chose, and decoding limits."""
    started: str
    """Time of the start, ISO 8601, UTC."""
    seconds: float
    """Wall-clock time."""
    n: int
    """Instances that should have been answered."""
    n_failed: int
    """Instances without a completion."""
    failures: Mapping[str, int]
    """Failure code -> how many instances."""
    requests_sent: int
    """Requests that left for the provider in this execution, retries included."""
    requests_cached: int
    """Completions that were there already."""
    usage: Usage
    """Tokens behind all completions, whenever they were paid for."""
    cost_usd: float | None
    """Price of that usage; None if the model's price is not known."""
    main_metric: str
    """The metric that leaderboards show."""
    estimates: Mapping[Rule, Mapping[str, Estimate]]
    """Rule -> metric -> mean with interval."""
    groups: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    """Group -> mean of the main metric by each rule (None if nothing was scored), and `n`, the instances scored."""
    not_computed: Mapping[str, str] = field(default_factory=dict)
    """Metric that needs something that was not here -> what, in words."""
    message: str = ""
    """Why it stopped early, in words; empty if it did not."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of this package and of Python."""
    folder: Path | None = None
    """Where it is stored; None if it is not."""
