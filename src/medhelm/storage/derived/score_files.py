"""Keeps the scores of a benchmark's runs in one file, so that a leaderboard does not read thousands of record files.

STORE/derived/BENCHMARK-DIGEST-RULE.scores holds what `RunScores` needs of every run: numbers, ids of instances and of
clusters, and codes of failures; no other texts. Runs with a pooled metric, such as macro F1, are always read anew. A
run is taken from the file only if the file of its records has the size, the times and the number (inode) that it had
before its scores were read. All else is read from the records again. Records younger than `YOUNG_S` are not kept: a
file system may give two versions of them the same time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medhelm.domain import Rule, Run
from medhelm.storage.derived.array_file import ArrayFile, Identity, file_identity
from medhelm.storage.derived.folder import LEAST_RUNS, is_young, read_kept, stem_of, write_kept
from medhelm.storage.runs import RECORDS, CodedTexts, RunScores, score_column

if TYPE_CHECKING:
    import numpy as np

VERSION = 1
"""Version of their content. Files of another version are made again."""

LEAST_RECORDS = 5_000
"""Records of a benchmark from which its scores are kept."""


def identity_of(run: Run) -> Identity | None:
    """Return the identity of the records of a run; None if they are missing."""
    try:
        return file_identity(os.stat(f"{run.folder}/{RECORDS}"))  # noqa: PTH116 - faster, for thousands of runs
    except OSError:
        return None


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
        self._path, self._rule = folder / f"{stem_of(benchmark)}-{rule}.scores", rule
        self._open()

    def _open(self) -> None:
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._is_changed = False
        if found := read_kept(self._path):
            with suppress(KeyError, TypeError, ValueError, IndexError):
                self._entries = {one.key: one for one in _entries(found)}

    def source(self, run: Run, identity: Identity | None) -> str:
        """Return what identifies the scores of a run; empty if its records are too young."""
        if identity is None or is_young(identity):
            return ""
        return f"{_folder_name(run)} {score_column(run.main_metric, self._rule)} {identity}"

    def find(self, run: Run, identity: Identity | None) -> RunScores | None:
        """Return the scores of a run; None if they are not kept, or its records were written since."""
        entry = self._entries.get((_folder_name(run), score_column(run.main_metric, self._rule)))
        return entry.scores if entry and entry.identity == identity else None

    def add(self, run: Run, identity: Identity | None, scores: RunScores) -> None:
        """Add the scores of a run. `identity`: of its records, from before they were read."""
        if identity is None or scores.parts is not None or is_young(identity):
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
        write_kept(self._path, *_content(kept))
        self._open()


def _folder_name(run: Run) -> str:
    assert run.folder is not None, "only stored runs are kept"
    return "/".join(run.folder.parts[-2:])


# --- content of a file ------------------------------------------------------------------------------------------------


def _content(entries: Sequence[_Entry]) -> tuple[Any, Mapping[str, Sequence[np.ndarray]]]:
    """Return the description and the arrays of a file, in pieces."""
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
    codes: list[np.ndarray] = [np.empty(0, np.uint8)]
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
    kind = np.result_type(*codes)
    arrays = {
        "values": [entry.scores.values for entry in entries],
        "seconds": [entry.scores.seconds for entry in entries if entry.scores.seconds is not None],
        "failures": [one.astype(kind, copy=False) for one in codes],
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
