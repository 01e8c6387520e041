"""The example package from end to end: its benchmark, scored by its metric, answered by its provider."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from medhelm.io import plugins
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.plugins import Install
from tests.support.servers.openai import Answer, Server

ANSWERS = {"left leg": "Swollen; warm", "cough": "fever", "corridor": "no complaints"}
"""What stands in a note -> the answer of the ward's server; notes that it does not know it is silent about."""

EXPECTED = (1 + 0.5 + 1 + 0) / 4
"""Mean share of terms named: of the second note's two terms one, of the last one's none."""


def ward(body: dict[str, Any]) -> Answer:
    question = body["question"]
    answer = next((answer for words, answer in ANSWERS.items() if words in question), "")
    return Answer(body={"answer": answer, "tokens": [len(question) // 4, 3]})


@pytest.fixture
def model(server: Server) -> str:
    server.answer_with(ward)
    return f"ward/m1@{server.url}"


@pytest.fixture
def data(example: Path, tmp_path: Path) -> Path:
    """The sample rows in the place of real ones."""
    place = tmp_path / "data" / "ward"
    place.mkdir(parents=True)
    rows = (example / "benchmarks" / "ward" / "sample.jsonl").read_bytes()
    (place / "notes.jsonl").write_bytes(rows)
    return place.parent


def test_run_leaderboard_verify_and_rescore(medhelm: Medhelm, data: Path, server: Server, model: str) -> None:
    done = succeeded(medhelm("run", "ward", "--data", data, "--model", model, "--model", "baseline/lexical", "--json"))
    run, floor = done.json["runs"]
    assert (run["model"], run["status"], run["n"], run["main_metric"]) == (model, "complete", 4, "ward")
    assert run["metrics"]["ward"]["value"] == pytest.approx(EXPECTED)
    assert (run["tokens"]["output"], run["cost_usd"]) == (12, None)
    assert (server.count, set(server.paths), server.bodies[0]["limit"]) == (4, {"/answer"}, 50)
    assert floor["model"] == "baseline/lexical"
    board = succeeded(medhelm("leaderboard", "--format", "json"))
    assert [column["metric"] for column in board.json["benchmarks"]] == ["ward"]
    verified = succeeded(medhelm("verify", "--data", data))
    assert "2 of 2 runs were recomputed from their completions" in verified.out
    file = Path(run["run_dir"]) / "run.json"
    file.write_text(file.read_text(encoding="utf-8").replace('"0.1.0"', '"0.0.9"'), encoding="utf-8")
    assert "made with medhelm-ward 0.0.9; this is 0.1.0" in medhelm("verify", "--data", data, "--json").out
    rescored = {run["model"]: run for run in medhelm("rescore", "ward", "--data", data, "--json").json["runs"]}
    assert rescored[model]["metrics"]["ward"]["value"] == pytest.approx(EXPECTED)
    assert server.count == 4


def test_a_price_and_a_name_of_ones_own(
    medhelm: Medhelm, data: Path, server: Server, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = f"provider: ward, model: m1, base_url: '{server.url}', key: WARD_KEY, price: {{input: 1, output: 1000}}"
    (tmp_path / "models.yaml").write_text(f"night-shift: {{{known}}}\n", encoding="utf-8")
    command = ("run", "ward", "--data", data, "--model", "night-shift", "--json")
    assert_refused(medhelm(*command), "WARD_KEY", code=4)
    monkeypatch.setenv("WARD_KEY", "secret-of-the-ward\n")
    done = succeeded(medhelm(*command))
    assert server.headers[0]["authorization"] == "Bearer secret-of-the-ward"
    tokens = done.json["runs"][0]["tokens"]
    assert done.json["runs"][0]["cost_usd"] == pytest.approx(tokens["input"] / 1e6 + 12 * 1000 / 1e6)


def test_the_egress_policy_and_the_client_are_those_of_all_providers(
    medhelm: Medhelm, example: Path, server: Server
) -> None:
    outside = ("--offline", "--model", "ward/m1@https://ward.example.org/api")
    refused = medhelm("run", "ward", "--tier", "sample", *outside)
    assert_refused(refused, "ward.example.org may not be reached: offline mode")
    command = ("run", "ward", "--tier", "sample", "--model", f"ward/m1@{server.url}", "--json")
    server.script(Answer(status=401))
    assert "the server does not accept this key" in medhelm(*command).err
    server.script(Answer(body={"answer": "x", "tokens": [1, 2, 3]}))
    broken = medhelm(*command)
    assert (broken.code, broken.json["runs"][0]["failures"]) == (1, {"plugin_error": 4})
    assert "Traceback" not in broken.err


def test_lists_say_whose_it_is(medhelm: Medhelm, site: Path, example: Path) -> None:
    shown = medhelm("benchmarks", "list", "ward_benchmarks", "--json").json["benchmarks"]
    assert [(one["name"], one["package"]) for one in shown] == [("ward", "medhelm-ward")]
    assert "package       medhelm-ward" in medhelm("benchmarks", "show", "ward").out
    listed = succeeded(medhelm("plugins", "--json"))
    assert [(one["kind"], one["name"], one["gives"], one["problems"]) for one in listed.json["plugins"]] == [
        ("provider", "ward", ["ward"], []),
        ("metric", "ward", ["ward"], []),
        ("benchmark", "ward_benchmarks", ["ward"], []),
    ]


def test_what_is_broken_is_listed_and_disturbs_nothing_else(
    medhelm: Medhelm, site: Path, install: Install, data: Path
) -> None:
    code = "raise RuntimeError('not on this machine')\n"
    install("shaky", code, providers={"shaky": "F"}, metrics={"shaky_metric": "M"}, benchmarks={"shaky_tasks": ""})
    install("thief", "X = 1\n", metrics={"exact_match": "X"}, providers={"openai": "X"}, benchmarks={"pubmed_qa": "X"})
    listed = medhelm("plugins", "--json")
    assert listed.code == 1
    wrong = {(one["package"], one["name"]): one["problems"] for one in listed.json["plugins"] if one["problems"]}
    assert {name for _, name in wrong} == {
        *["shaky", "shaky_metric", "shaky_tasks", "exact_match", "openai", "pubmed_qa"]
    }
    for (package, name), (problem,) in wrong.items():
        assert ("RuntimeError: not on this machine" if package == "shaky" else f"uses the name `{name}`") in problem
    benchmarks = succeeded(medhelm("benchmarks", "list"))
    assert "medhelm: skipped: shaky 0.1 (entry point `shaky_tasks`" in benchmarks.err
    ran = medhelm("run", "ward", "pubmed_qa", "--tier", "sample", "--model", "baseline/majority")
    assert (ran.code, "shaky" in ran.err + ran.out) == (0, False)
    refused = medhelm("run", "shaky_one", "--tier", "sample", "--model", "shaky/x")
    assert_refused(refused, "It may belong to a package that cannot be used: shaky 0.1", "cannot be imported")


def test_a_metric_that_does_not_work_is_missing_and_others_are_scored(
    medhelm: Medhelm, install: Install, example: Path, tmp_path: Path, server: Server
) -> None:
    install("shaky", "raise RuntimeError('not on this machine')\n", metrics={"shaky_metric": "M"})
    folder = tmp_path / "own" / "ward_2"
    folder.mkdir(parents=True)
    text = (example / "benchmarks" / "ward" / "benchmark.yaml").read_text(encoding="utf-8")
    text = text.replace("name: ward", "name: ward_2").replace("[ward,", "[shaky_metric,")
    (folder / "benchmark.yaml").write_text(text, encoding="utf-8")
    (folder / "sample.jsonl").write_bytes((example / "benchmarks" / "ward" / "sample.jsonl").read_bytes())
    server.answer_with(ward)
    why = "shaky 0.1 (entry point `shaky_metric` of medhelm.metrics) cannot be imported: RuntimeError"
    command = ("run", folder, "--tier", "sample", "--model", f"ward/m1@{server.url}")
    done = medhelm(*command, "--json")
    (run,) = done.json["runs"]
    assert (done.code, server.count, run["main_metric"]) == (1, 4, "shaky_metric")  # 1: the main metric is missing
    assert why in run["metrics"]["shaky_metric"]["not_computed"]
    assert run["metrics"]["exact_match"]["n"] == 4
    (folder / "benchmark.yaml").write_text(text.replace(", exact_match]", "]"), encoding="utf-8")
    assert_refused(medhelm(*command), why, "has no other metric. Nothing was sent.")
    assert server.count == 4


def test_a_store_outlives_the_package(
    medhelm: Medhelm, site: Path, example: Path, data: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert medhelm("run", "ward", "--data", data, "--model", model).code == 0
    for folder in site.glob("*.dist-info"):
        shutil.rmtree(folder)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place != str(example.parent)])
    plugins.forget()
    board = succeeded(medhelm("leaderboard", "--format", "json"))
    assert board.json["models"][0]["benchmarks"]["ward"]["value"] == pytest.approx(EXPECTED)
    assert "The scale of these metrics is unknown" in medhelm("leaderboard").out
    assert_refused(medhelm("run", "ward", "--data", data, "--model", model), "unknown benchmark `ward`")
    assert medhelm("export", "csv", Path("out")).code == 0


COMMAND = """
import click
from medhelm.errors import UserError

@click.command()
@click.argument("ward")
def beds(ward):
    "Count beds."
    if ward == "none":
        raise UserError("there is no such ward")
    click.echo(f"{ward}: 12 beds")
    return 1 if ward == "full" else None
"""


def test_a_package_adds_a_command(medhelm: Medhelm, install: Install) -> None:
    module = install("beds", COMMAND, commands={"ward-beds": "beds", "broken": "gone", "serve": "beds"})
    assert "ward-beds" not in medhelm("--help").out
    assert module not in sys.modules
    assert medhelm("ward-beds", "3").out == "3: 12 beds\n"
    assert [medhelm("ward-beds", ward).code for ward in ("3", "full", "none")] == [0, 1, 2]
    assert medhelm("ward-beds", "none").err == "medhelm: there is no such ward\n"
    assert "Show the results in a browser." in medhelm("serve", "--help").out
    assert medhelm("broken").code == 2
    listed = medhelm("plugins", "--json").json["plugins"]
    assert {one["name"]: one["gives"] for one in listed} == {"broken": [], "serve": [], "ward-beds": ["ward-beds"]}
    problems = [problem for one in listed for problem in one["problems"]]
    assert "cannot be imported: AttributeError" in problems[0]
    assert "uses the name `serve`, which is already taken" in problems[1]
