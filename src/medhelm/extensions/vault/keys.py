"""Keys of encrypted stores: the user's, from the environment, and the store's own, which it wraps.

The files of a store are encrypted with a random key that never changes. `store.json` holds it, itself encrypted
("wrapped") with the user's key. So a new user's key needs one small file to be written, and no two stores share a key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from medhelm.errors import MissingError, StoreError
from medhelm.io.files import KEY_VARIABLE, given_variables

ALGORITHM = "AES-256-GCM"
"""Name of the algorithm in `store.json`."""

KEY_BYTES, NONCE_BYTES, ID_BYTES = 32, 12, 8
"""Sizes of a key, of the random number that makes each message different, and of the id of a store's key."""

COMMAND_S = 120.0
"""Maximum number of seconds for a command that prints the key."""

_WRAPPED = b"medhelm store key 1 "
"""Authenticated with a wrapped key and its id."""


class DecryptionError(StoreError, ValueError):
    """Encrypted bytes were changed, truncated, moved from elsewhere, or encrypted with another key."""


class StoreKey:
    """Encrypts and decrypts with the key of a store. Its text never shows the key."""

    def __init__(self, key: bytes, key_id: bytes) -> None:
        """`key`: KEY_BYTES random bytes; `key_id`: its public id, of ID_BYTES."""
        self.id = key_id
        self._cipher = _cipher(key)

    def encrypt(self, content: bytes, about: bytes) -> bytes:
        """Encrypt a message. `about`: its context, which must be given again to decrypt it."""
        nonce = os.urandom(NONCE_BYTES)
        sealed: bytes = self._cipher.encrypt(nonce, content, about)
        return nonce + sealed

    def decrypt(self, message: bytes, about: bytes) -> bytes:
        """Decrypt a message. Raises: DecryptionError if it was not encrypted with this key and `about`."""
        from cryptography.exceptions import InvalidTag

        try:
            content: bytes = self._cipher.decrypt(message[:NONCE_BYTES], message[NONCE_BYTES:], about)
        except (InvalidTag, ValueError):
            raise DecryptionError("it was changed, or is not what was encrypted for this place") from None
        return content


def new_key() -> StoreKey:
    """Return a random key that is not stored, for temporary files."""
    return StoreKey(os.urandom(KEY_BYTES), os.urandom(ID_BYTES))


def _cipher(key: bytes) -> Any:
    try:
        import fsspec  # noqa: F401 - DuckDB opens encrypted files with it: known now, not after the first request
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise MissingError(
            f"the store is encrypted, which needs the package `{error.name}`. "
            "Install it, in a checkout with `pip install '.[encryption]'`."
        ) from None
    return AESGCM(key)


# --- the section of store.json ----------------------------------------------------------------------------------------


def fingerprint(key: bytes) -> str:
    """Return the public name of a user's key."""
    return hashlib.sha256(_WRAPPED + key).hexdigest()[:16]


def new_section(user_key: bytes) -> dict[str, str]:
    """Make a key for a store and return the section of `store.json` that holds it, wrapped with the user's."""
    return _section(os.urandom(KEY_BYTES), os.urandom(ID_BYTES), user_key)


def wrap_again(section: Mapping[str, Any], user_keys: Sequence[bytes]) -> dict[str, str]:
    """Return the section with the same key, wrapped with the first user's key. Raises: StoreError."""
    return _section(_unwrap(section, user_keys), bytes.fromhex(section["key_id"]), user_keys[0])


def open_section(section: Mapping[str, Any], user_keys: Sequence[bytes]) -> StoreKey:
    """Return the key of a store. Raises: StoreError if no user's key is the right one, or the section is damaged."""
    return StoreKey(_unwrap(section, user_keys), bytes.fromhex(section["key_id"]))


def _section(key: bytes, key_id: bytes, user_key: bytes) -> dict[str, str]:
    wrapped = StoreKey(user_key, b"").encrypt(key, _WRAPPED + key_id)
    return {
        "cipher": ALGORITHM,
        "key_id": key_id.hex(),
        "wrapped_by": fingerprint(user_key),
        "wrapped_key": base64.b64encode(wrapped).decode(),
    }


