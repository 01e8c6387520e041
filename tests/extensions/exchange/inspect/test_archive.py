"""Inspect's zip files, packed by either method, whole and damaged."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_STORED, ZipFile

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


@pytest.mark.long
def test_documents_of_all_shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long, short, over several lines, with signs that mean something to tables; a few at a time."""
    rng = random.Random(0)
    long = "".join(rng.choice("abcdefgh ,;'\"\\\t\n\u2028\u00e9\U0001f600\x01") for _ in range(3_000_000))
    contents = [long, "", ",".join("ab" * 1000), '"', "NULL", {"a": [1.5, None, float("nan")]}, [], 0]
    members = {f"{n}.json": json.dumps(one).encode() for n, one in enumerate(contents)}
    members["lines.json"] = json.dumps({"a": [1, {"b": ""}]}, indent=2).encode() + b"\n\n"
    members["utf.json"] = json.dumps("\u00e9\u2028\u0085", ensure_ascii=False).encode()
    path = zstandard_file(tmp_path / "x.eval", members)
    for together in (1, 3, 500):
        monkeypatch.setattr(eval_archive, "TOGETHER", together)
        with EvalArchive(path) as archive:
            read = dict(archive.read_many(archive.names))
        assert {name: repr(one) for name, one in read.items()} == {
            name: repr(json.loads(one)) for name, one in members.items()
        }


def test_the_last_of_a_name_counts(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "x.eval", "w") as file, pytest.warns(UserWarning, match="Duplicate name"):
        file.writestr("a.json", "1")
        file.writestr("a.json", "2")
    with EvalArchive(tmp_path / "x.eval") as archive:
        assert archive.read("a.json") == 2


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flipped(content: bytes) -> bytes:
    place = content.index(b"a.json") + 12
    return content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :]


@pytest.mark.parametrize("method", [ZIP_STORED, ZIP_DEFLATED, ZSTANDARD])
@pytest.mark.parametrize(("damage", "words"), [(cut, "it is truncated, or not an .eval file"), (flipped, "damaged")])
def test_damaged_files(tmp_path: Path, method: int, damage: Callable[[bytes], bytes], words: str) -> None:
    pytest.importorskip("zipfile_zstd")
    path = tmp_path / "x.eval"
    with ZipFile(path, "w", compression=method) as file:
        file.writestr("a.json", json.dumps({"text": "x" * 100 + "y" * 100}))
        file.writestr("b.json", '{"whole": 1}')
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=words), EvalArchive(path) as archive:
        archive.read_many(archive.names).__next__()


def test_a_damaged_document_does_not_spoil_the_others(tmp_path: Path) -> None:
    path = zstandard_file(tmp_path / "x.eval", {"a.json": b'{"text": "' + b"x" * 99 + b'"}', "b.json": b"[1]"})
    path.write_bytes(flipped(path.read_bytes()))
    with EvalArchive(path) as archive:
        assert archive.read("b.json") == [1]
        with pytest.raises(DataError, match=r"a\.json in the archive is damaged"):
            list(archive.read_many(["b.json", "a.json"]))


def test_files_that_are_not_archives(tmp_path: Path) -> None:
    for content in (b"", b"{}", b"PK\x03\x04" + b"\0" * 100):
        (tmp_path / "x.eval").write_bytes(content)
        with pytest.raises(DataError, match=r"not an \.eval file"):
            EvalArchive(tmp_path / "x.eval")
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        EvalArchive(tmp_path)


def test_a_document_that_is_not_json(tmp_path: Path) -> None:
    path = zstandard_file(tmp_path / "x.eval", {"a.json": b"{'a': 1}", "deep.json": b"[" * 200_000})
    with EvalArchive(path) as archive:
        for name in archive.names:
            with pytest.raises(DataError, match="damaged"):
                archive.read(name)


def test_a_method_that_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "x.eval"
    with ZipFile(path, "w", compression=ZIP_BZIP2) as file:
        file.writestr("a.json", "1")
    path.write_bytes(path.read_bytes().replace(b"\x0c\x00", b"\x62\x00"))
    with (
        EvalArchive(path) as archive,
        pytest.raises(DataError, match=r"method \(98\): use `inspect log convert"),
    ):
        archive.read("a.json")


def test_documents_that_are_too_large_are_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eval_archive, "LARGEST_MEMBER", 100)
    path = zstandard_file(tmp_path / "x.eval", {"a.json": b'"' + b"x" * 200 + b'"'})
    with EvalArchive(path) as archive, pytest.raises(DataError, match="202 bytes; the limit is 100"):
        archive.read("a.json")


def test_a_document_that_says_it_is_smaller_than_it_is(tmp_path: Path) -> None:
    """A bomb: 8 MB that the file's directory announces as 10 bytes."""
    path = zstandard_file(tmp_path / "x.eval", {"a.json": b'"' + b"x" * 8_000_000 + b'"'})
    with EvalArchive(path) as archive:
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
