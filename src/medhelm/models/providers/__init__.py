"""The services that can be asked, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from medhelm.domain import Model
from medhelm.errors import UserError, suggestion
from medhelm.io import plugins
from medhelm.io.http_client import HttpClient
from medhelm.io.plugins import WithPlugins
from medhelm.models.keys import SESSION_TOKEN, companion_of, region_in
from medhelm.models.local.runtime import LocalRuntime
from medhelm.models.provider import Provider
from medhelm.models.providers.anthropic import Anthropic
from medhelm.models.providers.aws_signature import Credentials
from medhelm.models.providers.baseline import Baseline
from medhelm.models.providers.bedrock import Bedrock
from medhelm.models.providers.google import Google
from medhelm.models.providers.hosted import HttpProvider
from medhelm.models.providers.huggingface import HuggingFace
from medhelm.models.providers.ollama import Ollama
from medhelm.models.providers.openai import ChatCompletions
from medhelm.models.providers.plugin import Opener, accept_opener
from medhelm.models.providers.replay import read_replay
from medhelm.models.providers.vllm import Vllm


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderContext:
    """What a provider may need besides the model it serves."""

    http: HttpClient
    """The way out."""
    environment: Mapping[str, str]
    """Environment variables; keys are among them."""
    seed: int
    """Seed of what is random."""
    aliases: Mapping[str, str]
    """Alias of a benchmark -> its name."""
    machine: LocalRuntime = field(default_factory=LocalRuntime)
    """What models on this machine share; who closes it ends them."""

    def value_of(self, variable: str) -> str:
        """The value of an environment variable without blanks and line ends around it; "" if there is none."""
        return self.environment.get(variable, "").strip() if variable else ""

    def __repr__(self) -> str:
        """Without the environment, which holds keys."""
        return f"Surroundings(seed={self.seed})"


def open_provider(
    model: Model,
    http: HttpClient,
    *,
    environment: Mapping[str, str],
    seed: int = 0,
    aliases: Mapping[str, str] | None = None,
    machine: LocalRuntime | None = None,
) -> Provider:
    """The provider that serves `model`, ready to be asked.

    `environment` holds the key, under the name `model.key_variable`; `seed` is for the random baseline; `aliases`
    (alias -> name of a benchmark) for names in a replay file; what is started on this `machine` ends when it is closed.
    Raises: UserError for an unknown provider or a replay file that is missing or wrong. Nothing is sent.
    """
    if model.provider not in PROVIDERS:
        known = suggestion(model.provider, PROVIDERS)
        raise UserError(f"{model.name}: there is no provider `{model.provider}`. {known}".rstrip())
    around = ProviderContext(
        http=http, environment=environment, seed=seed, aliases=aliases or {}, machine=machine or LocalRuntime()
    )
    return PROVIDERS[model.provider](model, around)


def _openai(model: Model, around: ProviderContext) -> Provider:
    return HttpProvider(model, around.http, ChatCompletions(model, key=around.value_of(model.key_variable)))


def _anthropic(model: Model, around: ProviderContext) -> Provider:
    return HttpProvider(model, around.http, Anthropic(model, key=around.value_of(model.key_variable)))


def _google(model: Model, around: ProviderContext) -> Provider:
    return HttpProvider(model, around.http, Google(model, key=around.value_of(model.key_variable)))


def _bedrock(model: Model, around: ProviderContext) -> Provider:
    """With a key and its secret requests are signed; any other key is sent as it is."""
    key, region = around.value_of(model.key_variable), region_in(around.environment)
    if not (companion := companion_of(model.key_variable)):
        return HttpProvider(model, around.http, Bedrock(model, key=key, region=region))
    credentials = Credentials(
        key_id=key, secret=around.value_of(companion), session_token=around.value_of(SESSION_TOKEN)
    )
    return HttpProvider(model, around.http, Bedrock(model, credentials=credentials, region=region))


def _baseline(model: Model, around: ProviderContext) -> Provider:
    return Baseline(model.remote_name, seed=around.seed)


def _hugging_face(model: Model, around: ProviderContext) -> Provider:
    return HuggingFace(model, around.environment, around.machine)


def _ollama(model: Model, around: ProviderContext) -> Provider:
    return Ollama(model, around.http, key=around.value_of(model.key_variable))


def _vllm(model: Model, around: ProviderContext) -> Provider:
    return Vllm(model, around.http, around.environment, around.machine)


def _replay(model: Model, around: ProviderContext) -> Provider:
    return read_replay(Path(model.remote_name), aliases=around.aliases)


_BUILT_IN: dict[str, Opener] = {
    "openai": _openai,
    "azure": _openai,
    "anthropic": _anthropic,
    "google": _google,
    "vertex": _google,
    "bedrock": _bedrock,
    "hf": _hugging_face,
    "vllm": _vllm,
    "ollama": _ollama,
    "llamacpp": _openai,
    "baseline": _baseline,
    "replay": _replay,
}
"""To add one: a module in this folder, and a line here."""

PROVIDERS: WithPlugins[Opener] = WithPlugins(plugins.PROVIDERS, _BUILT_IN, accept_opener)
"""Name of a provider -> how it is opened: the built-in ones, and those of installed packages."""
