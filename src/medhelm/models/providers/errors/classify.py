"""The meaning of an error response: a refusal, an unsupported parameter, a wrong key, a limit, or a passing problem.

Codes and phrases come from the services' own references: OpenAI's and Azure's error codes, Anthropic's list of errors,
the Gemini API's troubleshooting guide, google.rpc's reasons, and the errors of Bedrock's Converse operation. Errors of
one service are in its `Service` record; those that many servers and gateways use are here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from medhelm.domain import Completion, Failure, FailureCode, Model
from medhelm.errors import ProviderError
from medhelm.models.provider import OptionalParameter
from medhelm.models.providers.errors.parse import WEB_PAGE, ErrorResponse
from medhelm.models.service import Service

COMMON_CODES: Mapping[str, FailureCode] = {
    "content_filter": FailureCode.REFUSAL,
    "content_policy_violation": FailureCode.REFUSAL,
    "contentpolicyviolationerror": FailureCode.REFUSAL,
    "responsibleaipolicyviolation": FailureCode.REFUSAL,
    "moderation_blocked": FailureCode.REFUSAL,
    "data_inspection_failed": FailureCode.REFUSAL,
    "unsupported_country_region_territory": FailureCode.NO_ACCESS,
    "model_not_found": FailureCode.UNKNOWN_MODEL,
    "notfounderror": FailureCode.UNKNOWN_MODEL,
    "unknown_model": FailureCode.UNKNOWN_MODEL,
    "insufficient_quota": FailureCode.NO_QUOTA,
    "billing_hard_limit_reached": FailureCode.NO_QUOTA,
    "billing_not_active": FailureCode.NO_QUOTA,
    "insufficient_balance": FailureCode.NO_QUOTA,
    "budget_exceeded": FailureCode.NO_QUOTA,
    "invalid_api_key": FailureCode.KEY,
    "invalid_authentication": FailureCode.KEY,
    "missing_api_key": FailureCode.KEY,
    "authentication_error": FailureCode.KEY,
    "unsupported_parameter": FailureCode.PARAMETER,
    "unsupported_value": FailureCode.PARAMETER,
    "unknown_parameter": FailureCode.PARAMETER,
    "context_length_exceeded": FailureCode.CONTEXT_LENGTH,
    "exceed_context_size_error": FailureCode.CONTEXT_LENGTH,
    "1301": FailureCode.REFUSAL,  # Zhipu
    "1113": FailureCode.NO_QUOTA,
    "base_resp_1026": FailureCode.REFUSAL,  # MiniMax
    "base_resp_1027": FailureCode.REFUSAL,
}
"""Error code or type of OpenAI, vLLM, llama.cpp, LiteLLM and others, in lower case -> what it means."""

COMMON_PHRASES: Mapping[FailureCode, re.Pattern[str]] = {
    FailureCode.REFUSAL: re.compile(
        r"content[ _-]?(?:management |filter\w* |safety |moderation |usage )?polic|content[ _-]?filter"
        r"|content exists risk"
        r"|(?:violat|against|breach)\w* .{0,60}(?:polic|guideline|terms of (?:use|service)|safety)|prohibited use polic"
        r"|(?:inappropriate|prohibited|sensitive|unsafe|harmful|offensive|disallowed|objectionable|toxic) "
        r"(?:content|information|words?|input|material|text|topics?)|considered (?:high risk|unsafe|harmful)"
        r"|(?:blocked|rejected|flagged|filtered|stopped|refused) "
        r".{0,40}(?:safety|moderation|guardrail|content|filter|harm)"
        r"|(?:safety|moderation|guardrail)s? .{0,40}(?:blocked|rejected|flagged|triggered|filtered|refused|intervened)"
        r"|(?:triggered|tripped) .{0,40}(?:filter|guardrail|moderation|safety)|flagged as "
        r"|敏感|不安全|违规|违法|涉嫌|内容审核|安全审核|风险内容|高风险"
    ),
    FailureCode.NO_ACCESS: re.compile(r"have access to (?:the )?model\b|organization must be verified|\bdata policy"),
    FailureCode.NO_CHAT: re.compile(
        r"not a chat model|supported in v1/responses|chatcompletion operation does not work"
        r"|must provide a chat template|does not have a chat template|no chat template"
    ),
    FailureCode.UNKNOWN_MODEL: re.compile(
        r"\bmodel\b.{0,120}\b(does not exist|not found)|not a valid model id|invalid model name|unknown model"
        r"|not supported by any provider",
        re.DOTALL,
    ),
    FailureCode.NO_QUOTA: re.compile(
        r"(?:per|a|each)[- ](?:day|week|month)\b|\b(?:daily|weekly|monthly)\b|per (?:86,?400 ?s|24 ?h)|24 hours"
        r"|(?:requests|tokens) today|for (?:today|the day)|until tomorrow|\b[rt]pd\b"
        r"|insufficient (?:balance|credit|quota|funds)|余额不足|欠费"
        r"|credit balance is too low|out of credits"
    ),
    FailureCode.PARAMETER: re.compile(
        r"^(the model returned the following errors: )?[\"'`]?(thinking|output_config|effort)\b"
        r"|thinking[ _]?(?:level|budget|config)|only works in thinking mode|reasoning[ _]effort"
    ),
    FailureCode.CONTEXT_LENGTH: re.compile(
        r"maximum (context|model|prompt|sequence|input) length|context length (is|of) only"
        r"|(prompt is|prompt|input is|input|conversation|message) (is )?too long"
        r"|(exceeds?|longer than|greater than|larger than) (the .{0,40})?context (size|window|length|limit)"
        r"|exceeds the maximum number of (input )?tokens|input tokens exceeds? |input token count is"
        r"|context window exceeds|exceeded model token limit|configured context size is|exceeds .{0,20}max_model_len"
        r"|range of input length should be|too many (input )?tokens: |max_new_tokens` must be <="
        r"|`inputs` must have less than"
        r"|reduce the length of the (messages|prompt|input)|max size: \d+ tokens|no user query found in messages"
    ),
    FailureCode.TOO_LARGE: re.compile(r"^request too large"),
}
"""Meaning -> what the message says, in lower case, where no code says it."""

_BY_STATUS: Mapping[int, FailureCode] = {
    401: FailureCode.KEY,
    402: FailureCode.NO_QUOTA,
    403: FailureCode.KEY,
    404: FailureCode.UNKNOWN_MODEL,
    405: FailureCode.UNKNOWN_MODEL,
    407: FailureCode.NO_ACCESS,
    408: FailureCode.TIMEOUT,
    409: FailureCode.CONFLICT,
    410: FailureCode.UNKNOWN_MODEL,
    413: FailureCode.TOO_LARGE,
    424: FailureCode.SERVER_ERROR,
    425: FailureCode.TOO_EARLY,
    429: FailureCode.RATE_LIMIT,
    451: FailureCode.NO_ACCESS,
    503: FailureCode.OVERLOADED,
    529: FailureCode.OVERLOADED,
}

_FATAL = (
    FailureCode.NO_CHAT,
    FailureCode.NO_ACCESS,
    FailureCode.UNKNOWN_MODEL,
    FailureCode.NO_QUOTA,
    FailureCode.KEY,
    FailureCode.PARAMETER,
)
"""Meanings that apply to every request to the model."""

_OF_ONE_REQUEST = (FailureCode.CONTEXT_LENGTH, FailureCode.TOO_LARGE, FailureCode.BAD_REQUEST)
"""Meanings with which the same request fails every time."""

_PRECEDENCE = (FailureCode.REFUSAL, *_FATAL, *_OF_ONE_REQUEST)
"""If an error has several of these meanings, the first counts. Errors with any other meaning can be retried."""

_UNSUPPORTED = re.compile(
    r"deprecated|(?:not|n't|n.t) (?:be )?(?:support|accept|allow|permit|take|recogni|enabled|implement|valid)"
    r"|not compatible|unsupported|disallowed|forbidden|extraneous|incompatible"
    r"|not (?:currently )?(?:available|applicable|configurable|adjustable)"
    r"|only (?:the default|support|accept|.{1,40} (?:is|are) (?:allowed|supported|accepted|permitted|valid))"
    r"|may only be|cannot (?:both )?be|\b(?:unrecognized|unexpected|unknown|invalid|removed|retired|no longer)\b"
    r"|extra[_ ](?:inputs|fields|forbidden)|additional propert|\bmust\b|should (?:be|not)|has to be|fixed (?:at|to)"
    r"|out of range|不支持|无效"
)
"""Words of servers about a part of a request that they do not take, in lower case."""

_SYSTEM = (
    r"\b(?:system|developer)\b['\"`]? ?(?:role|message|instruction|prompt|turn)"
    r"|\brole\b.{0,40}\b(?:system|developer)\b|(?:system|developer)['\"`]? (?:is not|with this model)"
    r"|roles must alternate|only user and assistant roles"
)
_LIMITS = r"max_?(?:completion_|output_|new_)?tokens"
_PARAMETER_NAMES = {
    OptionalParameter.SMALL_LIMIT: re.compile(
        rf"{_LIMITS}.{{0,80}}(?:minimum (?:is|of|value)|too (?:small|low)|at least|>=|(?:greater|more|higher) than)"
        rf"|(?:minimum|at least|>=).{{0,40}}{_LIMITS}",
        re.DOTALL,
    ),
    OptionalParameter.NEW_LIMIT: re.compile(r"\bmax_completion_tokens\b(?!.*\binstead\b)"),
    OptionalParameter.TEMPERATURE: re.compile(r"\btemperature\b"),
    OptionalParameter.STOP: re.compile(r"\bstop(?:_?sequences)?\b"),
    OptionalParameter.SEED: re.compile(r"\b(?:random_)?seed\b"),
    OptionalParameter.SYSTEM: re.compile(_SYSTEM, re.DOTALL),
    OptionalParameter.MAX_TOKENS: re.compile(
        r"\bmax_tokens\b.*\bmax_completion_tokens\b"
        r"|\bmax_tokens\b(?!.*(?:exceed|large|greater|less|context|length|<=))",
        re.DOTALL,
    ),
    OptionalParameter.CACHE: re.compile(r"cache_control|cache_?point|prompt caching|prompt_cache"),
}
"""Optional parameter -> its names in messages, the most specific first."""

_ONLY_WHOLE = (OptionalParameter.TEMPERATURE, OptionalParameter.SEED, OptionalParameter.STOP)
"""Parameters that are left out whenever an error names their field: another value would not be the benchmark's."""

