"""Addresses of services: one form, and one reading only."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from medhelm.io.http.hosts import host_of, is_inside
from medhelm.models.addresses import checked_address
from tests.support.cases import table


@table(
    ("text", "address"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1"),
        ("HTTPS://API.OpenAI.com/v1/", "https://api.openai.com/v1"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/v1/chat/completions", "http://127.0.0.1:8000/v1"),
        ("http://localhost:8000", "http://localhost:8000"),
        ("http://[::1]:8000/v1//", "http://[::1]:8000/v1"),
        ("http://10.0.0.5:8000/v1", "http://10.0.0.5:8000/v1"),
        ("http://llm.svc.cluster.local/v1", "http://llm.svc.cluster.local/v1"),
        ("http://host.docker.internal:11434/v1", "http://host.docker.internal:11434/v1"),
        ("https://x.openai.azure.com?api-version=2024-10-21", "https://x.openai.azure.com?api-version=2024-10-21"),
        ("https://gateway/a/b/Case/v1", "https://gateway/a/b/Case/v1"),
        (" https://gateway/v1/ \n", "https://gateway/v1"),
        ("https://gateway/v1/responses", "https://gateway/v1"),
        ("https://gateway/v1/models/", "https://gateway/v1"),
        ("https://gateway/models", "https://gateway/models"),
    ],
)
def test_good_addresses_get_one_form(text: str, address: str) -> None:
    assert checked_address(text) == address
    assert checked_address(address) == address


@table(
    ("text", "reason"),
    [
        ("", "begin with http:// or https://"),
        ("127.0.0.1:8000/v1", "begin with http:// or https://"),
        ("ftp://host/v1", "begin with http:// or https://"),
        ("https://user:hunter2@host/v1", "not contain a user name or password"),
        ("http://127.0.0.1@evil.com/v1", "not contain a user name or password"),
        ("https://host/v1?key=hunter2", "except Azure's"),
        ("https://host/v1#part", "except Azure's"),
        ("https://host\\@evil.com/v1", "a user name"),
        ("https://host\\evil/v1", "not a valid address"),
        ("https:///v1", "not a valid address"),
        ("https://host:99999/v1", "port 99999 does not exist: ports go up to 65535"),
        ("https://ho\nst/v1", "not a valid address"),
        ("https://host/v1\x00", "not a valid address"),
        ("https://[::zz]/v1", "not a valid address"),
        ("https://[1:2]/v1", "not a valid address"),
        ("https://-host/v1", "not a valid address"),
        ("http://api.openai.com/v1", "unencrypted"),
        ("http://llm.hospital.org/v1", "insecure: true"),
        ("http://0.0.0.0:8000/v1", "unencrypted"),
    ],
)
def test_bad_addresses_say_why_and_never_repeat_a_password(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as raised:
        checked_address(text)
    assert "hunter2" not in str(raised.value)


def test_insecure_is_a_choice() -> None:
    assert checked_address("http://llm.hospital.org/v1", insecure=True) == "http://llm.hospital.org/v1"


@given(st.text(alphabet="abz01.:/@\\?#[]% -_A\n\t", max_size=25), st.sampled_from(["http://", "https://"]))
def test_every_parser_reads_the_same_host(rest: str, scheme: str) -> None:
    try:
        address = checked_address(scheme + rest, insecure=True)
    except ValueError:
        return
    assert host_of(address) == URL(address).raw_host == urlsplit(address).hostname != ""
    assert URL(address).scheme == urlsplit(address).scheme


@table(
    ("host", "inside"),
    [
        ("localhost", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("10.1.2.3", True),
        ("172.32.0.1", False),
        ("169.254.1.1", True),
        ("gpu1", True),
        ("internal.example.com", False),
        ("8.8.8.8", False),
        ("2001:4860::8888", False),
    ],
)
def test_what_is_inside(host: str, inside: bool) -> None:
    assert is_inside(host) == inside
