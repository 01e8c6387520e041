"""`medhelm import helm`: tables, JSON, exit codes, and what is said of what cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli import Medhelm, succeeded
from tests.support.exchange.helm import RUNS, copy_of, run_folder

pytestmark = pytest.mark.usefixtures("few_draws")


def test_runs_stand_on_the_leaderboard_by_helms_own_numbers(medhelm: Medhelm) -> None:
    outcome = succeeded(medhelm("import", "helm", RUNS))
    assert "have no corrected score yet: run `medhelm rescore`" in outcome.out
    shown = medhelm("leaderboard")
    assert "imported runs have no corrected score. `medhelm rescore` computes" in shown.out + shown.err
    assert "mock/writer-a has 2 deployments, which are kept as separate models" in outcome.err
    board = medhelm("leaderboard", "--scoring", "published", "--format", "json").json
    models = {row["model"]: row["benchmarks"] for row in board["models"]}
    assert models["mock/writer-b"]["pubmed_qa"]["value"] == pytest.approx(2 / 6, abs=1e-6)
    unknown = {column["id"] for column in board["benchmarks"] if column["category"] == "unknown"}
    assert unknown == {"LETTERS", "STAY-RG", "WARD-EM"}


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
