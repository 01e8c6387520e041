"""Two real models on real data: other programs agree, failures are counted, and the server ends with its user."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.studies import real_models as study
from bench.tools.small_models import BERTSCORE_PACKAGES, SERVER_PACKAGES, missing_packages, running_server
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
