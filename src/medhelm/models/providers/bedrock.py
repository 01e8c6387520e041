"""AWS Bedrock's Converse operation, one request format for the models of many vendors, and AWS's signature.

Fields, stop reasons and errors follow the service's own definition (bedrock-runtime, 2023-09-30, in botocore 1.44.5);
counts of cached tokens follow AWS's guide to prompt caching.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from medhelm.domain import Completion, FailureCode, Model, Request, Usage
from medhelm.models.provider import Environment, OptionalParameter, Provider, ProviderContext, Service, Setting
from medhelm.models.providers.errors import (
    STOP_REASONS,
    completion_of,
    count,
    interrupted,
    length_of,
    mapping,
    no_completion,
    objects,
    texts_in,
    word,
)
from medhelm.models.providers.hosted import (
    Dialect,
    HttpProvider,
    add_parameters,
    common_optional_parameters,
    reasoning_in,
    split_at_shared,
)

USUAL_REGION = "us-east-1"
"""Region for signatures of requests to a gateway, if neither its address nor the environment names one."""

_HOST = re.compile(r"(?:.+\.)?bedrock-runtime(?:-fips)?\.(?P<region>[a-z0-9-]+)\..+")
_SETTINGS = "outputConfig"
_MARK = "cachePoint"
_SAMPLING = {"maxTokens", "temperature", "topP", "stopSequences"}
"""Parameters that go into `inferenceConfig`."""

_BESIDE = {
    "additionalModelRequestFields",
    "additionalModelResponseFieldPaths",
    "guardrailConfig",
    "performanceConfig",
    "promptVariables",
    "requestMetadata",
    "serviceTier",
    "toolConfig",
    _SETTINGS,
}
"""Parameters of Converse; all others are the model's own and go into `additionalModelRequestFields`."""

_REFUSED = {"guardrail_intervened", "content_filtered"}
_INTERRUPTED = {"malformed_model_output", "malformed_tool_use"}


