"""`medhelm models ...`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from medhelm.models.providers import SERVICES
from tests.support.benchmarks.choice import chat
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.servers.openai import Server

OWN = """\
ward-model:
  model: some/model
  base_url: http://127.0.0.1:{port}/v1
  window: 4096
  price: {{input: 0.5, output: 1.5}}
"""


@pytest.fixture
def own_models(tmp_path: Path, server: Server) -> Path:
    file = tmp_path / "models.yaml"
    file.write_text(OWN.format(port=server.port), encoding="utf-8")
    return file


def test_list_shows_own_names_and_baselines(medhelm: Medhelm, own_models: Path) -> None:
    outcome = succeeded(medhelm("models", "list"))
    line = next(line for line in outcome.out.splitlines() if line.startswith("ward-model"))
    assert line.split()[-7:] == ["none", "needed", "4096", "no", "0.5", "1.5", "models.yaml"]
    assert "baseline/majority" in outcome.out


def test_list_shows_a_newcomer_how_models_of_every_provider_are_named(
    medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-invented")
    monkeypatch.setenv("OPENAI_API_KEY", '"sk-invented"')
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "not a project")
    outcome = medhelm("models", "list")
    lines = {line.split()[0]: line for line in outcome.out.splitlines() if "/" in line.partition(" ")[0]}
    providers = {name.partition("/")[0] for name in lines}
    assert providers == {*SERVICES.built_in} - {"replay"}
    assert "ANTHROPIC_API_KEY set " in lines["anthropic/claude-haiku-4-5"]
    assert "AZURE_OPENAI_API_KEY MISSING, AZURE_OPENAI_ENDPOINT MISSING" in lines["azure/DEPLOYMENT"]
    bedrock = next(line for name, line in lines.items() if name.startswith("bedrock/"))
    assert "AWS_ACCESS_KEY_ID MISSING " in bedrock
    assert "AWS_REGION" not in bedrock
    vertex = next(line for name, line in lines.items() if name.startswith("vertex/"))
    assert "GOOGLE_CLOUD_PROJECT MISSING" in vertex
    for name, line in lines.items():
        if name.partition("/")[0] in ("openai", "anthropic", "google", "vertex", "bedrock") and "NAME" not in name:
            assert re.search(r" \d{6,7} +(yes|no) +\d[\d.]* +\d[\d.]* +\d{4}-\d\d-\d\d$", line.rstrip()), line
    assert "medhelm models check NAME" in outcome.out
    assert "medhelm: openai/gpt-5.4: the value of OPENAI_API_KEY has a quotation mark" in outcome.err
    assert "invented" not in outcome.out + outcome.err


def test_examples_as_json(medhelm: Medhelm) -> None:
    listed = medhelm("models", "list", "--json").json
    assert {example["key"] for example in listed["examples"]} == {"none", "missing"}
    (azure,) = [example for example in listed["examples"] if example["provider"] == "azure"]
    assert azure["lacks"] == ["AZURE_OPENAI_ENDPOINT"]
    assert "examples" not in medhelm("models", "list", "openai/gpt-4o", "--json").json


def test_list_gives_dated_prices_of_hosted_models(medhelm: Medhelm) -> None:
    (model,) = medhelm("models", "list", "openai/gpt-4o", "--json").json["models"]
    assert (model["name"], model["key_variable"]) == ("openai/gpt-4o", "OPENAI_API_KEY")
    assert model["price"]["input"] > 0
    assert "genai-prices" in model["price"]["source"]
    assert (model["key"], model["window"]) == ("missing", 128_000)
    table = succeeded(medhelm("models", "list", "openai/gpt-4o")).out
    assert ("OPENAI_API_KEY MISSING" in table, "models check NAME" in table) == (True, False)


def test_check_asks_and_tells_the_answer(medhelm: Medhelm, own_models: Path, server: Server) -> None:
    server.script(chat("OK"))
    outcome = succeeded(medhelm("models", "check", "ward-model", "--models", own_models))
    assert "ward-model: responded with 'OK' in " in outcome.out
    assert "reports itself as mock-1" in outcome.out
    body, again = server.bodies
    assert (body["model"], body["max_tokens"], again["logprobs"]) == ("some/model", 32, True)
    assert "usage: 20 input tokens, 1 output tokens" in outcome.out
    assert "structured output: no" in outcome.out


def test_check_without_a_key_ends_with_four(medhelm: Medhelm) -> None:
    outcome = medhelm("models", "check", "openai/gpt-4o")
    assert outcome.code == 4
    assert outcome.out == "openai/gpt-4o: no_key: needs a key: set the environment variable OPENAI_API_KEY.\n"


def test_a_missing_key_does_not_keep_others_from_being_asked(
    medhelm: Medhelm, own_models: Path, server: Server
) -> None:
    server.script(chat("OK"))
    outcome = medhelm("models", "check", "openai/gpt-4o", "ward-model", "--json")
    lacking, answered = outcome.json["models"]
    assert (outcome.code, lacking["answer"]["failure"]["code"], lacking["asked"]) == (4, "no_key", False)
    assert (answered["name"], answered["answer"]["text"], answered["asked"]) == ("ward-model", "OK", True)
    assert server.count == 2


def test_check_of_a_baseline_asks_nobody(medhelm: Medhelm) -> None:
    outcome = medhelm("models", "check", "baseline/majority")
    assert (outcome.code, outcome.out) == (
        0,
        "baseline/majority: runs in this process, so no request was sent.\n",
    )


def test_check_as_json(medhelm: Medhelm, own_models: Path, server: Server) -> None:
    server.script(chat('{"reply": "OK"}'))
    (model,) = medhelm("models", "check", "ward-model", "--json").json["models"]
    assert (model["name"], model["structured"], model["left_out"]) == ("ward-model", True, {})
    assert model["answer"]["usage"]["input"] == 20
    assert (model["names"], model["advice"], model["asked"]) == ([], "", True)


def test_check_offline_ends_with_two(medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    assert_refused(medhelm("models", "check", "openai/gpt-4o", "--offline"), "offline")


def test_a_malformed_models_file_names_its_problems(medhelm: Medhelm, tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text("ward:\n  modle: x\n  key: sk-0123456789abcdef0123456789\n", encoding="utf-8")
    outcome = medhelm("models", "list")
    assert outcome.code == 2
    assert "Did you mean `model`?" in outcome.err
    assert "sk-0123456789" not in outcome.err
