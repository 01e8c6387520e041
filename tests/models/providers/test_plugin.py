"""Providers of packages: how they are named, opened and asked, and what becomes of their faults."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Completion, Failure, Message, Model, Prompt, Request, Usage
from medhelm.errors import ConfigError, ProviderError, UserError
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.io.plugins import PROVIDERS as GROUP
from medhelm.io.plugins import Plugin
from medhelm.models.catalog import find_models
from medhelm.models.keys import missing_key
from medhelm.models.providers import SERVICES, ProviderContext, open_provider
from medhelm.models.providers.plugin import PluginProvider, accept_opener
from tests.support.plugins import Install
from tests.support.servers.openai import Answer, Server

PLUGIN = Plugin(group=GROUP, name="ward", package="ward-package", version="1.2", target="w:open")
MODEL = Model(name="ward/m", provider="ward", remote_name="m", base_url="http://127.0.0.1:9", key_variable="WARD_KEY")
REQUEST = Request(model=MODEL, prompt=Prompt((Message("user", "?"),)), max_tokens=5)
AROUND = ProviderContext(
    http=HttpClient(EgressPolicy(offline=True)),
    environment={"WARD_KEY": " key-of-the-ward\n"},
    seed=4,
    aliases={"a": "b"},
)
SOUND = Completion(text="fine", usage=Usage(input=1, output=1))


class Ward:
    """A provider that gives what it was told to."""

    local = False
    endpoint = "http://127.0.0.1:9"

    def __init__(self, answer: Any = SOUND, **changes: Any) -> None:
        self._answer = answer
        for name, value in changes.items():
            setattr(self, name, value)

    async def complete(self, request: Request) -> Completion:
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer  # type: ignore[no-any-return]


def opened(provider: object, plugin: Plugin = PLUGIN) -> Any:
    return accept_opener(plugin, lambda *_: provider).open(MODEL, AROUND)


def asked(provider: object) -> Completion:
    found: Completion = asyncio.run(opened(provider).complete(REQUEST))
    return found


def test_it_gets_the_model_and_everything_around_it() -> None:
    seen: list[object] = []

    def open_ward(model: Model, around: ProviderContext) -> Ward:
        seen.extend((model, around.http, around.value_of("WARD_KEY"), around.seed, around.aliases))
        return Ward()

    provider = accept_opener(PLUGIN, open_ward).open(MODEL, AROUND)
    assert seen == [MODEL, AROUND.http, "key-of-the-ward", 4, {"a": "b"}]
    assert isinstance(provider, PluginProvider)
    assert (provider.local, provider.endpoint) == (False, "http://127.0.0.1:9")
    assert asyncio.run(provider.complete(REQUEST)) is SOUND
    assert opened(Ward(local=True, endpoint="")).endpoint == ""


@pytest.mark.parametrize("found", [None, 5, "open", Ward()])
def test_what_is_no_function_is_refused(found: object) -> None:
    with pytest.raises(
        UserError, match=r"ward-package 1\.2 \(entry point `ward` of .*\) is \w+, but must be a function \(Model, "
    ):
        accept_opener(PLUGIN, found)


@pytest.mark.parametrize("name", ["Ward", "a/b", "w rd", "1w", ""])
def test_a_name_has_to_be_fit_for_a_command_line(name: str) -> None:
    plugin = Plugin(group=GROUP, name=name, package="p", version="1", target="w:open")
    with pytest.raises(UserError, match="a name that is not in lower case letters"):
        accept_opener(plugin, opened)


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        (None, "whose `local` is not true or false"),
        (Ward(local=1), "whose `local` is not true or false"),
        (Ward(endpoint=""), "without an `endpoint`"),
        (Ward(endpoint=None, local=True), "without an `endpoint`"),
        (Ward(complete=None), "without `async def complete(request)`"),
        (Ward(complete=lambda request: SOUND), "without `async def complete(request)`"),
    ],
)
def test_what_the_client_relies_on_has_to_be_there(provider: object, words: str) -> None:
    with pytest.raises(UserError) as caught:
        opened(provider)
    assert words in str(caught.value)
    assert "ward-package 1.2" in str(caught.value)


def test_a_function_that_breaks_off_is_told_without_its_key() -> None:
    def open_ward(model: Model, around: ProviderContext) -> Ward:
        raise ValueError("no such thing\nBearer key-of-the-ward is no key")

    with pytest.raises(UserError) as caught:
        accept_opener(PLUGIN, open_ward).open(MODEL, AROUND)
    assert str(caught.value) == (
        "ward/m: ward-package 1.2 (entry point `ward` of medhelm.providers) failed to open it: "
        "ValueError: Bearer *** is no key."
    )
    assert caught.value.__cause__ is None

    def refuse(model: Model, around: ProviderContext) -> Ward:
        raise UserError("set WARD_KEY.")

    with pytest.raises(UserError, match=r"^set WARD_KEY\.$"):
        accept_opener(PLUGIN, refuse).open(MODEL, AROUND)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (KeyError("choices"), "failed: KeyError: 'choices'"),
        (ValueError("401 for key-of-the-ward"), "failed: ValueError: 401 for ***"),
        ("fine", "returned str instead of a Completion"),
        (None, "returned NoneType instead of a Completion"),
        (Completion(), "must have either a text or a failure"),
        (Completion(text="x", failure=Failure("provider", "c", "m")), "must have either a text or a failure"),
        (Completion(text=5), "must have either a text or a failure"),  # type: ignore[arg-type]
    ],
)
def test_a_fault_is_a_failure_of_one_request(answer: object, words: str) -> None:
    with pytest.raises(ProviderError) as caught:
        asked(Ward(answer))
    assert (caught.value.code, caught.value.retryable, caught.value.fatal) == ("plugin_error", False, False)
    assert words in str(caught.value)
    assert str(caught.value).startswith("ward-package 1.2")


def test_its_own_errors_arrive_as_they_are() -> None:
    error = ProviderError("overloaded", "later", retryable=True, overloaded=True, retry_after_s=2.0)
    with pytest.raises(ProviderError) as caught:
        asked(Ward(error))
    assert caught.value is error
    with pytest.raises(asyncio.CancelledError):
        asked(Ward(asyncio.CancelledError()))


def test_what_it_refuses_it_has_to_leave_out() -> None:
    provider = opened(Ward(ProviderError("schema_refused", "no schema here")))
    other = replace(REQUEST, max_tokens=6)
    for request, code in (
        (REQUEST, "schema_refused"),
        (other, "schema_refused"),
        (REQUEST, "plugin_error"),
        (other, "plugin_error"),
    ):
        with pytest.raises(ProviderError) as caught:
            asyncio.run(provider.complete(request))
        assert caught.value.code == code
    assert "refused the same request twice (schema_refused)" in str(caught.value)


# --- names ------------------------------------------------------------------------------------------------------------

CODE = """
from medhelm.domain import Completion

