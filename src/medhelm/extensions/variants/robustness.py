"""Robustness: each perturbation and its original, and the samples of the same prompt.

All scores are from 0 (worst) to 1 (best); failures that the model caused count as the worst score, as on the
leaderboard. Intervals are 95%, by cluster of instances.

A perturbation that must not change the answer is equivalent if the whole interval of the difference lies within the
margin: two one-sided tests at 2.5% (Schuirmann 1987). It is not if the whole interval lies outside. Otherwise nothing
is decided, and the number of instances that would decide it, if there is no difference, has a power of 80%.

Answers also change by chance when the same prompt is asked again. Where there are repeats, `by_chance` is the share
that changed between the first and another sample of the same instances, and `excess` the share beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.non_inferiority import Change, paired_change
from medhelm.analysis.means import NORMAL, Z95, Floats, row_means
from medhelm.domain import Estimate
from medhelm.domain.result import HALF
from medhelm.domain.variant import Expectation
from medhelm.extensions.variants.asked_runs import AskedRun, FamilySubject, RunFamily
from medhelm.extensions.variants.repeats import (
    PassRate,
    SampleAgreement,
    SampledMean,
    agreement_of_samples,
    chosen_k,
    pass_rate,
    sampled_mean,
    share,
)

Verdict = Literal["met", "not met", "undecided"]
"""Outcome of a requirement; undecided if the interval allows both."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairedAnswers:
    """Instances and their originals: arrays of shape (n,), nan where a completion is missing."""

    clusters: NDArray[np.str_]
    """Cluster of each instance; a name that no cluster of another benchmark has."""
    difference: Floats
    """Score of the perturbed instance minus that of the original."""
    changed: Floats
    """1.0 if the answer changed, else 0.0."""
    by_chance: Floats | None
    """Share of the other samples of the original with another answer than the first; None without repeats."""
    reacted: Floats | None
    """1.0 if the completion reacted as it should, else 0.0; None where scores should be equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerturbationResult:
    """One model on one benchmark, on perturbed instances and on their originals."""

    about: FamilySubject
    """Model and benchmark."""
    metric_title: str
    """Heading of the metric."""
    perturbation: str
    """Name of the perturbation."""
    expectation: Expectation
    """Correct reaction."""
    change: Change
    """Perturbed minus original."""
    changed: Estimate
    """Share of instances whose answer changed."""
    reads_answers: bool
    """False if the metric reads no answer: then `changed` counts scores that crossed half the scale."""
    reacted: Estimate | None
    """Share of instances that reacted as they should; None where scores should be equal."""
    by_chance: Estimate | None
    """Share of the same instances whose answer changed in another sample of the original; None without repeats."""
    excess: Change | None
    """Share changed beyond that; None without repeats."""
    verdict: Verdict | None
    """Met if scores are equivalent; None where they need not be."""
    n_needed: int | None
    """Instances that would decide; None if it is decided."""
    pairs: PairedAnswers = field(compare=False, repr=False)
    """The instances behind these numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedResult:
    """One model on one benchmark, sampled several times."""

    about: FamilySubject
    """Model and benchmark."""
    metric_title: str
    """Heading of the metric."""
    is_pooled: bool
    """True if the leaderboard shows another number than the mean of scores, such as balanced accuracy."""
    n_samples: int
    """Samples of each instance."""
    mean: SampledMean
    """Mean with the parts of its uncertainty."""
    passes: tuple[PassRate, ...]
    """Rates at which some or all of k samples are right, by k."""
    agreement: SampleAgreement | None
    """Agreement on answers; None if no instance has two."""
    reads_answers: bool
    """False if the metric reads no answer: then samples agree if both are right or both are wrong."""


# --- perturbations ----------------------------------------------------------------------------------------------------


def perturbation_results(family: RunFamily, margin: float) -> list[PerturbationResult]:
    """Compare each perturbed run with the run that it belongs to; perturbations without a shared score are left out."""
    found = (_compare(family, name, run, margin) for name, run in family.perturbed.items())
    return [one for one in found if one]


