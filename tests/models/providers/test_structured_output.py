"""Holding models to a JSON schema: servers that can, that cannot, and that do not care."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Message, Model, Prompt, Request
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.budget import Budget
from medhelm.models.catalog import find_models
from medhelm.models.client import Client, ClientResult, ModelUnusable, SendingLimits, Timing
from medhelm.models.providers import open_provider
from tests.support.servers.openai import Answer, Server

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"score": {"type": "integer"}},
    "required": ["score"],
    "additionalProperties": False,
}
FORM = {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": SCHEMA}}
VERDICT = '{"score": 4}'
REFUSED = Answer(status=400, body={"error": {"message": "Invalid parameter: 'response_format' is not supported."}})


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
        client = Client(
            cache=None,
            budget=Budget(None),
            limits=SendingLimits(attempts=attempts, start=8, maximum=8),
            timing=Timing(random=lambda: 0.0),
        )
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


def test_a_server_that_knows_no_schemas_is_asked_without_at_no_attempt(server: Server) -> None:
    server.answer_with(knows_none)
    (reply,) = ask(request(model(server.url)), attempts=1)
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


def test_a_form_of_the_users_own_that_is_refused_is_the_users_to_mend(server: Server) -> None:
    server.script(REFUSED)
    asked = model(server.url, parameters={"response_format": {"type": "json_object"}})
    with pytest.raises(ModelUnusable, match=r"\(parameter\).*response_format"):
        ask(request(asked))
    assert server.count == 1


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
