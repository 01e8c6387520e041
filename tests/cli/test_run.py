"""`medhelm run` and `medhelm demo`: the contract that scripts rely on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medhelm.scoring.metrics import bertscore
from tests.support.benchmarks.choice import answers_with, chat, make_benchmark, perfect, rows
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.servers.openai import Answer, Server


def test_scoring_chooses_what_is_shown(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    server.answer_with(answers_with(lambda n: f"{perfect(n)}."))
    command = ("run", make_benchmark(tmp_path), "--model", f"openai/mock@{server.url}/v1", "--json")
    shown = {rule: medhelm(*command, "--scoring", rule).json["runs"][0] for rule in ("corrected", "published")}
    assert {rule: run["metrics"]["exact_match"]["value"] for rule, run in shown.items()} == {
        "corrected": 1.0,
        "published": 0.0,
    }
    assert shown["corrected"]["metrics_by_rule"] == shown["published"]["metrics_by_rule"]


def test_failures_end_with_one_and_are_counted(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    server.script(chat("A"), Answer(status=400))
    outcome = medhelm("run", make_benchmark(tmp_path), "--model", f"openai/mock@{server.url}/v1", "--concurrency", "1")
    assert outcome.code == 1
    assert "bad_request 8" in outcome.out


def test_a_wrong_key_is_said_once_and_the_key_never(
    medhelm: Medhelm, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    server.script(Answer(status=401, body={"error": {"message": "Incorrect API key provided: sk-very-secret"}}))
    outcome = medhelm("run", make_benchmark(tmp_path), "--model", f"openai/mock@{server.url}/v1")
    assert outcome.code == 1
    assert outcome.err.count("answered 401") == 1
    assert "sk-very-secret" not in outcome.err + outcome.out
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"sk-very-secret" not in path.read_bytes(), path


@pytest.mark.parametrize("command", ["run", "plan"])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            "nosuch med_q --model bogus/x --model openai/gpt-4o --judge baseline/majority --judge anthropic/claude",
            ["unknown benchmark `nosuch`", "Did you mean `med_qa`?", "model `bogus/x`", "set the environment variable "
             "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "judge `baseline/majority`"],
        ),
        (
            "pubmed_qa medec clear --data D --model openai/gpt-4o",
            ["D/medec/", "pubmed_qa: the data was not found", "OPENAI_API_KEY", "clear (private): prompts"],
        ),
        (
            "pubmed_qa --model openai/gpt-4o --offline",
            ["OPENAI_API_KEY", "api.openai.com may not be reached: offline", "pubmed_qa: the data was not found"],
        ),
        (
            "pubmed_qa --model baseline/nosuch --jury jury.yaml",
            ["model `baseline/nosuch`", "jury.yaml has 3 problems", "`nosuch/x`: unknown", "judges[1]: must be",
             "foo: unknown key", "pubmed_qa: the data was not found"],
        ),
        ("--model bogus/x", ["name a BENCHMARK", "model `bogus/x`"]),
    ],
)  # fmt: skip
def test_one_message_names_all_problems(
    medhelm: Medhelm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, arguments: str, said: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("D/medec").mkdir(parents=True)
    Path("D/medec/MEDEC-MS-TestSet-with-GroundTruth-and-ErrorType.csv").write_text("a,b\n", encoding="utf-8")
    Path("jury.yaml").write_text("judges:\n  - nosuch/x\n  - 5\nfoo: 1\n", encoding="utf-8")
    outcome = medhelm(command, *arguments.split())
    assert outcome.code == 2
    assert [words for words in said if outcome.err.count(words) != 1] == []
    assert outcome.err.splitlines().count("Nothing was sent.") == 1
    assert not Path("medhelm-store").exists()


def test_lines_of_a_replay_file_that_nothing_uses_are_told(medhelm: Medhelm, tmp_path: Path) -> None:
    benchmark = make_benchmark(tmp_path)
    ids = [json.loads(line)["id"] for line in medhelm("benchmarks", "instances", benchmark).out.splitlines()]

    def replayed(name: str, ids: list[str], *options: str) -> str:
        file = tmp_path / "old.jsonl"
        lines = [{"benchmark": name, "instance_id": one, "completion": "A"} for one in ids]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return medhelm("run", benchmark, "--model", "replay/old.jsonl", *options).err

    assert "1 line of old.jsonl for toy names an instance that the run does not have: zzz." in replayed(
        "toy", [*ids[1:], "zzz"]
    )
    assert "It has lines for tyo." in replayed("tyo", ids)
    assert replayed("toy", [*ids, "zzz"]) == ""  # all that the run needs is there
    limited = replayed("toy", [*ids[1:], "zzz"], "--limit", "2")
    assert "no_replay" in limited
    assert "zzz" not in limited


def test_options_without_an_effect_are_named(medhelm: Medhelm, tmp_path: Path) -> None:
    misused = medhelm("data", "sample", "medec", "--data", tmp_path / "a", "--out", tmp_path / "b")
    assert (misused.code, misused.err) == (0, "medhelm: --data has no effect on `data sample`.\n")
    assert medhelm("data", "--data", tmp_path, "sample", "medec", "--out", tmp_path / "c", "--offline").err == ""
    again = medhelm("data", "sample", "medec", "--out", tmp_path / "b")
    assert (again.code, again.err.endswith("Choose another folder (--out).\n")) == (2, True)
    both = medhelm("leaderboard", "--published-only", "--json", "--format", "csv")
    assert (both.code, both.err) == (0, "medhelm: --format csv has no effect with --json.\n")
    assert both.json["models"]


def test_data_that_is_not_there_ends_with_four(medhelm: Medhelm) -> None:
    assert_refused(
        medhelm("run", "pubmed_qa", "medbullets", "--model", "baseline/majority"), "pubmed_qa", "medbullets", code=4
    )


def test_global_options_may_stand_before_or_after_the_command(medhelm: Medhelm, tmp_path: Path) -> None:
    benchmark = make_benchmark(tmp_path)
    for number, order in enumerate((0, 1)):
        store = ["--store", str(tmp_path / f"store{number}")]
        command = ["run", str(benchmark), "--model", "baseline/majority"]
        assert medhelm(*(store + command if order else command + store)).code == 0
        assert (tmp_path / f"store{number}" / "store.json").is_file()
    assert not (tmp_path / "medhelm-store").exists()


def test_the_demo_needs_nothing_and_ranks_the_baselines(medhelm: Medhelm) -> None:
    outcome = succeeded(medhelm("demo"))
    for name in ("baseline/majority", "baseline/lexical", "baseline/random"):
        assert name in outcome.out
    assert "SAMPLE TIER" in outcome.out


@pytest.mark.long
def test_the_whole_suite_runs_on_invented_rows(medhelm: Medhelm) -> None:
    ran = succeeded(medhelm("run", "all", "--tier", "sample", "--model", "baseline/lexical", "--json"))
    assert len(ran.json["runs"]) == 37
    assert all(run["status"] == "complete" and run["n"] >= 8 for run in ran.json["runs"])
    board = medhelm("leaderboard", "--format", "json").json
    assert len(board["benchmarks"]) == 37
    assert len(board["models"][0]["subcategories"]) == 22
    assert all(mean["value"] is not None for mean in board["models"][0]["subcategories"].values())


def test_a_metric_that_cannot_be_computed_here_is_shown_as_such(
    medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bertscore, "find_spec", lambda name: None)
    bertscore._encoder.cache_clear()  # an earlier test may have loaded it
    bertscore._similarity.cache_clear()
    names = ("medication_qa", "--tier", "sample", "--model", "baseline/lexical")
    shown = succeeded(medhelm("run", *names))
    assert "- not computed: BERTScore, BERTScore P and BERTScore R on 1 benchmark: BERTScore needs torch" in shown.out
    metrics = medhelm("run", *names, "--json").json["runs"][0]["metrics"]
    assert (metrics["bertscore"]["value"], metrics["bertscore"]["n"]) == (None, 0)
    assert "torch" in metrics["bertscore"]["not_computed"]
    assert metrics["rouge_l"]["value"] > 0


def test_a_completion_that_cannot_be_scored_is_counted_and_ends_with_one(medhelm: Medhelm, tmp_path: Path) -> None:
    medhelm("benchmarks", "new", "doses", "--out", tmp_path)
    place = tmp_path / "doses"
    text = (place / "benchmark.yaml").read_text(encoding="utf-8").replace("choices: [yes, no]", "metadata: [tolerance]")
    text = text.replace("metrics: [exact_match, choice_extracted]", "metrics: [numeric_tolerance]")
    (place / "benchmark.yaml").write_text(text.replace("  {options}\n", ""), encoding="utf-8")
    rows_of_file = "case,note,question,answer,tolerance\n1,n,Dose?,5,1\n2,n,Dose of B?,7,-1\n"
    (place / "doses.csv").write_text(rows_of_file, encoding="utf-8")
    outcome = medhelm("run", place, "--model", "baseline/lexical", "--json")
    (run,) = outcome.json["runs"]
    assert outcome.code == 1
    assert (run["status"], run["n_failed"], run["metrics"]["numeric_tolerance"]["n_failed"]) == ("complete", 0, 1)


def test_the_groups_of_a_benchmark_have_equal_weight_by_the_published_rule(medhelm: Medhelm, tmp_path: Path) -> None:
    """Topic 0: five questions, all answered right; topic 1: four, none of them."""
    place = make_benchmark(tmp_path, extra="group: topic\n")
    replies = tmp_path / "replies.jsonl"
    right = [row["answer"] if row["topic"] == "0" else {"A": "B", "B": "A"}[row["answer"]] for row in rows(9)]
    lines = [{"benchmark": "toy", "instance_id": f"q{i}", "completion": text} for i, text in enumerate(right)]
    replies.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    run = medhelm("run", place, "--model", f"replay/{replies}", "--json").json["runs"][0]
    assert run["metrics"]["exact_match"]["value"] == pytest.approx(5 / 9)
    assert run["metrics_by_rule"]["published"]["exact_match"]["value"] == pytest.approx(0.5)
    assert run["groups"] == {
        "0": {"n": 5, "corrected": 1.0, "published": 1.0},
        "1": {"n": 4, "corrected": 0.0, "published": 0.0},
    }
    board = medhelm("leaderboard", "--scoring", "published", "--format", "json").json
    assert board["models"][0]["benchmarks"]["toy"]["value"] == pytest.approx(0.5)
