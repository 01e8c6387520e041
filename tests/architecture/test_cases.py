"""Tables of cases: every failing case is named, and an empty table fails."""

from __future__ import annotations

import pytest

from tests.support.cases import check_cases, table


def test_every_failing_case_is_named() -> None:
    @table(("number", "limit"), [(1, 2), pytest.param(3, 2, id="above"), (5, 4)])
    def is_below(number: int, limit: int) -> None:
        assert number < limit

    with pytest.raises(AssertionError, match=r"(?s)2 of 3 cases failed.*\[1 above\].*\[2 5, 4\]"):
        is_below()


def test_an_empty_table_fails() -> None:
    with pytest.raises(AssertionError, match="a table without cases"):
        check_cases({}, print)
