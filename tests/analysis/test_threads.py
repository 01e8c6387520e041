"""Results computed in threads come in order, and errors reach the caller."""

from __future__ import annotations

import threading

import pytest

from medhelm.analysis import means as threads
from medhelm.analysis.means import in_threads


def test_results_come_in_order_from_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "cpu_count", lambda: 2)
    both = threading.Barrier(2, timeout=600)

    def square(item: int) -> int:
        both.wait()  # passes only with two at a time
        return item * item

    assert list(in_threads(square, range(8), size=threads.LEAST)) == [item * item for item in range(8)]


def test_errors_reach_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        list(in_threads(lambda item: 1 / item, [1, 0, 2], size=threads.LEAST))
