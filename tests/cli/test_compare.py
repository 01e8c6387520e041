"""`medhelm compare` and `medhelm power`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmarks.choice import make_benchmark
from tests.support.cli import Medhelm, assert_refused, succeeded


def test_published_models_are_compared_over_benchmarks(medhelm: Medhelm) -> None:
    found = medhelm("compare", "--published-only", "--suite", "paper35", "--json").json
    assert (len(found["pairs"]), found["scoring"]) == (36, "published")
    assert {(pair["unit"], pair["n_benchmarks"]) for pair in found["pairs"]} == {("benchmarks", 35)}


def test_models_without_a_shared_benchmark_say_so(medhelm: Medhelm, tmp_path: Path) -> None:
    medhelm("run", make_benchmark(tmp_path, name="toy"), "--model", "baseline/majority")
    medhelm("run", make_benchmark(tmp_path, name="toy_two"), "--model", "baseline/random")
    for names in ([], ["baseline/majority", "baseline/random"]):
        assert_refused(medhelm("compare", *names), "no instance in common")
    assert "no two models share" in medhelm("power").err


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