def _unwrap(section: Mapping[str, Any], user_keys: Sequence[bytes]) -> bytes:
    try:
        wanted, cipher, key_id = section["wrapped_by"], section["cipher"], bytes.fromhex(section["key_id"])
        wrapped = base64.b64decode(section["wrapped_key"], validate=True)
        if cipher != ALGORITHM or len(key_id) != ID_BYTES:
            raise ValueError(cipher)
    except (KeyError, TypeError, ValueError):
        raise StoreError("store.json is damaged: its section `encryption` cannot be read. Restore it.") from None
    for key in user_keys:
        if fingerprint(key) == wanted:
            try:
                return StoreKey(key, b"").decrypt(wrapped, _WRAPPED + key_id)
            except DecryptionError:
                raise StoreError("store.json is damaged: its wrapped key was changed. Restore it.") from None
    given = ", ".join(map(fingerprint, user_keys))
    raise StoreError(
        f"the store is encrypted with the key of fingerprint {wanted}, and {KEY_VARIABLE}* gave {given}. "
        "Give the right key. Nothing was changed."
    )


# --- the user's key ---------------------------------------------------------------------------------------------------


def read_user_keys(environment: Mapping[str, str]) -> list[bytes]:
    """Return the keys that the environment names, at least one; the first is for new stores.

    Raises: MissingError if it names none; StoreError if it names more than one place, or a place without a key.
    """
    named = given_variables(environment)
    if not named:
        raise MissingError(
            f"the store's key is missing. Set {KEY_VARIABLE}_FILE to its file, {KEY_VARIABLE}_COMMAND to a command "
            f"that prints it, or {KEY_VARIABLE} to the key itself: 32 random bytes, such as those of "
            "`openssl rand -base64 32`."
        )
    if len(named) > 1:
        raise StoreError(f"{' and '.join(named)} are both set. Set one of them.")
    name, value = named[0], environment[named[0]]
    if name == KEY_VARIABLE:
        content = value.encode()
    elif name.endswith("_FILE"):
        try:
            content = Path(value).expanduser().read_bytes()
        except OSError as error:
            raise StoreError(f"{name}: {value} cannot be read: {error.strerror or error}.") from None
    else:
        content = _run_command(name, value)
    return _parse_keys(content, name)


def _run_command(name: str, command: str) -> bytes:
    """Return the standard output of a command; its standard error goes to the terminal."""
    try:
        done = subprocess.run(shlex.split(command), stdout=subprocess.PIPE, timeout=COMMAND_S, check=True)  # noqa: S603
    except subprocess.CalledProcessError as error:
        raise StoreError(f"the command in {name} failed with exit code {error.returncode}.") from None
    except subprocess.TimeoutExpired:
        raise StoreError(f"the command in {name} did not end within {COMMAND_S:g} s.") from None
    except (OSError, ValueError) as error:
        raise StoreError(f"the command in {name} cannot be run: {getattr(error, 'strerror', None) or error}.") from None
    return done.stdout


def _parse_keys(content: bytes, name: str) -> list[bytes]:
    """Return the keys in a text, one per line, in base64 or hexadecimal digits; or the 32 bytes themselves."""
    keys = [_decode_key(word) for word in content.split()]
    if keys and all(key is not None for key in keys):
        return [key for key in keys if key is not None]
    if len(content) == KEY_BYTES:
        return [content]
    raise StoreError(
        f"{name} holds no key. A key is {KEY_BYTES} bytes in base64 or hexadecimal digits, such as those of "
        "`openssl rand -base64 32`; several keys are written one per line."
    )


def _decode_key(word: bytes) -> bytes | None:
    for decode in (bytes.fromhex, base64.urlsafe_b64decode):
        try:
            key = decode(word.decode("ascii").replace("+", "-").replace("/", "_"))
        except (ValueError, binascii.Error):
            continue
        if len(key) == KEY_BYTES:
            return key
    return None
