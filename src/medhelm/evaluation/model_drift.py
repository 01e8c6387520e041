"""Remarks on models that changed behind their name, and on prompts that were truncated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from medhelm.domain import JudgeTally, Run
from medhelm.evaluation.request_totals import by_frequency

MOST_NAMED = 4
"""Most snapshots to name in one sentence; fingerprints are only counted."""


def drift_remarks(runs: Iterable[Run]) -> list[str]:
    """Return a sentence for each model or judge that reported several versions in these runs."""
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
    """Return a sentence for each model whose prompts were truncated to fit its context window."""
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
    """Name the versions that a model reported."""
    ordered = list(by_frequency(names).items())
    more = f" and {len(ordered) - MOST_NAMED} more" if len(ordered) > MOST_NAMED else ""
    listed = ", ".join(f"{name} ({n:,})" for name, n in ordered[:MOST_NAMED])
    return f"answered under {len(ordered)} names, so that it is not one model: {listed}{more}"


def _sum(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return total
