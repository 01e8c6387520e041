"""Checks a table of cases in one test: cheaper than one test per case, and a failure shows the whole pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from _pytest.mark.structures import ParameterSet

Case = TypeVar("Case")

SHOWN = 20
"""Maximum number of failures shown in full."""


def check_cases(cases: Mapping[str, Case] | Iterable[Case], check: Callable[[Case], object]) -> None:
    """Run `check` on every case, and fail with all that failed.

    Parameters
    ----------
    cases
        Name -> case, or cases that are named by themselves. At least one.
    check
        Raises if a case is wrong.
    """
    named = list(cases.items()) if isinstance(cases, Mapping) else [(str(case), case) for case in cases]
    assert named, "a table without cases proves nothing"
    failed: dict[str, Exception] = {}
    for name, case in named:
        try:
            check(case)
        except Exception as error:  # noqa: BLE001 - shown below
            failed[name] = error
    if failed:
        shown = [f"[{name}] {type(error).__name__}: {error}" for name, error in list(failed.items())[:SHOWN]]
        rest = [f"and {len(failed) - SHOWN} more"] if len(failed) > SHOWN else []
        message = "\n\n".join([f"{len(failed)} of {len(named)} cases failed", *shown, *rest])
        raise AssertionError(message) from next(iter(failed.values()))


def table(
    names: str | Sequence[str], cases: Iterable[Any], *, ids: Iterable[str] | Callable[[Any], str] | None = None
) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Make one test of many cases: as `pytest.mark.parametrize`, for checks of a few milliseconds without fixtures."""
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [_row(case, len(arguments)) for case in cases]

    given = None if ids is None or callable(ids) else list(ids)

    def name(number: int) -> str:
        own, values = rows[number]
        if own:
            return own
        if given is not None:
            return given[number]
        if callable(ids):
            return "-".join(str(ids(value)) for value in values)
        return ", ".join(map(repr, values))[:200]

    def decorate(check: Callable[..., None]) -> Callable[[], None]:
        def check_row(values: tuple[Any, ...]) -> None:
            check(**dict(zip(arguments, values, strict=True)))

        def test() -> None:
            check_cases({f"{number} {name(number)}": row for number, (_, row) in enumerate(rows)}, check_row)

        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        return test

    return decorate


def _row(case: Any, width: int) -> tuple[str, tuple[Any, ...]]:
    """Return the name of a case, if it has one, and its values."""
    if isinstance(case, ParameterSet):
        return str(case.id or ""), tuple(case.values)
    return "", (case,) if width == 1 else tuple(case)
