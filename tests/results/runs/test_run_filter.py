"""Which runs a filter selects."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from medhelm.domain import Run
from medhelm.errors import UserError
from medhelm.results.options import RunFilter
from medhelm.results.runs.selection import filter_runs
from tests.support.stores import make_run

RUNS = [
    make_run("pubmed_qa", "openai/gpt-4o", started="2026-01-01T10:00:00+00:00"),
    make_run("pubmed_qa", "openai/gpt-4o-mini", started="2026-01-02T10:00:00+00:00"),
    make_run("medec", "openai/gpt-4o", started="2026-01-03T10:00:00+02:00"),
    make_run("ehrshot", "baseline/majority", started="no time"),
]


def apply(**conditions: Any) -> list[int]:
    found: list[Run] = filter_runs(RunFilter(**conditions), RUNS, lambda run: run)
    return [RUNS.index(run) for run in found]


@pytest.mark.parametrize(
    ("conditions", "selected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"models": ["openai/gpt-4o"]}, [0, 2]),  # a whole name, though another one begins with it
        ({"models": ["openai/gpt-4o-"]}, [1]),
        ({"models": ["base", "openai/gpt-4o"]}, [0, 2, 3]),
        ({"excluded": ["baseline/majority"]}, [0, 1, 2]),
        ({"models": ["openai/gpt-4o"], "benchmarks": ["medec"]}, [2]),
        ({"benchmarks": ["p", "m"]}, [0, 1, 2]),
        ({"since": datetime(2026, 1, 2)}, [1, 2]),
        ({"since": datetime(2026, 1, 3, 8, tzinfo=UTC)}, [2]),
    ],
)
def test_conditions(conditions: dict[str, Any], selected: list[int]) -> None:
    assert apply(**conditions) == selected


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"models": ["openai/g"]}, "--model: `openai/g` could be openai/gpt-4o and openai/gpt-4o-mini."),
        ({"models": ["openai/gtp-4o"]}, "--model: no run of `openai/gtp-4o`. Did you mean `openai/gpt-4o`?"),
        ({"excluded": ["nothing"]}, "--exclude: no run of `nothing`. Known: baseline/majority, openai/gpt-4o,"),
        ({"models": ["baseline/majority"], "benchmarks": ["medec"]}, "no run meets these conditions. Models: baseline"),
        ({"since": datetime(2027, 1, 1, tzinfo=UTC)}, "Started: 2026-01-01 to no time."),
    ],
)
def test_what_selects_nothing_names_what_there_is(conditions: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        apply(**conditions)
    assert message in str(error.value)


def test_every_wrong_name_is_in_one_message() -> None:
    with pytest.raises(UserError, match=r"--model: .*\n--exclude: .*\n--benchmark: "):
        apply(models=["x"], excluded=["y"], benchmarks=["z"])


LABELS = [
    "openai/x@http://h/v1",
    "openai/x@http://h/v1 [perturb=typos]",
    "openai/x@http://h/v1 [temperature=0.7]",
    "openai/x@http://h/v1 [temperature=0.7, repeat=2]",
    "openai/y [temperature=1]",
    "openai/y [prompt=terse, temperature=1]",
]


@pytest.mark.parametrize(
    ("conditions", "selected"),
    [
        ({"models": ["openai/x"]}, [0]),
        ({"models": ["openai/x"], "variants": ["all"]}, [0, 1, 2, 3]),
        ({"models": ["openai/x [temperature=0.7]"], "variants": ["repeat=2"]}, [2, 3]),
        ({"models": ["openai/y"]}, [4, 5]),  # no run without a setting
        ({"models": ["openai/x@"], "variants": ["all"]}, [0, 1, 2, 3]),
        ({"excluded": ["openai/x"]}, [4, 5]),
        ({"excluded": ["openai/x [temperature=0.7]"]}, [0, 1, 4, 5]),
    ],
)
def test_a_model_is_shown_with_its_variants_if_these_are_wanted(
    conditions: dict[str, Any], selected: list[int]
) -> None:
    runs = [make_run("medec", label) for label in LABELS]
    found = filter_runs(RunFilter(**conditions), runs, lambda run: run)
    assert [LABELS.index(run.model) for run in found] == selected


def test_aliases_of_benchmarks_and_folders_that_spell_a_model_are_accepted() -> None:
    names = ("openai_gpt-4o", "openai/gpt-4o", "openai_other")
    runs = [make_run(f"{'medec' if n else 'adhd_medeffects'}", name) for n, name in enumerate(names)]
    assert filter_runs(RunFilter(models=["openai/gpt-4o"]), runs, lambda run: run) == runs[:2]
    assert filter_runs(RunFilter(models=["openai/other"]), runs, lambda run: run) == runs[2:]
    assert filter_runs(RunFilter(benchmarks=["shc_sei_med"]), runs, lambda run: run) == runs[:1]
    assert filter_runs(RunFilter(models=["x"]), [], lambda run: run) == []
