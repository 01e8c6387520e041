"""Severity, own family and length: what is planted is found, and what is not planted is not."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from medhelm.analysis.jury.cells import collect_judgments, difference_from_others
from medhelm.analysis.jury.judges import LengthBias, judge_severity, length_bias, self_preference
from medhelm.domain import Estimate
from tests.support.juries import judged_run
from tests.support.values import present

RUNS = 60
"""Simulated data sets for one coverage; at 95 % they miss more than 8 times twice in a thousand."""

WORST = 1 - 8 / RUNS


def simulated(
    seed: int,
    *,
    n: int = 40,
    judges: int = 3,
    models: int = 4,
    severities: float = 0.0,
    prefers: tuple[float, ...] = (),
    slope: float = 0.0,
    own_slope: float = 0.0,
    failing: float = 0.0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores (judges, models, n), who is whose family, and lengths (models, n).

    Judge and model of the same number are one family. Better models write more: length and quality go together. The
    first judge is harsh, and alone has a taste for length of its own.
    """
    rng = np.random.default_rng(seed)
    doublings = rng.normal(9, 1, (models, n)) + np.arange(models)[:, None] * 0.2
    quality = 3 + rng.normal(0, 0.7, n) + rng.normal(0, 0.4, (models, n)) + slope * (doublings - 9)
    scores = quality + rng.normal(0, 0.3, (judges, 1, n)) + rng.normal(0, 0.4, (judges, models, n))
    scores[0] += own_slope * (doublings - 9) - severities
    own = np.arange(judges)[:, None] == np.arange(models)
    own[len(prefers) :] = False
    for judge, preference in enumerate(prefers):
        scores[judge, judge] += preference
    scores[rng.random(scores.shape) < failing] = np.nan
    return scores, own, 2**doublings


def check(found: list[Estimate | None], truth: float, error: float) -> None:
    """Check that the truth is found on average, and lies inside the intervals."""
    assert np.mean([e.value for e in found if e is not None]) == pytest.approx(truth, abs=error)
    assert np.mean([e is not None and e.low <= truth <= e.high for e in found]) >= WORST


# --- severity ---------------------------------------------------------------------------------------------------------


def severity_of(scores: np.ndarray, clusters: list[str] | None = None) -> list[Estimate | None]:
    """As for a rubric with one criterion."""
    sheets = [judged_run(scores[:, m, :, None], f"m{m}", clusters=clusters) for m in range(scores.shape[1])]
    return judge_severity(collect_judgments(sheets, low=1, high=5), np.random.default_rng(0))


def test_planted_severity_is_found() -> None:
    found = [severity_of(simulated(seed, severities=0.5)[0])[0] for seed in range(RUNS)]
    check(found, 0.5, 0.02)


def test_severity_is_the_mean_distance_from_the_others_on_the_same() -> None:
    scores = np.array([[[1.0, 2, np.nan, 4]], [[3.0, 2, 5, np.nan]], [[3.0, 4, 5, 4]]])
    found = severity_of(scores)
    assert [e and e.value for e in found] == pytest.approx([(2 + 1 + 0) / 3, (-1 + 1 + 0) / 3, (-1 - 2 + 0 + 0) / 4])
    assert [e and e.n for e in found] == [3, 3, 4]


def test_instances_of_one_patient_are_no_independent_evidence() -> None:
    scores, patients = np.repeat(simulated(1, models=1, n=12)[0], 5, axis=2), [f"p{i // 5}" for i in range(60)]
    alone, together = present(severity_of(scores)[0]), present(severity_of(scores, patients)[0])
    assert together.high - together.low > 1.8 * (alone.high - alone.low)


# --- own family -------------------------------------------------------------------------------------------------------


def preference(scores: np.ndarray, own: np.ndarray, clusters: np.ndarray | None = None) -> list[Estimate | None]:
    codes = np.arange(scores.shape[2]) if clusters is None else clusters
    return self_preference(scores, own, codes, np.random.default_rng(0), span=4)


@pytest.mark.parametrize("failing", [0.0, 0.1])
def test_planted_preference_is_found(failing: float) -> None:
    data = [simulated(seed, severities=0.5, prefers=(0.4,), failing=failing) for seed in range(RUNS)]
    found = [preference(scores, own)[0] for scores, own, _ in data]
    check(found, 0.4, 0.03)


@pytest.mark.long
def test_the_preferences_of_others_do_not_count_as_ones_own() -> None:
    """Where every judge favours its own by 0.4, plain differences in differences would say 0.6 or so."""
    data = [simulated(seed, prefers=(0.4, 0.4, 0.0), models=3) for seed in range(RUNS)]
    found = [preference(scores, own) for scores, own, _ in data]
    for judge, truth in enumerate((0.4, 0.4, 0.0)):
        check([estimates[judge] for estimates in found], truth, 0.04)


