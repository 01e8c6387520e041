"""What a complaint of a service means: a refusal, a part it cannot take, a wrong key, a limit, or trouble that passes.

The words are those of the services' own errors: OpenAI's and Azure's API references, Anthropic's list of errors, the
Gemini API's troubleshooting guide and google.rpc's reasons, the error shapes of Bedrock's Converse operation, and what
their users report of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from difflib import SequenceMatcher

from medhelm.domain import Completion, Failure, Model
from medhelm.errors import ProviderError
from medhelm.models.provider import CACHE, LIMIT, SCHEMA, SEED, STOP, TEMPERATURE
from medhelm.models.providers.errors.account import lack_in
from medhelm.models.providers.errors.parse import NONE_AT_ALL, PAGE, PER_DAY, ErrorResponse

UNKNOWN_MODEL = "unknown_model"
"""Failure code of a model that its server does not have, or not at this address."""

REFUSAL = "refusal"
"""Failure code of a model or of its provider's filter that would not answer."""

_REFUSAL_WORDS = {
    "content_filter",
    "content_policy_violation",
    "contentpolicyviolationerror",
    "responsibleaipolicyviolation",
    "moderation_blocked",
    "data_inspection_failed",
}
_REFUSAL_PHRASES = ("content management policy", "violating our usage polic", "content exists risk")
_MODEL_WORDS = {"model_not_found", "deploymentnotfound", "notfounderror", "unknown_model"}
_MODEL_PHRASE = re.compile(
    r"\bmodel\b.{0,120}\b(does not exist|not found)|not a valid model id|invalid model name|unknown model"
    r"|model identifier is invalid|on-demand throughput isn.t supported",
    re.DOTALL,
)
_QUOTA_WORDS = {
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "billing_error",
    "insufficient_balance",
    "budget_exceeded",
    "contract_spend_limit_reached",
    "enforced_spend_limit_reached",
    PER_DAY,
    NONE_AT_ALL,
}
_QUOTA_PHRASE = re.compile(r"credit balance is too low|reached your specified api usage limits|too many tokens per day")
_KEY_WORDS = {
    "invalid_api_key",
    "invalid_authentication",
    "missing_api_key",
    "api_key_invalid",
    "authentication_error",
    "organization_on_hold",
    "expiredtokenexception",
    "unrecognizedclientexception",
    "invalidsignatureexception",
    "signaturedoesnotmatch",
}
_KEY_PHRASE = re.compile(r"organization has been disabled")
_LENGTH_WORDS = {"context_length_exceeded", "exceed_context_size_error"}
_LENGTH_PHRASE = re.compile(
    r"maximum (context|model|prompt) length|context length (is|of) only|(prompt is|prompt|input is) too long"
    r"|(exceeds?|longer than|greater than) (the .{0,40})?context (size|window|length|limit)"
    r"|exceeds the maximum number of (input )?tokens|input tokens exceeds? |input token count is|context window exceeds"
    r"|exceeded model token limit|configured context size is|range of input length should be|too many tokens: "
    r"|max_new_tokens` must be <=|`inputs` must have less than|reduce the length of the messages|max size: \d+ tokens"
)
"""What is said of a prompt that is too long by OpenAI, Azure, GitHub, Anthropic, Google, Bedrock, Mistral, xAI, Groq,
Cohere, Moonshot, MiniMax, DashScope, Fireworks, OpenRouter, vLLM, SGLang, TGI, llama.cpp, LM Studio and Ollama."""
_PARAMETER_WORDS = {"unsupported_parameter", "unsupported_value", "unknown_parameter"}
_PARAMETER_PHRASE = re.compile(r"(the model returned the following errors: )?[\"'`]?(thinking|output_config|effort)\b")
"""How Anthropic's complaints about its own settings begin, there and behind Bedrock."""

_THOUGHT_PHRASE = re.compile(r"thinking[ _]?(?:level|budget|config)|only works in thinking mode|reasoning[ _]effort")
"""What services say of an effort that a model does not know; Google's do not begin with it."""

_UNABLE = re.compile(
    r"deprecated|(?:not|n't|n.t) support|unsupported|only (?:the default|support)|may only be|not permitted|not allowed"
    r"|cannot (?:both )?be|not available|unrecognized request argument|unknown (?:parameter|field|name)"
    r"|extra (?:inputs|fields)|unexpected keyword"
)
_NAMES = {
    TEMPERATURE: re.compile(r"\btemperature\b"),
    STOP: re.compile(r"\bstop(?:_?sequences)?\b"),
    SEED: re.compile(r"\bseed\b"),
    CACHE: re.compile(r"cache_control|cache_?point|prompt caching|prompt_cache"),
    LIMIT: re.compile(r"\bmax_tokens\b.*\bmax_completion_tokens\b", re.DOTALL),
}
"""Part -> what a complaint about it names."""

_RETRYABLE = {
    408: "timeout",
    409: "conflict",
    424: "server_error",
    425: "too_early",
    429: "rate_limit",
    503: "overloaded",
    529: "overloaded",
}
_OVERLOADED = {429, 503, 529}