SHORT_WAIT_S = 120.0
"""A service that accepts requests again after so many seconds has no daily quota."""

CHECK_LISTS = "`medhelm models check` lists the server's models."
"""Advice on an unknown model, except while checking."""


def classify_error(
    response: ErrorResponse, model: Model, service: Service, optional: Collection[OptionalParameter] = ()
) -> Completion:
    """Return a refusal as a completion with a failure; raise ProviderError for every other error.

    Fatal, because no request to this model can succeed: `key`, `no_access`, `no_chat`, `unknown_model`, `no_quota`,
    `parameter`. Permanent for one request: `context_length`, `too_large`, `bad_request`. All others are retryable.

    `optional`: optional parameters of the request. If the server does not support one, the code is the parameter's
    `error_code`, retryable.
    """
    code = _meaning(response, service)
    if code == FailureCode.REFUSAL:
        message = f"refused by the provider's filter: {response.message}"
        return Completion(failure=Failure("provider", code, message), finish_reason="content_filter")
    if parameter := _unsupported(response, optional):
        raise ProviderError(parameter.error_code, _message(response, model), retryable=True)
    if code == FailureCode.BAD_REQUEST and _UNSUPPORTED.search(response.text):
        named = {response.parameter, *re.findall(r"\w+", response.text)}
        if any(name.lower() in named for name in model.parameters):
            code = FailureCode.PARAMETER  # one that the user has set: no request can succeed
    advice = _advice(code, response, model, service)
    overloaded = code in (FailureCode.RATE_LIMIT, FailureCode.OVERLOADED)
    raise ProviderError(
        code,
        _message(response, model, advice),
        fatal=code in _FATAL,
        retryable=code not in _PRECEDENCE,
        overloaded=overloaded,
        retry_after_s=response.retry_after_s if code not in _PRECEDENCE else None,
    )


