"""What a reader of a leaderboard must know, in words."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby, pairwise

from medhelm.analysis.alignment import AlignedScores
from medhelm.analysis.board import Column, Row
from medhelm.domain import Tier

NAMES = 5
"""Most names written out in one sentence."""

LONGEST_ANSWER = 30
"""Characters of a constant answer that are shown."""


def all_remarks(
    rows: Sequence[Row],
    columns: Sequence[Column],
    aligned: Mapping[str, AlignedScores],
    absent: Sequence[str],
    told_apart: Collection[tuple[str, str]],
    method: str,
    tier: Tier,
) -> Iterator[str]:
    """Yield sentences, the most limiting first.

    Parameters: rows in order of rank; aligned, benchmark -> scores, where known; absent, benchmarks that were asked for
    but have no result; told_apart, pairs of models, better one first; method, what was resampled.
    """
    if tier == "sample":
        yield "Sample tier: these are a few invented rows per benchmark; they say nothing about real performance."
    if not rows:
        yield "There is nothing to rank yet: no result on any of the benchmarks asked for."
        return
    if absent:
        count = len(absent) + len(columns)
        yield f"{len(absent)} of {count} benchmarks asked for have no result: {_names(absent)}."
    yield from _coverage(rows, columns)
    yield from _instances(columns, aligned)
    yield from _failures(rows)
    yield from _floors(rows, columns)
    if len(rows) > 1:
        yield from _ties(rows, told_apart)
        if method == "benchmarks":
            yield (
                "Single scores are not known for all results, so intervals of averages tell how much the choice of "
                "benchmarks matters, not the choice of questions."
            )


def _coverage(rows: Sequence[Row], columns: Sequence[Column]) -> Iterator[str]:
    """Who was not run on everything."""
    for row in rows:
        lacking = [c.benchmark for c in columns if c.benchmark not in row.cells or row.cells[c.benchmark].value is None]
        if lacking:
            yield (
                f"{row.model} has a value on {row.n_benchmarks} of {len(columns)} benchmarks, so its averages are over "
                f"other benchmarks than its rivals'. Missing: {_names(lacking)}."
            )


def _instances(columns: Sequence[Column], aligned: Mapping[str, AlignedScores]) -> Iterator[str]:
    """Where models answered different questions, or too few."""
    known = [c.benchmark for c in columns if c.benchmark in aligned]
    differing = [name for name in known if not aligned[name].same_instances]
    if differing:
        yield f"Models were asked different instances of {_names(differing)}."
    single = [name for name in known if aligned[name].k == 1]
    if single:
        yield f"There is only one independent instance of {_names(single)}: it counts, but proves nothing."


def _failures(rows: Sequence[Row]) -> Iterator[str]:
    """Who has instances without a score."""
    for row in rows:
        failed = [name for name, cell in row.cells.items() if cell.n_failed]
        if failed:
            count = sum(cell.n_failed or 0 for cell in row.cells.values())
            yield f"{row.model}: {count} instances without a score, left out of its means, on {_names(failed)}."


def _floors(rows: Sequence[Row], columns: Sequence[Column]) -> Iterator[str]:
    """Where a constant answer does as well as all models, or as some."""
    none: list[str] = []
    some: list[str] = []
    for column in columns:
        if column.floor is None:
            continue
        values = [row.cells[column.benchmark].value for row in rows if column.benchmark in row.cells]
        known = [column.normalise(value) for value in values if value is not None]
        above = sum(value > column.normalise(column.floor) for value in known)
        if known and above < len(known):
            answer = " ".join(column.floor_answer.split())
            shown = answer if len(answer) <= LONGEST_ANSWER else answer[:LONGEST_ANSWER] + "..."
            (some if above else none).append(f"{column.title} (`{shown}`: {column.floor:.3f})")
    if none:
        yield f"No model does better than the same answer to every question on {_names(none)}."
    if some:
        yield f"Only some models do better than the same answer to every question on {_names(some)}."


def _ties(rows: Sequence[Row], told_apart: Collection[tuple[str, str]]) -> Iterator[str]:
    """What can and cannot be told apart."""
    neighbours = sum((a.model, b.model) in told_apart for a, b in pairwise(rows))
    pairs = len(rows) * (len(rows) - 1) // 2
    yield (
        f"{len(told_apart)} of {pairs} pairs of models can be told apart by their win rates, and {neighbours} of "
        f"{len(rows) - 1} neighbours in rank."
    )
    first = 1
    for _, group in groupby(rows, key=lambda row: row.tie_group):
        members = [row.model for row in group]
        last = first + len(members) - 1
        if len(members) > 1:
            yield f"Places {first} to {last} cannot be told apart from place {first}: {_names(members, len(members))}."
        first = last + 1


def _names(names: Sequence[str], most: int = NAMES) -> str:
    """Names in a row, cut after `most`."""
    text = ", ".join(names[:most])
    return text if len(names) <= most else f"{text} and {len(names) - most} more"
