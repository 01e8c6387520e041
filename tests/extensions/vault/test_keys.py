"""Keys of stores: where they come from, and what wrong ones are told."""

from __future__ import annotations

import base64
import os
import sys
from pathlib import Path

import pytest

from medhelm.errors import MedHelmError, MissingError, StoreError
from medhelm.extensions.vault.files import (
    DecryptionError,
    fingerprint,
    new_key,
    new_section,
    open_section,
    read_user_keys,
    wrap_again,
)
from medhelm.io.files import KEY_VARIABLE

KEY = bytes(range(32))
OTHER = bytes(range(1, 33))
TEXT = base64.b64encode(KEY).decode()


@pytest.mark.parametrize(
    "content",
    [f" {TEXT}\r\n", KEY.hex().upper(), base64.urlsafe_b64encode(KEY).decode(), KEY],
)
def test_a_key_comes_from_a_file_in_every_usual_form(content: str | bytes, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert read_user_keys({f"{KEY_VARIABLE}_FILE": str(file)}) == [KEY]


def test_a_key_comes_from_a_variable_or_a_command(tmp_path: Path) -> None:
    script = tmp_path / "vault client.py"
    script.write_text(f"print({TEXT!r}); print({OTHER.hex()!r})", encoding="utf-8")
    assert read_user_keys({KEY_VARIABLE: TEXT}) == [KEY]
    assert read_user_keys({f"{KEY_VARIABLE}_COMMAND": f"{sys.executable} '{script}'"}) == [KEY, OTHER]


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({KEY_VARIABLE: ""}, "key is missing"),
        ({KEY_VARIABLE: TEXT, f"{KEY_VARIABLE}_FILE": "key"}, "are both set"),
        ({KEY_VARIABLE: f"{TEXT} SECRETSECRET"}, "holds no key"),
        ({f"{KEY_VARIABLE}_COMMAND": f"{sys.executable} -c 'print(\"SECRETSECRET\"); exit(3)'"}, "exit code 3"),
        ({f"{KEY_VARIABLE}_COMMAND": "/nowhere/vault --token SECRETSECRET"}, "cannot be run"),
    ],
)
def test_a_missing_or_invalid_key_is_explained_and_never_shown(environment: dict[str, str], words: str) -> None:
    with pytest.raises(MedHelmError, match=words) as caught:
        read_user_keys(environment)
    assert "SECRET" not in str(caught.value)
    assert TEXT not in str(caught.value)
    assert isinstance(caught.value, MissingError if words == "key is missing" else StoreError)


def test_a_store_opens_with_any_of_the_keys_given_and_with_another_one_once_its_key_is_wrapped_again() -> None:
    section = new_section(KEY)
    message = open_section(section, [KEY]).encrypt(b"text", b"about")
    assert open_section(section, [OTHER, KEY]).decrypt(message, b"about") == b"text"
    with pytest.raises(StoreError, match=f"key of fingerprint {fingerprint(KEY)}.*gave {fingerprint(OTHER)}"):
        open_section(section, [OTHER])
    with pytest.raises(StoreError, match="fingerprint"):
        wrap_again(section, [OTHER])
    changed = wrap_again(section, [OTHER, KEY])
    assert open_section(changed, [OTHER]).decrypt(message, b"about") == b"text"
    with pytest.raises(StoreError, match="fingerprint"):
        open_section(changed, [KEY])
    key = new_key()
    assert "object at" in repr(key), "it does not show itself"
    for message in (os.urandom(40), b""):
        with pytest.raises(DecryptionError, match="it was changed"):
            key.decrypt(message, b"")


def test_a_damaged_section_is_an_error() -> None:
    section = new_section(KEY)
    for name, text in section.items():
        changed = text[:-4] + ("0000" if not text.endswith("0000") else "1111")
        for other in ({**section, name: changed}, {**section, name: None}, {**section, name: ""}):
            with pytest.raises(StoreError):
                open_section(other, [KEY])
        with pytest.raises(StoreError):
            open_section({key: value for key, value in section.items() if key != name}, [KEY])