WITHOUT_LIST = frozenset({"azure", "vertex", "bedrock"})
"""Providers whose models are not listed where they are asked."""

SHORTEST_PART = 3
"""Characters that may be taken for a part of a name."""

CLOSE = 0.7
"""Likeness, from 0 to 1, from which on a name may be meant by another."""

SHOWN_NAMES = 10
"""Names of a server's models in one message."""

CHECK_LISTS = "`medhelm models check` lists the names that it has."
"""What to do about a name that a server does not know, unless that is what is being done."""


def classify_error(complaint: ErrorResponse, model: Model, *, parts: Collection[str] = ()) -> Completion:
    """What a complaint comes to: a refusal is a completion with a failure, everything else a ProviderError.

    Fatal, because no request to this model can succeed: `key`, `no_access`, `no_chat`, `unknown_model`, `no_quota`,
    `parameter`.
    Of one request, for good: `context_length`, `too_large`, `bad_request`. Retryable: all others.
    `parts`: those of the request that it can do without; a complaint about one is `schema_refused`,
    `temperature_refused`, `stop_refused`, `seed_refused`, `max_tokens_refused` or `cache_refused`, retryable.
    """
    if _is_refusal(complaint):
        words = f"refused by the provider's filter: {complaint.message}"
        return Completion(failure=Failure("provider", REFUSAL, words), finish_reason="content_filter")
    if part := _refused_part(complaint, parts):
        raise ProviderError(f"{part}_refused", _told(complaint, model), retryable=True)
    raise _fatal(complaint, model) or _of_one_request(complaint, model) or _passing(complaint, model)


def _is_refusal(complaint: ErrorResponse) -> bool:
    if not 400 <= complaint.status < 500 or complaint.status == 429:
        return False
    said = complaint.message.lower()
    return bool(complaint.words & _REFUSAL_WORDS) or any(phrase in said for phrase in _REFUSAL_PHRASES)


def _refused_part(complaint: ErrorResponse, parts: Collection[str]) -> str:
    """The part of the request that the server cannot take; "" if it complains of something else."""
    if complaint.status in {400, 403, 422}:  # 403: Bedrock, about models that know no cache
        said = complaint.message.lower()
        for part in (TEMPERATURE, STOP, SEED, LIMIT, CACHE):
            named = complaint.parameter == part or _NAMES[part].search(said)
            if part in parts and named and (_UNABLE.search(said) or complaint.words & _PARAMETER_WORDS):
                return part
    return SCHEMA if SCHEMA in parts and complaint.about_form else ""


def _fatal(complaint: ErrorResponse, model: Model) -> ProviderError | None:
    status, words, said = complaint.status, complaint.words, complaint.message.lower()
    if lack := lack_in(complaint):
        return ProviderError(lack.code, _told(complaint, model, lack.todo), fatal=True)
    if words & _MODEL_WORDS or status in {404, 405, 410} or (status == 400 and _MODEL_PHRASE.search(said)):
        return ProviderError(UNKNOWN_MODEL, _told(complaint, model, _about_the_name(said, model)), fatal=True)
    if words & _QUOTA_WORDS or _QUOTA_PHRASE.search(said) or (status == 402 and complaint.retry_after_s is None):
        return ProviderError("no_quota", _told(complaint, model, _about_the_quota(words, said)), fatal=True)
    if words & _KEY_WORDS or status in {401, 403} or (status == 400 and _KEY_PHRASE.search(said)):
        return ProviderError("key", _told(complaint, model, _about_the_key(complaint, model)), fatal=True)
    about_settings = status == 400 and (_PARAMETER_PHRASE.match(said) or _THOUGHT_PHRASE.search(said))
    if (words & _PARAMETER_WORDS and complaint.parameter != "stop") or about_settings:
        fix = "Set `reasoning`, `reasoning_effort` or `parameters` for it in models.yaml; null leaves a parameter out."
        return ProviderError("parameter", _told(complaint, model, fix), fatal=True)
    return None


def _about_the_name(said: str, model: Model) -> str:
    if "inference profile" in said:
        return "Name an inference profile instead, such as `us.` before the model's ID."
    if model.provider == "azure":
        return (
            f"Is there a deployment `{model.remote_name}` (the Azure portal lists them; names of models are others) at "
            f"{model.base_url}?"
        )
    fix = f"Is `{model.remote_name}` the server's name for it, and {model.base_url} the right address?"
    if model.provider == "openai" and "/v1" not in model.base_url:
        fix += " Most end in /v1."
    return fix if model.provider in WITHOUT_LIST else f"{fix} {CHECK_LISTS}"


