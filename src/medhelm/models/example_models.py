"""One or two example models of each provider, for users who do not know yet how models are named.

Every model of a provider can be named. Examples grow old: prices and context windows are looked up as for any model,
and models that are no longer sold have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from medhelm.domain import Model
from medhelm.errors import UserError
from medhelm.models.catalog import model_named
from medhelm.models.providers import SERVICES
from medhelm.models.service import Setting


@dataclass(frozen=True, slots=True)
class ModelExample:
    """An example of a model's name."""

    model: Model
    """The model, as it would be reached."""
    lacks: tuple[str, ...]
    """Variables that must be set for it, besides that of its key."""


def example_models(environment: Mapping[str, str]) -> list[ModelExample]:
    """Return all examples, whatever variables are set."""
    services = SERVICES.built_in.values()
    return [_example(name, service.settings, environment) for service in services for name in service.examples]


def _example(name: str, settings: tuple[Setting, ...], environment: Mapping[str, str]) -> ModelExample:
    lacking = [one for one in settings if not any(environment.get(name, "").strip() for name in one.variables)]
    try:
        return ModelExample(model_named(name, {**environment, **_values(lacking)}), tuple(_values(lacking)))
    except (ValueError, UserError):  # a variable has a wrong value, which is reported when the model is asked
        return ModelExample(model_named(name, {**environment, **_values(settings)}), tuple(_values(settings)))


def _values(settings: list[Setting] | tuple[Setting, ...]) -> dict[str, str]:
    """Return variable -> an example value."""
    return {setting.variables[0]: setting.example for setting in settings}
