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
    is_beginning,
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
    log.close()
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


CHANGES: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "changed": lambda lines: [*lines[:5], lines[5].replace(b'"bytes":5', b'"bytes":6'), *lines[6:]],
    "removed": lambda lines: [*lines[:5], *lines[6:]],
    "removed at the start": lambda lines: lines[1:],
    "swapped": lambda lines: [*lines[:5], lines[6], lines[5], *lines[7:]],
    "copied": lambda lines: [*lines[:5], lines[4], *lines[5:]],
    "mangled": lambda lines: [*lines[:5], lines[5][:40], *lines[6:]],
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_every_change_in_the_middle_breaks_the_chain(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    write(path, 10)
    path.write_bytes(b"\n".join(change(path.read_bytes().splitlines())) + b"\n")
    assert "does not follow the entry before it" in check_chain(path).problem


def test_removal_at_the_end_is_found_by_a_noted_hash(path: Path) -> None:
    write(path, 10)
    noted = check_chain(path).head
    write(path, 3)
    assert check_chain(path, noted[:16]).n_since == 3
    assert check_chain(path, NO_ENTRY).n_since == 13
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join(lines[:9]) + b"\n")
    head_file(path).unlink()
    found = check_chain(path, noted)
    assert (found.problem, found.n_since, found.n) == ("", None, 9)


def cut(path: Path, end: int) -> None:
    """Cut a log as a power failure does: what was never synced is lost, and the head file does not name it."""
    content = path.read_bytes()[:end]
    path.write_bytes(content)
    head_file(path).unlink(missing_ok=True)


@pytest.mark.parametrize("whole", [0, 5])
@pytest.mark.parametrize("n_lost", [1, 2, 3, 100, 350, 395])
def test_an_interrupted_line_does_not_break_the_chain(path: Path, whole: int, n_lost: int) -> None:
    """A power failure can leave half a line; its request was not sent, and the next entry confirms what was left."""
    write(path, whole)
    log = AuditLog(path)
    log.request_all("POST", "https://api.openai.com", [(Subject("m" * 100, "pubmed_qa", "ab" * 32), 1)])
    log.close()
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


INSERTED = (
    b"noise",
    b"",
    b"{",
    b'{"line":4,',
    b'{"line":4,"destination":"https://evil.example","note":"INSERTED TEXT"}',
    b'{"line":4,"time":"2026-11-01T00:00:00.000Z","note":"INSERTED',
    b'{"line":7,"time"',
    b'{"time":"2026',
    b"{}",
    b"\0\0\0",
)


@pytest.mark.parametrize("line", INSERTED)
@pytest.mark.parametrize("n", [1, 1000])
def test_an_inserted_line_is_a_problem(path: Path, line: bytes, n: int) -> None:
    """Even one that looks like the beginning of an entry: the next entry does not confirm it."""
    write(path, 3)
    before = path.read_bytes()
    write(path, 2)
    after = path.read_bytes()[len(before) :]
    path.write_bytes(before + (line + b"\n") * n + after)
    found = check_chain(path)
    assert (found.n, found.problem != "") == (3, True)


CHANGED_ENDS: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda _: b"",
    "last entry removed": lambda content: b"".join(content.splitlines(keepends=True)[:-1]),
    "half removed": lambda content: b"".join(content.splitlines(keepends=True)[:3]),
    "last entry cut": lambda content: content[:-80],
    "last entry changed and cut": lambda content: (
        content[:-300] + content[-300:].replace(b"api.openai.com", b"evil.example")[:-150]
    ),
    "rewritten": lambda content: content.replace(b"pubmed_qa", b"pubmed_qb"),
    "something else": lambda _: b"something else\n",
    "text appended": lambda content: content + b"A sentence.\n",
    "empty line appended": lambda content: content + b"\n",
}


