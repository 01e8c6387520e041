"""Addresses of services: one form, and one reading only."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from medhelm.models.addresses import azure_address, checked_address, host_of, is_inside


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1"),
        ("HTTPS://API.OpenAI.com/v1/", "https://api.openai.com/v1"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/v1/chat/completions", "http://127.0.0.1:8000/v1"),
        ("http://localhost:8000", "http://localhost:8000"),
        ("http://[::1]:8000/v1//", "http://[::1]:8000/v1"),
        ("http://10.0.0.5:8000/v1", "http://10.0.0.5:8000/v1"),
        ("http://192.168.1.2/v1", "http://192.168.1.2/v1"),
        ("http://[fd00::1]/v1", "http://[fd00::1]/v1"),
        ("http://gpu-node-3:8000/v1", "http://gpu-node-3:8000/v1"),
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


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "begins with http:// or https://"),
        ("127.0.0.1:8000/v1", "begins with http:// or https://"),
        ("ftp://host/v1", "begins with http:// or https://"),
        ("https://user:hunter2@host/v1", "no user name and no password"),
        ("http://127.0.0.1@evil.com/v1", "no user name and no password"),
        ("https://host/v1?key=hunter2", "may follow"),
        ("https://host/v1#part", "may follow"),
        ("https://host\\@evil.com/v1", "no user name"),
        ("https://host\\evil/v1", "not an address"),
        ("https://", "not an address"),
        ("https:///v1", "not an address"),
        ("https://host:99999/v1", "no port 99999: ports go up to 65535"),
        ("https://host:port/v1", "not an address"),
        ("https://ho st/v1", "not an address"),
        ("https://ho\nst/v1", "not an address"),
        ("https://host/v1\x00", "not an address"),
        ("https://[::zz]/v1", "not an address"),
        ("https://[1:2]/v1", "not an address"),
        ("https://a..b/v1", "not an address"),
        ("https://-host/v1", "not an address"),
        ("http://api.openai.com/v1", "unencrypted"),
        ("http://8.8.8.8/v1", "unencrypted"),
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


@pytest.mark.parametrize(
    ("host", "inside"),
    [
        ("localhost", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("10.1.2.3", True),
        ("172.16.0.1", True),
        ("172.32.0.1", False),
        ("169.254.1.1", True),
        ("gpu1", True),
        ("gpu1.internal", True),
        ("internal.example.com", False),
        ("8.8.8.8", False),
        ("2001:4860::8888", False),
    ],
)
def test_what_is_inside(host: str, inside: bool) -> None:
    assert is_inside(host) == inside


RESOURCE = "https://x.openai.azure.com"


@pytest.mark.parametrize(
    ("address", "version", "result"),
    [
        (RESOURCE, "", f"{RESOURCE}/openai/v1"),
        (RESOURCE, "2024-10-21", f"{RESOURCE}/openai/deployments/my%20gpt?api-version=2024-10-21"),
        (f"{RESOURCE}?api-version=9", "8", f"{RESOURCE}/openai/deployments/my%20gpt?api-version=9"),
        (f"{RESOURCE}/openai", "", f"{RESOURCE}/openai/v1"),
        (f"{RESOURCE}/openai", "8", f"{RESOURCE}/openai/deployments/my%20gpt?api-version=8"),
        (f"{RESOURCE}/openai/v1", "8", f"{RESOURCE}/openai/v1"),
        (f"{RESOURCE}/openai/deployments/d?api-version=9", "8", f"{RESOURCE}/openai/deployments/d?api-version=9"),
        (f"{RESOURCE}/openai/deployments/d", "8", f"{RESOURCE}/openai/deployments/d?api-version=8"),
        (f"{RESOURCE}/openai/deployments/d", "", f"{RESOURCE}/openai/deployments/d"),
        ("https://y.azure-api.net/team", "", "https://y.azure-api.net/team/openai/v1"),
        (f"{RESOURCE}/v1", "", f"{RESOURCE}/openai/v1"),
        (f"{RESOURCE}/openai/responses?api-version=9", "", f"{RESOURCE}/openai/deployments/my%20gpt?api-version=9"),
        ("https://y.services.ai.azure.com/models?api-version=9", "", "https://y.services.ai.azure.com/openai/v1"),
        (
            "https://y.services.ai.azure.com/api/projects/p",
            "",
            "https://y.services.ai.azure.com/api/projects/p/openai/v1",
        ),
    ],
)
def test_azure_has_two_forms(address: str, version: str, result: str) -> None:
    assert azure_address(address, "my gpt", version) == result
