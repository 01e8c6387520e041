"""The taxonomy: 5 categories, 22 subcategories and their tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from medhelm.io.package_yaml import read_package_yaml

FILE = Path(__file__).with_name("taxonomy.yaml")
"""The taxonomy as data."""

TASKS_OF_THE_PAPER = 121
"""Number of tasks according to the paper, which does not list them."""


VALIDATION: Mapping[str, Any] = MappingProxyType(
    {
        "clinicians": 29,
        "specialties": 14,
        "category_agreement": 0.967,
        "comprehensiveness": 4.21,
        "comprehensiveness_scale": (1, 5),
        "comments": 107,
        "draft_subcategories": 21,
        "subcategories": 22,
        "draft_tasks": 98,
        "tasks": TASKS_OF_THE_PAPER,
    }
)
"""Validation of the taxonomy by clinicians, according to the paper and its appendix B: the share of assignments to
categories that agree, the mean rating of its comprehensiveness, and its size before and after their comments."""


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
