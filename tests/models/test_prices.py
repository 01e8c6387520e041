"""What models cost, and that what is not known is not free."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from medhelm.domain import Model
from medhelm.models.prices import price_of

DAY = date(2025, 9, 1)


def model(remote_name: str, base_url: str = "https://api.openai.com/v1", **settings: Any) -> Model:
    """A model somewhere."""
    return Model(name=remote_name, remote_name=remote_name, base_url=base_url, **{"provider": "openai", **settings})


def test_list_prices_have_days_steps_of_which_the_first_counts_and_a_rate_for_writing_to_a_cache() -> None:
    azure = price_of(model("gpt-4o", "https://x.openai.azure.com/openai/v1", provider="azure"), DAY)
    claude = price_of(model("claude-sonnet-4-5", "https://api.anthropic.com/v1", provider="anthropic"), DAY)
    steps = price_of(model("gpt-5.4"), date(2026, 6, 1))
    assert azure and claude and steps
    assert (azure.input, azure.output, azure.cached_input) == (2.5, 10.0, 1.25)
    assert (claude.input, claude.cached_input, claude.cache_write) == (3.0, 0.3, 3.75)
    assert (steps.input, steps.output, steps.cached_input) == (2.5, 15.0, 0.25)
    assert re.fullmatch(r"genai-prices .* 2025-09-01", azure.source)
    found = [price_of(model("o3"), day) for day in (date(2025, 5, 1), DAY)]
    assert [price.input for price in found if price] == [10.0, 2.0]


def test_what_is_not_known_is_none_and_never_zero() -> None:
    azure = model("my-deployment", "https://x.openai.azure.com/openai/v1", provider="azure")
    for asked in (model("gpt-nonsense"), model("gpt-4o", "https://gateway.hospital.org/v1"), azure):
        assert price_of(asked, DAY) is None
