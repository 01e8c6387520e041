"""The audit log of a store: `audit.jsonl`, one line for every request, written before it is sent.

A line is a JSON object that ends with the SHA-256 of the previous line, so that no line can be changed, inserted or
removed in the middle without breaking the chain. Lines removed from the end, and a rewritten log, are detected only by
comparison with a hash that was saved elsewhere (`medhelm audit verify --head`). The log never holds text of a prompt,
completion or reference.

A line is passed to the operating system before its request is sent, so `kill -9` cannot lose it. It is synced to the
disk within a second, so a power failure can lose the last second. If a line cannot be written, its request is not sent.
Processes append to a shared log one at a time, under a lock of the file.
"""

from __future__ import annotations

import asyncio
import getpass
import hashlib
import json
import os
import platform
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from medhelm.errors import StoreError, StoreFullError
from medhelm.io.http.audit import Subject
from medhelm.io.system_errors import DISK_FULL

try:
    import fcntl
except ImportError:  # Windows: one process at a time must write
    fcntl = None  # type: ignore[assignment]

NO_LINE = "0" * 64
"""Hash in the first line."""

SYNC_INTERVAL_S = 1.0
"""Longest time until a line is on disk."""

TAIL_BYTES = 2**16
"""Bytes at the end of the file that are searched for the last line; a line has a few hundred."""

MOST_KNOWN = 1024
"""Maximum number of cached line beginnings: one per destination, model, benchmark and worker."""

_START = re.compile(rb'\{"line":(\d+),')
_END = re.compile(rb',"previous":"([0-9a-f]{64})"\}$')
_END_LENGTH = len(f',"previous":"{NO_LINE}"}}')


