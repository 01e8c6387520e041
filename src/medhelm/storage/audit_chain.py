"""The form of an audit log: what an entry is, how entries are chained, and what an interruption can leave.

`audit.jsonl` has one JSON object per line, in ASCII. Its first field is the number of the entry; its last one is the
SHA-256 of the entry before it. A power failure can leave the beginning of an entry. The next entry then holds the
SHA-256 of those bytes, so that nothing can be added to a log later in the guise of an interruption.

`audit.head` names the last entry that is known to be on the disk. It shows that entries were removed from the end,
unless it was changed as well. Writers and readers check a log with the same code.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

from medhelm.errors import StoreError
from medhelm.io.shared_files import open_shared

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


def check_chain(path: Path, head: str = "") -> AuditCheck:
    """Check that every entry holds the hash of the previous one, and that the last one is not missing.

    `head`: the first digits of a hash that an entry must have. Raises: StoreError if a file cannot be read.
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
