"""Asking a model once: what a user learns from it, and what is said of everything that can be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import FailureCode, Model
from medhelm.domain.completion import ModelCheck
from medhelm.errors import UserError
from medhelm.models.catalog import find_models
from medhelm.models.model_check import check
from medhelm.results.catalog import check_lines
from tests.support.servers.openai import Answer, Server
from tests.support.servers.vendors import ANTHROPIC, GOOGLE, KEYS, OPENAI, VENDORS, Vendor, dig


@pytest.fixture
def server(server: Server) -> Server:
    """A server that is asked for the list of its models."""
    server.lists_models = True
    return server


every_vendor = pytest.mark.parametrize("vendor", VENDORS.values(), ids=list(VENDORS))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No models.yaml lies around."""
    monkeypatch.chdir(tmp_path)


def probe(model: Model) -> ModelCheck:
    (checked,) = check([model], environment=KEYS)
    return checked


@every_vendor
def test_a_model_that_answers(vendor: Vendor, server: Server) -> None:
    server.script(vendor.answer('{"reply": "OK"}', thought=2))
    checked = probe(vendor.model(server.url))
    assert checked.answer.text == '{"reply": "OK"}'
    assert (checked.structured, checked.left_out, checked.advice) == (True, {}, "")
    assert server.count == 1 + asks_logprobs(vendor)
    said = check_lines(checked)
    assert "log-probabilities of tokens: no" in said
    assert "20 input tokens (4 cached), 5 output tokens" in said
    assert "(2 for reasoning)" in said
    assert ("reports itself as reported-1" in said) == bool(vendor.reported)


def asks_logprobs(vendor: Vendor) -> int:
    """How many requests it takes to find out whether probabilities are given: none where the service has none."""
    return 0 if vendor.provider in ("anthropic", "bedrock") else 1


@pytest.mark.parametrize(
    ("vendor", "asked", "place", "given"),
    [
        (OPENAI, ("logprobs",), "choices", {"logprobs": {"content": [{"token": "OK", "logprob": -0.1}]}}),
        (GOOGLE, ("generationConfig", "responseLogprobs"), "candidates", {"logprobsResult": {"chosenCandidates": [1]}}),
    ],
    ids=["openai", "google"],
)
def test_probabilities_are_asked_for_in_a_request_of_their_own(
    vendor: Vendor, asked: tuple[str, ...], place: str, given: dict[str, Any], server: Server
) -> None:
    said = vendor.said('{"reply": "OK"}')
    with_them = {**said, place: [{**said[place][0], **given}]}
    server.answer_with(lambda body: Answer(body=with_them if dig(body, *asked) else said))
    checked = probe(vendor.model(server.url))
    assert (checked.logprobs, [bool(dig(body, *asked)) for body in server.bodies]) == (True, [False, True])
    assert "log-probabilities of tokens: yes" in check_lines(checked)


def test_a_server_that_refuses_probabilities_has_none(server: Server) -> None:
    server.answer_with(lambda body: Answer(status=400) if body.get("logprobs") else OPENAI.answer("OK"))
    checked = probe(OPENAI.model(server.url))
    assert (checked.answer.failure, checked.logprobs) == (None, False)
    server.answer_with(lambda body: Answer(status=401))
    assert probe(OPENAI.model(server.url)).logprobs is None


