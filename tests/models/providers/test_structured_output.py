"""Holding models to a JSON schema: servers that can, that cannot, and that do not care."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Completion, Message, Model, Prompt, Request
from medhelm.errors import ProviderError
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.catalog import find_models
from medhelm.models.client import Client, ClientResult, ModelUnusable
from medhelm.models.limits.budget import Budget
from medhelm.models.provider import OptionalParameter
from medhelm.models.providers import open_provider
from medhelm.models.providers.errors.classify import classify_error
from medhelm.models.providers.errors.parse import parse_error
from medhelm.models.providers.openai import SERVICE
from tests.support.cases import table
from tests.support.servers.openai import Answer, Server

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"score": {"type": "integer"}},
    "required": ["score"],
    "additionalProperties": False,
}
FORM = {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": SCHEMA}}
VERDICT = '{"score": 4}'
REFUSED = Answer(
    status=400,
    body={
        "error": {
            "message": "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
            "type": "invalid_request_error",
            "param": None,
            "code": None,
        }
    },
)


def answer(text: str | None = VERDICT, **message: Any) -> Answer:
    """A chat completion."""
    choice = {"message": {"role": "assistant", "content": text, **message}, "finish_reason": "stop"}
    return Answer(body={"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 5}})


def knows_none(body: dict[str, Any]) -> Answer:
    """A server that has never heard of schemas."""
    return REFUSED if "response_format" in body else answer()


def model(address: str = "http://127.0.0.1:8000", **settings: Any) -> Model:
    return Model(name="judge", provider="openai", remote_name="j", base_url=f"{address}/v1", **settings)


def request(asked: Model, number: int = 0, schema: Mapping[str, Any] | None = SCHEMA) -> Request:
    prompt = Prompt((Message("user", f"Grade answer {number}."),))
    return Request(model=asked, prompt=prompt, max_tokens=50, schema=schema)


def ask(*requests: Request, attempts: int = 2) -> list[ClientResult]:
    """Send all through one client and one provider, at most eight at once; waiting takes no time."""

    async def send() -> list[ClientResult]:
        http = HttpClient(EgressPolicy(offline=True))
        client = Client(cache=None, budget=Budget(None), attempts=attempts, start=8, maximum=8, random=lambda: 0.0)
        provider = open_provider(requests[0].model, http, environment={})
        try:
            return await asyncio.gather(*(client.complete(provider, one) for one in requests))
        finally:
            await http.close()

    return asyncio.run(send())


def forms(server: Server) -> list[Any]:
    """The forms of reply that were asked for, in order; None where none was."""
    return [body.get("response_format") for body in server.bodies]


# --- what is sent -----------------------------------------------------------------------------------------------------


def test_a_server_that_knows_schemas_gets_one(server: Server) -> None:
    server.script(answer())
    (reply,) = ask(request(model(server.url)))
    assert (reply.completion.text, reply.requests_sent) == (VERDICT, 1)
    assert forms(server) == [FORM]


@pytest.mark.parametrize(
    ("settings", "schema", "expected"),
    [
        ({}, None, None),
        ({"structured": False}, SCHEMA, None),
        ({"parameters": {"response_format": {"type": "json_object"}}}, SCHEMA, {"type": "json_object"}),
        ({"parameters": {"response_format": None}}, SCHEMA, None),
        ({"reasoning": True}, SCHEMA, FORM),
        ({"parameters": {"top_p": 1}}, SCHEMA, FORM),
    ],
)
def test_who_is_held_to_a_schema(
    server: Server, settings: dict[str, Any], schema: Mapping[str, Any] | None, expected: object
) -> None:
    server.script(answer())
    ask(request(model(server.url, **settings), schema=schema))
    assert forms(server) == [expected]


# --- servers that refuse ----------------------------------------------------------------------------------------------


def test_a_server_that_knows_no_schemas_is_asked_without(server: Server) -> None:
    server.answer_with(knows_none)
    (reply,) = ask(request(model(server.url)))
    assert (reply.completion.text, reply.requests_sent) == (VERDICT, 2)
    assert forms(server) == [FORM, None]


def test_only_what_was_in_flight_is_sent_again(server: Server) -> None:
    server.answer_with(knows_none)
    asked = model(server.url)
    replies = ask(*(request(asked, number) for number in range(100)))
    assert {reply.completion.text for reply in replies} == {VERDICT}
    refused = len([form for form in forms(server) if form])
    assert 0 < refused <= 8
    assert sorted(reply.requests_sent for reply in replies) == [1] * (100 - refused) + [2] * refused
    assert server.count == 100 + refused


def test_a_refused_schema_costs_no_attempt_and_no_wait(server: Server) -> None:
    server.answer_with(knows_none)
    (reply,) = ask(request(model(server.url)), attempts=1)
    assert (reply.completion.text, reply.requests_sent) == (VERDICT, 2)


def test_another_model_of_the_same_server_is_still_asked_with_a_schema(server: Server) -> None:
    server.answer_with(knows_none)
    for _ in range(2):
        ask(request(model(server.url)))
    assert forms(server) == [FORM, None, FORM, None]


def test_a_server_that_ignores_schemas_is_asked_once(server: Server) -> None:
    server.script(answer("I would give it a 4."))
    (reply,) = ask(request(model(server.url)))
    assert (reply.completion.text, reply.requests_sent) == ("I would give it a 4.", 1)


def test_trouble_that_has_nothing_to_do_with_it_leaves_the_schema_in(server: Server) -> None:
    server.script(Answer(status=503, body="busy"), answer())
    (reply,) = ask(request(model(server.url)))
    assert reply.completion.text == VERDICT
    assert forms(server) == [FORM, FORM]


def test_a_form_of_the_users_own_that_is_refused_is_the_users_to_mend(server: Server) -> None:
    server.script(REFUSED)
    asked = model(server.url, parameters={"response_format": {"type": "json_object"}})
    with pytest.raises(ModelUnusable, match=r"\(parameter\).*response_format"):
        ask(request(asked))
    assert server.count == 1


def test_a_model_that_would_not_fill_the_schema_in_has_refused(server: Server) -> None:
    server.script(answer(None, refusal="I cannot grade this."))
    (reply,) = ask(request(model(server.url)))
    assert reply.completion.failure is not None
    assert (reply.completion.failure.code, reply.completion.failure.message) == ("refusal", "I cannot grade this.")


# --- in their own words -----------------------------------------------------------------------------------------------


def openai(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **more}}


REFUSALS: list[tuple[str, int, Any]] = [
    ("OpenAI, old model", 400, REFUSED.body),
    (
        "OpenAI, older model",
        400,
        openai("Invalid value: 'json_schema'. Supported values are: 'text'.", param="response_format.type"),
    ),
    (
        "OpenAI, odd model",
        400,
        openai("'response_format' is not supported", code="unsupported_parameter", param="response_format"),
    ),
    (
        "OpenAI, schema",
        400,
        openai("Invalid schema for response_format 'reply': In context=(), ...", param="response_format"),
    ),
    (
        "Azure, old version",
        400,
        {
            "error": {
                "code": "BadRequest",
                "message": "response_format value as json_schema is enabled only for api versions 2024-08-01-preview",
            }
        },
    ),
    ("Azure, grammar", 400, openai("The compiled grammar is too large")),
    ("DeepSeek", 400, openai("This response_format type is unavailable now", code="invalid_request_error")),
    (
        "DeepSeek, earlier",
        422,
        openai("Failed to deserialize the JSON body: response_format.type `json_schema` is unavailable now"),
    ),
    ("Groq", 400, openai("This model does not support response format `json_schema`. See supported models")),
    ("Groq, schema", 400, openai("invalid schema for response format: minItems is not supported")),
    ("Groq, unfit answer", 400, openai("Failed to generate JSON. Adjust your prompt.", code="json_validate_failed")),
    (
        "Cerebras",
        400,
        {"message": "type: Input should be 'text'", "param": "validation_error", "code": "wrong_api_format"},
    ),
    ("Fireworks", 400, openai("JSON Schema not supported: could not understand the instance")),
    ("Google", 400, {"error": {"code": 400, "message": "JSON mode is not enabled for models/gemma-3-27b-it"}}),
    (
        "Volcengine",
        400,
        openai("invalid value: `json_schema`", code="InvalidParameter", param="response_format.type"),
    ),
    ("LM Studio", 400, {"error": "'response_format.type' must be 'text'"}),
    (
        "LiteLLM",
        400,
        openai("litellm.UnsupportedParamsError: x does not support parameters: ['response_format'], for model=m."),
    ),
    ("OpenRouter", 404, {"error": {"message": "No endpoints found that can handle the requested parameters."}}),
    (
        "OpenRouter, passed on",
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {"raw": '{"error": {"message": "Invalid schema for response_format \'reply\'"}}'},
            }
        },
    ),
    (
        "OpenRouter, inside a success",
        200,
        {"error": {"message": "structured outputs are not supported by this model", "code": 400}},
    ),
    (
        "vLLM",
        400,
        {"object": "error", "message": "The provided JSON schema contains features not supported by xgrammar."},
    ),
    (
        "vLLM, earlier",
        400,
        {"message": "[{'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'json_object'\"}]"},
    ),
    ("vLLM, speculative", 400, {"error": {"message": "Guided decoding is not available here", "code": 400}}),
    (
        "FastAPI",
        422,
        {"detail": [{"loc": ["body", "response_format"], "msg": "extra fields not permitted", "input": FORM}]},
    ),
    ("llama.cpp", 400, openai("Failed to parse grammar")),
    (
        "llama.cpp, earlier",
        500,
        openai('response_format type must be one of "text" or "json_object", but got: json_schema'),
    ),
    ("Ollama", 500, {"error": "invalid JSON schema in format"}),
    ("Ollama, other model", 500, {"error": "failed to load model vocabulary required for format"}),
    ("Ollama, earlier", 400, {"error": 'invalid format: "x"; expected "json" or an object'}),
    ("plain text", 501, "structured output: not implemented"),
]

OTHER_COMPLAINTS: list[tuple[str, int, Any]] = [
    ("rate limit", 429, openai("Rate limit reached for requests with response_format")),
    ("key", 401, openai("json_schema")),
    ("overload", 503, openai("no grammar worker is free")),
    ("context", 400, openai("This model's maximum context length is 8192 tokens")),
    ("unknown model", 404, openai("The model `j` does not exist", code="model_not_found")),
    ("parameter", 400, openai("Use 'max_completion_tokens'", code="unsupported_parameter", param="max_tokens")),
    ("server", 500, openai("The server had an error")),
    ("proxy", 500, "<html>response_format</html>"),
    (
        "FastAPI repeats the request",
        422,
        {"detail": [{"loc": ["body", "messages"], "msg": "Field required", "input": {"response_format": FORM}}]},
    ),
    (
        "vLLM repeats the request",
        400,
        {"message": "[{'loc': ('body', 'messages'), 'msg': 'bad', 'input': {'response_format': 'x'}}]"},
    ),
]


def meant(status: int, body: Any, *, with_schema: bool) -> Completion | ProviderError:
    """What an error reply comes to."""
    try:
        return classify_error(
            parse_error(status, body), model(), SERVICE, [OptionalParameter.SCHEMA] if with_schema else []
        )
    except ProviderError as error:
        return error


@table(("status", "body"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS])
def test_a_refused_schema_is_known_by_the_servers_words(status: int, body: Any) -> None:
    error = meant(status, body, with_schema=True)
    assert isinstance(error, ProviderError)
    assert (error.code, error.retryable, error.fatal, error.overloaded) == (
        "schema_refused",
        True,
        False,
        False,
    )
    assert error.retry_after_s is None
    without = meant(status, body, with_schema=False)
    assert isinstance(without, ProviderError)
    assert without.code != "schema_refused"


@table(("status", "body"), [case[1:] for case in OTHER_COMPLAINTS], ids=[case[0] for case in OTHER_COMPLAINTS])
def test_other_complaints_stay_what_they_are(status: int, body: Any) -> None:
    with_schema, without = (meant(status, body, with_schema=sent) for sent in (True, False))
    assert isinstance(with_schema, ProviderError)
    assert isinstance(without, ProviderError)
    assert with_schema.code == without.code != "schema_refused"


def test_a_filtered_prompt_is_a_refusal_with_a_schema_too() -> None:
    body = openai("filtered: structured output", code="content_filter")
    completion = meant(400, body, with_schema=True)
    assert isinstance(completion, Completion)
    assert completion.failure is not None
    assert completion.failure.code == "refusal"


# --- what identifies a request ----------------------------------------------------------------------------------------


def test_what_was_bought_before_schemas_were_known_is_still_found() -> None:
    """The digest is one that a version without schemas computed."""
    asked = Model(
        name="openai/gpt-4o",
        provider="openai",
        remote_name="gpt-4o",
        base_url="https://api.openai.com/v1",
        parameters={"top_p": 0.9},
    )
    prompt = Prompt((Message("system", "Be brief."), Message("user", "Is it \N{SNOWMAN}?")))
    plain = Request(model=asked, prompt=prompt, max_tokens=5, stop=("\n",))
    assert plain.digest.hex() == "04561b13b45f27ee8fecc93eb353612e4f57b3745671eb5b5d19324edd23198b"


def test_each_schema_makes_another_request() -> None:
    schemas: list[Mapping[str, Any] | None] = [None, {}, SCHEMA, {**SCHEMA, "required": []}]
    assert len({request(model(), schema=schema).digest for schema in schemas}) == len(schemas)
    assert request(model()).digest == request(model(), schema=dict(SCHEMA)).digest


# --- models.yaml ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("line", "structured"), [("", True), ("structured: true", True), ("structured: false", False)])
def test_models_yaml_says_who_may_be_held_to_schemas(tmp_path: Path, line: str, structured: bool) -> None:
    file = tmp_path / "models.yaml"
    file.write_text(f"ward: {{base_url: 'http://127.0.0.1:8000/v1', {line}}}\n", encoding="utf-8")
    (found,) = find_models(["ward"], file=file, environment={})
    assert found.structured is structured
