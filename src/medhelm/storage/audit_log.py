"""Writes the audit log of a store: `audit.jsonl`, one line for every request, written before it is sent.

Every line is chained to the one before it (see `storage.audit_chain`), so that no line can be changed, inserted or
removed in the middle. Lines removed from the end, and a rewritten log, are detected for certain only by comparison with
a hash that was saved elsewhere (`medhelm audit verify --head`). The log never holds text of a prompt, completion or
reference: of what comes from elsewhere, only names are written.

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
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from io import BytesIO
from itertools import islice
from pathlib import Path

from medhelm.domain.names import LONGEST, is_benchmark_name, is_worker_name
from medhelm.errors import StoreError, StoreFullError
from medhelm.io.http.audit import Subject
from medhelm.io.shared_files import open_shared
from medhelm.io.system_errors import DISK_FULL
from medhelm.storage.audit_chain import (
    LONGEST_LINE,
    NO_HEAD,
    Chain,
    Head,
    chain_lines,
    head_bytes,
    head_file,
    missing_end,
    read_head,
)

try:
    import fcntl
except ImportError:  # Windows: one process at a time must write
    fcntl = None  # type: ignore[assignment]

SYNC_INTERVAL_S = 1.0
"""Longest time until a line is on disk."""

TAIL_BYTES = 2**16
"""Bytes at the end of a log without a head file that are searched first for its last entries."""

MOST_KNOWN = 1024
"""Maximum number of cached line beginnings: one per destination, model, benchmark and worker."""

MOST_TEXT, MOST_BENCHMARKS, MOST_LISTED = 300, 100, 200
"""Most characters of a field, benchmarks that it names, and addresses or machines in a list."""

NOT_A_NAME = "(not a name)"
"""Written in place of a name that is none: it could be any text."""


class AuditLog:
    """Appends to the log of a store. Methods may be called in any thread, `request` in one event loop."""

    def __init__(self, path: Path) -> None:
        """Nothing is opened before the first entry."""
        self.path = path
        self._file = self._head_file = -1
        self._last: Head | None = None
        """The last entry, as far as this process knows; None: the end of the file must be read."""
        self._failure: OSError | None = None
        self._writing = threading.Lock()
        self._known: dict[tuple[str, ...], str] = {}
        self._unsynced = threading.Event()
        self._closing = threading.Event()
        self._syncing: threading.Thread | None = None
        self._gathered: list[tuple[str, asyncio.Future[None]]] = []
        """Lines of this turn of the event loop, which are written together."""
        who = {"user": _user()[:MOST_TEXT], "machine": platform.node()[:MOST_TEXT]}
        self._who = _fields(**who, pid=os.getpid(), command=" ".join(_command(sys.argv)))

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
            named = {"destination": destination[:MOST_TEXT], "method": method}
            if proxy:
                named["proxy"] = proxy[:MOST_TEXT]
            if subject.worker:
                named["worker"] = subject.worker if is_worker_name(subject.worker) else NOT_A_NAME
            start = _fields(
                action="request", **named, model=subject.model[:MOST_TEXT], benchmark=_benchmarks(subject.benchmark)
            )
            self._known[key] = start
        digest = subject.digest if _DIGEST.fullmatch(subject.digest) else ""
        return f'{start},"digest":"{digest}","requests":{subject.requests:d},"bytes":{n_bytes:d}'

    def lookup(self, host: str, addresses: Sequence[str]) -> None:
        """Record the addresses of a host before connecting to it. Raises: as `request`."""
        self._append([_fields(action="lookup", destination=host[:MOST_TEXT], addresses=_listed(addresses))])

    def cluster(self, destination: str, nodes: Sequence[str], *, has_token: bool, uses: Sequence[str]) -> None:
        """Record a cluster that is about to run models or metrics. Raises: as `request`."""
        named = {"destination": destination[:MOST_TEXT], "nodes": _listed(nodes)}
        self._append([_fields(action="cluster", **named, token=has_token, uses=_listed(uses))])

    def close(self) -> None:
        """Sync the log to the disk and close it. Can be called more than once."""
        self._closing.set()
        self._unsynced.set()
        if self._syncing is not None:
            self._syncing.join()
            self._syncing = None
        with self._writing:
            for file in (self._file, self._head_file):
                if file >= 0:
                    os.close(file)
            self._file = self._head_file = -1

    def _append(self, contents: Sequence[str]) -> None:
        with self._writing:
            try:
                if self._failure:
                    raise self._failure
                if self._file < 0:
                    self._open()
                with _locked(self._file):
                    self._write(contents)
            except OSError as error:
                kind = StoreFullError if error.errno in DISK_FULL else StoreError
                raise kind(
                    f"the audit log {self.path} cannot be written ({error.strerror or error}), and nothing is sent "
                    "without it. Everything received is kept."
                ) from error
        if not self._unsynced.is_set():
            self._unsynced.set()

    def _open(self) -> None:
        if self._head_file < 0:
            self._head_file = open_shared(head_file(self.path), os.O_RDWR | os.O_CREAT)
        self._file = open_shared(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        self._closing.clear()
        self._syncing = threading.Thread(target=self._sync, name="medhelm-audit", daemon=True)
        self._syncing.start()

    def _write(self, contents: Sequence[str]) -> None:
        """Append lines, after whatever other processes have appended."""
        gap = interruption = ""
        size = os.lseek(self._file, 0, os.SEEK_END)
        if self._last is None or size != self._last.end:
            gap, interruption = self._read_end(size)
        now = f"{datetime.now(UTC).isoformat(timespec='microseconds')[:-6]}Z"  # strftime takes three times as long
        last, self._last = self._last or NO_HEAD, None  # until all is written
        lines = [gap.encode()]
        end = size + len(gap)
        for content in contents:
            confirmed = f',"interrupted":"{interruption}"' if interruption else ""
            about = f'{{"line":{last.n + 1},"time":"{now}",{self._who},{content}{confirmed}'
            line = f'{about},"previous":"{last.hash}"}}'.encode()
            last = Head(last.n + 1, end, end + len(line) + 1, hashlib.sha256(line).hexdigest())
            end, interruption = last.end, ""
            lines += (line, b"\n")
        whole = b"".join(lines)
        try:
            written = os.write(self._file, whole)
            while written < len(whole):
                written += os.write(self._file, whole[written:])
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, size)  # nothing incomplete stays
            raise
        self._last = last

    def _read_end(self, size: int) -> tuple[str, str]:
        """Read what follows the last known entry; return the line end that the file lacks, and `Chain.interruption`.

        Raises: StoreError for anything that no writer left there.
        """
        known = self._last or self._named_head()
        if known is None:
            chain = self._check_tail(size)
        elif known.end <= size + 1 and self._holds(known):  # its line end may be missing
            chain = Chain(head=known, position=min(known.end, size))
            self._check(chain, size)
        else:
            raise self._damaged(missing_end(self.path, known))
        self._last = chain.head
        is_open = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"
        return "\n" if is_open else "", chain.interruption

    def _named_head(self) -> Head | None:
        """Return the entry that the head file names, if any. Raises: StoreError if it is damaged."""
        try:
            return read_head(os.pread(self._head_file, TAIL_BYTES, 0))
        except ValueError as error:
            raise self._damaged(f"{head_file(self.path)} was changed: {error}") from None

    def _holds(self, known: Head) -> bool:
        """Return True if an entry is in its place."""
        length = known.end - known.start
        line = os.pread(self._file, length, known.start) if 0 < length <= LONGEST_LINE else b""
        return hashlib.sha256(line.removesuffix(b"\n")).hexdigest() == known.hash

    def _check_tail(self, size: int) -> Chain:
        """Check the last entries, two or more, of a log without a head file. Raises: as `_read_end`."""
        length = TAIL_BYTES
        while True:
            start = max(0, size - length)
            chain = Chain(head=None if start else NO_HEAD, position=start, is_partial=True)
            if self._check(chain, size) > 1 or not start:
                return chain
            length *= 16

    def _check(self, chain: Chain, size: int) -> int:
        """Check the rest of the file, and return the number of its entries. Raises: as `_read_end`."""
        rest = b""
        while piece := os.pread(self._file, size - chain.position - len(rest), chain.position + len(rest)):
            rest += piece
        n = 0
        for whole in chain_lines(BytesIO(rest)):
            before = chain.head
            if problem := chain.add(whole):
                raise self._damaged(f"a line at its end {problem}")
            n += chain.head is not before
        return n

    def _damaged(self, problem: str) -> StoreError:
        return StoreError(
            f"the audit log {self.path} is damaged, and nothing is sent without it: {problem}. `medhelm audit verify` "
            f"checks the whole log. To begin a new one, keep {self.path.name} and {head_file(self.path).name} under "
            "other names."
        )

    def _sync(self) -> None:
        """Sync new lines to the disk, at most once per interval, until the log is closed."""
        while not self._closing.is_set():
            self._unsynced.wait()
            self._unsynced.clear()
            self._force()
            self._closing.wait(SYNC_INTERVAL_S)
        self._force()

    def _force(self) -> None:
        with self._writing:
            last = self._last
        try:
            os.fsync(self._file)
            if last is not None:
                self._write_head(last)
        except OSError as error:
            self._failure = error

    def _write_head(self, last: Head) -> None:
        """Name an entry that is on the disk as the last one, unless a later one is named. Raises: OSError."""
        with self._writing, _locked(self._file), suppress(ValueError):  # a damaged file stays as it is
            known = read_head(os.pread(self._head_file, TAIL_BYTES, 0))
            if known is None or known.n < last.n:
                os.pwrite(self._head_file, head_bytes(last), 0)


@contextmanager
def _locked(file: int) -> Iterator[None]:
    """Let one process at a time use a file. Raises: OSError."""
    if fcntl is None:
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


_DIGEST = re.compile(r"[0-9a-f]{0,128}")


def _benchmarks(names: str) -> str:
    """Return the names of benchmarks, separated by commas; anything else is left out."""
    found = names.split(", ") if names else []
    checked = [name if is_benchmark_name(name) else NOT_A_NAME for name in found[:MOST_BENCHMARKS]]
    more = [f"{len(found) - MOST_BENCHMARKS} more"] if len(found) > MOST_BENCHMARKS else []
    return ", ".join([*checked, *more])


def _listed(names: Iterable[str]) -> list[str]:
    """Return the first names of a list, none of them long."""
    return [name[:LONGEST] for name in islice(names, MOST_LISTED)]


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