@pytest.mark.parametrize("vendor", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
def test_what_is_left_out_is_shown(vendor: Vendor, server: Server) -> None:
    def decide(body: dict[str, Any]) -> Answer:
        if vendor.temperature_of(body) is not None:
            return vendor.errors["temperature"]
        return vendor.errors["schema"] if vendor.schema_of(body) is not None else vendor.answer("OK")

    server.answer_with(decide)
    checked = probe(vendor.model(server.url))
    assert (checked.answer.text, checked.structured, set(checked.left_out)) == ("OK", False, {"temperature", "schema"})
    assert server.count == 3 + asks_logprobs(vendor)
    assert "unsupported by the server, so not sent: temperature (" in check_lines(checked)


ADVICE = {
    "wrong key": ("key", ("Check ", "gcloud auth print-access-token")),
    "rate limit": ("rate_limit", ("advice: The key works.",)),
    "overload": ("overloaded", ("advice: The service is overloaded.",)),
    "quota": ("no_quota", ("no credit left",)),
    "unknown model": ("unknown_model", ("Is `m` the ", "Is there a deployment `m`")),
}


@every_vendor
def test_every_failure_says_what_to_do(vendor: Vendor, server: Server) -> None:
    for situation, (code, said) in ADVICE.items():
        server.script(vendor.errors[situation])
        checked = probe(vendor.model(server.url))
        assert checked.answer.failure is not None
        assert checked.answer.failure.code == code
        assert checked.structured is None
        assert any(words in check_lines(checked) for words in said)
        assert not any(key in check_lines(checked) for key in KEYS.values())


@pytest.mark.parametrize(
    ("vendor", "listed"),
    [
        (OPENAI, {"object": "list", "data": [{"id": "model-a", "object": "model"}, {"id": "model-m"}]}),
        (ANTHROPIC, {"data": [{"type": "model", "id": name} for name in ("model-a", "model-m")], "has_more": False}),
        (GOOGLE, {"models": [{"name": "models/model-a"}, {"name": "models/model-m"}]}),
    ],
    ids=["openai", "anthropic", "google"],
)
def test_a_name_the_server_does_not_have_shows_those_it_has(
    vendor: Vendor, listed: dict[str, Any], server: Server
) -> None:
    server.answer_with(lambda body: vendor.errors["unknown model"] if body else Answer(body=listed))
    checked = probe(vendor.model(server.url, remote_name="model-n"))
    assert list(checked.names) == ["model-a", "model-m"]
    assert checked.advice.startswith("Did you mean `model-")
    assert "the server has: model-a and model-m" in check_lines(checked)
    assert server.count == 2
    for name in ("authorization", "x-api-key", "x-goog-api-key"):
        assert server.headers[0].get(name) == server.headers[1].get(name)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("QWEN/qwen2.5-7b-instruct", "Qwen/Qwen2.5-7B-Instruct"),
        ("llama-3.3-70b", "meta-llama/Llama-3.3-70B-Instruct"),
        ("gpt4o-mini", "gpt-4o-mini"),
        ("mistral-large", None),
    ],
)
def test_the_nearest_name_is_suggested(name: str, nearest: str | None, server: Server) -> None:
    served = ["meta-llama/Llama-3.3-70B-Instruct", "Qwen/Qwen2.5-7B-Instruct", "gpt-4o", "gpt-4o-mini"]
    listed = Answer(body={"data": [{"id": known} for known in [*served, *(f"m{n}" for n in range(20))]]})
    server.answer_with(lambda body: OPENAI.errors["unknown model"] if body else listed)
    checked = probe(OPENAI.model(server.url, remote_name=name))
    assert checked.advice == (f"Did you mean `{nearest}`?" if nearest else "")
    assert "m15 and 4 more" in check_lines(checked)


@pytest.mark.parametrize("body", ["<html>", {"data": "x"}, {"data": [{"id": None}]}])
def test_a_list_that_cannot_be_read_is_none(body: Any, server: Server) -> None:
    server.answer_with(lambda asked: OPENAI.errors["unknown model"] if asked else Answer(body=body))
    assert probe(OPENAI.model(server.url)).names == []


def test_a_list_that_repeats_the_key_does_not_show_it(server: Server) -> None:
    key = KEYS["AZURE_OPENAI_API_KEY"]  # of no maker's form
    server.answer_with(
        lambda asked: (
            OPENAI.errors["unknown model"] if asked else Answer(body={"data": [{"id": f"a-{key}"}, {"id": "b"}]})
        )
    )
    (checked,) = check([OPENAI.model(server.url, remote_name="c")], environment={"OPENAI_API_KEY": key})
    assert checked.names == ["b"]
    assert key not in check_lines(checked)


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


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        (Answer(body="<!DOCTYPE html><title>Sign in</title>"), "malformed_reply", "a login page"),
        (Answer(status=302, headers={"Location": "https://login.example/x"}), "redirect", "https://login.example/x"),
        (Answer(status=500, body="oh"), "server_error", "log of your own server"),
        (Answer(status=400, body={"error": "odd"}), "bad_request", "models.yaml"),
        (Answer(ending="reset"), "connection", "If the server uses HTTPS, write its address with https://."),
        (Answer(body=b"data: {}"), "malformed_reply", "an event stream"),
    ],
)
def test_a_server_that_is_not_what_it_says(answer: Answer, code: str, said: str, server: Server) -> None:
    server.script(answer)
    checked = probe(OPENAI.model(server.url))
    assert checked.answer.failure is not None
    assert checked.answer.failure.code == code
    assert said in check_lines(checked)


def test_a_name_that_is_there_is_not_doubted(server: Server) -> None:
    """The address is wrong, and not the name."""
    server.answer_with(
        lambda body: Answer(status=404, body={"detail": "no"}) if body else Answer(body={"data": [{"id": "m"}]})
    )
    checked = probe(OPENAI.model(server.url))
    assert checked.names == []
    assert checked.advice == f"The server lists m, but does not know it at {server.url}/v1/chat/completions."


def test_https_where_the_server_speaks_http(server: Server) -> None:
    checked = probe(OPENAI.model(server.url.replace("http:", "https:")))
    assert checked.answer.failure is not None
    assert checked.answer.failure.code == "certificate"
    assert "does not speak HTTPS: write its address with http://." in check_lines(checked)


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
