"""Completions drawn from a store to be rated: only judged ones, the same for the same seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import (
    JURY,
    RULES,
    Completion,
    Failure,
    Judgment,
    Jury,
    JuryResult,
    JuryVerdict,
    Model,
    Record,
    Score,
)
from medhelm.errors import UserError
from medhelm.results.agreement import draw_rating_sample
from tests.support.stores import make_run, write_run

JUDGES = (Model(name="lab/one", provider="openai", remote_name="one"),)
N = 40


def record(position: int) -> Record:
    """A completion with a low score in one of ten, and a good one in the others; the last has no score."""
    value = 1.0 if position % 10 == 0 else 5.0
    failure = Failure("judge", "too_few_judges", "too few") if position == N - 1 else None
    return Record(
        position=position,
        instance_id=f"i{position}",
        cluster="",
        request_digest=b"",
        completion=Completion(text=f"text of {position}"),
        scores=tuple(Score(metric=JURY, rule=r, value=None if failure else value, failure=failure) for r in RULES),
        jury_verdict=JuryVerdict(scores=(), judgments=(Judgment(judge="lab/one", criterion="tone", score=value),)),
    )


def store_with(folder: Path, *models: str, benchmark: str = "triage", **changes: Any) -> Path:
    jury = JuryResult(jury=Jury(judges=JUDGES, min_judges=1), low=1, high=5, tallies={})
    for model in models:
        fields = {"n": N, "main_metric": JURY, "jury_result": jury} | changes
        write_run(folder, make_run(benchmark, model, **fields), [record(position) for position in range(N)], [JURY])
    return folder


def test_each_model_has_its_own_draw_with_its_probability(tmp_path: Path) -> None:
    found = draw_rating_sample(store_with(tmp_path / "s", "lab/m", "lab/n"), 10, seed=7)
    assert found.criteria == ("tone",)
    assert len(found.completions) == 20
    for model in ("lab/m", "lab/n"):
        own = [one for one in found.completions if one.model == model]
        assert len({one.instance_id for one in own}) == 10
        assert {one.probability for one in own} == {10 / (N - 1)}
        assert all(one.completion == f"text of {one.instance_id[1:]}" for one in own)
    assert f"i{N - 1}" not in {one.instance_id for one in found.completions}


def test_a_draw_depends_on_the_seed_and_not_on_other_models(tmp_path: Path) -> None:
    one, two = store_with(tmp_path / "one", "lab/m"), store_with(tmp_path / "two", "lab/m", "lab/n")
    first = {c.instance_id for c in draw_rating_sample(one, 10, seed=1).completions}
    same = {c.instance_id for c in draw_rating_sample(two, 10, seed=1).completions if c.model == "lab/m"}
    other = {c.instance_id for c in draw_rating_sample(one, 10, seed=2).completions}
    assert first == same != other


def test_rare_scores_are_drawn_more_often(tmp_path: Path) -> None:
    found = draw_rating_sample(store_with(tmp_path / "s", "lab/m"), 12, by_score=True).completions
    low = [one for one in found if int(one.instance_id[1:]) % 10 == 0]
    assert len(low) == 4
    assert {one.probability for one in low} == {1.0}


def test_benchmarks_and_models_can_be_named(tmp_path: Path) -> None:
    store = store_with(tmp_path / "s", "lab/m", "lab/n")
    store_with(store, "lab/m", benchmark="letters")
    found = draw_rating_sample(store, 5, benchmarks=["triage"], models=["lab/n"]).completions
    assert {(one.benchmark, one.model) for one in found} == {("triage", "lab/n")}
    with pytest.raises(UserError, match="--benchmark triag: the store has no such judged run"):
        draw_rating_sample(store, 5, benchmarks=["triag"])
    with pytest.raises(UserError, match="--model lab/x"):
        draw_rating_sample(store, 5, models=["lab/x"])
    with pytest.raises(UserError, match="no completion of these"):
        draw_rating_sample(store, 5, benchmarks=["letters"], models=["lab/n"])


def test_a_store_without_judged_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no run whose judges gave grades"):
        draw_rating_sample(tmp_path / "none", 5)
    with pytest.raises(UserError, match="has no run whose judges gave grades"):
        draw_rating_sample(store_with(tmp_path / "s", "lab/m", jury_result=None), 5)
