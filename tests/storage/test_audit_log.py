"""The audit log: one chain of all processes, which interruptions do not break and changes do."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from medhelm.errors import StoreError, StoreFullError
from medhelm.io.http.audit import Subject
from medhelm.storage.audit_log import NO_LINE, AuditLog, check_chain, read_audit_log, total_requests

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
    assert (
        request.items()
        >= {
            "action": "request",
            "method": "POST",
            "destination": "https://api.openai.com",
            "proxy": "http://proxy.example:3128",
            "model": "openai/gpt-4o",
            "benchmark": "pubmed_qa",
            "digest": "ab" * 32,
            "bytes": 1234,
            "pid": os.getpid(),
        }.items()
    )
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
        "import sys; from pathlib import Path; from medhelm.storage.audit_log import AuditLog; "
        "from medhelm.io.http.audit import Subject; log = AuditLog(Path(sys.argv[1]))\n"
        "for n in range(300): log.request_all('POST', 'https://a.example', [(Subject('m', 'b', ''), n)])\n"
        "log.close()"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for _ in range(2)]
    first, second = AuditLog(path), AuditLog(path)
    for number in range(200):
        (first, second)[number % 2].request_all("POST", "https://b.example", [(SUBJECT, number)])
    first.close()
    second.close()
    assert [process.wait(60) for process in running] == [0, 0]
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
    assert check_chain(path, noted[:16]).has_head
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join(lines[:9]) + b"\n")
    found = check_chain(path, noted)
    assert (found.problem, found.has_head, found.n) == ("", False, 9)


@pytest.mark.parametrize("whole", [0, 5])
def test_an_interrupted_line_does_not_break_the_chain(path: Path, whole: int) -> None:
    """A power failure can leave half a line; its request was not sent, and the next entry begins a line of its own."""
    write(path, whole + 1)
    path.write_bytes(path.read_bytes()[:-100])
    write(path, 2)
    found = check_chain(path)
    assert (found.n, found.problem, found.n_interrupted) == (whole + 2, "", 1)
    assert [entry.line for entry in read_audit_log(path)] == list(range(1, whole + 3))


@pytest.mark.parametrize("line", [b"noise", b'{"line":7,"time"', b'{"time":"2026', b"{}"])
def test_a_line_that_is_not_the_beginning_of_an_entry_is_a_problem(path: Path, line: bytes) -> None:
    write(path, 3)
    path.write_bytes(path.read_bytes() + line + b"\n")
    write(path, 2)
    found = check_chain(path)
    assert (found.n, found.n_interrupted, found.problem) == (3, 0, "line 4 was not written by medhelm, or was changed")


def test_an_entry_without_its_end_is_a_problem(path: Path) -> None:
    write(path, 5)
    lines = path.read_bytes().splitlines()
    lines[2] = lines[2][:-5]
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert "line 4 does not follow" in check_chain(path).problem


def test_bytes_that_a_power_failure_left_empty_are_an_interrupted_entry(path: Path) -> None:
    write(path, 3)
    path.write_bytes(path.read_bytes() + b"\0" * 200)
    write(path, 2)
    found = check_chain(path)
    assert (found.n, found.n_interrupted, found.problem) == (5, 1, "")


def test_a_file_that_is_no_log_is_not_continued(path: Path) -> None:
    path.write_text("something else\n", encoding="utf-8")
    with pytest.raises(StoreError, match="nothing is sent without it"):
        write(path, 1)
    assert path.read_text(encoding="utf-8") == "something else\n"


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
        return await asyncio.wait_for(asyncio.gather(*requests, return_exceptions=True), 30)

    monkeypatch.setattr(AuditLog, "_open", no_thread)
    assert [str(result) for result in asyncio.run(send())] == ["can't start new thread"] * 2


def test_names_are_escaped_and_lines_are_json(path: Path) -> None:
    log = AuditLog(path)
    log.request_all("POST", "https://a.example", [(Subject('a"b\n\u2028ä', "x\x1b[0m"), 1)])
    log.close()
    [line] = path.read_bytes().splitlines()
    content = json.loads(line)
    assert (content["model"], content["benchmark"]) == ('a"b\n\u2028ä', "x\x1b[0m")
    assert content["previous"] == NO_LINE
    assert line.isascii()
