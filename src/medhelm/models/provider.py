"""The seam between this package and a model: one asynchronous method."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from medhelm.domain import Completion, Instance, Request

SCHEMA, TEMPERATURE, STOP, LIMIT, SEED, CACHE = "schema", "temperature", "stop", "max_tokens", "seed", "cache"
"""Parts of a request that a server may refuse and that it can do without: the JSON schema of the reply, the sampling
temperature, the sequences that end it, the usual name of the limit on it (which then goes by its newer name), the seed
of the sampling, and the mark up to which the prompt is to be kept in its cache."""

LOSSLESS = frozenset({LIMIT, CACHE})
"""Those of them without which the answer is the same."""

REFUSED_PARTS = {f"{part}_refused": part for part in (SCHEMA, TEMPERATURE, STOP, LIMIT, SEED, CACHE)}
"""Code of the error of a server that refused a part -> the part; from then on it is asked without."""

SCHEMA_REFUSED = "schema_refused"
"""The code of a server that cannot hold the model to the JSON schema."""


class Provider(Protocol):
    """Knows how one service is asked and how its answer is read. Retries, cache, limits and prices are the client's."""

    @property
    def endpoint(self) -> str:
        """What shares one limit on requests in flight, such as `http://127.0.0.1:8000`; empty if `local`, unless it
        repeats what was bought elsewhere.
        """

    @property
    def local(self) -> bool:
        """Whether it answers within this process, at once and for free: then nothing is cached, limited or charged."""

    async def complete(self, request: Request) -> Completion:
        """Send one request and read its answer.

        A completion that is returned was answered by the model, refusals (a `Failure` with code `refusal`) included.
        Raises: ProviderError if there is no answer; it says whether asking again may help, whether the endpoint is
        overloaded, and whether every request to this model is bound to fail.
        """


@runtime_checkable
class Prepared(Protocol):
    """Optional hook of a provider whose completions depend on all instances of a benchmark, such as a baseline."""

    def prepare(self, benchmark: str, instances: Iterable[Instance]) -> None:
        """Read all instances of `benchmark`; called before its first request."""


def prepare(provider: Provider, benchmark: str, instances: Iterable[Instance]) -> None:
    """Call the provider's `prepare`, if it has one."""
    if isinstance(provider, Prepared):
        provider.prepare(benchmark, instances)
