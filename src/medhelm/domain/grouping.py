"""Grouping of items by a key."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def group_by(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return the items with each key; keys and items stay in the order in which they appear.

    Unlike `itertools.groupby`, items with equal keys need not be neighbors.

    >>> group_by(["aci", "ehr", "add"], lambda name: name[0])
    {'a': ['aci', 'add'], 'e': ['ehr']}
    """
    found: dict[K, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found
