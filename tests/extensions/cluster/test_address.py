"""Addresses and tokens of gateways."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm.errors import MissingError, UserError
from medhelm.extensions.cluster.gateway import NamedToken, Tokens, gateway_address, new_token_file, read_tokens
from medhelm.models.gateway import remote_of

TOKEN = "t" * 32


def environment(address: str, **more: str) -> dict[str, str]:
    return {"MEDHELM_GATEWAY": address, "MEDHELM_GATEWAY_TOKEN": TOKEN, **more}


def test_addresses() -> None:
    for address, url, socket_file, is_inside in (
        ("http://127.0.0.1:8643/", "http://127.0.0.1:8643", "", True),
        ("https://gate.hospital.example:8643/v1", "https://gate.hospital.example:8643", "", False),
        ("https://node7:8643", "https://node7:8643", "", True),
        ("unix:/run/g.sock", "http://localhost", "/run/g.sock", True),
    ):
        found = gateway_address(environment(address))
        assert (found.url, found.socket_file, found.token, found.is_inside) == (url, socket_file, TOKEN, is_inside)
        assert TOKEN not in repr(found) + str(found)


def test_a_port_needs_a_token_and_encryption_and_a_socket_file_does_not() -> None:
    with pytest.raises(MissingError, match="MEDHELM_GATEWAY_TOKEN_FILE"):
        gateway_address({"MEDHELM_GATEWAY": "http://127.0.0.1:8643"})
    with pytest.raises(UserError, match="unencrypted to another machine"):
        gateway_address(environment("http://node7:8643"))
    with pytest.raises(UserError, match="must begin with http"):
        gateway_address(environment("node7:8643"))
    assert gateway_address({"MEDHELM_GATEWAY": "unix:/g.sock"}).token == ""
    assert remote_of({"MEDHELM_GATEWAY": " "}) is None


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


def test_wrong_files_of_tokens(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.touch(mode=0o600)
    for content, words in (
        ("", "holds no token"),
        ("short\n", "line 1: a token has at least 24"),
        (f"{TOKEN}\u00e9\n", "line 1: .* ASCII"),
    ):
        file.write_text(content, encoding="utf-8")
        with pytest.raises(UserError, match=words):
            read_tokens(file)
    file.chmod(0o640)
    with pytest.raises(UserError, match="chmod 600"):
        read_tokens(file)
