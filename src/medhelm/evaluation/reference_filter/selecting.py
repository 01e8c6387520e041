"""Which benchmarks have references that can be filtered."""

from __future__ import annotations

from collections.abc import Sequence

from medhelm.benchmarks.catalog import GROUPS
from medhelm.domain import Benchmark
from medhelm.errors import UserError


def filterable(benchmarks: Sequence[Benchmark], names: Sequence[str]) -> tuple[list[Benchmark], list[str]]:
    """The benchmarks with references in free text, which have one for every instance; and, in words, those of a group
    that have none.

    Parameters: names, what the user typed. A benchmark that was named itself, and not as one of a group, has to be one.
    Raises: UserError that says of each such benchmark why its references cannot be filtered, or if none is left.
    """
    reasons = {benchmark.name: reason for benchmark in benchmarks if (reason := _why_not(benchmark))}
    groups = {*GROUPS, *(place for b in benchmarks for place in (b.taxonomy.category, b.taxonomy.subcategory))}
    by_group = bool(groups.intersection(names))
    named = {b.name for b in benchmarks if not by_group or {b.name, *b.aliases}.intersection(names)}
    left = [benchmark for benchmark in benchmarks if benchmark.name not in reasons]
    if refused := [reasons[name] for name in reasons if name in named] or ([] if left else list(reasons.values())):
        raise UserError("\n".join([*refused, "Nothing was sent."]))
    return left, list(reasons.values())


def _why_not(benchmark: Benchmark) -> str:
    """Why the references of a benchmark cannot be filtered; empty if they can."""
    if benchmark.rubric is None:
        return (
            f"{benchmark.name} is closed: its answers are options, numbers, labels or queries that are right or wrong. "
            "Only references in free text are filtered; `medhelm filter-references open` takes all that have them."
        )
    if not benchmark.rubric.shows_reference:
        return f"{benchmark.name} has no references that count: its judges grade without one."
    return ""
