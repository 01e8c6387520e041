"""Models, requests to them, and their completions."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from medhelm.domain.benchmark import Instance, Prompt
from medhelm.domain.text import listed, plural, reported_name

Boundary = Literal["data", "provider", "judge", "metric", "budget", "interrupt"]
"""Stage at which a failure happened."""


REASONING_TOKENS = 4000
"""Limit on hidden reasoning and completion together, for models with hidden reasoning."""


UNSAMPLED = ("baseline", "replay")
"""Providers without sampling, or whose sampling is not known."""


POOL = "pool:"
"""`Model.base_url` of a model that is served by a pool of servers, whatever their addresses."""


_OWN_TEMPERATURE = re.compile(r"(?:.*[/.])?(?:o\d+(?:$|-)|codex-mini|gpt-(?:[5-9]|1\d)(?!\d))|.*claude", re.IGNORECASE)
"""Models that reason at a temperature of their own: OpenAI's since o1, and Claude."""

_OWN_HOSTS = re.compile(r"https://(?:.*\.)?api\.(?:openai|anthropic)\.com(?:[:/]|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Price of a model in US dollars per million tokens."""

    input: float
    """Per million input tokens that were not cached by the provider."""
    output: float
    """Per million output tokens, hidden reasoning included."""
    cached_input: float | None = None
    """Per million input tokens the provider had cached; None: as `input`."""
    cache_write: float | None = None
    """Per million input tokens that the provider writes into its cache; None: as `input`."""
    source: str = ""
    """Source of the price, and its date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model, its provider and its settings."""

    name: str
    """Name in commands and tables, such as `openai/gpt-4o` or `openai/NAME@http://127.0.0.1:8000/v1`."""
    provider: str
    """Provider that serves it: a key of `models.providers.SERVICES`."""
    remote_name: str
    """Name of the model at the provider."""
    base_url: str = ""
    """URL of the service, up to and including its version part; `POOL` for several identical servers; empty for models
    that need no network."""
    key_variable: str = ""
    """Environment variable that holds the API key; empty if none is needed."""
    reasoning: bool = False
    """True if it spends hidden tokens on reasoning, so that other limits and parameters apply."""
    reasoning_effort: str = ""
    """Reasoning effort to request; empty: the provider's default."""
    window: int | None = None
    """Context window: tokens of prompt and completion together; None if unknown."""
    max_tokens: int | None = None
    """Limit on completions that overrides the benchmark's; None: the benchmark's (4000 with hidden reasoning)."""
    max_concurrency: int | None = None
    """Maximum number of concurrent requests to its endpoint; None: the run's limit."""
    price: Price | None = None
    """Price; None if unknown, which never counts as free."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Further request parameters, sent unchanged."""
    reasoning_tags: tuple[tuple[str, str], ...] = ()
    """Pairs of start and end of the reasoning in its completions, besides the known ones; not part of any digest."""
    structured: bool = True
    """True if its server supports completions that follow a JSON schema."""
    scope: str = ""
    """Name that keeps its completions apart from those of other names for the same model; empty: shared by all."""
    proxy: str = ""
    """Address of the proxy for requests to it, or `direct`; empty: the proxy of the command, if it has one."""
    ca_file: str = ""
    """File with the only certificate authorities to accept for it; empty: those that this machine trusts."""
    client_certificate: str = ""
    """File with the certificate to identify with; empty: none."""
    client_key: str = ""
    """File with the key of that certificate; empty: it is in the same file."""
    replicas: tuple[str, ...] = ()
    """Addresses of the servers of a pool, as known at the start; `base_url` is then `POOL`. Neither they nor the
    file below are part of any digest: a server can be added without requesting completions again."""
    endpoints_file: str = ""
    """File that lists the addresses of a pool, read again when it changes; empty: the pool does not change."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """URLs of its service: one, those of the servers of a pool, or none for models that need no network."""
        return self.replicas or ((self.base_url,) if self.base_url else ())

    @property
    def takes_temperature(self) -> bool:
        """True unless it reasons and its service is known to refuse a sampling temperature then.

        That is so at OpenAI, Azure and Anthropic, and for their models anywhere. Others are sent one, as by HELM.
        """
        is_own = self.provider in ("azure", "anthropic") or _OWN_HOSTS.match(self.base_url)
        return not self.reasoning or not (is_own or _OWN_TEMPERATURE.match(self.remote_name))

    @property
    def digest(self) -> str:
        """Hash of everything that determines the model, equal for all names of one model."""
        identity = [self.provider, self.base_url, self.remote_name, self.reasoning, self.reasoning_effort]
        return hashlib.sha256(json.dumps([identity, sorted(self.parameters.items())]).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to a model. Equal requests have equal digests."""

    model: Model
    """Model to send it to."""
    prompt: Prompt
    """Prompt to send."""
    max_tokens: int
    """Limit on the completion."""
    temperature: float = 0.0
    """Sampling temperature; not sent unless the model `takes_temperature`."""
    stop: tuple[str, ...] = ()
    """Sequences that end the completion."""
    sample: int = 0
    """Number of the completion among several for the same prompt, from 0."""
    schema: Mapping[str, Any] | None = None
    """JSON schema that the completion must follow, enforced for `structured` models; None: free text."""
    benchmark: str = ""
    """Name of the benchmark, for providers that need no network; not part of the digest."""
    instance: Instance | None = None
    """Instance behind the prompt, for the same providers; not part of the digest."""
    shared_characters: int = 0
    """Length of the prefix, over all messages, that concurrent requests share, if the provider's prompt cache makes it
    cheaper; not part of the digest."""
    fresh: str = ""
    """Start of the fresh run that it belongs to, ISO 8601; empty: a completion of any age will do."""
    logprobs: bool = False
    """True to ask for the log-probabilities of tokens, which some servers give; such requests have other digests."""
    _hashes: dict[tuple[str, ...], bytes] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Hashes that were computed."""

    @property
    def shared_prefix(self) -> str:
        """Text of the shared prefix."""
        return "".join(message.text for message in self.prompt.messages)[: self.shared_characters]

    @property
    def digest(self) -> bytes:
        """32-byte key of its completion in the cache: the content digest, unless scope or fresh run set it apart."""
        if not self.model.scope and not self.fresh:
            return self.content_digest
        return hashlib.sha256(json.dumps([self.content_digest.hex(), self.model.scope, self.fresh]).encode()).digest()

    @property
    def content_digest(self) -> bytes:
        """32-byte hash of the model and the content sent, equal for all names of one model."""
        return self._hash("temperature") if self._reasons_at_temperature else self._hash()

    @property
    def earlier_digest(self) -> bytes:
        """Content digest before version 0.3, if it was another one: models that reason were sent no temperature."""
        return self._hash() if self._reasons_at_temperature else b""

    @property
    def _reasons_at_temperature(self) -> bool:
        """True for a model that reasons and is sent a temperature; in this process it always had one."""
        return self.model.reasoning and self.model.takes_temperature and self.model.provider != "hf"

    def _hash(self, *marks: str) -> bytes:
        """Return the hash of the content, and of these marks."""
        if (known := self._hashes.get(marks)) is None:
            known = self._hashes[marks] = self._compute_hash(*marks)
        return known

    def _compute_hash(self, *marks: str) -> bytes:
        model = self.model
        identity = [
            [model.provider, model.base_url, model.remote_name, model.reasoning, model.reasoning_effort],
            sorted(model.parameters.items()),
            [[message.role, message.text] for message in self.prompt.messages],
            [self.max_tokens, self.temperature, list(self.stop), self.sample],
        ]
        if self.schema is not None and model.structured:
            identity.append([self.schema])
        if self.logprobs:
            identity.append(["logprobs"])
        identity += [[mark] for mark in marks]
        return hashlib.sha256(json.dumps(identity, ensure_ascii=True).encode()).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of one request, or of many."""

    input: int = 0
    """Input tokens, `cached_input` and `cache_write` included."""
    cached_input: int = 0
    """Input tokens that the provider had in its cache."""
    output: int = 0
    """Output tokens, `reasoning` included."""
    reasoning: int = 0
    """Hidden output tokens."""
    cache_write: int = 0
    """Input tokens that the provider reports to have written into its cache."""

    def __add__(self, other: Usage) -> Usage:
        """Return the sum of both."""
        return Usage(
            input=self.input + other.input,
            cached_input=self.cached_input + other.cached_input,
            output=self.output + other.output,
            reasoning=self.reasoning + other.reasoning,
            cache_write=self.cache_write + other.cache_write,
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason for a missing result. A failure is missing data, never a score."""

    boundary: Boundary
    """Stage at which it happened."""
    code: str
    """A `FailureCode` such as `refusal`, or a code of a plug-in, another harness or an older version."""
    message: str
    """Description for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A text or a failure, never both. An empty text is a completion, not a failure.

    What servers report beside it, such as their model, is kept if it is a name, and as a hash otherwise: these fields
    are part of results that hold no text.
    """

    text: str | None = None
    """The text; None if and only if `failure` is set."""
    failure: Failure | None = None
    """Reason for the missing text."""
    finish_reason: str = ""
    """Reason why the model stopped: `stop`, `length`, or the provider's own code."""
    usage: Usage = Usage()
    """Tokens as counted by the provider."""
    latency_s: float = 0.0
    """Seconds from sending the request to the end of the response, without waits and retries."""
    reported_model: str = ""
    """Name of the model in the response, which may include a version."""
    fingerprint: str = ""
    """System fingerprint in the response; empty if there is none."""
    refused_parameters: tuple[str, ...] = ()
    """Request parameters that the server refused and that were therefore left out, such as `seed`."""
    batched: bool = False
    """True if it came through a batch API, at a reduced price."""
    received: float | None = field(default=None, compare=False)
    """Time of arrival in seconds since 1970, UTC; None if unknown, or computed in this process."""
    reasoning: str = field(default="", compare=False, repr=False)
    """Its reasoning, kept apart from the text: never scored, never sent to judges; empty if there is none."""
    token_logprobs: str = field(default="", compare=False, repr=False)
    """Log-probabilities of its tokens as JSON, see `domain.token_logprobs`; empty if the server gave none."""

    def __post_init__(self) -> None:
        """Replace what is no name."""
        for name in ("finish_reason", "reported_model", "fingerprint"):
            given = getattr(self, name)
            if given and (kept := reported_name(given)) is not given:
                object.__setattr__(self, name, kept)

    @property
    def is_metered(self) -> bool:
        """True if the service reported tokens; a completion without a text needs none."""
        return self.text is None or self.usage.input > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCheck:
    """Result of checking a model."""

    model: Model
    """The model."""
    answer: Completion
    """The completion, or why there is none."""
    asked: bool = True
    """True if a request was sent; providers within this process need none."""
    structured: bool | None = None
    """True if it followed a JSON schema; None if there was no schema, or no completion."""
    logprobs: bool | None = None
    """True if its server returns log-probabilities of tokens; None if not checked."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Optional parameter that its server does not support -> its message; runs omit it as well."""
    names: Sequence[str] = ()
    """The models of its server, if this one is not among them."""
    advice: str = ""
    """Advice about a failure, beyond its message."""


# --- batch ------------------------------------------------------------------------------------------------------------
# Batches: requests that are submitted together to a provider's batch API.


class BatchState(StrEnum):
    """State of a batch, in the order in which it passes through them."""

    INTENDED = "intended"
    """About to be submitted: it is not known whether the service has accepted it."""
    SUBMITTED = "submitted"
    """Accepted by the service; its completions are not in the cache yet."""
    COLLECTED = "collected"
    """Its completions are in the cache; the service still holds its requests and results."""
    DELETED = "deleted"
    """The service holds nothing of it any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Requests to one model that were submitted as one batch job."""

    id: str
    """Id chosen by MedHELM, sent to the service if it accepts one."""
    provider: str
    """Provider that serves the model."""
    base_url: str
    """URL of the service."""
    model: str
    """Name of the model as the user wrote it."""
    remote_name: str
    """Name of the model at the provider."""
    model_digest: str
    """`Model.digest`: equal for all names of one model."""
    role: Literal["model", "judge"]
    """Role of the model in these requests."""
    state: BatchState
    """`intended` before the service has confirmed it, `submitted` until its completions are in the cache, `collected`
    until its requests and completions are deleted at the service, and `deleted` after that."""
    created: float
    """Creation time in seconds since 1970, UTC."""
    n: int
    """Number of requests."""
    digests: tuple[str, ...] = ()
    """Digests of the requests in hex, which are also their ids at the service; empty once collected."""
    has_stop_sequences: bool = False
    """True if any of them has stop sequences."""
    remote_id: str = ""
    """Id at the service; empty while unknown."""
    unanswered: tuple[str, ...] = ()
    """Digests of requests that came back without a completion and are sent directly from then on."""
    refused_parameters: Mapping[str, str] = field(default_factory=dict)
    """Request parameter that the service refused in this batch -> its message."""

    @property
    def is_pending(self) -> bool:
        """Return True if the service may be working on it, or has completions not yet collected."""
        return self.state in (BatchState.INTENDED, BatchState.SUBMITTED)

    @property
    def reminder(self) -> str:
        """Note for a run that sends the same requests without waiting for the batch."""
        return (
            f"{self.model}: {self.n} requests are pending in batch {self.remote_id or self.id} and are sent again now; "
            "--batch collects them instead"
        )


# --- failure code -----------------------------------------------------------------------------------------------------
# Failure codes of requests without a completion, and of judges' replies without a judgment.


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


# --- reasoning --------------------------------------------------------------------------------------------------------
# Separate the reasoning that a model writes into its text from its answer.
#
# Servers with a reasoning parser return the reasoning in a field of its own. Others leave it in the text, between the
# markers of the model. Reasoning is not the answer: it is not scored, judged, rated or shown.
#
# A marker in quotation marks or backticks is a mention. So is a block inside a line of a text that is otherwise no
# reasoning, as in "Use <think> tags </think> sparingly."


class _Marker(NamedTuple):
    """Start and end of reasoning, as regular expressions."""

    start: str
    end: str
    may_be_headless: bool = True
    """True if an end without a start shows that the prompt has opened it; False for words that other texts have."""


_NAMES = r"(?:seed:|mm:|ant|longcat_)?(?:think|thinking|thoughts?|reasoning|scratchpad|inner_monologue)"
_HEADER = r"[^<\n]{0,80}(?:<\|[a-z]+\|>[^<\n]{0,40})?<\|message\|>"

_MARKERS = (
    # <think> of DeepSeek R1, Qwen, GLM, Nemotron, MiniMax and most others; <thought> of EXAONE and Marco-o1; Seed-OSS
    # <seed:think>; LongCat <longcat_think>; <antThinking> of Claude
    _Marker(rf"<\s?{_NAMES}>", rf"<\s?/\s?{_NAMES}>"),
    _Marker(r"<unused94>(?:thought\b)?", r"<unused95>"),  # MedGemma 1.5
    _Marker(r"<\|channel>\s?thought\b", r"<channel\|>"),  # Gemma 4
    # gpt-oss ("harmony"): every channel but `final`, also where the server has removed the special tokens
    _Marker(
        rf"(?:<\|start\|>assistant)?<\|channel\|>\s?(?:analysis|commentary)\b{_HEADER}|\A(?-i:analysis(?=[A-Z]))",
        rf"(?:<\|end\|>\s?)?(?:<\|start\|>)?(?:assistant)?<\|channel\|>\s?final\b{_HEADER}|(?-i:assistantfinal)",
    ),
    _Marker(r"\[THINK\]", r"\[/THINK\]"),  # Magistral
    _Marker(r"◁think▷", r"◁/think▷"),  # Kimi-VL
    _Marker(r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),  # Sky-T1, OpenThinker
    _Marker(r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),  # Command A Reasoning
    _Marker(r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),  # Apertus
    _Marker(
        r"<\|(?:think|thinking|thought)\|>",  # Solar, and others of this form
        r"<\|(?:/|end_?)(?:think|thinking|thought)\|>|<\|end\|>(?=\s?<\|begin\|>)",
    ),
    _Marker(r"<start_working_out>", r"<end_working_out>"),
)
"""Sources: the chat templates and model cards of these models. Each begins with one of the characters `_FIRST`."""

_HEADINGS = (
    _Marker(r"\A\s{0,9}#{1,4} Thinking\s{0,3}\n", r"^#{1,4} Final Response[ :]{0,3}$", False),  # HuatuoGPT-o1
    _Marker(r"\A\s{0,9}Here is my thought process:", r"^\s{0,9}Here is my response:", False),  # Granite 3.2
)
"""Headings and sentences at the beginning of a text."""

_FIRST = r"<\[◁a"

_WRAPPERS = (
    r"<\|(?:return|end|call|(?:begin|end)_of_solution|(?:START|END)_(?:RESPONSE|TEXT)|begin\|>assistant<\|content)\|>"
    r"|</?(?:output|response)>|<(?:start|end)_of_turn>"
)
"""Markers around the answer of the same models; removed only beside reasoning."""

_ENDS_OF_NAMES = ("think", "thinking", "thought", "thoughts", "reasoning", "scratchpad", "inner_monologue")
_HEADING_HINTS = ("# thinking", "here is my thought process:")
_HINTS = (
    *(f"{name}{end}" for name in _ENDS_OF_NAMES for end in (">", "|>")), "<unused94>", "<unused95>", "<|channel",
    "channel|>", "[think]", "[/think]", "◁", "<|inner_", "working_out>", "assistantfinal", "<|end|>", *_HEADING_HINTS,
)  # fmt: skip
"""Texts without any of these, in lower case, have no marker, except for the first word of gpt-oss."""

_SIGNS = ("<", "[", "◁", "#", "analysis", "assistantfinal", "ere is my thought process:")
"""Texts without any of these have no marker."""

_NEAR = 200
"""Characters beside a block that are looked at."""

_QUOTES = "`\"'“”‘’"

Tags = Sequence[tuple[str, str]]
"""Further pairs of start and end, as plain text."""


class SplitText(NamedTuple):
    """A text of a model, in two parts."""

    reasoning: str
    """Its reasoning, without markers; empty if it has none."""
    answer: str
    """The rest."""


def split_reasoning(text: str, tags: Tags = (), *, start_only: bool = False) -> SplitText:
    r"""Split a model's text into reasoning and answer.

    An end without a start makes everything before it reasoning: the prompt has opened it. Reasoning that does not end
    was cut off, so no answer follows it. Blank space between reasoning and answer is removed.

    Parameters
    ----------
    tags : pairs of start and end that a model uses besides the known ones
    start_only : only reasoning at the very beginning counts, and needs its start: the text may quote another one, as
        the reply of a judge does

    >>> split_reasoning("<think>A or B?</think>\n\nB")
    SplitText(reasoning='A or B?', answer='B')
    >>> split_reasoning("Blood gas analysis: B")
    SplitText(reasoning='', answer='Blood gas analysis: B')
    """
    if not tags and not any(sign in text for sign in _SIGNS):
        return SplitText("", text)
    lower = text.lower()
    if not tags and not text.startswith("analysis") and not any(hint in lower for hint in _HINTS):
        return SplitText("", text)
    pattern = _pattern(tuple(map(tuple, tags)), any(hint in lower for hint in _HEADING_HINTS))
    thoughts, kept = (_leading if start_only else _blocks)(text, pattern)
    if not thoughts:
        return SplitText("", text)
    return SplitText("\n".join(thoughts).strip(), re.sub(_WRAPPERS, "", "".join(kept)).lstrip())


@lru_cache(maxsize=4)  # several metrics and counters look at a text one after another
def strip_reasoning(completion: str) -> str:
    """Return a completion without the reasoning that some models write into it (`split_reasoning`).

    >>> strip_reasoning("<think>A or B?</think>B")
    'B'
    """
    return split_reasoning(completion).answer


def is_marker(text: str) -> bool:
    """Return True if a text is a known start or end of reasoning.

    >>> is_marker("[THINK]"), is_marker("</s>")
    (True, False)
    """
    return _pattern(()).fullmatch(text) is not None


@lru_cache(maxsize=64)
def _pattern(tags: tuple[tuple[str, ...], ...], has_headings: bool = False) -> re.Pattern[str]:
    """Return one expression for all markers: group `s0` is the first start, `e0` its end (`f0` if it needs a start)."""
    own = [_Marker(re.escape(start), re.escape(end)) for start, end in tags]
    first = _FIRST + "".join(re.escape(text[0]) for pair in tags for text in pair)
    found = []
    for n, marker in enumerate([*own, *_MARKERS, *(_HEADINGS if has_headings else ())]):
        end = "e" if marker.may_be_headless else "f"
        found.append(f"(?P<s{n}>{marker.start})|(?P<{end}{n}>{marker.end})")
    near = r"\s#h" if has_headings else ""
    return re.compile(f"(?=[{first}{near}])(?:{'|'.join(found)})", re.IGNORECASE | re.MULTILINE)


def _leading(text: str, pattern: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """Return the reasoning at the beginning of a text, and the rest."""
    thoughts: list[str] = []
    position, is_open = 0, ""
    for mark in pattern.finditer(text):
        kind, family = mark.lastgroup[0], mark.lastgroup[1:]  # type: ignore[index]
        if not is_open:
            if kind != "s" or text[position : mark.start()].strip():
                break
            is_open, position = family, mark.end()
        elif kind != "s" and family == is_open:
            thoughts.append(text[position : mark.start()] or " ")
            is_open, position = "", mark.end()
    if is_open:
        return [*thoughts, text[position:] or " "], []
    return thoughts, [text[position:]]


def _blocks(text: str, pattern: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """Return all reasoning in a text, and everything else."""
    thoughts: list[str] = []
    kept: list[str] = []
    position, start, is_open = 0, 0, ""
    for mark in pattern.finditer(text):
        kind, family = mark.lastgroup[0], mark.lastgroup[1:]  # type: ignore[index]
        if _is_mention(mark):
            continue
        if kind == "s":
            if not is_open:
                kept.append(text[position : mark.start()])
                start, position, is_open = mark.start(), mark.end(), family
        elif not is_open and kind == "e":
            thoughts.append("".join([*kept, text[position : mark.start()]]) or " ")
            kept, position = [], mark.end()
        elif family == is_open:
            if not thoughts and _is_inside_line(text, start, mark.end()):
                kept.append(text[start : mark.end()])
            else:
                thoughts.append(text[position : mark.start()] or " ")
                if kept and not text[max(0, start - 1)].isspace():
                    kept.append("\n")
            position, is_open = mark.end(), ""
    if is_open:
        return [*thoughts, text[position:] or " "], kept
    return thoughts, [*kept, text[position:]]


def _is_mention(mark: re.Match[str]) -> bool:
    """Return True if a marker is in quotation marks."""
    before, after = mark.string[mark.start() - 1 : mark.start()], mark.string[mark.end() : mark.end() + 1]
    return bool(before and after) and before in _QUOTES and after in _QUOTES


def _is_inside_line(text: str, start: int, end: int) -> bool:
    """Return True if a block lies within one line, with words on both sides."""
    before, after = text[max(0, start - _NEAR) : start], text[end : end + _NEAR]
    words = before.rpartition("\n")[2].strip() and after.partition("\n")[0].strip()
    return "\n" not in text[start:end] and bool(words)
