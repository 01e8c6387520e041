"""`medhelm compare` and `medhelm power`."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.benchmarks.choice import make_benchmark
from tests.support.benchmarks.choice import rows as toy_rows
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.made_once import made_once

MODELS = ("replay/weak.jsonl", "replay/middling.jsonl", "replay/strong.jsonl")
"""Three models that get about 40, 60 and 95% right."""


def write_replies(folder: Path, benchmarks: dict[str, int]) -> None:
    """Completions of the three models for the toy benchmarks, each with its number of questions."""
    generator = np.random.default_rng(5)
    for name, share in zip(("weak", "middling", "strong"), (0.4, 0.6, 0.95), strict=True):
        lines = []
        for benchmark, n in benchmarks.items():
            for row in toy_rows(n):
                right = generator.random() < share
                letter = row["answer"] if right else "AB"[row["answer"] == "A"]
                lines.append(json.dumps({"benchmark": benchmark, "instance_id": row["id"], "completion": letter}))
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def store(medhelm: Medhelm, tmp_path: Path) -> Path:
    """A store with three models on two benchmarks."""

    def make() -> None:
        names = [make_benchmark(tmp_path, name=name, n=n) for name, n in (("toy", 60), ("toy_two", 45))]
        write_replies(tmp_path, {"toy": 60, "toy_two": 45})
        models = [part for model in MODELS for part in ("--model", model)]
        assert medhelm("run", *names, *models, "--store", tmp_path / "store").code == 0

    made_once(tmp_path, __name__, make)
    return tmp_path / "store"


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


# --- every pair -------------------------------------------------------------------------------------------------------


def test_every_pair_has_every_test(medhelm: Medhelm, store: Path) -> None:
    found = medhelm("compare", "--all", "--store", store, "--json").json
    assert found["models"] == [MODELS[2], MODELS[1], MODELS[0]]
    assert [(pair["first"], pair["second"]) for pair in found["pairs"]] == [
        (MODELS[2], MODELS[1]),
        (MODELS[2], MODELS[0]),
        (MODELS[1], MODELS[0]),
    ]
    for pair in found["pairs"]:
        assert list(pair["benchmarks"]) == ["toy", "toy_two"]
        for test in (pair["macro_average"], pair["win_share"], *pair["benchmarks"].values()):
            assert test["low"] <= test["difference"] <= test["high"]
            assert test["p_value"] <= test["p_bh"] <= test["p_holm"] <= 1
            assert test["told_apart"] == (test["p_holm"] <= 0.05)
    assert found["told_apart"]["benchmarks"]["n_pairs"] == 6
    assert found["benchmarks"][0]["mde"]["n_pairs"] == 3


def test_files_of_numbers_hold_numbers(medhelm: Medhelm, store: Path) -> None:
    rows = table(medhelm("compare", "--by", "test", "--store", store, "--format", "csv").out)
    assert len(rows) == 6
    for row in rows:
        assert float(row["difference low"]) <= float(row["Difference"]) <= float(row["difference high"])
        assert 0 < float(row["p"]) <= float(row["p adjusted"]) <= 1
    overall = table(medhelm("compare", "--store", store, "--format", "csv").out)
    assert [float(row["Win share difference"]) > 0 for row in overall] == [True] * 3


def test_a_suite_selects_benchmarks_and_weighs_them(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("toy_two\n", encoding="utf-8")
    found = medhelm("compare", "--suite", "mine.txt", "--store", store, "--json").json
    assert ([one["id"] for one in found["benchmarks"]], found["suite"]) == (["toy_two"], "mine.txt")


def test_published_models_are_compared_over_benchmarks(medhelm: Medhelm) -> None:
    found = medhelm("compare", "--published-only", "--suite", "paper35", "--json").json
    assert (len(found["pairs"]), found["scoring"]) == (36, "published")
    assert {(pair["unit"], pair["n_benchmarks"]) for pair in found["pairs"]} == {("benchmarks", 35)}
    assert any("the tests compare benchmark means instead" in remark for remark in found["remarks"])
    pair = medhelm("compare", "--published-only", "GPT-4o", "o3-mini", "--json").json
    assert [(p["first"], p["second"]) for p in pair["pairs"]] == [("o3-mini", "GPT-4o")]


# --- what is odd ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([MODELS[0]], "one model cannot be compared"),
        ([MODELS[0], MODELS[0]], "named twice"),
        (["--all", MODELS[0]], "give names or --all"),
        ([MODELS[0], "replay/stron.jsonl"], "Did you mean `replay/strong.jsonl`?"),
        ([MODELS[0], MODELS[1], "--by", "test"], "--by needs more than two models"),
        (["--suite", "paper35"], "no model was run on its benchmarks"),
    ],
)
def test_mistakes_are_said_in_words(medhelm: Medhelm, store: Path, arguments: list[str], said: str) -> None:
    assert_refused(medhelm("compare", *arguments, "--store", store), said)


def test_a_single_model_cannot_be_compared(medhelm: Medhelm, tmp_path: Path) -> None:
    medhelm("run", make_benchmark(tmp_path), "--model", "baseline/majority")
    for arguments in (["compare"], ["compare", "baseline/majority", "baseline/random"]):
        assert medhelm(*arguments).code == 2
    assert "a comparison needs two models" in medhelm("compare").err
    assert "no two models share" in medhelm("power").err


def test_models_without_a_shared_benchmark_say_so(medhelm: Medhelm, tmp_path: Path) -> None:
    medhelm("run", make_benchmark(tmp_path, name="toy"), "--model", "baseline/majority")
    medhelm("run", make_benchmark(tmp_path, name="toy_two"), "--model", "baseline/random")
    for arguments in (["compare"], ["compare", "baseline/majority", "baseline/random"]):
        assert_refused(medhelm(*arguments), "no instance in common")


def test_failures_throughout_leave_nothing_to_compare(medhelm: Medhelm, tmp_path: Path) -> None:
    """A replay file without the benchmark's lines: every instance is a failure."""
    for file in ("one.jsonl", "two.jsonl"):
        (tmp_path / file).write_text(
            json.dumps({"benchmark": "x", "instance_id": "q", "completion": ""}) + "\n", encoding="utf-8"
        )
    medhelm("run", make_benchmark(tmp_path), "--model", "replay/one.jsonl", "--model", "replay/two.jsonl")
    for arguments in (["compare"], ["compare", "replay/one.jsonl", "replay/two.jsonl"], ["power"]):
        assert_refused(medhelm(*arguments))


