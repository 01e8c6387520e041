"""The audit log: one chain of all processes, which interruptions do not break and changes do."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.errors import StoreError, StoreFullError
from medhelm.io.http.hosts import Subject
from medhelm.storage.audit import (
    LONGEST_ENTRY,
    NO_ENTRY,
    AuditLog,
    check_chain,
    head_file,
    read_audit_log,
    total_requests,
)

SUBJECT = Subject("openai/gpt-4o", "pubmed_qa", "ab" * 32)


def write(path: Path, n: int) -> None:
    log = AuditLog(path)
    for number in range(n):
        log.request_all("POST", "https://api.openai.com", [(SUBJECT, number)])
    log.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def test_entries_are_on_disk_when_the_call_returns(path: Path) -> None:
    log = AuditLog(path)
    asyncio.run(log.request("POST", "https://api.openai.com", "http://proxy.example:3128", SUBJECT, 1234))
    log.lookup("api.openai.com", ["192.0.2.1"])
    request, lookup = (entry.content for entry in read_audit_log(path))  # before it is closed, as after kill -9
    expected = {"action": "request", "method": "POST", "destination": "https://api.openai.com", "bytes": 1234}
    subject = {"model": "openai/gpt-4o", "benchmark": "pubmed_qa", "digest": "ab" * 32, "pid": os.getpid()}
    assert request.items() >= {**expected, **subject, "proxy": "http://proxy.example:3128"}.items()
    assert lookup.items() >= {"action": "lookup", "addresses": ["192.0.2.1"]}.items()
    assert path.stat().st_mode & 0o777 == 0o600
    for _ in range(2):
        log.close()
    log.request_all("GET", "https://api.openai.com", [(SUBJECT, 0)])  # it opens again
    log.close()
    assert check_chain(path).n == 3


def test_logs_of_several_sessions_and_processes_are_one_chain(path: Path) -> None:
    """Each process appends after whatever the others have written meanwhile."""
    code = (
        "import sys; from pathlib import Path; from medhelm.storage.audit import AuditLog; "
        "from medhelm.io.http.hosts import Subject; log = AuditLog(Path(sys.argv[1]))\n"
        "for n in range(300): log.request_all('POST', 'https://a.example', [(Subject('m', 'b', ''), n)])\n"
        "log.close()"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for _ in range(2)]
    first, second = AuditLog(path), AuditLog(path)
    for number in range(200):
        (first, second)[number % 2].request_all("POST", "https://b.example", [(SUBJECT, number)])
    first.close()
    second.close()
    assert [process.wait(600) for process in running] == [0, 0]
    found = check_chain(path)
    assert (found.n, found.problem) == (800, "")
    totals = {total.destination: (total.requests, total.bytes) for total in total_requests(read_audit_log(path))}
    assert totals == {"https://a.example": (600, 2 * sum(range(300))), "https://b.example": (200, sum(range(200)))}


INSERTED = (
    *(b"noise\n", b"\n", b"{\n", b"{}\n", b"\0\0\0\n", b'{"line":6,\n', b'{"line":7,"time"\n'),
    b'{"line":6,"destination":"https://evil.example","note":"INSERTED TEXT"}\n',
    b'{"line":6,"time":"2026-11-01T00:00:00.000Z","note":"INSERTED\n',
)
"""Some look like the beginning of an entry: the next entry does not confirm it."""


def inserted(line: bytes) -> Callable[[list[bytes]], list[bytes]]:
    return lambda lines: [*lines[:5], line, *lines[5:]]


CHANGES: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    **{f"inserted {line!r}": inserted(line) for line in INSERTED},
    "changed": lambda lines: [*lines[:5], lines[5].replace(b'"bytes":5', b'"bytes":6'), *lines[6:]],
    "removed": lambda lines: [*lines[:5], *lines[6:]],
    "removed at the start": lambda lines: lines[1:],
    "swapped": lambda lines: [*lines[:5], lines[6], lines[5], *lines[7:]],
    "mangled": lambda lines: [*lines[:5], lines[5][:40] + b"\n", *lines[6:]],
    "emptied": lambda lines: [],
    "last entry removed": lambda lines: lines[:-1],
    "last entry cut": lambda lines: [*lines[:-1], lines[-1][:-80]],
    "last entry changed and cut": lambda lines: [*lines[:-1], lines[-1].replace(b"api.openai.com", b"evil.com")[:-80]],
    "rewritten": lambda lines: [line.replace(b"pubmed_qa", b"pubmed_qb") for line in lines],
    "text appended": lambda lines: [*lines, b"A sentence.\n"],
    "empty line appended": lambda lines: [*lines, b"\n"],
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_found_and_a_changed_end_is_not_continued(path: Path, name: str) -> None:
    """Without a noted hash too, unless the file that names the last entry is changed as well."""
    write(path, 10)
    lines = path.read_bytes().splitlines(keepends=True)
    changed = CHANGES[name](lines)
    path.write_bytes(b"".join(changed))
    assert check_chain(path).problem
    if changed[-1:] != lines[-1:]:
        with pytest.raises(StoreError, match="nothing is sent without it"):
            write(path, 1)
        assert path.read_bytes() == b"".join(changed)


def test_removal_at_the_end_is_found_by_a_noted_hash(path: Path) -> None:
    write(path, 10)
    noted = check_chain(path).head
    write(path, 3)
    assert (check_chain(path, noted[:16]).n_since, check_chain(path, NO_ENTRY).n_since) == (3, 13)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:9]))
    head_file(path).unlink()
    found = check_chain(path, noted)
    assert (found.problem, found.n_since, found.n) == ("", None, 9)


def cut(path: Path, end: int) -> None:
    """Cut a log as a power failure does: what was never synced is lost, and the head file does not name it."""
    content = path.read_bytes()[:end]
    path.write_bytes(content)
    head_file(path).unlink(missing_ok=True)


@pytest.mark.parametrize("whole", [0, 5])
@pytest.mark.parametrize("n_lost", [1, 2, 250])
def test_an_interrupted_line_does_not_break_the_chain(path: Path, whole: int, n_lost: int) -> None:
    """A power failure can leave half a line; its request was not sent, and the next entry confirms what was left."""
    write(path, whole + 1)
    cut(path, path.stat().st_size - n_lost)
    n_cut = int(n_lost > 1)  # without its line end alone, the entry is whole
    assert (check_chain(path).n_interrupted, check_chain(path).problem) == (n_cut, "")
    write(path, 2)
    found = check_chain(path)
    assert (found.n, found.problem, found.n_interrupted) == (whole + 3 - n_cut, "", n_cut)
    assert [entry.line for entry in read_audit_log(path)] == list(range(1, whole + 4 - n_cut))


def test_what_an_interruption_left_cannot_be_changed_later(path: Path) -> None:
    write(path, 3)
    cut(path, path.stat().st_size - 100)
    write(path, 2)
    lines = path.read_bytes().splitlines(keepends=True)
    for changed in (
        [*lines[:2], *lines[3:]],
        [*lines[:2], lines[2][:-2] + b"\n", *lines[3:]],
        [*lines[:2], lines[2], lines[2], *lines[3:]],
        [*lines[:3], lines[3].replace(b',"interrupted":', b',"interruptee":'), *lines[4:]],
        [*lines, lines[2]],
    ):
        path.write_bytes(b"".join(changed))
        assert check_chain(path).problem, changed


def test_a_damaged_head_file_and_a_removed_log_are_found(path: Path) -> None:
    write(path, 3)
    whole, head = path.read_bytes(), head_file(path).read_bytes()
    path.unlink()
    with pytest.raises(StoreError, match=r"lacks entry 3, which audit.head names"):
        write(path, 1)
    path.write_bytes(whole)
    for content in (b"0" * 127, b"x", b"1" * 200):
        head_file(path).write_bytes(content)
        assert "audit.head was changed" in check_chain(path).problem
        with pytest.raises(StoreError, match=r"audit.head was changed"):
            write(path, 1)
    for content in (b"", b"\0" * 127):  # as a power failure can leave it: it is written again
        head_file(path).write_bytes(content)
        assert check_chain(path).problem == ""
        write(path, 1)
        assert len(head_file(path).read_bytes()) == len(head)
    assert check_chain(path).n == 5


OLD = (
    '{"line":1,"time":"2026-10-01T08:00:00.123Z","user":"u","machine":"m","pid":1,"command":"medhelm run","action":'
    '"request","destination":"https://a.example","method":"POST","model":"m","benchmark":"Mr. John Doe %s","digest":"",'
    '"requests":1,"bytes":5,"previous":"' + NO_ENTRY + '"}'
)


def test_a_log_of_an_earlier_version_is_continued(path: Path) -> None:
    """However long its last line is, and although it was interrupted, which is reported."""
    path.write_text(OLD % ("x" * 200_000) + "\n", encoding="utf-8")
    assert check_chain(path).problem == ""
    write(path, 2)
    assert (check_chain(path).n, check_chain(path).problem) == (3, "")
    before = path.read_bytes()
    write(path, 1)
    path.write_bytes(before + b'{"line":4,"time":"2026-1\n' + path.read_bytes()[len(before) :])
    head_file(path).unlink()
    assert "version 0.2.0 or earlier was interrupted there" in check_chain(path).problem
    write(path, 1)


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_the_writer_continues_exactly_the_logs_that_are_intact(data: st.DataObject) -> None:
    """Whatever is at the end of a file: what one accepts the other one accepts, and what was written is intact."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "audit.jsonl")
        write(path, data.draw(st.integers(0, 3)))
        content = path.read_bytes() if path.exists() else b""
        if data.draw(st.booleans()):
            head_file(path).unlink(missing_ok=True)
        content = content[: max(0, len(content) - data.draw(st.integers(0, 600)))]
        lines = content.splitlines(keepends=True)
        pieces = [*INSERTED, b'{"line":', b'{"line":1,"time":"2026-01', *lines, *(line[:90] for line in lines)]
        piece = st.one_of(st.sampled_from(pieces), st.binary(max_size=20))
        path.write_bytes(content + b"".join(data.draw(st.lists(piece, max_size=3))))
        is_intact = not check_chain(path).problem
        try:
            write(path, 1)
        except StoreError:
            assert not is_intact
        else:
            assert is_intact
            assert check_chain(path).problem == ""
            assert list(read_audit_log(path))