class AuditLog:
    """Appends to the log of a store. Methods may be called in any thread, `request` in one event loop."""

    def __init__(self, path: Path) -> None:
        """Nothing is opened before the first entry."""
        self.path = path
        self._file = -1
        self._end = -1
        self._n = 0
        self._previous = NO_LINE
        self._failure: OSError | None = None
        self._writing = threading.Lock()
        self._known: dict[tuple[str, ...], str] = {}
        self._unsynced = threading.Event()
        self._closing = threading.Event()
        self._syncing: threading.Thread | None = None
        self._gathered: list[tuple[str, asyncio.Future[None]]] = []
        """Lines of this turn of the event loop, which are written together."""
        self._who = _fields(
            user=_user(), machine=platform.node(), pid=os.getpid(), command=" ".join(_command(sys.argv))
        )

    async def request(self, method: str, destination: str, proxy: str, subject: Subject, n_bytes: int) -> None:
        """Record a request that is about to be sent. Raises: StoreFullError, StoreError.

        All requests of one turn of the event loop are written together.
        """
        loop = asyncio.get_running_loop()
        if not self._gathered:
            loop.call_soon(self._write_gathered)
        written = loop.create_future()
        self._gathered.append((self._content(method, destination, proxy, subject, n_bytes), written))
        await written

    def _write_gathered(self) -> None:
        """Write the gathered lines, and resume the requests that wait for them."""
        gathered, self._gathered = self._gathered, []
        failure: Exception | None = None
        try:
            self._append([content for content, _ in gathered])
        except Exception as error:  # noqa: BLE001 - raised in every request, none of which may wait forever
            failure = error
        for _, written in gathered:
            if written.done():  # cancelled meanwhile
                continue
            if failure is None:
                written.set_result(None)
            else:
                written.set_exception(failure)

    def request_all(self, method: str, destination: str, sent: Sequence[tuple[Subject, int]]) -> None:
        """Record requests that are about to be sent together, with the bytes of each, at once. Raises: as `request`."""
        self._append([self._content(method, destination, "", subject, n_bytes) for subject, n_bytes in sent])

    def _content(self, method: str, destination: str, proxy: str, subject: Subject, n_bytes: int) -> str:
        """Return the content of a line about a request."""
        key = (method, destination, proxy, subject.model, subject.benchmark, subject.worker)
        start = self._known.get(key)
        if start is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            named = {"destination": destination, "method": method, **({"proxy": proxy} if proxy else {})}
            if subject.worker:
                named["worker"] = subject.worker
            start = _fields(action="request", **named, model=subject.model, benchmark=subject.benchmark)
            self._known[key] = start
        return f'{start},"digest":"{subject.digest}","requests":{subject.requests},"bytes":{n_bytes}'

    def lookup(self, host: str, addresses: Sequence[str]) -> None:
        """Record the addresses of a host before connecting to it. Raises: as `request`."""
        self._append([_fields(action="lookup", destination=host, addresses=list(addresses))])

    def cluster(self, destination: str, nodes: Sequence[str], *, has_token: bool, uses: Sequence[str]) -> None:
        """Record a cluster that is about to run models or metrics. Raises: as `request`."""
        self._append(
            [_fields(action="cluster", destination=destination, nodes=list(nodes), token=has_token, uses=list(uses))]
        )

    def close(self) -> None:
        """Sync the log to the disk and close it. Can be called more than once."""
        self._closing.set()
        self._unsynced.set()
        if self._syncing is not None:
            self._syncing.join()
            self._syncing = None
        with self._writing:
            if self._file >= 0:
                os.close(self._file)
            self._file = -1

    def _append(self, contents: Sequence[str]) -> None:
        with self._writing:
            try:
                if self._failure:
                    raise self._failure
                if self._file < 0:
                    self._open()
                if fcntl:
                    fcntl.flock(self._file, fcntl.LOCK_EX)
                try:
                    self._write(contents)
                finally:
                    if fcntl:
                        fcntl.flock(self._file, fcntl.LOCK_UN)
            except OSError as error:
                kind = StoreFullError if error.errno in DISK_FULL else StoreError
                raise kind(
                    f"the audit log {self.path} cannot be written ({error.strerror or error}), and nothing is sent "
                    "without it. Everything received is kept."
                ) from error
        if not self._unsynced.is_set():
            self._unsynced.set()

    def _open(self) -> None:
        self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._closing.clear()
        self._syncing = threading.Thread(target=self._sync, name="medhelm-audit", daemon=True)
        self._syncing.start()

    def _write(self, contents: Sequence[str]) -> None:
        """Append lines, after whatever other processes have appended."""
        gap = b""
        size = os.lseek(self._file, 0, os.SEEK_END)
        if size != self._end:
            gap = self._read_end(size)
        now = f"{datetime.now(UTC).isoformat(timespec='microseconds')[:-6]}Z"  # strftime takes three times as long
        self._end = -1  # until all is written
        lines, previous = [gap], self._previous
        for number, content in enumerate(contents, self._n + 1):
            line = f'{{"line":{number},"time":"{now}",{self._who},{content},"previous":"{previous}"}}'.encode()
            previous = hashlib.sha256(line).hexdigest()
            lines += (line, b"\n")
        whole = b"".join(lines)
        written = os.write(self._file, whole)
        while written < len(whole):
            written += os.write(self._file, whole[written:])
        self._end = size + len(whole)
        self._n += len(contents)
        self._previous = previous

    def _read_end(self, size: int) -> bytes:
        """Read number and hash of the last line; return the line end that an interrupted line lacks.

        Raises: StoreError for a file without such a line.
        """
        start = max(0, size - TAIL_BYTES)
        os.lseek(self._file, start, os.SEEK_SET)
        tail = b""
        while len(tail) < size - start and (piece := os.read(self._file, size - start - len(tail))):
            tail += piece
        for line in reversed(tail.split(b"\n")):
            if (found := _START.match(line)) and _END.search(line):
                self._n, self._previous = int(found[1]), hashlib.sha256(line).hexdigest()
                break
        else:
            if start or b"\n" in tail:
                raise StoreError(
                    f"the audit log {self.path} does not end with a line of an audit log, and nothing is sent without "
                    "it. `medhelm audit verify` shows where it is damaged. Keep the file, under another name."
                )
            self._n, self._previous = 0, NO_LINE
        return b"" if not tail or tail.endswith(b"\n") else b"\n"

    def _sync(self) -> None:
        """Sync new lines to the disk, at most once per interval, until the log is closed."""
        while not self._closing.is_set():
            self._unsynced.wait()
            self._unsynced.clear()
            self._force()
            self._closing.wait(SYNC_INTERVAL_S)
        self._force()

    def _force(self) -> None:
        try:
            os.fsync(self._file)
        except OSError as error:
            self._failure = error


def _fields(**content: object) -> str:
    """Return the fields of a JSON object, without the braces."""
    return json.dumps(content, separators=(",", ":"))[1:-1]


