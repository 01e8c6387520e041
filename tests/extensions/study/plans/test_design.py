"""The assignment of cases to raters, their order, the sides of pairs, and the number of cases for a precision."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import combinations, pairwise
from typing import TypedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.analysis.agreement.reliability import rater_effect
from medhelm.analysis.means import t_quantile
from medhelm.extensions.study.plans.design import (
    GAP_OF_REPEATS,
    DesignCase,
    Spread,
    assign,
    cases_for_precision,
    half_width,
    mark_shared,
    pair_models,
    spread_of_ratings,
    usual_spread,
)
from medhelm.extensions.study.types import Assignment, CaseKind

Given = Mapping[str, tuple[Assignment, ...]]


class Rules(TypedDict):
    """Further arguments of `assign`."""

    raters_per_shared_case: int
    repeated: float
    seed: int


@st.composite
def designs(draw: st.DrawFn) -> tuple[list[DesignCase], list[DesignCase], list[str], Rules]:
    """Draw cases of some models on some instances, raters, and rules."""
    n_models, n_instances = draw(st.integers(1, 5)), draw(st.integers(1, 25))
    n_raters = draw(st.integers(2, 7))
    k = draw(st.integers(2, n_raters))
    shared = mark_shared(n_instances, draw(st.sampled_from([0.0, 0.2, 0.5, 1.0])))
    cases = [
        DesignCase(items=(f"{model}/{n}",), models=(f"m{model}",), instance=f"i{n}", is_shared=shared[n])
        for model in range(n_models)
        for n in range(n_instances)
    ]
    calibration = [
        DesignCase(items=(f"c{n}",), models=("m0",), instance=f"c{n}") for n in range(draw(st.integers(0, 3)))
    ]
    repeated = draw(st.sampled_from([0.0, 0.1, 0.3]))
    rules = Rules(raters_per_shared_case=k, repeated=repeated, seed=draw(st.integers(0, 99)))
    return cases, calibration, [f"r{n}" for n in range(n_raters)], rules


@given(designs())
def test_loads_models_and_shared_cases_are_balanced(
    design: tuple[list[DesignCase], list[DesignCase], list[str], Rules],
) -> None:
    cases, calibration, raters, rules = design
    given = assign(cases, calibration, raters, **rules)
    assert given == assign(cases, calibration, raters, **rules)
    once = {rater: [one.items[0] for one in _of(own, CaseKind.SINGLE, CaseKind.SHARED)] for rater, own in given.items()}
    loads = [len(own) for own in once.values()]
    assert max(loads) - min(loads) <= 1
    for model in {case.models[0] for case in cases}:
        counts = [sum(item.startswith(f"{model[1:]}/") for item in own) for own in once.values()]
        assert max(counts) - min(counts) <= 1
    raters_of = Counter(item for own in once.values() for item in own)
    assert raters_of == {case.items[0]: rules["raters_per_shared_case"] if case.is_shared else 1 for case in cases}
    assert all(len(set(own)) == len(own) for own in once.values())


@given(designs())
def test_calibration_comes_first_and_repeats_come_late(
    design: tuple[list[DesignCase], list[DesignCase], list[str], Rules],
) -> None:
    cases, calibration, raters, rules = design
    instance = {case.items[0]: case.instance for case in cases}
    for own in assign(cases, calibration, raters, **rules).values():
        assert [one.number for one in own] == list(range(1, len(own) + 1))
        kinds = [one.kind for one in own]
        n = len(calibration)
        assert kinds[:n] == [CaseKind.CALIBRATION] * n
        assert CaseKind.CALIBRATION not in kinds[n:]
        assert [one.items for one in own[:n]] == [case.items for case in calibration]
        first: dict[str, int] = {}
        for one in own[n:]:
            if one.kind is CaseKind.REPEATED:
                assert one.number - first[one.items[0]] >= GAP_OF_REPEATS
            else:
                first[one.items[0]] = one.number
        n_main = len(first)
        n_repeated = sum(kind is CaseKind.REPEATED for kind in kinds)
        assert n_repeated == min(round(rules["repeated"] * n_main), max(n_main - GAP_OF_REPEATS + 1, 0))
        counts = Counter(instance[item] for item in first)
        if counts and max(counts.values()) <= n_main - max(counts.values()) and not n_repeated:
            names = [instance[one.items[0]] for one in own[n:]]
            assert all(one != other for one, other in pairwise(names))


def test_completions_of_one_instance_are_far_apart_and_pairs_of_raters_meet_equally_often() -> None:
    cases = [
        DesignCase(items=(f"{model}/{n}",), models=(model,), instance=f"{n}", is_shared=True)
        for model in "abcd"
        for n in range(30)
    ]
    given = assign(cases, [], ["r1", "r2", "r3", "r4"], seed=5)
    raters_of: dict[str, list[str]] = defaultdict(list)
    for rater, own in given.items():
        last: dict[str, int] = {}
        for one in own:
            name = one.items[0].partition("/")[2]
            assert one.number - last.get(name, -99) >= 10
            last[name] = one.number
            raters_of[one.items[0]].append(rater)
    meetings = Counter(frozenset(pair) for found in raters_of.values() for pair in combinations(found, 2))
    assert len(meetings) == 6
    assert max(meetings.values()) - min(meetings.values()) <= 4


@given(st.integers(2, 6), st.integers(1, 30), st.integers(1, 4), st.integers(0, 50))
def test_sides_of_pairs_are_balanced_for_each_model_and_rater(n_models: int, n: int, n_raters: int, seed: int) -> None:
    models = [f"m{one}" for one in range(n_models)]
    cases = [
        DesignCase(items=(f"{one}/{number}", f"{other}/{number}"), models=(one, other), instance=f"{number}")
        for number, met in enumerate(pair_models(models, n))
        for one, other in met
    ]
    seen = Counter(model for case in cases for model in case.models)
    assert max(seen.values()) - min(seen[model] for model in models) <= 1
    for own in assign(cases, [], [f"r{one}" for one in range(n_raters)], seed=seed).values():
        left, right = (Counter(one.items[side].partition("/")[0] for one in own) for side in (0, 1))
        assert all(abs(left[model] - right[model]) <= 1 for model in models)


def test_too_few_raters_are_refused() -> None:
    case = DesignCase(items=("a",), models=("m",), instance="i", is_shared=True)
    with pytest.raises(ValueError, match="too few"):
        assign([case], [], ["r1"])


# --- precision --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wanted", "n_raters", "shared"), [(0.5, 6, 0.3), (0.35, 10, 1.0), (0.3, 2, 0.5)])
def test_the_precision_that_was_wanted_is_reached(wanted: float, n_raters: int, shared: float) -> None:
    """Studies of the planned size are simulated, and the interval is computed as the leaderboard does."""
    spread = usual_spread(1, 5)
    n = cases_for_precision(wanted, spread, n_raters, shared=shared)
    assert n is not None
    assert half_width(spread, n, n_raters, shared=shared) <= wanted < half_width(spread, n - 1, n_raters, shared=shared)
    cases = [
        DesignCase(items=(f"{number}",), models=("m",), instance=f"{number}", is_shared=is_shared)
        for number, is_shared in enumerate(mark_shared(n, shared))
    ]
    raters = [f"r{number}" for number in range(n_raters)]
    given = np.zeros((n, n_raters), dtype=bool)
    for rater, own in assign(cases, [], raters).items():
        given[[int(one.items[0]) for one in own], raters.index(rater)] = True
    shares = (given / given.sum(axis=1, keepdims=True)).sum(axis=0) / n
    rng = np.random.default_rng(1)
    reaches, missed = [], 0
    for _ in range(400):
        severity = rng.normal(0, spread.between_raters, n_raters)
        quality = rng.normal(0, spread.between_instances, (n, 1))
        noise = rng.normal(0, spread.residual, (n, n_raters))
        table = np.where(given, quality + severity + noise, np.nan)
        means = np.nanmean(table, axis=1)
        effect = rater_effect(table, shares)
        of_cases = t_quantile(0.975, n - 1) * float(means.std(ddof=1)) / np.sqrt(n)
        reaches.append(float(np.hypot(of_cases, effect.reach)))
        target = 0.0 if effect.deviation is not None else float(severity @ shares)
        missed += abs(float(means.mean()) - target) > reaches[-1]
    assert float(np.mean(reaches)) <= wanted * 1.05
    assert missed / 400 <= 0.075


def test_the_spread_of_grades_is_estimated_from_earlier_ratings() -> None:
    rng = np.random.default_rng(3)
    true = Spread(between_instances=0.9, residual=0.5, between_raters=0.3)
    found = []
    for _ in range(40):
        severity = rng.normal(0, true.between_raters, 8)
        tables = []
        for _model in range(3):
            quality = rng.normal(rng.normal(3, 0.5), true.between_instances, (40, 1))
            table = quality + severity + rng.normal(0, true.residual, (40, 8))
            given = np.array([rng.permutation(8) < rng.integers(1, 4) for _case in range(40)])
            tables.append(np.where(given, table, np.nan))
        one = spread_of_ratings(tables, usual_spread(1, 5), "ratings")
        assert one
        found.append((one.between_instances, one.residual, one.between_raters))
    assert np.mean(found, axis=0) == pytest.approx([0.9, 0.5, 0.3], abs=0.06)
    assert spread_of_ratings([np.full((9, 2), 3.0)], usual_spread(1, 5), "") is None


def test_few_raters_cannot_reach_every_precision() -> None:
    spread = usual_spread(1, 5)
    assert cases_for_precision(0.3, spread, 3, shared=0.3) is None
    assert cases_for_precision(0.3, spread, 0, shared=0.3) is not None


def _of(own: tuple[Assignment, ...], *kinds: CaseKind) -> list[Assignment]:
    return [one for one in own if one.kind in kinds]