def near_names(name: str, names: Sequence[str]) -> list[str]:
    """Those of `names` that `name` may stand for, the likeliest first: whatever their case and maker.

    >>> near_names("qwen2.5", ["llama-3.3-70b", "Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen3-8B"])
    ['Qwen/Qwen2.5-7B-Instruct']
    """
    wanted, likeness = _without_maker(name), dict[str, float]()
    for known in names:
        plain = _without_maker(known)
        if min(len(wanted), len(plain)) >= SHORTEST_PART and (wanted in plain or plain in wanted):
            likeness[known] = 1.0 + SequenceMatcher(None, wanted, plain).ratio()
        elif (ratio := SequenceMatcher(None, wanted, plain).ratio()) >= CLOSE:
            likeness[known] = ratio
    return sorted(likeness, key=lambda known: -likeness[known])


def _without_maker(name: str) -> str:
    return name.rpartition("/")[2].lower()


def with_names(error: ProviderError, model: Model, names: Sequence[str]) -> ProviderError:
    """The error of an unknown model with the names that its server gives, the nearest first."""
    if model.remote_name in names:
        more = "It has a model of this name, so rather the address is wrong."
    elif names:
        near = near_names(model.remote_name, names)
        shown = [*near, *(name for name in names if name not in near)][:SHOWN_NAMES]
        rest = f" and {len(names) - len(shown):,} more" if len(names) > len(shown) else ""
        more = f"The server has: {', '.join(shown)}{rest}."
        more = f"Did you mean `{near[0]}`? {more}" if near else more
    else:
        more = CHECK_LISTS
    return ProviderError(error.code, str(error).replace(CHECK_LISTS, more), fatal=error.fatal)


def _about_the_quota(words: Collection[str], said: str) -> str:
    if NONE_AT_ALL in words:
        return "The plan of this key does not include the model: enable billing for its project, or name another."
    if PER_DAY in words or "per day" in said:
        return "The day's quota is used up: the same command goes on tomorrow, or once the quota is raised."
    if "usage limits" in said or "spend" in " ".join(words):
        return "The account has come to a limit that was set for it: raise that, or wait until it is renewed."
    return "The account behind the key has no credit left: add some, and the same command goes on from here."


def _about_the_key(complaint: ErrorResponse, model: Model) -> str:
    """What to do about a key that was not accepted."""
    said = complaint.message.lower()
    if _is_page(complaint):
        key = f", or {model.key_variable} is wrong" if model.key_variable else ""
        return f"APIs send no pages: a firewall, a proxy or a login on the way refuses{key}."
    if "signature expired" in said or "not yet current" in said:
        return "The clock of this machine is wrong: set it, and run the command again."
    if model.provider == "vertex" and complaint.status == 403:
        return "The account of the token lacks a role in this project (Vertex AI User), or the project is another."
    if model.provider == "vertex":
        return (
            f"An access token lasts an hour: set {model.key_variable or 'GOOGLE_ACCESS_TOKEN'} to what "
            "`gcloud auth print-access-token` prints, and run the command again; it goes on from here."
        )
    if "expiredtokenexception" in complaint.words or "token included in the request is expired" in said:
        return "The session has ended: get new credentials (AWS_SESSION_TOKEN goes with its key), and run it again."
    if model.key_variable == "AWS_BEARER_TOKEN_BEDROCK":
        return "Check AWS_BEARER_TOKEN_BEDROCK, and that AWS_REGION is the region it was made in; some last 12 hours."
    if model.key_variable == "AWS_ACCESS_KEY_ID":
        return "Check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, and AWS_SESSION_TOKEN if the key is temporary."
    if model.key_variable:
        return f"Check {model.key_variable}."
    return "The server wants a key: put it into MEDHELM_API_KEY, or name its variable under `key` in models.yaml."


def _is_page(complaint: ErrorResponse) -> bool:
    """Whether it came as a web page, which no API sends."""
    return complaint.message.startswith(PAGE)


def _of_one_request(complaint: ErrorResponse, model: Model) -> ProviderError | None:
    status, said = complaint.status, complaint.message.lower()
    if complaint.words & _LENGTH_WORDS or (status != 429 and _LENGTH_PHRASE.search(said)):
        known = model.window or any(character.isdigit() for character in said)  # then it is learned from what it said
        fix = "" if known else "Name its `window` in models.yaml: longer prompts are then shortened or left out."
        return ProviderError("context_length", _told(complaint, model, fix))
    if status == 413 or (status == 429 and said.startswith("request too large")):
        return ProviderError("too_large", _told(complaint, model))
    if status < 500 and status not in _RETRYABLE and status != 402:
        return ProviderError("bad_request", _told(complaint, model))
    return None


def _passing(complaint: ErrorResponse, model: Model) -> ProviderError:
    status = complaint.status
    return ProviderError(
        "rate_limit" if status == 402 else _RETRYABLE.get(status, "server_error"),
        _told(complaint, model),
        retryable=True,
        overloaded=status in _OVERLOADED or status == 402,
        retry_after_s=complaint.retry_after_s,
    )


def _told(complaint: ErrorResponse, model: Model, fix: str = "") -> str:
    said = complaint.message
    if said and not said.endswith((".", "!", "?")):
        said += "."
    said = f": {said}" if said else "."
    return f"{model.name}: the server answered {complaint.status}{said} {fix}".rstrip()
