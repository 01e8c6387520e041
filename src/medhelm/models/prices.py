"""Prices and context windows of models: the user's own figures first, then dated public lists."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from medhelm.domain import Model, Price
from medhelm.models.providers import answers_in_process

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

    from medhelm.models.price_book import PriceBook


def price_of(model: Model, at: date, books: Sequence[PriceBook] = ()) -> Price | None:
    """Return the price of `model` on day `at`; None if it is unknown, which never counts as free.

    The first of these that has a price wins: `books`, in their order; models.yaml; the price lists of the
    `genai-prices` package, as of noon UTC, for the vendor that owns the model's address and the model's name there (on
    Azure the deployment's name). If long prompts cost more, the price of short ones is returned. Nothing is downloaded.
    """
    if answers_in_process(model.provider):
        return model.price or Price(input=0.0, output=0.0, source="answered without a service")
    for book in books:
        if (named := book.price_of(model, at)) is not None:
            return named
    if model.price is not None:
        return model.price
    if (found := _publicly_listed(model, datetime.combine(at, time(12), UTC))) is None:
        return None
    listed = found.model_price
    paid, written = _per_million(listed.input_mtok), _per_million(listed.output_mtok)
    if paid is None or written is None:
        return None
    from genai_prices import __version__

    return Price(
        input=paid,
        output=written,
        cached_input=_per_million(listed.cache_read_mtok),
        cache_write=_per_million(listed.cache_write_mtok),
        source=f"genai-prices {__version__}, {found.provider.id}/{found.model.id}, {at.isoformat()}",
    )


def known_window(model: Model) -> int | None:
    """Return the context window of `model`, the most tokens of prompt and completion together; None if unknown.

    The value in models.yaml wins; otherwise, for models at a vendor's own address, the table of the `genai-prices`
    package. Nothing is downloaded.
    """
    if model.window is not None:
        return model.window
    found = _publicly_listed(model, None)
    return found.model.context_window if found else None


def _publicly_listed(model: Model, moment: datetime | None) -> PriceCalculation | None:
    """Return what `genai-prices` lists about a model at a vendor's own address; None if nothing.

    `moment`: time of the price; None for now.
    """
    if not model.base_url.startswith("https://"):
        return None  # this machine or a private network
    from genai_prices import Usage, calc_price  # lazy: it takes 0.15 s

    try:
        return calc_price(
            Usage(input_tokens=1),
            model.remote_name,
            provider_api_url=model.base_url,
            genai_request_timestamp=moment,
        )
    except LookupError:
        return None


def _per_million(price: Any) -> float | None:
    """Convert a listed price to a number: its base if it has steps, None if there is none."""
    base = getattr(price, "base", price)
    return float(base) if isinstance(base, Decimal) else None