@pytest.mark.parametrize("change", CHANGED_ENDS.values(), ids=list(CHANGED_ENDS))
def test_a_changed_end_is_found_and_not_continued(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Without a noted hash too, unless the file that names the last entry is changed as well."""
    write(path, 6)
    path.write_bytes(change(path.read_bytes()))
    changed = path.read_bytes()
    assert check_chain(path).problem
    with pytest.raises(StoreError, match="nothing is sent without it"):
        write(path, 1)
    assert path.read_bytes() == changed


@pytest.mark.parametrize("content", [b"0" * 127, b"x", b"1" * 200])
def test_a_damaged_head_file_and_a_removed_log_are_found(path: Path, content: bytes) -> None:
    write(path, 3)
    whole = path.read_bytes()
    path.unlink()
    with pytest.raises(StoreError, match=r"lacks entry 3, which audit.head names"):
        write(path, 1)
    path.write_bytes(whole)
    head_file(path).write_bytes(content)
    assert "audit.head was changed" in check_chain(path).problem
    with pytest.raises(StoreError, match=r"audit.head was changed"):
        write(path, 1)


@pytest.mark.parametrize("content", [b"", b"\0" * 127])
def test_a_head_file_that_a_power_failure_left_empty_is_written_again(path: Path, content: bytes) -> None:
    write(path, 3)
    whole = head_file(path).read_bytes()
    head_file(path).write_bytes(content)
    assert check_chain(path).problem == ""
    write(path, 1)
    assert len(head_file(path).read_bytes()) == len(whole)
    assert check_chain(path).n == 4


OLD = (
    '{"line":1,"time":"2026-10-01T08:00:00.123Z","user":"u","machine":"m","pid":1,"command":"medhelm run","action":'
    '"request","destination":"https://a.example","method":"POST","model":"m","benchmark":"Mr. John Doe %s","digest":"",'
    '"requests":1,"bytes":5,"previous":"' + NO_ENTRY + '"}'
)


def test_a_log_of_an_earlier_version_is_continued(path: Path) -> None:
    """However long its last line is."""
    path.write_text(OLD % ("x" * 200_000) + "\n", encoding="utf-8")
    assert check_chain(path).problem == ""
    write(path, 2)
    assert (check_chain(path).n, check_chain(path).problem) == (3, "")


def test_an_interruption_of_an_earlier_version_is_reported_and_does_not_stop_anything(path: Path) -> None:
    write(path, 2)
    before = path.read_bytes()
    write(path, 1)
    path.write_bytes(before + b'{"line":3,"time":"2026-1\n' + path.read_bytes()[len(before) :])
    head_file(path).unlink()
    assert "version 0.2.0 or earlier was interrupted there" in check_chain(path).problem
    write(path, 1)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_the_writer_continues_exactly_the_logs_that_are_intact(data: st.DataObject) -> None:
    """Whatever is at the end of a file: what one accepts the other one accepts, and what was written is intact."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "audit.jsonl")
        write(path, data.draw(st.integers(0, 3)))
        content = path.read_bytes() if path.exists() else b""
        if data.draw(st.booleans()):
            head_file(path).unlink(missing_ok=True)
        if content:
            content = content[: len(content) - data.draw(st.integers(0, 600))]
        lines = content.splitlines(keepends=True) or [b""]
        piece = st.one_of(
            st.sampled_from(
                [*INSERTED, b"\n", b'{"line":', b'{"line":1,"time":"2026-01', *lines, *(x[:90] for x in lines)]
            ),
            st.binary(max_size=20),
        )
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
@settings(max_examples=150, deadline=None)
def test_every_line_is_short_and_intact_whatever_its_fields(text: str, other: str, number: int) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "audit.jsonl")
        log = AuditLog(path)
        subject = Subject(text, other, text, number, worker=other)
        log.request_all("POST", text, [(subject, number)])
        log.lookup(other, [text, other] * 500)
        log.cluster(text, [other] * 500, has_token=True, uses=[text] * 500)
        asyncio.run(log.request("GET", text, other, subject._replace(benchmark=", ".join([text] * 300)), number))
        log.close()
        assert check_chain(path).problem == ""
        assert len(list(read_audit_log(path))) == 4
        content = path.read_bytes()
        assert max(map(len, content.splitlines())) < LONGEST_ENTRY
        path.write_bytes(content[: -number % len(content)])


