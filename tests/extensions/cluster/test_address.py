"""Addresses and tokens of gateways."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm.errors import MissingError, UserError
from medhelm.extensions.cluster.gateway import NamedToken, Tokens, gateway_address, new_token_file, read_tokens
from medhelm.models.remote import remote_of

TOKEN = "t" * 32


def environment(address: str, **more: str) -> dict[str, str]:
    return {"MEDHELM_GATEWAY": address, "MEDHELM_GATEWAY_TOKEN": TOKEN, **more}


@pytest.mark.parametrize(
    ("address", "url", "socket_file", "is_inside"),
    [
        ("http://127.0.0.1:8643/", "http://127.0.0.1:8643", "", True),
        ("https://gate.hospital.example:8643/v1", "https://gate.hospital.example:8643", "", False),
        ("https://node7:8643", "https://node7:8643", "", True),
        ("unix:/run/g.sock", "http://localhost", "/run/g.sock", True),
    ],
)
def test_addresses(address: str, url: str, socket_file: str, is_inside: bool) -> None:
    found = gateway_address(environment(address))
    assert (found.url, found.socket_file, found.token, found.is_inside) == (url, socket_file, TOKEN, is_inside)
    assert TOKEN not in repr(found) + str(found)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("http://node7:8643", "unencrypted to another machine"),
        ("http://10.0.0.7:8643", "unencrypted to another machine"),
        ("node7:8643", "must begin with http"),
        ("https://node7/elsewhere", "without a path"),
        ("unix:", "must follow `unix:`"),
    ],
)
def test_wrong_addresses(address: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        gateway_address(environment(address))


def test_a_port_needs_a_token_and_a_socket_file_does_not() -> None:
    with pytest.raises(MissingError, match="MEDHELM_GATEWAY_TOKEN_FILE"):
        gateway_address({"MEDHELM_GATEWAY": "http://127.0.0.1:8643"})
    assert gateway_address({"MEDHELM_GATEWAY": "unix:/g.sock"}).token == ""
    assert remote_of({"MEDHELM_GATEWAY": " "}) is None
    assert remote_of({}) is None


def test_files_of_tokens(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    new_token_file(file)
    (made,) = read_tokens(file)
    new_token_file(file)
    assert read_tokens(file) == [made]
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text(f"# wards\nward7 {TOKEN}\n\n{made.token}\n", encoding="utf-8")
    found = read_tokens(file)
    assert found == [NamedToken("ward7", TOKEN), made]
    assert TOKEN not in repr(found)
    tokens = Tokens(found)
    assert [tokens.name_of(text) for text in (TOKEN, made.token, "", "x\udc80")] == ["ward7", "", None, None]
    used = {"MEDHELM_GATEWAY": "http://127.0.0.1:1", "MEDHELM_GATEWAY_TOKEN_FILE": str(file)}
    assert gateway_address(used).token == TOKEN


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "holds no token"),
        ("short\n", "line 1: a token has at least 24"),
        (f"a b {TOKEN}\n", "line 1: write TOKEN, or NAME TOKEN"),
        (f"{TOKEN}\u00e9\n", "line 1: .* ASCII"),
    ],
)
def test_wrong_files_of_tokens(content: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.touch(mode=0o600)
    file.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=words):
        read_tokens(file)


def test_a_file_of_tokens_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(TOKEN, encoding="utf-8")
    file.chmod(0o640)
    with pytest.raises(UserError, match="chmod 600"):
        read_tokens(file)
