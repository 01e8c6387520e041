"""Releases of a leaderboard, what lies between two of them, and what came of deriving one anew: text and JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from medhelm.reports.tables import Value, printable, render

if TYPE_CHECKING:
    from medhelm.analysis.leaderboard.diff import LeaderboardDiff, RunCheck, ValueDifference, Verification
    from medhelm.domain import Release

SHOWN = 40
"""Most differences that are listed one by one; the rest are counted."""

_DIGEST = re.compile(r"[0-9a-f]{64}")

WIDTH = 60
"""Most characters of a value that are shown."""


DIGESTS = ("definition", "data", "prompts", "records", "judgments")
"""Aspects that are told by digests, which say nothing to people."""


RELEASE_KEYS = {"medhelm_version": "medhelm", "provenance": "bases"}
"""Field of a release -> its key in JSON, where they differ."""

BASIS_KEYS = {"min_judges": "at_least"}
"""Field of the provenance of a number -> its key in JSON, where they differ."""


def release_as_json(release: Release) -> dict[str, Any]:
    """A release without its leaderboard, which has a file of its own."""
    content = {RELEASE_KEYS.get(name, name): value for name, value in asdict(release).items() if name != "leaderboard"}
    content["bases"] = [{BASIS_KEYS.get(name, name): value for name, value in one.items()} for one in content["bases"]]
    models = [row["model"] for row in release.leaderboard["models"]]
    return {**content, "models": models, "n_runs": len(release.provenance)}


def releases_table(releases: Sequence[Release], format: str = "table") -> str:
    """One row for each release."""
    headers = ["Release", "Created", "Models", "Benchmarks", "Scoring", "Tier", "Suite", "sha256", "Note"]
    rows: list[list[Value]] = [
        [
            one.name,
            one.created,
            len(one.leaderboard["models"]),
            len(one.leaderboard["benchmarks"]),
            one.leaderboard["scoring"],
            one.leaderboard["tier"],
            one.leaderboard["suite"],
            one.sha256[:12],
            one.note,
        ]
        for one in releases
    ]
    return render(rows, headers, format=format)


def difference_rows(differences: Iterable[ValueDifference]) -> list[list[Value]]:
    """What, before, now: one row for each difference."""
    return [[one.what, shown(one.before), shown(one.now)] for one in differences]


def differences_table(differences: Sequence[ValueDifference], format: str = "table", *, caption: str = "") -> str:
    """The first `SHOWN` differences, and how many more there are."""
    more = f"{caption} (the first {SHOWN} of {len(differences)})" if len(differences) > SHOWN else caption
    rows = difference_rows(differences[:SHOWN])
    return render(rows, ["What", "Before", "Now"], format=format, caption=more)


def shown(value: Any) -> str:
    """A value of any kind in one short line.

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


def difference_as_json(between: LeaderboardDiff) -> dict[str, Any]:
    """What lies between two leaderboards, for programs."""
    return {**asdict(between), "same": not between.board}


def difference_to_text(between: LeaderboardDiff, format: str = "table") -> str:
    """The same for people: what was added and taken away, places, values with the reasons, then all the rest."""
    names = f"from {between.first} to {between.second}"
    if not between.board and not between.cells:
        return f"The leaderboards of {between.first} and {between.second} are equal, and so is all they rest on.\n"
    lines = [
        f"{verb} {what}: {', '.join(map(printable, gone))}."
        for what, both in (("models", between.models), ("benchmarks", between.benchmarks))
        for verb, gone in zip(("Only the first has the", "Only the second has the"), both, strict=True)
        if gone
    ]
    lines += [f"{printable(rank.what)} went from place {rank.before} to {rank.now}." for rank in between.ranks]
    parts = ["\n".join(lines) + "\n"] if lines else []
    if between.options:
        parts.append(differences_table(between.options, format, caption=f"Asked for otherwise, {names}"))
    if between.cells:
        headers = ["Benchmark", "Model", "Before", "Now", "What it rests on and is another now"]
        rows: list[list[Value]] = [
            [cell.benchmark, cell.model, shown(cell.before), shown(cell.now), _reasons(cell.why)]
            for cell in between.cells
        ]
        parts.append(render(rows, headers, format=format, caption=f"Values, {names}", keep=2))
    if between.board:
        parts.append(differences_table(between.board, format, caption=f"Every place of the leaderboard, {names}"))
    return "\n".join(parts)


def verification_as_json(found: Verification) -> dict[str, Any]:
    """What came of deriving a leaderboard anew, for programs."""
    return {
        "release": found.release or None,
        "same": found.same,
        "runs": [{**asdict(run), "same": not run.differences} for run in found.runs],
        "leaderboard": [asdict(difference) for difference in found.board],
        "notes": list(found.notes),
    }


def verification_to_text(found: Verification, format: str = "table") -> str:
    """The same for people."""
    whose = f"release {found.release}" if found.release else "the store"
    derived = sum(not run.not_derived for run in found.runs)
    counts = f"{derived} of {len(found.runs)} runs were derived anew from their completions"
    if found.same and derived == len(found.runs):
        head = f"The leaderboard of {whose} comes out byte for byte: {counts}."
    elif found.same:
        head = f"Nothing differs, as far as {whose} could be derived: {counts}."
    else:
        differing = sum(bool(run.differences) for run in found.runs)
        head = f"The leaderboard of {whose} does not come out as it stands: {counts}, {differing} differ."
    rows: list[list[Value]] = [
        [run.benchmark, run.model, difference.what, shown(difference.before), shown(difference.now)]
        for run in found.runs
        for difference in run.differences
    ]
    parts = [head + "\n"]
    if rows:
        parts.append(render(rows, ["Benchmark", "Model", "What", "Before", "Now"], format=format, keep=2))
    if found.board:
        parts.append(differences_table(found.board, format, caption="The leaderboard, as it stands and derived anew"))
    if remarks := [*found.notes, *_remarks(found.runs)]:
        parts.append("".join(f"- {printable(remark)}\n" for remark in remarks))
    return "\n".join(parts)


def _reasons(why: Sequence[ValueDifference]) -> str:
    """Aspects, with old and new where they are short."""
    if not why:
        return "nothing"
    return "; ".join(
        one.what if one.what in DIGESTS else f"{one.what} ({shown(one.before)} -> {shown(one.now)})" for one in why
    )


def _remarks(runs: Sequence[RunCheck]) -> list[str]:
    """Why runs could not be derived, and what is to be known of them; the same words once."""
    said: dict[str, list[str]] = {}
    for run in runs:
        for text in ([f"not derived anew: {run.not_derived}"] if run.not_derived else []) + run.notes:
            said.setdefault(text, []).append(f"{run.benchmark} with {run.model}")
    return [
        f"{', '.join(places[:3])}{f' and {len(places) - 3} more' if len(places) > 3 else ''}: {text}"
        for text, places in said.items()
    ]
