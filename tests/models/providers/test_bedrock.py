"""What is sent to Bedrock's Converse, how it is signed, and what of its own its replies hold."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest

from medhelm.domain import Completion, Message, Prompt, Usage
from medhelm.errors import ProviderError
from medhelm.models.providers.bedrock import Bedrock, Credentials, signed_headers
from tests.support.cases import table
from tests.support.models.providers import asked, complete, payload
from tests.support.servers.openai import Server
from tests.support.servers.vendors import BEDROCK, KEYS

SCHEMA = {"type": "object"}
HOST = "https://bedrock-runtime.eu-central-1.amazonaws.com"
MODEL = BEDROCK.model(HOST)
WHO = Credentials(
    key_id=KEYS["AWS_ACCESS_KEY_ID"],
    secret=KEYS["AWS_SECRET_ACCESS_KEY"],
    session_token=KEYS["AWS_SESSION_TOKEN"],
)
FORM = {"type": "json_schema", "structure": {"jsonSchema": {"name": "reply", "schema": json.dumps(SCHEMA)}}}
GUARD = {"guardrailConfig": {"guardrailIdentifier": "g"}}
FIELDS = {"additionalModelRequestFields": {"a": 1}}
SPOKEN = Prompt((Message("system", "Be brief."), Message("user", "Is it?")))


def read(text: str, **changes: Any) -> Completion:
    """What is read of a reply with these changes."""
    return Bedrock(MODEL).read({**BEDROCK.said(text), **changes}, asked(MODEL))


@table(
    ("settings", "request_settings", "config", "beside"),
    [
        ({}, {"stop": ("\n", "END")}, {"temperature": 0.0, "stopSequences": ["END"]}, {}),
        ({}, {"schema": SCHEMA}, {"temperature": 0.0}, {"outputConfig": {"textFormat": FORM}}),
        (
            {"remote_name": "eu.anthropic.claude-sonnet-4-5", "reasoning": True, "reasoning_effort": "low"},
            {},
            {},
            {"outputConfig": {"effort": "low"}},
        ),
        (  # each parameter in its place
            {"parameters": {"topP": 0.9, "top_k": 5, "temperature": None, **GUARD, **FIELDS}},
            {"prompt": SPOKEN},
            {"topP": 0.9},
            {**GUARD, "additionalModelRequestFields": {"a": 1, "top_k": 5}, "system": [{"text": "Be brief."}]},
        ),
        (  # a form of the user's own
            {"parameters": {"outputConfig": {"effort": "max"}}},
            {"schema": SCHEMA},
            {"temperature": 0.0},
            {"outputConfig": {"effort": "max"}},
        ),
    ],
)
def test_each_kind_of_request(
    settings: dict[str, Any], request_settings: dict[str, Any], config: dict[str, Any], beside: dict[str, Any]
) -> None:
    assert payload(Bedrock, asked(BEDROCK.model(HOST, **settings), **request_settings)) == {
        "messages": [{"role": "user", "content": [{"text": "Is it?"}]}],
        "inferenceConfig": {"maxTokens": 5, **config},
        **beside,
    }


def test_the_region_is_that_of_the_host() -> None:
    regions = {
        HOST: "eu-central-1",
        "https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com": "us-gov-west-1",
        "https://vpce-1.bedrock-runtime.us-east-2.vpce.amazonaws.com": "us-east-2",
        "http://127.0.0.1:8000": "us-west-2",
    }
    assert {host: Bedrock(BEDROCK.model(host), region="us-west-2").region for host in regions} == regions


def test_an_api_key_is_sent_as_it_is_and_nothing_is_signed() -> None:
    assert Bedrock(MODEL, key="ABSKx", credentials=WHO).headers(b"{}") == {"Authorization": "Bearer ABSKx"}
    assert Bedrock(MODEL).headers(b"{}") == {}


def test_what_arrives_carries_the_signature_of_what_arrives(server: Server) -> None:
    """A service recomputes the signature from the path, the host and the body that it received."""
    server.script(BEDROCK.answer("A"))
    request = asked(BEDROCK.model(server.url, remote_name="arn:aws:bedrock:x:1:inference-profile/us.x-v1:0"))
    assert complete(request, {**KEYS, "AWS_REGION": "eu-central-1"}).text == "A"
    (received,) = server.headers
    assert server.paths == ["/model/arn%3Aaws%3Abedrock%3Ax%3A1%3Ainference-profile%2Fus.x-v1%3A0/converse"]
    assert received["host"] == urlsplit(server.url).netloc
    moment = datetime.strptime(received["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    url, body = server.url + server.paths[0], json.dumps(payload(Bedrock, request)).encode()
    sign = partial(signed_headers, credentials=WHO, moment=moment, region="eu-central-1", service="bedrock")
    expected = sign("POST", url, body)
    assert received["authorization"] == expected["Authorization"]
    assert received["x-amz-security-token"] == KEYS["AWS_SESSION_TOKEN"]


def test_why_it_stopped() -> None:
    reasons = {"model_context_window_exceeded": "length", "tool_use": "tool_use"}
    assert {reason: read("A", stopReason=reason).finish_reason for reason in reasons} == reasons
    for reason in ("malformed_model_output", "malformed_tool_use"):
        with pytest.raises(ProviderError) as raised:
            read("half", stopReason=reason)
        assert (raised.value.code, raised.value.retryable) == ("interrupted", True)


def test_what_was_cached_is_counted_once_by_models_that_count_it_inside() -> None:
    usage = {"inputTokens": 2000, "outputTokens": 5, "totalTokens": 2005, "cacheReadInputTokens": 1836}
    assert read("A", usage=usage).usage == Usage(input=2000, cached_input=1836, output=5)


# --- Signature Version 4, against AWS's examples and what botocore 1.44.5 computes for the same requests --------------

EXAMPLE = Credentials(key_id="AKIDEXAMPLE", secret="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
INVENTED = Credentials(key_id="AKIDMEDHELMTEST00001", secret="inventedSecret/For+Tests/0123456789abcdefg")
TEMPORARY = Credentials(key_id=INVENTED.key_id, secret=INVENTED.secret, session_token="invented//session+token==")
BODY = b'{"messages": [{"role": "user", "content": [{"text": "Is it \\u2603?"}]}], "inferenceConfig": {"maxTokens": 5}}'
OWN_HOST = (
    "https://bedrock-runtime.eu-central-1.amazonaws.com/model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse"
)
THIS_MACHINE = (
    "http://127.0.0.1:8000/model/arn%3Aaws%3Abedrock%3Aeu-central-1%3A123456789012%3A"
    "inference-profile%2Feu.meta.llama3-v1%3A0/converse"
)


def test_an_example_of_aws() -> None:
    """`post-vanilla` of the Signature Version 4 test suite that AWS publishes for makers of clients."""
    moment, url = datetime(2015, 8, 30, 12, 36, tzinfo=UTC), "https://example.amazonaws.com/"
    sign = partial(signed_headers, credentials=EXAMPLE, moment=moment, region="us-east-1", service="service")
    headers = sign("POST", url, b"")
    signature = "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
    assert headers["Authorization"].endswith(f"Signature={signature}")
    assert headers["X-Amz-Date"] == "20150830T123600Z"


@pytest.mark.parametrize(
    ("url", "credentials", "signature"),
    [
        (OWN_HOST, INVENTED, "aaef4abfcbe7c4e4f15d4a6b7c94cfaba239f7dafcecf4a0489ac6fff4a11d09"),
        (THIS_MACHINE, TEMPORARY, "3cba3afaddbfd7a9163480018b474c03bc420460b61fbaae8adb4078196cc4fa"),
    ],
)
def test_the_same_signature_as_awss_own_client(url: str, credentials: Credentials, signature: str) -> None:
    moment = datetime(2026, 11, 21, 18, 40, 5, tzinfo=UTC)
    sign = partial(signed_headers, credentials=credentials, moment=moment, region="eu-central-1", service="bedrock")
    headers = sign("POST", url, BODY)
    covered = "host;x-amz-date" + (";x-amz-security-token" if credentials.session_token else "")
    assert headers["Authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIDMEDHELMTEST00001/20261121/eu-central-1/bedrock/aws4_request, "
        f"SignedHeaders={covered}, Signature={signature}"
    )
    assert headers.get("X-Amz-Security-Token", "") == credentials.session_token


def test_the_secret_is_not_shown() -> None:
    assert repr(TEMPORARY) == "Credentials(...)"