class Bedrock(Dialect):
    """`POST /model/ID/converse`, signed with credentials, or with an API key of Bedrock."""

    def __init__(
        self,
        model: Model,
        *,
        key: str = "",
        credentials: Credentials | None = None,
        region: str = "",
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """An API `key` is sent; otherwise `credentials`, if any, sign each request.

        `region`: the environment's, for addresses that do not name one. `now`: replaced in tests.
        """
        self.url = f"{model.base_url}/model/{quote(model.remote_name, safe='')}/converse"
        found = _HOST.fullmatch(urlsplit(model.base_url).hostname or "")
        self.region = found["region"] if found else region or USUAL_REGION
        self.secrets = (key, credentials.secret, credentials.session_token) if credentials else (key,)
        self._key, self._credentials, self._now = key, credentials, now

    def headers(self, body: bytes | None) -> Mapping[str, str]:
        """Return the API key, or a signature over `body`."""
        if self._key:
            return {"Authorization": f"Bearer {self._key}"}
        if self._credentials is None:
            return {}
        return signed_headers(
            "POST",
            self.url,
            body or b"",
            credentials=self._credentials,
            region=self.region,
            service="bedrock",
            moment=self._now(),
        )

    def optional_parameters(self, request: Request) -> frozenset[OptionalParameter]:
        """Return the parameters that can be left out: some models do not support them."""
        return common_optional_parameters(
            request, schema_fields=(_SETTINGS,), stop_if_reasoning=True, cache_field=_MARK
        )

    def payload(self, request: Request, optional: Collection[OptionalParameter]) -> dict[str, Any]:
        """Return the JSON body; the model's own parameters go where Converse expects them."""
        model = request.model
        settings: dict[str, Any] = {"maxTokens": request.max_tokens}
        if OptionalParameter.TEMPERATURE in optional:
            settings["temperature"] = request.temperature
        if OptionalParameter.STOP in optional and (stops := [stop for stop in request.stop if stop.strip()]):
            settings["stopSequences"] = stops
        output: dict[str, Any] = {}
        if OptionalParameter.SCHEMA in optional:
            schema = {"name": "reply", "schema": json.dumps(request.schema)}
            output["textFormat"] = {"type": "json_schema", "structure": {"jsonSchema": schema}}
        if model.reasoning_effort:
            output["effort"] = model.reasoning_effort
        if output:
            settings[_SETTINGS] = output
        add_parameters(settings, request)
        messages = list(
            zip(request.prompt.messages, _contents(request, OptionalParameter.CACHE in optional), strict=True)
        )
        body: dict[str, Any] = {
            "messages": [{"role": m.role, "content": content} for m, content in messages if m.role != "system"],
            "inferenceConfig": {name: settings.pop(name) for name in list(settings) if name in _SAMPLING},
            **{name: settings.pop(name) for name in list(settings) if name in _BESIDE},
        }
        if system := [block for m, content in messages if m.role == "system" for block in content]:
            body["system"] = system
        if settings:
            name = "additionalModelRequestFields"
            body[name] = {**mapping(body.get(name)), **settings}
        return body

    def error_in(self, document: Mapping[str, Any]) -> object:
        """Return an error that a gateway passed on as a success."""
        return document if document.get("error") or document.get("__type") else None

    def usage_in(self, document: Mapping[str, Any]) -> Usage:
        """Read the token counts.

        Most models count cached tokens beside `inputTokens`, some inside it; the total includes them in both cases.
        """
        counts = mapping(document.get("usage"))
        cached, written = count(counts.get("cacheReadInputTokens")), count(counts.get("outputTokens"))
        uncached = count(counts.get("inputTokens"))
        stored = count(counts.get("cacheWriteInputTokens"))
        total = count(counts.get("totalTokens")) or uncached + cached + stored + written
        spent = max(total - written, uncached)
        cached = min(cached, spent)
        return Usage(input=spent, cached_input=cached, cache_write=min(stored, spent - cached), output=written)

    def read(self, document: Mapping[str, Any], request: Request) -> Completion:
        """Join the text blocks; reasoning is left out. A reply without any block is an empty completion.

        Raises: ProviderError, retryable: `interrupted` if the model stopped early, `empty_choice` without a message.
        """
        stopped = word(document.get("stopReason"))
        if stopped in _INTERRUPTED:
            raise interrupted(stopped)
        message = mapping(document.get("output")).get("message")
        if not isinstance(message, Mapping) and stopped not in _REFUSED:
            raise no_completion()
        blocks = objects(mapping(message).get("content"))
        texts = texts_in(block for block in blocks if "text" in block)
        return completion_of(
            text="".join(texts),
            finish_reason=STOP_REASONS.get(stopped, stopped),
            usage=self.usage_in(document),
            reported_model="",  # Converse does not report it
            refused=f"the provider's filter ended the completion ({stopped})" if stopped in _REFUSED else "",
            hidden_characters=sum(length_of(block.get("reasoningContent")) for block in blocks),
            reasoning=reasoning_in([block.get("reasoningContent") for block in blocks]),
            reasons=request.model.reasoning,
        )


def _contents(request: Request, marked: bool) -> list[list[dict[str, Any]]]:
    """Return the blocks of each message; if `marked`, with a cache point after the shared text."""
    contents: list[list[dict[str, Any]]] = [[{"text": message.text}] for message in request.prompt.messages]
    number, opening, rest = split_at_shared(request.prompt.messages, request.shared_characters if marked else 0)
    if number >= 0:
        contents[number] = [{"text": opening}, {_MARK: {"type": "default"}}, *([{"text": rest}] if rest else [])]
    return contents


SESSION_TOKEN = "AWS_SESSION_TOKEN"  # noqa: S105 - the name of a variable
"""Variable that goes with a temporary key."""

_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_REGION = re.compile(r"[a-z0-9-]+")


def aws_region(environment: Environment) -> str:
    """Return the region that AWS's own tools would use; "" if none is set."""
    return next((region for name in _REGIONS if (region := environment.get(name, "").strip())), "")


def bedrock_address(written: str, remote_name: str, environment: Environment) -> str:  # noqa: ARG001 - see Service
    """Return the address of Bedrock's runtime: what was written, without the operation, or that of the region.

    Raises: ValueError if neither is given.

    >>> bedrock_address("https://b.org/x/model/m/converse", "m", {})
    'https://b.org/x'
    >>> bedrock_address("", "m", {"AWS_REGION": "eu-west-3"})
    'https://bedrock-runtime.eu-west-3.amazonaws.com'
    """
    if written:
        return re.sub(r"/model(/[^/]+(/[a-z-]+)?)?$", "", written)
    region = aws_region(environment)
    if not region:
        raise ValueError("set AWS_REGION to the region whose models you use, such as us-east-1.")
    if not _REGION.fullmatch(region):
        raise ValueError("AWS_REGION is not a region such as us-east-1.")
    return f"https://bedrock-runtime.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"


def _open(model: Model, context: ProviderContext) -> Provider:
    """Sign requests with a key and its secret; send any other key as it is."""
    key, region = context.value_of(model.key_variable), aws_region(context.environment)
    secret_variable = SERVICE.key_pairs.get(model.key_variable)
    if not secret_variable:
        return HttpProvider(model, context.http, Bedrock(model, key=key, region=region), SERVICE)
    credentials = Credentials(
        key_id=key, secret=context.value_of(secret_variable), session_token=context.value_of(SESSION_TOKEN)
    )
    return HttpProvider(model, context.http, Bedrock(model, credentials=credentials, region=region), SERVICE)


SERVICE = Service(
    name="bedrock",
    title="Amazon Bedrock",
    open=_open,
    locate=bedrock_address,
    settings=(Setting(_REGIONS, "us-east-1"),),
    hosts=r"(.+\.)?bedrock-runtime(-fips)?\.[a-z0-9-]+\.((vpce\.)?amazonaws\.com(\.cn)?|api\.aws)",
    key_variables=("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID"),
    default_key_variable="AWS_ACCESS_KEY_ID",
    key_pairs={"AWS_ACCESS_KEY_ID": "AWS_SECRET_ACCESS_KEY"},
    key_prefixes={
        "AKIA": "AWS_ACCESS_KEY_ID",
        "ASIA": "AWS_ACCESS_KEY_ID",
        "ABSK": "AWS_BEARER_TOKEN_BEDROCK",
        "bedrock-api-key-": "AWS_BEARER_TOKEN_BEDROCK",
    },
    key_hints={"AWS_ACCESS_KEY_ID": "(Or set AWS_BEARER_TOKEN_BEDROCK to a Bedrock API key.)"},
    examples=("bedrock/global.anthropic.claude-sonnet-4-6", "bedrock/openai.gpt-oss-120b-1:0"),
    error_codes={
        "expiredtokenexception": FailureCode.KEY,
        "unrecognizedclientexception": FailureCode.KEY,
        "invalidsignatureexception": FailureCode.KEY,
        "signaturedoesnotmatch": FailureCode.KEY,
    },
    error_phrases={
        FailureCode.NO_ACCESS: (
            "use[- ]case (?:details have not been submitted|form)"
            "|is not authorized to perform: bedrock|aws-marketplace:"
        ),
        FailureCode.UNKNOWN_MODEL: "model identifier is invalid|on-demand throughput isn.t supported",
        FailureCode.NO_QUOTA: "too many tokens per day",
    },
    advice={
        FailureCode.UNKNOWN_MODEL: (
            "Is `{model.remote_name}` the model's ID, and offered at {model.base_url}? Some models can be requested "
            "only through an inference profile, such as `us.` before the ID."
        ),
        FailureCode.KEY: (
            "Check {model.key_variable}, AWS_REGION and this machine's clock. AWS_ACCESS_KEY_ID also needs "
            "AWS_SECRET_ACCESS_KEY and, for temporary keys, AWS_SESSION_TOKEN; temporary keys expire."
        ),
    },
    lists_models=False,
)


# --- AWS signature ----------------------------------------------------------------------------------------------------
# AWS Signature Version 4: sign a request with a secret that is not sent.
#
# Source: "Create a signed AWS API request" in AWS's Identity and Access Management User Guide.

_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Credentials of an AWS account."""

    key_id: str
    """The public name of the key."""
    secret: str
    """The secret key; never sent."""
    session_token: str = ""
    """Goes with a temporary key; empty for a lasting one."""

    def __repr__(self) -> str:
        """Leave out secrets."""
        return "Credentials(...)"


def signed_headers(
    method: str,
    url: str,
    body: bytes | str,
    *,
    credentials: Credentials,
    region: str,
    service: str,
    moment: datetime,
    headers: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the headers that sign a request: date, session token and `Authorization`, and `headers`.

    Parameters: url, as it is sent, its path percent-encoded once; body, or its SHA-256 in hexadecimal; moment, in UTC;
    headers, further ones to sign. The signature covers all of them and the host, with its port where it is not the
    scheme's own.

    >>> from datetime import UTC
    >>> who = Credentials(key_id="AKIDEXAMPLE", secret="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
    >>> when = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
    >>> signed = signed_headers("GET", "https://example.amazonaws.com/", b"", credentials=who, region="us-east-1",
    ...     service="service", moment=when)
    >>> signed["Authorization"][-64:]
    '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31'
    """
    date = moment.strftime("%Y%m%dT%H%M%SZ")
    digest = body if isinstance(body, str) else hashlib.sha256(body).hexdigest()
    sent = {**(headers or {}), "X-Amz-Date": date}
    path, query = urlsplit(url).path or "/", sorted(parse_qsl(urlsplit(url).query, keep_blank_values=True))
    if service == "s3":
        sent["X-Amz-Content-SHA256"] = digest
    else:  # encoded a second time: what was `%3A` becomes `%253A`
        path = quote(path, safe="/-_.~")
    if credentials.session_token:
        sent["X-Amz-Security-Token"] = credentials.session_token
    covered = {name.lower(): value for name, value in {**sent, "host": _host(url)}.items()}
    names = ";".join(sorted(covered))
    canonical = "\n".join(
        [
            method,
            path,
            "&".join(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in query),
            *(f"{name}:{covered[name]}" for name in sorted(covered)),
            "",
            names,
            digest,
        ]
    )
    scope = f"{date[:8]}/{region}/{service}/aws4_request"
    to_sign = "\n".join([_ALGORITHM, date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{credentials.secret}".encode()
    for step in (date[:8], region, service, "aws4_request"):
        key = hmac.digest(key, step.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    sent["Authorization"] = (
        f"{_ALGORITHM} Credential={credentials.key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return sent


def _host(url: str) -> str:
    """Return the Host header of an address."""
    parts = urlsplit(url)
    usual = {"https": 443, "http": 80}[parts.scheme]
    return parts.netloc.removesuffix(f":{usual}")
