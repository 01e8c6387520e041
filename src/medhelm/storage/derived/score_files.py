"""Keeps the scores of runs, so that a leaderboard does not read thousands of record files.

STORE/derived/BENCHMARK-DIGEST-RULE.scores holds what `RunScores` needs of the runs of a benchmark: numbers, ids of
instances and of clusters, and codes of failures; no other texts. BENCHMARK-DIGEST-RULE-RUN.scores holds the same of one
run: that of a large run is written at its end, and those of a few new runs are written so because the file of all
others is large. The next leaderboard that finds many of them puts them into one file.

Runs with a pooled metric, such as macro F1, are always read anew. A run is taken from a file only if the file of its
records has the size, the times and the number (inode) that it had before its scores were read. All else is read from
the records again. Records younger than `YOUNG_S` are kept only by the process that wrote them: a file system may give
two versions of them the same time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from medhelm.domain import Rule, Run
from medhelm.storage.derived.array_file import ArrayFile, Identity, file_identity, read_arrays
from medhelm.storage.derived.folder import LEAST_RUNS, is_young, read_kept, stem_of, write_kept
from medhelm.storage.runs import RECORDS, CodedTexts, RunScores, score_column

if TYPE_CHECKING:
    import numpy as np

VERSION = 2
"""Version of their content. Files of another version are made again."""

LEAST_RECORDS = 100
"""Records of a benchmark from which its scores are kept."""

MOST_SINGLE = 0.05
"""Share of a benchmark's records up to which runs have files of their own: all others need not be written again."""


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


class ScoreFiles:
    """The kept scores of one benchmark by one rule."""

    def __init__(self, folder: Path, benchmark: str, rule: Rule) -> None:
        """Map the file of many runs into memory. `folder`: see `derived_folder`."""
        self._folder, self._stem, self._rule = folder, f"{stem_of(benchmark)}-{rule}", rule
        self._known: dict[str, Any] = {}
        self._single: list[_Entry] = []
        self._new: list[_Entry] = []
        self._open()

    def _open(self) -> None:
        found = read_kept(self._file)
        self._together = self._entries(found)
        self._by_key = {one.key: one for one in self._together}

    def _entries(self, found: ArrayFile | None) -> list[_Entry]:
        if found:
            with suppress(KeyError, TypeError, ValueError, IndexError):
                return _entries(found, self._known)
        return []

    def find(self, run: Run, identity: Identity | None) -> RunScores | None:
        """Return the scores of a run; None if they are not kept, or its records were written since."""
        entry = self._by_key.get((_folder_name(run), score_column(run.main_metric, self._rule)))
        return entry.scores if entry and entry.identity == identity else None

    def read_single(self, runs: Iterable[Run]) -> None:
        """Map the files of single runs into memory."""
        for run in runs:
            self._single += self._entries(read_arrays(self._file_of(_folder_name(run))))
        self._by_key |= {one.key: one for one in self._single}

    def add(self, run: Run, identity: Identity | None, scores: RunScores, *, is_own: bool = False) -> None:
        """Add the scores of a run.

        Parameters: identity, of its records, from before they were read; is_own, this process wrote them.
        """
        if identity is None or scores.parts is not None or (is_young(identity) and not is_own):
            return
        self._new.append(_Entry(_folder_name(run), score_column(run.main_metric, self._rule), identity, scores))

    def save_single(self) -> None:
        """Write a file for each run that was added; a store that cannot be written is left alone."""
        for one in self._new:
            write_kept(self._file_of(one.folder), *_content([one]), is_short=True)
        self._new = []

    def save(self) -> None:
        """Write what was added if it is worth it, and map it; a store that cannot be written is left alone."""
        recent = self._single + self._new
        if not recent:
            return
        by_key = {one.key: one for one in (*self._together, *recent)}
        runs = self._folder.parent / "runs"
        kept = [one for one in by_key.values() if (runs / one.folder).exists()]
        n_records = _n_records(kept)
        if n_records < LEAST_RECORDS and len(kept) < LEAST_RUNS:
            return
        if _n_records(recent) <= MOST_SINGLE * n_records:
            self.save_single()
            return
        write_kept(self._file, *_content(kept))
        with suppress(OSError):
            for one in self._single:
                self._file_of(one.folder).unlink(missing_ok=True)
        self._single, self._new = [], []
        self._open()

    @property
    def _file(self) -> Path:
        """File of many runs."""
        return self._folder / f"{self._stem}.scores"

    def _file_of(self, run_folder: str) -> Path:
        """Return the file of one run."""
        return self._folder / f"{self._stem}-{sha256(run_folder.encode()).hexdigest()[:16]}.scores"


def _n_records(entries: Iterable[_Entry]) -> int:
    return sum(len(one.scores.ids) for one in entries)


def _folder_name(run: Run) -> str:
    assert run.folder is not None, "only stored runs are kept"
    return "/".join(run.folder.parts[-2:])


# --- content of a file ------------------------------------------------------------------------------------------------


def _content(entries: Sequence[_Entry]) -> tuple[Any, Mapping[str, Sequence[np.ndarray]]]:
    """Return the description and the arrays of a file, in pieces."""
    import numpy as np

    lists: list[tuple[str, int]] = []
    texts: list[np.ndarray] = [np.empty(0, np.uint8)]
    places: dict[int, int] = {}

    def place_of(one: Any) -> int | None:
        if one is None:
            return None
        if id(one) not in places:
            places[id(one)] = len(lists)
            text = json.dumps(list(one)).encode()
            lists.append((sha256(text).hexdigest(), len(text)))
            texts.append(np.frombuffer(text, np.uint8))
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
        "texts": texts,
    }
    return {"version": VERSION, "lists": lists, "runs": runs}, arrays


def _entries(found: ArrayFile, known: dict[str, Any]) -> list[_Entry]:
    """Return the runs in a file; none of another version.

    `known`: lists of texts by digest, of which each is made once; new ones are added.
    """
    if found.about["version"] != VERSION:
        return []
    arrays, lists, end = found.arrays, [], 0
    for digest, length in found.about["lists"]:
        end += length
        if digest not in known:
            known[digest] = from_json(arrays["texts"][end - length : end].tobytes())
        lists.append(known[digest])
    entries = []
    for one in found.about["runs"]:
        n, some, failures = one["n"], slice(one["start"], one["start"] + one["n"]), one["failures"]
        identity = tuple(one["identity"])
        scores = RunScores(
            ids=lists[one["ids"]],
            values=arrays["values"][some],
            clusters=None if one["clusters"] is None else lists[one["clusters"]],
            parts=None,
            failure_codes=failures
            and CodedTexts(arrays["failures"][failures["start"] : failures["start"] + n], failures["names"]),
            seconds=arrays["seconds"][some],
        )
        entries.append(_Entry(one["folder"], one["column"], identity, scores))
    return entries
