"""Status files of evaluations in progress, written by the process that evaluates and read by others.

STORE/running/ID.json is the status, replaced about once a second, ID.lock is locked for as long as the process lives,
and ID.stop is a request to stop. The files hold numbers, names and the command line, but no text of instances or
completions. An evaluation that ends by itself removes them. One that is stopped leaves its last status, so that readers
can show how to resume it; one that is killed leaves a status whose lock is free.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from filelock import FileLock, Timeout

from medhelm.errors import StoreError
from medhelm.io.files import make_shared_folder
from medhelm.io.folders import atomic_file
from medhelm.storage.store import Store

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FORMAT = 2
"""Version of the status file. Files of later versions are left out."""

MOST_BYTES = 20_000_000
"""Most bytes of a status file that is read: enough for tens of thousands of runs."""

MOST_ENDED = 20
"""Most statuses of ended evaluations that are kept."""

EvaluationState = Literal["running", "stopping", "ended"]
"""State of an evaluation, as its process wrote it last."""

EndReason = Literal["", "interrupt", "site", "budget", "error"]
"""Reason for an early end: Ctrl-C, a request from the site, the budget, or an error."""

RunState = Literal["waiting", "running", "ended"]
"""State of a run within an evaluation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeProgress:
    """Judgments of one judge on the completions of one run."""

    expected: int = 0
    """Judgments so far, missing ones included."""
    failed: int = 0
    """Judgments that are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCounts:
    """Tokens of all completions, cached ones included."""

    input: int = 0
    """Input tokens."""
    output: int = 0
    """Output tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """Progress of one model on one benchmark, or of several runs together."""

    model: str
    """Name of the model; empty for several."""
    benchmark: str
    """Name of the benchmark; empty for several."""
    state: RunState
    """`waiting`, `running` or `ended`. A run that ended without any record is `waiting` again."""
    n: int
    """Number of instances."""
    done: int = 0
    """Instances with a record."""
    n_failed: int = 0
    """Of these, instances without a completion."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Failure code -> number of instances."""
    requests_cached: int = 0
    """Completions that were in the cache."""
    tokens: TokenCounts = TokenCounts()
    """Tokens of all completions."""
    cost_usd: float | None = None
    """Cost of all completions, whenever they were bought; None if it is unknown."""
    rate_per_s: float | None = None
    """Records per second over the last half minute, those of cached completions left out if there are others; None
    before the first one and after the end."""
    unusable: bool = False
    """True if the model cannot be used, such as with a wrong key."""
    judges: Mapping[str, JudgeProgress] = field(default_factory=dict)
    """Name of a judge -> its judgments."""

    @property
    def judgments_missing(self) -> int:
        """Return the number of judgments that failed."""
        return sum(judge.failed for judge in self.judges.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProgress:
    """Progress of one server of a pool."""

    model: str
    """Name of the model."""
    address: str
    """Address of the server."""
    state: str
    """`ready`, `starting`, `lost`, `other model`, `refused` or `draining`."""
    in_flight: int
    """Requests that it has now."""
    limit: int
    """Requests that it may have."""
    done: int
    """Completions received from it."""
    reason: str = ""
    """Reason that it is not ready; empty if it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationStatus:
    """Status of an evaluation, as its process wrote it last."""

    id: str
    """Name of its files."""
    pid: int
    """Number of its process."""
    host: str
    """Name of the machine that it runs on."""
    command: tuple[str, ...]
    """Arguments of `medhelm`, to be repeated to resume; empty if Python code started the evaluation."""
    folder: str
    """Folder in which the command was given."""
    started: str
    """Start time, ISO 8601, UTC."""
    updated: str
    """Time of this status, ISO 8601, UTC."""
    state: EvaluationState
    """`running`, `stopping`: requests in flight may finish, or `ended`: it ended early."""
    reason: EndReason = ""
    """Reason for an early end: `interrupt`, `site`, `budget` or `error`; empty before."""
    spent_usd: float = 0.0
    """Spent by this process, on models and judges whose price is known."""
    max_cost_usd: float | None = None
    """Budget; None without one."""
    runs: tuple[RunProgress, ...] = ()
    """One entry for each model and benchmark."""
    servers: tuple[ServerProgress, ...] = ()
    """The servers of pools that were used."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEvaluation:
    """An evaluation that is running, or that ended early."""

    status: EvaluationStatus
    """Its last status."""
    is_alive: bool
    """True if its process exists."""
    is_asked_to_stop: bool
    """True if a request to stop was left for it."""


class StatusFile:
    """The files of one evaluation, used by its own process."""

    def __init__(self, store: Store, evaluation: str) -> None:
        """Remember the paths, without accessing the disk."""
        self.evaluation = evaluation
        self._path = store.running_folder / f"{evaluation}.json"
        self._stop = self._path.with_suffix(".stop")
        self._lock = FileLock(self._path.with_suffix(".lock"), mode=0o600, thread_local=False)

    def write(self, status: EvaluationStatus) -> None:
        """Replace the status; the first call locks the file. Raises: OSError."""
        if not self._lock.is_locked:
            make_shared_folder(self._path.parent)
            try:
                self._lock.acquire(timeout=1.0)  # a reader holds it for an instant to see whether it is free
            except Timeout as error:
                raise OSError(f"{self._path}: another process holds its lock") from error
        content = json.dumps({"format": FORMAT, **asdict(status)}, allow_nan=False)
        with atomic_file(self._path) as new:
            new.touch(mode=0o600)
            new.write_text(content, encoding="utf-8")

    @property
    def is_asked_to_stop(self) -> bool:
        """Return True if another process left a request to stop."""
        return self._lock.is_locked and self._stop.exists()

    def close(self, *, keep_status: bool) -> None:
        """Unlock and remove the files, the last status aside if it is kept. Raises: OSError."""
        if self._lock.is_locked:
            if not keep_status:
                self._path.unlink(missing_ok=True)
            self._lock.release()
            _remove_others(self._path)


def new_id(started: str) -> str:
    """Return the name of the files of a new evaluation. `started`: start time, ISO 8601."""
    digits = "".join(character for character in started[:19] if character.isdigit())
    return f"{digits}-{os.getpid()}-{secrets.token_hex(3)}"


def known_evaluations(store: Store) -> list[KnownEvaluation]:
    """Return the evaluations that are running or ended early, latest first.

    Damaged files, and those of other accounts and other versions, are left out.
    """
    found = []
    for path in _paths(store):
        status = _read(path)
        if status is not None:
            alive, stop = _is_locked(path.with_suffix(".lock")), path.with_suffix(".stop").exists()
            found.append(KnownEvaluation(status=status, is_alive=alive, is_asked_to_stop=stop))
    return sorted(found, key=lambda one: (one.status.started, one.status.id), reverse=True)


def ask_to_stop(store: Store, evaluation: str) -> bool:
    """Leave a request to stop for an evaluation; return False if none of this name is running. Raises: StoreError."""
    for path in _paths(store):
        if path.stem == evaluation and _is_locked(path.with_suffix(".lock")):
            stop = path.with_suffix(".stop")
            try:
                stop.touch(mode=0o600)
            except OSError as error:
                raise StoreError(f"{stop} cannot be written: {error.strerror or error}.") from error
            return True
    return False


def forget(store: Store, evaluation: str) -> bool:
    """Remove the files of an evaluation that ended; return False if there is none of this name. Raises: StoreError."""
    for path in _paths(store):
        if path.stem == evaluation and not _is_locked(path.with_suffix(".lock")):
            try:
                _remove(path)
            except OSError as error:
                raise StoreError(f"{path} cannot be removed: {error.strerror or error}.") from error
            return True
    return False


def forget_resumed(store: Store, command: Sequence[str], folder: str) -> None:
    """Remove ended evaluations that this command resumes, and the oldest if there are many. Raises: OSError."""
    ended = [one.status for one in known_evaluations(store) if not one.is_alive]
    for place, status in enumerate(ended):
        if place >= MOST_ENDED or (command and (status.command, status.folder) == (tuple(command), folder)):
            _remove(store.running_folder / f"{status.id}.json")


def _paths(store: Store) -> Iterator[Path]:
    """Yield the status files of a store. A name from elsewhere is compared with theirs and never becomes a path."""
    yield from sorted(store.running_folder.glob("[!.]*.json"))


def _remove(path: Path) -> None:
    """Remove a status file and what belongs to it. Raises: OSError."""
    path.unlink(missing_ok=True)
    _remove_others(path)


def _remove_others(path: Path) -> None:
    """Remove the lock of a status file, a request to stop, and what a killed process left half-written."""
    for other in (path.with_suffix(".lock"), path.with_suffix(".stop"), *path.parent.glob(f".{path.name}-*")):
        other.unlink(missing_ok=True)


def _read(path: Path) -> EvaluationStatus | None:
    """Read a status file; None if it cannot be read or is not one."""
    with suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
        about = path.stat()
        if about.st_size > MOST_BYTES or about.st_uid != getattr(os, "geteuid", lambda: about.st_uid)():
            return None
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
        version = content.pop("format", None)
        if version in (1, FORMAT) and content.get("id") == path.stem:
            if version == 1:
                content["runs"] = [_from_format_1(**run) for run in content["runs"]]
            return _checker().validate_python(content)
    return None


def _from_format_1(
    failed: int, cached: int, input_tokens: int, output_tokens: int, judges: Sequence[Any], **same: Any
) -> dict[str, Any]:
    """Return the progress of a run, as version 1 of the status file has it, in the present form."""
    return {
        **same,
        "n_failed": failed,
        "requests_cached": cached,
        "tokens": {"input": input_tokens, "output": output_tokens},
        "judges": {one["judge"]: {"expected": one["expected"], "failed": one["missing"]} for one in judges},
    }


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


@cache
def _checker() -> TypeAdapter[EvaluationStatus]:
    """Return what checks the types of a status. Imported late: the process that writes does not need it."""
    from pydantic import TypeAdapter

    return TypeAdapter(EvaluationStatus)


_probing = threading.Lock()


def _is_locked(path: Path) -> bool:
    """Return True if another process, or another part of this one, holds a lock file."""
    if not path.exists():
        return False
    with _probing:  # two probes at once would see each other
        lock = FileLock(path, thread_local=False)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return True
        except OSError:
            return False
        lock.release()
        return False
