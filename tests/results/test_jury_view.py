"""The analysis of judges as JSON and as tables."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from medhelm.analysis.jury.cells import RankSwap
from medhelm.analysis.jury.judges import JuryAnalysis
from medhelm.domain import Estimate
from medhelm.results.formats.fields import estimate_json
from medhelm.results.jury import PARTS, analyze_judges, as_json, to_text
from tests.support.stores import add_judged_runs, grades
from tests.support.values import present


@pytest.fixture(scope="module")
def analysis(tmp_path_factory: pytest.TempPathFactory) -> JuryAnalysis:
    """Two benchmarks, and a judge that fails now and then."""
    store = tmp_path_factory.mktemp("jury") / "store"
    for seed, name in enumerate(("mtsamples_procedures", "medication_qa")):
        table = grades(seed, 12)
        table[2, :, :2] = np.nan
        lengths = np.random.default_rng(seed).integers(50, 500, (4, 12))
        add_judged_runs(store, name, table, lengths=lengths, blank=(5,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("medhelm.analysis.jury.cells.MOST_DRAWS", 50)
        return analyze_judges([store])


@pytest.fixture(scope="module")
def content(analysis: JuryAnalysis) -> dict[str, Any]:
    """As a program reads it."""
    read: dict[str, Any] = json.loads(json.dumps(as_json(analysis), allow_nan=False))
    return read


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


def test_a_missing_interval_is_null() -> None:
    found = estimate_json(Estimate(value=0.12345678, low=-math.inf, high=0.2, n=3, method="x"), PARTS)
    assert found is not None
    assert (found["value"], found["low"], found["high"]) == (0.123457, None, 0.2)
    assert estimate_json(None, PARTS) is None


def test_of_many_swaps_one_that_was_clear_is_shown(analysis: JuryAnalysis) -> None:
    clear = RankSwap(better="c", worse="d", is_significant=True)
    chance = RankSwap(better="a", worse="b", is_significant=False)
    first = analysis.benchmarks[0]
    ranking = present(first.ranking)
    full, without, alone = ranking.panels[:3]
    shown = (full, replace(without, swaps=(chance, clear, chance)), replace(alone, swaps=(chance,)))
    changed = replace(first, ranking=replace(ranking, panels=shown))
    text = to_text(replace(analysis, benchmarks=(changed,)), wide=True)
    assert "d over c (!), 2 more" in text
    assert "b over a\n" in text


def test_csv_holds_every_number_once(analysis: JuryAnalysis, content: dict[str, Any]) -> None:
    rows = list(csv.DictReader(io.StringIO(to_text(analysis, "csv"))))
    assert len(rows) == len(intervals(content))
    keys = [(row["benchmark"], row["statistic"], row["judge"], row["on"]) for row in rows]
    assert len(set(keys)) == len(keys)
    assert sorted(float(row["value"]) for row in rows) == sorted(one["value"] for one in intervals(content))
    assert {(row["scoring"], row["tier"]) for row in rows} == {("corrected", "real")}


def test_names_from_outside_cannot_drive_the_terminal_and_sample_rows_are_marked(analysis: JuryAnalysis) -> None:
    first = analysis.benchmarks[0]
    changed = replace(first, title="\x1b[2Jgone", judges=(replace(first.judges[0], judge="\x1b[31mred"),))
    text = to_text(replace(analysis, benchmarks=(changed,), tier="sample"))
    assert "\x1b" not in text
    assert "SAMPLE TIER" in text
