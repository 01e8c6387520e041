"""What is loaded beside a run, where the run ends early."""

from __future__ import annotations

import threading

import pytest

from medhelm.evaluation import run_recorder as run_in_progress


def test_an_import_that_is_under_way_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The column engine aborts an interpreter that ends while it is being loaded, and the exit code is lost."""
    started: list[threading.Thread] = []
    begin = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        started.append(thread)
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    run_in_progress.import_engines()
    (thread,) = started
    assert not thread.daemon
    thread.join()
