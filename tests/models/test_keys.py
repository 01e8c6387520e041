"""Which key goes where, and what is said of one that is missing or belongs to somebody else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from medhelm.domain import Model
from medhelm.models.catalog import find_models
from medhelm.models.keys import key_state, key_variable, missing_key
from tests.support.cases import table

KEYS = {
    "OPENAI_API_KEY": "sk-o",
    "AZURE_OPENAI_API_KEY": "az",
    "ANTHROPIC_API_KEY": "sk-ant-a",
    "GEMINI_API_KEY": "AIzaG",
    "GOOGLE_ACCESS_TOKEN": "ya29.v",
    "AWS_ACCESS_KEY_ID": "AKIAINVENTED",
    "AWS_SECRET_ACCESS_KEY": "s",
    "MEDHELM_API_KEY": "mh",
}
PLACES = {"AWS_REGION": "eu-central-1", "GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "us-central1"}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No models.yaml lies around."""
    monkeypatch.chdir(tmp_path)


def find(name: str, environment: Mapping[str, str]) -> Model:
    (model,) = find_models([name], file=None, environment={**PLACES, **environment})
    return model


OWN_HOSTS = {
    "openai OPENAI_API_KEY": ["api.openai.com/v1", "eu.api.openai.com/v1"],
    "azure AZURE_OPENAI_API_KEY": ["x.openai.azure.com", "x.services.ai.azure.com"],
    "anthropic ANTHROPIC_API_KEY": ["api.anthropic.com/v1"],
    "google GEMINI_API_KEY": ["generativelanguage.googleapis.com/v1beta"],
    "vertex GOOGLE_ACCESS_TOKEN": ["us-central1-aiplatform.googleapis.com/v1/projects/p",
                                   "aiplatform.googleapis.com/v1/projects/p", "aiplatform.eu.rep.googleapis.com/v1"],
    "bedrock AWS_ACCESS_KEY_ID": ["bedrock-runtime.us-east-1.amazonaws.com",
                                  "bedrock-runtime-fips.us-gov-west-1.amazonaws.com",
                                  "bedrock-runtime.us-east-1.api.aws",
                                  "vpce-1.bedrock-runtime.us-east-2.vpce.amazonaws.com"],
}  # fmt: skip
"""Provider and the variable of its key -> addresses of its own hosts."""


PREFIXED = {
    "openai": "https://notapi.openai.com/v1",
    "azure": "https://openai.azure.com.org/v1",
    "anthropic": "https://notapi.anthropic.com/v1",
    "google": "https://evil-generativelanguage.googleapis.com/v1beta",
    "vertex": "https://evil.com-aiplatform.googleapis.com/v1",
    "bedrock": "https://bucket.s3.amazonaws.com",
}
"""Provider -> an address that ends like one of its own."""


@pytest.mark.parametrize(
    ("provider", "variable", "host"),
    [(*whose.split(), host) for whose, hosts in OWN_HOSTS.items() for host in hosts],
)
def test_each_key_goes_only_where_it_belongs(provider: str, variable: str, host: str) -> None:
    """Not to a host that only contains the name, not to another provider's, and not without encryption."""
    assert key_variable(provider, f"https://{host}", KEYS) == variable
    name, _, path = host.partition("/")
    others = [f"https://{name}.evil.com/{path}", f"https://evil.com/{host}", f"http://{host}", PREFIXED[provider]]
    stranger, its_host = (
        ("anthropic", "api.anthropic.com/v1") if provider == "openai" else ("openai", "api.openai.com/v1")
    )
    for address in (*others, f"https://{its_host}", "http://10.0.0.5/v1"):
        assert key_variable(provider, address, KEYS) == "MEDHELM_API_KEY", address
    assert key_variable(stranger, f"https://{host}", KEYS) == "MEDHELM_API_KEY"


