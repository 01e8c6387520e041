"""What earlier runs tell of lengths, step by step down to the rule of thumb."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from medhelm.analysis.cost import UNKNOWN, CompletionLength
from medhelm.domain import Benchmark, Model, Usage
from medhelm.evaluation.context import RunHistory, is_same
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


def ran(
    tmp_path: Path,
    name: str,
    asked: Model,
    *,
    tokens_per_character: float = 0.5,
    written: int = 10,
    hidden: int = 0,
    day: int = 1,
    n: int = 4,
    judged: Sequence[tuple[Model, Sequence[Sequence[Call]]]] = (),
) -> None:
    """A run of `n` prompts of 100, 200, ... characters."""
    sizes = [100 * (place + 1) for place in range(n)]
    calls = [
        Call(
            f"{name} {asked.name} {day} {size}",
            Usage(input=round(size * tokens_per_character), output=written, reasoning=hidden),
        )
        for size in sizes
    ]
    add_run(
        tmp_path / "store",
        name,
        asked,
        calls,
        judged=judged,
        started=f"2026-01-{day:02}T00:00:00+00:00",
        prompts=["x" * size for size in sizes],
    )


def said(n: int, output: int, *, again: int = 0, read: int = 50) -> list[list[Call]]:
    """A judge's replies about `n` completions, of which some were asked for twice."""
    return [
        [
            Call(f"first {output} {place}", Usage(input=read, output=output)),
            *([Call(f"second {output} {place}", Usage(input=read, output=9), attempt=1)] if place < again else []),
        ]
        for place in range(n)
    ]


def history(tmp_path: Path) -> RunHistory:
    return RunHistory(open_store(tmp_path / "store"))


def test_without_a_store_there_is_a_rule_of_thumb(benchmark: Benchmark) -> None:
    nothing = RunHistory(None)
    assert nothing.ratio(GPT, benchmark) == UNKNOWN
    assert nothing.judge_completion_length(JUDGE, benchmark, 3, 4096) == CompletionLength(
        180, "60 tokens for each criterion"
    )
    assert nothing.completion_length(GPT, benchmark, 100, None) == CompletionLength(50, "50% of the limit")
    assert nothing.judge_completion_length(O3, benchmark, 3, 8192) == CompletionLength(0.3 * 8192, "30% of the limit")
    for limit, expected in ((1, 1), (16, 16), (17, 17), (200, 33)):
        assert nothing.completion_length(GPT, benchmark, limit, REFERENCES).tokens == expected


def test_the_factor_from_the_nearest_run_to_the_rule_of_thumb(tmp_path: Path, benchmark: Benchmark) -> None:
    ran(tmp_path, "elsewhere", CLAUDE, tokens_per_character=0.9)
    assert history(tmp_path).ratio(GPT, benchmark) == UNKNOWN
    ran(tmp_path, "elsewhere", GPT_MINI, tokens_per_character=0.3)
    found = history(tmp_path).ratio(GPT, benchmark)
    assert (found.tokens_per_character, found.error) == pytest.approx((0.3, 0.25))
    assert found.basis == "other models of its family (OpenAI)"
    ran(tmp_path, "tiny", GPT_MINI, tokens_per_character=0.4)
    found = history(tmp_path).ratio(GPT, benchmark)
    assert found.tokens_per_character == pytest.approx(0.4)  # those on this benchmark go before others
    ran(tmp_path, "elsewhere", GPT, tokens_per_character=0.2)
    ran(tmp_path, "third", GPT, tokens_per_character=0.6)
    found = history(tmp_path).ratio(GPT, benchmark)
    assert (found.tokens_per_character, found.error) == pytest.approx((0.4, 0.5))
    assert found.basis == "its runs of other benchmarks"
    ran(tmp_path, "tiny", GPT, tokens_per_character=0.25)
    found = history(tmp_path).ratio(GPT, benchmark)
    assert (found.tokens_per_character, found.error) == pytest.approx((0.25, 0.02))
    assert found.basis == "its own run of this benchmark"


