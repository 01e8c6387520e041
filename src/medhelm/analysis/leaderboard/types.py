"""Types of a leaderboard and its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, ClassVar, Literal

from medhelm.analysis.frontier import CostFrontier
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.planned_cost import CompletionUse
from medhelm.domain import Estimate, InjectionEffect, Rule, Tier
from medhelm.domain.benchmark import group_by
from medhelm.domain.result import Displayable, LeftOut, Remark
from medhelm.domain.study import StudyCard
from medhelm.domain.text import listed

if TYPE_CHECKING:
    from medhelm.analysis.agreement.clinician_means import ClinicianMean
    from medhelm.analysis.comparison.pairs import AllPairs

IntervalUnit = Literal["instances within benchmarks", "benchmarks", "nothing"]
"""Unit of the intervals of averages and of the tests behind ranks: other instances, or other benchmarks."""

RankedBy = Literal["macro average", "win rate", "mean score"]
"""Number that decides ranks: macro averages; with one benchmark its mean; win rates where instance scores are not
known, and with published scoring, as in the paper. Each is adjusted for the benchmarks that a model lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Average:
    """An average over benchmarks with its interval and spread."""

    value: float
    """The average."""
    low: float | None
    """Lower end of the 95% interval; None where there is no interval."""
    high: float | None
    """Upper end of the 95% interval; None where there is no interval."""
    sd: float | None
    """Its spread, over rivals or over benchmarks; None where there are too few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMean:
    """A model's mean over the benchmarks of a category or subcategory."""

    value: float | None
    """Weighted mean of the normalized values, 0..1; None if the model has none of the benchmarks."""
    n_benchmarks: int
    """Benchmarks behind it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Row:
    """One model on the board."""

    model: str
    """Name of the model."""
    rank: int | None
    """Place by `Leaderboard.ranked_by`, from 1; equal ones share a place. None for a baseline that does not compete,
    for a model that no shared benchmark links to the ranked ones, and if no model has a value."""
    rank_low: int | None
    """Best place: one more than the models that are significantly better. The places of all models together hold the
    true ones with 95% confidence. None where models were not tested."""
    rank_high: int | None
    """Worst place: all models but those that are significantly worse."""
    tie_group: int | None
    """Models of one group cannot be separated from the best of the group; from 1. None as for `rank_low`."""
    win_share: Average | None
    """Share of rivals that its answers beat, instance by instance, a tie counting one half; averaged over instances and
    benchmarks. None where instance scores are not known, or for a model without a rival."""
    win_rate: Average | None
    """Share of rivals beaten on a benchmark, averaged over benchmarks. It has an interval only where benchmarks are the
    unit. None for a model that has no benchmark in common with another."""
    macro_average: Average | None
    """Mean over the benchmarks that it has; None for a model without any value."""
    n_benchmarks: int
    """Benchmarks on which it has a value."""
    coverage: float
    """Share of the board's benchmarks on which it has a value."""
    cost_usd: float | None
    """Cost of its runs on the board in US dollars; None if any of them is unknown."""
    cells: Mapping[str, Cell]
    """Benchmark id -> its cell, where there is one."""
    categories: Mapping[str, GroupMean]
    """Category id -> mean, for every category of the board."""
    subcategories: Mapping[str, GroupMean]
    """Subcategory id -> mean, for every subcategory of the board."""
    tie_letters: str = ""
    """One or more letters; two models share one if and only if they were compared and do not differ significantly.
    Empty where models were not tested, for a model without a rank, and if there are too many groups."""
    adjusted_average: Average | None = None
    """Macro average adjusted for the benchmarks that it lacks, by least squares on model and benchmark; benchmarks that
    a single model has do not count. Equals `macro_average` if all models have the same benchmarks."""
    worst_answers: Estimate | None = None
    """Share of the completions on benchmarks with grades whose grade is the worst one, with the failures that count as
    the worst answer; None without such benchmarks."""
    below_floor: Estimate | None = None
    """Share of the completions on benchmarks with floors that are below a floor, with the failures that count as the
    worst answer; None without such benchmarks, or without grades."""
    average_with_floors: Average | None = None
    """The average that ranks, where each completion below a floor counts as the worst answer; None without floors."""
    rank_with_floors: int | None = None
    """Place by this average; None without floors, and for a model without a rank."""
    ranking_value: float | None = None
    """The number that ranks it; None for a model without one."""
    guarded_win_rate: float | None = None
    """Win rate with all missing values counted as losses. Equals the win rate if no value is missing; None if there is
    only one model, or no value. Against a panel, a panel model's own value counts as one more tie."""
    guarded_win_share: float | None = None
    """Win share with all missing benchmarks counted as losses. Against a panel, a panel model's own answer counts as
    one more tie."""
    published: bool = False
    """True if its scores are published ones and were not measured here."""
    win_share_over_benchmarks: Average | None = None
    """Win share with an interval for other benchmarks of the same kind, where `win_share` has one for other instances
    of these benchmarks. None for one benchmark."""
    macro_over_benchmarks: Average | None = None
    """Macro average with such an interval."""
    rank_bounds: tuple[int, int] | None = None
    """Rank if all its missing scores were the best, and the worst; None if nothing is missing, or for many models."""
    macro_bounds: tuple[float, float] | None = None
    """Macro average if all missing scores were the worst, and the best; None if nothing is missing."""
    clinicians: ClinicianMean | None = None
    """Mean rating by clinicians over the benchmarks that they rated, from 0 to 1; None if they rated nothing."""
    calibrated_average: float | None = None
    """Macro average with scores calibrated to clinicians' ratings in place of the jury's; None without such scores, and
    for a model that lacks a benchmark."""
    use: CompletionUse | None = None
    """Cost, tokens and time of its completions, without judges; None if the use of any run is unknown."""

    def __repr__(self) -> str:
        return f"<Row: {self.model}, rank {self.rank}, {self.n_benchmarks} benchmarks>"

    @property
    def cost_is_ceiling(self) -> bool:
        """True if the cost is a published one: all completions as long as allowed, and judges included."""
        return self.published and self.cost_usd is not None

    @property
    def usd_per_1000(self) -> float | None:
        """Cost of 1,000 completions in US dollars; None if the cost, or the number of completions, is unknown."""
        counts = [cell.n_completions for cell in self.cells.values()]
        known = [count for count in counts if count is not None]
        if self.cost_usd is None or len(known) < len(counts) or not sum(known):
            return None
        if any(cell.use and not cell.use.has_known_cost for cell in self.cells.values()):
            return None
        return 1000 * self.cost_usd / sum(known)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Leaderboard(Displayable):
    """Models in order of rank, on the benchmarks that at least one of them was run on."""

    VIEW: ClassVar[str] = "medhelm.results.leaderboard_view:VIEW"

    rows: tuple[Row, ...]
    """One per model, best first."""
    columns: tuple[Column, ...]
    """One per benchmark, in the order asked for."""
    mde: Mapping[str, float | None]
    """Benchmark id -> minimum detectable effect on the 0..1 scale; None where single scores are not known."""
    interval_method: IntervalUnit
    """Unit of the intervals and tests."""
    ranked_by: RankedBy
    """Number that decides ranks."""
    pairs: AllPairs | None
    """The tests of every two models, in order of rank without a panel; None where models were not tested."""
    panel: tuple[str, ...] | None = None
    """Models against which win shares and win rates are computed; None: the other models on the leaderboard."""
    frontier: CostFrontier | None = None
    """The efficient frontier by macro average and cost; None unless two models can be compared by cost."""
    baselines: tuple[Row, ...] = ()
    """Baselines, shown below the models and outside ranks, win shares and win rates: they have no rank. Empty if the
    board holds nothing else, or they are ranked on request."""
    verdict: tuple[str, ...] = ()
    """The verdict in sentences: who leads, who cannot be separated, and what it costs."""
    remarks: tuple[Remark, ...] = ()
    """Limits of the comparison, and which differences are significant."""
    left_out: tuple[LeftOut, ...] = ()
    """Models that do not count on a benchmark, because they were measured under other conditions than the rest."""
    injection_effects: tuple[InjectionEffect, ...] = ()
    """Completions with signs of a prompt injection, and the mean jury score with and without them."""
    studies: tuple[StudyCard, ...] = ()
    """Cards of the studies whose ratings by clinicians it shows; empty for those of a file."""
    suite: str = "all"
    """Name of the selection of benchmarks."""
    suite_description: str = ""
    """Purpose of the selection, as its author described it; may be empty."""
    scoring: Rule = "corrected"
    """Scoring rule."""
    tier: Tier = "real"
    """Real data or sample rows."""

    @property
    def all_rows(self) -> tuple[Row, ...]:
        """Models in order of rank, then baselines."""
        return (*self.rows, *self.baselines)

    @property
    def has_floors(self) -> bool:
        """True if the share of completions below a floor is known for some model."""
        return any(row.below_floor for row in self.all_rows)

    @property
    def has_clinicians(self) -> bool:
        """True if clinicians rated some completion."""
        return any(row.clinicians for row in self.all_rows)

    @property
    def is_complete(self) -> bool:
        """True if every model has a value on every benchmark that any of them has."""
        having = [{name for name, cell in row.cells.items() if cell.value is not None} for row in self.rows]
        return all(names == having[0] for names in having)

    def ranking_average(self, row: Row) -> Average | None:
        """Return the average that ranks."""
        return row.win_rate if self.ranked_by == "win rate" else row.adjusted_average

    @cached_property
    def separated(self) -> frozenset[tuple[str, str]]:
        """Pairs of models, better one first, that differ at the 5% level after Holm correction for all pairs."""
        return frozenset() if self.pairs is None else self.pairs.separated()

    @property
    def n_tested(self) -> int:
        """Number of pairs of models that were compared."""
        return 0 if self.pairs is None else int(self.pairs.is_tested.sum())

    def were_compared(self, one: str, other: str) -> bool:
        """Return whether two models share a benchmark on which they were tested."""
        return self.pairs is None or frozenset((one, other)) not in self._not_compared

    @cached_property
    def _not_compared(self) -> frozenset[frozenset[str]]:
        return (
            frozenset() if self.pairs is None else frozenset(map(frozenset, self.pairs.pairs_of(~self.pairs.is_tested)))
        )

    @cached_property
    def nominally_different(self) -> frozenset[tuple[str, str]]:
        """Pairs of models, better one first, whose unadjusted p-value is below 5%: of 100 equal pairs, about five."""
        return frozenset() if self.pairs is None else self.pairs.nominally_different()


