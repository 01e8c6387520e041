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
        ("HTTPS://API.OpenAI.com/v1/", "https://api.openai.com/v1"),
        ("http://127.0.0.1:8000/v1/chat/completions", "http://127.0.0.1:8000/v1"),
        ("http://[::1]:8000/v1//", "http://[::1]:8000/v1"),
        ("https://x.openai.azure.com?api-version=2024-10-21", "https://x.openai.azure.com?api-version=2024-10-21"),
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
        ("https://user:hunter2@host/v1", "not contain a user name or password"),
        ("https://host/v1?key=hunter2", "except Azure's"),
        ("http://127.0.0.1@evil.com/v1", "not contain a user name or password"),
        ("https://host\\@evil.com/v1", "a user name"),
        ("https://ho\nst/v1", "not a valid address"),
        ("https://[::zz]/v1", "not a valid address"),
        ("http://llm.hospital.org/v1", "insecure: true"),
    ],
)
def test_bad_addresses_say_why_and_never_repeat_a_password(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as raised:
        checked_address(text)
    assert "hunter2" not in str(raised.value)


@given(st.text(alphabet="abz01.:/@\\?#[]% -_A\n\t", max_size=25), st.sampled_from(["http://", "https://"]))
def test_every_parser_reads_the_same_host(rest: str, scheme: str) -> None:
    try:
        address = checked_address(scheme + rest, insecure=True)
    except ValueError:
        return
    assert host_of(address) == URL(address).raw_host == urlsplit(address).hostname != ""
    assert URL(address).scheme == urlsplit(address).scheme


def test_what_is_inside() -> None:
    inside = ("localhost", "127.8.8.8", "::1", "10.1.2.3", "169.254.1.1", "gpu1")
    outside = ("172.32.0.1", "internal.example.com", "8.8.8.8", "2001:4860::8888")
    assert [is_inside(host) for host in (*inside, *outside)] == [True] * len(inside) + [False] * len(outside)
