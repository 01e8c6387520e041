"""Sensitivity, specificity, predictive values and other measures of questions that all have the same options.

An instance is positive or negative for a class: its correct option is that class, or another one. With two classes one
is the positive one, such as the disease; with more, each class is compared with all others, and the means over classes
are the macro averages. A completion that names no option is wrong: it is neither a positive nor a negative answer, so
it lowers sensitivity and specificity, and does not count in predictive values. A failed request is missing.

Every measure but Matthews' correlation and the net benefit is a ratio of sums over instances, with the interval of
`ratios.estimate_ratios`: Wilson's, or for means of several ratios MOVER; wider where instances share a cluster.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from medhelm.analysis.means import (
    BY_CLUSTER,
    Clusters,
    Floats,
    cluster_codes,
    effective_size,
    estimate,
    estimate_within,
)
from medhelm.analysis.ratios import estimate_ratios
from medhelm.domain import Estimate

UNREADABLE = ""
"""The class that a completion names if it names none of them."""

_Pair = tuple[float, float]

RATIOS: Mapping[str, Callable[[str, str, str], _Pair | None]] = {
    "sensitivity": lambda key, named, of: (float(named == of), 1.0) if key == of else None,
    "specificity": lambda key, named, of: (float(named not in (of, UNREADABLE)), 1.0) if key != of else None,
    "ppv": lambda key, named, of: (float(key == of), 1.0) if named == of else None,
    "npv": lambda key, named, of: (float(key != of), 1.0) if named not in (of, UNREADABLE) else None,
    "f1": lambda key, named, of: ((2.0, 2.0) if key == named else (0.0, 1.0)) if of in (key, named) else None,
}
"""Measure -> its numerator and denominator in one instance, from the correct class, the class named and the class that
it is about; None if the instance does not count in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassMeasures:
    """Measures of one class. A measure is None where no instance counts in it."""

    label: str
    """The class."""
    n_positive: int
    """Scored instances of this class."""
    counts: Mapping[str, int]
    """`tp`, `fp`, `fn`, `tn`, and `unreadable`, completions that name no class; those are in none of the others."""
    sensitivity: Estimate | None
    """Share of the positive instances that are answered positive; also called recall."""
    specificity: Estimate | None
    """Share of the negative instances that are answered negative."""
    ppv: Estimate | None
    """Share of the positive answers that are right; also called precision. It depends on the prevalence."""
    npv: Estimate | None
    """Share of the negative answers that are right. It depends on the prevalence."""
    f1: Estimate | None
    """Harmonic mean of sensitivity and positive predictive value."""
    youden: Estimate | None
    """Sensitivity + specificity - 1: 0 for guessing, 1 if all answers are right (Youden 1950, Cancer 3)."""
    prevalence: Estimate
    """Share of the scored instances that are positive."""
    net_benefit: Estimate | None
    """True positives, less false ones weighted by the odds of the threshold, per instance (Vickers and Elkin 2006, Med.
    Decis. Making 26); None without a threshold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification:
    """The answers of one model to questions with the same options."""

    classes: Sequence[str]
    """The options, in their order."""
    n: int
    """Instances with a completion."""
    n_failed: int
    """Instances without one: missing."""
    confusion: Mapping[str, Mapping[str, int]]
    """Correct class -> class named, `UNREADABLE` for none -> instances."""
    accuracy: Estimate
    """Share of the completions that are right."""
    balanced_accuracy: Estimate | None
    """Mean over classes of their sensitivity."""
    mcc: Estimate | None
    """Matthews' correlation of the correct and the named class, -1 to 1, 0 for guessing; of several classes as by
    Gorodkin (2004, Comput. Biol. Chem. 28). None if only one class is correct, or named."""
    macro: Mapping[str, Estimate | None]
    """Measure of `RATIOS` -> its mean over classes."""
    by_class: Sequence[ClassMeasures]
    """The positive class alone if one is named, else each class against all others."""

    @property
    def macro_f1(self) -> Estimate | None:
        """Mean F1 over classes."""
        return self.macro["f1"]


def classify(
    key: Sequence[str],
    named: Sequence[str | None],
    classes: Sequence[str],
    *,
    positive: str = "",
    clusters: Clusters = None,
    threshold: float | None = None,
) -> Classification | None:
    """Measure the answers of one model.

    Parameters: key, n correct classes; named, n classes that the completions name, `UNREADABLE` for none, None for a
    failed request; classes, all options; positive, the class to measure, empty for each; clusters, n names; threshold,
    above 0 and below 1, the probability of the positive class from which one would act, for the net benefit.
    Returns: None without any completion.
    Raises: ValueError for a positive class that is not among the classes, or a threshold outside of its range.

    >>> found = classify(["yes", "yes", "no", "no"], ["yes", "no", "no", "no"], ["yes", "no"], positive="yes")
    >>> found.by_class[0].sensitivity.value, found.by_class[0].specificity.value, found.by_class[0].counts["fn"]
    (0.5, 1.0, 1)
    """
    if positive and positive not in classes:
        raise ValueError(f"the positive class {positive!r} is not one of {', '.join(classes)}")
    if threshold is not None and not 0 < threshold < 1:
        raise ValueError(f"a threshold is a probability between 0 and 1, not {threshold:g}")
    pairs = [(right, said) for right, said in zip(key, named, strict=True) if said is not None]
    if not pairs:
        return None
    answers = _Answers(key, named, clusters)
    confusion: dict[str, Counter[str]] = {label: Counter() for label in classes}
    for right, said in pairs:
        confusion[right][said] += 1
    accuracy = estimate(answers.values, clusters, low=0.0, high=1.0)
    assert accuracy is not None, "there is a completion"
    shown = [positive] if positive else list(classes)
    return Classification(
        classes=tuple(classes),
        n=len(pairs),
        n_failed=len(key) - len(pairs),
        confusion=confusion,
        accuracy=accuracy,
        balanced_accuracy=answers.ratio("sensitivity", *classes),
        mcc=_matthews(answers, classes),
        macro={name: answers.ratio(name, *classes) for name in RATIOS},
        by_class=[_measures(answers, label, confusion, threshold) for label in shown],
    )


class _Answers:
    """The answers of a model, and the estimates made from them."""

    def __init__(self, key: Sequence[str], named: Sequence[str | None], clusters: Clusters) -> None:
        self.key, self.named, self.clusters = key, named, clusters
        pairs = zip(key, named, strict=True)
        self.values = np.array([np.nan if said is None else float(said == right) for right, said in pairs])

    def ratio(self, measure: str, *labels: str) -> Estimate | None:
        """Estimate the mean of a measure over classes; None if no instance counts in it."""
        return self._mean_ratio(self._parts([(measure, of) for of in labels]))

    def mean_of_two(self, label: str) -> Estimate | None:
        """Estimate the mean of sensitivity and specificity; None unless there are positive and negative instances."""
        parts = self._parts([("sensitivity", label), ("specificity", label)])
        return self._mean_ratio(parts) if len(set().union(*parts)) == 2 else None

    def _parts(self, wanted: Sequence[tuple[str, str]]) -> list[dict[str, _Pair]]:
        """Return for each instance the pairs of those measures of classes that it counts in."""
        rules = [(" ".join(one), RATIOS[one[0]], one[1]) for one in wanted]
        return [
            {}
            if said is None
            else {name: pair for name, rule, of in rules if (pair := rule(right, said, of)) is not None}
            for right, said in zip(self.key, self.named, strict=True)
        ]

    def _mean_ratio(self, parts: Sequence[Mapping[str, _Pair]]) -> Estimate | None:
        return estimate_ratios(self.values, parts, self.clusters, low=0.0, high=1.0)

    def mean(self, worth: Callable[[str, str], float], low: float, high: float) -> Estimate:
        """Estimate the mean over completions of a number that the correct and the named class give."""
        pairs = zip(self.key, self.named, strict=True)
        values = np.array([np.nan if said is None else worth(right, said) for right, said in pairs])
        found = estimate(values, self.clusters, low=low, high=high)
        assert found is not None, "there is a completion"
        return found


def _measures(
    answers: _Answers, label: str, confusion: Mapping[str, Mapping[str, int]], threshold: float | None
) -> ClassMeasures:
    """Measure one class against all others."""
    counts = dict.fromkeys(("tp", "fp", "fn", "tn", "unreadable"), 0)
    for right, said_of in confusion.items():
        for said, n in said_of.items():
            is_right = (said == label) == (right == label)
            name = ("t" if is_right else "f") + ("p" if said == label else "n")
            counts["unreadable" if said == UNREADABLE else name] += n
    both = answers.mean_of_two(label)
    odds = None if threshold is None else threshold / (1 - threshold)
    return ClassMeasures(
        label=label,
        n_positive=sum(confusion[label].values()),
        counts=counts,
        **{name: answers.ratio(name, label) for name in RATIOS},
        youden=None if both is None else _rescaled(both, 2.0, -1.0),
        prevalence=answers.mean(lambda right, _: float(right == label), 0.0, 1.0),
        net_benefit=None
        if odds is None
        else answers.mean(lambda right, said: (1.0 if right == label else -odds) if said == label else 0.0, -odds, 1.0),
    )


def _rescaled(found: Estimate, factor: float, shift: float) -> Estimate:
    """Return the estimate of a linear function of a number."""
    value, low, high = (factor * end + shift for end in (found.value, found.low, found.high))
    return replace(found, value=value, low=low, high=high)


# --- Matthews' correlation --------------------------------------------------------------------------------------------


DRAWS, SEED = 4_000, 0
"""Number of tables drawn for an interval, and the seed of the draws, so that intervals are reproducible."""


def _matthews(answers: _Answers, classes: Sequence[str]) -> Estimate | None:
    """Estimate Matthews' correlation.

    The interval holds 95% of the correlations of tables drawn from a Dirichlet distribution with the counts of the
    table; to each row one instance is added, in equal parts (for two classes Jeffreys' prior), so that an empty cell
    does not make the correlation certain. Clusters reduce the counts to the effective number of instances.
    """
    columns = [*classes, UNREADABLE]
    scored = np.array([said is not None for said in answers.named])
    cells = [
        (classes.index(right), columns.index(said))
        for right, said in zip(answers.key, answers.named, strict=True)
        if said is not None
    ]
    table = np.zeros((len(classes), len(columns)))
    np.add.at(table, tuple(np.array(cells).T), 1)
    value = float(_correlation(table))
    if math.isnan(value):
        return None
    clusters = None if answers.clusters is None else np.asarray(answers.clusters)[scored]
    codes, k = cluster_codes(clusters, len(cells))
    n = effective_size(answers.values[scored], codes)
    counts = table * n / len(cells)
    counts[:, : len(classes)] += 1 / len(classes)
    drawn = _correlation(np.random.default_rng(SEED).standard_gamma(counts, size=(DRAWS, *counts.shape)))
    low, high = map(float, np.quantile(drawn, [0.025, 0.975]))
    method = "dirichlet" + (BY_CLUSTER if k < len(cells) else "")
    n_failed = len(answers.key) - len(cells)
    return estimate_within(value, (low, high), (-1.0, 1.0), n=len(cells), n_failed=n_failed, method=method)


def _correlation(tables: Floats) -> Floats:
    """Return the correlation of rows and columns of tables, shape (..., K, K + 1); nan where one does not vary."""
    n = tables.sum(axis=(-2, -1))
    right = np.trace(tables, axis1=-2, axis2=-1)
    rows, columns = tables.sum(axis=-1), tables.sum(axis=-2)
    together = (rows * columns[..., :-1]).sum(axis=-1)
    spread = (n**2 - (rows**2).sum(axis=-1)) * (n**2 - (columns**2).sum(axis=-1))
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = np.where(spread > 0, (right * n - together) / np.sqrt(np.maximum(spread, 0)), np.nan)
    return found
