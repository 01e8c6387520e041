"""The gateway: one process that owns the cache, keys, budget and egress policy for others, and the others' side."""

from __future__ import annotations

from collections.abc import Mapping

GATEWAY_VARIABLE = "MEDHELM_GATEWAY"
"""Variable with the address of the gateway through which models are called."""

OFFLINE_VARIABLE = "MEDHELM_OFFLINE"
"""Variable that allows only servers on this machine, as --offline does."""


def is_offline(environment: Mapping[str, str]) -> bool:
    """Return True if the environment allows only servers on this machine."""
    return environment.get(OFFLINE_VARIABLE, "").strip().lower() in {"1", "true", "t", "yes", "y", "on"}


def uses_gateway(environment: Mapping[str, str] | None) -> bool:
    """Return True if models are called through a gateway."""
    return bool((environment or {}).get(GATEWAY_VARIABLE, "").strip())


def without_gateway(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the gateway, for the models, keys and prices of this machine."""
    return {name: value for name, value in environment.items() if name != GATEWAY_VARIABLE}
