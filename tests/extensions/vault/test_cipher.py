"""Files in encrypted folders, for Python and for DuckDB."""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from medhelm.extensions.vault.cipher import CIPHER, role_of
from medhelm.extensions.vault.duckdb_files import SharedFile
from medhelm.extensions.vault.keys import DecryptionError, new_key
from medhelm.io import files
from medhelm.io.files import address, key_of, open_file, read_confidential, reason, temporary_file
from medhelm.io.folders import temporary_folder, write_confidential
from medhelm.io.parquet import ColumnWriter, ParquetWriter, connect, open_engine, sql_path
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


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("prompts/.medhelm-00/toy-1f.parquet", "prompts/toy-1f.parquet"),
        ("runs/toy/m-1f/records.parquet", "toy/m-1f/records.parquet"),
        ("runs/toy/.new-m-1f/.medhelm-00/records.parquet", "toy/m-1f/records.parquet"),
        ("runs/toy/.old-m-1f/records.parquet", "toy/m-1f/records.parquet"),
        ("removed/20260101/toy/m-1f/records.parquet", "toy/m-1f/records.parquet"),
        ("cache.sqlite", "cache.sqlite"),
    ],
)
def test_a_file_keeps_its_role_when_it_is_put_in_place_removed_or_restored(path: str, role: str) -> None:
    assert role_of(path) == role


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


@pytest.mark.parametrize("order", [1, -1])
def test_parquet_is_written_and_read_without_plain_text_on_the_disk(encrypted: Path, order: int) -> None:
    path, n = encrypted / "records*.parquet", 3000
    writer = ParquetWriter(path, COLUMNS)
    rows = [(position, f"{CANARY} {position} " + "x" * (position % 100)) for position in range(n)]
    for position, text in rows[::order]:
        writer.add({"position": position, "text": text})
    assert plain_files(encrypted, CANARY) == []
    writer.finish()
    assert rows_of(path) == rows
    assert plain_files(encrypted, CANARY) == []
    assert [file.name for file in encrypted.iterdir()] == [path.name]


def test_columns_are_written_and_many_files_read_with_one_query(encrypted: Path) -> None:
    writer, paths = ColumnWriter(), [encrypted / "a" / "r.parquet", encrypted / "b" / "r.parquet"]
    for path in paths:
        writer.write(path, COLUMNS, {"position": [0, 1], "text": [CANARY, path.parent.name]})
    writer.close()
    listed = ", ".join(map(sql_path, paths))
    query = f"SELECT text, filename FROM read_parquet([{listed}], filename = true) WHERE position = 1"
    with open_engine(memory_mb=64, threads=4) as engine:
        assert engine.execute(query).fetchall() == [(path.parent.name, address(path)) for path in paths]
    assert plain_files(encrypted, CANARY) == []


def test_threads_of_the_engine_do_not_disturb_each_other(encrypted: Path) -> None:
    draw, n, paths = random.Random(0), 6_000, [encrypted / f"{number}.parquet" for number in range(4)]  # 3 row groups
    texts, writer = [draw.randbytes(8).hex() for _ in range(n)], ColumnWriter()
    for path in paths:
        writer.write(path, COLUMNS, {"position": range(n), "text": texts})
    writer.close()
    with open_engine(memory_mb=64, threads=2) as engine:
        for _ in range(10):
            found = engine.execute(f"SELECT text FROM read_parquet([{', '.join(map(sql_path, paths))}])").fetchall()
            assert [text for (text,) in found] == texts * len(paths)


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


def test_a_damaged_or_missing_file_has_a_reason_in_one_line(encrypted: Path) -> None:
    import duckdb

    writer, path = ColumnWriter(), encrypted / "r.parquet"
    writer.write(path, COLUMNS, {"position": range(5), "text": [CANARY] * 5})
    writer.close()
    raw = bytearray(path.read_bytes())
    raw[-20] ^= 1
    path.write_bytes(raw)
    with pytest.raises(duckdb.Error) as damaged:
        rows_of(path)
    assert reason(damaged.value) == "it was changed, or is not what was encrypted for this place"
    with pytest.raises(duckdb.Error) as missing:
        rows_of(encrypted / "none.parquet")
    assert reason(missing.value).startswith("[Errno 2] No such file")


def test_temporary_files_and_folders_are_encrypted_as_well(encrypted: Path) -> None:
    with temporary_file() as file, temporary_folder() as work:
        file.write(f"{CANARY}\n".encode())
        file.seek(0)
        assert file.readline() == f"{CANARY}\n".encode()
        with open_file(work.path / "copy", "wb") as copy:
            copy.write(CANARY.encode())
        assert plain_files(work.path, CANARY) == []
