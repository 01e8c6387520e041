"""Downloading data: pinned, resumed, verified, refused where it must be."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from medhelm.benchmarks import download
from medhelm.benchmarks.data.sampling import list_digest
from medhelm.benchmarks.download import STAGING, DownloadResult, fetch
from medhelm.domain import Benchmark
from medhelm.errors import StoreFullError, UserError
from tests.support.benchmarks.definitions import make_benchmark
from tests.support.cli import Medhelm, assert_refused
from tests.support.servers.openai import Answer, Server

CONTENT = b'{"question": "q", "answer": "a"}\n' * 200
SHA = hashlib.sha256(CONTENT).hexdigest()


def benchmark(
    tmp_path: Path, server: Server | None, files: Mapping[str, str] | None = None, **changes: Any
) -> Benchmark:
    location = f"{server.url}/raw/{{revision}}/{{file}}" if server else ""
    source = {"location": location, "revision": "r7", "files": dict(files or {"rows.jsonl": SHA}), **changes}
    prompt = "{text}" if source.get("kind") == "text" else "{question}"
    return make_benchmark(tmp_path / "definitions", source=source, prompt=prompt)


def got(made: Benchmark, tmp_path: Path) -> DownloadResult:
    (result,) = fetch([made], tmp_path / "data", offline=False)
    return result


def failure(made: Benchmark, tmp_path: Path) -> str:
    """Why its data cannot be downloaded."""
    result = got(made, tmp_path)
    assert result.state == "failed"
    return result.message


def files_below(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def serve(server: Server, files: Mapping[str, bytes]) -> None:
    """Answer like a plain file server that knows ranges."""

    def answer(_: dict[str, Any]) -> Answer:
        content = files.get(server.paths[-1])
        if content is None:
            return Answer(status=404, body=b"no")
        start = int(server.headers[-1].get("range", "bytes=0-")[6:-1])
        if start >= len(content) > 0:
            return Answer(status=416)
        return Answer(status=206 if start else 200, body=content[start:])

    server.answer_with(answer)


def test_a_file_is_fetched_at_its_revision_and_verified(tmp_path: Path, server: Server) -> None:
    serve(server, {"/raw/r7/rows.jsonl": CONTENT})
    made = benchmark(tmp_path, server)
    result = got(made, tmp_path)
    assert (result.state, result.folder) == ("fetched", tmp_path / "data" / "tiny")
    assert (tmp_path / "data" / "tiny" / "rows.jsonl").read_bytes() == CONTENT
    assert server.headers[0]["accept-encoding"] == "identity"
    assert [path.name for path in (tmp_path / "data" / "tiny").iterdir()] == ["rows.jsonl"]


@pytest.mark.parametrize(("content", "state"), [(CONTENT, "there"), (b"mine", "failed")])
def test_a_file_in_its_place_is_kept_whatever_it_is(tmp_path: Path, server: Server, content: bytes, state: str) -> None:
    mine = tmp_path / "data" / "tiny" / "rows.jsonl"
    mine.parent.mkdir(parents=True)
    mine.write_bytes(content)
    result = got(benchmark(tmp_path, server), tmp_path)
    assert (result.state, f"it should be  {SHA}" in result.message) == (state, state == "failed")
    assert mine.read_bytes() == content
    assert server.count == 0


def test_an_interrupted_download_is_resumed(tmp_path: Path, server: Server) -> None:
    server.script(Answer(body=CONTENT, ending="truncated"))
    made = benchmark(tmp_path, server)
    assert "run the same command again to resume" in failure(made, tmp_path)
    partial = tmp_path / "data" / "tiny" / "rows.jsonl.part"
    have = partial.stat().st_size
    assert 0 < have < len(CONTENT)
    serve(server, {"/raw/r7/rows.jsonl": CONTENT})
    assert got(made, tmp_path).state == "fetched"
    assert server.headers[-1]["range"] == f"bytes={have}-"
    assert (tmp_path / "data" / "tiny" / "rows.jsonl").read_bytes() == CONTENT
    assert not partial.exists()


@pytest.mark.parametrize("ending", ["hang", "drip"])
def test_a_server_that_sends_next_to_nothing_is_given_up(
    ending: Literal["hang", "drip"], tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert download.TIMEOUT_S <= 60
    monkeypatch.setattr(download, "TIMEOUT_S", 0.3)
    server.script(Answer(ending=ending))
    assert "did not answer within 0.3 s" in failure(benchmark(tmp_path, server), tmp_path)


@pytest.mark.parametrize(
    ("have", "answer"),
    [
        pytest.param(len(CONTENT), Answer(status=416), id="which is complete"),
        pytest.param(100, Answer(body=CONTENT), id="of a server that ignores ranges"),
    ],
)
def test_a_partial_file_is_completed(tmp_path: Path, server: Server, have: int, answer: Answer) -> None:
    server.script(answer)
    partial = tmp_path / "data" / "tiny" / "rows.jsonl.part"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(CONTENT[:have])
    assert got(benchmark(tmp_path, server), tmp_path).state == "fetched"
    assert (tmp_path / "data" / "tiny" / "rows.jsonl").read_bytes() == CONTENT


def test_a_changed_file_is_an_error_that_names_both_hashes(tmp_path: Path, server: Server) -> None:
    other = CONTENT + b"\n"
    serve(server, {"/raw/r7/rows.jsonl": other})
    message = failure(benchmark(tmp_path, server), tmp_path)
    assert f"sha256 is     {hashlib.sha256(other).hexdigest()}" in message
    assert f"it should be  {SHA}" in message
    assert list((tmp_path / "data" / "tiny").iterdir()) == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(status=404), "answered 404"),
        (Answer(status=302, headers={"Location": "https://elsewhere.example/x"}), "answered 302"),
    ],
)
def test_a_server_without_the_file(tmp_path: Path, server: Server, answer: Answer, words: str) -> None:
    server.script(answer)
    assert words in failure(benchmark(tmp_path, server), tmp_path)
    assert files_below(tmp_path / "data") == []


# --- archives ---------------------------------------------------------------------------------------------------------

NOTES = {"top/notes/b.txt": b"b", "top/notes/a.txt": b"a", "top/notes/sub/c.txt": b"c", "top/other.txt": b"x"}


def tar(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo("top/notes/link.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return buffer.getvalue()


def packed(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize(("ending", "pack"), [("tar.gz/{revision}", tar), ("{revision}.zip", packed)])
def test_files_of_a_pattern_come_from_an_archive(tmp_path: Path, server: Server, ending: str, pack: Any) -> None:
    escaping = {**NOTES, "top/notes/../../evil.txt": b"!", "/notes/abs.txt": b"!"}
    serve(server, {f"/{ending.replace('{revision}', 'r7')}": pack(escaping)})
    digests = {f"notes/{name}.txt": hashlib.sha256(name.encode()).hexdigest() for name in "ab"}
    listed = list_digest(digests, digests)
    made = benchmark(tmp_path, server, {"notes/*.txt": ""}, kind="text", location=f"{server.url}/{ending}")
    pinned = replace(made, source=replace(made.source, files={"notes/[ab].txt": listed}))
    assert got(pinned, tmp_path).state == "fetched"
    assert files_below(tmp_path / "data" / "tiny") == ["notes/a.txt", "notes/b.txt"]
    assert not (tmp_path / "evil.txt").exists()


def test_an_incompletely_moved_archive_is_fetched_again(tmp_path: Path, server: Server) -> None:
    server.script(Answer(body=packed(NOTES)))
    digests = {f"notes/{name}.txt": hashlib.sha256(name.encode()).hexdigest() for name in "ab"}
    files = {"notes/*.txt": list_digest(digests, digests)}
    made = benchmark(tmp_path, server, files, kind="text", location=f"{server.url}/x.zip")
    folder = tmp_path / "data" / "tiny"
    (folder / STAGING / "notes").mkdir(parents=True)
    (folder / STAGING / "notes" / "b.txt").write_bytes(b"b")
    (folder / "notes").mkdir()
    (folder / "notes" / "a.txt").write_bytes(b"a")
    assert got(made, tmp_path).state == "fetched"
    assert files_below(folder) == ["notes/a.txt", "notes/b.txt"]


@pytest.mark.parametrize("content", [b"no archive", packed(NOTES)[:100], b""], ids=["a page", "cut off", "empty"])
def test_files_without_a_log_in_them(tmp_path: Path, server: Server, content: bytes) -> None:
    server.script(Answer(body=content))
    made = benchmark(tmp_path, server, {"notes/*.txt": ""}, kind="text", location=f"{server.url}/x.zip")
    assert "cannot be read as an archive" in failure(made, tmp_path)


# --- what cannot be fetched -------------------------------------------------------------------------------------------


def test_offline_refuses_before_anything_is_sent(tmp_path: Path, server: Server) -> None:
    with pytest.raises(UserError, match=r"which offline mode forbids.*Nothing was sent"):
        fetch([benchmark(tmp_path, server)], tmp_path / "data", offline=True)
    assert server.count == 0
    assert not (tmp_path / "data").exists()


def test_data_under_an_agreement_says_what_to_do(tmp_path: Path) -> None:
    made = benchmark(tmp_path, None, note="Ask the owner at https://owner.example.")
    message = failure(replace(made, access="gated"), tmp_path)
    assert "cannot be downloaded (gated). Copy rows.jsonl to" in message
    assert "Ask the owner" in message


def test_a_disk_that_is_full_is_not_called_a_bad_archive(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    serve(server, {"/archive.zip": packed({"top/rows.jsonl": CONTENT})})
    made = benchmark(tmp_path, server)
    made = replace(made, source=replace(made.source, location=f"{server.url}/archive.zip"))
    monkeypatch.setattr(download, "_unpack", full)
    with pytest.raises(StoreFullError, match=r"cannot be written: No space left on device\. Free some space"):
        got(made, tmp_path)
    assert (tmp_path / "data" / "tiny" / ".archive.part").exists()  # so that it is not downloaded again


# --- the commands -----------------------------------------------------------------------------------------------------


def test_the_commands_from_status_to_verify(medhelm: Medhelm, tmp_path: Path, server: Server) -> None:
    serve(server, {"/raw/r7/rows.jsonl": CONTENT})
    place = benchmark(tmp_path, server).folder
    data = tmp_path / "data"
    status = medhelm("data", "status", place, "--data", data, "--json").json["benchmarks"][0]
    assert (status["state"], status["missing"]) == ("absent", ["rows.jsonl"])
    assert status["addresses"] == [f"{server.url}/raw/r7/rows.jsonl"]
    assert medhelm("data", "verify", place, "--data", data).code == 4
    assert_refused(medhelm("data", "fetch", place, "--data", data, "--offline"), "which offline mode forbids")
    assert medhelm("data", "fetch", place).code == 2
    fetched = medhelm("data", "fetch", place, "--data", data, "--json").json["benchmarks"]
    assert fetched == [{"benchmark": "tiny", "state": "fetched", "folder": str(data / "tiny"), "message": ""}]
    verified = medhelm("data", "verify", place, "--data", data)
    assert (verified.code, "verified" in verified.out) == (0, True)
    (data / "tiny" / "rows.jsonl").write_bytes(b"other")
    changed = medhelm("data", "verify", place, "--data", data)
    assert changed.code == 2
    assert f"it should be  {SHA}" in changed.out