def _user() -> str:
    """Return the name of the user, or the user id if it has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _command(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the name of the program and its command, without options and arguments, which can hold names and paths."""
    program = Path(arguments[0] if arguments else "").stem
    yield {"": "python", "__main__": "medhelm"}.get(program, program)
    yield from (one for one in arguments[1:2] if re.fullmatch(r"[a-z-]{2,30}", one) and not one.startswith("-"))


# --- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One line of the log."""

    line: int
    """Its number, from 1."""
    content: dict[str, Any]
    """Its fields, without the hash."""


@dataclass(slots=True)
class AuditTotal:
    """Sum over the requests to one destination about one benchmark."""

    destination: str
    """Scheme, host and port."""
    benchmark: str
    """Name of the benchmark, or several with commas; empty if its data was not sent."""
    requests: int = 0
    """Number of HTTP requests."""
    bytes: int = 0
    """Bytes of their bodies."""
    first: str = ""
    """Time of the first one."""
    last: str = ""
    """Time of the last one."""


def total_requests(entries: Iterable[AuditEntry]) -> list[AuditTotal]:
    """Return the sums by destination and benchmark, sorted."""
    found: dict[tuple[str, str], AuditTotal] = {}
    for entry in entries:
        content = entry.content
        if content.get("action") != "request":
            continue
        key = str(content.get("destination", "")), str(content.get("benchmark", ""))
        total = found.setdefault(key, AuditTotal(*key, first=str(content.get("time", ""))))
        total.requests += 1
        total.bytes += int(content.get("bytes", 0))
        total.last = str(content.get("time", ""))
    return [found[key] for key in sorted(found)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditCheck:
    """Result of checking the chain of a log."""

    n: int
    """Number of entries."""
    head: str
    """Hash of the last entry; 64 zeros if there is none."""
    n_interrupted: int
    """Lines that a crash interrupted; their requests were not sent."""
    problem: str
    """The first break of the chain, with its line in the file; "" if there is none."""
    has_head: bool
    """True if the chain contains the requested hash, or none was requested."""


def check_chain(path: Path, head: str = "") -> AuditCheck:
    """Check that every entry holds the hash of the previous one. `head`: a hash that the chain must contain.

    Raises: StoreError if the file cannot be read.
    """
    n = n_interrupted = 0
    previous, problem, has_head = NO_LINE.encode(), "", not head
    wanted = head.lower().encode()
    with _reading(path) as file:
        for number, whole in enumerate(file, 1):
            line = whole.rstrip(b"\n")
            found = _END.search(line, max(0, len(line) - _END_LENGTH))
            if found is None or not line.startswith(b'{"line":'):
                if not _can_begin(n + 1, line):
                    problem = f"line {number} was not written by medhelm, or was changed"
                    break
                n_interrupted += 1
                continue
            if found[1] != previous:
                problem = (
                    f"line {number} does not follow the entry before it: one of them was changed, or lines between "
                    "them were removed or inserted"
                )
                break
            n += 1
            if not line.startswith(b'{"line":%d,' % n):
                problem = f"line {number} is entry {n}, but has another number"
                break
            previous = hashlib.sha256(line).hexdigest().encode()
            has_head = has_head or previous.startswith(wanted)
    return AuditCheck(n=n, head=previous.decode(), n_interrupted=n_interrupted, problem=problem, has_head=has_head)


def _can_begin(number: int, line: bytes) -> bool:
    """Return True if a line can be the beginning of an entry; a power failure can leave NUL bytes in its place."""
    start, line = b'{"line":%d,' % number, line.rstrip(b"\0")
    return line.startswith(start) or start.startswith(line)


def read_audit_log(path: Path) -> Iterator[AuditEntry]:
    """Yield the entries of a log, without checking the chain. Raises: StoreError."""
    with _reading(path) as file:
        for whole in file:
            line = whole.rstrip(b"\n")
            if not _START.match(line) or not _END.search(line):
                continue
            try:
                content = json.loads(line)
            except (ValueError, RecursionError):
                continue
            content.pop("previous")
            yield AuditEntry(line=content.pop("line"), content=content)


def _reading(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise StoreError(f"{path} does not exist: nothing was sent from this store, or the log was removed.") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}.") from error