def test_it_is_least_squares_with_an_effect_for_each_judge_and_each_completion_of_each_instance() -> None:
    """The same numbers from one large regression."""
    scores, own, _ = simulated(7, n=6, prefers=(0.4, -0.2, 0.0), failing=0.15)
    judges, models, n = scores.shape
    rows = [place for place in product(range(judges), range(models), range(n)) if not np.isnan(scores[place])]
    design = np.zeros((len(rows), judges * n + models * n + judges))
    for row, (j, m, i) in enumerate(rows):
        design[row, j * n + i] = design[row, judges * n + m * n + i] = 1
        design[row, judges * n + models * n + j] = own[j, m]
    solution = np.linalg.lstsq(design, np.array([scores[place] for place in rows]), rcond=None)[0]
    found = preference(scores, own)
    assert [e and e.value for e in found] == pytest.approx(solution[-judges:].tolist())


def test_what_cannot_be_known_is_not_said() -> None:
    scores, own, _ = simulated(3, prefers=(0.4, 0.4), judges=2, models=2)
    assert preference(scores, own) == [None, None]  # each other's models only: whose preference is it?
    assert preference(scores, np.ones((2, 2), dtype=bool)) == [None, None]  # no other models
    assert preference(scores, np.zeros((2, 2), dtype=bool)) == [None, None]  # no family
    assert preference(scores[:1], own[:1]) == [None]  # no other judge
    apart = scores.copy()
    apart[:, 0, ::2] = apart[:, 1, 1::2] = np.nan
    assert preference(apart, own[:, :2] & [[True], [False]]) == [None, None]  # no instance with both


def test_what_one_instance_alone_tells_has_no_interval() -> None:
    """One instance shows the sum of both preferences, all others that of the first judge alone."""
    rng = np.random.default_rng(0)
    scores = 3 + rng.normal(0, 0.1, (2, 3, 30))
    scores[0, 0] += 0.5
    scores[1, 1] += 0.2
    scores[:, 2, 0] = scores[:, 1, 1:] = np.nan
    first, second = map(present, preference(scores, np.array([[True, False, False], [False, True, False]])))
    assert (first.n, second.n, first.method, second.method) == (30, 1, "bootstrap-2000", "single")
    assert 0.3 < first.low < 0.5 < first.high < 0.7
    assert (second.low, second.high) == (-8, 8)


# --- length -----------------------------------------------------------------------------------------------------------


def lengths_of(scores: np.ndarray, lengths: np.ndarray, others: np.ndarray | None = None) -> LengthBias:
    codes = np.arange(scores.shape[1])
    return present(length_bias(scores, lengths, codes, np.random.default_rng(0), others=others))


@pytest.fixture
def without_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the rank correlation, which takes most of the time of a simulation."""
    monkeypatch.setattr("medhelm.analysis.jury.judges.bootstrap_estimate", lambda *_: None)


@pytest.mark.usefixtures("without_ranks")
@pytest.mark.parametrize("models", [4, 1])
def test_planted_slope_is_found(models: int) -> None:
    found = []
    for seed in range(RUNS):
        scores, _, lengths = simulated(seed, slope=0.3, models=models)
        found.append(lengths_of(scores[0], lengths).slope)
    check(found, 0.3, 0.03)


@pytest.mark.usefixtures("without_ranks")
def test_quality_that_goes_with_length_is_no_bias_of_one_judge() -> None:
    found: dict[float, list[Estimate | None]] = {0.0: [], 0.2: []}
    for (truth, estimates), seed in product(found.items(), range(RUNS)):
        scores, _, lengths = simulated(seed, slope=0.3, own_slope=truth)
        estimates.append(lengths_of(scores[0], lengths, difference_from_others(scores)[0]).relative_to_others)
    for truth, estimates in found.items():
        check(estimates, truth, 0.02)


@pytest.mark.parametrize(("models", "basis"), [(3, "within instances"), (1, "across instances")])
def test_the_slope_is_that_of_a_regression_with_an_effect_for_each_group(models: int, basis: str) -> None:
    scores, _, lengths = simulated(11, n=20, models=models)
    score = scores[0]
    score[0, 3] = np.nan
    groups = np.broadcast_to(np.arange(20) if models > 1 else np.zeros(20, dtype=int), score.shape)
    there = ~np.isnan(score)
    dummies = groups[there][:, None] == np.unique(groups)
    design = np.column_stack([np.log2(lengths[there]), dummies])
    expected = np.linalg.lstsq(design, score[there], rcond=None)[0][0]
    found = lengths_of(score, lengths)
    assert found.basis == basis
    assert present(found.slope).value == pytest.approx(expected)
    assert present(found.slope).n == there.sum()


def test_no_length_no_difference_no_slope() -> None:
    scores, _, lengths = simulated(0)
    flat = lengths_of(np.full(scores[0].shape, 4.1), lengths)
    assert (flat.slope, flat.spearman) == (None, None)
    alike = lengths_of(scores[0], np.full(lengths.shape, 300.0))
    assert (alike.slope, alike.spearman) == (None, None)
    unknown = np.full(lengths.shape, np.nan)
    assert length_bias(scores[0], unknown, np.arange(40), np.random.default_rng(0)) is None
