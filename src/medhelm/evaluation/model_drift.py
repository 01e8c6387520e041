"""Who answered under the name of a model: snapshots and fingerprints, and what its server refused of requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypedDict

from medhelm.domain import Completion, JudgeTally, Run

MOST_NAMED = 4
"""Snapshots that are named in one sentence; fingerprints are only counted."""


class VersionCounts(TypedDict):
    """The counts as a run, or a judge's tally, holds them."""

    snapshots: dict[str, int]
    fingerprints: dict[str, int]
    refused_parameters: dict[str, int]


class ModelVersionCounter:
    """Counts what servers say of themselves beside their answers."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._snapshots: Counter[str] = Counter()
        self._fingerprints: Counter[str] = Counter()
        self._refused_parameters: Counter[str] = Counter()

    def add(self, completion: Completion) -> None:
        """Take in one completion, whenever it was bought."""
        if completion.reported_model:
            self._snapshots[completion.reported_model] += 1
        if completion.fingerprint:
            self._fingerprints[completion.fingerprint] += 1
        self._refused_parameters.update(completion.refused_parameters)

    @property
    def found(self) -> VersionCounts:
        """The counts, the most frequent first, so that they do not depend on the order of arrival."""
        return VersionCounts(
            snapshots=_sorted(self._snapshots),
            fingerprints=_sorted(self._fingerprints),
            refused_parameters=_sorted(self._refused_parameters),
        )


def drift_remarks(runs: Iterable[Run]) -> list[str]:
    """What a reader has to know of models and judges that are not one and the same throughout these runs."""
    by_name: dict[str, list[Run | JudgeTally]] = {}
    for run in runs:
        by_name.setdefault(run.model, []).append(run)
        for judge, tally in (run.jury_result.tallies if run.jury_result else {}).items():
            by_name.setdefault(judge, []).append(tally)
    snapshots = {name: _sum(one.snapshots for one in found) for name, found in by_name.items()}
    fingerprints = {name: _sum(one.fingerprints for one in found) for name, found in by_name.items()}
    remarks = [f"{name} {_under(names)}." for name, names in snapshots.items() if len(names) > 1]
    several = [f"{name} ({len(prints)})" for name, prints in fingerprints.items() if len(prints) > 1]
    if several:
        remarks.append(
            f"Servers of {', '.join(several)} gave several system fingerprints: what runs there changed, or differs "
            "from machine to machine, so that the same request need not get the same answer."
        )
    return remarks


def truncation_remarks(runs: Iterable[Run]) -> list[str]:
    """What a reader has to know of prompts that did not fit."""
    by_model: dict[str, list[Run]] = {}
    for run in runs:
        if run.n_truncated:
            by_model.setdefault(run.model, []).append(run)
    return [
        f"{model} did not read all of {sum(run.n_truncated for run in found):,} prompts, which were shortened to fit "
        f"it: {', '.join(f'{run.title} {run.n_truncated:,} of {run.n:,}' for run in found)}."
        for model, found in by_model.items()
    ]


def _under(names: Mapping[str, int]) -> str:
    """Under which names a model answered."""
    ordered = list(_sorted(names).items())
    more = f" and {len(ordered) - MOST_NAMED} more" if len(ordered) > MOST_NAMED else ""
    listed = ", ".join(f"{name} ({n:,})" for name, n in ordered[:MOST_NAMED])
    return f"answered under {len(ordered)} names, so that it is not one model: {listed}{more}"


def _sum(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    together: Counter[str] = Counter()
    for one in counts:
        together.update(one)
    return together


def _sorted(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
