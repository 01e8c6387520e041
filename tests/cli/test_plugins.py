"""The example package from end to end: its benchmark, scored by its metric, answered by its provider."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from medhelm.io import plugins
from medhelm.storage.runs import load_runs
from medhelm.storage.store import open_store
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
    assert (run["benchmark"], run["model"], run["status"], run["n"], run["main_metric"]) == (
        "ward", model, "complete", 4, "ward",
    )  # fmt: skip
    assert run["metrics"]["ward"]["value"] == pytest.approx(EXPECTED)
    assert run["tokens"]["output"] == 12
    assert run["cost_usd"] is None
    assert (server.count, set(server.paths)) == (4, {"/answer"})
    assert server.bodies[0]["limit"] == 50
    assert floor["model"] == "baseline/lexical"

    again = medhelm("run", "ward", "--data", data, "--model", model, "--json")
    assert (again.code, server.count) == (0, 4)

    (stored,) = [run for run in load_runs(open_store(Path("medhelm-store"))) if run.model == model]
    assert stored.versions["medhelm-ward"] == "0.1.0"
    assert stored.estimates["published"]["ward"].value == pytest.approx(EXPECTED)

    board = succeeded(medhelm("leaderboard", "--format", "json"))
    assert [column["metric"] for column in board.json["benchmarks"]] == ["ward"]
    assert "scale of these metrics is not known" not in json.dumps(board.json)
    assert "Ward" in medhelm("leaderboard", "--by", "benchmark").out

    verified = succeeded(medhelm("verify", "--data", data))
    assert "2 of 2 runs were recomputed from their completions" in verified.out

    assert stored.folder is not None
    file = stored.folder / "run.json"
    file.write_text(file.read_text(encoding="utf-8").replace('"0.1.0"', '"0.0.9"'), encoding="utf-8")
    assert "made with medhelm-ward 0.0.9; this is 0.1.0" in medhelm("verify", "--data", data, "--json").out

    rescored = succeeded(medhelm("rescore", "ward", "--data", data, "--json"))
    assert {run["model"]: run["metrics"]["ward"]["value"] for run in rescored.json["runs"]}[model] == (
        pytest.approx(EXPECTED)
    )
    assert server.count == 4


def test_a_plan_knows_the_model_and_sends_nothing(medhelm: Medhelm, data: Path, server: Server, model: str) -> None:
    plan = succeeded(medhelm("plan", "ward", "--data", data, "--model", model, "--json"))
    (row,) = plan.json["rows"]
    assert (row["requests"], row["cost_usd"], server.count) == (4, None, 0)


def test_a_price_and_a_name_of_ones_own(
    medhelm: Medhelm, data: Path, server: Server, model: str, tmp_path: Path
) -> None:
    server.answer_with(ward)
    (tmp_path / "models.yaml").write_text(
        f"night-shift:\n  provider: ward\n  model: m1\n  base_url: {server.url}\n  key: WARD_KEY\n"
        "  price: {input: 1, output: 1000}\n",
        encoding="utf-8",
    )
    refused = medhelm("run", "ward", "--data", data, "--model", "night-shift")
    assert (refused.code, server.count) == (4, 0)
    assert "WARD_KEY" in refused.err
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WARD_KEY", "secret-of-the-ward\n")
        done = medhelm("run", "ward", "--data", data, "--model", "night-shift", "--json")
    assert done.code == 0, done.err
    assert server.headers[0]["authorization"] == "Bearer secret-of-the-ward"
    tokens = done.json["runs"][0]["tokens"]
    assert done.json["runs"][0]["cost_usd"] == pytest.approx(tokens["input"] / 1e6 + 12 * 1000 / 1e6)


def test_the_one_gate_stands_before_plug_ins_too(medhelm: Medhelm, example: Path) -> None:
    assert_refused(
        medhelm("run", "ward", "--tier", "sample", "--offline", "--model", "ward/m1@https://ward.example.org/api"),
        "ward.example.org may not be reached: offline mode",
    )
    assert_refused(
        medhelm("run", "ward", "--tier", "sample", "--model", "ward/m1"),
        "ward/m1 needs an address: write ward/m1@http://",
    )


def test_the_one_client_retries_and_tells_failures(medhelm: Medhelm, example: Path, server: Server) -> None:
    model = f"ward/m1@{server.url}"
    server.script(Answer(status=401))
    done = medhelm("run", "ward", "--tier", "sample", "--model", model)
    assert "the server does not accept this key" in done.err + done.out
    assert done.code != 0
    server.script(Answer(body={"answer": "x", "tokens": [1, 2, 3]}))
    broken = medhelm("run", "ward", "--tier", "sample", "--model", model, "--json")
    assert broken.code == 1
    assert (broken.json["runs"][0]["n_failed"], broken.json["runs"][0]["status"]) == (4, "failed")
    assert "Traceback" not in broken.err
    assert broken.json["runs"][0]["failures"] == {"plugin_error": 4}


def test_lists_say_whose_it_is(medhelm: Medhelm, example: Path) -> None:
    listed = medhelm("benchmarks", "list")
    (line,) = [line for line in listed.out.splitlines() if line.startswith("ward ")]
    assert line.split()[-1] == "medhelm-ward"
    assert "package" in listed.out.splitlines()[0]
    shown = medhelm("benchmarks", "list", "ward_benchmarks", "--json").json["benchmarks"]
    assert [(one["name"], one["package"]) for one in shown] == [("ward", "medhelm-ward")]
    assert "package       medhelm-ward" in medhelm("benchmarks", "show", "ward").out
    assert medhelm("benchmarks", "check", "ward", "--tier", "sample").code == 0
    assert "package" not in medhelm("benchmarks", "list", "pubmed_qa").out.splitlines()[0]


def test_plugins_lists_all(medhelm: Medhelm, site: Path, example: Path) -> None:
    listed = succeeded(medhelm("plugins", "--json"))
    assert [(one["kind"], one["name"], one["gives"], one["problems"]) for one in listed.json["plugins"]] == [
        ("provider", "ward", ["ward"], []),
        ("metric", "ward", ["ward"], []),
        ("benchmark", "ward_benchmarks", ["ward"], []),
    ]
    assert listed.json["problems"] == []
    assert medhelm("plugins").out.count("medhelm-ward 0.1.0") == 3


def test_plugins_where_there_are_none(medhelm: Medhelm, site: Path) -> None:
    done = medhelm("plugins")
    assert (done.code, done.out) == (0, "No installed package adds providers, metrics or benchmarks.\n")


def test_what_is_broken_is_listed_and_disturbs_nothing_else(
    medhelm: Medhelm, site: Path, install: Install, data: Path
) -> None:
    code = "raise RuntimeError('not on this machine')\n"
    install("shaky", code, providers={"shaky": "F"}, metrics={"shaky_metric": "M"}, benchmarks={"shaky_tasks": ""})
    install("thief", "X = 1\n", metrics={"exact_match": "X"}, providers={"openai": "X"}, benchmarks={"pubmed_qa": "X"})
    listed = medhelm("plugins", "--json")
    assert listed.code == 1
    wrong = {(one["package"], one["name"]): one["problems"] for one in listed.json["plugins"] if one["problems"]}
    assert set(wrong) == {
        *(("shaky", name) for name in ("shaky", "shaky_metric", "shaky_tasks")),
        *(("thief", name) for name in ("exact_match", "openai", "pubmed_qa")),
    }
    for (package, name), (problem,) in wrong.items():
        words = (
            "cannot be imported: RuntimeError: not on this machine" if package == "shaky" else f"uses the name `{name}`"
        )
        assert words in problem
    text = medhelm("plugins")
    assert (text.code, text.out.count("see below"), text.out.count("\n- ")) == (1, 6, 6)

    benchmarks = succeeded(medhelm("benchmarks", "list"))
    assert "ward" in benchmarks.out
    assert "medhelm: skipped: shaky 0.1 (entry point `shaky_tasks`" in benchmarks.err
    assert "thief 0.1 (entry point `pubmed_qa` of medhelm.benchmarks) uses the name" in benchmarks.err
    ran = medhelm("run", "ward", "pubmed_qa", "--tier", "sample", "--model", "baseline/majority")
    assert (ran.code, "shaky" in ran.err + ran.out) == (0, False)
    assert medhelm("leaderboard").code == 0

    may_be = "It may belong to a package that cannot be used: shaky 0.1"
    for benchmark, model, said in (
        ("shaky_tasks", "baseline/majority", ["cannot be imported: RuntimeError: not on this machine"]),
        ("shaky_one", "baseline/majority", ["unknown benchmark `shaky_one`", may_be]),
        ("pubmed_qa", "shaky/x", ["shaky 0.1 (entry point `shaky` of medhelm.providers) cannot be imported"]),
    ):
        assert_refused(medhelm("run", benchmark, "--tier", "sample", "--model", model), *said)


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
    assert medhelm("benchmarks", "list", "--benchmarks", folder.parent).code == 0
    server.answer_with(ward)
    why = "shaky 0.1 (entry point `shaky_metric` of medhelm.metrics) cannot be imported: RuntimeError"
    command = ("run", folder, "--tier", "sample", "--model", f"ward/m1@{server.url}")
    done = medhelm(*command, "--json")
    (run,) = done.json["runs"]
    assert (done.code, server.count, run["main_metric"]) == (1, 4, "shaky_metric")  # 1: the main metric is missing
    assert why in run["metrics"]["shaky_metric"]["not_computed"]
    assert run["metrics"]["exact_match"]["n"] == 4
    assert why in medhelm(*command).out
    assert_refused(medhelm("benchmarks", "check", folder, "--tier", "sample"), why)

    definition = folder / "benchmark.yaml"
    definition.write_text(text.replace(", exact_match]", "]"), encoding="utf-8")
    assert_refused(medhelm(*command), why, "has no other metric. Nothing was sent.")
    assert server.count == 4


def test_a_store_outlives_the_package(
    medhelm: Medhelm,
    site: Path,
    install: Install,
    example: Path,
    data: Path,
    model: str,
    monkeypatch: pytest.MonkeyPatch,
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

    install("newer", "raise OSError('no dictionary')\n", metrics={"ward": "M"})
    broken = succeeded(medhelm("leaderboard"))
    assert "The scale of these metrics is unknown" in broken.out
    assert "newer 0.1 (entry point `ward` of medhelm.metrics) cannot be imported: OSError: no dict" in broken.out
    assert medhelm("export", "csv", Path("out")).code == 0


@pytest.mark.long
def test_the_demo_is_of_what_is_built_in(medhelm: Medhelm, example: Path) -> None:
    done = succeeded(medhelm("demo", "--json"))
    assert "ward" not in {run["benchmark"] for run in done.json["runs"]}
    assert len({run["benchmark"] for run in done.json["runs"]}) == 37


def test_models_check_asks_a_plug_in(medhelm: Medhelm, example: Path, server: Server) -> None:
    server.script(Answer(body={"answer": "OK", "tokens": [3, 1]}))
    done = medhelm("models", "check", f"ward/m1@{server.url}", "--json")
    assert (done.code, server.count) == (0, 1)
    server.script(Answer(status=401))
    refused = medhelm("models", "check", f"ward/m1@{server.url}")
    assert refused.code == 1
    assert "does not accept this key" in refused.out


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
    assert "Count beds." in medhelm("ward-beds", "--help").out
    assert "Show the results in a browser." in medhelm("serve", "--help").out
    assert medhelm("broken").code == 2
    assert "No such command 'beds'" in medhelm("beds").err

    listed = medhelm("plugins", "--json")
    assert listed.code == 1
    assert [(one["kind"], one["name"], one["gives"]) for one in listed.json["plugins"]] == [
        ("command", "broken", []),
        ("command", "serve", []),
        ("command", "ward-beds", ["ward-beds"]),
    ]
    problems = [problem for one in listed.json["plugins"] for problem in one["problems"]]
    assert "cannot be imported: AttributeError" in problems[0]
    assert "uses the name `serve`, which is already taken" in problems[1]


@pytest.mark.parametrize(
    ("code", "name", "words"),
    [("X = 5", "beds", "is not a command of click"), (COMMAND + "X = beds", "Beds", "has a name that is not in lower")],
)
def test_what_is_no_command_is_refused(medhelm: Medhelm, install: Install, code: str, name: str, words: str) -> None:
    install("beds", code, commands={name: "X"})
    done = medhelm(name)
    assert done.code == 2
    assert words in done.err
