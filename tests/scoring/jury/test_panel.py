"""Judges that are asked several times about one completion read its beginning once at the full price."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.domain import Benchmark, Completion, Jury, Model, Price, Request
from medhelm.models.client import ClientResult
from medhelm.models.provider import Provider
from medhelm.models.providers.baseline import Baseline
from medhelm.scoring.jury.panel import JudgePanel
from medhelm.scoring.metric import MAX_CHARACTERS
from medhelm.scoring.metrics import METRIC_NAMES

CACHES = Price(input=3.0, cached_input=0.3, cache_write=3.75, output=15.0)
LONG = "Please see a clinician about this. " * 200


def sent(judge: Model, text: str) -> list[Request]:
    """The requests about one completion, each of which the judge answers with nothing of use: so it is asked again."""
    (benchmark,) = load_benchmarks(["healthbench"], metrics=METRIC_NAMES)
    instance = next(iter(open_dataset(benchmark, data=None, tier="sample")))
    found: list[Request] = []

    async def ask(provider: Provider, request: Request, benchmark: Benchmark) -> ClientResult:
        found.append(request)
        return ClientResult(Completion(text="well"), False, 1, 0.0)

    jury = Jury(judges=(judge,), min_judges=1)
    panel = JudgePanel(jury, {judge.name: Baseline("random", seed=0)}, ask)
    judgment = asyncio.run(panel.judge("lab/m", benchmark, instance, Completion(text=text)))
    assert found or all(score.value is None and score.failure for score in judgment.verdict.scores)
    return found


def judge(price: Price | None) -> Model:
    return Model(name="lab/judge", provider="lab", remote_name="judge", price=price)


def test_the_shared_prefix_of_all_prompts_is_marked() -> None:
    asked = sent(judge(CACHES), LONG)
    assert len(asked) > 2
    first = [request for request in asked if request.shared_characters]
    assert len(first) == len(asked) / 2, "second tries have a beginning of their own"
    assert len({request.shared_prefix for request in first}) == 1
    assert LONG.strip() in first[0].shared_prefix
    texts = {"".join(message.text for message in request.prompt.messages) for request in first}
    assert len(texts) == len(first)


@pytest.mark.parametrize(
    ("price", "text"), [(None, LONG), (replace(CACHES, cached_input=None), LONG), (CACHES, "See a clinician.")]
)
def test_no_shared_prefix_is_marked_if_it_saves_nothing(price: Price | None, text: str) -> None:
    asked = sent(judge(price), text)
    assert asked
    assert not any(request.shared_characters for request in asked)


def test_a_completion_that_is_too_long_to_score_is_not_sent_to_judges() -> None:
    assert sent(judge(CACHES), "a" * (MAX_CHARACTERS + 1)) == []
