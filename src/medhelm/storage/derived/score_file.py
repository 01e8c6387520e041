"""Keeps the scores of runs, so that a leaderboard does not read thousands of record files.

STORE/derived/BENCHMARK-DIGEST-RULE.npz holds what `RunScores` needs of the runs of a benchmark: numbers, ids of
instances and of clusters, and codes of failures; no other texts. Runs with a pooled metric, such as macro F1, are
always read anew.

The scores of a run are used only if the file of its records has the size, the times and the number (inode) that it had
before they were read. Those of young records are kept only by the process that wrote these.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medhelm.domain import Rule, Run
from medhelm.storage.derived.folder import LEAST_RUNS, Identity, is_young, read_kept, stem_of, write_kept
from medhelm.storage.runs import CodedTexts, RunScores, score_column

if TYPE_CHECKING:
    import numpy as np

LEAST_RECORDS = 100
"""Records of a benchmark from which its scores are kept."""

Key = tuple[str, str]
"""Folder of a run within `runs`, and column of its scores."""

Entries = dict[Key, tuple[Identity, RunScores]]
"""Identity of the records of each run, and its scores."""


class ScoreFile:
    """The kept scores of one benchmark by one rule."""

    def __init__(self, folder: Path, benchmark: str, rule: Rule) -> None:
        """Read the file. `folder`: see `derived_folder`."""
        self._runs, self._rule = folder.parent / "runs", rule
        self._path = folder / f"{stem_of(benchmark)}-{rule}.npz"
        found = read_kept(self._path)
        self._entries = _entries(*found) if found else {}
        self._is_changed = False

    def find(self, run: Run, identity: Identity | None) -> RunScores | None:
        """Return the scores of a run; None if they are not kept, or its records were written since."""
        kept_identity, scores = self._entries.get(self._key(run), (None, None))
        return scores if kept_identity == identity else None

    def add(self, run: Run, identity: Identity | None, scores: RunScores, *, is_own: bool = False) -> None:
        """Add the scores of a run.

        Parameters: identity, of its records, from before they were read; is_own, this process wrote them.
        """
        if identity is None or scores.parts is not None or (is_young(identity) and not is_own):
            return
        self._entries[self._key(run)] = identity, scores
        self._is_changed = True

    def save(self) -> None:
        """Write the file if something was added and it is worth it."""
        if not self._is_changed:
            return
        kept = {key: one for key, one in self._entries.items() if (self._runs / key[0]).exists()}
        if len(kept) >= LEAST_RUNS or sum(len(scores.ids) for _, scores in kept.values()) >= LEAST_RECORDS:
            write_kept(self._path, *_content(kept))

    def _key(self, run: Run) -> Key:
        assert run.folder is not None, "only stored runs are kept"
        return "/".join(run.folder.parts[-2:]), score_column(run.main_metric, self._rule)


def _content(entries: Entries) -> tuple[Any, Mapping[str, np.ndarray]]:
    """Return the JSON value and the arrays of a file: those of all runs, one after the other. Equal lists come once."""
    import numpy as np

    lists: dict[Any, int] = {}
    places: dict[int, int] = {}  # by identity: most runs share their lists
    runs, values, seconds, codes = [], [], [], []
    for (folder, column), (identity, scores) in entries.items():
        for texts in (scores.ids, scores.clusters):
            if id(texts) not in places:
                places[id(texts)] = lists.setdefault(None if texts is None else tuple(texts), len(lists))
        n, failures = len(scores.ids), scores.failure_codes
        names = None if failures is None else failures.names
        runs.append([folder, column, identity, n, places[id(scores.ids)], places[id(scores.clusters)], names])
        values.append(scores.values)
        seconds.append(np.full(n, np.nan) if scores.seconds is None else scores.seconds)
        codes.append(np.zeros(n, np.uint8) if failures is None else failures.codes)
    arrays = {"values": values, "seconds": seconds, "codes": codes}
    return {"lists": list(lists), "runs": runs}, {name: np.concatenate(pieces) for name, pieces in arrays.items()}


def _entries(about: Any, arrays: Mapping[str, np.ndarray]) -> Entries:
    """Return the runs in a file."""
    found: Entries = {}
    lists, end = about["lists"], 0
    for folder, column, identity, n, ids, clusters, names in about["runs"]:
        some, end = slice(end, end + n), end + n
        scores = RunScores(
            ids=lists[ids],
            values=arrays["values"][some],
            clusters=lists[clusters],
            parts=None,
            failure_codes=None if names is None else CodedTexts(arrays["codes"][some], names),
            seconds=arrays["seconds"][some],
        )
        found[folder, column] = tuple(identity), scores
    return found
