"""Tables in the order that the reader chooses: links sort on the server, a script sorts the static files.

Either way the order is in the address, and the first choice of a column shows its best values on top.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from medhelm.extensions.web.page import PageRequest

T = TypeVar("T")

Order = Literal["ascending", "descending"]
"""Direction in which values follow each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading(Generic[T]):
    """The heading of a column, and what its rows are sorted by."""

    key: str
    """Value of the parameter `sort`."""
    title: str
    """Heading."""
    note: str = ""
    """Second line of the heading."""
    explanation: str = ""
    """Meaning, shown on request; empty for none."""
    sort: Callable[[T], float | str | None] | None = None
    """Number or text to sort by; None if the table is not sorted by this column."""
    best_first: bool = True
    """True if the first click shows high values on top."""
    is_number: bool = True
    """True for numbers, which are aligned right."""

    @property
    def first_order(self) -> Order:
        """Order of the first click."""
        return "descending" if self.best_first else "ascending"


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedTable(Generic[T]):
    """Rows in the order that a request asks for."""

    request: PageRequest
    """The request, for links to other orders."""
    headings: Sequence[Heading[T]]
    """The columns."""
    rows: Sequence[T]
    """The rows in order; those without a value last."""
    sort: str
    """Key of the column that they are sorted by."""
    order: Order
    """Direction."""

    @property
    def by_key(self) -> Mapping[str, Heading[T]]:
        """The headings by their keys."""
        return {one.key: one for one in self.headings}

    def link(self, heading: Heading[T]) -> str:
        """Return the address of the table sorted by a column, turned around if it is sorted by it already."""
        turned: Order = "descending" if self.order == "ascending" else "ascending"
        return self.request.here(
            sort=heading.key, order=turned if heading.key == self.sort else heading.first_order, page=None
        )


def sorted_table(
    request: PageRequest, headings: Sequence[Heading[T]], rows: Sequence[T], *, default: str
) -> SortedTable[T]:
    """Sort rows by the parameters `sort` and `order` of a request. Equal values keep their order.

    Parameters: default, key of the column that they are sorted by without a parameter. Raises: BadParameter.
    """
    by_key = {one.key: one for one in headings if one.sort is not None}
    key = request.choice("sort", by_key, default)
    heading = by_key[key]
    orders: dict[str, Order] = {"ascending": "ascending", "descending": "descending"}
    order = orders[request.choice("order", orders, heading.first_order)]
    value = heading.sort or (lambda _: None)
    is_given = bool(request.text("sort") or request.text("order"))
    found = sort_rows(rows, value, order) if is_given or key != default else list(rows)
    return SortedTable(request=request, headings=headings, rows=found, sort=key, order=order)


def sort_rows(rows: Sequence[T], value: Callable[[T], float | str | None], order: Order) -> list[T]:
    """Return rows by a number or text, those without one last.

    >>> sort_rows([2, None, 3], lambda number: number, "descending")
    [3, 2, None]
    """
    with_value = [(found, row) for row in rows if (found := value(row)) is not None]
    with_value.sort(key=lambda pair: pair[0], reverse=order == "descending")
    return [row for _, row in with_value] + [row for row in rows if value(row) is None]
