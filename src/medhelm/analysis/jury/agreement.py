"""Agreement of judges on each criterion and on their scores of completions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.agreement.icc import resampled_icc
from medhelm.analysis.agreement.kappa_and_alpha import Level, Weights, resampled_alpha, resampled_kappa
from medhelm.analysis.jury.cells import Codes, JudgmentCells, average_estimates, bootstrap_estimate, grades_by_judge
from medhelm.analysis.statistics.cluster_bootstrap import Floats
from medhelm.analysis.statistics.means import row_means
from medhelm.domain import Estimate

SCORE = "score"
"""Subject of agreement: each judge's score of a completion, over all criteria."""

MET = "met"
"""The same for whether criteria of a rubric in points are met."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeAgreement:
    """Agreement of all judges on one thing, with bootstrap intervals over instances.

    A coefficient is None where it is undefined: for fewer than two completions, or where all grades are the same.
    """

    on: str
    """A criterion, or `score`, or `met`."""
    n: int
    """Completions, or criteria of completions, that at least two judges graded."""
    level: Level
    """Level of measurement for alpha."""
    icc_2_1: Estimate | None
    """ICC(2,1): absolute agreement of one judge with another; of completions that all judges graded."""
    icc_3_k: Estimate | None
    """ICC(3,k): consistency of the mean of all judges; of the same completions."""
    kappa: Estimate | None
    """Cohen's kappa with quadratic weights (`met`: without), mean over pairs of judges."""
    alpha: Estimate | None
    """Krippendorff's alpha, for all judges and missing grades."""


def judge_agreement(cells: JudgmentCells, scores: Floats, rng: np.random.Generator) -> tuple[JudgeAgreement, ...]:
    """Measure agreement on each criterion and on scores; empty for a single judge.

    Parameters: scores, shape (J, M, n), from `judge_scores`.
    """
    judges, models, _ = cells.shape
    if judges < 2:
        return ()
    joint = scores.reshape(judges, -1)
    on_scores = _agreement_on(SCORE, joint, np.tile(cells.clusters, models), "interval", "quadratic", rng)
    if cells.points is not None:
        # As it was judged: a harm that is there is met.
        met = replace(cells, grades=np.where(cells.points < 0, 1 - cells.grades, cells.grades))
        values, instance = grades_by_judge(met)
        on_met = _agreement_on(MET, values, cells.clusters[instance], "nominal", "none", rng)
        on_met = replace(on_met, icc_2_1=None, icc_3_k=None)
        return (on_met, on_scores) if on_scores.n else (on_met,)
    found = []
    for place, criterion in enumerate(cells.criteria):
        values, instance = grades_by_judge(cells, place)
        found.append(_agreement_on(criterion, values, cells.clusters[instance], "ordinal", "quadratic", rng))
    return *found, on_scores


def _agreement_on(
    on: str, values: Floats, clusters: Codes, level: Level, weights: Weights, rng: np.random.Generator
) -> JudgeAgreement:
    """Compute all coefficients of one table of grades, shape (J, s), whose columns belong to these clusters."""
    given = (~np.isnan(values)).sum(axis=0)
    rows, codes = values.T[given > 1], clusters[given > 1]
    complete = given[given > 1] == len(values)

    every = np.ones(len(rows), dtype=bool)

    def coefficient(
        statistic: Callable[[Floats, Floats], Floats], wanted: NDArray[np.bool_] = every
    ) -> Estimate | None:
        return bootstrap_estimate(partial(statistic, rows[wanted]), codes[wanted], rng)

    return JudgeAgreement(
        on=on,
        n=len(rows),
        level=level,
        icc_2_1=coefficient(partial(resampled_icc, form="2,1"), complete),
        icc_3_k=coefficient(partial(resampled_icc, form="3,k"), complete),
        kappa=coefficient(partial(_mean_kappa, weights=weights)),
        alpha=coefficient(partial(resampled_alpha, level=level)),
    )


def _mean_kappa(rows: Floats, counts: Floats, weights: Weights) -> Floats:
    """Compute the mean kappa over the pairs of judges that have one, for many resamples at once."""
    kappas = [resampled_kappa(a, b, counts, weights=weights) for a, b in combinations(rows.T, 2)]
    return row_means(np.stack(kappas, axis=1))


def average_agreement(found: Sequence[Sequence[JudgeAgreement]]) -> tuple[JudgeAgreement, ...]:
    """Average agreement on each criterion, and on scores, over the benchmarks on which it was graded."""
    groups: dict[tuple[str, Level], list[JudgeAgreement]] = {}
    for parts in found:
        for part in parts:
            groups.setdefault((part.on, part.level), []).append(part)
    return tuple(
        JudgeAgreement(
            on=on,
            n=sum(part.n for part in parts),
            level=level,
            icc_2_1=average_estimates([part.icc_2_1 for part in parts]),
            icc_3_k=average_estimates([part.icc_3_k for part in parts]),
            kappa=average_estimates([part.kappa for part in parts]),
            alpha=average_estimates([part.alpha for part in parts]),
        )
        for (on, level), parts in sorted(groups.items(), key=lambda item: item[0][0] == SCORE)
    )
