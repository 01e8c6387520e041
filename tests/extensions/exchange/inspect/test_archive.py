"""Inspect's zip files, packed by either method, whole and damaged."""

from __future__ import annotations

import json
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import pytest

from medhelm.errors import DataError
from medhelm.extensions.exchange.inspect import logs as eval_archive
from medhelm.extensions.exchange.inspect.logs import ZSTANDARD, EvalArchive

FIXTURES = Path(__file__).parents[3] / "fixtures" / "inspect"
PACKED = {"short_0.3.285.eval": ZSTANDARD, "running_0.3.285.eval": ZSTANDARD, "options_0.3.50.eval": ZIP_DEFLATED}


@pytest.mark.parametrize("name", PACKED)
def test_zstandard_members_are_read_as_inspect_wrote_them(name: str) -> None:
    """Checked against Inspect's own module for these files."""
    pytest.importorskip("zipfile_zstd")
    with EvalArchive(FIXTURES / name) as archive, ZipFile(FIXTURES / name) as whole:
        assert {info.compress_type for info in whole.infolist()} == {PACKED[name]}
        assert archive.names == whole.namelist()
        for member, content in archive.read_many(archive.names):
            assert repr(content) == repr(json.loads(whole.read(member))), "nan is equal to nan by its name"
        assert repr(archive.read(archive.names[0])) == repr(json.loads(whole.read(archive.names[0])))


def zstandard_file(path: Path, members: dict[str, bytes]) -> Path:
    """A zip file as Inspect writes it."""
    pytest.importorskip("zipfile_zstd")
    with ZipFile(path, "w", compression=ZSTANDARD) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def flipped(content: bytes) -> bytes:
    place = content.index(b"a.json") + 12
    return content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :]


@pytest.mark.parametrize("method", [ZIP_DEFLATED, ZSTANDARD])
def test_a_truncated_file(tmp_path: Path, method: int) -> None:
    pytest.importorskip("zipfile_zstd")
    path = tmp_path / "x.eval"
    with ZipFile(path, "w", compression=method) as file:
        file.writestr("a.json", json.dumps({"text": "x" * 100 + "y" * 100}))
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(DataError, match=r"it is truncated, or not an \.eval file"):
        EvalArchive(path)


def test_files_that_are_not_archives(tmp_path: Path) -> None:
    for content in (b"", b"PK\x03\x04" + b"\0" * 100):
        (tmp_path / "x.eval").write_bytes(content)
        with pytest.raises(DataError, match=r"not an \.eval file"):
            EvalArchive(tmp_path / "x.eval")


def test_a_document_that_is_damaged_or_not_json_does_not_spoil_the_others(tmp_path: Path) -> None:
    members = {"a.json": b'{"text": "' + b"x" * 99 + b'"}', "b.json": b"[1]", "c.json": b"{'a': 1}"}
    path = zstandard_file(tmp_path / "x.eval", members | {"deep.json": b"[" * 200_000})
    path.write_bytes(flipped(path.read_bytes()))
    with EvalArchive(path) as archive:
        assert archive.read("b.json") == [1]
        for name in ("a.json", "c.json", "deep.json"):
            with pytest.raises(DataError, match="damaged"):
                list(archive.read_many(["b.json", name]))


def test_documents_that_are_too_large_are_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a bomb: 8 MB that the file's directory announces as 10 bytes."""
    path = zstandard_file(tmp_path / "x.eval", {"a.json": b'"' + b"x" * 8_000_000 + b'"'})
    with EvalArchive(path) as archive:
        monkeypatch.setattr(eval_archive, "LARGEST_MEMBER", 100)
        with pytest.raises(DataError, match="8,000,002 bytes; the limit is 100"):
            archive.read("a.json")
        archive._members["a.json"].file_size = 10
        with pytest.raises(DataError, match="damaged"):
            archive.read("a.json")


def test_an_offset_before_the_file_is_damage(tmp_path: Path) -> None:
    """The zip directory says where each document begins, and may say anything."""
    path = tmp_path / "x.eval"
    with ZipFile(path, "w", ZIP_STORED) as archive:
        archive.writestr("a.json", "1")
    content = bytearray(path.read_bytes())
    directory = content.index(b"PK\x01\x02")
    content[directory + 10 : directory + 12] = ZSTANDARD.to_bytes(2, "little")
    end = content.index(b"PK\x05\x06")
    content[end + 16 : end + 20] = (directory + 50).to_bytes(4, "little")  # all offsets move by as much
    path.write_bytes(content)
    with pytest.raises(DataError, match="damaged"), EvalArchive(path) as archive_read:
        archive_read.read("a.json")
