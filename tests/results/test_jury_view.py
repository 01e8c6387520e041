"""The analysis of judges as JSON and as tables."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medhelm.analysis.jury.cells import RankSwap
from medhelm.analysis.jury.judges import JuryAnalysis
from medhelm.domain import Estimate
from medhelm.results.formats.fields import estimate_json
from medhelm.results.jury import PARTS, analyze_judges, as_json, to_text
from tests.support.stores import add_judged_runs, grades

JUDGES = ("openai/gpt-4o-2024-05-13", "anthropic/claude-3-7-sonnet-20250219", "meta/llama-3.3-70b-instruct")
MODELS = (
    "openai/gpt-4o-2024-05-13",
    "google/gemini-2.0-flash-001",
    "openai/gpt-4o-mini-2024-07-18",
    "meta/llama-3.1-8b",
)


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> JuryAnalysis:
    """Two benchmarks with names as long as real ones; a judge that fails now and then; one that decides the order."""
    store = tmp_path_factory.mktemp("jury") / "store"
    rng = np.random.default_rng(0)
    for seed, name in enumerate(("mtsamples_procedures", "medication_qa")):
        table = grades(seed, 12)
        table[2, :, :2] = np.nan
        if seed:
            table = np.clip(table + 2, 1, 5)
            table[0, 0] = 1
        add_judged_runs(
            store, name, table, models=MODELS, judges=JUDGES, lengths=rng.integers(50, 500, (4, 12)), blank=(5,)
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("medhelm.analysis.jury.cells.MOST_DRAWS", 50)
        return analyze_judges([store])


@pytest.fixture(scope="module")
def content(analysis: JuryAnalysis) -> dict[str, Any]:
    """As a program reads it."""
    read: dict[str, Any] = json.loads(json.dumps(as_json(analysis), allow_nan=False))
    return read


# --- JSON -------------------------------------------------------------------------------------------------------------


def intervals(value: Any) -> list[dict[str, Any]]:
    """Everything in the JSON that has a method."""
    if isinstance(value, list):
        return [found for part in value for found in intervals(part)]
    if isinstance(value, dict):
        own = [value] if "method" in value else []
        return own + [found for part in value.values() for found in intervals(part)]
    return []


def test_every_number_is_in_its_interval_and_names_the_method(content: dict[str, Any]) -> None:
    found = intervals(content)
    assert len(found) > 100
    for one in found:
        assert set(one) == {"value", "low", "high", "n", "method"}
        if one["method"] != "jackknife" or one["low"] is not None:
            assert one["low"] <= one["value"] <= one["high"]
        assert one["n"] > 0
    methods = {one["method"].partition("-")[0].rstrip("0123456789 ") for one in found}
    assert methods <= {"bootstrap", "wilson", "constant", "mean of", "jackknife"}


def test_judgments_are_counted(content: dict[str, Any]) -> None:
    own = content["benchmarks"]["mtsamples_procedures"]
    llama = own["judges"][JUDGES[2]]
    assert llama["judgments"] == {
        "expected": 11 * 4 * 3, "present": 9 * 4 * 3, "failed": 24, "failures": {"malformed_reply": 24},
    }  # fmt: skip
    assert (own["n_instances"], own["n_completions"], llama["tokens"]["input"]) == (12, 44, 13200)
    assert content["overall"]["judges"][JUDGES[2]]["judgments"]["failed"] == 48
    assert llama["family"] == "Meta"
    assert content["families"]["google/gemini-2.0-flash-001"] == "Google"


def test_the_ranking_names_all_panels_and_swapped_models(content: dict[str, Any]) -> None:
    panels = content["benchmarks"]["medication_qa"]["ranking"]["panels"]
    assert [panel["name"] for panel in panels] == [
        "all judges", *(f"without {name}" for name in JUDGES), *(f"{name} alone" for name in JUDGES)
    ]  # fmt: skip
    without = panels[1]
    assert without["judges"] == list(JUDGES[1:])
    # The first judge gave its own family nothing but ones: without it that model rises.
    assert {swap["worse"] for swap in without["swaps"]} == {MODELS[0]}
    assert set(without["swaps"][0]) == {"better", "worse", "told_apart"}
    assert [model["rank"] for model in without["models"]] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, None),
        (Estimate(value=0.5, low=-math.inf, high=math.inf, n=3, method="x"), (0.5, None, None)),
        (Estimate(value=0.12345678, low=0.1, high=0.2, n=3, method="x"), (0.123457, 0.1, 0.2)),
    ],
)
def test_a_missing_interval_is_null(found: Estimate | None, expected: tuple[float | None, ...] | None) -> None:
    made = estimate_json(found, PARTS)
    assert (made and (made["value"], made["low"], made["high"])) == expected


# --- tables -----------------------------------------------------------------------------------------------------------


def test_the_effect_of_a_judge_is_the_change_of_order_without_it(analysis: JuryAnalysis) -> None:
    (own,) = (own for own in analysis.benchmarks if own.benchmark == "medication_qa")
    assert own.ranking
    (line,) = [
        line for line in to_text(replace(analysis, benchmarks=(own,)), "md").splitlines() if f"| {JUDGES[0]} |" in line
    ]
    without = next(panel for panel in own.ranking.panels if panel.judges == JUDGES[1:])
    assert f"| {len(without.swaps)} of 6 pairs swap" in line


def test_one_benchmark_needs_no_mean(analysis: JuryAnalysis) -> None:
    text = to_text(replace(analysis, benchmarks=analysis.benchmarks[:1]), wide=True)
    assert "Mtsamples Procedures" in text
    assert "Medication Qa" not in text
    assert "All benchmarks  " not in text


def test_of_many_swaps_one_that_was_clear_is_shown(analysis: JuryAnalysis) -> None:
    swaps = (
        RankSwap(better="a", worse="b", is_significant=False),
        RankSwap(better="c", worse="d", is_significant=True),
        RankSwap(better="e", worse="f", is_significant=False),
    )
    (first, *_) = analysis.benchmarks
    assert first.ranking
    full, without, alone = first.ranking.panels[:3]
    shown = (full, replace(without, swaps=swaps), replace(alone, swaps=swaps[:1]))
    text = to_text(
        replace(analysis, benchmarks=(replace(first, ranking=replace(first.ranking, panels=shown)),)), wide=True
    )
    assert "d over c (!), 2 more" in text
    assert "b over a\n" in text


def test_sample_rows_are_marked(analysis: JuryAnalysis) -> None:
    assert "SAMPLE TIER" in to_text(replace(analysis, tier="sample"))


def test_csv_holds_every_number_once(analysis: JuryAnalysis, content: dict[str, Any]) -> None:
    rows = list(csv.DictReader(io.StringIO(to_text(analysis, "csv"))))
    assert len(rows) == len(intervals(content))
    keys = [(row["benchmark"], row["statistic"], row["judge"], row["on"]) for row in rows]
    assert len(set(keys)) == len(keys)
    by_key = dict(zip(keys, rows, strict=True))
    mean = by_key["medication_qa", "mean", JUDGES[1], ""]
    assert float(mean["value"]) == content["benchmarks"]["medication_qa"]["judges"][JUDGES[1]]["mean"]["value"]
    alpha = by_key["", "alpha", "", "score"]
    assert float(alpha["low"]) == content["overall"]["agreement"][-1]["alpha"]["low"]
    assert (mean["scoring"], mean["tier"]) == ("corrected", "real")


def test_names_from_outside_cannot_drive_the_terminal(analysis: JuryAnalysis, tmp_path: Path) -> None:
    first = analysis.benchmarks[0]
    changed = replace(first, title="\x1b[2Jgone", judges=(replace(first.judges[0], judge="\x1b[31mred"),))
    text = to_text(replace(analysis, benchmarks=(changed,)))
    assert "\x1b" not in text
