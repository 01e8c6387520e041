"""The services that can be asked, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from medhelm.domain import Model
from medhelm.errors import UserError, suggestion
from medhelm.models.http import Http
from medhelm.models.provider import Provider
from medhelm.models.providers.baseline import Baseline
from medhelm.models.providers.openai_compatible import OpenAICompatible
from medhelm.models.providers.replay import read_replay


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a provider may need besides the model it serves."""

    http: Http
    """The way out."""
    environment: Mapping[str, str]
    """Environment variables; keys are among them."""
    seed: int
    """Seed of what is random."""
    aliases: Mapping[str, str]
    """Alias of a benchmark -> its name."""

    def __repr__(self) -> str:
        """Without the environment, which holds keys."""
        return f"Surroundings(seed={self.seed})"


def open_provider(
    model: Model,
    http: Http,
    *,
    environment: Mapping[str, str],
    seed: int = 0,
    aliases: Mapping[str, str] | None = None,
) -> Provider:
    """The provider that serves `model`, ready to be asked.

    `environment` holds the key, under the name `model.key_variable`; `seed` is for the random baseline; `aliases`
    (alias -> name of a benchmark) for names in a replay file.
    Raises: UserError for an unknown provider or a replay file that is missing or wrong. Nothing is sent.
    """
    if model.provider not in PROVIDERS:
        known = suggestion(model.provider, PROVIDERS)
        raise UserError(f"{model.name}: there is no provider `{model.provider}`. {known}".rstrip())
    around = Surroundings(http=http, environment=environment, seed=seed, aliases=aliases or {})
    return PROVIDERS[model.provider](model, around)


def _openai(model: Model, around: Surroundings) -> Provider:
    key = around.environment.get(model.key_variable, "").strip() if model.key_variable else ""
    return OpenAICompatible(model, around.http, key=key)


def _baseline(model: Model, around: Surroundings) -> Provider:
    return Baseline(model.remote_name, seed=around.seed)


def _replay(model: Model, around: Surroundings) -> Provider:
    return read_replay(Path(model.remote_name), aliases=around.aliases)


PROVIDERS: dict[str, Callable[[Model, Surroundings], Provider]] = {
    "openai": _openai,
    "azure": _openai,
    "baseline": _baseline,
    "replay": _replay,
}
"""Name of a provider -> how it is opened. To add one: a module in this folder, and a line here."""