def _meaning(response: ErrorResponse, service: Service) -> FailureCode:
    """Return what codes, message and status mean; if they differ, the first meaning in `_PRECEDENCE`."""
    status = response.status
    by_status = _BY_STATUS.get(status, FailureCode.BAD_REQUEST if status < 500 else FailureCode.SERVER_ERROR)
    if status == 402 and response.retry_after_s is not None:
        by_status = FailureCode.RATE_LIMIT  # no credit for the moment
    codes = {**COMMON_CODES, **service.error_codes}
    found = {codes[code] for code in response.codes if code in codes}
    phrases = [*COMMON_PHRASES.items(), *((code, re.compile(text)) for code, text in service.error_phrases.items())]
    found |= {code for code, pattern in phrases if _phrase_applies(code, response) and pattern.search(response.text)}
    if response.has_status and (not 400 <= status < 500 or status == 429):
        found -= {FailureCode.REFUSAL, FailureCode.NO_ACCESS, FailureCode.NO_CHAT}
    if response.parameter == "stop":
        found -= {FailureCode.PARAMETER}  # some requests have no stop sequences
    return next((code for code in _PRECEDENCE if code in found or code == by_status), by_status)


def _phrase_applies(code: FailureCode, response: ErrorResponse) -> bool:
    """Return True if a phrase counts at this status: messages of other errors may contain it by chance."""
    status = response.status if response.has_status else 400
    if code in (FailureCode.UNKNOWN_MODEL, FailureCode.KEY, FailureCode.PARAMETER):
        return status == 400
    if code == FailureCode.REFUSAL:
        return status in (400, 403, 422, 451)
    if code == FailureCode.NO_QUOTA:  # "20 per minute or 200 per day" may be either; a short wait is worth it
        is_short = re.search(r"per[- ]?(?:minute|second)|/ ?(?:min|s)\b", response.text)
        waits = response.retry_after_s is not None and response.retry_after_s <= SHORT_WAIT_S
        return status in (400, 402, 403, 429) and not is_short and not waits
    return code != FailureCode.CONTEXT_LENGTH or status != 429


