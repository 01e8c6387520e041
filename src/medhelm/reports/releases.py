"""Releases, differences between two releases, and results of verification: text and JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from medhelm.analysis.comparison.tests import LEVEL
from medhelm.domain.text import listed
from medhelm.reports.formats.json_output import plain_json, probability, select
from medhelm.reports.formats.numbers import p_text
from medhelm.reports.formats.tables import Value, estimate_text, printable, render, tabulate

if TYPE_CHECKING:
    from medhelm.analysis.leaderboard.diff import (
        ChangedCases,
        LeaderboardDiff,
        ReleaseComparison,
        RunCheck,
        ValueDifference,
        Verification,
    )
    from medhelm.domain.release import Release

SHOWN = 40
"""Most differences that are listed; the rest are counted."""

_DIGEST = re.compile(r"[0-9a-f]{64}")

WIDTH = 60
"""Most characters shown of a value."""


DIGESTS = ("definition", "data", "prompts", "records", "judgments")
"""Inputs that are compared by digest, whose values are not shown."""


def release_as_json(release: Release) -> dict[str, Any]:
    """Return a release without its leaderboard, which has its own file."""
    content = plain_json(release)
    del content["board"]
    models = [row["model"] for row in release.leaderboard["models"]]
    return {**content, "models": models, "n_runs": len(release.provenance)}


def releases_table(releases: Sequence[Release], format: str = "table") -> str:
    """Return one row per release."""
    columns: dict[str, Callable[[Release], Value]] = {
        "Release": lambda one: one.name,
        "Created": lambda one: one.created,
        "Models": lambda one: len(one.leaderboard["models"]),
        "Benchmarks": lambda one: len(one.leaderboard["benchmarks"]),
        "Scoring": lambda one: one.leaderboard["scoring"],
        "Tier": lambda one: one.leaderboard["tier"],
        "Suite": lambda one: one.leaderboard["suite"],
        "sha256": lambda one: one.sha256[:12],
        "Note": lambda one: one.note,
    }
    drop = ("sha256", "Suite", "Tier", "Scoring", "Note", "Benchmarks", "Models")
    return render(*tabulate(releases, columns), format=format, drop=drop)


def difference_rows(differences: Iterable[ValueDifference]) -> list[list[Value]]:
    """Return one row per difference: name, value before, value now."""
    return [[one.what, shown(one.before), shown(one.now)] for one in differences]


def differences_table(differences: Sequence[ValueDifference], format: str = "table", *, caption: str = "") -> str:
    """Return a table of the first `SHOWN` differences, with the number of all."""
    more = f"{caption} (the first {SHOWN} of {len(differences)})" if len(differences) > SHOWN else caption
    rows = difference_rows(differences[:SHOWN])
    return render(rows, ["Item", "Before", "Now"], format=format, caption=more)


def shown(value: Any) -> str:
    """Return any value as one short line.

    >>> shown({"input": 2.5, "output": 10.0})
    'input 2.5, output 10'
    """
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, Mapping):
        text = ", ".join(f"{key} {shown(inner)}" for key, inner in value.items())
    elif isinstance(value, (list, tuple)):
        text = ", ".join(shown(inner) for inner in value)
    else:
        text = str(value)
        text = text[:12] if _DIGEST.fullmatch(text) else text
    text = " ".join(printable(text).split())
    return text if len(text) <= WIDTH else text[:WIDTH] + "..."


def comparison_as_json(found: ReleaseComparison) -> dict[str, Any]:
    """Return the output of `medhelm diff --json`."""
    return {
        **plain_json(found.diff),
        "same": not found.diff.board,
        "cases": [_cases_as_json(one) for one in found.cases],
        "only": [[{"model": model, "benchmark": name} for model, name in side] for side in found.only],
    }


def _cases_as_json(found: ChangedCases) -> dict[str, Any]:
    numbers = (
        "difference=difference.value low=difference.low high=difference.high n=difference.n p_value=difference.p_value"
    )
    return {
        **select(found, "model benchmark"),
        **select(found, numbers, rounded=True),
        "p_adjusted": probability(found.p_adjusted),
        "separated": found.p_adjusted is not None and found.p_adjusted <= LEVEL,
        **select(found, "n_gained n_lost gained lost problem"),
    }


def comparison_to_text(found: ReleaseComparison, format: str = "table") -> str:
    """Return the differences as text, and tests of the runs that were replaced, instance by instance."""
    text = difference_to_text(found.diff, format)
    if not found.cases:
        return text
    rows: list[list[Value]] = [[one.benchmark, one.model, *_test_cells(one), one.problem] for one in found.cases]
    headers = ["Benchmark", "Model", "Difference", "n", "p adjusted", "Only later right", "Only earlier right", "Note"]
    caption = (
        f"Replaced runs, from {found.diff.first} to {found.diff.second}: later minus earlier on the same instances, "
        "from 0 (worst) to 1 (best), with p-values by Holm over all rows"
    )
    drop = ("n", "Note", "Only earlier right", "Only later right")
    return f"{text}\n{render(rows, headers, format=format, caption=caption, keep=2, drop=drop)}"


def _test_cells(one: ChangedCases) -> list[Value]:
    """Return the cells of a test: the difference, instances, p-value, instances that only one of the two got right."""
    found = one.difference
    if found is None:
        return [None] * 5
    return [estimate_text(found), found.n, p_text(one.p_adjusted), one.n_gained, one.n_lost]


def difference_to_text(between: LeaderboardDiff, format: str = "table") -> str:
    """Return the differences as text: models and benchmarks, ranks, scores with changed inputs, all others."""
    names = f"from {between.first} to {between.second}"
    if not between.board and not between.cells:
        return f"The leaderboards of {between.first} and {between.second} are identical, and so are their inputs.\n"
    lines = change_sentences(between)
    parts = ["\n".join(lines) + "\n"] if lines else []
    if between.options:
        parts.append(differences_table(between.options, format, caption=f"Changed options, {names}"))
    if between.cells:
        headers = ["Benchmark", "Model", "Before", "Now", "Changed inputs"]
        rows: list[list[Value]] = [
            [cell.benchmark, cell.model, shown(cell.before), shown(cell.now), reasons(cell.why)]
            for cell in between.cells
        ]
        parts.append(render(rows, headers, format=format, caption=f"Changed scores, {names}", keep=2))
    if between.board:
        parts.append(
            differences_table(between.board, format, caption=f"All changed fields of the leaderboard, {names}")
        )
    return "\n".join(parts)


def change_sentences(between: LeaderboardDiff) -> list[str]:
    """Return the models and benchmarks that only one leaderboard has, and the ranks that changed, in sentences."""
    lines = [
        f"{verb} {what}: {', '.join(map(printable, items))}."
        for what, both in (("models", between.models), ("benchmarks", between.benchmarks))
        for verb, items in zip(("Removed", "Added"), both, strict=True)
        if items
    ]
    return lines + [f"{printable(rank.what)} moved from rank {rank.before} to {rank.now}." for rank in between.ranks]


def verification_as_json(found: Verification) -> dict[str, Any]:
    """Return the output of `medhelm verify --json`."""
    return {
        "release": found.release or None,
        "same": found.same,
        "runs": [{**plain_json(run), "same": not run.differences} for run in found.runs],
        "leaderboard": plain_json(found.board),
        "notes": list(found.notes),
    }


def verification_to_text(found: Verification, format: str = "table") -> str:
    """Return the result of a verification as text."""
    whose = f"release {found.release}" if found.release else "the store"
    derived = sum(not run.not_derived for run in found.runs)
    counts = f"{derived} of {len(found.runs)} runs were recomputed from their completions"
    if found.same and derived == len(found.runs):
        head = f"The leaderboard of {whose} was reproduced byte for byte: {counts}."
    elif found.same and not derived:
        head = f"Nothing in {whose} could be recomputed."
    elif found.same:
        head = f"No differences in the part of {whose} that could be recomputed: {counts}."
    else:
        differing = sum(bool(run.differences) for run in found.runs)
        head = f"The leaderboard of {whose} was not reproduced: {counts}, {differing} differ."
    rows: list[list[Value]] = [
        [run.benchmark, run.model, difference.what, shown(difference.before), shown(difference.now)]
        for run in found.runs
        for difference in run.differences
    ]
    parts = [head + "\n"]
    if rows:
        parts.append(render(rows, ["Benchmark", "Model", "Item", "Before", "Now"], format=format, keep=2))
    if found.board:
        parts.append(differences_table(found.board, format, caption="The leaderboard, stored and recomputed"))
    if remarks := [*found.notes, *_run_remarks(found.runs)]:
        parts.append("".join(f"- {printable(remark)}\n" for remark in remarks))
    return "\n".join(parts)


def reasons(why: Sequence[ValueDifference]) -> str:
    """Return the changed inputs, with old and new values unless they are digests."""
    if not why:
        return "none"
    return "; ".join(
        one.what if one.what in DIGESTS else f"{one.what} ({shown(one.before)} -> {shown(one.now)})" for one in why
    )


def _run_remarks(runs: Sequence[RunCheck]) -> list[str]:
    """Return remarks on runs, and reasons why runs could not be recomputed; equal texts are combined."""
    found: dict[str, list[str]] = {}
    for run in runs:
        for text in ([f"not recomputed: {run.not_derived}"] if run.not_derived else []) + run.notes:
            found.setdefault(text, []).append(f"{run.benchmark} with {run.model}")
    everywhere = f"all {len(runs):,} runs"
    return [
        f"{everywhere if len(places) == len(runs) > 1 else listed(places, 3)}: {text}" for text, places in found.items()
    ]
