"""Agreement of a jury with clinicians, and of clinicians with each other, on the same completions, and the verdict.

The number of the paper: of each completion the mean of its clinicians' composites and the jury's composite, each of the
two standardized over all completions (mean 0, sample standard deviation 1), then ICC(3,k) with k = 2. For two
standardized raters this is 2 r / (1 + r), r being their correlation: it says whether both put completions in the same
order at the same distances, not whether they give the same grades. ICC(2,1) on the raw scale says that, and is reported
with it, as is the mean difference between the two. Its interval is Fisher's for r, mapped through the same formula:
that of F holds for raw ratings, not after standardizing.

Clinicians with each other are measured from all ratings at once (`reliability`), as is the jury with a single
clinician, so that the two can be compared. The paper's mean over pairs of clinicians is kept beside it: it is near 1
for clinicians who guess, where pairs share few completions.

A composite is the mean of a rating's grades on all criteria; a rating without all grades has none. Nothing is imputed
and no interval is truncated at 0. A value that cannot be computed is None, and a remark gives the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.agreement.coefficients import (
    LEAST_SHARED,
    Coefficient,
    Icc,
    PairwiseCoefficient,
    average_over_pairs,
    icc,
    pearson,
    require_finite,
    require_scale,
    resampled_kappa,
    resampled_spearman,
    spearman,
    weighted_kappa,
)
from medhelm.analysis.agreement.reliability import JuryAndRaters, jury_and_raters
from medhelm.analysis.means import DRAWS, BootstrapResult, Floats, bootstrap_statistic, estimate, row_means
from medhelm.domain import Estimate
from medhelm.domain.result import Remark
from medhelm.domain.study import StudyCard

ROUNDING = 1e-9
"""Shares below this are rounding errors."""

NAMED = 5
"""Maximum number of completions named in a remark."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RatingMatrix:
    """Grades of n completions by clinicians and judges; nan where there is no grade, and high grades are good."""

    cases: Sequence[str]
    """Names of the n completions."""
    clusters: Sequence[str]
    """Completions with the same name are not independent, such as answers to the same instance; n names."""
    raters: Sequence[str]
    """Clinicians, R names."""
    criteria: Sequence[str]
    """Names of the C criteria."""
    grades: Floats
    """Shape (n, R, C): the clinicians' grades."""
    composites: Floats
    """Shape (n, R): mean of each rating's grades."""
    jury_grades: Floats
    """Shape (n, C): the jury's grades."""
    jury: Floats
    """Shape (n,): the jury's score."""
    judges: Mapping[str, Floats]
    """Judge -> its scores, shape (n,)."""
    baselines: Mapping[str, Floats]
    """Metric -> its values, shape (n,), in a unit of their own."""
    low: float
    """The worst grade."""
    high: float
    """The best grade."""
    whole_grades: bool = True
    """True if grades are whole numbers, so that means can be rounded to grades."""

    def __post_init__(self) -> None:
        """Raise ValueError for infinite grades or scores, and for a scale without two finite ends in order."""
        for values in (self.grades, self.composites, self.jury_grades, self.jury, *self.judges.values()):
            require_finite(values)
        require_scale(self.low, self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementWithClinicians:
    """Agreement of a set of scores with the mean clinician ratings."""

    n: int
    """Number of completions that both scored."""
    consistency: Icc
    """ICC(3,k) of the two after standardizing, with the interval by Fisher's transformation."""
    resampled: BootstrapResult | None
    """The same with its bootstrap interval; None if not requested."""
    agreement: Icc | None
    """ICC(2,1) on the raw scale; None for scores in another unit."""
    difference: Estimate | None
    """Mean of the scores minus the clinicians', in grades; None for scores in another unit."""
    spearman: Coefficient
    """Rank correlation, with a bootstrap interval if requested."""
    kappa: Coefficient | None
    """Quadratic weighted kappa, both rounded to grades; None for scores that cannot be rounded to grades."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClinicianAgreement:
    """Agreement of pairs of clinicians, as published: ICC(3,k) on shared completions, ratings standardized there."""

    pairs: PairwiseCoefficient
    """All pairs that share a completion, and the mean over those that have a value."""
    low: float | None
    """Lower end of the bootstrap interval of the mean; None if undefined."""
    high: float | None
    """Upper end of that interval, or None."""
    reason: str
    """Reason if there is no interval, else empty."""
    pairs_low: float | None = None
    """Lower end of the bootstrap interval over pairs instead of completions; None if undefined."""
    pairs_high: float | None = None
    """Upper end of that interval, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkAgreement:
    """Agreement on one benchmark, or on several together."""

    n_instances: int
    """Number of completions with a composite by a clinician."""
    raters: Sequence[str]
    """Clinicians who gave one."""
    jury: AgreementWithClinicians
    """The jury against the clinicians."""
    clinicians: ClinicianAgreement
    """Clinicians against each other by the published rule, pair by pair."""
    one_clinician: JuryAndRaters
    """The jury against a single clinician, and one clinician against another, from all ratings at once."""
    criteria: Mapping[str, AgreementWithClinicians]
    """Criterion -> the jury against the clinicians on it."""
    by_criterion: Mapping[str, JuryAndRaters]
    """Criterion -> the jury against a single clinician on it, and one clinician against another."""
    judges: Mapping[str, AgreementWithClinicians]
    """Judge -> it alone against the clinicians."""
    baselines: Mapping[str, AgreementWithClinicians]
    """Metric -> its values against the clinicians."""
    remarks: tuple[Remark, ...]
    """Missing data and undefined coefficients, with the reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JuryAgreement:
    """Agreement of a jury with clinicians, and of clinicians with each other, by benchmark and overall."""

    place: str
    """Name of the file, or of the studies, for messages."""
    datasets: Mapping[str, BenchmarkAgreement]
    """Benchmark -> agreement on it, in the file's order."""
    combined: BenchmarkAgreement
    """Agreement on all of them together."""
    jury_from: str
    """Source of the jury's grades: `file` or `store`."""
    remarks: tuple[Remark, ...]
    """Limits of the ratings and the store."""
    not_compared: Mapping[str, str] = field(default_factory=dict)
    """Benchmark whose ratings cannot be compared with a jury -> the reason."""
    studies: Sequence[StudyCard] = ()
    """Cards of the studies that the ratings come from; empty for those of a file."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Benchmark -> its title for people; one without a title is named by its id."""

    def title(self, name: str) -> str:
        """Return the title of a benchmark for people, or its id."""
        return self.titles.get(name, name)


def measure_agreement(panel: RatingMatrix, rng: np.random.Generator, draws: int = DRAWS) -> BenchmarkAgreement:
    """Compute all measures of agreement of a panel. Completions without a clinician's composite are ignored."""
    rated = _rows_with(panel.composites)
    active = _rows_with(panel.composites.T)
    composites = panel.composites[rated][:, active]
    names = [name for name, one in zip(panel.raters, active, strict=True) if one]
    clinicians = row_means(panel.composites)
    scale = (panel.low, panel.high)

    def against(
        scores: Floats, *, means: Floats = clinicians, graded: bool = True, thorough: bool = False
    ) -> AgreementWithClinicians:
        times = draws if thorough else 0
        rounds = graded and panel.whole_grades
        return agreement_with_clinicians(
            scores, means, panel.clusters, scale=scale if graded else None, rounds=rounds, rng=rng, draws=times
        )

    jury = against(panel.jury, thorough=True)
    units = np.asarray(panel.clusters)[rated].tolist()
    among = clinician_agreement(composites, units, rng, draws)
    return BenchmarkAgreement(
        n_instances=int(rated.sum()),
        raters=tuple(names),
        jury=jury,
        clinicians=among,
        one_clinician=jury_and_raters(composites, panel.jury[rated], units),
        criteria={
            name: against(panel.jury_grades[:, j], means=row_means(panel.grades[:, :, j]))
            for j, name in enumerate(panel.criteria)
        },
        by_criterion={
            name: jury_and_raters(panel.grades[rated][:, active, j], panel.jury_grades[rated][:, j], units)
            for j, name in enumerate(panel.criteria)
        },
        judges={name: against(scores) for name, scores in panel.judges.items()},
        baselines={name: against(values, graded=False) for name, values in panel.baselines.items()},
        remarks=tuple(_remarks(panel, rated, composites, names, jury, among)),
    )


def agreement_with_clinicians(
    scores: Floats,
    clinicians: Floats,
    clusters: Sequence[str],
    *,
    scale: tuple[float, float] | None,
    rounds: bool,
    rng: np.random.Generator,
    draws: int = DRAWS,
) -> AgreementWithClinicians:
    """Measure agreement of scores with the clinicians' means, both of shape (n,), on completions with both.

    Parameters: scale, worst and best grade, None if the scores have a unit of their own; rounds, whether both can be
    rounded to grades; draws of the bootstrap, 0 for none.
    """
    there = ~np.isnan(scores) & ~np.isnan(clinicians)
    both = np.stack([clinicians, scores], axis=1)[there]
    names = [name for name, one in zip(clusters, there, strict=True) if one]
    ranks = spearman(*both.T)
    kappa = weighted_kappa(*_whole_grades(both, scale).T) if scale and rounds else None
    consistency = standardized_icc(both)
    resampled = None
    if draws:
        resampled = bootstrap_statistic(len(both), partial(resampled_pair_icc, both), rng, draws, clusters=names)
        drawn = bootstrap_statistic(len(both), partial(resampled_spearman, *both.T), rng, draws, clusters=names)
        ranks = _with_bootstrap_interval(ranks, drawn)
    if draws and kappa and scale:
        statistic = partial(resampled_kappa, *_whole_grades(both, scale).T)
        kappa = _with_bootstrap_interval(kappa, bootstrap_statistic(len(both), statistic, rng, draws, clusters=names))
    width = scale[1] - scale[0] if scale else 0.0
    return AgreementWithClinicians(
        n=len(both),
        consistency=consistency,
        resampled=resampled,
        agreement=icc(both, "2,1") if scale else None,
        difference=estimate(both[:, 1] - both[:, 0], names, low=-width, high=width) if scale else None,
        spearman=ranks,
        kappa=kappa,
    )


def standardized_icc(table: Floats) -> Icc:
    """Compute ICC(3,k) of a complete table of completions by two raters, with each rater standardized.

    It is 2 r / (1 + r), r being their correlation; the interval is Fisher's for r, mapped through the same formula.

    Returns: value None, with a reason, if a rater gives all completions the same grade, or if r is -1.

    >>> found = standardized_icc(np.array([[1, 20], [2, 10], [3, 40], [4, 30], [5, 50.0]]))
    >>> f"{found.value:.4f} ({found.low:.3f} to {found.high:.3f})"
    '0.8889 (-0.776 to 0.993)'
    """
    r = pearson(*np.asarray(table, dtype=float).T)
    n = len(table)
    value, low, high = (None if one is None else _consistency_of_two(one) for one in (r.value, r.low, r.high))
    reason = r.reason
    if r.value is None and n > 1:
        reason = f"one side gives all {n} completions the same grade"
    elif r.value is not None and value is None:
        reason = "raters contradict each other so much that the denominator is not positive"
    return Icc(form="3,k", value=value, low=low, high=high, n=n, k=2, n_left_out=0, reason=reason)


def _consistency_of_two(r: float) -> float | None:
    """Convert a correlation to the consistency of the mean of both raters; None where that is infinite."""
    return 2 * r / (1 + r) if r > ROUNDING - 1 else None


def resampled_pair_icc(ratings: Floats, counts: Floats) -> Floats:
    """Compute the mean of `standardized_icc` over pairs of raters, for many resamples at once.

    Parameters: ratings, shape (n, R), nan if missing; counts, shape (m, n), how often each resample drew each row.
    Returns: shape (m,), nan if no two raters share two rows on which neither is constant. Pairs without a value are
    left out.
    """
    there = ~np.isnan(ratings)
    values = np.where(there, ratings - row_means(ratings.T), 0.0)
    first, second = np.triu_indices(ratings.shape[1], k=1)
    shared = (there[:, first] & there[:, second]).astype(float)
    sides = values[:, first] * shared, values[:, second] * shared
    n = counts @ shared
    sums, squares = ([counts @ (side**power) for side in sides] for power in (1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = [square - total**2 / n for total, square in zip(sums, squares, strict=True)]
        r = (counts @ (sides[0] * sides[1]) - sums[0] * sums[1] / n) / np.sqrt(spread[0] * spread[1])
        found = 2 * r / (1 + r)
    varies = [own > ROUNDING * square for own, square in zip(spread, squares, strict=True)]
    usable = (n >= LEAST_SHARED) & varies[0] & varies[1] & (r > ROUNDING - 1)
    return row_means(np.where(usable, found, np.nan))


def clinician_agreement(
    composites: Floats, clusters: Sequence[str], rng: np.random.Generator, draws: int = DRAWS
) -> ClinicianAgreement:
    """Measure agreement of each pair of clinicians who share at least two completions, and its mean, as published.

    The interval of the mean is by bootstrap over completions; in each draw the pairs without a value are left out. A
    draw can leave a pair two completions that disagree, whose coefficient is far below 0, so this interval can be very
    wide. That of a bootstrap over the pairs' values takes each of these as it is.

    Parameters: composites, shape (n, R), nan where a clinician gave none; clusters, n names.
    """
    pairs = average_over_pairs(composites, standardized_icc)
    if pairs.value is None:
        return ClinicianAgreement(pairs=pairs, low=None, high=None, reason="no pair of clinicians has a value")
    statistic = partial(resampled_pair_icc, composites)
    found = bootstrap_statistic(len(composites), statistic, rng, draws, clusters=clusters)
    values = np.array([pair.value for pair in pairs.pairs if pair.value is not None])
    of_pairs = bootstrap_statistic(len(values), lambda counts: counts @ values / counts.sum(axis=1), rng, draws)
    return ClinicianAgreement(
        pairs=pairs,
        low=found.low,
        high=found.high,
        reason=found.reason,
        pairs_low=of_pairs.low,
        pairs_high=of_pairs.high,
    )


def pool_benchmarks(panels: Sequence[RatingMatrix]) -> RatingMatrix:
    """Combine several benchmarks into one panel; if their scales differ, all grades are converted to 0..1."""
    low, high = panels[0].low, panels[0].high
    same = all((panel.low, panel.high) == (low, high) for panel in panels)
    if not same:
        low, high = 0.0, 1.0
    raters = list(dict.fromkeys(name for panel in panels for name in panel.raters))
    criteria = list(dict.fromkeys(name for panel in panels for name in panel.criteria))

    def scaled(panel: RatingMatrix, grades: Floats) -> Floats:
        return grades if same else (grades - panel.low) / (panel.high - panel.low)

    def by_name(of: Sequence[Mapping[str, Floats]], grades: bool) -> dict[str, Floats]:
        names = dict.fromkeys(name for one in of for name in one)
        nothing = [np.full(len(panel.cases), np.nan) for panel in panels]
        sides = list(zip(panels, of, nothing, strict=True))
        return {
            name: np.concatenate(
                [scaled(p, one.get(name, none)) if grades else one.get(name, none) for p, one, none in sides]
            )
            for name in names
        }

    return RatingMatrix(
        cases=[case for panel in panels for case in panel.cases],
        clusters=[cluster for panel in panels for cluster in panel.clusters],
        raters=raters,
        criteria=criteria,
        grades=np.concatenate(
            [scaled(p, _expand_axes(p.grades, (p.raters, raters), (p.criteria, criteria))) for p in panels]
        ),
        composites=np.concatenate([scaled(p, _expand_axes(p.composites, (p.raters, raters))) for p in panels]),
        jury_grades=np.concatenate([scaled(p, _expand_axes(p.jury_grades, (p.criteria, criteria))) for p in panels]),
        jury=np.concatenate([scaled(p, p.jury) for p in panels]),
        judges=by_name([panel.judges for panel in panels], True),
        baselines=by_name([panel.baselines for panel in panels], False),
        low=low,
        high=high,
        whole_grades=same and all(panel.whole_grades for panel in panels),
    )


def _rows_with(table: Floats) -> NDArray[np.bool_]:
    """Return which rows of a table hold a number."""
    return np.asarray((~np.isnan(table)).any(axis=1))


def _expand_axes(values: Floats, *axes: tuple[Sequence[str], Sequence[str]]) -> Floats:
    """Expand each axis after the first to more names; nan for added entries."""
    wide = np.full((len(values), *(len(names) for _, names in axes)), np.nan)
    wide[np.ix_(range(len(values)), *([names.index(name) for name in own] for own, names in axes))] = values
    return wide


def _whole_grades(means: Floats, scale: tuple[float, float]) -> Floats:
    """Round mean grades to grades of the scale; halves are rounded up."""
    low, _ = scale
    return np.floor(means - low + 0.5 + 1e-9) + low


def _with_bootstrap_interval(found: Coefficient, drawn: BootstrapResult) -> Coefficient:
    """Replace the interval of a coefficient by a bootstrap interval."""
    return replace(found, low=drawn.low, high=drawn.high, reason=found.reason if found.value is None else drawn.reason)


# --- remarks ----------------------------------------------------------------------------------------------------------


def _remarks(
    panel: RatingMatrix,
    rated: NDArray[np.bool_],
    composites: Floats,
    names: Sequence[str],
    jury: AgreementWithClinicians,
    among: ClinicianAgreement,
) -> Iterator[Remark]:
    """Yield what is missing from the numbers, and why."""
    cases = [case for case, one in zip(panel.cases, rated, strict=True) if one]
    if partly := [case for case, one in zip(panel.cases, rated, strict=True) if not one]:
        text = f"{_count_and_names(partly, 'completion')} without a composite: no clinician graded all criteria"
        yield Remark("without_composite", "", text)
    n_raters = (~np.isnan(composites)).sum(axis=1)
    if single := int((n_raters == 1).sum()):
        text = f"{single} of {len(cases)} completions have a single rater: they do not count in agreement of clinicians"
        yield Remark("single_rater", "", text)
    unjudged = [case for case, one in zip(cases, np.isnan(panel.jury[rated]), strict=True) if one]
    if unjudged:
        text = f"{_count_and_names(unjudged, 'completion')} without a jury score: not compared with the jury"
        yield Remark("without_jury_score", "", text)
    for name, column in zip(names, composites.T, strict=True):
        own = column[~np.isnan(column)]
        if len(own) > 1 and own.min() == own.max():
            text = f"{name} gave all {len(own)} completions the same composite, {own[0]:g}"
            yield Remark("constant_rater", name, text)
    for pair in among.pairs.pairs:
        if pair.value is None:
            text = f"{names[pair.first]} and {names[pair.second]} have no ICC: {pair.reason}"
            yield Remark("pair_without_icc", names[pair.first], text)
    if len(names) > 1 and not among.pairs.pairs:
        yield Remark("no_shared_completions", "", "no two clinicians rated the same completion")
    if jury.consistency.value is None:
        text = f"the jury and the clinicians have no ICC: {jury.consistency.reason}"
        yield Remark("jury_without_icc", "", text)
    units = {cluster or str(i) for i, (cluster, one) in enumerate(zip(panel.clusters, rated, strict=True)) if one}
    if len(units) < len(cases):
        text = f"{len(cases)} completions belong to {len(units)} independent instances"
        text += ": intervals by bootstrap and jackknife account for that, those by Fisher and F do not"
        yield Remark("dependent_completions", "", text)


def _count_and_names(names: Sequence[str], what: str) -> str:
    """Return how many there are, and the first of them."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{len(names)} {what}{'s' * (len(names) > 1)} ({', '.join(names[:NAMED])}{more})"


# --- verdict ----------------------------------------------------------------------------------------------------------
# Decide whether ratings show that a jury agrees with a clinician as well as another clinician does.

SHARE = 0.8
"""Share of the agreement of two clinicians that a jury must be shown to exceed to count as good as a clinician.

A share, and not a difference: a correlation 0.1 lower is a tenth of an agreement of 1 and half of one of 0.2.
"""


class Conclusion(StrEnum):
    """Meaning of the ratings for the use of a jury."""

    AS_GOOD = "as_good"
    """The jury agrees with a clinician nearly as well as another clinician does: by more than `SHARE` of that."""
    WORSE = "worse"
    """It agrees with a clinician, but less than another clinician does."""
    UNCLEAR = "unclear"
    """It agrees with a clinician; the interval of the difference leaves open how well by comparison."""
    NO_COMPARISON = "no_comparison"
    """It agrees with a clinician; agreement among clinicians is unknown."""
    NO_YARDSTICK = "no_yardstick"
    """The clinicians were not shown to agree with each other, so that their ratings cannot validate a jury."""
    NO_AGREEMENT = "no_agreement"
    """The jury was not shown to agree with a clinician."""
    TOO_FEW = "too_few"
    """There are too few ratings of completions with a jury score."""


def conclude(found: JuryAndRaters) -> Conclusion:
    """Choose the conclusion that all intervals support."""
    jury, raters, difference = found.jury, found.raters, found.difference
    if jury.low is None:
        return Conclusion.TOO_FEW
    if raters.low is not None and raters.low <= 0:
        return Conclusion.NO_YARDSTICK
    if jury.low <= 0:
        return Conclusion.NO_AGREEMENT
    if raters.low is None or difference.low is None or difference.high is None:
        return Conclusion.NO_COMPARISON
    if found.share.low is not None and found.share.low > SHARE:
        return Conclusion.AS_GOOD
    return Conclusion.WORSE if difference.high < 0 else Conclusion.UNCLEAR
