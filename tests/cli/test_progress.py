"""What a person sees while work is under way."""

from __future__ import annotations

import io
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from medhelm.cli import progress
from medhelm.cli.global_options import Shared
from medhelm.domain import Usage


def under(**changes: Any) -> Any:
    """Return what the display reads of a run under way."""
    names = {"benchmark": SimpleNamespace(name="pubmed_qa"), "model": SimpleNamespace(name="openai/m")}
    counts = {"n": 100, "done": 0, "failed": 0, "usage": Usage(), "cost_usd": 0.0, "started": 0.0}
    return SimpleNamespace(**{**names, **counts, "run": None, "jury": None, **changes})


@pytest.mark.parametrize(
    ("changes", "elapsed_s", "expected"),
    [
        ({"done": 50}, 10.0, ("█" * 8 + "░" * 8, "50/100", "", "5.0/s", "", "0.00 USD", "10 s left")),
        (
            {"done": 20, "failed": 2, "usage": Usage(input=1400, output=100), "cost_usd": 1.5},
            100.0,
            ("█" * 3 + "░" * 13, "20/100", "2 failed", "0.2/s", "1.5k tokens", "1.50 USD", "6 min 40 s left"),
        ),
        (
            {"done": 1, "n": 10_000, "cost_usd": None, "usage": Usage(input=2_500_000)},
            2.0,
            ("░" * 16, "1/10000", "", "0.5/s", "2.5M tokens", "cost ?", "5 h 33 min left"),
        ),
        ({"n": 0}, 1.0, ("█" * 16, "0/0", "", "0.0/s", "", "0.00 USD", "? left")),
        ({"done": 100, "run": object()}, 2.0, ("█" * 16, "100/100", "", "50/s", "", "0.00 USD", "")),
    ],
    ids=["half", "failures and cost", "unknown price", "no instances", "ended"],
)
def test_a_line_tells_done_failed_rate_tokens_cost_and_time_left(
    changes: dict[str, Any], elapsed_s: float, expected: tuple[str, ...]
) -> None:
    assert progress.describe(under(**changes), elapsed_s) == ("pubmed_qa", "openai/m", *expected)


def minutes(n: int, clock: list[float]) -> Callable[[float], bool]:
    """Return a wait that moves the clock on, and ends the work after `n` waits."""

    def wait(seconds: float) -> bool:
        clock[0] += seconds
        return clock[0] > n * seconds

    return wait


def lines_of(n_minutes: int, *running: Any, pools: Any = ()) -> list[str]:
    stream, clock = io.StringIO(), [0.0]
    listener = progress.MinuteLines(stream, clock=lambda: clock[0], wait=minutes(n_minutes, clock))
    listener.watch(pools)
    for run in running:
        listener.began(run)
    with listener:
        pass
    return stream.getvalue().splitlines()


def test_without_a_terminal_a_run_has_a_line_a_minute() -> None:
    assert lines_of(2, under(n=1_000, done=300, failed=2, cost_usd=0.5)) == [
        "medhelm: pubmed_qa with openai/m: 300 of 1,000 done, 2 failed, 5.0/s, 0.50 USD, 2 min 20 s left",
        "medhelm: pubmed_qa with openai/m: 300 of 1,000 done, 2 failed, 2.5/s, 0.50 USD, 4 min 40 s left",
    ]


def test_several_runs_share_the_line_of_a_minute() -> None:
    judged = under(done=60, jury=SimpleNamespace(failed=1))
    assert lines_of(1, judged, under(done=30)) == [
        "medhelm: 2 runs: 90 of 200 done, 1 judgment missing, 1.5/s, 0.00 USD, 2 min 20 s left"
    ]
    assert lines_of(3) == []


def test_without_a_terminal_a_short_run_prints_only_notes() -> None:
    stream = io.StringIO()
    with progress.MinuteLines(stream) as listener:
        listener.began(under())
        listener.note("waiting")
        listener.ended(under())
    assert stream.getvalue() == "medhelm: waiting\n"


def test_in_a_terminal_lines_come_and_stay(capsys: pytest.CaptureFixture[str]) -> None:
    run = under(done=100)
    with progress.Lines() as lines:
        lines.began(run)
        lines.note("a [bold]note[/bold]")
        lines.ended(run)
        lines.ended(under())  # nothing was asked: nothing to say
    err = capsys.readouterr().err
    assert "a [bold]note[/bold]" in err
    assert err.count("100/100") == 1
    assert "0/100 " not in err.replace("100/100", "")


def test_lines_are_for_terminals_and_quiet_prints_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    assert isinstance(progress.progress_listener(Shared()), progress.MinuteLines)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert isinstance(progress.progress_listener(Shared()), progress.Lines)
    with progress.progress_listener(Shared(quiet=True)) as listener:
        listener.note("waiting")
    assert "".join(capsys.readouterr()) == ""
