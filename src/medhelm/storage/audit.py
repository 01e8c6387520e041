"""The audit log of a store: `audit.jsonl`, one line for every request, written before it is sent.

Lookups of hosts, clusters, and consent to send data that is not public have lines as well.

Every line is chained to the one before it, so that no line can be changed, inserted or removed in the middle. Lines
removed from the end, and a rewritten log, are detected for certain only by comparison with a hash that was saved
elsewhere (`medhelm audit verify --head`). The log never holds text of a prompt, completion or reference: of what comes
from elsewhere, only names are written.

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from medhelm.domain.text import LONGEST, is_benchmark_name, is_worker_name
from medhelm.errors import StoreError, StoreFullError
from medhelm.io.files import DISK_FULL, open_shared
from medhelm.io.http.hosts import ConsentSource, Subject

# --- writing ----------------------------------------------------------------------------------------------------------

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

    def consent(self, host: str, benchmarks: Sequence[str], source: ConsentSource) -> None:
        """Record that data of benchmarks that are not public may be sent to a host. Raises: as `request`."""
        named = {"destination": host[:MOST_TEXT], "benchmark": _benchmarks(", ".join(benchmarks)), "source": source}
        self._append([_fields(action="consent", **named)])

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


# --- chain ------------------------------------------------------------------------------------------------------------
# The form of an audit log: what an entry is, how entries are chained, and what an interruption can leave.
#
# `audit.jsonl` has one JSON object per line, in ASCII. Its first field is the number of the entry; its last one is the
# SHA-256 of the entry before it. A power failure can leave the beginning of an entry. The next entry then holds the
# SHA-256 of those bytes, so that nothing can be added to a log later in the guise of an interruption.
#
# `audit.head` names the last entry that is known to be on the disk. It shows that entries were removed from the end,
# unless it was changed as well. Writers and readers check a log with the same code.

NO_ENTRY = "0" * 64
"""Hash in the first entry."""

LONGEST_LINE = 2**27
"""Most bytes of a line that is read. Entries have a few hundred; those of earlier versions could have more."""

LONGEST_ENTRY = 2**19
"""Most bytes of an entry that this version writes."""

MOST_INTERRUPTED = 3
"""Most incomplete lines in a row: more cannot come from power failures."""

HEAD_DIGITS = 16
"""Fewest digits of a hash that is looked for."""

_TEXT = rb'"(?:[^"\\\x00-\x1f\x80-\xff]|\\(?:["\\/bfnrt]|u[0-9a-f]{4}))*+"'
_TEXTS = rb"\[(?:%b(?:,%b)*+)?\]" % (_TEXT, _TEXT)
_TIME = rb'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z"'
_HASH = rb'"[0-9a-f]{64}"'
_KNOWN = {
    b"pid": rb"\d{1,19}",
    b"requests": rb"\d{1,19}",
    b"bytes": rb"\d{1,19}",
    b"token": rb"(?:true|false)",
    b"addresses": _TEXTS,
    b"nodes": _TEXTS,
    b"uses": _TEXTS,
}
"""Field that is no text -> its form."""

_FIELD = b"|".join(rb'"%b":%b' % item for item in _KNOWN.items())
_OTHER = rb'"(?!(?:line|time|interrupted|previous|%b)")[a-z_]{1,30}":%b' % (b"|".join(_KNOWN), _TEXT)
_ENTRY = re.compile(
    rb'\{"line":([1-9]\d{0,14}),"time":%b(?:,(?:%b|%b))*+(?:,"interrupted":(%b))?,"previous":(%b)\}'
    % (_TIME, _FIELD, _OTHER, _HASH, _HASH)
)
"""An entry of any version: its number, the hash of an interruption before it, and that of the entry before it."""

_WHO = rb'"user":%b,"machine":%b,"pid":\d{1,19},"command":%b' % (_TEXT, _TEXT, _TEXT)
_ACTIONS = (
    rb'"action":"request","destination":%b,"method":"[A-Z]+"(?:,"proxy":%b)?(?:,"worker":%b)?,"model":%b,"benchmark":%b'
    rb',"digest":"[0-9a-f]*","requests":\d{1,19},"bytes":\d{1,19}' % ((_TEXT,) * 5),
    rb'"action":"lookup","destination":%b,"addresses":%b' % (_TEXT, _TEXTS),
    rb'"action":"cluster","destination":%b,"nodes":%b,"token":(?:true|false),"uses":%b' % (_TEXT, _TEXTS, _TEXTS),
    rb'"action":"consent","destination":%b,"benchmark":%b,"source":%b' % (_TEXT, _TEXT, _TEXT),
)
_WRITTEN = re.compile(
    rb'\{"line":\d+,"time":%b,%b,(?:%b)(?:,"interrupted":%b)?,"previous":%b\}'
    % (_TIME, _WHO, b"|".join(_ACTIONS), _HASH, _HASH)
)
"""An entry as this version writes it, with its fields in order."""

_ANY = rb'"\\u0000"'
_ENDS = tuple(
    b'"time":"2026-01-01T00:00:00.000Z","user":%b,"machine":%b,"pid":1,"command":%b,%b,"interrupted":"%b","previous":"%b"}'
    % (_ANY, _ANY, _ANY, action, NO_ENTRY.encode(), NO_ENTRY.encode())
    for action in (
        b'"action":"request","destination":%b,"method":"GET","proxy":%b,"worker":%b,"model":%b,"benchmark":%b,'
        b'"digest":"","requests":1,"bytes":1' % ((_ANY,) * 5),
        b'"action":"lookup","destination":%b,"addresses":[%b]' % (_ANY, _ANY),
        b'"action":"cluster","destination":%b,"nodes":[%b],"token":true,"uses":[%b]' % (_ANY, _ANY, _ANY),
        b'"action":"cluster","destination":%b,"nodes":[],"token":false,"uses":[]' % _ANY,
        b'"action":"consent","destination":%b,"benchmark":%b,"source":%b' % (_ANY, _ANY, _ANY),
    )
)
"""Entries, of which every part is the rest of some entry."""


def is_beginning(line: bytes, number: int) -> bool:
    """Return True if a line is the beginning of an entry with this number, as this version writes it.

    A power failure can leave NUL bytes in place of the rest, or of the whole.
    """
    begun = line.rstrip(b"\0")
    if not begun:
        return bool(line)
    start = b'{"line":%d,' % number
    if len(begun) <= len(start):
        return start.startswith(begun)
    if not begun.startswith(start) or len(begun) > LONGEST_ENTRY:
        return False
    return any(_WRITTEN.fullmatch(begun + end[at:]) for end in _ENDS for at in range(len(end)))


class Head(NamedTuple):
    """An entry, and its place in the file."""

    n: int
    """Its number; 0 for none."""
    start: int
    """Its first byte."""
    end: int
    """The byte after its line."""
    hash: str
    """SHA-256 of its line."""


NO_HEAD = Head(0, 0, 0, NO_ENTRY)
"""The state of an empty log."""

_HEAD = re.compile(rb"(\d{20}) (\d{20}) (\d{20}) ([0-9a-f]{64})\n")


def head_file(log: Path) -> Path:
    """Return the file that names the last entry of a log."""
    return log.with_suffix(".head")


def head_bytes(head: Head) -> bytes:
    """Return the content of that file, which always has the same length."""
    return b"%020d %020d %020d %b\n" % (*head[:3], head.hash.encode())


def read_head(content: bytes) -> Head | None:
    """Return the entry that the content of the file names; None if it is empty, as a power failure can leave it.

    Raises: ValueError if it is damaged.
    """
    if not content.strip(b"\0"):
        return None
    found = _HEAD.fullmatch(content)
    if found is None or found[4].decode() == NO_ENTRY:
        raise ValueError("it does not name an entry")
    return Head(int(found[1]), int(found[2]), int(found[3]), found[4].decode())


@dataclass(slots=True)
class Chain:
    """Checks the lines of a log one after the other."""

    head: Head | None = NO_HEAD
    """The last entry; None before the first one, if the check begins in the middle of a log."""
    position: int = 0
    """Bytes of the file up to here."""
    n_interrupted: int = 0
    """Incomplete lines so far."""
    is_partial: bool = False
    """True if the check began in the middle: then what earlier versions left unconfirmed is no problem."""
    _begun: list[bytes] = field(default_factory=list)
    """Incomplete lines since the last entry."""

    @property
    def interruption(self) -> str:
        """SHA-256 of the bytes since the last entry, which the next one confirms; "" if there are none."""
        begun = b"".join(self._begun)
        return hashlib.sha256(begun if begun.endswith(b"\n") else begun + b"\n").hexdigest() if begun else ""

    def add(self, whole: bytes) -> str:
        """Check a line, with its line end; return the problem, "" if there is none."""
        start, self.position = self.position, self.position + len(whole)
        line = whole.removesuffix(b"\n")
        found = _ENTRY.fullmatch(line)
        if found is None:
            return self._add_interrupted(whole, line)
        number, interrupted, previous = int(found[1]), (found[2] or b"").strip(b'"').decode(), found[3][1:-1].decode()
        if self.head is not None:
            if previous != self.head.hash:
                return (
                    "does not follow the entry before it: one of them was changed, or lines between them were removed "
                    "or inserted"
                )
            if number != self.head.n + 1:
                return f"is entry {self.head.n + 1}, but has another number"
            if interrupted != self.interruption and not (self.is_partial and not interrupted):
                return _unconfirmed(interrupted, self._begun)
        self.head = Head(number, start, self.position, hashlib.sha256(line).hexdigest())
        self._begun.clear()
        return ""

    def _add_interrupted(self, whole: bytes, line: bytes) -> str:
        if self.head is None:
            return ""  # the rest of a line that began before the check
        if not is_beginning(line, self.head.n + 1) or len(self._begun) == MOST_INTERRUPTED:
            return "was not written by medhelm, or was changed"
        self._begun.append(whole)
        self.n_interrupted += 1
        return ""


def _unconfirmed(interrupted: str, begun: list[bytes]) -> str:
    """Return what is wrong with an entry whose hash of an interruption is not that of the lines before it."""
    if begun and not interrupted:
        return (
            "follows an incomplete line that it does not confirm: the line was inserted, or version 0.2.0 or earlier "
            "was interrupted there"
        )
    return "confirms other incomplete lines than those before it: they were changed, removed or inserted"


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
        key = content.get("destination", ""), content.get("benchmark", "")
        total = found.setdefault(key, AuditTotal(*key, first=content["time"]))
        total.requests += 1
        total.bytes += content.get("bytes", 0)
        total.last = content["time"]
    return [found[key] for key in sorted(found)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditCheck:
    """Result of checking the chain of a log."""

    n: int
    """Number of entries."""
    head: str
    """Hash of the last entry; 64 zeros if there is none."""
    n_interrupted: int
    """Incomplete lines, which interruptions left; their requests were not sent."""
    problem: str
    """The first break of the chain, with its line in the file; "" if there is none."""
    n_since: int | None
    """Entries after the one with the requested hash; None if there is no such entry, or none was requested."""


def check_chain(path: Path, head: str = "", *, each: Callable[[bytes], object] | None = None) -> AuditCheck:
    """Check that every entry holds the hash of the previous one, and that the last one is not missing.

    Parameters: head, the first digits of a hash that an entry must have; each, called with the line of each entry, in
    order, up to the first problem. Raises: StoreError if a file cannot be read.
    """
    chain, wanted, problem, n_until = Chain(), head.lower(), "", None
    try:
        known = _known_head(path)
    except ValueError as error:
        known, problem = NO_HEAD, f"{head_file(path).name} was changed: {error}"
    is_reached = known == NO_HEAD
    last = NO_HEAD
    with _reading(path) as file:
        for number, whole in enumerate(chain_lines(file), 1):
            if text := chain.add(whole):
                problem = f"line {number} {text}"
                break
            if each and chain.head is not None and chain.head is not last:
                each(whole)
            last = chain.head or last
            is_reached = is_reached or (last.n, last.hash) == (known.n, known.hash)
            if wanted and n_until is None and last.hash.startswith(wanted):
                n_until = last.n
    if wanted and NO_ENTRY.startswith(wanted):
        n_until = 0
    if not problem and not is_reached:
        problem = missing_end(path, known)
    return AuditCheck(
        n=last.n,
        head=last.hash,
        n_interrupted=chain.n_interrupted,
        problem=problem,
        n_since=None if n_until is None else last.n - n_until,
    )


def missing_end(path: Path, known: Head) -> str:
    """Return the problem of a log that does not hold the entry that its head file names."""
    return f"it lacks entry {known.n}, which {head_file(path).name} names: entries were removed or changed"


def _known_head(path: Path) -> Head:
    """Return the entry that the log must have, `NO_HEAD` if none is known.

    Raises: ValueError if the file that names it is damaged; StoreError if it cannot be read.
    """
    file = head_file(path)
    try:
        with os.fdopen(open_shared(file, os.O_RDONLY), "rb") as opened:
            content = opened.read(LONGEST_ENTRY)
    except FileNotFoundError:
        return NO_HEAD
    except OSError as error:
        raise StoreError(f"{file} cannot be read: {error.strerror or error}.") from None
    return read_head(content) or NO_HEAD


def read_audit_log(path: Path) -> Iterator[AuditEntry]:
    """Yield the entries of a log, without checking the chain; incomplete lines are left out.

    Raises: StoreError if it cannot be read, or for a line that is neither.
    """
    n = 0
    with _reading(path) as file:
        for number, whole in enumerate(chain_lines(file), 1):
            line = whole.removesuffix(b"\n")
            if _ENTRY.fullmatch(line):
                content = json.loads(line)
                content.pop("previous")
                n = content.pop("line")
                yield AuditEntry(line=n, content=content)
            elif not is_beginning(line, n + 1):
                raise StoreError(
                    f"{path}, line {number}: was not written by medhelm, or was changed. `medhelm audit verify` checks "
                    "the whole log."
                )


def chain_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a log; a longer one than any entry comes in pieces, which are no entries."""
    while line := file.readline(LONGEST_LINE):
        yield line


def _reading(path: Path) -> IO[bytes]:
    try:
        return os.fdopen(open_shared(path, os.O_RDONLY), "rb")
    except FileNotFoundError:
        raise StoreError(f"{path} does not exist: nothing was sent from this store, or the log was removed.") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}.") from error
