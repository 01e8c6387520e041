"""Scores of instances, and estimates over instances."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, Literal

from medhelm.domain.completion import Failure

# --- score ------------------------------------------------------------------------------------------------------------

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


# --- remark -----------------------------------------------------------------------------------------------------------
# Remarks: findings that a reader of a table, report or page should know.


@dataclass(frozen=True, slots=True)
class Remark:
    """One finding about results, for people and for programs.

    >>> str(Remark(code="few_instances", subject="pubmed_qa", text="PubMedQA has 12 instances: intervals are wide."))
    'PubMedQA has 12 instances: intervals are wide.'
    """

    code: str
    """Kind of finding, in snake case, such as `few_instances`: stable, so that programs can filter on it."""
    subject: str
    """Name of the model, benchmark, judge or metric it is about; empty for the results as a whole."""
    text: str
    """One or two complete sentences: the finding, its numbers, and what to do about it."""

    def __str__(self) -> str:
        """Return the text, for tables and logs."""
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A command that gives runs the conditions of others."""

    action: Literal["run", "rescore", "rejudge"]
    """Subcommand of `medhelm`."""
    models: tuple[str, ...] = ()
    """Models to name; empty for all that have runs."""
    options: tuple[str, ...] = ()
    """Other words after the names of the benchmarks."""
    like: str = ""
    """HELM run whose prompts are used, instead of names of benchmarks."""
    sends_nothing: bool = False
    """True if it needs no new completion."""

    def command(self, benchmarks: Sequence[str]) -> str:
        """Return the command for these benchmarks.

        >>> Remedy(action="rescore", models=("m",)).command(["medec"])
        'medhelm rescore medec --model m'
        """
        what = ["--like", self.like] if self.like else benchmarks
        models = [word for model in self.models for word in ("--model", model)]
        return shlex.join(["medhelm", self.action, *what, *models, *self.options])


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A model that does not count on a benchmark, because it was measured under other conditions than the rest."""

    model: str
    """Name of the model on the leaderboard."""
    benchmark: str
    """Id of the benchmark."""
    title: str
    """Name of the benchmark for people."""
    reason: str
    """The conditions that differ, such as `sampled at temperature 0.7, the others at 0`."""
    remedy: Remedy
    """Command that makes the model count."""

    @property
    def command(self) -> str:
        """Return the command after which the model counts."""
        return self.remedy.command([self.benchmark])


# --- release ----------------------------------------------------------------------------------------------------------
# Releases: frozen leaderboards and the provenance of each number.


@dataclass(frozen=True, slots=True, kw_only=True)
class CellProvenance:
    """Provenance of one model's score on one benchmark: digests, names, prices."""

    model: str
    """Name of the model on the leaderboard."""
    benchmark: str
    """Id of the benchmark."""
    run_id: str
    """Id of the run."""
    started: str
    """Start time of the run, ISO 8601, UTC."""
    n: int
    """Number of instances."""
    metric: str
    """Metric on the leaderboard."""
    definition: str
    """Digest of the benchmark's definition."""
    data: str
    """Digest of the data files and of the selection of instances."""
    prompts: str
    """Digest of all prompts; empty if they are not stored."""
    settings: Mapping[str, Any]
    """User settings and decoding limits."""
    records: str
    """sha256 of the stored records: completions and scores."""
    judgments: str
    """sha256 of the stored judgments; empty without a jury."""
    snapshots: Sequence[str]
    """Model names in the responses; several if the model behind the name changed."""
    jury: Mapping[str, Sequence[str]]
    """Judge -> model names in its responses; empty without a jury."""
    min_judges: int
    """Complete judges that an instance needs; 0 without a jury."""
    prices: Mapping[str, Any]
    """Name of the model or judge -> price per million tokens and its source; None if unknown."""
    versions: Mapping[str, str]
    """Versions of MedHELM and Python."""
    origin: Mapping[str, Any] = field(default_factory=dict)
    """Origin of an imported run; empty for other runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A frozen leaderboard."""

    name: str
    """Name of the release."""
    created: str
    """Time of the release, ISO 8601, UTC."""
    medhelm_version: str
    """Version of MedHELM that made it."""
    note: str
    """Note of its author."""
    options: Mapping[str, Any]
    """Options of the leaderboard: scoring, tier, suite and so on."""
    suite_text: str = ""
    """Content of the suite file named in `options`; empty for a built-in suite."""
    provenance: tuple[CellProvenance, ...]
    """Provenance of each run, by model and benchmark."""
    leaderboard: Mapping[str, Any]
    """The leaderboard, as `leaderboard --format json` prints it."""
    sha256: str
    """sha256 of `leaderboard.json`."""


# --- display ----------------------------------------------------------------------------------------------------------
# Display of results in Python and in notebooks.


class Displayable:
    """An object with a short `repr`, a table for notebooks, and conversions to JSON and to data frames."""

    __slots__ = ()

    VIEW: ClassVar[str]
    """`module:name` of the `ObjectView` that renders it, in `results`, a layer above; imported on first use."""

    def _view(self) -> Any:
        module, _, name = self.VIEW.partition(":")
        return getattr(import_module(module), name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._view().summarize(self)}>"

    def __str__(self) -> str:
        return str(self._view().to_text(self))

    def _repr_html_(self) -> str:
        return str(self._view().to_html(self))

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON values, with the keys of the command's `--json`."""
        result: dict[str, Any] = self._view().as_json(self)
        return result

    def to_frame(self, by: str = "", *, library: str = "") -> Any:
        """Return the result as a data frame, every number in a column of its own.

        Parameters
        ----------
        by
            Rows of a leaderboard: `overall`, `category`, `subcategory`, `benchmark` or `head-to-head`.
        library
            `pandas` or `polars`; empty for the one that is installed, pandas if both are.

        Raises
        ------
        MissingError
            If neither pandas nor polars is installed.
        UserError
            For another `by` or `library`.
        """
        return self._view().to_frame(self, by, library)
