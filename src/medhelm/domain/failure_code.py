"""Failure codes of requests without a completion, and of judges' replies without a judgment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from medhelm.domain.text import listed, plural


class FailureCode(StrEnum):
    """Reason why a request has no completion.

    Equal to the strings in stores and JSON. Imported results, plug-ins and other versions of medhelm may use further
    codes, so a failure's code is any string.
    """

    # The model declined, or reached its limit. Such failures are paid for and cached, like completions.
    REFUSAL = "refusal"
    LENGTH = "length"

    # The connection.
    CONNECTION = "connection"
    TIMEOUT = "timeout"
    CERTIFICATE = "certificate"
    REDIRECT = "redirect"

    # The account or the model: no request to this model can succeed.
    KEY = "key"
    BAD_KEY = "bad_key"
    NO_KEY = "no_key"
    NO_QUOTA = "no_quota"
    NO_ACCESS = "no_access"
    NO_CHAT = "no_chat"
    UNKNOWN_MODEL = "unknown_model"
    PARAMETER = "parameter"

    # One request: it fails every time.
    CONTEXT_LENGTH = "context_length"
    DOES_NOT_FIT = "does_not_fit"
    TOO_LARGE = "too_large"
    BAD_REQUEST = "bad_request"

    # The service, temporarily: the same request may succeed later.
    RATE_LIMIT = "rate_limit"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    CONFLICT = "conflict"
    TOO_EARLY = "too_early"
    INTERRUPTED = "interrupted"
    MALFORMED_REPLY = "malformed_reply"
    EMPTY_CHOICE = "empty_choice"

    # Optional parameters that a server does not support: the request is sent again without them.
    SCHEMA_REFUSED = "schema_refused"
    TEMPERATURE_REFUSED = "temperature_refused"
    STOP_REFUSED = "stop_refused"
    MAX_TOKENS_REFUSED = "max_tokens_refused"
    NEW_LIMIT_REFUSED = "max_completion_tokens_refused"
    SMALL_LIMIT_REFUSED = "small_max_tokens_refused"
    SYSTEM_REFUSED = "system_message_refused"
    SEED_REFUSED = "seed_refused"
    CACHE_REFUSED = "cache_refused"

    # Batch APIs.
    NO_BATCHES = "no_batches"
    UNKNOWN_BATCH = "unknown_batch"
    BATCH_FAILED = "batch_failed"
    CANCELLED = "cancelled"

    # Models on this machine or a cluster, replay files, baselines, plug-ins.
    NOT_STARTED = "not_started"
    NOT_LOADED = "not_loaded"
    ACTOR_LOST = "actor_lost"
    OUT_OF_MEMORY = "out_of_memory"
    NO_REPLAY = "no_replay"
    REPLAYED_FAILURE = "replayed_failure"
    NO_INSTANCE = "no_instance"
    NOT_PREPARED = "not_prepared"
    PLUGIN_ERROR = "plugin_error"

    # The run: the request was not sent.
    NOT_ASKED = "not_asked"
    UNUSABLE = "unusable"


CAUSED_BY_MODEL = frozenset(
    {
        FailureCode.REFUSAL,
        FailureCode.LENGTH,
        FailureCode.CONTEXT_LENGTH,
        FailureCode.DOES_NOT_FIT,
        FailureCode.TOO_LARGE,
        FailureCode.EMPTY_CHOICE,
    }
)
"""Failures that a user of the model would meet too: a refusal, in words or by a filter, an exhausted limit, a prompt
that does not fit. Corrected scoring counts them as the worst answer, like a refusal in words (composite strategy of ICH
E9(R1)). All others come from the connection, the account or the service: the instance has no score and is asked
again."""


AS_WORST = "counted as the worst answer"
"""Ending of every sentence about failures that the model caused, in outputs by the corrected rule."""


def caused_in_words(failures: Mapping[str, int]) -> str:
    """Return how many failures of each kind the model caused. `failures`: code -> number, others are left out.

    >>> caused_in_words({"refusal": 4, "length": 1, "timeout": 9})
    '4 refusals and 1 exhausted limit'
    """
    kinds = {
        ("refusal", "refusals"): (FailureCode.REFUSAL,),
        ("exhausted limit", "exhausted limits"): (FailureCode.LENGTH,),
        ("prompt that does not fit", "prompts that do not fit"): (
            FailureCode.CONTEXT_LENGTH,
            FailureCode.DOES_NOT_FIT,
            FailureCode.TOO_LARGE,
        ),
        ("empty reply", "empty replies"): (FailureCode.EMPTY_CHOICE,),
    }
    counts = {names: sum(failures.get(code, 0) for code in codes) for names, codes in kinds.items()}
    return listed([plural(n, *names) for names, n in counts.items() if n])


UNREADABLE_REPLY = {
    "truncated": "the judge's reply ran out of tokens",
    "too_long": "the judge's reply is too long to be parsed",
    "no_verdict": "the judge's reply holds no JSON object",
    "malformed": "the judge's reply is not valid JSON",
    "ambiguous": "the judge's reply holds several verdicts that differ, or a key twice",
    "echo": "the judge's verdict is copied from the judged text, question or reference",
    "unverified": "the judge's verdict lacks the verification code of its prompt",
    "missing_criterion": "the judge's verdict lacks the criterion",
    "not_a_grade": "the judge's grade is not a number",
    "no_decision": "the judge did not decide whether the criterion is met",
    "off_scale": "the judge's grade is outside the scale",
}
"""Code of a judgment that is missing because of the judge's reply -> the problem in words."""


def explain_codes(codes: Iterable[str]) -> str:
    """Return a sentence that explains the codes of unreadable replies; empty if there are none among these.

    >>> explain_codes(["timeout", "off_scale"])
    "`off_scale`: the judge's grade is outside the scale."
    """
    known = [f"`{code}`: {UNREADABLE_REPLY[code]}" for code in codes if code in UNREADABLE_REPLY]
    return f"{'; '.join(known)}." if known else ""