class Echo:
    def __init__(self, model, http):
        self.local, self.endpoint, self.http = not model.base_url, model.base_url, http
    async def complete(self, request):
        if not self.local:
            await self.http.post_json(self.endpoint + "/x", headers={}, payload={})
        return Completion(text=request.prompt.messages[-1].text)

def open_echo(model, around):
    return Echo(model, around.http)
"""


def find(*names: str, file: Path | None = None, **environment: str) -> list[Model]:
    return find_models(names, file=file, environment=environment)


@pytest.fixture
def echo(install: Install) -> str:
    return install("echoes", CODE, providers={"echo": "open_echo", "openai": "open_echo"})


def test_a_model_is_where_its_name_says(echo: str) -> None:
    there, here = find("echo/some/model@http://127.0.0.1:9/v2/", "echo/m", MEDHELM_API_KEY="k")
    assert (there.provider, there.remote_name, there.base_url, there.key_variable) == (
        "echo", "some/model", "http://127.0.0.1:9/v2", "MEDHELM_API_KEY",
    )  # fmt: skip
    assert (here.remote_name, here.base_url, here.key_variable) == ("m", "", "")
    assert missing_key(there, {}) is not None
    assert missing_key(here, {}) is None
    assert find("openai/m")[0].base_url == "https://api.openai.com/v1"
    with pytest.raises(UserError, match=r"http:// would send questions and keys to example\.org unencrypted"):
        find("echo/m@http://example.org")
    for name, words in (("echo/", "a name must follow `echo/`"), ("ecco/m", "Did you mean `echo/m`")):
        with pytest.raises(UserError, match=words):
            find(name)
    assert list(SERVICES)[-1] == "echo"


def test_it_may_be_named_in_models_yaml(echo: str, tmp_path: Path) -> None:
    file = tmp_path / "models.yaml"
    file.write_text(
        "a: {provider: echo, model: m, base_url: 'http://127.0.0.1:9', key: ECHO_KEY, window: 9}\n"
        "echo/plain: {max_tokens: 7}\n",
        encoding="utf-8",
    )
    first, second = find("a", "echo/plain", file=file)
    assert (first.provider, first.remote_name, first.key_variable, first.window) == ("echo", "m", "ECHO_KEY", 9)
    assert (second.provider, second.remote_name, second.base_url, second.max_tokens) == ("echo", "plain", "", 7)
    file.write_text("a: {provider: ehco}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="`ehco` is none of the possible values"):
        find("a", file=file)


def test_what_cannot_be_used_is_told_with_all_other_problems(echo: str, install: Install, tmp_path: Path) -> None:
    install("shaky", "raise OSError('no device')\n", providers={"shaky": "F"})
    with pytest.raises(UserError) as caught:
        find("shaky/m", "nobody/m")
    assert "model `shaky/m`: shaky 0.1 (entry point `shaky` of medhelm.providers) cannot be imported: OSError" in str(
        caught.value
    )
    assert "model `nobody/m`: unknown provider" in str(caught.value)
    file = tmp_path / "models.yaml"
    file.write_text("a: {provider: shaky}\n", encoding="utf-8")
    with pytest.raises(UserError, match="cannot be imported: OSError: no device"):
        find("a", file=file)
    assert find("echo/m", file=file)[0].provider == "echo"


def test_its_way_out_is_the_one_with_the_gate(echo: str, server: Server) -> None:
    server.script(Answer(body={}))

    async def ask(model: Model, gate: EgressPolicy) -> Completion:
        http = HttpClient(gate)
        try:
            request = Request(model=model, prompt=Prompt((Message("user", "?"),)), max_tokens=5)
            return await open_provider(model, http, environment={}).complete(request)
        finally:
            await http.close()

    here, there, inside = find(f"echo/m@{server.url}", "echo/m@https://example.org", "echo/m")
    assert asyncio.run(ask(here, EgressPolicy(offline=True))).text == "?"
    assert server.paths == ["/x"]
    for gate in (EgressPolicy(offline=True), EgressPolicy(offline=False, allowed=("other.org",))):
        with pytest.raises(UserError, match=r"example\.org may not be reached"):
            asyncio.run(ask(there, gate))
    assert asyncio.run(ask(inside, EgressPolicy(offline=True))).text == "?"
