"""Releases, differences between two releases, and results of verification: text and JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from medhelm.analysis.comparison.tests import LEVEL
from medhelm.domain.text import listed
from medhelm.reports.formats.fields import Field, fields_json, fields_table, flat_interval, select_fields
from medhelm.reports.formats.json_output import plain_json
from medhelm.reports.formats.tables import Value, printable, render

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


def _of_board(key: str, heading: str, drop: int) -> Field[Release]:
    """Return a field of the leaderboard of a release."""
    return Field(key, lambda release: str(release.leaderboard.get(key, "")), kind="text", heading=heading, drop=drop)


RELEASE_FIELDS: list[Field[Release]] = [
    Field("name", lambda release: release.name, kind="text", heading="Release"),
    Field("created", lambda release: release.created, kind="text", heading="Created"),
    Field("medhelm", lambda release: release.medhelm_version, kind="text", meaning="version of MedHELM that made it"),
    Field("note", lambda release: release.note, kind="text", heading="Note", drop=5),
    Field("sha256", lambda release: release.sha256, kind="text", meaning="of its leaderboard",
          heading="sha256", text=lambda release: release.sha256[:12], drop=1),
    _of_board("suite", "Suite", 2),
    _of_board("scoring", "Scoring", 4),
    _of_board("tier", "Tier", 3),
    Field("models", lambda release: len(release.leaderboard["models"]), in_json=False, heading="Models", drop=7),
    Field("benchmarks", lambda release: len(release.leaderboard["benchmarks"]), in_json=False,
          heading="Benchmarks", drop=6),
]  # fmt: skip
"""A release in lists."""


def releases_table(releases: Sequence[Release], format: str = "table") -> str:
    """Return one row per release."""
    fields = select_fields(RELEASE_FIELDS, "name created models benchmarks scoring tier suite sha256 note")
    return fields_table(fields, releases, format=format)


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
        "cases": [fields_json(CASE_FIELDS, one) for one in found.cases],
        "only": [[{"model": model, "benchmark": name} for model, name in side] for side in found.only],
    }


CASE_FIELDS: list[Field[ChangedCases]] = [
    Field("model", lambda one: one.model, kind="text", heading="Model"),
    Field("benchmark", lambda one: one.benchmark, kind="text", heading="Benchmark"),
    *flat_interval("difference", lambda one: one.difference, heading="Difference"),
    Field("n", lambda one: one.difference and one.difference.n, kind="whole number", missing="not compared",
          heading="n", drop=1),
    Field("p_value", lambda one: one.difference and one.difference.p_value),
    Field("p_adjusted", lambda one: one.p_adjusted, kind="p-value", heading="p adjusted"),
    Field("separated", lambda one: one.p_adjusted is not None and one.p_adjusted <= LEVEL, kind="true or false"),
    Field("n_gained", lambda one: one.n_gained, kind="whole number",
          heading="Only later right", text=lambda one: one.n_gained if one.difference else None, drop=4),
    Field("n_lost", lambda one: one.n_lost, kind="whole number",
          heading="Only earlier right", text=lambda one: one.n_lost if one.difference else None, drop=3),
    Field("gained", lambda one: one.gained, kind="texts", missing="private",
          meaning="ids; null where the data is not public"),
    Field("lost", lambda one: one.lost, kind="texts", missing="private"),
    Field("problem", lambda one: one.problem, kind="text", meaning="why the cases could not be compared; else empty",
          heading="Note", drop=2),
]  # fmt: skip
"""The runs behind a score of two releases, instance by instance."""


def comparison_to_text(found: ReleaseComparison, format: str = "table") -> str:
    """Return the differences as text, and tests of the runs that were replaced, instance by instance."""
    text = difference_to_text(found.diff, format)
    if not found.cases:
        return text
    caption = (
        f"Replaced runs, from {found.diff.first} to {found.diff.second}: later minus earlier on the same instances, "
        "from 0 (worst) to 1 (best), with p-values by Holm over all rows"
    )
    fields = select_fields(CASE_FIELDS, "benchmark model difference n p_adjusted n_gained n_lost problem")
    return f"{text}\n{fields_table(fields, found.cases, format=format, caption=caption, keep=2)}"


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
