"""The providers of models, by name. Each is one module of this folder, with one `Service` record."""

from __future__ import annotations

from collections.abc import Mapping

from medhelm.domain import Model
from medhelm.errors import UserError, suggestion
from medhelm.io import plugins
from medhelm.io.http.client import HttpClient
from medhelm.io.lazy_mapping import LazyMapping
from medhelm.io.plugins import Plugin, WithPlugins
from medhelm.models.local.runtime import LocalRuntime
from medhelm.models.provider import Provider
from medhelm.models.service import ProviderContext, Service

__all__ = ["SERVICES", "ProviderContext", "answers_in_process", "open_provider"]

_BUILT_IN: LazyMapping[Service] = LazyMapping(
    {
        "openai": "medhelm.models.providers.openai:SERVICE",
        "azure": "medhelm.models.providers.azure:SERVICE",
        "anthropic": "medhelm.models.providers.anthropic:SERVICE",
        "google": "medhelm.models.providers.google:SERVICE",
        "vertex": "medhelm.models.providers.vertex:SERVICE",
        "bedrock": "medhelm.models.providers.bedrock:SERVICE",
        "hf": "medhelm.models.providers.huggingface:SERVICE",
        "vllm": "medhelm.models.providers.vllm:SERVICE",
        "ollama": "medhelm.models.providers.ollama:SERVICE",
        "llamacpp": "medhelm.models.providers.llamacpp:SERVICE",
        "baseline": "medhelm.models.providers.baseline:SERVICE",
        "replay": "medhelm.models.providers.replay:SERVICE",
        **plugins.extension_targets(plugins.PROVIDERS),
    }
)
"""To add a provider: a module in this folder, and a line here."""


def _accept(plugin: Plugin, opener: object) -> Service:
    from medhelm.models.providers.plugin import accept_opener  # lazy: most runs use no plug-in

    return accept_opener(plugin, opener)


SERVICES: WithPlugins[Service] = WithPlugins(plugins.PROVIDERS, _BUILT_IN, _accept)
"""Name of a provider -> its record: the built-in ones, and those of installed packages. Modules load on first use."""


def answers_in_process(provider: str) -> bool:
    """Return True if a provider answers within this process without a model, and so is always free."""
    return provider in _BUILT_IN and _BUILT_IN[provider].in_process


def open_provider(
    model: Model,
    http: HttpClient,
    *,
    environment: Mapping[str, str],
    seed: int = 0,
    aliases: Mapping[str, str] | None = None,
    machine: LocalRuntime | None = None,
) -> Provider:
    """Open the provider of a model. Nothing is sent.

    Parameters
    ----------
    environment : environment variables; the key is under `model.key_variable`
    seed : for the random baseline
    aliases : alias of a benchmark -> its name, for replay files
    machine : owns what is started on this machine, and ends it when it is closed

    Raises
    ------
    UserError : unknown provider; replay file that is missing or invalid
    """
    if model.provider not in SERVICES:
        known = suggestion(model.provider, SERVICES)
        raise UserError(f"{model.name}: unknown provider `{model.provider}`. {known}".rstrip())
    context = ProviderContext(
        http=http, environment=environment, seed=seed, aliases=aliases or {}, machine=machine or LocalRuntime()
    )
    service = SERVICES[model.provider]
    if service.on_cluster and context.machine.cluster:
        from medhelm.models.cluster.pool import ClusterModel  # lazy: most runs have no cluster

        return ClusterModel(model, context.machine.cluster, seed)
    return service.open(model, context)
