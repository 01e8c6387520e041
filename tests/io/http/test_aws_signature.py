"""Signature Version 4, against AWS's published examples and what botocore 1.44.5 computes for the same requests."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import pytest

from medhelm.models.providers.bedrock import Credentials, signed_headers

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