def test_every_beginning_of_an_entry_is_one_and_nothing_else(path: Path) -> None:
    log = AuditLog(path)
    log.request_all("POST", "https://a.example", [(Subject('q"\\\u2028', "pubmed_qa", "ab", worker="w"), 12)])
    log.lookup("a.example", ["::1", "10.0.0.1"])
    log.cluster("ray://x", ["a", "b"], has_token=False, uses=["bertscore"])
    log.cluster("ray://x", [], has_token=True, uses=[])
    log.close()
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        assert all(is_beginning(line[:end], number) for end in range(1, len(line)))
        assert not is_beginning(line, number)
        assert not is_beginning(line[:-1] + b',"note":"x', number)
        assert not is_beginning(line[:60], number + 1)
        assert is_beginning(line[:50] + b"\0" * 9, number)


def test_text_in_place_of_a_name_is_not_written(path: Path) -> None:
    log = AuditLog(path)
    said = "Mr. John Doe, MRN 123"
    log.request_all(
        "POST", "https://a.example", [(Subject('a"b\n\u2028ä', f"{said}, pubmed_qa", said, worker=said), 1)]
    )
    log.close()
    assert "John" not in path.read_text(encoding="utf-8")
    assert path.read_bytes().isascii()
    [entry] = read_audit_log(path)
    assert entry.content["benchmark"] == "(not a name), (not a name), pubmed_qa"
    assert (entry.content["worker"], entry.content["digest"]) == ("(not a name)", "")
    assert entry.content["model"] == 'a"b\n\u2028ä'


@pytest.mark.parametrize("name", ["audit.jsonl", "audit.head"])
@pytest.mark.parametrize("kind", ["link", "dangling link", "link to a device", "pipe", "folder"])
def test_only_a_regular_file_is_a_log(path: Path, name: str, kind: str) -> None:
    """Someone with access to the folder of a team's store could direct the lines elsewhere."""
    place, other = path.with_name(name), path.with_name("other")
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    elif kind == "link to a device":
        place.symlink_to(os.devnull)
    else:
        place.symlink_to(other)
        if kind == "link":
            other.write_bytes(b"")
    with pytest.raises(StoreError, match="nothing is sent without it"):
        write(path, 1)
    assert not other.exists() or other.read_bytes() == b""
    if name == "audit.jsonl":
        with pytest.raises(StoreError, match="cannot be read"):
            check_chain(path)
        with pytest.raises(StoreError, match="cannot be read"):
            list(read_audit_log(path))


@pytest.mark.parametrize("field", [b'"bytes":"abc"', b'"bytes":1e999', b'"bytes":[]', b'"note":{}'])
def test_a_line_with_other_types_is_no_entry(path: Path, field: bytes) -> None:
    write(path, 3)
    path.write_bytes(path.read_bytes().replace(b'"bytes":1', field, 1))
    with pytest.raises(StoreError, match=r"line 2: was not written by medhelm, or was changed"):
        total_requests(read_audit_log(path))
    assert "line 2 was not written by medhelm, or was changed" in check_chain(path).problem


def test_a_full_disk_is_an_error_of_its_own(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = AuditLog(path)
    log.request_all("POST", "https://a.example", [(SUBJECT, 1)])

    def full(_file: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(StoreFullError, match="No space left on device"):
        patched.setattr(os, "write", full)
        log.request_all("POST", "https://a.example", [(SUBJECT, 2)])
    log.request_all("POST", "https://a.example", [(SUBJECT, 3)])
    log.close()
    assert [entry.content["bytes"] for entry in read_audit_log(path)] == [1, 3]
    assert check_chain(path).problem == ""


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


def test_no_request_waits_forever_for_a_line_that_cannot_be_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = AuditLog(path)

    def no_thread(_: AuditLog) -> None:
        raise RuntimeError("can't start new thread")

    async def send() -> list[BaseException | None]:
        requests = (log.request("POST", "https://a.example", "", SUBJECT, size) for size in (1, 2))
        return await asyncio.wait_for(asyncio.gather(*requests, return_exceptions=True), 600)

    monkeypatch.setattr(AuditLog, "_open", no_thread)
    assert [str(result) for result in asyncio.run(send())] == ["can't start new thread"] * 2