READING_REMARKS = {"model_lacks_benchmarks", "no_completions", "other_benchmark_version"}
"""Codes of remarks that change how to read a leaderboard, also if they are about one model."""

MOST_REMARKS = 5
"""Most remarks that are shown at first."""

METHOD_REMARKS = {
    *("interval_basis", "significant_pairs", "too_many_models", "weighted_benchmarks", "panel", "extended_rubric"),
    *("no_verification_codes", "cost_ceilings", "rounded_scores", "reference_prompts"),
}
"""Codes of remarks on the method."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemarkGroups:
    """The texts of a leaderboard's remarks by what they are about."""

    reading: Sequence[str]
    """Those that change how to read the leaderboard; the first of every kind come before the others."""
    models: Mapping[str, Sequence[str]]
    """Model -> those about it alone, in order of rank, without its name and a colon at their start."""
    method: Sequence[str]
    """Those on the method."""

    @property
    def first(self) -> Sequence[str]:
        """Return those that a leaderboard begins with."""
        return self.reading[:MOST_REMARKS]

    @property
    def further(self) -> Sequence[str]:
        """Return the other ones that change how to read the leaderboard."""
        return self.reading[MOST_REMARKS:]

    @property
    def n_on_models(self) -> int:
        """Return the number of those about single models."""
        return sum(map(len, self.models.values()))


