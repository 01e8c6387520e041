"""One or two example models of each provider, for users who do not know yet how models are named.

Any model of a provider can be named; these are only examples. Their prices and context windows are looked up as for any
model. A model that is no longer sold has neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """Variables that must be set for it, other than that of its key."""


def example_models(environment: Mapping[str, str]) -> list[ModelExample]:
    """Return all examples, whatever variables are set."""
    services = SERVICES.built_in.values()
    return [_example(name, service.settings, environment) for service in services for name in service.examples]


def _example(name: str, settings: Sequence[Setting], environment: Mapping[str, str]) -> ModelExample:
    lacking = [one for one in settings if not any(environment.get(name, "").strip() for name in one.variables)]
    try:
        return _with_values(name, lacking, environment)
    except (ValueError, UserError):  # a variable has a wrong value, which is reported when the model is asked
        return _with_values(name, settings, environment)


def _with_values(name: str, settings: Sequence[Setting], environment: Mapping[str, str]) -> ModelExample:
    """Return the example of a name, with the example values of some settings."""
    values = {setting.variables[0]: setting.example for setting in settings}
    return ModelExample(model_named(name, {**environment, **values}), tuple(values))
