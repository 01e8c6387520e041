"""Providers of installed packages: opened like the built-in ones, and checked at every call.

A package's function gets the model and a `ProviderContext`, whose `http` is its access to the network: the client
before it handles cache, limits, retries and budget; the egress policy behind it checks the hosts. Apart from that it is
code that the user trusts.
"""

from __future__ import annotations

from collections.abc import Iterable
from inspect import iscoroutinefunction
from typing import cast

from medhelm.domain import Completion, Failure, FailureCode, Instance, Model, Request
from medhelm.errors import MedHelmError, ProviderError, UserError
from medhelm.io.http.client import without_keys
from medhelm.io.plugins import Plugin, check_plugin_name, last_line
from medhelm.models.provider import Opener, Provider, ProviderContext, Service, unsupported_parameter


def accept_opener(plugin: Plugin, opener: object) -> Service:
    """Return the service that opens a package's provider. Raises: UserError if the package gives no function."""
    check_plugin_name(plugin)
    if not callable(opener):
        raise plugin.refuse(f"is {type(opener).__name__}, but must be a function (Model, ProviderContext) -> Provider")
    return Service(
        name=plugin.name,
        title=plugin.name,
        open=_checked_opener(plugin, cast("Opener", opener)),
        on_cluster=getattr(opener, "on_cluster", False) is True,
    )


def _checked_opener(plugin: Plugin, opener: Opener) -> Opener:
    def open_checked(model: Model, context: ProviderContext) -> Provider:
        key = context.value_of(model.key_variable)
        try:
            provider = opener(model, context)
        except MedHelmError:
            raise
        except Exception as error:  # noqa: BLE001 - code of another author
            reason = without_keys(last_line(error), [key], mark="***", shortest=1)
            raise UserError(f"{model.name}: {plugin.in_words} failed to open it: {reason}.") from None
        _check_provider(plugin, provider)
        return PluginProvider(plugin, provider, key)

    return open_checked


class PluginProvider(Provider):
    """A package's provider. Its exceptions and malformed completions become failures of one request."""

    def __init__(self, plugin: Plugin, provider: Provider, key: str) -> None:
        """`key` is removed from everything the package says."""
        self.local = provider.local
        self.endpoint = provider.endpoint
        self.starts_at_maximum = bool(getattr(provider, "starts_at_maximum", False))
        self.replies_in_time = bool(getattr(provider, "replies_in_time", False))
        self._plugin = plugin
        self._provider = provider
        self._key = key
        self._refused: set[tuple[bytes, str]] = set()

    def prepare(self, benchmark: str, instances: Iterable[Instance]) -> None:
        """Pass the instances on, if the package wants them."""
        if isinstance(self._provider, Provider):
            self._provider.prepare(benchmark, instances)

    async def complete(self, request: Request) -> Completion:
        """Call the package. Raises: ProviderError, with code `plugin_error` for errors in its code."""
        try:
            completion = await self._provider.complete(request)
        except ProviderError as error:
            if unsupported_parameter(error):
                self._refuse_once(request, error.code)
            raise
        except MedHelmError:
            raise
        except Exception as error:  # noqa: BLE001 - code of another author
            raise self._plugin_error(f"failed: {last_line(error)}") from None
        if not isinstance(completion, Completion):
            raise self._plugin_error(f"returned {type(completion).__name__} instead of a Completion")
        has_text, has_failure = isinstance(completion.text, str), isinstance(completion.failure, Failure)
        if has_text == has_failure or (completion.text is None) != has_failure:
            raise self._plugin_error("returned a completion that must have either a text or a failure")
        return completion

    def _refuse_once(self, request: Request, code: str) -> None:
        """Let the client send the request again, without the parameter. Raises: ProviderError the second time."""
        if (request.digest, code) in self._refused:
            raise self._plugin_error(
                f"refused the same request twice ({code}): the second time it must omit the parameter"
            )
        self._refused.add((request.digest, code))

    def _plugin_error(self, what: str) -> ProviderError:
        message = without_keys(f"{self._plugin.in_words} {what}", [self._key], mark="***", shortest=1)
        return ProviderError(FailureCode.PLUGIN_ERROR, message)


def _check_provider(plugin: Plugin, provider: object) -> None:
    """Raises: UserError if a package's provider lacks what the client relies on."""
    local, endpoint = getattr(provider, "local", None), getattr(provider, "endpoint", None)
    if not isinstance(local, bool):
        raise plugin.refuse("opened a provider whose `local` is not true or false")
    if not isinstance(endpoint, str) or (not local and not endpoint):
        raise plugin.refuse("opened a provider without an `endpoint`: a text that requests under one limit share")
    if not iscoroutinefunction(getattr(provider, "complete", None)):
        raise plugin.refuse("opened a provider without `async def complete(request)`")