@given(st.text(max_size=400), st.text(max_size=400), st.integers(0, 2**40))
@settings(max_examples=20, deadline=None)
def test_every_line_is_short_and_intact_whatever_its_fields(text: str, other: str, number: int) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "audit.jsonl")
        log = AuditLog(path)
        subject = Subject(text, other, text, number, worker=other)
        log.request_all("POST", text, [(subject, number)])
        log.lookup(other, [text, other] * 500)
        log.cluster(text, [other] * 500, has_token=True, uses=[text] * 500)
        asyncio.run(log.request("GET", text, other, subject._replace(benchmark=", ".join([text] * 300)), number))
        log.consent(text, [other] * 300, "administrator")
        log.close()
        assert check_chain(path).problem == ""
        assert len(list(read_audit_log(path))) == 5
        content = path.read_bytes()
        assert max(map(len, content.splitlines())) < LONGEST_ENTRY
        cut(path, len(content) - number % len(content))
        assert check_chain(path).problem == "", "every beginning of an entry is an interruption"


def test_text_in_place_of_a_name_is_not_written(path: Path) -> None:
    log = AuditLog(path)
    said = "Mr. John Doe, MRN 123"
    subject = Subject('a"b\n\u2028ä', f"{said}, pubmed_qa", said, worker=said)
    log.request_all("POST", "https://a.example", [(subject, 1)])
    log.close()
    assert "John" not in path.read_text(encoding="utf-8")
    assert path.read_bytes().isascii()
    [entry] = read_audit_log(path)
    names = ("model", "benchmark", "worker", "digest")
    expected = ['a"b\n\u2028ä', "(not a name), (not a name), pubmed_qa", "(not a name)", ""]
    assert [entry.content[name] for name in names] == expected


