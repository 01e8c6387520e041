"""Advice about failures by code, for messages that contain none."""

from __future__ import annotations

from collections.abc import Mapping

from medhelm.domain import FailureCode

_CHECK_SERVICE = "If it persists, check the service's status page, or the log of your own server."
_WRONG_API = "The server responds, but not in the format of this API: check the address and the provider."

ADVICE: Mapping[str, str] = {
    FailureCode.TIMEOUT: "The server may be overloaded or still loading the model: try again later.",
    FailureCode.RATE_LIMIT: "The key works, but requests are limited: try again later, or with a lower --concurrency.",
    FailureCode.OVERLOADED: "The service is overloaded: try again later.",
    FailureCode.SERVER_ERROR: _CHECK_SERVICE,
    FailureCode.INTERRUPTED: _CHECK_SERVICE,
    FailureCode.MALFORMED_REPLY: _WRONG_API,
    FailureCode.EMPTY_CHOICE: _WRONG_API,
    FailureCode.BAD_REQUEST: "Check `parameters`, `reasoning` and `max_tokens` of the model in models.yaml.",
    FailureCode.TOO_LARGE: "The request exceeds the limit of this service or plan: a lower `window` shortens it.",
    FailureCode.DOES_NOT_FIT: "Nothing was sent: the prompt needs a larger context window (`window` in models.yaml).",
    FailureCode.REFUSAL: "The account's settings may allow a milder filter.",
    FailureCode.PLUGIN_ERROR: "This is an error in the package: report it to its authors.",
}
"""`FailureCode` -> what to do. Failures may have further codes."""
