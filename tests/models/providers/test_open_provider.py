"""Every provider of the table can be opened, and is what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from medhelm.domain import Model
from medhelm.errors import UserError
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.providers import SERVICES, ProviderContext, open_provider
from medhelm.models.providers.anthropic import Anthropic
from medhelm.models.providers.baseline import Baseline
from medhelm.models.providers.bedrock import Bedrock
from medhelm.models.providers.google import Google
from medhelm.models.providers.hosted import HttpProvider
from medhelm.models.providers.openai import ChatCompletions
from medhelm.models.providers.replay import Replay

HTTP = HttpClient(EgressPolicy(offline=True))


@pytest.fixture
def models(tmp_path: Path) -> dict[str, Model]:
    """One model of each provider."""
    file = tmp_path / "r.jsonl"
    file.write_text('{"benchmark": "b", "instance_id": "1", "completion": "A"}\n', encoding="utf-8")
    address = "http://127.0.0.1:9/v1"
    return {
        **{
            name: Model(name=name, provider=name, remote_name="m", base_url=address)
            for name in ("openai", "azure", "anthropic", "google", "vertex", "bedrock", "ollama", "llamacpp")
        },
        "baseline": Model(name="b", provider="baseline", remote_name="random"),
        "replay": Model(name="r", provider="replay", remote_name=str(file)),
    }


def test_every_provider_can_be_opened(models: dict[str, Model]) -> None:
    assert set(models) == set(SERVICES) - {"hf", "vllm"}  # they want a model's files, and have tests of their own
    chat = dict.fromkeys(("openai", "azure", "ollama", "llamacpp"), ChatCompletions)
    other = {"anthropic": Anthropic, "google": Google, "vertex": Google, "bedrock": Bedrock}
    kinds: dict[str, type] = {**chat, **other, "baseline": Baseline, "replay": Replay}
    for name, model in models.items():
        provider = open_provider(model, HTTP, environment={}, seed=3)
        assert isinstance(provider.dialect if isinstance(provider, HttpProvider) else provider, kinds[name])
        assert provider.local == (provider.endpoint == "") == (name in {"baseline", "replay"})
        assert not isinstance(provider, Baseline) or provider.seed == 3
    replay = open_provider(models["replay"], HTTP, environment={}, aliases={"b": "canonical"})
    assert isinstance(replay, Replay)
    assert list(replay.completions) == [("canonical", "1")]


def test_an_unknown_provider_is_named(models: dict[str, Model]) -> None:
    with pytest.raises(UserError, match=r"unknown provider `opena`. Did you mean `openai`\?"):
        open_provider(Model(name="x", provider="opena", remote_name="x"), HTTP, environment={})


def test_a_provider_of_a_missing_extension_is_named_with_it() -> None:
    code = """
from pathlib import Path
from medhelm.errors import UserError
from medhelm.io import plugins

plugins.EXTENSIONS = Path("nowhere")
from medhelm.models.catalog import find_models

try:
    find_models(["hf/x", "hg/x"], environment={})
except UserError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    missing, unknown = done.stdout.splitlines()
    assert missing.startswith(
        "model `hf/x`: unknown provider `hf`. It needs the extension `local`, which this installation lacks."
    )
    assert unknown.startswith("model `hg/x`: unknown provider `hg`. A name is PROVIDER/NAME with one of openai, azure,")


def test_surroundings_do_not_show_the_environment() -> None:
    around = ProviderContext(http=HTTP, environment={"K": "sk-secret"}, seed=0, aliases={})
    assert "sk-secret" not in repr(around)
