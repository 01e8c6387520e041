"""The taxonomy as a tree and as JSON: what medical work there is, and which benchmarks cover it here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from medhelm.reports.plain import printable

WIDTH = 24
"""Columns for the name of a benchmark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkCoverage:
    """A benchmark in its place."""

    name: str
    """Its id."""
    task: str
    """The task it stands for."""
    access: str
    """public, gated or private."""
    instances: str
    """How many are evaluated, in words."""
    n: int | None
    """The same as a number; None if the definition does not say."""
    here: bool
    """Whether its data is on this machine."""
    why_not: str
    """Why it is not; empty if it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubcategoryCoverage:
    """A subcategory with its benchmarks."""

    id: str
    """Its id."""
    title: str
    """Its name."""
    benchmarks: Sequence[BenchmarkCoverage]
    """Benchmarks in it."""
    tasks: Sequence[str] = ()
    """Its tasks, as far as they are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryCoverage:
    """A category with its subcategories."""

    id: str
    """Its id."""
    title: str
    """Its name."""
    subcategories: Sequence[SubcategoryCoverage]
    """Its subcategories."""
    definition: str = ""
    """What belongs to it; empty for one of the user's own."""
    criterion: str = ""
    """By what it is recognised."""
    performers: str = ""
    """Who does this work."""


def tree(categories: Sequence[CategoryCoverage], *, tasks_of_the_paper: int, with_tasks: bool) -> str:
    """The whole as text; `with_tasks`: also the tasks of each subcategory."""
    lines: list[str] = []
    for category in categories:
        lines += [category.title, *(f"  {text}" for text in (category.definition, category.criterion) if text)]
        lines += [f"  Done by: {category.performers}"] if category.performers else []
        for subcategory in category.subcategories:
            lines += [f"  {subcategory.title} ({_covered(subcategory)})"]
            lines += [f"    - {task}" for task in subcategory.tasks if with_tasks]
            lines += [_line(benchmark) for benchmark in subcategory.benchmarks]
        lines.append("")
    return "\n".join([*lines, summary(categories, tasks_of_the_paper)])


def summary(categories: Sequence[CategoryCoverage], tasks_of_the_paper: int) -> str:
    """The counts, and what is not known."""
    places = [place for category in categories for place in category.subcategories]
    benchmarks = [benchmark for place in places for benchmark in place.benchmarks]
    covered = {(p.id, benchmark.task) for p in places for benchmark in p.benchmarks if benchmark.task in p.tasks}
    here = sum(benchmark.here for benchmark in benchmarks)
    return (
        f"{len(categories)} categories, {len(places)} subcategories, {len(benchmarks)} benchmarks, {here} with data "
        f"here.\n{sum(len(place.tasks) for place in places)} tasks, {len(covered)} of them with a benchmark. The paper "
        f"counts {tasks_of_the_paper} tasks, but their list is unpublished:\n"
        "these are what can be recovered from the condensed points of its appendix."
    )


def to_json(categories: Sequence[CategoryCoverage], tasks_of_the_paper: int) -> dict[str, Any]:
    """The whole as JSON."""
    return {
        "categories": [
            {
                "id": category.id,
                "title": category.title,
                "definition": category.definition,
                "criterion": category.criterion,
                "performers": category.performers,
                "subcategories": [_subcategory_json(subcategory) for subcategory in category.subcategories],
            }
            for category in categories
        ],
        "n_tasks": sum(len(subcategory.tasks) for category in categories for subcategory in category.subcategories),
        "n_tasks_of_the_paper": tasks_of_the_paper,
    }


def _subcategory_json(subcategory: SubcategoryCoverage) -> dict[str, Any]:
    benchmarks = [
        {
            "name": benchmark.name,
            "task": benchmark.task,
            "access": benchmark.access,
            "instances": benchmark.n,
            "here": benchmark.here,
            "why_not": benchmark.why_not,
        }
        for benchmark in subcategory.benchmarks
    ]
    return {
        "id": subcategory.id,
        "title": subcategory.title,
        "tasks": list(subcategory.tasks),
        "benchmarks": benchmarks,
    }


def _covered(subcategory: SubcategoryCoverage) -> str:
    n = len(subcategory.benchmarks)
    tasks = f"{len(subcategory.tasks)} task{'' if len(subcategory.tasks) == 1 else 's'}, " if subcategory.tasks else ""
    return f"{tasks}{n or 'no'} benchmark{'' if n == 1 else 's'}"


def _line(benchmark: BenchmarkCoverage) -> str:
    state = "data here" if benchmark.here else f"no data here: {benchmark.why_not}"
    return printable(
        f"    * {benchmark.name:<{WIDTH}} {benchmark.access:<8} instances: {benchmark.instances:<17} {state}"
    )
