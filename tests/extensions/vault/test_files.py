"""Encrypted files: what is read is what was written, from any position, and any change is found."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import pytest

from medhelm.extensions.vault import files
from medhelm.extensions.vault.files import (
    CHUNK,
    DecryptionError,
    StoreKey,
    encrypted_scratch,
    new_key,
    open_encrypted,
    plain_size,
)
from medhelm.io.files import is_encrypted

KEY = new_key()
ROLE = "toy/model-1f/records.parquet"
SIZES = (0, CHUNK, CHUNK + 1, 3 * CHUNK + 77)


def write(path: Path, content: bytes, *, key: StoreKey = KEY, role: str = ROLE) -> bytes:
    """Write an encrypted file in uneven pieces and return its bytes."""
    with open_encrypted(path, "wb", key, role) as file:
        for start in range(0, len(content), 10_007):
            file.write(content[start : start + 10_007])
    return path.read_bytes()


def read(path: Path, *, key: StoreKey = KEY, role: str = ROLE) -> bytes:
    with open_encrypted(path, "rb", key, role) as file:
        return file.read()


@pytest.mark.parametrize("size", SIZES)
def test_a_file_is_read_as_it_was_written(size: int, tmp_path: Path) -> None:
    content, path = random.Random(size).randbytes(size), tmp_path / "file"
    raw = write(path, content)
    assert read(path) == content
    assert plain_size(path) == size
    assert is_encrypted(path)
    assert size < 16 or content[:16] not in raw
    assert write(path, content)[40:] != raw[40:], "two files of one content differ"
    path.write_bytes(b"PAR1 and so on, longer than a header of an encrypted file")
    with pytest.raises(DecryptionError, match="is not encrypted"):
        read(path)


def test_any_part_of_a_file_can_be_read(tmp_path: Path) -> None:
    content, path, draw = random.Random(0).randbytes(3 * CHUNK + 77), tmp_path / "file", random.Random(1)
    write(path, content)
    with open_encrypted(path, "rb", KEY, ROLE) as file:
        for _ in range(200):
            start, n = draw.randrange(len(content)), draw.randrange(2 * CHUNK)
            file.seek(start)
            assert file.read(n) == content[start : start + n]
        file.seek(-5, 2)
        assert (file.read(), file.read(1)) == (content[-5:], b"")


@pytest.mark.parametrize("size", [0, 5, CHUNK, 2 * CHUNK + 5])
def test_a_changed_byte_is_found_wherever_it_is(size: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    raw = write(path, random.Random(size).randbytes(size))
    for place in {*range(files._HEADER.size), *range(files._HEADER.size, len(raw), 977), len(raw) - 1}:
        changed = bytearray(raw)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(DecryptionError):
            read(path)


def test_a_file_cannot_be_cut_lengthened_or_made_of_other_chunks(tmp_path: Path) -> None:
    path, stride, start = tmp_path / "file", files._STRIDE, files._HEADER.size
    content = random.Random(0).randbytes(3 * CHUNK)
    older, raw = write(path, content), write(path, content)
    chunks = [raw[start + i * stride : start + (i + 1) * stride] for i in range(3)]
    swapped = raw[:start] + chunks[1] + chunks[0] + chunks[2]
    mixed = raw[:start] + older[start : start + stride] + chunks[1] + chunks[2]
    cuts = (0, 1, start - 1, start, start + 5, start + stride, start + 2 * stride, len(raw) - 1)
    for changed in (swapped, mixed, raw + b"more", *(raw[:cut] for cut in cuts)):
        path.write_bytes(changed)
        with pytest.raises(DecryptionError):
            read(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"role": "toy/model-2e/records.parquet"}, "not what was encrypted for this place"),
        ({"key": new_key()}, "key of another store"),
    ],
)
def test_a_file_of_another_place_or_store_is_refused(change: dict[str, object], words: str, tmp_path: Path) -> None:
    write(tmp_path / "file", b"text")
    with pytest.raises(DecryptionError, match=words):
        read(tmp_path / "file", **change)  # type: ignore[arg-type]


def steps(file: IO[bytes], draw: random.Random) -> list[object]:
    """Append, read and truncate at random, and return all that was seen."""
    seen: list[object] = []
    for _ in range(60):
        size = file.seek(0, 2)
        what = draw.random()
        if what < 0.6:
            file.write(draw.randbytes(draw.randrange(CHUNK)))
        elif what < 0.9:
            file.seek(draw.randrange(size + 1))
            seen += [file.readline(), file.read(draw.randrange(2 * CHUNK)), file.tell()]
        else:
            file.seek(draw.randrange(size + 1))
            file.truncate()
            seen.append(file.tell())
    file.seek(0)
    return [*seen, file.read()]


@pytest.mark.parametrize("seed", range(2))
def test_a_temporary_file_behaves_like_a_plain_one_and_holds_no_text(seed: int) -> None:
    with TemporaryFile() as raw, TemporaryFile() as plain, encrypted_scratch(raw) as scratch:
        assert steps(scratch, random.Random(seed)) == steps(plain, random.Random(seed))
        scratch.seek(0, 2)
        scratch.write(b"CANARY" * CHUNK)
        scratch.flush()
        raw.seek(0)
        assert b"CANARY" not in raw.read()
