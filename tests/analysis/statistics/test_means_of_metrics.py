"""Several metrics at once: the same numbers as one after another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.analysis.statistics.means import MetricScores, estimate, estimate_metrics

FINITE = st.floats(0, 5, allow_nan=False)


def columns(rng: np.random.Generator, n: int) -> dict[str, MetricScores]:
    holes = rng.uniform(0, 5, n)
    holes[::3] = np.nan
    return {
        "binary": MetricScores((rng.random(n) < 0.3).astype(float), 0, 1),
        "grades": MetricScores(rng.integers(1, 6, n).astype(float), 1, 5),
        "share": MetricScores(rng.random(n), 0, 1),
        "holes": MetricScores(holes, 0, 5),
        "constant": MetricScores(np.full(n, 2.0), 0, 5),
        "nothing": MetricScores(np.full(n, np.nan), 0, 5),
    }


@pytest.mark.parametrize("n", [1, 2, 3, 40, 700, 12_000])
def test_each_is_what_it_would_be_alone(n: int) -> None:
    metrics = columns(np.random.default_rng(n), n)
    found = estimate_metrics(metrics, seed=17)
    assert "nothing" not in found
    assert list(found) == [name for name in metrics if name in found]
    for name, one in metrics.items():
        alone = estimate(one.values, low=one.low, high=one.high, rng=np.random.default_rng(17))
        if alone is None:
            assert name not in found
            continue
        assert found[name].low == pytest.approx(alone.low, rel=1e-12)
        assert found[name].high == pytest.approx(alone.high, rel=1e-12)
        assert replace(found[name], low=alone.low, high=alone.high) == alone


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(FINITE, FINITE), min_size=1, max_size=30))
def test_any_scores_at_all(rows: list[tuple[float, float]]) -> None:
    first, second = (np.array(column) for column in zip(*rows, strict=True))
    found = estimate_metrics({"a": MetricScores(first, 0, 5), "b": MetricScores(second, 0, 5)}, seed=3)
    for name, values in (("a", first), ("b", second)):
        alone = estimate(values, low=0, high=5, rng=np.random.default_rng(3))
        assert alone is not None
        assert found[name].value == alone.value
        assert found[name].method == alone.method
        assert found[name].low == pytest.approx(alone.low, abs=1e-12)
        assert found[name].high == pytest.approx(alone.high, abs=1e-12)