def remark_groups(board: Leaderboard) -> RemarkGroups:
    """Return the remarks of a leaderboard by what they are about."""
    subjects = {row.model for row in board.all_rows}
    others = [one for one in board.remarks if one.subject not in subjects or one.code in READING_REMARKS]
    models = {
        name: [one.text.removeprefix(f"{name}: ") for one in own if one.code not in READING_REMARKS]
        for name, own in group_by(board.remarks, lambda remark: remark.subject).items()
    }
    reading = [remark for remark in others if remark.code not in METHOD_REMARKS]
    by_kind = group_by(reading, lambda remark: remark.code).values()
    return RemarkGroups(
        reading=[str(remark) for one in zip_longest(*by_kind) for remark in one if remark],
        models={row.model: own for row in board.all_rows if (own := models.get(row.model))},
        method=[str(remark) for remark in others if remark.code in METHOD_REMARKS],
    )


def short_remarks(board: Leaderboard, more: str) -> list[str]:
    """Return the first remarks that change how to read a leaderboard, and the number of the others; all if few.

    `more`: sentence on where the others are.
    """
    if len(board.remarks) <= MOST_REMARKS:
        return [str(remark) for remark in board.remarks]
    found = remark_groups(board)
    by_number = sorted(found.models.items(), key=lambda pair: -len(pair[1]))
    models = listed([f"{model} {len(own)}" for model, own in by_number], MOST_REMARKS)
    counts = {
        f"{len(found.further)} more on the reading": found.further,
        f"{found.n_on_models} about single models ({models})": found.models,
        f"{len(found.method)} on the method": found.method,
    }
    return [*found.first, f"Not shown: {listed([text for text, own in counts.items() if own])}. {more}"]
