"""What a person sees while work is under way."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from medhelm.cli import output as progress
from medhelm.cli.global_options import Shared
from medhelm.domain import Usage
from medhelm.storage.live_status import ServerProgress


@dataclass
class Named:
    name: str


@dataclass
class Under:
    """What the display reads of a run under way."""

    benchmark: Named = field(default_factory=lambda: Named("pubmed_qa"))
    model: Named = field(default_factory=lambda: Named("openai/m"))
    n: int = 100
    done: int = 0
    failed: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    run: object | None = None
    started: float = 0.0
    jury: object | None = None


def line(elapsed_s: float, **changes: Any) -> tuple[str, ...]:
    return progress.describe(Under(**changes), elapsed_s)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "elapsed_s", "expected"),
    [
        ({}, 0.0, ("░" * 16, "0/100", "", "0.0/s", "", "0.00 USD", "? left")),
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
        (
            {"done": 20, "failed": 2, "jury": SimpleNamespace(failed=3)},
            100.0,
            ("█" * 3 + "░" * 13, "20/100", "2 failed, 3 judgments missing", "0.2/s", "", "0.00 USD", "6 min 40 s left"),
        ),
        ({"done": 100, "run": object()}, 2.0, ("█" * 16, "100/100", "", "50/s", "", "0.00 USD", "")),
    ],
    ids=["begun", "half", "failures and cost", "unknown price", "judgments", "ended"],
)
def test_a_line_tells_done_failed_rate_tokens_cost_and_time_left(
    changes: dict[str, Any], elapsed_s: float, expected: tuple[str, ...]
) -> None:
    assert line(elapsed_s, **changes) == ("pubmed_qa", "openai/m", *expected)


def test_a_run_without_instances_has_a_full_bar() -> None:
    assert line(1.0, n=0)[2] == "█" * 16


def minutes(n: int, clock: list[float]) -> Callable[[float], bool]:
    """Return a wait that moves the clock on, and ends the work after `n` waits."""

    def wait(seconds: float) -> bool:
        clock[0] += seconds
        return clock[0] > n * seconds

    return wait


def lines_of(n_minutes: int, *running: Under, pools: Any = ()) -> list[str]:
    stream, clock = io.StringIO(), [0.0]
    listener = progress.MinuteLines(stream, clock=lambda: clock[0], wait=minutes(n_minutes, clock))
    listener.watch(pools)
    for run in running:
        listener.began(run)  # type: ignore[arg-type]
    with listener:
        pass
    return stream.getvalue().splitlines()


def test_without_a_terminal_a_run_has_a_line_a_minute() -> None:
    assert lines_of(2, Under(n=1_000, done=300, failed=2, cost_usd=0.5)) == [
        "medhelm: pubmed_qa with openai/m: 300 of 1,000 done, 2 failed, 5.0/s, 0.50 USD, 2 min 20 s left",
        "medhelm: pubmed_qa with openai/m: 300 of 1,000 done, 2 failed, 2.5/s, 0.50 USD, 4 min 40 s left",
    ]


def test_several_runs_share_the_line_of_a_minute() -> None:
    judged = Under(done=60, jury=SimpleNamespace(failed=1))
    assert lines_of(1, judged, Under(done=30)) == [
        "medhelm: 2 runs: 90 of 200 done, 1 judgment missing, 1.5/s, 0.00 USD, 2 min 20 s left"
    ]
    assert lines_of(1, judged, Under(cost_usd=None)) == [
        "medhelm: 2 runs: 60 of 200 done, 1 judgment missing, 1.0/s, cost ?, ? left"
    ]


def test_without_a_terminal_a_short_run_prints_only_notes() -> None:
    stream = io.StringIO()
    with progress.MinuteLines(stream) as listener:
        listener.began(Under())  # type: ignore[arg-type]
        listener.note("waiting")
        listener.ended(Under())  # type: ignore[arg-type]
    assert stream.getvalue() == "medhelm: waiting\n"


def server(address: str, *, state: str = "ready", in_flight: int = 12, done: int = 1234) -> ServerProgress:
    return ServerProgress(model="m", address=address, state=state, in_flight=in_flight, limit=64, done=done)


def test_each_server_of_a_pool_has_a_line() -> None:
    servers = [server("http://a:8000/v1"), server("http://b:8000/v1", state="lost", in_flight=0, done=7)]
    pools = [SimpleNamespace(progress=lambda: servers)]
    assert lines_of(1, Under(done=50), pools=pools)[1:] == [
        "medhelm: http://a:8000/v1: ready, 12 of 64 in flight, 1,234 done",
        "medhelm: http://b:8000/v1: lost, 7 done",
    ]
    with progress.Lines(color=False) as lines:
        lines.watch(pools)  # type: ignore[arg-type]
        lines._console.print(lines._table())


def test_runs_that_ended_have_no_line() -> None:
    assert lines_of(3) == []


def test_quiet_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.progress_listener(Shared(quiet=True)) as listener:
        listener.note("waiting")
    assert "".join(capsys.readouterr()) == ""


def test_in_a_terminal_lines_come_and_stay(capsys: pytest.CaptureFixture[str]) -> None:
    run = Under(done=100)
    with progress.Lines() as lines:
        lines.began(run)  # type: ignore[arg-type]
        lines.note("a [bold]note[/bold]")
        lines.ended(run)  # type: ignore[arg-type]
        lines.ended(Under())  # type: ignore[arg-type]  # nothing was asked: nothing to say
    err = capsys.readouterr().err
    assert "a [bold]note[/bold]" in err
    assert err.count("100/100") == 1
    assert "0/100 " not in err.replace("100/100", "")


def test_lines_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    assert isinstance(progress.progress_listener(Shared()), progress.MinuteLines)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert isinstance(progress.progress_listener(Shared()), progress.Lines)