def _compare(family: RunFamily, name: str, perturbed: AskedRun, margin: float) -> PerturbationResult | None:
    plain = family.plain
    here = set(plain.ids)
    ids = [one for one in perturbed.ids if one in here]
    clusters = plain.clusters(ids)
    before, after = plain.scores(ids), perturbed.scores(ids)
    original = plain.answers(ids)
    chance = [_differs(original, one.answers(ids)) for one in family.repeats]
    expectation: Expectation = perturbed.run.settings.get("expectation", "")
    pairs = PairedAnswers(
        clusters=np.array([f"{family.about.benchmark}\0{cluster}" for cluster in clusters], dtype=np.str_),
        difference=after - before,
        changed=_differs(original, perturbed.answers(ids)),
        by_chance=row_means(np.stack(chance, axis=1)) if chance else None,
        reacted=_reacted(expectation, perturbed, ids),
    )
    change, changed = paired_change(after, before, clusters), share(pairs.changed, clusters)
    if change is None or changed is None:
        return None
    change = change.without_bounds()
    verdict = equivalence(change, margin) if expectation == "invariant" else None
    return PerturbationResult(
        about=family.about,
        metric_title=plain.metric_title,
        perturbation=name,
        expectation=expectation,
        change=change,
        changed=changed,
        reads_answers=plain.reads_answers,
        reacted=None if pairs.reacted is None else share(pairs.reacted, clusters),
        by_chance=None if pairs.by_chance is None else share(pairs.by_chance, clusters),
        excess=excess_of(pairs),
        verdict=verdict,
        n_needed=needed_for_equivalence(change, margin) if verdict == "undecided" else None,
        pairs=pairs,
    )


def excess_of(pairs: PairedAnswers) -> Change | None:
    """Return the share of answers that changed beyond chance; None without repeats."""
    found = None if pairs.by_chance is None else paired_change(pairs.changed, pairs.by_chance, pairs.clusters)
    return found.without_bounds() if found else None


def _differs(first: Sequence[str | None], second: Sequence[str | None]) -> Floats:
    """Return 1.0 for each instance with two different answers, 0.0 for equal ones, nan if one is missing."""
    return np.array([math.nan if a is None or b is None else float(a != b) for a, b in zip(first, second, strict=True)])


def _reacted(expectation: Expectation, perturbed: AskedRun, ids: Sequence[str]) -> Floats | None:
    """Return which completions have the new key, or decline to answer; None where the answer must stay."""
    if expectation == "must_abstain":
        return perturbed.abstained(ids)
    if expectation != "must_change":
        return None
    scores = perturbed.scores(ids)
    return np.where(np.isnan(scores), np.nan, (scores >= HALF).astype(float))


def equivalence(change: Change, margin: float) -> Verdict:
    """Return whether scores are equivalent: met if the 95% interval of the difference lies within the margin."""
    if -margin < change.low and change.high < margin:
        return "met"
    return "not met" if change.low > margin or change.high < -margin else "undecided"


POWER_Z = NORMAL.inv_cdf(0.9)
"""Quantile for a power of 80%: each of the two tests fails in one of ten tries."""


def needed_for_equivalence(change: Change, margin: float) -> int | None:
    """Return the instances that would show equivalence in four of five tries if there is no difference."""
    if change.sd is None:
        return None
    least = math.ceil(Z95**2 * (1 - margin) / margin) + 1  # without any difference, by Wilson's interval
    return max(math.ceil(((Z95 + POWER_Z) * change.sd / margin) ** 2), least)


# --- repeats ----------------------------------------------------------------------------------------------------------


def repeated_result(family: RunFamily, k: int | None = None) -> RepeatedResult | None:
    """Return the numbers on the samples of a run; None without repeats.

    Raises: UserError if `k` is more than the samples.
    """
    if not family.repeats:
        return None
    plain, samples = family.plain, (family.plain, *family.repeats)
    ids = list(plain.ids)
    clusters = plain.clusters(ids)
    scores = np.stack([one.scores(ids) for one in samples], axis=1)
    answers = list(zip(*(one.answers(ids) for one in samples), strict=True))
    mean = sampled_mean(scores, clusters)
    if mean is None:
        return None
    passes = [pass_rate(scores, one, clusters) for one in chosen_k(len(samples), k)]
    return RepeatedResult(
        about=family.about,
        metric_title=plain.metric_title,
        is_pooled=plain.is_pooled,
        n_samples=len(samples),
        mean=mean,
        passes=tuple(one for one in passes if one),
        agreement=agreement_of_samples(answers, scores, clusters),
        reads_answers=plain.reads_answers,
    )
