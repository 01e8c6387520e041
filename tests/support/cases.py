"""Checks a table of cases in one test: cheaper than one test per case, and a failure shows the whole pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

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
