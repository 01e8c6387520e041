"""Values that may be missing by their type, but must be there in a test."""

from __future__ import annotations

from typing import Protocol, TypeVar

T = TypeVar("T")


class Bounded(Protocol):
    """An estimate with an interval, whose ends may be unknown."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


def present(value: T | None) -> T:
    """Return a value that must be there."""
    assert value is not None
    return value


def ends(estimate: Bounded | None) -> tuple[float, float, float]:
    """Return the lower end, the value and the upper end of an interval that must be there."""
    found = present(estimate)
    return present(found.low), found.value, present(found.high)
