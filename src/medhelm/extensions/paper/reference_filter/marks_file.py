"""Stores the marks of the reference filter: one file per benchmark and data.

STORE/filters/BENCHMARK-<benchmark digest>-<data digest>.json. Files are written atomically, so
that they are always complete. Explanations can quote the data: the files are as confidential as the run folders.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medhelm.domain import Failure, RunStatus
from medhelm.errors import StoreError
from medhelm.extensions.paper.reference_filter.marks import ReferenceMark, ReferenceMarks, ReferenceOpinion
from medhelm.io.files import read_confidential
from medhelm.io.output_folder import write_confidential
from medhelm.io.system_errors import error_class
from medhelm.storage.json_form import TUPLE, JsonForm, Nested, by_name, key_map
from medhelm.storage.store import Store

FAILURE = JsonForm(Failure, key_map("boundary code message"))

OPINION = JsonForm(
    ReferenceOpinion,
    key_map("judge outside=outside_prompt explanation failure"),
    nested={"failure": FAILURE.one_or_none},
)


def _write_mark(mark: ReferenceMark) -> dict[str, Any]:
    """Convert a mark to JSON, including its verdict for readers of the file."""
    return {"verdict": mark.verdict, "opinions": OPINION.many.write(mark.opinions)}


def _read_mark(content: Mapping[str, Any]) -> ReferenceMark:
    """Read a stored mark; its verdict is computed from its opinions."""
    return ReferenceMark(OPINION.many.read(content["opinions"]))


MARKS = JsonForm(
    ReferenceMarks,
    key_map(
        "benchmark benchmark_digest data_digest tier selection judges prompt_version status made=started by_instance"
    ),
    nested={"judges": TUPLE, "status": Nested(str, RunStatus), "by_instance": by_name(Nested(_write_mark, _read_mark))},
)
"""The JSON form of the marks of a benchmark."""


def marks_file(store: Store, benchmark: str, benchmark_digest: str, data_digest: str) -> Path:
    """Return the file of the marks of this benchmark on this data."""
    return store.folder / "filters" / f"{benchmark}-{benchmark_digest[:10]}-{data_digest[:10]}.json"


def write_marks(store: Store, marks: ReferenceMarks) -> Path | None:
    """Store marks in place of older ones, and return their file.

    Partial marks do not replace complete ones: the older file stays, and None is returned.
    Raises: StoreError or StoreFullError if they cannot be written.
    """
    path = marks_file(store, marks.benchmark, marks.benchmark_digest, marks.data_digest)
    older = read_marks(store, marks.benchmark, marks.benchmark_digest, marks.data_digest)
    if marks.status != RunStatus.COMPLETE and older is not None and older.status == RunStatus.COMPLETE:
        return None
    try:
        write_confidential(path, json.dumps(MARKS.write(marks), indent=1, ensure_ascii=True) + "\n")
    except OSError as error:
        raise error_class(error, StoreError)(
            f"{path} cannot be written: {error.strerror or error}. Completions already received are in the "
            "store's cache: free some space and run the same command again."
        ) from error
    return path


def read_marks(store: Store, benchmark: str, benchmark_digest: str, data_digest: str) -> ReferenceMarks | None:
    """Read the marks of a benchmark on this data; None if there are none. Raises: StoreError if the file is damaged."""
    path = marks_file(store, benchmark, benchmark_digest, data_digest)
    try:
        content = json.loads(read_confidential(path))
        return MARKS.read(content)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} is damaged ({error}). Remove it and run the same command again.") from error