def test_runs_that_nobody_counted_or_whose_prompts_are_gone_tell_nothing(tmp_path: Path, benchmark: Benchmark) -> None:
    ran(tmp_path, "tiny", GPT, tokens_per_character=0.0)
    ran(tmp_path, "tiny", hosted_model("baseline/majority", base_url=""))
    assert history(tmp_path).runs == []
    ran(tmp_path, "tiny", GPT, judged=[(JUDGE, said(4, 120, read=0))], day=2)
    for file in (tmp_path / "store" / "prompts").iterdir():
        file.unlink()
    assert history(tmp_path).ratio(GPT, benchmark) == UNKNOWN
    found = history(tmp_path).judge_completion_length(JUDGE, benchmark, 2, 4096)
    assert found == CompletionLength(120, "60 tokens for each criterion")


def test_output_from_the_nearest_run_to_the_rule_of_thumb(tmp_path: Path, benchmark: Benchmark) -> None:
    ran(tmp_path, "elsewhere", GPT, written=77)
    assert history(tmp_path).completion_length(GPT, benchmark, 100, REFERENCES) == REFERENCES
    ran(tmp_path, "tiny", O3, written=3000, hidden=2400)
    assert history(tmp_path).completion_length(GPT, benchmark, 100, REFERENCES) == REFERENCES
    for day, (one, written) in enumerate([(CLAUDE, 20), (GPT_MINI, 60), (hosted_model("openai/gpt-4.1"), 40)], start=1):
        ran(tmp_path, "tiny", one, written=written, day=day)
    found = history(tmp_path).completion_length(GPT, benchmark, 100, REFERENCES)
    assert found == CompletionLength(40, "other models that do not reason on this benchmark")
    ran(tmp_path, "tiny", GPT, written=15, day=1)
    ran(tmp_path, "tiny", GPT, written=18, day=2)
    found = history(tmp_path).completion_length(GPT, benchmark, 100, REFERENCES)
    assert found == CompletionLength(18, "its own run of this benchmark")
    assert history(tmp_path).completion_length(GPT, benchmark, 12, REFERENCES).tokens == 12


def test_output_of_models_that_reason(tmp_path: Path, benchmark: Benchmark) -> None:
    ran(tmp_path, "tiny", GPT, written=15)
    found = history(tmp_path).completion_length(O3, benchmark, 4000, REFERENCES)
    assert found == CompletionLength(1200, "30% of the limit", hidden=0.75)
    ran(tmp_path, "elsewhere", O3, written=900, hidden=720)
    found = history(tmp_path).completion_length(O3, benchmark, 4000, REFERENCES)
    assert found == CompletionLength(900, "its runs of other benchmarks", hidden=0.8)
    ran(tmp_path, "tiny", O4, written=2000, hidden=1000)
    found = history(tmp_path).completion_length(O3, benchmark, 4000, REFERENCES)
    assert found == CompletionLength(2000, "other models that reason on this benchmark", hidden=0.5)


def test_verdicts_from_the_nearest_jury_to_the_rule_of_thumb(tmp_path: Path, benchmark: Benchmark) -> None:
    ran(tmp_path, "tiny", GPT, judged=[(OTHER_JUDGE, said(4, 120))])
    found = history(tmp_path).judge_completion_length(JUDGE, benchmark, 3, 4096)
    assert found == CompletionLength(120, "other judges on this benchmark")
    ran(tmp_path, "elsewhere", GPT, judged=[(JUDGE, said(4, 90, again=1))])
    found = history(tmp_path).judge_completion_length(JUDGE, benchmark, 3, 4096)
    assert found == CompletionLength(90, "its judgments elsewhere", again=0.25)
    ran(tmp_path, "tiny", CLAUDE, judged=[(JUDGE, said(4, 70, again=2))])
    found = history(tmp_path).judge_completion_length(JUDGE, benchmark, 3, 4096)
    assert found == CompletionLength(70, "its own judgments on this benchmark", again=0.5)
    assert history(tmp_path).judge_completion_length(JUDGE, benchmark, 3, 50).tokens == 50


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("openai/gpt-4o", "azure/gpt-4o", True),
        ("openai/meta-llama/Llama-3.3-70B-Instruct", "openai/llama-3.3-70b-instruct", True),
        ("openai/gpt-4o", "openai/gpt-4o-mini", False),
    ],
)
def test_a_model_is_the_same_wherever_it_is_reached(one: str, other: str, same: bool) -> None:
    assert is_same(hosted_model(one), hosted_model(other)) is same
    assert not is_same(None, hosted_model(one))
