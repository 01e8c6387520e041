"""`medhelm run` and `medhelm demo`: the contract that scripts rely on."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.benchmarks.choice import make_benchmark
from tests.support.cli import Medhelm, succeeded
from tests.support.servers.openai import Answer, Server


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
            "pubmed_qa --model baseline/nosuch --jury jury.yaml",
            ["model `baseline/nosuch`", "jury.yaml has 3 problems", "`nosuch/x`: unknown", "judges[1]: must be",
             "foo: unknown key", "pubmed_qa: the data was not found"],
        ),
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

    def replayed(name: str, ids: list[str]) -> str:
        lines = [{"benchmark": name, "instance_id": one, "completion": "A"} for one in ids]
        (tmp_path / "old.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return medhelm("run", benchmark, "--model", "replay/old.jsonl").err

    assert "1 line of old.jsonl for toy names an instance that the run does not have: zzz." in replayed(
        "toy", [*ids[1:], "zzz"]
    )
    assert "It has lines for tyo." in replayed("tyo", ids)
    assert replayed("toy", [*ids, "zzz"]) == ""  # all that the run needs is there


def test_global_options_may_stand_before_or_after_the_command(medhelm: Medhelm, tmp_path: Path) -> None:
    benchmark = make_benchmark(tmp_path)
    command = ("run", benchmark, "--model", "baseline/majority")
    assert medhelm("--store", "before", *command).code == medhelm(*command, "--store", "after").code == 0
    assert {path.parent.name for path in tmp_path.glob("*/store.json")} == {"before", "after"}
    misused = medhelm("data", "sample", "medec", "--data", tmp_path / "a", "--out", tmp_path / "b")
    assert (misused.code, misused.err) == (0, "medhelm: --data has no effect on `data sample`.\n")


def test_the_demo_needs_nothing_and_ranks_the_baselines(medhelm: Medhelm) -> None:
    """On the whole suite."""
    demo = succeeded(medhelm("demo", "--json"))
    assert len({run["benchmark"] for run in demo.json["runs"]}) == 37
    assert all(run["status"] == "complete" and run["n"] >= 8 for run in demo.json["runs"])
    assert {run["model"] for run in demo.json["runs"]} == {"baseline/majority", "baseline/lexical", "baseline/random"}


def test_a_completion_that_cannot_be_scored_is_counted_and_ends_with_one(medhelm: Medhelm, tmp_path: Path) -> None:
    medhelm("benchmarks", "new", "doses", "--out", tmp_path)
    place = tmp_path / "doses"
    text = (place / "benchmark.yaml").read_text(encoding="utf-8").replace("choices: [yes, no]", "metadata: [tolerance]")
    text = re.sub("(?m)^positive: .*\n", "", text)
    text = text.replace("metrics: [exact_match, choice_extracted]", "metrics: [numeric_tolerance]")
    (place / "benchmark.yaml").write_text(text.replace("  {options}\n", ""), encoding="utf-8")
    rows_of_file = "case,note,question,answer,tolerance\n1,n,Dose?,5,1\n2,n,Dose of B?,7,-1\n"
    (place / "doses.csv").write_text(rows_of_file, encoding="utf-8")
    outcome = medhelm("run", place, "--model", "baseline/lexical", "--json")
    (run,) = outcome.json["runs"]
    assert outcome.code == 1
    assert (run["status"], run["n_failed"], run["metrics"]["numeric_tolerance"]["n_failed"]) == ("complete", 0, 1)