# --- power ------------------------------------------------------------------------------------------------------------


def test_power_shows_what_the_store_can_tell(medhelm: Medhelm, store: Path) -> None:
    found = medhelm("power", "--difference", "0.05", "--store", store, "--json").json
    assert MODELS[2] in succeeded(medhelm("power", "--store", store)).out
    assert [one["id"] for one in found["benchmarks"]] == ["toy", "toy_two"]
    for one in found["benchmarks"]:
        assert one["needed"] > one["n"]
        assert one["more"] == one["needed"] - one["n"]
        assert 0.05 < one["power_reached"] < 0.8 < 1
        assert one["detectable"] > 0.05
        assert one["sd"] ** 2 < one["disagreement"]
    assert [(one["first"], one["second"]) for one in found["neighbours"]] == [
        (MODELS[2], MODELS[1]),
        (MODELS[1], MODELS[0]),
    ]


def test_power_has_the_detectable_effect_of_the_leaderboard(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    """Baselines take no part in either."""
    assert medhelm("run", "toy", "--model", "baseline/majority", "--store", store, "--benchmarks", tmp_path).code == 0
    board = {one["id"]: one["mde"] for one in medhelm("leaderboard", "--store", store, "--json").json["benchmarks"]}
    found = medhelm("power", "--store", store, "--json").json
    assert {one["id"]: one["mde"] for one in found["benchmarks"]} == pytest.approx(board, abs=2e-6)
    assert [one["n_pairs"] for one in found["benchmarks"]] == [3, 3]
    assert set(found["models"]) == set(MODELS)
    assert all(one["mde"] < one["detectable"] < 1.1 * one["mde"] for one in found["benchmarks"]), "60 and 45 questions"
    named = medhelm("power", MODELS[0], "baseline/majority", "--store", store, "--json").json
    assert set(named["models"]) == {MODELS[0], "baseline/majority"}


def test_power_of_two_models_and_of_many_comparisons(medhelm: Medhelm, store: Path) -> None:
    pair = medhelm("power", MODELS[0], MODELS[2], "--difference", "0.1", "--store", store, "--json").json
    assert set(pair["models"]) == {MODELS[0], MODELS[2]}
    assert len(pair["neighbours"]) == 1
    strict = medhelm("power", MODELS[0], MODELS[2], "--difference", "0.1", "--pairs", "36", "--store", store, "--json")
    assert strict.json["benchmarks"][0]["needed"] > 1.5 * pair["benchmarks"][0]["needed"]
    assert strict.json["comparisons"] == 36


def test_power_is_a_calculator_without_a_store(medhelm: Medhelm) -> None:
    def power(*words: str) -> Any:
        return succeeded(medhelm("power", *words, "--json")).json

    found = power("--disagreement", "0.18", "--difference", "0.03")
    assert (found["needed"], found["detectable"], found["power_reached"]) == (1568, None, None)
    assert power("--disagreement", "0.18", "--instances", "1000")["detectable"] == 0.037543
    both = power("--sd", "0.2", "--difference", "0.05", "--instances", "130")
    assert both["power_reached"] == pytest.approx(0.8, abs=0.02)
    wide = power("--sd", "0.2", "--design-effect", "3", "--difference", "0.05")
    assert wide["needed"] == pytest.approx(3 * both["needed"], rel=0.05)
    out = medhelm("power", "--disagreement", "0.18", "--difference", "0.03").out
    assert out == "A true difference of 0.03 needs 1,568 instances (power 0.8, level 0.05).\n"
    few = medhelm("power", "--disagreement", "0.01", "--instances", "20").out
    assert few == "20 instances are too few to detect any difference (power 0.8, level 0.05).\n"
    tries = medhelm("power", "--sd", "0.2", "--difference", "0.05", "--instances", "130", "--pairs", "36").out
    assert "shared by 36 comparisons" in tries
    assert "130 instances detect a true difference of 0.05 with" in tries
