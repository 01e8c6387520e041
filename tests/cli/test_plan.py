"""`medhelm plan` as people and scripts use it: its JSON is a contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.benchmarks.choice import make_benchmark
from tests.support.benchmarks.judged import court, write_benchmark
from tests.support.cli import Medhelm, succeeded
from tests.support.servers.openai import Server


@pytest.fixture
def command(server: Server, tmp_path: Path) -> list[str]:
    """What follows `plan` or `run`."""
    server.answer_with(court())
    write_benchmark(tmp_path, n=4)
    make_benchmark(tmp_path, n=3)
    server.write_models(tmp_path / "models.yaml", {"mock": 10, "judge-1": 10, "judge-2": 10})
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
    assert "judge-1 is the only judge" in medhelm("plan", *command[:-2]).err
    assert server.count == 0
    assert not (tmp_path / "medhelm-store").exists()


def test_the_same_arguments_as_run(medhelm: Medhelm, server: Server, command: list[str]) -> None:
    options = ("--limit", "2", "--seed", "3", "--attempts", "2", "--max-cost", "5", "--min-judges", "1")
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


def test_what_is_left_of_the_stores_budget_is_compared(medhelm: Medhelm, command: list[str]) -> None:
    for usd, said in (("0.001", "is too low"), ("0.1", "may be too low: the cost can reach")):
        assert medhelm("budget", "set", usd).code == 0
        assert said in " ".join(medhelm("plan", *command).out.split())
    assert medhelm("budget", "set", "100").code == 0
    assert "budget" not in medhelm("plan", *command).out


def test_the_sample_tier_needs_no_data(medhelm: Medhelm, tmp_path: Path) -> None:
    """Of the whole suite, with the published selection."""
    words = ("--tier", "sample", "--sample", "published", "--model", "baseline/lexical", "--json")
    done = succeeded(medhelm("plan", "all", *words))
    assert len({row["benchmark"] for row in done.json["rows"]}) == 37
    assert (done.json["requests"], done.json["cost_usd"]["max"]) == (0, 0.0)
    assert not (tmp_path / "medhelm-store").exists()
    assert medhelm("plan", "healthbench", *words).code == 2, "it is outside the suite"
