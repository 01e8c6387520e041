"""Remarks on models that changed behind their name, and on prompts that were truncated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from medhelm.domain import JudgeTally, Remark, Run
from medhelm.evaluation.request_totals import by_frequency

MOST_NAMED = 4
"""Most snapshots to name in one sentence; fingerprints are only counted."""


def drift_remarks(runs: Iterable[Run]) -> list[Remark]:
    """Return a remark for each model or judge that reported several versions in these runs."""
    by_name: dict[str, list[Run | JudgeTally]] = {}
    for run in runs:
        by_name.setdefault(run.model, []).append(run)
        for judge, tally in (run.jury_result.tallies if run.jury_result else {}).items():
            by_name.setdefault(judge, []).append(tally)
    snapshots = {name: _sum(one.snapshots for one in found) for name, found in by_name.items()}
    fingerprints = {name: _sum(one.fingerprints for one in found) for name, found in by_name.items()}
    several_versions = {name: names for name, names in snapshots.items() if len(names) > 1}
    remarks = [Remark("several_versions", name, f"{name} {_under(names)}.") for name, names in several_versions.items()]
    several = [f"{name} ({len(prints)})" for name, prints in fingerprints.items() if len(prints) > 1]
    if several:
        text = (
            f"Servers of {', '.join(several)} reported several system fingerprints: the system changed or differs "
            "between machines, so the same request can get different completions."
        )
        remarks.append(Remark("several_fingerprints", "", text))
    return remarks


def truncation_remarks(runs: Iterable[Run]) -> list[Remark]:
    """Return a remark for each model whose prompts were truncated to fit its context window."""
    by_model: dict[str, list[Run]] = {}
    for run in runs:
        if run.n_truncated:
            by_model.setdefault(run.model, []).append(run)
    return [
        Remark(
            "truncated_prompts",
            model,
            f"{model} got {sum(run.n_truncated for run in found):,} prompts truncated to fit its context window: "
            f"{', '.join(f'{run.title} {run.n_truncated:,} of {run.n:,}' for run in found)}.",
        )
        for model, found in by_model.items()
    ]


def _under(names: Mapping[str, int]) -> str:
    """Name the versions that a model reported."""
    ordered = list(by_frequency(names).items())
    more = f" and {len(ordered) - MOST_NAMED} more" if len(ordered) > MOST_NAMED else ""
    listed = ", ".join(f"{name} ({n:,})" for name, n in ordered[:MOST_NAMED])
    return f"was served as {len(ordered)} versions, so it is not a single model: {listed}{more}"


def _sum(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return total
