"""`medhelm import inspect` and `medhelm import lm-eval`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.cli import Medhelm, assert_refused, succeeded

FIXTURES = Path(__file__).parents[1] / "fixtures"
INSPECT, LM_EVAL = FIXTURES / "inspect", FIXTURES / "lm_eval"


def test_a_folder_of_logs(medhelm: Medhelm) -> None:
    done = succeeded(medhelm("import", "inspect", INSPECT, INSPECT / "short_0.3.50.json", "--json"))
    runs = done.json["runs"]
    assert done.json["skipped"] == []
    assert [(run["benchmark"], run["model"], run["state"]) for run in runs] == [
        ("short", "invented/m", "new"),
        ("options", "invented/m", "new"),
        ("options", "invented/m", "new"),
        ("short", "hanging/m", "new"),
        ("short", "invented/m", "new"),
        ("short", "invented/m", "new"),
    ]
    assert [run["status"] for run in runs] == ["partial", "complete", "complete", "partial", "complete", "complete"]
    last = runs[-1]
    assert (last["n"], last["n_failed"], last["main_metric"]) == (5, 2, "match")
    assert last["metrics_by_rule"]["published"]["match"]["value"] == pytest.approx(1 / 3)
    assert last["origin"]["harness"] == "inspect"
    assert last["origin"]["version"] == "0.3.50"
    assert last["origin"]["our_task"] is False


def test_the_same_logs_again_change_nothing(medhelm: Medhelm) -> None:
    before = medhelm("import", "inspect", INSPECT, "--json").json["runs"]
    again = medhelm("import", "inspect", INSPECT, "--json").json["runs"]
    assert {run["state"] for run in again} == {"unchanged"}
    assert [run["run_dir"] for run in again] == [run["run_dir"] for run in before]


def test_sample_files_of_lm_eval(medhelm: Medhelm) -> None:
    done = succeeded(medhelm("import", "lm-eval", LM_EVAL))
    assert "invented_choice" in done.out
    assert "Exact match strict" in done.out
    assert "options were compared by log-likelihood" in done.err
    shown = medhelm("show", "invented_short", "1")
    assert "Which organ makes insulin?" in shown.out
    assert "the pancreas" in shown.out
    again = medhelm("import", "lm-eval", LM_EVAL, "--json")
    assert {run["state"] for run in again.json["runs"]} == {"unchanged"}
    assert "0.400 [" in medhelm("leaderboard", "--scoring", "published").out


def test_scoring_at_once(medhelm: Medhelm) -> None:
    """Metrics that compare completions with targets are computed by the corrected rule, too.

    For `exact_match` on an open question, `the pancreas` has a small t, which the task ignores.
    """
    done = medhelm("import", "lm-eval", LM_EVAL, "--json")
    few = next(run for run in done.json["runs"] if run["benchmark"] == "invented_few")
    assert few["metrics_by_rule"]["published"]["exact_match"]["value"] == pytest.approx(0.4)
    assert few["metrics_by_rule"]["corrected"]["exact_match"]["value"] == pytest.approx(0.2)


def test_without_scoring(medhelm: Medhelm) -> None:
    done = medhelm("import", "lm-eval", LM_EVAL, "--no-rescore")
    assert "3 of 3 runs have no corrected score yet: run `medhelm rescore`." in done.out


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
    for name in reasons:
        assert f"{name} was skipped" in done.err


@pytest.mark.parametrize(("command", "name"), [("inspect", "x.eval"), ("lm-eval", "samples_x.jsonl")])
def test_nothing_at_all(medhelm: Medhelm, tmp_path: Path, command: str, name: str) -> None:
    (tmp_path / name).write_text("{}")
    assert_refused(
        medhelm("import", command, name, "nowhere"),
        "no file could be imported",
        f"{name}: ",
        "nowhere: this file or folder does not exist.",
    )


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


LETTERED = "Which drug irreversibly inhibits COX?\nA. Warfarin\nB. Aspirin\nAnswer:"


def samples(folder: Path, *, target: str = "B", completion: str = "Reasoning ...\n\nThe answer is B.") -> Path:
    """A file of lm-eval with two filters, the first of which finds nothing."""
    rows = [
        {
            "doc_id": n, "doc": {}, "target": target, "resps": [[completion]], "filter": name,
            "arguments": {"gen_args_0": {"arg_0": LETTERED, "arg_1": {"max_gen_toks": 99}}},
            "metrics": ["exact_match"], "exact_match": float(name == "flexible-extract"),
        }
        for n in range(3)
        for name in ("strict-match", "flexible-extract")
    ]  # fmt: skip
    folder.mkdir()
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "samples_toy_2026-01-01T00-00-00.1.jsonl").write_text(text, encoding="utf-8")
    return folder


def test_the_board_of_an_import_shows_values(medhelm: Medhelm, tmp_path: Path) -> None:
    done = medhelm("import", "lm-eval", samples(tmp_path / "model"))
    assert "corrected score" not in done.out + done.err
    board = medhelm("leaderboard")
    assert "1.000 [" in board.out
    for words in ("No model has", "rescore", "scale of these metrics"):
        assert words not in board.out


@pytest.mark.parametrize("log", ["options_0.3.285.eval", "options_0.3.50.eval", "short_0.3.285.eval"])
def test_the_board_of_inspects_tasks_shows_values(medhelm: Medhelm, log: str) -> None:
    done = medhelm("import", "inspect", INSPECT / log, "--json").json["runs"][0]
    corrected, published = (done["metrics_by_rule"][rule][done["main_metric"]] for rule in ("corrected", "published"))
    assert corrected["n"] == published["n"]
    assert corrected["value"] >= published["value"]
    assert "No model has" not in medhelm("leaderboard").out


def test_advice_is_what_can_help(medhelm: Medhelm, tmp_path: Path) -> None:
    done = medhelm("import", "lm-eval", samples(tmp_path / "model", target="acetylsalicylic acid"))
    reason = "`exact_match_flexible-extract` selects a part of the completion"
    assert f"1 of 1 runs has no corrected score: {reason}" in done.out
    board = medhelm("leaderboard").out
    for text in (done.out, board):
        assert "medhelm rescore" not in text
        assert "--scoring published` shows the scores of the" in text
    assert "No model has a corrected score on any benchmark." in board
    assert "1.000 [" in medhelm("leaderboard", "--scoring", "published").out


def test_imports_count_completions_without_an_answer(medhelm: Medhelm, tmp_path: Path) -> None:
    folder = samples(tmp_path / "model", completion="More tests would help.")
    for option in ("--rescore", "--no-rescore"):
        store = tmp_path / option
        assert medhelm("import", "lm-eval", folder, option, "--store", store).code == 0
        (run,) = medhelm("runs", "list", "--store", store, "--json").json["runs"]
        assert run["completion_counts"]["unreadable"] == 3
    assert "3 of 3 completions on toy hold no readable answer" in medhelm("leaderboard", "--store", store).out
