"""Errors that are one vendor's own: what they mean, and the sentence that says what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from medhelm.domain import Completion, Message, Model, Prompt, Request
from medhelm.errors import ProviderError
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.client import Client, ClientResult
from medhelm.models.limits.budget import Budget
from medhelm.models.provider import OptionalParameter as Parameter
from medhelm.models.providers import SERVICES, open_provider
from medhelm.models.providers.errors.classify import classify_error
from medhelm.models.providers.errors.parse import parse_error
from medhelm.models.providers.hosted import HttpProvider
from tests.support.cases import table
from tests.support.servers.openai import Answer, Server
from tests.support.servers.vendors import OPENAI, bedrock_error, google_error, google_quota


def model(provider: str) -> Model:
    variable = {"bedrock": "AWS_ACCESS_KEY_ID", "vertex": "GOOGLE_ACCESS_TOKEN"}.get(provider, "SOME_KEY")
    return Model(
        name=f"{provider}/m", provider=provider, remote_name="m", base_url="https://h.example/v1", key_variable=variable
    )


def judge(provider: str, answer: Answer, optional: Collection[Parameter] = ()) -> Completion | ProviderError:
    """What an error reply comes to."""
    kind = answer.headers.get("x-amzn-ErrorType", "")
    complaint = parse_error(answer.status, answer.body, kind=kind)
    try:
        return classify_error(complaint, model(provider), SERVICES[provider], optional)
    except ProviderError as error:
        return error


def anthropic(status: int, kind: str, message: str, **more: Any) -> Answer:
    return Answer(status=status, body={"type": "error", "error": {"type": kind, "message": message, **more}})


def azure(status: int, code: str, message: str) -> Answer:
    return Answer(status=status, body={"error": {"code": code, "message": message}})


FATAL: list[tuple[str, Answer, str, str]] = [
    (
        "azure",
        azure(403, "AuthenticationTypeDisabled", "Key based authentication is off."),
        "no_access",
        "Azure portal",
    ),
    ("azure", azure(403, "403", "Denied due to Virtual Network/Firewall rules."), "no_access", "network"),
    ("azure", azure(400, "BadRequest", "API version not supported"), "no_access", "AZURE_OPENAI_API_VERSION"),
    ("anthropic", anthropic(402, "billing_error", "There is an issue with billing."), "no_quota", "no credit left"),
    (
        "anthropic",
        anthropic(429, "rate_limit_error", "Limit.", details={"error_code": "contract_spend_limit_reached"}),
        "no_quota",
        "has reached a quota or spending limit",
    ),
    (
        "anthropic",
        anthropic(400, "invalid_request_error", "You have reached your specified API usage limits."),
        "no_quota",
        "has reached a quota or spending limit",
    ),
    ("anthropic", anthropic(403, "permission_error", "Your API key does not have permission."), "key", "SOME_KEY"),
    ("anthropic", anthropic(400, "invalid_request_error", "This organization has been disabled."), "key", "disabled"),
    (
        "anthropic",
        anthropic(400, "invalid_request_error", '"thinking.type.enabled" is not supported for this model.'),
        "parameter",
        "models.yaml",
    ),
    (
        "anthropic",
        anthropic(400, "invalid_request_error", "output_config.effort: Input should be 'low', 'medium' or 'high'"),
        "parameter",
        "`reasoning_effort`",
    ),
    (
        "google",
        google_quota("GenerateRequestsPerDayPerProject", "250", "9s"),
        "no_quota",
        "raise the limit, then repeat the command",
    ),
    ("google", google_quota("PerMinutePerProject-FreeTier", "0", "9s"), "no_quota", "add credit"),
    (
        "google",
        google_error(403, "PERMISSION_DENIED", "Generative Language API has not been used in project 1 before."),
        "no_access",
        "change that in the service's console",
    ),
    (
        "google",
        google_error(400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
        "no_access",
        "not for this model, project or location",
    ),
    (
        "google",
        google_error(400, "INVALID_ARGUMENT", "Budget 0 is invalid. This model only works in thinking mode."),
        "parameter",
        "`reasoning_effort`",
    ),
    (
        "google",
        google_error(
            400, "INVALID_ARGUMENT", "Invalid value at 'generation_config.thinking_config.thinking_level', \"NONE\""
        ),
        "parameter",
        "`reasoning_effort`",
    ),
    (
        "vertex",
        google_error(
            403,
            "PERMISSION_DENIED",
            "Permission 'aiplatform.endpoints.predict' denied on resource '//aiplatform.googleapis.com/projects/p'.",
            {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "IAM_PERMISSION_DENIED"},
        ),
        "no_access",
        "lacks the role Vertex AI User in this project",
    ),
    (
        "vertex",
        google_error(
            403,
            "PERMISSION_DENIED",
            "Vertex AI API is off.",
            {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED"},
        ),
        "no_access",
        "the API is not enabled there",
    ),
    (
        "bedrock",
        bedrock_error(
            404,
            "ResourceNotFoundException",
            "Model use case details have not been submitted for this account. Fill out the use case details form.",
        ),
        "no_access",
        "change that in the service's console",
    ),
    (
        "bedrock",
        bedrock_error(
            400,
            "ValidationException",
            "The model returned the following errors: You have not filled out the required use-case form.",
        ),
        "no_access",
        "change that in the service's console",
    ),
    ("vertex", google_error(401, "UNAUTHENTICATED", "Expired."), "key", "gcloud auth print-access-token"),
    (
        "vertex",
        google_error(403, "PERMISSION_DENIED", "Permission 'x' denied."),
        "key",
        "needs the role Vertex AI User",
    ),
    (
        "bedrock",
        bedrock_error(403, "ExpiredTokenException", "The security token included in the request is expired"),
        "key",
        "AWS_SESSION_TOKEN; temporary keys expire",
    ),
    (
        "bedrock",
        bedrock_error(403, "InvalidSignatureException", "Signature expired: 20261121T1 is now earlier than 20261121T2"),
        "key",
        "this machine's clock",
    ),
    (
        "bedrock",
        bedrock_error(403, "InvalidSignatureException", "The request signature we calculated does not match."),
        "key",
        "AWS_SECRET_ACCESS_KEY",
    ),
    (
        "bedrock",
        bedrock_error(403, "AccessDeniedException", "You don't have access to the model with the specified model ID."),
        "no_access",
        "change that in the service's console",
    ),
    (
        "bedrock",
        bedrock_error(403, "AccessDeniedException", "User: x is not authorized to perform: bedrock:InvokeModel"),
        "no_access",
        "change that in the service's console",
    ),
    (
        "bedrock",
        bedrock_error(
            400,
            "ValidationException",
            "Invocation of model ID m with on-demand throughput isn\u2019t supported. Retry your request with the ID "
            "or ARN of an inference profile that contains this model.",
        ),
        "unknown_model",
        "through an inference profile",
    ),
    (
        "bedrock",
        bedrock_error(404, "ResourceNotFoundException", "This model version has reached the end of its life."),
        "unknown_model",
        "end of its life",
    ),
]

PASSING: list[tuple[str, Answer, str]] = [
    ("anthropic", anthropic(500, "api_error", "Internal server error"), "server_error"),
    ("anthropic", anthropic(504, "timeout_error", "Timed out"), "server_error"),
    ("google", google_error(500, "INTERNAL", "An internal error has occurred."), "server_error"),
    ("google", google_error(504, "DEADLINE_EXCEEDED", "The request timed out."), "server_error"),
    ("bedrock", bedrock_error(408, "ModelTimeoutException", "Too long."), "timeout"),
    ("bedrock", bedrock_error(424, "ModelErrorException", "The model failed."), "server_error"),
    ("bedrock", bedrock_error(429, "ModelNotReadyException", "Not ready."), "rate_limit"),
    ("bedrock", bedrock_error(500, "InternalServerException", "Oh."), "server_error"),
]

OF_ONE_REQUEST: list[tuple[str, Answer, str]] = [
    ("anthropic", anthropic(413, "request_too_large", "Request exceeds the maximum size"), "too_large"),
    (
        "anthropic",
        anthropic(
            400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"
        ),
        "context_length",
    ),
    (
        "anthropic",
        anthropic(400, "invalid_request_error", "max_tokens: 200000 > 64000, which is the maximum allowed"),
        "bad_request",
    ),
    (
        "bedrock",
        bedrock_error(400, "ValidationException", "Malformed input request: 1 schema violation"),
        "bad_request",
    ),
    ("google", google_error(400, "INVALID_ARGUMENT", "Request contains an invalid argument."), "bad_request"),
]


@table(("provider", "answer", "code", "said"), FATAL)
def test_what_no_request_can_escape_says_what_to_do(provider: str, answer: Answer, code: str, said: str) -> None:
    error = judge(provider, answer)
    assert isinstance(error, ProviderError)
    assert (error.code, error.fatal, error.retryable) == (code, True, False)
    assert said in str(error)


@table(("provider", "answer", "code"), PASSING)
def test_what_passes(provider: str, answer: Answer, code: str) -> None:
    error = judge(provider, answer)
    assert isinstance(error, ProviderError)
    assert (error.code, error.fatal, error.retryable) == (code, False, True)


@pytest.mark.parametrize(("provider", "answer", "code"), OF_ONE_REQUEST)
def test_what_is_wrong_with_one_request(provider: str, answer: Answer, code: str) -> None:
    error = judge(provider, answer)
    assert isinstance(error, ProviderError)
    assert (error.code, error.fatal, error.retryable) == (code, False, False)


@pytest.mark.parametrize(
    ("delay", "header", "seconds"),
    [("38.5s", None, 38.5), ("7s", None, 7.0), ("7s", 3.0, 3.0), ("soon", None, None), ("-1s", None, None)],
)
def test_googles_delay_is_obeyed_where_no_header_says_it(
    delay: str, header: float | None, seconds: float | None
) -> None:
    body = google_quota("PerMinute", "10", delay).body
    assert parse_error(429, body, retry_after_s=header).retry_after_s == seconds


def test_an_error_in_a_list_is_read() -> None:
    body = [google_error(404, "NOT_FOUND", "models/m is not found").body]
    assert parse_error(404, body).message == "models/m is not found"


def test_awss_type_may_stand_in_the_body() -> None:
    body = {"__type": "com.amazon.coral.service#UnrecognizedClientException", "Message": "Invalid."}
    complaint = parse_error(400, body)
    assert complaint.codes == {"unrecognizedclientexception"}
    assert complaint.message == "Invalid."


# --- parts a server can do without ------------------------------------------------------------------------------------

EVERY = {Parameter.SCHEMA, Parameter.TEMPERATURE, Parameter.STOP, Parameter.MAX_TOKENS}


def said(message: str, **more: Any) -> Answer:
    return Answer(status=400, body={"error": {"message": message, **more}})


REFUSED_PARTS: list[tuple[str, Answer, str]] = [
    (
        "openai",
        said("Unsupported parameter: 'temperature' is not supported with this model."),
        Parameter.TEMPERATURE,
    ),
    (
        "openai",
        said("Only the default (1) value", code="unsupported_value", param="temperature"),
        Parameter.TEMPERATURE,
    ),
    (
        "openai",
        said("Unsupported parameter: 'stop' is not supported with this model.", param="stop"),
        Parameter.STOP,
    ),
    (
        "openai",
        said(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        ),
        Parameter.MAX_TOKENS,
    ),
    ("anthropic", said("`temperature` may only be set to 1 when thinking is enabled."), Parameter.TEMPERATURE),
    (
        "anthropic",
        said("`temperature` and `top_p` cannot both be specified for this model."),
        Parameter.TEMPERATURE,
    ),
    (
        "anthropic",
        said("output_config.format.schema: For 'integer' type, property 'minimum' is not supported"),
        Parameter.SCHEMA,
    ),
    ("anthropic", said("output_config: Extra inputs are not permitted"), Parameter.SCHEMA),
    (
        "bedrock",
        said("This model doesn't support the stopSequences field. Remove stopSequences and try again."),
        Parameter.STOP,
    ),
    ("bedrock", said("This model doesn\u2019t support the temperature field."), Parameter.TEMPERATURE),
    ("bedrock", said("outputConfig.textFormat is not supported for this model"), Parameter.SCHEMA),
    ("google", said("JSON mode is not enabled for models/gemma-3-27b-it"), Parameter.SCHEMA),
    (
        "google",
        said("Function calling with a response mime type: 'application/json' is unsupported"),
        Parameter.SCHEMA,
    ),
]


@pytest.mark.parametrize(("provider", "answer", "part"), REFUSED_PARTS)
def test_a_refused_part_is_known_by_the_servers_words(provider: str, answer: Answer, part: str) -> None:
    error = judge(provider, answer, EVERY)
    assert isinstance(error, ProviderError)
    assert (error.code, error.retryable, error.fatal) == (f"{part}_refused", True, False)
    again = judge(provider, answer, EVERY - {part})
    assert isinstance(again, ProviderError)
    assert again.code != f"{part}_refused"


@pytest.mark.parametrize(
    "answer",
    [
        said("max_tokens is too large: 5000."),
        said("The temperature of the patient is missing."),
        said("Please stop."),
        Answer(status=429, body={"error": {"message": "temperature is not supported now"}}),
        anthropic(400, "invalid_request_error", "output_config.effort: Extra inputs are not permitted"),
        anthropic(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
    ],
)
def test_other_complaints_are_about_no_part(answer: Answer) -> None:
    error = judge("openai", answer, EVERY)
    assert isinstance(error, ProviderError)
    assert not error.code.endswith("_refused")


def test_a_deployment_of_a_newer_model_works_without_settings(server: Server) -> None:
    """Azure's deployments hide what model they are: everything it does not take is found out, once."""

    def decide(body: dict[str, Any]) -> Answer:
        for name, words in (
            ("max_tokens", "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."),
            ("temperature", "'temperature' does not support 0 with this model."),
            ("stop", "'stop' is not supported with this model."),
        ):
            if name in body:
                code = "unsupported_value" if name == "temperature" else "unsupported_parameter"
                return said(f"Unsupported: {words}", code=code, param=name, type="invalid_request_error")
        return OPENAI.answer("A")

    server.answer_with(decide)
    asked = Model(name="azure/d", provider="azure", remote_name="d", base_url=f"{server.url}/openai/v1")
    one = Request(model=asked, prompt=Prompt((Message("user", "Is it?"),)), max_tokens=5, stop=("\n",))

    async def buy() -> tuple[list[ClientResult], dict[Parameter, str]]:
        http = HttpClient(EgressPolicy(offline=True))
        provider = open_provider(asked, http, environment={})
        assert isinstance(provider, HttpProvider)
        client = Client(cache=None, budget=Budget(None), attempts=1)
        try:
            return [
                await client.complete(provider, replace(one, sample=sample)) for sample in range(2)
            ], provider.unsupported
        finally:
            await http.close()

    replies, left_out = asyncio.run(buy())
    assert [(reply.completion.text, reply.requests_sent) for reply in replies] == [("A", 4), ("A", 1)]
    assert set(left_out) == {"max_tokens", "temperature", "stop"}
    # The limit went by its other name: nothing was lost.
    assert [reply.completion.refused_parameters for reply in replies] == [("stop", "temperature")] * 2
    assert server.bodies[-1] == {
        "model": "d",
        "messages": [{"role": "user", "content": "Is it?"}],
        "max_completion_tokens": 5,
        "seed": 1,
    }
