"""Measures of classes, against independent formulas and by simulation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.analysis.classification import UNREADABLE, Classification, ClassMeasures, classify
from medhelm.domain import Estimate

CLASSES = ("yes", "no", "maybe")

answers = st.lists(
    st.tuples(st.sampled_from(CLASSES), st.sampled_from([*CLASSES, UNREADABLE, None])), min_size=1, max_size=40
)


def classified(key: Sequence[str], named: Sequence[str | None], *classes: str, **settings: object) -> Classification:
    found = classify(key, named, classes, **settings)  # type: ignore[arg-type]
    assert found is not None
    return found


def value(found: Estimate | None) -> float | None:
    return None if found is None else found.value


def share(hits: object, of: object) -> float | None:
    """Return the share of True in `hits` where `of` is True."""
    chosen = np.asarray(hits)[np.asarray(of)]
    return float(chosen.mean()) if len(chosen) else None


@given(answers)
def test_measures_are_the_shares_that_their_names_say(pairs: list[tuple[str, str | None]]) -> None:
    found = classify([key for key, _ in pairs], [said for _, said in pairs], CLASSES)
    scored = [(key, said) for key, said in pairs if said is not None]
    assert (found is None) == (not scored)
    if found is None:
        return
    key, named = np.array([pair[0] for pair in scored]), np.array([pair[1] for pair in scored])
    assert (found.n, found.n_failed) == (len(scored), len(pairs) - len(scored))
    assert found.accuracy.value == pytest.approx(float((key == named).mean()))
    for one in found.by_class:
        truth, said = key == one.label, named == one.label
        other = ~said & (named != UNREADABLE)
        sensitivity, specificity = share(said, truth), share(other, ~truth)
        expected = {
            "sensitivity": sensitivity,
            "specificity": specificity,
            "ppv": share(truth, said),
            "npv": share(~truth, other),
            "f1": 2 * (truth & said).sum() / (truth.sum() + said.sum()) if (truth | said).any() else None,
            "youden": None if None in (sensitivity, specificity) else sensitivity + specificity - 1,  # type: ignore[operator]
            "prevalence": float(truth.mean()),
        }
        assert {name: value(getattr(one, name)) for name in expected} == pytest.approx(expected)
        counts = (truth & said).sum(), (~truth & said).sum(), (truth & other).sum(), (~truth & other).sum()
        assert tuple(one.counts[name] for name in ("tp", "fp", "fn", "tn")) == counts
        assert sum(one.counts.values()) == found.n


@given(answers)
def test_matthews_is_the_correlation_of_class_indicators(pairs: list[tuple[str, str | None]]) -> None:
    scored = [(key, said) for key, said in pairs if said is not None]
    found = classify([key for key, _ in pairs], [said for _, said in pairs], CLASSES)
    columns = (*CLASSES, UNREADABLE)
    key = np.array([[pair[0] == label for label in columns] for pair in scored], dtype=float).reshape(-1, 4)
    named = np.array([[pair[1] == label for label in columns] for pair in scored], dtype=float).reshape(-1, 4)

    def together(a: np.ndarray, b: np.ndarray) -> float:
        return float(((a - a.mean(axis=0)) * (b - b.mean(axis=0))).sum())

    if not scored or together(key, key) == 0 or together(named, named) == 0:
        assert found is None or found.mcc is None
    else:
        assert found is not None
        expected = together(key, named) / np.sqrt(together(key, key) * together(named, named))
        assert value(found.mcc) == pytest.approx(expected, abs=1e-12)


def test_net_benefit_weighs_false_positives_by_the_odds_of_the_threshold() -> None:
    key, named = ["yes"] * 20 + ["no"] * 80, ["yes"] * 15 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 70
    found = classified(key, named, "yes", "no", positive="yes", threshold=0.2)
    (one,) = found.by_class
    assert value(one.net_benefit) == pytest.approx(15 / 100 - 10 / 100 * 0.2 / 0.8)


@pytest.mark.parametrize(("positive", "threshold"), [("sick", None), ("yes", 0.0), ("yes", 1.0)])
def test_a_wrong_class_or_threshold_is_refused(positive: str, threshold: float | None) -> None:
    with pytest.raises(ValueError, match=r"positive class|threshold"):
        classify(["yes"], ["yes"], ("yes", "no"), positive=positive, threshold=threshold)


def test_instances_of_a_cluster_widen_every_interval() -> None:
    rng = np.random.default_rng(3)
    right = np.repeat(rng.random(12) < 0.7, 10)
    key = np.where(rng.random(120) < 0.5, "yes", "no")
    named = np.where(right, key, np.where(key == "yes", "no", "yes"))
    clusters = [str(place // 10) for place in range(120)]
    alone = classified(key.tolist(), named.tolist(), "yes", "no", positive="yes")
    together = classified(key.tolist(), named.tolist(), "yes", "no", positive="yes", clusters=clusters)

    def width(found: Estimate | None) -> float:
        assert found is not None
        return found.high - found.low

    for name in ("sensitivity", "specificity", "ppv", "npv", "f1", "youden"):
        assert width(getattr(together.by_class[0], name)) > 1.2 * width(getattr(alone.by_class[0], name)), name
    assert width(together.mcc) > 1.2 * width(alone.mcc)


@pytest.mark.long
@pytest.mark.parametrize(
    ("n", "prevalence", "sensitivity", "specificity"),
    [(60, 0.5, 0.8, 0.8), (150, 0.15, 0.9, 0.95), (100, 0.3, 0.5, 0.5)],
)
def test_intervals_hold_the_truth_in_95_of_100_samples(
    n: int, prevalence: float, sensitivity: float, specificity: float
) -> None:
    rng = np.random.default_rng(20)
    tp, fn = prevalence * sensitivity, prevalence * (1 - sensitivity)
    fp, tn = (1 - prevalence) * (1 - specificity), (1 - prevalence) * specificity
    truth = {
        "sensitivity": sensitivity,
        "specificity": specificity,
        "ppv": tp / (tp + fp),
        "npv": tn / (tn + fn),
        "f1": 2 * tp / (2 * tp + fp + fn),
        "youden": sensitivity + specificity - 1,
        "net_benefit": tp - fp * 0.25,
        "mcc": (tp * tn - fp * fn) / np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)),
    }
    samples = 600
    held = dict.fromkeys(truth, 0)
    for _ in range(samples):
        is_sick = rng.random(n) < prevalence
        says_sick = np.where(is_sick, rng.random(n) < sensitivity, rng.random(n) >= specificity)
        key, named = (["yes" if one else "no" for one in found] for found in (is_sick, says_sick))
        found = classified(key, named, "yes", "no", positive="yes", threshold=0.2)
        one: ClassMeasures = found.by_class[0]
        for name, true in truth.items():
            estimate = found.mcc if name == "mcc" else getattr(one, name)
            held[name] += estimate is None or estimate.low <= true <= estimate.high
    # 600 samples: 3 standard errors are 2.7%
    assert {name: count / samples for name, count in held.items() if count / samples < 0.92} == {}
