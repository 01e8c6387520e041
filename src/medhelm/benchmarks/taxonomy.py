"""The taxonomy: 5 categories, 22 subcategories and their tasks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from medhelm.domain.benchmark import Category, Subcategory
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
