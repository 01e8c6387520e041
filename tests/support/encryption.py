"""Keys for encrypted stores in tests, and a look at what a store holds as plain text."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from medhelm.io import files
from medhelm.io.files import KEY_VARIABLE, MAGIC

KEYS = tuple(base64.b64encode(bytes([number]) * 32).decode() for number in range(3))
"""Invented keys, as the environment gives them."""

PARQUET = b"PAR1"
"""First bytes of a plain Parquet file."""


def lock_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the stores that this process unlocked, as in a process of its own, until the test ends."""
    from medhelm.extensions.vault.cipher import CIPHER  # lazy: the tests of the core run without it

    monkeypatch.setattr(files, "cipher", None)
    monkeypatch.setattr(CIPHER, "_keys", {})


@pytest.fixture
def store_key(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Set a key in the environment, and forget afterwards the stores that it unlocked."""
    lock_stores(monkeypatch)
    monkeypatch.setenv(KEY_VARIABLE, KEYS[0])
    yield KEYS[0]


@contextmanager
def without_key() -> Iterator[None]:
    """Take the key out of the environment: with a key, plain stores are refused."""
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv(KEY_VARIABLE)
        yield


def plain_files(folder: Path, *texts: str) -> list[str]:
    """Return the files below a folder that hold one of these texts, in any case and two encodings, or plain Parquet."""
    wanted = [text.lower().encode(encoding) for text in texts for encoding in ("utf-8", "utf-16-le")]
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        lower = content.lower()
        is_open = path.suffix == ".parquet" and not MAGIC.startswith(content[: len(MAGIC)])  # killed before its start
        if is_open or content.startswith(PARQUET) or any(text in lower for text in wanted):
            found.append(path.relative_to(folder).as_posix())
    return found
