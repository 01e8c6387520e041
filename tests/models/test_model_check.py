"""Asking a model once: what a user learns from it, and what is said of everything that can be wrong."""

from __future__ import annotations

from typing import Any

import pytest

from medhelm.domain import FailureCode, Model
from medhelm.domain.completion import ModelCheck
from medhelm.errors import UserError
from medhelm.models.catalog import find_models
from medhelm.models.model_check import check
from medhelm.results.catalog import check_lines
from tests.support.servers.openai import Answer, Server
from tests.support.servers.vendors import ANTHROPIC, KEYS, OPENAI


@pytest.fixture
def server(server: Server) -> Server:
    """A server that is asked for the list of its models."""
    server.lists_models = True
    return server


KEY = KEYS["AZURE_OPENAI_API_KEY"]
"""A key of no maker's form."""


def probe(model: Model) -> ModelCheck:
    (checked,) = check([model], environment=KEYS)
    return checked


def test_probabilities_are_asked_for_in_a_request_of_their_own(server: Server) -> None:
    said = OPENAI.said("OK")
    logprobs = {"content": [{"token": "OK", "logprob": -0.1}]}
    with_them = {**said, "choices": [{**said["choices"][0], "logprobs": logprobs}]}
    server.answer_with(lambda body: Answer(body=with_them if body.get("logprobs") else said))
    checked = probe(OPENAI.model(server.url))
    assert (checked.logprobs, [bool(body.get("logprobs")) for body in server.bodies]) == (True, [False, True])
    assert "log-probabilities of tokens: yes" in check_lines(checked)


def test_a_server_that_refuses_probabilities_has_none(server: Server) -> None:
    server.answer_with(lambda body: Answer(status=400) if body.get("logprobs") else OPENAI.answer("OK"))
    checked = probe(OPENAI.model(server.url))
    assert (checked.answer.failure, checked.logprobs) == (None, False)
    server.answer_with(lambda body: Answer(status=401))
    assert probe(OPENAI.model(server.url)).logprobs is None


def test_the_nearest_name_is_suggested(server: Server) -> None:
    served = ["meta-llama/Llama-3.3-70B-Instruct", "Qwen/Qwen2.5-7B-Instruct", "gpt-4o", "gpt-4o-mini"]
    listed = Answer(body={"data": [{"id": known} for known in [*served, *(f"m{n}" for n in range(20))]]})
    server.answer_with(lambda body: OPENAI.errors["unknown model"] if body else listed)
    nearest = {"QWEN/qwen2.5-7b-instruct": "Qwen/Qwen2.5-7B-Instruct", "gpt4o-mini": "gpt-4o-mini", "mistral": ""}
    checked = {name: probe(OPENAI.model(server.url, remote_name=name)) for name in nearest}
    assert {name: one.advice for name, one in checked.items()} == {
        name: known and f"Did you mean `{known}`?" for name, known in nearest.items()
    }
    assert "m15 and 4 more" in check_lines(checked["mistral"])
    assert len({headers["authorization"] for headers in server.headers}) == 1


@pytest.mark.parametrize(("listed", "names"), [("<html>", []), ({"data": [{"id": f"a-{KEY}"}, {"id": "b"}]}, ["b"])])
def test_a_list_that_cannot_be_read_or_repeats_the_key_does_not_show_it(
    listed: Any, names: list[str], server: Server
) -> None:
    server.answer_with(lambda asked: OPENAI.errors["unknown model"] if asked else Answer(body=listed))
    (checked,) = check([OPENAI.model(server.url, remote_name="c")], environment={"OPENAI_API_KEY": KEY})
    assert (checked.names, KEY in check_lines(checked)) == (names, False)


def test_an_address_without_its_version_is_told_with_it(server: Server) -> None:
    """As vLLM answers, which serves nothing outside /v1."""

    def decide(body: dict[str, Any]) -> Answer:
        if server.paths[-1].startswith("/v1/"):
            return OPENAI.answer("OK") if body else Answer(body={"data": [{"id": "m"}]})
        return Answer(status=404, body={"detail": "Not Found"})

    server.answer_with(decide)
    (model,) = find_models([f"openai/m@{server.url}/"], file=None, environment={})
    checked = probe(model)
    assert checked.advice == f"The API of this server is at {server.url}/v1: use that address."
    (right,) = find_models([f"openai/m@{server.url}/v1/"], file=None, environment={})
    assert probe(right).answer.text == "OK"


def test_a_name_that_is_there_is_not_doubted(server: Server) -> None:
    """The address is wrong, and not the name."""
    missing, listed = Answer(status=404, body={"detail": "no"}), Answer(body={"data": [{"id": "m"}]})
    server.answer_with(lambda body: missing if body else listed)
    checked = probe(OPENAI.model(server.url))
    assert checked.names == []
    assert checked.advice == f"The server lists m, but does not know it at {server.url}/v1/chat/completions."


def test_several_models_are_asked_and_all_missing_keys_named(server: Server) -> None:
    server.script(Answer(body={"choices": [{"message": {"content": "OK"}, "finish_reason": "stop"}]}))
    models = [OPENAI.model(server.url), OPENAI.model(server.url, name="b"), OPENAI.model(server.url, name="c")]
    checked = check(models, environment=KEYS)
    assert [one.model.name for one in checked] == ["openai/m", "b", "c"]
    assert "usage: not reported" in check_lines(checked[0])
    assert server.count == 6
    lacking = check([OPENAI.model(server.url), ANTHROPIC.model(server.url)], environment={})
    assert [one.answer.failure and one.answer.failure.code for one in lacking] == [FailureCode.NO_KEY] * 2
    assert "needs a key: set the environment variable ANTHROPIC_API_KEY." in check_lines(lacking[1])
    assert server.count == 6


def test_nothing_is_sent_if_one_host_may_not_be_reached(server: Server) -> None:
    with pytest.raises(UserError, match="offline"):
        check([OPENAI.model(server.url), OPENAI.model("https://far.example")], environment=KEYS, offline=True)
    assert server.count == 0
