"""Documented context windows of models."""

from __future__ import annotations

from medhelm.domain import Model


def known_window(model: Model) -> int | None:
    """Return the most tokens of prompt and completion together; None if unknown.

    The value in models.yaml wins; otherwise, for models at a vendor's own address, the table of the `genai-prices`
    package. Nothing is downloaded.
    """
    if model.window is not None or not model.base_url.startswith("https://"):
        return model.window
    from genai_prices import Usage, calc_price  # lazy: it takes 0.15 s

    try:
        found = calc_price(Usage(input_tokens=1), model.remote_name, provider_api_url=model.base_url)
    except LookupError:
        return None
    return found.model.context_window
