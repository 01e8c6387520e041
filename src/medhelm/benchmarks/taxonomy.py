"""The taxonomy: 5 categories, 22 subcategories and their tasks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from medhelm.io.package_yaml import read_package_yaml

FILE = Path(__file__).with_name("taxonomy.yaml")
"""The taxonomy as data."""

TASKS_OF_THE_PAPER = 121
"""Number of tasks according to the paper, which does not list them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subcategory:
    """A kind of medical work."""

    id: str
    """Id in snake case, such as `planning_treatments`."""
    title: str
    """Display name."""
    tasks: tuple[str, ...]
    """The tasks that can be derived from the paper."""
    points: int
    """Number of items in the paper's appendix from which the tasks were derived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    """One of the five fields of medical work."""

    id: str
    """Id in snake case, such as `clinical_decision_support`."""
    title: str
    """Display name."""
    definition: str
    """Definition of its scope."""
    criterion: str
    """Criterion for assigning a task to it."""
    performers: str
    """The professions that do this work."""
    subcategories: tuple[Subcategory, ...]
    """Its subcategories."""


@cache
def load_taxonomy() -> tuple[Category, ...]:
    """Return all categories, in the order of the paper."""
    content: list[dict[str, Any]] = read_package_yaml(FILE)["categories"]
    return tuple(
        Category(**{**category, "subcategories": tuple(map(_subcategory, category["subcategories"]))})
        for category in content
    )


def _subcategory(content: dict[str, Any]) -> Subcategory:
    return Subcategory(**{**content, "tasks": tuple(content["tasks"])})
