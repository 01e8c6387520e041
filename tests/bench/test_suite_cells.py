"""Figures of the suite of benchmarks: commands, reports, made-up data, goals and the table."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.table import Row
from bench.tools import suite_probe
from bench.workloads import suite
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.prompts import render
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.bench_rows import measured


def run_probe(capsys: pytest.CaptureFixture[str], *words: str | Path) -> Any:
    capsys.readouterr()
    assert suite_probe.main([str(word) for word in words]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_made_up_ehrshot_is_read_by_the_real_benchmark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = run_probe(capsys, "write-ehrshot", tmp_path / "ehrshot", "--patients", "12", "--events", "120")
    assert 12 * 100 < written["events"] < 12 * 140
    (benchmark,) = load_benchmarks(["ehrshot"], metrics=METRIC_NAMES)
    dataset = open_dataset(benchmark, data=tmp_path, tier="real")
    prompts = [render(benchmark, instance).messages[0].text for instance in dataset]
    assert {instance.group for instance in dataset} == set(suite_probe.TASKS)
    assert dataset.n == len(set(prompts)) == 6 * 3, "every other patient is a test patient"
    assert all(prompt.count("LOINC/") > 1 for prompt in prompts)
    assert not any("Gender/" in prompt for prompt in prompts), "has no time"
    found = run_probe(capsys, "render", "ehrshot", "--data", tmp_path)
    assert found["instances"] == 18
    assert found["characters"] == round(sum(map(len, prompts)) / 18)
    assert found["pass_s"] > 0


# --- goals and the table ----------------------------------------------------------------------------------------------


def row(mode: str, wall_s: float, peak_mib: float = 100.0, **reported: float) -> Row:
    return measured(f"suite/{mode}", wall_s, peak_mib=peak_mib, reported=reported)


ROWS = [
    row("imports", 0.1),
    row("list", 0.3, definitions=37),
    row("sample-tier", 3.0, on_leaderboard=37),
    row("largest", 0.5, instances=5000, characters=400, pass_s=0.3),
    row("largest-again", 3.0, instances=5000, characters=400, pass_s=0.1),
    row("ehrshot-prompts", 9.0, 210.0, instances=3000, characters=130_000, pass_s=8.5),
    row("ehrshot-run", 15.0, 220.0, instances=3000),
    row("rouge", 20.0, ours_s=9.0, ratio=66.7),
]


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        (row("list", 0.51, definitions=37), "listing and validating the definitions, relative to 0.5 s"),
        (row("sample-tier", 3.0, on_leaderboard=36), "benchmarks on the leaderboard of that run"),
        (ROWS[3], ""),
        (replace(ROWS[6], peak_mib=301.0), "peak memory, a run of EHRSHOT's size"),
        (replace(ROWS[7], reported={"ours_s": 61.0, "ratio": 66.7}), "ROUGE of 10,000 notes, one core"),
    ],
)
def test_every_goal_can_be_met_and_missed(changed: Row, missed: str) -> None:
    goals = suite.goals([changed if row.mode == changed.mode else row for row in ROWS])
    names = [goal.name for goal in goals if goal.met is False]
    assert len(names) == bool(missed)
    assert all(name.startswith(missed) for name in names)
