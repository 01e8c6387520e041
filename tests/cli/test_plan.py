"""`medhelm plan` as people and scripts use it: its JSON is a contract."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.benchmarks.choice import chat, make_benchmark
from tests.support.benchmarks.judged import court, write_benchmark
from tests.support.cli import Medhelm, succeeded
from tests.support.exchange.helm import change, copy_of
from tests.support.servers.openai import Server


@pytest.fixture
def command(server: Server, tmp_path: Path) -> list[str]:
    """What follows `plan` or `run`."""
    server.answer_with(court())
    write_benchmark(tmp_path, n=4)
    make_benchmark(tmp_path, n=3)
    lines = [
        f'{name}: {{base_url: "{server.url}/v1", model: {name}, price: {{input: 10, output: 10}}}}\n'
        for name in ("mock", "judge-1", "judge-2")
    ]
    (tmp_path / "models.yaml").write_text("".join(lines), encoding="utf-8")
    return ["./letters", "./toy", "--model", "mock", "--judge", "judge-1", "--judge", "judge-2"]


def test_the_json_is_the_contract(medhelm: Medhelm, server: Server, command: list[str], tmp_path: Path) -> None:
    done = succeeded(medhelm("plan", *command, "--json"))
    found = done.json
    assert [(row["benchmark"], row["model"], row["role"], row["requests"]) for row in found["rows"]] == [
        ("letters", "mock", "model", 4),
        ("letters", "judge-1", "judge", 4),
        ("letters", "judge-2", "judge", 4),
        ("toy", "mock", "model", 3),
    ]
    assert found["requests"] == 15
    for part in ("expected", "max"):
        assert found["cost_usd"][part] == pytest.approx(sum(row["cost_usd"][part] for row in found["rows"]))
    assert all(row["missing"] == [] for row in found["rows"])
    assert server.count == 0
    assert not (tmp_path / "medhelm-store").exists()


OPTIONS = (
    "--limit 2 --tier real --seed 3 --concurrency 4 --timeout 9 --attempts 2 --max-cost 5 --scoring published "
    "--min-judges 1 --sample all"
)


def test_the_same_arguments_as_run(medhelm: Medhelm, server: Server, command: list[str]) -> None:
    options = OPTIONS.split()
    planned = succeeded(medhelm("plan", *command, *options, "--json"))
    sent = medhelm("run", *command, *options, "--json").json["requests_sent"]
    assert planned.json["requests"] == sent == server.count
    again = medhelm("plan", *command, *options, "--json").json
    assert [row["cached"] for row in again["rows"]] == [row["requests"] for row in again["rows"]]
    assert again["cost_usd"]["max"] == 0.0


def test_missing_data_and_keys_end_with_4_after_the_plan(medhelm: Medhelm, command: list[str]) -> None:
    done = medhelm("plan", "cdi_qa", "./toy", "--model", "openai/gpt-4o", "--json")
    assert done.code == 4
    absent, here = done.json["rows"]
    assert (absent["benchmark"], absent["cost_usd"], len(absent["missing"])) == ("cdi_qa", None, 2)
    assert here["missing"] == ["openai/gpt-4o needs a key: set the environment variable OPENAI_API_KEY."]
    assert here["cost_usd"]["expected"] > 0
    assert done.json["cost_usd"]["expected"] is None
    assert done.json["cost_usd"]["at_least"]["expected"] == here["cost_usd"]["expected"]
    assert "the data was not found" in done.err
    shown = medhelm("plan", "cdi_qa", "./toy", "--model", "openai/gpt-4o")
    assert shown.code == 4
    assert "or more" in shown.out


def test_a_model_without_a_price_is_named_and_not_free(medhelm: Medhelm, server: Server, command: list[str]) -> None:
    name = f"openai/nobody@{server.url}/v1"
    done = succeeded(medhelm("plan", "./toy", "--model", name, "--json"))
    assert done.json["rows"][0]["cost_usd"] is None
    assert (done.json["cost_usd"]["expected"], done.json["cost_usd"]["max"]) == (None, None)
    assert name in done.json["warnings"][0]
    assert f"medhelm: the price of {name} is unknown" in done.err


@pytest.mark.parametrize(
    ("limit", "expected", "most"), [("0.0001", False, False), ("0.1", True, False), ("100", True, True)]
)
def test_whether_max_cost_will_do(medhelm: Medhelm, command: list[str], limit: str, expected: bool, most: bool) -> None:
    found = medhelm("plan", *command, "--max-cost", limit, "--json").json["max_cost"]
    assert found == {"usd": float(limit), "fits_expected": expected, "fits_max": most}


def test_what_is_left_of_the_stores_budget_is_compared(medhelm: Medhelm, command: list[str]) -> None:
    assert medhelm("budget", "set", "0.001").code == 0
    assert medhelm("run", *command).code == 3
    planned = succeeded(medhelm("plan", *command))
    said = " ".join(planned.out.split())
    assert re.search(r"the store.s budget, 0\.00\d\d of 0\.001 USD \(`medhelm budget show`\), is too low", said)
    assert "The run would stop before it is complete." in said
    assert medhelm("budget", "set", "0.1").code == 0
    assert "budget show`), may be too low: the cost can reach" in " ".join(medhelm("plan", *command).out.split())
    assert medhelm("budget", "set", "100").code == 0
    assert "budget" not in medhelm("plan", *command).out


def test_prices_of_ones_own(medhelm: Medhelm, command: list[str], tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text("- {model: mock, input: 0, output: 1000000}\n", encoding="utf-8")
    found = medhelm("plan", "./toy", "--model", "mock", "--prices", "ours.yaml", "--json").json
    assert found["cost_usd"]["expected"] == 15.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no_such", "--model", "mock"], "no_such"),
        (["./toy", "--model", "nobody"], "nobody"),
        (["./toy", "--model", "openai/gpt-4o", "--offline"], "may not be reached"),
        (["./toy", "--model", "mock", "--judge", "baseline/majority"], "it cannot judge"),
        (["./toy", "--model", "mock", "--limit", "0"], "--limit"),
        (["./toy"], "--model"),
    ],
)
def test_mistakes_end_with_2_and_no_plan(
    medhelm: Medhelm, server: Server, command: list[str], arguments: list[str], words: str
) -> None:
    done = medhelm("plan", *arguments)
    assert (done.code, done.out, server.count) == (2, "", 0)
    assert words in done.err


def test_the_prompts_of_a_run_of_helm(medhelm: Medhelm, server: Server, command: list[str], tmp_path: Path) -> None:
    """Messages, limits and temperature are the other run's: what is planned is what is then sent, to the request."""
    letters = copy_of("LETTERS:model=mock_writer-a", tmp_path / "helm")

    def warmer(state: Any) -> None:
        for one in state["request_states"]:
            one["request"]["temperature"] = 0.7

    change(letters, "scenario_state.json", warmer)
    verdict = json.dumps({name: {"score": 4, "explanation": "so"} for name in ("accuracy", "completeness", "clarity")})
    server.answer_with(lambda body: chat(verdict if body["model"].startswith("judge") else "Take it."))
    arguments = ["--like", letters, *command[2:]]
    planned = succeeded(medhelm("plan", *arguments, "--json"))
    assert server.count == 0
    assert not (tmp_path / "medhelm-store").exists()
    assert {row["benchmark"] for row in planned.json["rows"]} == {"LETTERS"}
    succeeded(medhelm("run", *arguments, "--json"))
    assert planned.json["requests"] == server.count > 0
    again = medhelm("plan", *arguments, "--json").json
    assert [row["cached"] for row in again["rows"]] == [row["requests"] for row in again["rows"]]
    mistakes: list[list[str | Path]] = [["--tier", "sample"], ["--like", tmp_path / "nothing"]]
    assert [medhelm("plan", *arguments, *more).code for more in mistakes] == [2, 2]