@pytest.mark.parametrize("name", ["audit.jsonl", "audit.head"])
@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "folder"])
def test_only_a_regular_file_is_a_log(path: Path, name: str, kind: str) -> None:
    """Someone with access to the folder of a team's store could direct the lines elsewhere."""
    place, other = path.with_name(name), path.with_name("other")
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    else:
        place.symlink_to(other)
        if kind == "link":
            other.touch()
    with pytest.raises(StoreError, match="nothing is sent without it"):
        write(path, 1)
    assert not other.exists() or other.read_bytes() == b""
    if name == "audit.jsonl":
        with pytest.raises(StoreError, match="cannot be read"):
            check_chain(path)
        with pytest.raises(StoreError, match="cannot be read"):
            list(read_audit_log(path))


def test_requests_of_one_turn_are_written_at_once_or_all_fail(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = AuditLog(path)
    writes: list[int] = []
    write_to_file = os.write

    def write_once(file: int, data: bytes) -> int:
        writes.append(data.count(b"\n"))
        if len(writes) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_to_file(file, data)

    async def send(*sizes: int, cancelled: int = -1) -> list[BaseException | None]:
        tasks = [asyncio.create_task(log.request("POST", "https://a.example", "", SUBJECT, size)) for size in sizes]
        await asyncio.sleep(0)
        if cancelled >= 0:
            tasks[cancelled].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    async def main() -> None:
        assert await send(1, 2, 3) == [None, None, None]
        assert [type(result) for result in await send(4, 5)] == [StoreFullError, StoreFullError]
        first, second = await send(6, 7, cancelled=0)
        assert isinstance(first, asyncio.CancelledError)
        assert second is None

    monkeypatch.setattr(os, "write", write_once)
    asyncio.run(main())
    log.close()
    assert writes == [3, 2, 2]
    assert [entry.content["bytes"] for entry in read_audit_log(path)] == [1, 2, 3, 6, 7]
    assert check_chain(path).problem == ""
