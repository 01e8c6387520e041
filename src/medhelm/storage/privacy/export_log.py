"""Remembers the exports that were written from a store: STORE/exports.json, one entry for each place.

So a deletion of instances can say which exports still hold them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from medhelm.io.output_folder import write_file
from medhelm.storage.store import Store

NAME = "exports.json"
"""Name of the file."""

FORMAT = 1
"""Version of the file, under its key `format`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredExport:
    """An export that was written from a store."""

    path: str
    """Absolute path of the folder or file, or URL."""
    kind: str
    """Kind of export, such as `csv` or `ratings`."""
    time: str
    """Time it was written, ISO 8601, UTC."""
    benchmarks: tuple[str, ...]
    """Benchmarks in it."""
    has_text: bool
    """True if it holds texts of instances or models; False for numbers only."""


def record_export(store: Path, place: Path | str, kind: str, benchmarks: Iterable[str], *, has_text: bool) -> None:
    """Remember an export, in place of an older one at the same path. A store that cannot be written is left alone."""
    from filelock import FileLock

    now = datetime.now(UTC).isoformat(timespec="seconds")
    names = tuple(sorted(set(benchmarks)))
    path = str(place.absolute()) if isinstance(place, Path) else place
    new = StoredExport(path=path, kind=kind, time=now, benchmarks=names, has_text=has_text)
    with suppress(OSError):
        (store / "locks").mkdir(exist_ok=True)
        with FileLock(store / "locks" / "exports.lock"):
            others = [one for one in read_exports(Store(store)) if one.path != new.path]
            write_exports(Store(store), [*others, new])


def write_exports(store: Store, exports: Iterable[StoredExport]) -> None:
    """Write the file. Raises: OSError."""
    content = {"format": FORMAT, "exports": [asdict(one) for one in exports]}
    write_file(store.folder / NAME, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def read_exports(store: Store) -> list[StoredExport]:
    """Return the remembered exports; none if the file is missing or damaged."""
    try:
        content = json.loads((store.folder / NAME).read_text(encoding="utf-8"))
        return [StoredExport(**{**one, "benchmarks": tuple(one["benchmarks"])}) for one in content["exports"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []
