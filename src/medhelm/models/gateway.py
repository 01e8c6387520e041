"""Models that another process calls in place of this one, such as a gateway: how it is named, and what it does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from medhelm.domain import Model
    from medhelm.io.http.egress import EgressPolicy
    from medhelm.io.http.hosts import Audit
    from medhelm.models.budget import Budget
    from medhelm.models.client import Client
    from medhelm.models.provider import Provider


GATEWAY_VARIABLE = "MEDHELM_GATEWAY"
"""Variable with the address of the gateway through which models are called."""

OFFLINE_VARIABLE = "MEDHELM_OFFLINE"
"""Variable that allows only servers on this machine, as --offline does."""


class Remote(Protocol):
    """Another process that calls models in place of this one, with its own keys, cache and allowed hosts."""

    def policy(self, *, offline: bool) -> EgressPolicy:
        """Return the egress policy of this process: the other process may be contacted, and no other host."""

    def models(self, names: Sequence[str]) -> list[Model]:
        """Return the models of these names, in order, as the other process defines them.

        Raises: UserError for names that it does not serve; MissingError if it cannot be reached.
        """

    def check_private_data(
        self, benchmarks: Collection[str], models: Sequence[Model], allowed: Collection[str]
    ) -> None:
        """Check that data that is not public may go to the other process, and from there to the hosts of these models.

        Parameters: benchmarks, names of those that are not public; allowed, hosts that the user allowed.
        Raises: UserError.
        """

    def open_client(
        self,
        policy: EgressPolicy,
        budget: Budget,
        audit: Audit,
        max_silence_s: float,
        note: Callable[[str], object] | None = None,
    ) -> AbstractAsyncContextManager[Client]:
        """Open a client whose requests the other process completes, and close it in the end.

        Raises: UserError, MissingError.
        """

    def open_providers(
        self, models: Sequence[Model], client: Client, public: Collection[str]
    ) -> Mapping[str, Provider]:
        """Return model -> its provider, for all but those that answer within this process.

        `client`: that of `open_client`; `public`: names of the benchmarks whose data may go to any host.
        """


def remote_of(environment: Mapping[str, str]) -> Remote | None:
    """Return the process that calls models in place of this one; None if this process calls them itself.

    Raises: MissingError if one is named, and the extension that reaches it is not installed.
    """
    if not environment.get(GATEWAY_VARIABLE, "").strip():
        return None
    from medhelm.io.plugins import CLIENTS, from_extension  # lazy: few commands have a gateway

    what = f"a gateway ({GATEWAY_VARIABLE})"
    remote: Remote = from_extension(CLIENTS, "gateway", extension="cluster", what=what)(environment)
    return remote


def is_offline(environment: Mapping[str, str]) -> bool:
    """Return True if the environment allows only servers on this machine."""
    return environment.get(OFFLINE_VARIABLE, "").strip().lower() in {"1", "true", "t", "yes", "y", "on"}


def without_gateway(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the gateway, for the models, keys and prices of this machine."""
    return {name: value for name, value in environment.items() if name != GATEWAY_VARIABLE}
