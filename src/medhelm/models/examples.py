"""One or two models of each provider, for people who do not know yet how a model is named here.

They are examples and no choice: every model of a provider can be named. Names grow old; prices and windows are looked
up as those of any other model, and what is no longer sold has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from medhelm.domain import Model
from medhelm.errors import UserError
from medhelm.models.catalog import model_named
from medhelm.models.keys import region_in

NAMES = (
    "openai/gpt-5.4",
    "openai/gpt-5.4-mini",
    "azure/DEPLOYMENT",
    "anthropic/claude-opus-5-5",
    "anthropic/claude-haiku-4-5",
    "google/gemini-3.8-flash",
    "google/gemini-2.5-flash",
    "vertex/gemini-2.5-flash",
    "bedrock/global.anthropic.claude-sonnet-4-6",
    "bedrock/openai.gpt-oss-120b-1:0",
    "openai/NAME@http://127.0.0.1:8000/v1",
    "ollama/llama3.2",
    "llamacpp/NAME",
    "hf/Qwen/Qwen2.5-0.5B-Instruct",
    "vllm/Qwen/Qwen3-8B",
)
"""Of each provider that is asked; words in capitals stand for the user's own."""

_PLACES = {
    "azure": {"AZURE_OPENAI_ENDPOINT": "https://your-resource.openai.azure.com"},
    "vertex": {"GOOGLE_CLOUD_PROJECT": "your-project", "GOOGLE_CLOUD_LOCATION": "global"},
    "bedrock": {"AWS_REGION": "us-east-1"},
}
"""Provider -> variables that say where it is, besides the key, and what stands for them where they are not set."""


@dataclass(frozen=True, slots=True)
class ModelExample:
    """A model that may be named so."""

    model: Model
    """The model, as it would be reached."""
    lacks: tuple[str, ...]
    """Variables that would have to be set for it, besides that of its key."""


def example_models(environment: Mapping[str, str]) -> list[ModelExample]:
    """All examples, whatever is set."""
    return [_example(name, environment) for name in NAMES]


def _example(name: str, environment: Mapping[str, str]) -> ModelExample:
    places = _PLACES.get(name.partition("/")[0], {})
    lacks = tuple(variable for variable in places if not environment.get(variable, "").strip())
    if "AWS_REGION" in lacks and region_in(environment):
        lacks = ()
    try:
        return ModelExample(model_named(name, {**environment, **{name: places[name] for name in lacks}}), lacks)
    except (ValueError, UserError):  # what is set is wrong, which is said when the model is asked
        return ModelExample(model_named(name, {**environment, **places}), tuple(places))
