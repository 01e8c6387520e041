"""Providers of packages: how they are named, opened and asked, and what becomes of their faults."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Completion, Failure, Message, Model, Prompt, Request
from medhelm.errors import ProviderError, UserError
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.io.plugins import PROVIDERS as GROUP
from medhelm.io.plugins import Plugin
from medhelm.models.catalog import find_models
from medhelm.models.keys import missing_key
from medhelm.models.providers import SERVICES, ProviderContext
from medhelm.models.providers.plugin import accept_opener
from tests.support.plugins import Install

PLUGIN = Plugin(group=GROUP, name="ward", package="ward-package", version="1.2", target="w:open")
MODEL = Model(name="ward/m", provider="ward", remote_name="m", base_url="http://127.0.0.1:9", key_variable="WARD_KEY")
REQUEST = Request(model=MODEL, prompt=Prompt((Message("user", "?"),)), max_tokens=5)
CONTEXT = ProviderContext(
    http=HttpClient(EgressPolicy(offline=True)), environment={"WARD_KEY": " key-of-the-ward\n"}, seed=4, aliases={}
)
FINE = Completion(text="fine")


class Ward:
    """A provider that gives what it was told to."""

    local = False
    endpoint = "http://127.0.0.1:9"

    def __init__(self, answer: Any = FINE, **changes: Any) -> None:
        self._answer = answer
        for name, value in changes.items():
            setattr(self, name, value)

    async def complete(self, request: Request) -> Any:
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


def opened(provider: object) -> Any:
    return accept_opener(PLUGIN, lambda *_: provider).open(MODEL, CONTEXT)


def error_of(provider: Any, request: Request = REQUEST) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        asyncio.run(provider.complete(request))
    return caught.value


def test_it_gets_the_model_and_its_context() -> None:
    seen: list[object] = []

    def open_ward(model: Model, context: ProviderContext) -> Ward:
        seen.extend((model, context.http, context.value_of("WARD_KEY"), context.seed))
        return Ward()

    provider = accept_opener(PLUGIN, open_ward).open(MODEL, CONTEXT)
    assert seen == [MODEL, CONTEXT.http, "key-of-the-ward", 4]
    assert (provider.local, provider.endpoint) == (False, "http://127.0.0.1:9")
    assert asyncio.run(provider.complete(REQUEST)) is FINE


def test_what_is_no_function_and_a_name_that_is_not_fit_for_a_command_line_are_refused() -> None:
    said = r"ward-package 1\.2 \(entry point `ward` of .*\) is Ward, but must be a function \(Model, "
    with pytest.raises(UserError, match=said):
        accept_opener(PLUGIN, Ward())
    for name in ("Ward", "a/b", ""):
        with pytest.raises(UserError, match="a name that is not in lower case letters"):
            accept_opener(replace(PLUGIN, name=name), opened)


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        (None, "whose `local` is not true or false"),
        (Ward(endpoint=""), "without an `endpoint`"),
        (Ward(complete=lambda request: FINE), "without `async def complete(request)`"),
    ],
)
def test_what_the_client_relies_on_has_to_be_there(provider: object, words: str) -> None:
    with pytest.raises(UserError, match=rf"ward-package 1\.2 .*{re.escape(words)}"):
        opened(provider)


def test_a_function_that_breaks_off_is_told_without_its_key() -> None:
    def fail(error: Exception) -> Any:
        raise error

    broken, own = ValueError("no such thing\nBearer key-of-the-ward is no key"), UserError("set WARD_KEY.")
    with pytest.raises(UserError, match=r"failed to open it: ValueError: Bearer \*\*\* is no key\.$") as caught:
        accept_opener(PLUGIN, lambda *_: fail(broken)).open(MODEL, CONTEXT)
    assert str(caught.value).startswith("ward/m: ward-package 1.2 (entry point `ward` of medhelm.providers) ")
    assert caught.value.__cause__ is None
    with pytest.raises(UserError, match=r"^set WARD_KEY\.$"):
        accept_opener(PLUGIN, lambda *_: fail(own)).open(MODEL, CONTEXT)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (KeyError("choices"), "failed: KeyError: 'choices'"),
        (ValueError("401 for key-of-the-ward"), "failed: ValueError: 401 for ***"),
        ("fine", "returned str instead of a Completion"),
        (Completion(text="x", failure=Failure("provider", "c", "m")), "must have either a text or a failure"),
    ],
)
def test_a_fault_is_a_failure_of_one_request(answer: object, words: str) -> None:
    error = error_of(opened(Ward(answer)))
    assert (error.code, error.retryable, error.fatal) == ("plugin_error", False, False)
    assert (words in str(error), str(error).startswith("ward-package 1.2")) == (True, True)


def test_its_own_errors_arrive_as_they_are_and_what_it_refuses_it_has_to_leave_out() -> None:
    error = ProviderError("overloaded", "later", retryable=True, overloaded=True, retry_after_s=2.0)
    assert error_of(opened(Ward(error))) is error
    provider = opened(Ward(ProviderError("schema_refused", "no schema here")))
    asked = (REQUEST, replace(REQUEST, max_tokens=6), REQUEST)
    assert [error_of(provider, one).code for one in asked] == ["schema_refused", "schema_refused", "plugin_error"]
    assert "refused the same request twice (schema_refused)" in str(error_of(provider))


# --- names ------------------------------------------------------------------------------------------------------------


def find(*names: str, file: Path | None = None, **environment: str) -> list[Model]:
    return find_models(names, file=file, environment=environment)


@pytest.fixture
def echo(install: Install) -> str:
    return install("echoes", "def open_echo(): ...\n", providers={"echo": "open_echo", "openai": "open_echo"})


def test_a_model_is_where_its_name_says(echo: str) -> None:
    there, here = find("echo/some/model@http://127.0.0.1:9/v2/", "echo/m", MEDHELM_API_KEY="k")
    assert (there.provider, there.remote_name, there.base_url) == ("echo", "some/model", "http://127.0.0.1:9/v2")
    assert (there.key_variable, missing_key(there, {}) is None) == ("MEDHELM_API_KEY", False)
    assert (here.remote_name, here.base_url, here.key_variable, missing_key(here, {})) == ("m", "", "", None)
    assert find("openai/m")[0].base_url == "https://api.openai.com/v1"
    for name, words in (
        ("echo/", "a name must follow `echo/`"),
        ("ecco/m", "Did you mean `echo/m`"),
        ("echo/m@http://example.org", r"http:// would send questions and keys to example\.org unencrypted"),
    ):
        with pytest.raises(UserError, match=words):
            find(name)
    assert list(SERVICES)[-1] == "echo"


def test_it_may_be_named_in_models_yaml_and_what_cannot_be_used_is_told(
    echo: str, install: Install, tmp_path: Path
) -> None:
    file = tmp_path / "models.yaml"
    file.write_text("a: {provider: echo, model: m, base_url: 'http://127.0.0.1:9', key: ECHO_KEY}\n", encoding="utf-8")
    (model,) = find("a", file=file)
    assert (model.provider, model.remote_name, model.key_variable) == ("echo", "m", "ECHO_KEY")
    install("shaky", "raise OSError('no device')\n", providers={"shaky": "F"})
    problem = r"model `shaky/m`: shaky 0\.1 \(entry point `shaky` of .*\) cannot be imported: OSError"
    with pytest.raises(UserError, match=rf"(?s){problem}.*model `nobody/m`: unknown provider"):
        find("shaky/m", "nobody/m")
    file.write_text("a: {provider: shaky}\n", encoding="utf-8")
    with pytest.raises(UserError, match="cannot be imported: OSError: no device"):
        find("a", file=file)
    assert find("echo/m", file=file)[0].provider == "echo"
