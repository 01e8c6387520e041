"""The options that repeat a stored run: all that change what is measured, whatever else was chosen."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest

from medhelm.domain import Jury, Model, Shard
from medhelm.domain.option_fields import option_of
from medhelm.domain.run import setting_in_words
from medhelm.evaluation.settings import MEASUREMENT, Settings, stored_settings
from medhelm.evaluation.stored_settings import repeating_words, settings_of

OTHER: dict[str, Any] = {
    "rubric": "extended", "verification_codes": False, "limit": 3, "subset": 4, "seed": 5, "sample": "all",
    "tier": "sample", "own_data": True, "prompt": "terse", "temperature": 0.7, "logprobs": True,
}  # fmt: skip
"""Setting that changes what is measured -> another value than its default."""


def run_of(settings: Settings, n_judges: int = 0, needed: int = 0) -> Any:
    """The part of a run that says how it was measured."""
    judges = tuple(Model(name=f"j{i}", provider="openai", remote_name=f"j{i}") for i in range(n_judges))
    jury = SimpleNamespace(jury=Jury(judges=judges, min_judges=needed)) if judges else None
    stored = {"max_tokens": 5, **stored_settings(settings)}
    setting = setting_in_words(prompt=settings.prompt, temperature=settings.temperature)
    return SimpleNamespace(
        settings=stored, setting=setting, variant="", tier=settings.tier, rubric=settings.rubric, jury_result=jury
    )


@pytest.mark.parametrize("name", MEASUREMENT)
def test_a_run_tells_the_settings_that_measured_it(name: str) -> None:
    chosen = Settings(**{name: OTHER[name]})
    assert settings_of(run_of(chosen)) == chosen
    form = next(option_of(one) for one in fields(Settings) if one.name == name)
    assert form is not None
    flag, value = form.flag.rpartition("/")[2], OTHER[name]
    assert repeating_words(run_of(chosen)) == ((flag,) if isinstance(value, bool) else (flag, str(value)))


def test_settings_that_change_no_number_are_not_repeated() -> None:
    chosen = Settings(attempts=2, batch=True, shard=Shard(index=1, count=2), max_cost_usd=1.0)
    assert repeating_words(run_of(chosen)) == ()
    assert stored_settings(chosen) == stored_settings(Settings()) == {"limit": None, "seed": 0, "sample": "default"}


@pytest.mark.parametrize(
    ("judges", "needed", "text"),
    [
        (0, 0, ""),
        (1, 1, "--judge j0"),
        (3, 2, "--judge j0 --judge j1 --judge j2"),
        (3, 3, "--judge j0 --judge j1 --judge j2 --min-judges 3"),
        (2, 1, "--judge j0 --judge j1 --min-judges 1"),
    ],
)
def test_the_jury_is_repeated(judges: int, needed: int, text: str) -> None:
    assert " ".join(repeating_words(run_of(Settings(), judges, needed))) == text
