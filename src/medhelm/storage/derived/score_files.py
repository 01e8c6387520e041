"""Keeps the scores of a benchmark's runs in one file, so that a leaderboard does not read thousands of record files.

STORE/derived/BENCHMARK-DIGEST-RULE.scores holds what `RunScores` needs of every run: numbers, ids of instances and of
clusters, and codes of failures; no other texts. Runs with a pooled metric, such as macro F1, are always read anew. A
run is taken from the file only if the file of its records has the size, the times and the number (inode) that it had
before its scores were read. All else is read from the records again. Records younger than `YOUNG_S` are not kept: a
file system may give two versions of them the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any

from medhelm.domain import Rule, Run
from medhelm.storage.derived.array_file import ArrayFile, read_arrays, write_arrays
from medhelm.storage.permissions import file_mask
from medhelm.storage.runs import CodedTexts, RunScores, records_path, score_column
from medhelm.storage.store import file_name

if TYPE_CHECKING:
    import numpy as np

FOLDER = "derived"
"""Folder of a store with these files."""

VERSION = 1
"""Version of their content. Files of another version are made again."""

LEAST_RECORDS, LEAST_RUNS = 5_000, 50
"""Records, or runs, of a benchmark from which its scores are kept: fewer are read at once."""

YOUNG_S = 2.0
"""Age of records below which their scores are not kept, in seconds."""

Identity = tuple[int, int, int, int]
"""Size, times and number of a file of records."""


def derived_folder(run: Run) -> Path | None:
    """Return the folder of the store of a run for such files; None for a run that is in no store."""
    if run.folder is None or run.folder.parent.parent.name != "runs":
        return None
    return run.folder.parents[2] / FOLDER


def clear_derived(store: Path, benchmarks: Iterable[str]) -> None:
    """Delete what was made from the runs of some benchmarks. Raises: OSError."""
    for name in set(benchmarks):
        for path in (store / FOLDER).glob(f"{_stem(name)}-*"):
            path.unlink(missing_ok=True)


def _stem(benchmark: str) -> str:
    return f"{file_name(benchmark)}-{sha256(benchmark.encode()).hexdigest()[:10]}"


def identity_of(run: Run) -> Identity | None:
    """Return the identity of the records of a run; None if they are missing."""
    try:
        found = records_path(run).stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


@dataclass(slots=True)
class _Entry:
    """One run in a file."""

    folder: str
    column: str
    identity: Identity
    scores: RunScores

    @property
    def key(self) -> tuple[str, str]:
        return self.folder, self.column


class ScoreFile:
    """The kept scores of one benchmark by one rule."""

    def __init__(self, folder: Path, benchmark: str, rule: Rule) -> None:
        """Map the file into memory. `folder`: see `derived_folder`."""
        self._path, self._rule = folder / f"{_stem(benchmark)}-{rule}.scores", rule
        self._open()

    def _open(self) -> None:
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._is_changed = False
        if found := read_arrays(self._path):
            with suppress(KeyError, TypeError, ValueError, IndexError):
                self._entries = {one.key: one for one in _entries(found)}

    def find(self, run: Run, identity: Identity | None) -> RunScores | None:
        """Return the scores of a run; None if they are not kept, or its records were written since."""
        entry = self._entries.get((_folder_name(run), score_column(run.main_metric, self._rule)))
        return entry.scores if entry and entry.identity == identity else None

    def add(self, run: Run, identity: Identity | None, scores: RunScores) -> None:
        """Add the scores of a run. `identity`: of its records, from before they were read."""
        if identity is None or scores.parts is not None or time_ns() - max(identity[1:3]) < YOUNG_S * 1e9:
            return
        entry = _Entry(_folder_name(run), score_column(run.main_metric, self._rule), identity, scores)
        if entry.key in self._entries and self._entries[entry.key].identity == identity:
            return
        self._entries[entry.key] = entry
        self._is_changed = True

    def save(self) -> None:
        """Write the file if it changed and is worth it, and map it; a store that cannot be written is left alone."""
        store = self._path.parent.parent
        kept = [one for one in self._entries.values() if (store / "runs" / one.folder).exists()]
        n_records = sum(len(one.scores.ids) for one in kept)
        if not self._is_changed or (n_records < LEAST_RECORDS and len(kept) < LEAST_RUNS):
            return
        with suppress(OSError):
            mask = file_mask(store)
            self._path.parent.mkdir(mode=0o770 & ~mask, exist_ok=True)
            write_arrays(self._path, *_content(kept), mode=0o660 & ~mask)
            self._open()


def _folder_name(run: Run) -> str:
    assert run.folder is not None, "only stored runs are kept"
    return f"{run.folder.parent.name}/{run.folder.name}"


# --- content of a file ------------------------------------------------------------------------------------------------


def _content(entries: Sequence[_Entry]) -> tuple[Any, Mapping[str, np.ndarray]]:
    """Return the description and the arrays of a file."""
    import numpy as np

    lists: list[Any] = []
    places: dict[int, int] = {}

    def place_of(one: Any) -> int | None:
        if one is None:
            return None
        if id(one) not in places:
            places[id(one)] = len(lists)
            lists.append(list(one))
        return places[id(one)]

    runs, start, n_codes = [], 0, 0
    codes: list[np.ndarray] = [np.empty(0, np.uint32)]
    for entry in entries:
        scores, failures = entry.scores, entry.scores.failure_codes
        about = {
            "folder": entry.folder,
            "column": entry.column,
            "identity": list(entry.identity),
            "start": start,
            "n": len(scores.ids),
            "ids": place_of(scores.ids),
            "clusters": place_of(scores.clusters),
            "failures": None if failures is None else {"start": n_codes, "names": list(failures.names)},
        }
        if failures is not None:
            codes.append(failures.codes)
            n_codes += len(failures.codes)
        runs.append(about)
        start += len(scores.ids)
    arrays = {
        "values": np.concatenate([entry.scores.values for entry in entries]),
        "seconds": np.concatenate([entry.scores.seconds for entry in entries if entry.scores.seconds is not None]),
        "failures": np.concatenate(codes),
    }
    return {"version": VERSION, "lists": lists, "runs": runs}, arrays


def _entries(found: ArrayFile) -> list[_Entry]:
    """Return the runs in a file; none of another version."""
    if found.about["version"] != VERSION:
        return []
    lists, arrays = found.about["lists"], found.arrays
    entries = []
    for one in found.about["runs"]:
        n, some, failures = one["n"], slice(one["start"], one["start"] + one["n"]), one["failures"]
        scores = RunScores(
            ids=lists[one["ids"]],
            values=arrays["values"][some],
            clusters=None if one["clusters"] is None else lists[one["clusters"]],
            parts=None,
            failure_codes=failures
            and CodedTexts(arrays["failures"][failures["start"] : failures["start"] + n], failures["names"]),
            seconds=arrays["seconds"][some],
        )
        entries.append(_Entry(one["folder"], one["column"], tuple(one["identity"]), scores))
    return entries
