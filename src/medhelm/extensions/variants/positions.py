"""Position bias: whether a model prefers options for their place, from the same questions in several orders.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medhelm.analysis.comparison.significance import LEVEL
from medhelm.analysis.means import (
    BootstrapResult,
    Clusters,
    Floats,
    bootstrap_statistic,
    cluster_codes,
    wilson_interval,
)
from medhelm.benchmarks.prompts import LETTERS
from medhelm.domain import Estimate
from medhelm.extensions.variants.asked_runs import AskedRun, FamilySubject, RunFamily
from medhelm.extensions.variants.repeats import share

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
