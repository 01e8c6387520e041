"""Which key goes where, and what is said of one that is missing or belongs to somebody else."""

from __future__ import annotations

from collections.abc import Mapping

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


def find(name: str, environment: Mapping[str, str]) -> Model:
    (model,) = find_models([name], file=None, environment={**PLACES, **environment})
    return model


OWN_HOSTS = {
    "openai": ("OPENAI_API_KEY", ["api.openai.com/v1", "eu.api.openai.com/v1"], "notapi.openai.com/v1"),
    "azure": ("AZURE_OPENAI_API_KEY", ["x.openai.azure.com", "x.services.ai.azure.com"], "openai.azure.com.org/v1"),
    "anthropic": ("ANTHROPIC_API_KEY", ["api.anthropic.com/v1"], "notapi.anthropic.com/v1"),
    "google": (
        "GEMINI_API_KEY",
        ["generativelanguage.googleapis.com/v1beta"],
        "evil-generativelanguage.googleapis.com/v1beta",
    ),
    "vertex": (
        "GOOGLE_ACCESS_TOKEN",
        [f"{host}.googleapis.com/v1" for host in ("us-central1-aiplatform", "aiplatform", "aiplatform.eu.rep")],
        "evil.com-aiplatform.googleapis.com/v1",
    ),
    "bedrock": (
        "AWS_ACCESS_KEY_ID",
        [
            "bedrock-runtime-fips.us-gov-west-1.amazonaws.com",
            "bedrock-runtime.us-east-1.api.aws",
            "vpce-1.bedrock-runtime.us-east-2.vpce.amazonaws.com",
        ],
        "bucket.s3.amazonaws.com",
    ),
}
"""Provider -> the variable of its key, addresses of its own hosts, and one that ends like them."""


@pytest.mark.parametrize("provider", OWN_HOSTS)
def test_each_key_goes_only_where_it_belongs(provider: str) -> None:
    """Not to a host that only contains the name, not to another provider's, and not without encryption."""
    variable, hosts, alike = OWN_HOSTS[provider]
    stranger = "anthropic" if provider == "openai" else "openai"
    elsewhere = [f"https://{alike}", f"https://{OWN_HOSTS[stranger][1][0]}", "http://10.0.0.5/v1"]
    for host in hosts:
        assert key_variable(provider, f"https://{host}", KEYS) == variable
        assert key_variable(stranger, f"https://{host}", KEYS) == "MEDHELM_API_KEY"
        name, _, path = host.partition("/")
        elsewhere += [f"https://{name}.evil.com/{path}", f"https://evil.com/{host}", f"http://{host}"]
    assert {key_variable(provider, address, KEYS) for address in elsewhere} == {"MEDHELM_API_KEY"}


@pytest.mark.parametrize("provider", OWN_HOSTS)
def test_other_hosts_get_nothing_but_the_general_key(provider: str) -> None:
    own = {name: key for name, key in KEYS.items() if name != "MEDHELM_API_KEY"}
    assert key_variable(provider, "https://gateway.example/v1", own) == ""
    assert key_variable(provider, "http://127.0.0.1:8000/v1", {}) == ""
    assert key_variable(provider, "http://127.0.0.1:8000/v1", KEYS) == "MEDHELM_API_KEY"
    assert key_variable(provider, "http://127.0.0.1:8000/v1", own) in own


def test_of_several_variables_the_first_that_is_set_counts() -> None:
    both = {"GOOGLE_API_KEY": "AIza1", "GEMINI_API_KEY": "AIza2"}
    assert find("google/g", both).key_variable == "GEMINI_API_KEY"
    assert find("google/g", {**both, "GEMINI_API_KEY": " "}).key_variable == "GOOGLE_API_KEY"


def test_a_key_of_aws_needs_its_secret() -> None:
    half, whole = {"AWS_ACCESS_KEY_ID": "AKIA1"}, {"AWS_ACCESS_KEY_ID": "AKIA1", "AWS_SECRET_ACCESS_KEY": "s\n"}
    said = "bedrock/b needs a key: set the environment variable AWS_SECRET_ACCESS_KEY."
    assert [missing_key(find("bedrock/b", half), known) for known in (half, whole)] == [said, None]


