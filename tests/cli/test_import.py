"""`medhelm import helm`: tables, JSON, exit codes, and what is said of what cannot be read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.exchange.helm import RUNS, copy_of, run_folder

pytestmark = pytest.mark.usefixtures("few_draws")

STORE = Path("medhelm-store")


def test_runs_stand_on_the_leaderboard_by_helms_own_numbers(medhelm: Medhelm) -> None:
    outcome = succeeded(medhelm("import", "helm", RUNS))
    assert "have no corrected score yet: run `medhelm rescore`" in outcome.out
    assert "mock/writer-a has 2 deployments, which are kept as separate models" in outcome.err
    board = medhelm("leaderboard", "--scoring", "published", "--format", "json").json
    models = {row["model"]: row["benchmarks"] for row in board["models"]}
    assert models["mock/writer-b"]["pubmed_qa"]["value"] == pytest.approx(2 / 6, abs=1e-6)
    unknown = {column["id"] for column in board["benchmarks"] if column["category"] == "unknown"}
    assert unknown == {"LETTERS", "STAY-RG", "WARD-EM"}


def test_without_corrected_scores_the_leaderboard_says_what_is_missing(medhelm: Medhelm) -> None:
    medhelm("import", "helm", run_folder("pubmed_qa:model=mock_writer-b"))
    medhelm("import", "helm", run_folder("medec:model=mock_writer-b"))
    outcome = medhelm("leaderboard")
    assert "2 of 2 imported runs have no corrected score. `medhelm rescore` computes" in outcome.out + outcome.err


def test_rescore_at_once_gives_both_rules(medhelm: Medhelm) -> None:
    outcome = succeeded(medhelm("import", "helm", run_folder("pubmed_qa:model=mock_writer-b"), "--rescore", "--json"))
    (run,) = outcome.json["runs"]
    assert run["state"] == "new"
    assert run["metrics_by_rule"]["published"]["exact_match"]["value"] == 2 / 6
    assert run["metrics_by_rule"]["corrected"]["exact_match"]["value"] == 4 / 6
    assert run["origin"]["harness"] == "helm"
    assert outcome.json["skipped"] == []
    again = medhelm("import", "helm", run_folder("pubmed_qa:model=mock_writer-b"), "--json").json
    assert again["runs"][0]["state"] == "unchanged"
    assert again["runs"][0]["metrics_by_rule"] == run["metrics_by_rule"]


def test_what_is_left_out_is_named_and_the_exit_code_is_1(medhelm: Medhelm, tmp_path: Path) -> None:
    copy_of("WARD-EM", tmp_path / "out")
    broken = copy_of("STAY-RG", tmp_path / "out")
    (broken / "per_instance_stats.json.gz").unlink()
    outcome = medhelm("import", "helm", tmp_path / "out", "--json")
    assert outcome.code == 1
    assert [run["benchmark"] for run in outcome.json["runs"]] == ["WARD-EM"]
    assert outcome.json["skipped"] == [
        {"run": f"v1/{broken.name}", "reason": "per_instance_stats.json is missing"},
    ]
    assert "was skipped: per_instance_stats.json is missing" in outcome.err


def test_a_wrong_folder_is_the_users_mistake(medhelm: Medhelm, tmp_path: Path) -> None:
    assert_refused(medhelm("import", "helm", tmp_path / "nowhere"), "this folder does not exist")
    (tmp_path / "empty").mkdir()
    assert medhelm("import", "helm", tmp_path / "empty").code == 2


def test_one_case_shows_prompt_answer_and_judgments(medhelm: Medhelm) -> None:
    medhelm("import", "helm", run_folder("LETTERS:model=mock_writer-a"))
    shown = medhelm("show", "LETTERS", "id1", "--json").json
    assert shown["messages"] == [{"role": "user", "content": "Letter 1 asks about drug B9.\n"}]
    (completion,) = shown["completions"]
    assert completion["completion"] == "Take 1 with milk."
    assert {judgment["judge"] for judgment in completion["judgments"]} == {f"mock/judge{n}" for n in (1, 2, 3)}


def test_commands_that_read_stores_take_imported_runs(medhelm: Medhelm) -> None:
    """Other parts of the house look at the same runs."""
    assert medhelm("import", "helm", RUNS, "--rescore").code == 0
    for command in (["leaderboard"], ["compare", "mock/writer-a", "mock/writer-b"], ["cost"], ["jury"]):
        outcome = medhelm(*command)
        assert outcome.code in (0, 1), (command, outcome.err)
        assert "Traceback" not in outcome.err
    shutil.rmtree(STORE / "instances")
    assert_refused(medhelm("rescore", "WARD-EM"), "Import the run again")


def test_invented_rows_of_ours_stay_invented_on_their_way_through_helms_files(medhelm: Medhelm) -> None:
    medhelm("run", "pubmed_qa", "--tier", "sample", "--model", "baseline/majority")
    assert medhelm("export", "helm", "out").code == 0
    assert medhelm("import", "helm", "out", "--store", "back", "--rescore").code == 0
    board = medhelm("leaderboard", "--store", "back", "--format", "json").json
    assert board["tier"] == "sample"
    own = medhelm("leaderboard", "--format", "json").json
    before, after = (one["models"][0]["benchmarks"]["pubmed_qa"] for one in (own, board))
    same = ("value", "low", "high", "n", "n_failed", "metric")
    assert {key: after[key] for key in same} == {key: before[key] for key in same}