@pytest.mark.parametrize("provider", ["openai", "azure", "anthropic", "google", "vertex", "bedrock"])
def test_other_hosts_get_nothing_but_the_general_key(provider: str) -> None:
    own = {name: key for name, key in KEYS.items() if name != "MEDHELM_API_KEY"}
    assert key_variable(provider, "https://gateway.example/v1", own) == ""
    assert key_variable(provider, "http://127.0.0.1:8000/v1", {}) == ""
    assert key_variable(provider, "http://127.0.0.1:8000/v1", KEYS) == "MEDHELM_API_KEY"
    assert key_variable(provider, "http://127.0.0.1:8000/v1", own) in own


@pytest.mark.parametrize(
    ("name", "environment", "variable"),
    [
        ("google/g", {"GOOGLE_API_KEY": "AIza1"}, "GOOGLE_API_KEY"),
        ("google/g", {"GOOGLE_API_KEY": "AIza1", "GEMINI_API_KEY": "AIza2"}, "GEMINI_API_KEY"),
        ("google/g", {"GOOGLE_API_KEY": "AIza1", "GEMINI_API_KEY": " "}, "GOOGLE_API_KEY"),
        ("bedrock/b", {"AWS_BEARER_TOKEN_BEDROCK": "ABSKx", "AWS_ACCESS_KEY_ID": "AKIA1"}, "AWS_BEARER_TOKEN_BEDROCK"),
        ("bedrock/b", {"AWS_ACCESS_KEY_ID": "AKIA1"}, "AWS_ACCESS_KEY_ID"),
    ],
)
def test_of_several_variables_the_first_that_is_set_counts(
    name: str, environment: Mapping[str, str], variable: str
) -> None:
    assert find(name, environment).key_variable == variable


def test_a_key_of_aws_is_nothing_without_its_secret() -> None:
    model = find("bedrock/b", {"AWS_ACCESS_KEY_ID": "AKIA1"})
    said = missing_key(model, {"AWS_ACCESS_KEY_ID": "AKIA1"})
    assert said == "bedrock/b needs a key: set the environment variable AWS_SECRET_ACCESS_KEY."
    assert missing_key(model, {"AWS_ACCESS_KEY_ID": "AKIA1", "AWS_SECRET_ACCESS_KEY": "s\n"}) is None
    said = missing_key(model, {"AWS_ACCESS_KEY_ID": "AKIA1", "AWS_SECRET_ACCESS_KEY": "a\nb"}) or ""
    assert "the value of AWS_SECRET_ACCESS_KEY has more than one word or line" in said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("anthropic/c", "set the environment variable ANTHROPIC_API_KEY."),
        ("google/g", "set the environment variable GEMINI_API_KEY. (GOOGLE_API_KEY is read too.)"),
        ("vertex/g", "GOOGLE_ACCESS_TOKEN. `gcloud auth print-access-token` prints one, which lasts an hour."),
        ("bedrock/b", "AWS_ACCESS_KEY_ID. (Or set AWS_BEARER_TOKEN_BEDROCK to a Bedrock API key.)"),
    ],
)
def test_what_is_missing_is_named(name: str, said: str) -> None:
    assert (missing_key(find(name, {}), {}) or "").endswith(said)


STRANGERS = [
    ("openai/m", "sk-ant-api03-secret",
     "it begins with `sk-ant-`. Use a key for OpenAI; this one belongs in ANTHROPIC_API_KEY."),
    ("openai/m", "sk-or-v1-secret", "a key for OpenRouter: it begins with `sk-or-`. Use a key for OpenAI."),
    ("anthropic/m", "sk-proj-secret",
     "a key for OpenAI: it begins with `sk-`. Use a key for Anthropic; this one belongs in OPENAI_API_KEY."),
    ("google/m", "ya29.secret",
     "it begins with `ya29.`. Use a key for Google Gemini; this one belongs in GOOGLE_ACCESS_TOKEN."),
    ("vertex/m", "AIzaSecret", "a key for Google Gemini"),
    ("bedrock/m", "ABSKsecret", "begins with `ABSK`. Use a key for Amazon Bedrock; this one belongs in A"),
    ("bedrock/m", "AKIAsecret", "this one belongs in AWS_ACCESS_KEY_ID."),
    ("vertex/m", "AQ.AbSecret", "begins with `AQ.`. Use a key for Google Vertex AI"),
]  # fmt: skip


