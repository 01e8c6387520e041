"""Providers of installed packages: opened with the same means as ours, and watched while they are asked.

A package's function gets the model and its `Surroundings`, whose `http` is the one way out: the client before it keeps
cache, limits, retries and budget, the gate behind it the hosts. What the function does besides is its own: it is code
that the user trusts.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any, cast

from medhelm.domain import Completion, Failure, Model, Request
from medhelm.errors import MedHelmError, ProviderError, UserError
from medhelm.io.plugins import Plugin, check_plugin_name, last_line
from medhelm.models.provider import REFUSED_PARTS, Provider

FAULT = "plugin_error"
"""Code of the failure of a request at which the code of a package broke off, or gave what is no completion."""

Opener = Callable[[Model, Any], Provider]
"""What opens a provider: a function of the model and its `Surroundings`."""


def accept_opener(plugin: Plugin, found: object) -> Opener:
    """The function that a package gives, watched. Raises: UserError, naming the package, for what is no function."""
    check_plugin_name(plugin)
    if not callable(found):
        raise plugin.refuse(f"is {type(found).__name__}, where a function (Model, Surroundings) -> Provider is needed")

    def opened(model: Model, around: Any) -> Provider:
        key = around.value_of(model.key_variable)
        try:
            provider = found(model, around)
        except MedHelmError:
            raise
        except Exception as error:  # noqa: BLE001 - the code of somebody else
            reason = _without(key, last_line(error))
            raise UserError(f"{model.name}: {plugin.in_words} could not open it: {reason}.") from None
        return PluginProvider(plugin, _checked(plugin, provider), key)

    return opened


class PluginProvider:
    """A package's provider: what breaks in it is a failure of one request, and its replies are what they have to be."""

    def __init__(self, plugin: Plugin, provider: Provider, key: str) -> None:
        """`key`: never shown, whatever the package says."""
        self.local = provider.local
        self.endpoint = provider.endpoint
        self._plugin = plugin
        self._provider = provider
        self._key = key
        self._refused: set[tuple[bytes, str]] = set()

    async def complete(self, request: Request) -> Completion:
        """Ask the package. Raises: ProviderError, with the code `plugin_error` where its code is at fault."""
        try:
            completion = await self._provider.complete(request)
        except ProviderError as error:
            if error.code in REFUSED_PARTS:
                self._refuse_once(request, error.code)
            raise
        except MedHelmError:
            raise
        except Exception as error:  # noqa: BLE001 - the code of somebody else
            raise self._fault(f"failed: {last_line(error)}") from None
        if not isinstance(completion, Completion):
            raise self._fault(f"gave {type(completion).__name__}, where a Completion is needed")
        answered, failed = isinstance(completion.text, str), isinstance(completion.failure, Failure)
        if answered == failed or (completion.text is None) != failed:
            raise self._fault("gave a completion that has to have a text or a failure, and not both")
        return completion

    def _refuse_once(self, request: Request, code: str) -> None:
        """Such a request is sent again at once, without the part. Raises: ProviderError if that did not help."""
        if (request.digest, code) in self._refused:
            raise self._fault(f"refuses the same request twice ({code}): it has to leave that part out the second time")
        self._refused.add((request.digest, code))

    def _fault(self, what: str) -> ProviderError:
        return ProviderError(FAULT, _without(self._key, f"{self._plugin.in_words} {what}"))


def _checked(plugin: Plugin, provider: object) -> Provider:
    """What was opened, if it has what the client relies on. Raises: UserError that says what it lacks."""
    local, endpoint = getattr(provider, "local", None), getattr(provider, "endpoint", None)
    if not isinstance(local, bool):
        raise plugin.refuse("opened a provider whose `local` is not true or false")
    if not isinstance(endpoint, str) or (not local and not endpoint):
        raise plugin.refuse("opened a provider without an `endpoint`, the text that says what shares one limit")
    if not iscoroutinefunction(getattr(provider, "complete", None)):
        raise plugin.refuse("opened a provider without `async def complete(request)`")
    return cast("Provider", provider)


def _without(key: str, text: str) -> str:
    """`text` without the key, which exceptions like to repeat."""
    return text.replace(key, "***") if key else text
