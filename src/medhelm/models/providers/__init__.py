"""The providers of models, by name. Each is one module with one `Service` record, in this folder or an extension."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from medhelm.domain import Model
from medhelm.errors import UserError, suggestion
from medhelm.io import plugins
from medhelm.io.plugins import LazyMapping, Plugin, WithPlugins
from medhelm.models.provider import Provider, ProviderContext, Service, SharedResources

if TYPE_CHECKING:
    from medhelm.io.http.client import HttpClient

__all__ = ["SERVICES", "ProviderContext", "answers_in_process", "open_provider"]

_BUILT_IN: LazyMapping[Service] = LazyMapping(
    {
        "openai": "medhelm.models.providers.openai:SERVICE",
        "azure": "medhelm.models.providers.azure:SERVICE",
        "anthropic": "medhelm.models.providers.anthropic:SERVICE",
        "google": "medhelm.models.providers.google:SERVICE",
        "vertex": "medhelm.models.providers.vertex:SERVICE",
        "bedrock": "medhelm.models.providers.bedrock:SERVICE",
        **plugins.extension_targets(plugins.PROVIDERS),
        "ollama": "medhelm.models.providers.local_servers:OLLAMA",
        "llamacpp": "medhelm.models.providers.local_servers:LLAMACPP",
        "baseline": "medhelm.models.providers.baseline:SERVICE",
        "replay": "medhelm.models.providers.replay:SERVICE",
    }
)
"""To add a provider: a module in this folder, and a line here. The order is that of lists and help."""

_EXTENSIONS = {"hf": "local", "vllm": "local"}
"""Provider -> the extension that adds it."""


def _accept(plugin: Plugin, opener: object) -> Service:
    from medhelm.models.providers.plugin import accept_opener  # lazy: most runs use no plug-in

    return accept_opener(plugin, opener)


SERVICES: WithPlugins[Service] = WithPlugins(plugins.PROVIDERS, _BUILT_IN, _accept, reserved=_EXTENSIONS)
"""Name of a provider -> its record: the built-in ones, and those of installed packages. Modules load on first use."""


def answers_in_process(provider: str) -> bool:
    """Return True if a provider answers within this process without a model, and so is always free."""
    return provider in _BUILT_IN and _BUILT_IN[provider].in_process


def unknown_provider(name: str) -> str:
    """Return that a provider is unknown, and why if its extension is missing, for messages."""
    if name not in _EXTENSIONS:
        return f"unknown provider `{name}`."
    return f"unknown provider `{name}`. It needs the extension `{_EXTENSIONS[name]}`, which this installation lacks."


def open_provider(
    model: Model,
    http: HttpClient,
    *,
    environment: Mapping[str, str],
    seed: int = 0,
    aliases: Mapping[str, str] | None = None,
    resources: SharedResources | None = None,
) -> Provider:
    """Open the provider of a model. Nothing is sent.

    Parameters
    ----------
    environment : environment variables; the key is under `model.key_variable`
    seed : for the random baseline
    aliases : alias of a benchmark -> its name, for replay files
    resources : owns what the provider opens, such as a server, and closes it

    Raises
    ------
    UserError : unknown provider; replay file that is missing or invalid
    """
    if model.provider not in SERVICES:
        known = suggestion(model.provider, SERVICES)
        raise UserError(f"{model.name}: {unknown_provider(model.provider)} {known}".rstrip())
    context = ProviderContext(
        http=http, environment=environment, seed=seed, aliases=aliases or {}, resources=resources or SharedResources()
    )
    return SERVICES[model.provider].open(model, context)