def _unsupported(response: ErrorResponse, optional: Collection[OptionalParameter]) -> OptionalParameter | None:
    """Return the optional parameter that the server does not support; None if the error is about something else."""
    if response.status in {400, 403, 404, 422, 500, 501} or not response.has_status:  # 403: Bedrock, on caches
        says_so = _UNSUPPORTED.search(response.text) or any(
            COMMON_CODES.get(code) == FailureCode.PARAMETER or "extra_forbidden" in code for code in response.codes
        )
        for parameter, names in _PARAMETER_NAMES.items():
            is_field = response.parameter == parameter
            is_sure = parameter == OptionalParameter.SMALL_LIMIT or (is_field and parameter in _ONLY_WHOLE)
            is_named = is_field or names.search(response.text)
            if parameter in optional and is_named and (says_so or is_sure):
                return parameter
    is_about_schema = response.is_about_schema and OptionalParameter.SCHEMA in optional
    return OptionalParameter.SCHEMA if is_about_schema else None


_ADVICE = {
    FailureCode.UNKNOWN_MODEL: (
        "Is `{model.remote_name}` the server's name for it, and {model.base_url} the right address?"
    ),
    FailureCode.KEY: "Check {model.key_variable}.",
    FailureCode.NO_ACCESS: (
        "The key works, but not for this model, project or location: change that in the service's console, or name "
        "another model."
    ),
    FailureCode.NO_CHAT: (
        "It does not support chat completions: name another model, or start its server with a chat template "
        "(vLLM: --chat-template)."
    ),
    FailureCode.NO_QUOTA: (
        "The account has no credit left, or has reached a quota or spending limit: add credit or raise the limit, then "
        "repeat the command, which continues from here."
    ),
    FailureCode.PARAMETER: (
        "Set `reasoning`, `reasoning_effort` or `parameters` for it in models.yaml; null leaves a parameter out."
    ),
}
"""Code -> what to do, for services without advice of their own."""


def _advice(code: FailureCode, response: ErrorResponse, model: Model, service: Service) -> str:
    """Return what to do about an error, as a sentence; "" if the server's message is all there is to say."""
    if code == FailureCode.KEY and response.message.startswith(WEB_PAGE):
        key = f", or {model.key_variable} is wrong" if model.key_variable else ""
        return f"APIs do not send web pages: a firewall, proxy or login page in between may block the request{key}."
    if code == FailureCode.KEY and not model.key_variable:
        return "The server requires a key: set MEDHELM_API_KEY, or name its variable under `key` in models.yaml."
    if response.status == 407:
        return "A proxy requires a login: name it with --proxy, and set MEDHELM_PROXY_LOGIN to `user:password`."
    if code == FailureCode.CONTEXT_LENGTH and not model.window and not re.search(r"\d", response.message):
        return "Set its `window` in models.yaml: longer prompts are then shortened or left out."
    advice = {**_ADVICE, **service.advice}.get(code, "").format(model=model)
    if code == FailureCode.UNKNOWN_MODEL and service.lists_models:
        version = " Most end in /v1." if model.provider == "openai" and "/v1" not in model.base_url else ""
        return f"{advice}{version} {CHECK_LISTS}"
    return advice


def _message(response: ErrorResponse, model: Model, advice: str = "") -> str:
    """Return the status, the server's message and the advice."""
    said = response.message
    if said and not said.endswith((".", "!", "?")):
        said += "."
    said = f": {said}" if said else "."
    return f"{model.name}: the server answered {response.status}{said} {advice}".rstrip()
