"""What models cost, and that what is not known is not free."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from medhelm.domain import Model, Price
from medhelm.models.prices import price_of

DAY = date(2025, 9, 1)


def model(remote_name: str, base_url: str = "https://api.openai.com/v1", **settings: Any) -> Model:
    """A model somewhere."""
    return Model(name=remote_name, remote_name=remote_name, base_url=base_url, **{"provider": "openai", **settings})


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (model("gpt-4o-2024-05-13"), (5.0, 15.0, None)),
        (model("o3-mini-2025-01-31"), (1.1, 4.4, 0.55)),
        (model("gpt-4o", "https://x.openai.azure.com/openai/v1", provider="azure"), (2.5, 10.0, 1.25)),
    ],
)
def test_hosted_models_have_list_prices(asked: Model, expected: tuple[float, float, float | None]) -> None:
    price = price_of(asked, DAY)
    assert price is not None
    assert (price.input, price.output, price.cached_input) == expected
    assert price.source.startswith("genai-prices ")
    assert price.source.endswith("2025-09-01")


def test_prices_have_days_steps_of_which_the_first_counts_and_a_rate_for_writing_to_a_cache() -> None:
    found = [price_of(model("o3"), day) for day in (date(2025, 5, 1), DAY)]
    assert [price.input for price in found if price] == [10.0, 2.0]
    steps = price_of(model("gpt-5.4"), date(2026, 6, 1))
    assert steps is not None
    assert (steps.input, steps.output, steps.cached_input) == (2.5, 15.0, 0.25)
    claude = price_of(model("claude-sonnet-4-5", "https://api.anthropic.com/v1", provider="anthropic"), DAY)
    assert claude is not None
    assert (claude.input, claude.cached_input, claude.cache_write) == (3.0, 0.3, 3.75)


@pytest.mark.parametrize(
    "asked",
    [
        model("gpt-nonsense"),
        model("gpt-4o", "http://127.0.0.1:8000/v1"),
        model("gpt-4o", "https://gateway.hospital.org/v1"),
        model("my-deployment", "https://x.openai.azure.com/openai/v1", provider="azure"),
        model("openai/gpt-oss-20b:free", "https://openrouter.ai/api/v1"),
    ],
    ids=lambda asked: f"{asked.remote_name} at {asked.base_url}",
)
def test_what_is_not_known_is_none_and_never_zero(asked: Model) -> None:
    assert price_of(asked, DAY) is None


def test_the_users_own_price_wins() -> None:
    own = Price(input=1.0, output=2.0, source="models.yaml")
    assert price_of(model("gpt-4o", price=own), DAY) is own
    assert price_of(model("x", "http://127.0.0.1:8000/v1", price=own), DAY) is own


@pytest.mark.parametrize("provider", ["baseline", "replay"])
def test_what_needs_no_service_costs_nothing(provider: str) -> None:
    price = price_of(model("x", "", provider=provider), DAY)
    assert price is not None
    assert (price.input, price.output) == (0.0, 0.0)
