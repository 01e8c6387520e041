"""Marks of the reference filter: judges' opinions on references that need information outside the prompt."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from medhelm.domain.benchmark import Tier
from medhelm.domain.completion import Failure
from medhelm.domain.run import RunStatus
from medhelm.errors import StoreError
from medhelm.io.files import read_confidential
from medhelm.io.output_folder import write_confidential
from medhelm.io.system_errors import error_class
from medhelm.storage.json_form import TUPLE, JsonForm, Nested, by_name, key_map
from medhelm.storage.store import Store

# --- marks ------------------------------------------------------------------------------------------------------------

ReferenceVerdict = Literal["kept", "set_aside", "unknown"]
"""Verdict on a reference: it can be derived from the prompt; it needs information outside the prompt; or the judges
reached no majority."""

REFERENCE_VERDICTS: tuple[ReferenceVerdict, ...] = get_args(ReferenceVerdict)
"""All verdicts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceOpinion:
    """Opinion of one judge on one reference. `outside_prompt` is None if and only if `failure` is set."""

    judge: str
    """Name of the judge."""
    outside_prompt: bool | None
    """True if the reference needs information outside the prompt."""
    explanation: str = ""
    """Explanation in the judge's words."""
    failure: Failure | None = None
    """Reason for the missing opinion."""


@dataclass(frozen=True, slots=True)
class ReferenceMark:
    """Opinions of all judges on one reference."""

    opinions: tuple[ReferenceOpinion, ...]
    """One per judge, in their order."""

    @property
    def verdict(self) -> ReferenceVerdict:
        """Verdict of more than half of all judges, failed ones counted in the total; else unknown.

        >>> opinions = [ReferenceOpinion(judge=name, outside_prompt=name == "a") for name in "ab"]
        >>> ReferenceMark(tuple(opinions)).verdict
        'unknown'
        """
        votes = Counter(opinion.outside_prompt for opinion in self.opinions)
        if 2 * votes[True] > len(self.opinions):
            return "set_aside"
        return "kept" if 2 * votes[False] > len(self.opinions) else "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceMarks:
    """The marks of all references of one benchmark on one selection of its data."""

    benchmark: str
    """Name of the benchmark."""
    benchmark_digest: str
    """Digest of its definition."""
    data_digest: str
    """Digest of the data files and of the selection of instances."""
    tier: Tier
    """Real data or sample rows."""
    selection: Mapping[str, Any]
    """Selection of instances: `sample`, `limit` and `seed`."""
    judges: tuple[str, ...]
    """Names of the judges, in order."""
    prompt_version: int
    """Version of the judges' prompt."""
    status: RunStatus
    """Complete if every judge was asked about every reference."""
    started: str
    """Start time, ISO 8601, UTC."""
    by_instance: Mapping[str, ReferenceMark]
    """Instance id -> its mark, for every instance, in the order of the data."""

    def ids(self, verdict: ReferenceVerdict) -> list[str]:
        """Return the ids of the instances with this verdict, in the order of the data."""
        return [name for name, mark in self.by_instance.items() if mark.verdict == verdict]

    @property
    def failures(self) -> dict[str, Counter[str]]:
        """Judge -> failure code -> number of references without its opinion."""
        found: dict[str, Counter[str]] = {judge: Counter() for judge in self.judges}
        for mark in self.by_instance.values():
            for opinion in mark.opinions:
                if opinion.failure:
                    found[opinion.judge][opinion.failure.code] += 1
        return found


# --- marks file -------------------------------------------------------------------------------------------------------
# Stores the marks of the reference filter: one file per benchmark and data.
#
# STORE/filters/BENCHMARK-<benchmark digest>-<data digest>.json. Files are written atomically, so
# that they are always complete. Explanations can quote the data: the files are as confidential as the run folders.

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