@table(("name", "key", "said"), STRANGERS)
def test_a_key_of_another_service_is_recognized_and_not_repeated(name: str, key: str, said: str) -> None:
    variable = "AWS_BEARER_TOKEN_BEDROCK" if key.startswith("AKIA") else ""
    model = find(name, {variable: key})
    found = missing_key(model, {model.key_variable: key, "AWS_SECRET_ACCESS_KEY": "s"})
    assert said in (found or "")
    assert key not in (found or "")
    assert "ecret" not in (found or "").replace("AWS_SECRET", "")


NO_KEYS = {
    "\N{LEFT DOUBLE QUOTATION MARK}{}\N{RIGHT DOUBLE QUOTATION MARK}": "has a quotation mark at its beginning or end",
    "{}'": "has a quotation mark at its beginning or end",
    "Bearer {}": "begins with `Bearer`, which medhelm adds itself",
    "OPENAI_API_KEY={}": "begins with `OPENAI_API_KEY=`, the name of a variable",
    "export OPENAI_API_KEY={}": "begins with `export OPENAI_API_KEY=`, the name of a variable",
    "{}\n{}": "has more than one word or line",
    "{} {}": "has more than one word or line",
    "{}\N{EN DASH}0": "contains characters that keys never have",
    "{}\x00": "contains characters that keys never have",
    **dict.fromkeys(("your-api-key-here", "<YOUR_KEY>", "$OPENAI_API_KEY", "sk-...", "xxxxxxxx"), "is a placeholder"),
}
"""What stands in the variable -> what is said of it."""


@pytest.mark.parametrize(("form", "said"), NO_KEYS.items())
@pytest.mark.parametrize("name", ["openai/m", "azure/m@https://a.openai.azure.com", "vertex/m"])
def test_what_is_no_key_says_what_to_do_and_is_not_repeated(name: str, form: str, said: str) -> None:
    secret = "QwErTy0123456789"
    model, key = find(name, {}), form.replace("{}", secret)
    found = missing_key(model, {model.key_variable: key}) or ""
    assert f"{name}: the value of {model.key_variable} {said}" in found
    assert found.endswith("Set it again, to the key alone.")
    assert secret not in found
    assert key_state(model, {model.key_variable: key}) == "wrong"


def test_a_key_id_and_its_secret_that_are_exchanged_are_recognized() -> None:
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    swapped = {"AWS_ACCESS_KEY_ID": secret, "AWS_SECRET_ACCESS_KEY": "AKIAIOSFODNN7EXAMPLE"}
    said = missing_key(find("bedrock/m", swapped), swapped) or ""
    assert "the value of AWS_SECRET_ACCESS_KEY belongs in AWS_ACCESS_KEY_ID. Set both variables again." in said
    assert secret not in said


@table(
    ("name", "key"),
    [
        *[("openai/m", key) for key in ("sk-proj-x", "none", "anything")],
        *[("openai/m@http://127.0.0.1:4000/v1", key) for key in ("EMPTY", "key=value", "sk-ant-a-gateway-of-ones-own")],
        ("openai/m@https://gateway.example/v1", "hf_x"),
        *[("google/m", key) for key in ("AIzaX", "AQ.new-form")],
        *[("bedrock/m", key) for key in ("AKIAX", "ASIAX")],
        ("anthropic/m", "sk-ant-x"),
        ("vertex/m", "ya29.x"),
    ],
)
def test_other_keys_are_let_through(name: str, key: str) -> None:
    model = find(name, {"MEDHELM_API_KEY": key} if "@" in name else {})
    assert missing_key(model, {model.key_variable: key, "AWS_SECRET_ACCESS_KEY": "s"}) is None
