"""Lets one machine at a time send requests for a store.

SQLite's write-ahead log works among the processes of one machine, and so do locks on many network file systems. While
a process has the cache of a store open, STORE/locks/host-ID.json names its machine, and its time is renewed every
HEARTBEAT_S seconds. A file of another machine counts as long as its time is younger than FRESH_S, by the clock of the
file system, so that a machine that died blocks others for two minutes at most.

Two machines differ in their running kernel, which the containers of a machine share, and in their name: a container
that is started again keeps the kernel, and a machine that is restarted keeps its name.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import secrets
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from medhelm.errors import StoreError
from medhelm.io.files import open_shared
from medhelm.storage.store import Store, disk_errors

HEARTBEAT_S = 20.0
"""Interval at which the time of the file is renewed."""

FRESH_S = 120.0
"""Age at which a file no longer counts. Network file systems show new times up to a minute late."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")
"""Linux: identifies the running kernel."""


class StoreHost:
    """Marks a store as in use by this machine, until `close`."""

    def __init__(self, store: Store) -> None:
        """Mark the store. In an event loop the mark renews itself; elsewhere the caller calls `renew` now and then.

        Raises: StoreError if another machine uses the store.
        """
        self._path = store.folder / "locks" / f"host-{os.getpid()}-{secrets.token_hex(4)}.json"
        self._content = json.dumps({"kernel": kernel_id(), "host": platform.node(), "pid": os.getpid()})
        self._timer: asyncio.TimerHandle | None = None
        try:
            with disk_errors(self._path, "Nothing was sent."):
                # Written first: of two machines that start together, at least one sees the other.
                self._write()
                now = self._path.stat().st_mtime  # by the clock of the file system, not of this machine
                for old in refuse_if_used_elsewhere(store, now):
                    old.unlink(missing_ok=True)
        except StoreError:
            self.close()
            raise
        self._renew_later()

    def renew(self) -> None:
        """Renew the time of the file, and do so again later."""
        with suppress(OSError):  # another attempt follows
            self._write()
        self._renew_later()

    def _renew_later(self) -> None:
        if self._timer:
            self._timer.cancel()
        with suppress(RuntimeError):  # there is no event loop
            self._timer = asyncio.get_running_loop().call_later(HEARTBEAT_S, self.renew)

    def _write(self) -> None:
        with os.fdopen(open_shared(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w", encoding="utf-8") as file:
            file.write(self._content)

    def close(self) -> None:
        """Remove the mark."""
        if self._timer:
            self._timer.cancel()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


@cache
def kernel_id() -> str:
    """Return what identifies the running kernel, or on systems without such an id the network card."""
    with suppress(OSError):
        return _BOOT.read_text(encoding="ascii").strip()
    return f"{uuid.getnode():012x}"


def _marks(store: Store, now: float) -> Iterator[tuple[Path, float, str, int, bool]]:
    """Yield the path, age, machine and process of each file, and whether it is of this kernel.

    A file that cannot be read was removed in between, or is being written.
    """
    for path in (store.folder / "locks").glob("host-*.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            age = max(0.0, now - path.stat().st_mtime)
            about = json.loads(path.read_text(encoding="utf-8"))
            yield path, age, str(about["host"]), int(about["pid"]), str(about["kernel"]) == kernel_id()


def refuse_if_used_elsewhere(store: Store, now: float) -> list[Path]:
    """Return the files that no longer count at a time. Raises: StoreError for one of another machine that counts."""
    old = []
    for path, age, host, pid, is_here in _marks(store, now):
        if age >= FRESH_S:
            old.append(path)
        elif not is_here and host != platform.node():
            raise StoreError(
                f"{store.folder} is in use on another machine, {host!r} (process {pid}, active {age:.0f} s ago), and "
                "one machine at a time can use a store. Wait until it ends, or give each machine a --store of its own: "
                "`medhelm run --shard` divides a run, and `medhelm merge` combines it. If medhelm no longer runs on "
                f"{host!r}, wait two minutes or delete {path}. Nothing was sent."
            )
    return old


def processes_in(store: Store) -> list[str]:
    """Return the processes that have the cache of a store open, by their marks; those of this machine must be alive."""
    return [
        f"process {pid} on {host}"
        for _, age, host, pid, is_here in _marks(store, time.time())
        if age < FRESH_S and not (is_here and _has_ended(pid))
    ]


def _has_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
