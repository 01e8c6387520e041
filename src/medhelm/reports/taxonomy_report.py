"""The taxonomy as a tree and as JSON: what medical work there is, and which benchmarks cover it here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from medhelm.reports.plain import printable

WIDTH = 24
"""Columns for the name of a benchmark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
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
class Branch:
    """A subcategory with its benchmarks."""

    id: str
    """Its id."""
    title: str
    """Its name."""
    tasks: Sequence[str]
    """Its tasks, as far as they are known."""
    leaves: Sequence[Leaf]
    """Benchmarks in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bough:
    """A category with its subcategories."""

    id: str
    """Its id."""
    title: str
    """Its name."""
    definition: str
    """What belongs to it; empty for one of the user's own."""
    criterion: str
    """By what it is recognised."""
    performers: str
    """Who does this work."""
    branches: Sequence[Branch]
    """Its subcategories."""


def tree(boughs: Sequence[Bough], *, tasks_of_the_paper: int, with_tasks: bool) -> str:
    """The whole as text; `with_tasks`: also the tasks of each subcategory."""
    lines: list[str] = []
    for bough in boughs:
        lines += [bough.title, *(f"  {text}" for text in (bough.definition, bough.criterion) if text)]
        lines += [f"  Done by: {bough.performers}"] if bough.performers else []
        for branch in bough.branches:
            lines += [f"  {branch.title} ({_covered(branch)})"]
            lines += [f"    - {task}" for task in branch.tasks if with_tasks]
            lines += [_line(leaf) for leaf in branch.leaves]
        lines.append("")
    return "\n".join([*lines, summary(boughs, tasks_of_the_paper)])


def summary(boughs: Sequence[Bough], tasks_of_the_paper: int) -> str:
    """The counts, and what is not known."""
    branches = [branch for bough in boughs for branch in bough.branches]
    leaves = [leaf for branch in branches for leaf in branch.leaves]
    n_tasks = sum(len(branch.tasks) for branch in branches)
    covered = {(branch.id, leaf.task) for branch in branches for leaf in branch.leaves if leaf.task in branch.tasks}
    here = sum(leaf.here for leaf in leaves)
    return (
        f"{len(boughs)} categories, {len(branches)} subcategories, {len(leaves)} benchmarks, {here} with data here.\n"
        f"{n_tasks} tasks, {len(covered)} of them with a benchmark. The paper counts {tasks_of_the_paper} tasks, but "
        "their list is unpublished:\nthese are what can be recovered from the condensed points of its appendix."
    )


def to_json(boughs: Sequence[Bough], tasks_of_the_paper: int) -> dict[str, Any]:
    """The whole as JSON."""
    return {
        "categories": [
            {
                "id": bough.id,
                "title": bough.title,
                "definition": bough.definition,
                "criterion": bough.criterion,
                "performers": bough.performers,
                "subcategories": [_branch_json(branch) for branch in bough.branches],
            }
            for bough in boughs
        ],
        "n_tasks": sum(len(branch.tasks) for bough in boughs for branch in bough.branches),
        "n_tasks_of_the_paper": tasks_of_the_paper,
    }


def _branch_json(branch: Branch) -> dict[str, Any]:
    leaves = [
        {
            "name": leaf.name,
            "task": leaf.task,
            "access": leaf.access,
            "instances": leaf.n,
            "here": leaf.here,
            "why_not": leaf.why_not,
        }
        for leaf in branch.leaves
    ]
    return {"id": branch.id, "title": branch.title, "tasks": list(branch.tasks), "benchmarks": leaves}


def _covered(branch: Branch) -> str:
    n = len(branch.leaves)
    tasks = f"{len(branch.tasks)} task{'' if len(branch.tasks) == 1 else 's'}, " if branch.tasks else ""
    return f"{tasks}{n or 'no'} benchmark{'' if n == 1 else 's'}"


def _line(leaf: Leaf) -> str:
    state = "data here" if leaf.here else f"no data here: {leaf.why_not}"
    return printable(f"    * {leaf.name:<{WIDTH}} {leaf.access:<8} instances: {leaf.instances:<17} {state}")
