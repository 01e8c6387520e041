"""What earlier runs tell of lengths, step by step down to the rule of thumb."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from medhelm.analysis.cost import UNKNOWN, CompletionLength
from medhelm.domain import Benchmark, Model, Usage
from medhelm.evaluation.context_window import RunHistory
from medhelm.storage.store import open_store
from tests.support.benchmarks.definitions import make_benchmark
from tests.support.stores import Call, add_run, hosted_model

GPT, GPT_MINI = hosted_model("openai/gpt-4o"), hosted_model("openai/gpt-4o-mini")
CLAUDE = hosted_model("anthropic/claude-3-7-sonnet")
O3, O4 = hosted_model("openai/o3", reasoning=True), hosted_model("openai/o4-mini", reasoning=True)
JUDGE, OTHER_JUDGE = hosted_model("openai/judge-1"), hosted_model("openai/judge-2")
REFERENCES = CompletionLength(33.0, "the length of the references")


@pytest.fixture
def benchmark(tmp_path: Path) -> Benchmark:
    return make_benchmark(tmp_path / "definitions")


def with_run(
    tmp_path: Path,
    name: str,
    asked: Model,
    *,
    ratio: float = 0.5,
    written: int = 10,
    hidden: int = 0,
    day: int = 1,
    judged: Sequence[tuple[Model, Sequence[Sequence[Call]]]] = (),
) -> RunHistory:
    """Add a run of four prompts of 100 to 400 characters; return the history of the store."""
    sizes = [100, 200, 300, 400]
    usages = [Usage(input=round(size * ratio), output=written, reasoning=hidden) for size in sizes]
    calls = [Call(f"{name} {asked.name} {day} {place}", usage) for place, usage in enumerate(usages)]
    started, prompts = f"2026-01-{day:02}T00:00:00+00:00", ["x" * size for size in sizes]
    add_run(tmp_path / "store", name, asked, calls, judged=judged, started=started, prompts=prompts)
    return RunHistory(open_store(tmp_path / "store"))


def said(output: int, *, again: int = 0, read: int = 50) -> list[list[Call]]:
    """A judge's replies about four completions, of which the first `again` were asked for twice."""
    first = [Call(f"first {output} {place}", Usage(input=read, output=output)) for place in range(4)]
    second = [Call(f"second {output} {place}", Usage(input=read, output=9), attempt=1) for place in range(again)]
    return [first[place : place + 1] + second[place : place + 1] for place in range(4)]


def test_the_ratio_is_that_of_the_nearest_run(tmp_path: Path, benchmark: Benchmark) -> None:
    family, own = "other models of its family (OpenAI)", "its runs of other benchmarks"
    for name, asked, ratio, expected, basis in (
        ("elsewhere", CLAUDE, 0.9, UNKNOWN.tokens_per_character, UNKNOWN.basis),
        ("tiny", GPT, 0.0, UNKNOWN.tokens_per_character, UNKNOWN.basis),  # tokens that nobody counted
        ("elsewhere", GPT_MINI, 0.3, 0.3, family),
        ("tiny", GPT_MINI, 0.4, 0.4, family),  # those on this benchmark go before others
        ("elsewhere", GPT, 0.2, 0.2, own),
        ("third", GPT, 0.6, 0.4, own),
        ("tiny", GPT, 0.25, 0.25, "its own run of this benchmark"),
    ):
        found = with_run(tmp_path, name, asked, ratio=ratio).ratio(GPT, benchmark)
        assert found.basis == basis
        assert found.tokens_per_character == pytest.approx(expected)
    assert found.error == pytest.approx(0.02)


def test_verdicts_are_as_long_as_those_of_the_nearest_jury(tmp_path: Path, benchmark: Benchmark) -> None:
    for name, asked, judge, replies, expected in (
        ("elsewhere", CLAUDE, JUDGE, said(120, read=0), CompletionLength(180, "60 tokens for each criterion")),
        ("tiny", GPT, OTHER_JUDGE, said(120), CompletionLength(120, "other judges on this benchmark")),
        ("elsewhere", GPT, JUDGE, said(90, again=1), CompletionLength(90, "its judgments elsewhere", again=0.25)),
        (
            "tiny",
            CLAUDE,
            JUDGE,
            said(70, again=2),
            CompletionLength(70, "its own judgments on this benchmark", again=0.5),
        ),
    ):
        history = with_run(tmp_path, name, asked, judged=[(judge, replies)])
        assert history.judge_completion_length(JUDGE, benchmark, 3, 4096) == expected
    assert history.judge_completion_length(JUDGE, benchmark, 3, 50).tokens == 50
    for file in (tmp_path / "store" / "prompts").iterdir():
        file.unlink()
    assert RunHistory(open_store(tmp_path / "store")).ratio(GPT, benchmark) == UNKNOWN


def test_output_is_as_long_as_in_the_nearest_run(tmp_path: Path, benchmark: Benchmark) -> None:
    others = "other models that do not reason on this benchmark"
    for name, asked, written, hidden, expected in (
        ("elsewhere", GPT, 77, 0, REFERENCES),
        ("tiny", O3, 3000, 2400, REFERENCES),
        ("tiny", CLAUDE, 20, 0, CompletionLength(20, others)),
        ("tiny", GPT_MINI, 60, 0, CompletionLength(40, others)),
        ("tiny", GPT, 15, 0, CompletionLength(15, "its own run of this benchmark")),
    ):
        history = with_run(tmp_path, name, asked, written=written, hidden=hidden)
        assert history.completion_length(GPT, benchmark, 100, REFERENCES) == expected
    history = with_run(tmp_path, "tiny", GPT, written=18, day=2)
    assert [history.completion_length(GPT, benchmark, limit, REFERENCES).tokens for limit in (100, 12)] == [18, 12]


def test_output_of_models_that_reason(tmp_path: Path, benchmark: Benchmark) -> None:
    for name, asked, written, hidden, expected in (
        ("tiny", GPT, 15, 0, CompletionLength(1200, "30% of the limit", hidden=0.75)),
        ("elsewhere", O3, 900, 720, CompletionLength(900, "its runs of other benchmarks", hidden=0.8)),
        ("tiny", O4, 2000, 1000, CompletionLength(2000, "other models that reason on this benchmark", hidden=0.5)),
    ):
        history = with_run(tmp_path, name, asked, written=written, hidden=hidden)
        assert history.completion_length(O3, benchmark, 4000, REFERENCES) == expected