def test_the_sample_tier_needs_no_data(medhelm: Medhelm, tmp_path: Path) -> None:
    done = succeeded(medhelm("plan", "all", "--tier", "sample", "--model", "baseline/majority", "--json"))
    assert len(done.json["rows"]) >= 37
    assert (done.json["requests"], done.json["cost_usd"]["max"]) == (0, 0.0)
    assert not (tmp_path / "medhelm-store").exists()


def test_the_published_selection_can_be_named_for_the_whole_suite(medhelm: Medhelm) -> None:
    """Where it is the default one, it has that name as well; benchmarks outside the suite have none."""
    done = succeeded(
        medhelm("plan", "all", "--tier", "sample", "--model", "baseline/majority", "--sample", "published", "--json")
    )
    assert len({row["benchmark"] for row in done.json["rows"]}) == 37
    outside = medhelm("plan", "healthbench", "--tier", "sample", "--model", "baseline/lexical", "--sample", "published")
    assert outside.code == 2


def test_a_jury_of_one_is_warned_of_only_where_judges_grade(medhelm: Medhelm, tmp_path: Path) -> None:
    asked = ("--model", "baseline/majority", "--judge", "openai/J@http://127.0.0.1:9/v1")
    closed, judged = make_benchmark(tmp_path), write_benchmark(tmp_path)
    assert "is the only judge" not in medhelm("plan", closed, *asked).err
    assert "openai/J@http://127.0.0.1:9/v1 is the only judge" in medhelm("plan", closed, judged, *asked).err
