"""Robustness: each perturbation and its original, and the samples of the same prompt.

All scores are from 0 (worst) to 1 (best); failures that the model caused count as the worst score, as on the
leaderboard. Intervals are 95%, by cluster of instances.

A perturbation that must not change the answer is equivalent if the whole interval of the difference lies within the
margin: two one-sided tests at 2.5% (Schuirmann 1987). It is not if the whole interval lies outside. Otherwise nothing
is decided, and the number of instances that would decide it, if there is no difference, has a power of 80%.

Answers also change by chance when the same prompt is asked again. Where there are repeats, `by_chance` is the share
that changed between the first and another sample of the same instances, and `excess` the share beyond it.

Position bias: whether a model prefers options for their place, from the same questions in several orders.

A model that chooses by content alone would choose a place as often as the orders put its answers there: all answers of
a question, in all orders. The excess of a place is how often it was chosen beyond that, as a share of all answers; the
spread is the largest excess minus the smallest one. It is 1 if the first option is always chosen, and 0 if the order
never matters.

Rotations put each option into each place equally often. After rotations, other orders do not count: they would
show some options in some places twice. For the same reason, an order that repeats another does not count.

The test permutes the places of each cluster of questions: if no place is preferred, the excess of each cluster is as
likely at any of its places. Its statistic is chi-square of chosen against expected counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.non_inferiority import Change, paired_change
from medhelm.analysis.comparison.significance import LEVEL
from medhelm.analysis.means import (
    NORMAL,
    Z95,
    BootstrapResult,
    Clusters,
    Floats,
    bootstrap_statistic,
    cluster_codes,
    row_means,
    wilson_interval,
)
from medhelm.benchmarks.prompts import LETTERS
from medhelm.domain import Estimate
from medhelm.domain.result import HALF
from medhelm.domain.run import Expectation
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


# --- positions --------------------------------------------------------------------------------------------------------

ORDERS = "options_"
"""Beginning of the names of perturbations that change the order of options."""

ROTATIONS = "options_rotated_"
"""Beginning of the names of those that rotate the options."""

PERMUTATIONS = 999
"""Permutations of the test."""

BLOCK = 500_000
"""Numbers that are permuted at once, about."""

SEED = 0
"""Seed of permutations and bootstrap draws, so that a report repeats itself."""

Ints = NDArray[np.intp]
"""Array of whole numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """The answers of one question in several orders of its options."""

    instance: str
    """Id of the instance."""
    places: Sequence[Mapping[str, int]]
    """Order -> text of an option -> its place, from 0."""
    chosen: Sequence[str]
    """Order -> text of the chosen option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionResult:
    """One model on one benchmark whose options were shown in several orders."""

    about: FamilySubject
    """Model and benchmark."""
    n_orders: int
    """Most different orders in which the options of a question were shown."""
    accuracy: Estimate
    """Mean score over all orders."""
    all_right: Estimate
    """Share of instances that are right in every order."""
    excess: tuple[float, ...]
    """Place -> how often it was chosen beyond what content explains, as a share of all readable answers."""
    spread: BootstrapResult
    """Difference between the largest and the smallest of these; its interval begins at 0 unless the test finds a
    bias."""
    p_value: float
    """P-value of the permutation test."""

    @property
    def is_biased(self) -> bool:
        """True if the test finds a preference for places."""
        return self.p_value <= LEVEL

    @property
    def preferred(self) -> str:
        """Letter of the place that is chosen too often."""
        return LETTERS[int(np.argmax(self.excess))]


def position_result(family: RunFamily) -> PositionResult | None:
    """Return accuracy over all orders and position bias; None without other orders, or if no options are read."""
    rotated = any(name.startswith(ROTATIONS) for name in family.perturbed)
    beginning = ROTATIONS if rotated else ORDERS
    plain = family.plain
    orders = [plain, *(run for name, run in family.perturbed.items() if name.startswith(beginning))]
    if len(orders) < 2 or not plain.options:
        return None
    shown = set().union(*(one.options for one in orders[1:]))
    ids = [one for one in plain.ids if one in plain.options and one in shown]
    clusters = plain.clusters(ids)
    scores = np.stack([one.scores(ids) for one in orders], axis=1)
    known = ~np.isnan(scores) & np.array([_is_new(one, orders) for one in ids])
    n_known = known.sum(axis=1)
    right = np.where(known, scores, 0.0)
    means = np.where(n_known > 0, right.sum(axis=1) / np.maximum(n_known, 1), np.nan)
    every = np.where(n_known > 0, (np.where(known, scores, 1.0).min(axis=1) >= 1).astype(float), np.nan)
    accuracy, all_right = share(means, clusters), share(every, clusters)
    questions = [found for one in ids if (found := _ordering(one, orders))]
    if accuracy is None or all_right is None or not questions:
        return None
    named = dict(zip(ids, clusters, strict=True))
    excess, spread, p_value = position_bias(questions, [named[one.instance] for one in questions])
    return PositionResult(
        about=family.about,
        n_orders=int(n_known.max()),
        accuracy=accuracy,
        all_right=all_right,
        excess=excess,
        spread=spread,
        p_value=p_value,
    )


def _is_new(instance: str, orders: Sequence[AskedRun]) -> list[bool]:
    """Return for each order whether it differs from the earlier ones of this question."""
    shown = [own.texts if (own := one.options.get(instance)) else () for one in orders]
    return [bool(texts) and texts not in shown[:place] for place, texts in enumerate(shown)]


def _ordering(instance: str, orders: Sequence[AskedRun]) -> Ordering | None:
    """Return the readable answers of a question in several orders; None if there are fewer than two."""
    places, chosen = [], []
    for one, is_new in zip(orders, _is_new(instance, orders), strict=True):
        options, label = one.options.get(instance), one.chosen.get(instance)
        if options is None or not (label and is_new) or len(set(options.texts)) < len(options.texts):
            continue
        places.append({text: place for place, text in enumerate(options.texts)})
        chosen.append(options.texts[options.labels.index(label)])
    if len(places) < 2 or any(set(one) != set(places[0]) for one in places):
        return None
    return Ordering(instance=instance, places=places, chosen=chosen)


def position_bias(
    questions: Sequence[Ordering], clusters: Clusters = None
) -> tuple[tuple[float, ...], BootstrapResult, float]:
    """Return the excess of each place, the spread with an interval, and the p-value of the permutation test.

    `clusters`: names of the clusters of the questions.
    """
    n_places = max(len(one.places[0]) for one in questions)
    chosen, expected = (np.stack(rows) for rows in zip(*(_counts(one, n_places) for one in questions), strict=True))

    def excess(weights: Floats) -> Floats:
        """Return the excess of each place in each resample, shape (m, places)."""
        found: Floats = weights @ (chosen - expected) / (weights @ chosen.sum(axis=1))[:, None]
        return found

    def spread(weights: Floats) -> Floats:
        result: Floats = np.ptp(excess(weights), axis=1)
        return result

    sizes = np.array([len(one.places[0]) for one in questions])
    p_value = _permutation_p(chosen - expected, expected.sum(axis=0), sizes, cluster_codes(clusters, len(questions)))
    drawn = bootstrap_statistic(len(questions), spread, np.random.default_rng(SEED), clusters=clusters)
    if drawn.value is not None and drawn.low is not None and drawn.high is not None:
        # Other questions that no draw can hold: a share up to the upper Wilson limit of 0 in n.
        unseen = wilson_interval(0, len(questions))[1] if drawn.low == drawn.high else 0.0
        low = max(drawn.low - unseen, 0.0) if p_value <= LEVEL else 0.0
        drawn = BootstrapResult(value=drawn.value, low=low, high=max(min(drawn.high + unseen, 1.0), drawn.value))
    return tuple(excess(np.ones((1, len(questions))))[0].tolist()), drawn, p_value


def _counts(one: Ordering, n_places: int) -> tuple[Floats, Floats]:
    """Return how often each place was chosen, and how often the orders put the chosen answers there."""
    table = np.array([[places[text] for text in one.chosen] for places in one.places])
    chosen, everywhere = (np.bincount(found, minlength=n_places) for found in (np.diagonal(table), table.ravel()))
    return chosen.astype(float), everywhere / len(one.chosen)


def _permutation_p(excess: Floats, expected: Floats, sizes: Ints, clusters: tuple[Ints, int]) -> float:
    """Return the p-value of the chi-square test; see the module.

    Parameters: excess, shape (questions, places); expected, shape (places,), of all; sizes, options of each question.
    """
    rng, (codes, k) = np.random.default_rng(SEED), clusters
    drawn = np.zeros((PERMUTATIONS, len(expected)))
    for size in np.unique(sizes):
        own = np.zeros((k, size))
        np.add.at(own, codes[sizes == size], excess[sizes == size, :size])
        block = max(1, BLOCK // own.size)
        for start in range(0, PERMUTATIONS, block):
            n = min(block, PERMUTATIONS - start)
            permuted = rng.permuted(np.tile(own, (n, 1)), axis=1).reshape(n, k, size)
            drawn[start : start + n, :size] += permuted.sum(axis=1)
    shown = expected > 0
    chi_square = _chi_square(excess.sum(axis=0)[None, shown], expected[shown])[0]
    at_least = int((_chi_square(drawn[:, shown], expected[shown]) >= chi_square - 1e-9).sum())
    return (1 + at_least) / (1 + PERMUTATIONS)


def _chi_square(excess: Floats, expected: Floats) -> Floats:
    found: Floats = (excess**2 / expected).sum(axis=1)
    return found
