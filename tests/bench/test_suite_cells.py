"""Figures of the suite of benchmarks: commands, reports, made-up data, goals and the table."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.cells import TOOLS, Bench, Cell
from bench.table import Row
from bench.tools import suite_probe
from bench.workloads import suite
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.prompts import render
from medhelm.scoring.metrics import METRIC_NAMES

SUITE: dict[str, Cell] = {cell.mode: cell for cell in suite.CELLS}


@pytest.fixture
def place(tmp_path: Path) -> Bench:
    return Bench(work=tmp_path, data=tmp_path / "data", medhelm=tmp_path / "bin" / "medhelm", venvs=None, addresses={})


def answers(place: Bench, said: object, *, python: bool = False, code: int = 0) -> None:
    """Let our command, or the Python beside it, print `said` and its own words to standard error."""
    program = place.medhelm.with_name("python") if python else place.medhelm
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\necho \"$@\" >&2\ncat <<'END'\n{json.dumps(said)}\nEND\nexit {code}\n", "utf-8")
    program.chmod(0o755)


# --- commands and reports ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("imports", ["bin/python -c import pydantic, yaml, click"]),
        ("list", ["bin/medhelm benchmarks list --json"]),
        ("sample-tier", ["bin/medhelm run all", "--tier sample", "--model baseline/lexical", "/suite-store", "--json"]),
        ("largest", ["suite_probe.py render med_qa", "--sample all", "/data"]),
        ("largest-again", ["suite_probe.py render med_qa", "--sample all", "--passes 15"]),
        ("ehrshot-prompts", ["suite_probe.py render ehrshot", "/synthetic-data"]),
        ("ehrshot-run", ["medhelm run ehrshot", "--model baseline/majority", "/synthetic-data", "/suite-store"]),
        ("rouge", ["rouge.py", "/data"]),
    ],
)
def test_what_a_cell_of_the_suite_does(mode: str, words: list[str], place: Bench) -> None:
    (place.work / "largest.json").write_text('{"benchmark": "med_qa", "instances": 3}', encoding="utf-8")
    command = " ".join(suite.command(SUITE[mode], place))
    assert [word for word in words if word not in command] == []
    assert ("--passes" in command) == (mode == "largest-again")


@pytest.mark.parametrize(
    ("mode", "printed", "found"),
    [
        ("imports", None, {}),
        ("list", {"benchmarks": [{}, {}]}, {"definitions": 2}),
        ("ehrshot-run", {"seconds": 1.5, "runs": [{"n": 30}]}, {"seconds_inside": 1.5, "instances": 30}),
        ("largest", {"instances": 5, "pass_s": 0.25}, {"instances": 5, "pass_s": 0.25}),
        ("rouge", {"ratio": 60.0}, {"ratio": 60.0}),
    ],
)
def test_reports_are_read(mode: str, printed: object, found: Mapping[str, float], place: Bench) -> None:
    place.stdout.write_text("" if printed is None else json.dumps(printed), encoding="utf-8")
    assert suite.read(SUITE[mode], place) == found


def test_the_leaderboard_of_the_sample_tier_is_asked_for(place: Bench) -> None:
    place.stdout.write_text('{"seconds": 2.5}', encoding="utf-8")
    answers(place, {"models": [{"n_benchmarks": 36}]})
    assert suite.read(SUITE["sample-tier"], place) == {"seconds_inside": 2.5, "on_leaderboard": 36}


@pytest.mark.parametrize(
    ("modes", "files"),
    [
        ([], []),
        (["list", "rouge"], []),
        (["largest"], ["largest.json"]),
        (["list", "largest-again"], ["largest.json"]),
    ],
)
def test_only_what_is_needed_is_prepared(modes: list[str], files: list[str], place: Bench) -> None:
    answers(place, {"benchmark": "med_qa", "instances": 7}, python=True)
    suite.prepare([SUITE[mode] for mode in modes], place)
    assert [path.name for path in place.work.glob("*.json")] == files
    assert not files or suite.largest(place) == "med_qa"


@pytest.mark.parametrize("mode", ["ehrshot-prompts", "ehrshot-run", "largest"])
def test_a_preparation_that_fails_says_why(mode: str, place: Bench) -> None:
    answers(place, "", python=True, code=3)
    wanted = "largest --data" if mode == "largest" else "write-ehrshot .*synthetic-data/ehrshot"
    with pytest.raises(SystemExit, match=rf"suite_probe\.py {wanted}.* failed\n.*suite_probe\.py"):
        suite.prepare([SUITE[mode]], place)


# --- processes of their own -------------------------------------------------------------------------------------------


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


def test_made_up_data_is_the_same_every_time(tmp_path: Path) -> None:
    import duckdb

    for name in "ab":
        suite_probe.write_ehrshot(tmp_path / name, patients=6, events=60)
    with duckdb.connect(":memory:") as database:
        for file in sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*.parquet")):
            one, other = (database.read_parquet(str(tmp_path / name / file)).fetchall() for name in "ab")
            assert len(one) > 2
            assert one == other


def test_events_stand_by_patient_and_time(tmp_path: Path) -> None:
    import duckdb

    suite_probe.write_ehrshot(tmp_path, patients=8, events=100)
    with duckdb.connect(":memory:") as database:
        events = database.execute(
            "SELECT subject_id, coalesce(epoch_us(time), -1e18) FROM read_parquet($file)",
            {"file": str(tmp_path / "data" / "data.parquet")},
        ).fetchall()
    assert events == sorted(events)


@pytest.mark.long
def test_the_largest_public_data_is_found(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run_probe(capsys, "largest", "--data", data_dir)
    rendered = run_probe(capsys, "render", found["benchmark"], "--sample", "all", "--passes", "2", "--data", data_dir)
    assert found["instances"] == rendered["instances"] > 1000
    assert rendered["characters"] > 100


def test_without_data_there_is_nothing_to_load(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="holds the data of no public benchmark"):
        suite_probe.largest(tmp_path)


# --- goals and the table ----------------------------------------------------------------------------------------------


def row(mode: str, wall_s: float = 1.0, peak_mib: float = 100.0, **reported: float) -> Row:
    times: dict[str, Any] = dict.fromkeys(("wall_s", "wall_min_s", "wall_max_s", "cpu_s"), wall_s)
    return Row(
        cell=f"suite/{mode}", harness="suite", mode=mode, n=0, latency_ms=0, repetitions=3, peak_mib=peak_mib,
        reported=reported, **times,
    )  # fmt: skip


ROUGE = {
    "pairs": 10_000, "words_per_note": 500, "ours_s": 9.0, "ours_ms": 0.9,
    "library_ms": 60.0, "ratio": 66.7,
}  # fmt: skip
ROWS = [
    row("imports", 0.1),
    row("list", 0.3, definitions=37),
    row("sample-tier", 3.0, on_leaderboard=37),
    row("largest", 0.5, instances=5000, characters=400, pass_s=0.3),
    row("largest-again", 3.0, instances=5000, characters=400, pass_s=0.1),
    row("ehrshot-prompts", 9.0, 210.0, instances=3000, characters=130_000, pass_s=8.5),
    row("ehrshot-run", 15.0, 220.0, instances=3000),
    row("rouge", 20.0, **ROUGE),
]


def test_every_cell_of_the_suite_is_part_of_a_figure() -> None:
    assert [row.mode for row in ROWS] == list(SUITE)


def test_every_goal_of_the_suite_can_be_met() -> None:
    goals = {goal.name: goal for goal in suite.goals(ROWS)}
    assert [name for name, goal in goals.items() if goal.met is not True] == []
    assert goals["listing and validating the definitions, relative to 0.5 s"].value == pytest.approx(0.6)
    assert goals["prompts per second of the largest public data set, including loading"].value == pytest.approx(50_000)
    assert goals["peak memory, a run of EHRSHOT's size"].value == 220


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        (row("list", 0.51, definitions=37), "listing and validating the definitions, relative to 0.5 s"),
        (row("list", 0.3, definitions=36), "definitions listed"),
        (row("sample-tier", 3.0, on_leaderboard=36), "benchmarks on the leaderboard of that run"),
        (row("sample-tier", 61.0, on_leaderboard=37), "a run of all benchmarks, sample tier"),
        (ROWS[3], ""),
        (
            replace(ROWS[4], reported={"instances": 5000, "characters": 400, "pass_s": 0.3}),
            "prompts per second of the ",
        ),
        (replace(ROWS[5], peak_mib=301.0), "peak memory, prompts of EHRSHOT's size"),
        (replace(ROWS[6], peak_mib=301.0), "peak memory, a run of EHRSHOT's size"),
        (replace(ROWS[7], reported={**ROUGE, "ours_s": 61.0}), "ROUGE of 10,000 notes, one core"),
        (replace(ROWS[7], reported={**ROUGE, "ratio": 9.0}), "ROUGE on one core, speedup over rouge-score"),
    ],
)
def test_every_goal_of_the_suite_can_be_missed(changed: Row, missed: str) -> None:
    goals = suite.goals([changed if row.mode == changed.mode else row for row in ROWS])
    names = [goal.name for goal in goals if goal.met is False]
    assert len(names) == bool(missed)
    assert all(name.startswith(missed) for name in names)


@pytest.mark.parametrize("mode", [mode for mode in SUITE if mode not in ("imports", "largest")])
def test_a_goal_of_the_suite_without_its_row_is_neither_met_nor_missed(mode: str) -> None:
    absent = [goal.met for goal in suite.goals([row for row in ROWS if row.mode != mode])]
    spoilt = [replace(row, problem="exit code 1") if row.mode == mode else row for row in ROWS]
    assert None in absent
    assert absent == [goal.met for goal in suite.goals(spoilt)]


def test_the_table_tells_what_was_done() -> None:
    lines = suite.suite_table(ROWS).splitlines()
    cells = {words.strip(): value.strip() for _, words, value, _ in (line.split("|") for line in lines[2:])}
    assert cells["importing only pydantic, yaml and click"] == "0.10 s"
    assert cells["listing and validating 37 definitions"] == "0.30 s"
    assert cells["prompts per second, 5,000 of 400 characters, read again"] == "50,000 /s"
    assert cells["prompts per second, 5,000 of 400 characters, including process startup"] == "10,000 /s"
    assert cells["EHRSHOT's 3,000 prompts of 130,000 characters, including process startup"] == "9.0 s"
    assert cells["the same, rouge-score"] == "60.0 ms"
    assert len(cells) == 10


def test_what_was_not_measured_is_not_in_the_table() -> None:
    assert len(suite.suite_table(ROWS[:2]).splitlines()) == 4
    assert suite.suite_table([replace(row, problem="exit code 1") for row in ROWS]) == ""


def test_the_probe_is_a_script_of_its_own() -> None:
    import subprocess

    done = subprocess.run([sys.executable, TOOLS / "suite_probe.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "write-ehrshot" in done.stderr


def test_a_cell_of_the_suite_asks_no_server() -> None:
    assert {(cell.n, cell.latency_ms, cell.variant) for cell in SUITE.values()} == {(0, 0, "")}
