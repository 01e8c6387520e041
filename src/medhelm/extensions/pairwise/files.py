"""The stored comparisons of completions by judges.

STORE/pairwise/BENCHMARK-<id>.json: models, judges and verdicts, with the explanations of the judges. These can quote
the data: the files are as confidential as the run folders. A file is written atomically, so that it is complete.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from medhelm.analysis.comparison.preferences import PairVerdicts
from medhelm.domain import RunStatus, Tier, Usage
from medhelm.errors import StoreError
from medhelm.io.files import error_class, make_shared_folder, read_confidential
from medhelm.io.folders import write_confidential
from medhelm.storage.json_form import JsonForm, Nested, key_map
from medhelm.storage.store import USAGE, Store

FORMAT = 1
"""Version of the files. Those of a newer one are refused."""

Words = tuple[str, str]
"""A text for each order: with the completion of the first model on top, and with that of the second one."""


@dataclass(frozen=True, slots=True)
class StoredPair:
    """The verdicts of a judge on one pair of completions, with their explanations."""

    verdicts: PairVerdicts
    """The verdicts."""
    failures: Words = ("", "")
    """Codes of missing verdicts."""
    explanations: Words = ("", "")
    """Explanations in the judge's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparingJudge:
    """The work of one judge on a comparison."""

    judge: str
    """Name of the judge."""
    requests_sent: int = 0
    """Requests sent in the latest execution, retries included."""
    requests_cached: int = 0
    """Completions found in the cache."""
    usage: Usage = field(default_factory=Usage)
    """Tokens of all its completions, whenever they were bought."""
    cost_usd: float | None = None
    """Price of that usage; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseComparison:
    """Models on one benchmark whose completions judges compared with each other."""

    id: str
    """Digest of everything that decides the requests."""
    benchmark: str
    """Id of the benchmark."""
    title: str
    """Its name for people."""
    tier: Tier
    """Real data or sample rows."""
    runs: Mapping[str, str]
    """Model -> id of its run."""
    judges: tuple[ComparingJudge, ...]
    """The judges."""
    n_instances: int
    """Instances that were compared."""
    n_failed: Mapping[str, int]
    """Model -> its instances without a completion, which are left out."""
    n_suspicious: Mapping[str, int]
    """Model -> its completions with signs of a prompt injection."""
    status: RunStatus
    """Progress when it was stored."""
    started: str
    """Start time, ISO 8601, UTC."""
    prompt_version: int
    """Version of the judges' prompt."""
    pairs: tuple[StoredPair, ...]
    """Every pair of completions and judge."""


_JUDGE = JsonForm(
    ComparingJudge,
    key_map("judge requests_sent requests_cached usage cost_usd"),
    nested={"usage": USAGE.one},
)

_PAIR_KEYS = ("instance", "cluster", "first", "second", "judge", "forward", "backward", "longer", "is_judged")


def _write_pairs(pairs: Sequence[StoredPair]) -> list[list[Any]]:
    """Return a row for each pair: the columns in `_PAIR_KEYS`, failures and explanations."""
    return [
        [*(getattr(pair.verdicts, key) for key in _PAIR_KEYS), list(pair.failures), list(pair.explanations)]
        for pair in pairs
    ]


def _read_pairs(rows: Sequence[Sequence[Any]]) -> tuple[StoredPair, ...]:
    return tuple(
        StoredPair(PairVerdicts(**dict(zip(_PAIR_KEYS, values, strict=True))), _words(failures), _words(explanations))
        for *values, failures, explanations in rows
    )


def _words(texts: Sequence[str]) -> Words:
    one, other = texts
    return str(one), str(other)


_COMPARISON = JsonForm(
    PairwiseComparison,
    key_map(
        "id benchmark title tier runs judges n_instances n_failed n_suspicious status started prompt_version pairs"
    ),
    nested={
        "judges": _JUDGE.many,
        "status": Nested(str, RunStatus),
        "pairs": Nested(_write_pairs, _read_pairs),
    },
)


def comparison_file(store: Store, benchmark: str, id_: str) -> Path:
    """Return the file of a comparison."""
    return store.folder / "pairwise" / f"{benchmark}-{id_[:10]}.json"


def write_comparison(store: Store, comparison: PairwiseComparison) -> bool:
    """Store a comparison; return False if a complete one is there and this one is partial, which is not stored then.

    Raises: StoreError or StoreFullError if it cannot be written.
    """
    path = comparison_file(store, comparison.benchmark, comparison.id)
    if comparison.status != RunStatus.COMPLETE and path.exists() and _read(path).status == RunStatus.COMPLETE:
        return False
    content = {"format": FORMAT, **_COMPARISON.write(comparison)}
    try:
        make_shared_folder(path.parent)
        write_confidential(path, json.dumps(content, ensure_ascii=True) + "\n")
    except OSError as error:
        raise error_class(error, StoreError)(
            f"{path} cannot be written: {error.strerror or error}. Completions already received are in the store's "
            "cache: free some space and run the same command again."
        ) from error
    return True


def read_comparisons(store: Store, benchmark: str = "") -> list[PairwiseComparison]:
    """Read the comparisons on a benchmark, or all, the latest first. Raises: StoreError for a damaged file."""
    found = [_read(path) for path in _files(store) if benchmark in ("", path.stem.rpartition("-")[0])]
    return sorted(found, key=lambda one: one.started, reverse=True)


def _files(store: Store) -> list[Path]:
    return sorted((store.folder / "pairwise").glob("[!.]*.json"))


def _read(path: Path) -> PairwiseComparison:
    try:
        content = json.loads(read_confidential(path))
        version = content.pop("format")
        if isinstance(version, int) and version > FORMAT:
            raise StoreError(
                f"{path} has format {version}, and this version of medhelm reads {FORMAT}. Update medhelm."
            )
        return _COMPARISON.read(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"{path} is damaged ({error}). Remove it, and compare again: completions in the cache are not bought again."
        ) from error


def purge_comparisons(store: Store, benchmark: str, instance_ids: Collection[str] | None) -> int:
    """Delete the verdicts on deleted instances, and return their number. `instance_ids`: None for all.

    Raises: StoreError.
    """
    n_deleted = 0
    for path in _files(store):
        if path.stem.rpartition("-")[0] != benchmark:
            continue
        comparison = _read(path)
        kept = tuple(
            pair for pair in comparison.pairs if instance_ids is not None and pair.verdicts.instance not in instance_ids
        )
        n_deleted += len(comparison.pairs) - len(kept)
        if not kept:
            path.unlink()
        elif len(kept) < len(comparison.pairs):
            instances = {pair.verdicts.instance for pair in kept}
            changed = replace(comparison, pairs=kept, n_instances=len(instances))
            write_confidential(path, json.dumps({"format": FORMAT, **_COMPARISON.write(changed)}) + "\n")
    return n_deleted