STRANGERS = [
    ("openai/m", "sk-or-v1-secret", "a key for OpenRouter: it begins with `sk-or-`. Use a key for OpenAI."),
    ("anthropic/m", "sk-proj-secret", "a key for OpenAI: it begins with `sk-`. Use a key for Anthropic; this one"),
    ("google/m", "ya29.secret", "Use a key for Google Gemini; this one belongs in GOOGLE_ACCESS_TOKEN."),
    ("bedrock/m", "AKIAsecret", "this one belongs in AWS_ACCESS_KEY_ID."),
    ("vertex/m", "AQ.AbSecret", "begins with `AQ.`. Use a key for Google Vertex AI"),
]


@table(("name", "key", "said"), STRANGERS)
def test_a_key_of_another_service_is_recognized_and_not_repeated(name: str, key: str, said: str) -> None:
    variable = "AWS_BEARER_TOKEN_BEDROCK" if key.startswith("AKIA") else ""
    model = find(name, {variable: key})
    found = missing_key(model, {model.key_variable: key, "AWS_SECRET_ACCESS_KEY": "s"}) or ""
    assert said in found
    assert "ecret" not in found.replace("AWS_SECRET", "")


NO_KEYS = {
    "\N{LEFT DOUBLE QUOTATION MARK}{}\N{RIGHT DOUBLE QUOTATION MARK}": "has a quotation mark at its beginning or end",
    "Bearer {}": "begins with `Bearer`, which medhelm adds itself",
    "OPENAI_API_KEY={}": "begins with `OPENAI_API_KEY=`, the name of a variable",
    "{}\n{}": "has more than one word or line",
    "{}\N{EN DASH}0": "contains characters that keys never have",
    **dict.fromkeys(("your-api-key-here", "<YOUR_KEY>", "$OPENAI_API_KEY", "sk-...", "xxxxxxxx"), "is a placeholder"),
}
"""What stands in the variable -> what is said of it."""


@pytest.mark.parametrize(("form", "said"), NO_KEYS.items())
def test_what_is_no_key_says_what_to_do_and_is_not_repeated(form: str, said: str) -> None:
    secret = "QwErTy0123456789"
    model, key = find("openai/m", {}), form.replace("{}", secret)
    found = missing_key(model, {model.key_variable: key}) or ""
    assert f"openai/m: the value of {model.key_variable} {said}" in found
    assert found.endswith("Set it again, to the key alone.")
    assert secret not in found
    assert key_state(model, {model.key_variable: key}) == "wrong"


def test_a_key_id_and_its_secret_that_are_exchanged_are_recognized() -> None:
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    swapped = {"AWS_ACCESS_KEY_ID": secret, "AWS_SECRET_ACCESS_KEY": "AKIAIOSFODNN7EXAMPLE"}
    said = missing_key(find("bedrock/m", swapped), swapped) or ""
    assert "the value of AWS_SECRET_ACCESS_KEY belongs in AWS_ACCESS_KEY_ID. Set both variables again." in said
    assert secret not in said


def test_other_keys_are_let_through() -> None:
    gateway = "openai/m@http://127.0.0.1:4000/v1"
    keys = {gateway: "EMPTY key=value sk-ant-a-gateway-of-ones-own", "openai/m": "sk-proj-x anything"}
    for name, allowed in {**keys, "google/m": "AIzaX AQ.new-form", "bedrock/m": "ASIAX", "vertex/m": "ya29.x"}.items():
        for key in allowed.split():
            model = find(name, {"MEDHELM_API_KEY": key} if name == gateway else {})
            assert missing_key(model, {model.key_variable: key, "AWS_SECRET_ACCESS_KEY": "s"}) is None, key
    assert missing_key(find("openai/q@http://127.0.0.1:1/v1", {}), {}) is None
