"""Files in encrypted folders, for Python and for DuckDB."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from medhelm.extensions.vault.cipher import CIPHER
from medhelm.extensions.vault.duckdb_files import SharedFile
from medhelm.extensions.vault.files import DecryptionError, new_key
from medhelm.io import files
from medhelm.io.files import key_of, open_file, read_confidential, reason, temporary_file
from medhelm.io.folders import temporary_folder, write_confidential
from medhelm.io.parquet import ColumnWriter, ParquetWriter, connect, sql_path
from tests.support.encryption import lock_stores, plain_files

CANARY = "canary-7281"
COLUMNS = {"position": "INTEGER", "text": "VARCHAR"}


@pytest.fixture
def encrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose files are encrypted."""
    lock_stores(monkeypatch)
    monkeypatch.setattr(files, "cipher", CIPHER)
    folder = tmp_path / "ward? [7]"
    folder.mkdir()
    CIPHER.register(folder, new_key())
    return folder


def test_texts_are_encrypted_in_the_folder_and_plain_elsewhere(encrypted: Path, tmp_path: Path) -> None:
    for folder in (encrypted, tmp_path):
        write_confidential(folder / "text.json", CANARY)
        assert read_confidential(folder / "text.json") == CANARY
    assert plain_files(tmp_path, CANARY) == ["text.json"]
    assert key_of(tmp_path / "text.json") is None
    with pytest.raises(DecryptionError, match="is not encrypted"):
        (encrypted / "text.json").write_text(CANARY)
        read_confidential(encrypted / "text.json")


def test_a_folder_is_found_by_its_relative_path_and_through_a_link(
    encrypted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(encrypted)
    CIPHER.register(tmp_path / "link", new_key())
    monkeypatch.chdir(tmp_path)
    assert key_of(f"{encrypted.name}/a") is key_of("link/a") is not None
    assert key_of(f"{encrypted.name}-other/a") is None


def rows_of(path: Path) -> list[tuple[object, ...]]:
    with connect() as connection:
        assert connection.execute("SELECT current_setting('temp_directory')").fetchone() == ("",)
        return connection.execute(f"SELECT * FROM read_parquet({sql_path(path)}) ORDER BY position").fetchall()


def test_parquet_is_written_and_read_without_plain_text_on_the_disk(encrypted: Path) -> None:
    path, n = encrypted / "records*.parquet", 3000
    writer = ParquetWriter(path, COLUMNS)
    rows = [(position, f"{CANARY} {position} " + "x" * (position % 100)) for position in range(n)]
    for position, text in reversed(rows):
        writer.add({"position": position, "text": text})
    assert plain_files(encrypted, CANARY) == []
    writer.finish()
    assert rows_of(path) == rows
    assert plain_files(encrypted, CANARY) == []
    assert [file.name for file in encrypted.iterdir()] == [path.name]


def test_each_thread_has_a_position_of_its_own(tmp_path: Path) -> None:
    content = bytes(range(100))
    (tmp_path / "file").write_bytes(content)
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        file = SharedFile((tmp_path / "file").open("rb"))
        assert one.submit(file.seek, 10).result() == 10
        assert other.submit(file.seek, -20, os.SEEK_END).result() == 80
        assert one.submit(file.read, 5).result() == content[10:15]
        assert other.submit(file.read).result() == content[80:]
        assert one.submit(file.seek, 5, os.SEEK_CUR).result() == 20
        assert [pool.submit(file.tell).result() for pool in (one, other)] == [20, 100]
        assert one.submit(file.read, 1).result() == content[20:21]
        file.close()


def test_a_damaged_file_has_a_reason_in_one_line(encrypted: Path) -> None:
    import duckdb

    writer, path = ColumnWriter(), encrypted / "r.parquet"
    writer.write(path, COLUMNS, {"position": range(5), "text": [CANARY] * 5})
    writer.close()
    raw = path.read_bytes()
    path.write_bytes(raw[:-20] + bytes([raw[-20] ^ 1]) + raw[-19:])
    with pytest.raises(duckdb.Error) as damaged:
        rows_of(path)
    said = "it was changed, or is not what was encrypted for this place"
    assert reason(damaged.value) == said
    for separator in ("\n", "\n\n"):  # as older and newer Pythons write a traceback
        lines = (
            "Traceback (most recent call last):",
            '  File "f.py", line 1, in open',
            f"vault.Error: {said}",
            "",
            "LINE 1: x",
        )
        assert reason(duckdb.Error(separator.join(lines))) == said


def test_temporary_files_and_folders_are_encrypted_as_well(encrypted: Path) -> None:
    with temporary_file() as file, temporary_folder() as work:
        file.write(f"{CANARY}\n".encode())
        file.seek(0)
        assert file.readline() == f"{CANARY}\n".encode()
        with open_file(work.path / "copy", "wb") as copy:
            copy.write(CANARY.encode())
        assert plain_files(work.path, CANARY) == []
