"""`medhelm models ...`."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm.models.providers import SERVICES
from tests.support.benchmarks.choice import chat
from tests.support.cli import Medhelm, succeeded
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
    outcome = medhelm("models", "list")
    lines = {line.split()[0]: line for line in outcome.out.splitlines() if "/" in line.partition(" ")[0]}
    providers = {name.partition("/")[0] for name in lines}
    assert providers == {*SERVICES.built_in} - {"replay"}
    assert "ANTHROPIC_API_KEY set " in lines["anthropic/claude-haiku-4-5"]
    assert "AZURE_OPENAI_API_KEY MISSING, AZURE_OPENAI_ENDPOINT MISSING" in lines["azure/DEPLOYMENT"]
    bedrock = next(line for name, line in lines.items() if name.startswith("bedrock/"))
    assert ("AWS_ACCESS_KEY_ID MISSING " in bedrock, "AWS_REGION" in bedrock) == (True, False)
    assert "medhelm: openai/gpt-5.4: the value of OPENAI_API_KEY has a quotation mark" in outcome.err
    assert "invented" not in outcome.out + outcome.err


def test_check_asks_and_tells_the_answer(medhelm: Medhelm, own_models: Path, server: Server) -> None:
    server.script(chat("OK"))
    outcome = succeeded(medhelm("models", "check", "ward-model", "--models", own_models))
    assert "ward-model: responded with 'OK' in " in outcome.out
    assert "reports itself as mock-1" in outcome.out
    body, again = server.bodies
    assert (body["model"], body["max_tokens"], again["logprobs"]) == ("some/model", 32, True)
    assert "usage: 20 input tokens, 1 output tokens" in outcome.out
    assert "structured output: no" in outcome.out


def test_check_of_a_baseline_asks_nobody(medhelm: Medhelm) -> None:
    outcome = succeeded(medhelm("models", "check", "baseline/majority"))
    assert outcome.out == "baseline/majority: runs in this process, so no request was sent.\n"
