"""`medhelm import helm`, `inspect` and `lm-eval`: tables, JSON, exit codes, and what is said of what cannot be read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.exchange.helm import RUNS, copy_of, run_folder


@pytest.mark.usefixtures("few_draws")
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


@pytest.mark.usefixtures("few_draws")
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


@pytest.mark.usefixtures("few_draws")
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


# --- logs of Inspect and lm-eval --------------------------------------------------------------------------------------

FIXTURES = Path(__file__).parents[1] / "fixtures"
INSPECT, LM_EVAL = FIXTURES / "inspect", FIXTURES / "lm_eval"


def test_a_folder_of_logs(medhelm: Medhelm) -> None:
    done = succeeded(medhelm("import", "inspect", INSPECT, INSPECT / "short_0.3.50.json", "--json"))
    runs = done.json["runs"]
    assert done.json["skipped"] == []
    assert [run["benchmark"] for run in runs] == ["short", "options", "options", "short", "short", "short"]
    assert [run["status"] for run in runs] == ["partial", "complete", "complete", "partial", "complete", "complete"]
    last = runs[-1]
    assert (last["n"], last["n_failed"], last["main_metric"]) == (5, 2, "match")
    assert last["metrics_by_rule"]["published"]["match"]["value"] == pytest.approx(1 / 3)
    assert (last["origin"]["harness"], last["origin"]["version"]) == ("inspect", "0.3.50")
    again = medhelm("import", "inspect", INSPECT, "--json").json["runs"]
    assert {run["state"] for run in again} == {"unchanged"}


def test_sample_files_of_lm_eval(medhelm: Medhelm) -> None:
    """The pancreas` has a small t, which the task ignores and `exact_match` does not."""
    plain = medhelm("import", "lm-eval", LM_EVAL, "--no-rescore", "--store", "plain")
    assert "3 of 3 runs have no corrected score yet: run `medhelm rescore`." in plain.out
    done = succeeded(medhelm("import", "lm-eval", LM_EVAL))
    assert "options were compared by log-likelihood" in done.err
    assert "Which organ makes insulin?" in medhelm("show", "invented_short", "1").out
    again = medhelm("import", "lm-eval", LM_EVAL, "--json").json["runs"]
    assert {run["state"] for run in again} == {"unchanged"}
    few = next(run for run in again if run["benchmark"] == "invented_few")
    assert few["metrics_by_rule"]["published"]["exact_match"]["value"] == pytest.approx(0.4)
    assert few["metrics_by_rule"]["corrected"]["exact_match"]["value"] == pytest.approx(0.2)


def test_what_cannot_be_read_is_named_and_the_rest_goes_on(medhelm: Medhelm, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    shutil.copy(INSPECT / "short_0.3.285.eval", logs)
    whole = (INSPECT / "options_0.3.285.eval").read_bytes()
    (logs / "cut.eval").write_bytes(whole[: len(whole) // 2])
    (logs / "empty.eval").touch()
    (tmp_path / "other.json").write_text('{"a": 1}')
    (tmp_path / "nothing").mkdir()
    done = medhelm("import", "inspect", logs, "other.json", "nowhere", "nothing", "--json")
    assert done.code == 1
    assert [run["benchmark"] for run in done.json["runs"]] == ["short"]
    reasons = {Path(one["run"]).name: one["reason"] for one in done.json["skipped"]}
    assert reasons.keys() == {"nowhere", "nothing", "cut.eval", "empty.eval", "other.json"}
    assert reasons["nowhere"] == "this file or folder does not exist."
    assert "this folder has no Inspect log" in reasons["nothing"]
    assert "it is truncated" in reasons["cut.eval"]
    assert "not an Inspect log" in reasons["other.json"]
    assert "cut.eval was skipped" in done.err
    (tmp_path / "x.jsonl").write_text("{}")
    assert_refused(medhelm("import", "lm-eval", "x.jsonl", "nowhere"), "no file could be imported", "x.jsonl: ")


def ours(tmp_path: Path, **metadata: str) -> Path:
    """A log that says it is of a task of ours."""
    content = json.loads((INSPECT / "short_0.3.285.json").read_text(encoding="utf-8"))
    content["eval"]["task"] = "medhelm/pubmed_qa"
    content["eval"]["metadata"] = {"medhelm": {"benchmark": "pubmed_qa", "data_digest": "../../x", **metadata}}
    for sample in content["samples"]:
        if sample.get("scores"):
            values = {"exact_match": 1.0, "exact_match_published": 0.0, "quasi_exact_match": float("nan")}
            sample["scores"] = {"medhelm": {"value": values}}
    path = tmp_path / "ours.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_prompts_that_are_no_longer_ours_leave_the_scores_of_the_log(medhelm: Medhelm, tmp_path: Path) -> None:
    done = medhelm("import", "inspect", ours(tmp_path), "--no-rescore", "--json")
    (run,) = done.json["runs"]
    assert run["benchmark"] == "pubmed_qa"
    assert "the prompts differ from the current prompts of pubmed_qa" in " ".join(run["remarks"])
    assert {name: one["value"] for name, one in run["metrics_by_rule"]["published"].items()} == {"exact_match": 0.0}
    assert run["metrics_by_rule"]["corrected"] == {}
    assert run["origin"]["our_task"] is False


def test_invented_rows_never_stand_beside_real_data(medhelm: Medhelm, tmp_path: Path) -> None:
    assert_refused(
        medhelm("import", "inspect", ours(tmp_path, tier="sample")), "the log holds sample data, not real data"
    )
    unknown = medhelm("import", "inspect", ours(tmp_path, tier="sample", benchmark="my_own"))
    assert "the benchmark my_own is unknown (use --benchmarks DIR" in unknown.err
