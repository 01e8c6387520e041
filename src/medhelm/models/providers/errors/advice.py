"""What to do about a failure, by its code, where the failure's own words do not say."""

from __future__ import annotations

from collections.abc import Mapping

ADVICE: Mapping[str, str] = {
    "timeout": "A server may still be loading the model, or have too much to do: ask again later.",
    "rate_limit": "The key works; the limit is the provider's: ask again later, or with a lower --concurrency.",
    "overloaded": "Nothing is wrong here: the service has too much to do. Ask again later.",
    "server_error": "If it lasts, look at the service's status page, or at the log of your own server.",
    "interrupted": "If it lasts, look at the service's status page, or at the log of your own server.",
    "malformed_reply": "Something answers there, but not as this API does: check the address and the provider's name.",
    "empty_choice": "Something answers there, but not as this API does: check the address and the provider's name.",
    "bad_request": "It is about the request: look at `parameters`, `reasoning` and `max_tokens` in models.yaml.",
    "too_large": "The request is too large for this service or its plan: a lower `window` in models.yaml shortens it.",
    "does_not_fit": "Nothing was sent: it takes a larger window, on this server (`window` in models.yaml) or another.",
    "refusal": "Refusals are kept and count as missing. Where a filter is too strict, its settings are the account's.",
    "plugin_error": "The package is at fault: tell its authors.",
}
"""Code of a failure -> what to do."""
