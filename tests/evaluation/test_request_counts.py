"""What is still to be asked, prompt by prompt: providers that misbehave, and what earlier prompts tell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from medhelm.analysis.cost import CompletionLength
from medhelm.benchmarks.data.dataset import Dataset, open_dataset
from medhelm.domain import Benchmark, Completion, Model, Request, Usage
from medhelm.errors import ProviderError
from medhelm.evaluation.plan import PendingCounter, PendingJudgeRequests, PendingModelRequests, PendingRequests
from medhelm.evaluation.settings import Settings
from medhelm.models.cache_reader import CacheReader
from medhelm.models.provider import Provider
from medhelm.scoring.jury.prompts import judge_prompts
from medhelm.storage.store import open_store
from tests.support.benchmarks.definitions import make_benchmark, write_rows
from tests.support.stores import Call, add_run, hosted_model

HERE = hosted_model("replay/here", base_url="")
REMOTE = hosted_model("openai/gpt-4o")
JUDGE = hosted_model("openai/judge-1")
RUBRIC = {"task": "You are a nurse. Grade the answer.", "criteria": {"accuracy": "Is it right?"}}
ROWS = [{"question": f"Question {n}?" * (n + 1), "answer": "yes" * (n + 1)} for n in range(4)]


class Speaks(Provider):
    """A provider within this process that returns what it is given."""

    local = True
    endpoint = ""

    def __init__(self, answer: Callable[[Request], Completion]) -> None:
        self._answer = answer

    async def complete(self, request: Request) -> Completion:
        return self._answer(request)


class Waits(Speaks):
    """One that waits, although it calls itself local."""

    async def complete(self, request: Request) -> Completion:
        await asyncio.sleep(0)
        return self._answer(request)


@pytest.fixture
def judged(tmp_path: Path) -> Benchmark:
    write_rows(tmp_path / "data" / "tiny" / "rows.jsonl", ROWS)
    return make_benchmark(tmp_path / "definitions", metrics=["jury"], rubric=RUBRIC, max_tokens=50)


def dataset(tmp_path: Path, benchmark: Benchmark) -> Dataset:
    return open_dataset(benchmark, data=tmp_path / "data", tier="real")


def count(
    tmp_path: Path,
    benchmark: Benchmark,
    models: Sequence[Model],
    local: dict[str, Provider] | None = None,
    *,
    judges: Sequence[Model] = (JUDGE,),
) -> PendingRequests:
    store = open_store(tmp_path / "store") if (tmp_path / "store").exists() else None
    with CacheReader(tmp_path / "store" / "cache.sqlite") as journal:
        survey = PendingCounter(models, judges, store, journal, Settings(), local or {})
        return survey.count(dataset(tmp_path, benchmark), judged=bool(judges))


def test_a_completion_that_is_not_known_is_judged_all_the_same(tmp_path: Path, judged: Benchmark) -> None:
    found = count(tmp_path, judged, [REMOTE])
    assert found.to_models == {
        REMOTE.name: PendingModelRequests(requests=4, cached=0, characters=sum(len(r["question"]) for r in ROWS))
    }
    blank = sum(
        len(ask.prompt.messages[0].text) for one in dataset(tmp_path, judged) for ask in judge_prompts(judged, one, "")
    )
    assert found.to_judges == {
        JUDGE.name: PendingJudgeRequests(requests=4, first=4, characters=blank, unknown={REMOTE.name: 4})
    }


def test_the_references_are_measured(tmp_path: Path, judged: Benchmark) -> None:
    found = count(tmp_path, judged, [REMOTE])
    assert found.references == CompletionLength((3 + 6 + 9 + 12) / 4 / 4 + 1, "the length of the references")
    assert PendingRequests({}, {}, {}).references is None


def test_what_a_local_model_answers_is_shown_to_judges(tmp_path: Path, judged: Benchmark) -> None:
    answers = iter(["a fine answer", " ", "another", None])

    def answer(_: Request) -> Completion:
        text = next(answers)
        if text is None:
            raise ProviderError("no_replay", "there is no line")
        return Completion(text=text)

    found = count(tmp_path, judged, [HERE], {HERE.name: Speaks(answer)})
    assert found.to_models == {HERE.name: PendingModelRequests()}
    instances = list(dataset(tmp_path, judged))
    shown = [(instances[0], "a fine answer"), (instances[2], "another")]
    characters = sum(
        len(ask.prompt.messages[0].text) for one, text in shown for ask in judge_prompts(judged, one, text)
    )
    assert found.to_judges == {JUDGE.name: PendingJudgeRequests(requests=2, first=2, characters=characters)}


def test_a_local_model_is_not_asked_where_nobody_judges(tmp_path: Path, judged: Benchmark) -> None:
    def answer(_: Request) -> Completion:
        raise AssertionError("asked")

    found = count(tmp_path, judged, [HERE], {HERE.name: Speaks(answer)}, judges=())
    assert (found.to_models, found.to_judges) == ({HERE.name: PendingModelRequests()}, {})


def test_a_provider_that_waits_is_no_local_one(tmp_path: Path, judged: Benchmark) -> None:
    with pytest.raises(RuntimeError, match="must not wait"):
        count(tmp_path, judged, [HERE], {HERE.name: Waits(lambda _: Completion(text="x"))})


def test_what_judges_read_before_tells_their_tokens(tmp_path: Path, judged: Benchmark) -> None:
    """Prompts of an earlier run are made again, from its completions, and set against what the provider counted."""
    texts = ["first", "second answer", "third", "fourth one"]
    instances = list(dataset(tmp_path, judged))
    sizes = [
        len(judge_prompts(judged, one, text)[0].prompt.messages[0].text)
        for one, text in zip(instances, texts, strict=True)
    ]
    put_run(tmp_path, judged.digest, texts, [3 * size for size in sizes])
    factor = count(tmp_path, judged, [REMOTE]).judge_token_ratio(JUDGE.name)
    assert factor is not None
    assert (factor.tokens_per_character, factor.error) == pytest.approx((3.0, 0.02))
    assert count(tmp_path, judged, [REMOTE]).judge_token_ratio("nobody") is None


@pytest.mark.parametrize(("digest", "prefix"), [("0" * 64, ""), ("", "gone")])
def test_another_version_and_instances_that_are_gone_tell_nothing(
    tmp_path: Path, judged: Benchmark, digest: str, prefix: str
) -> None:
    put_run(tmp_path, digest or judged.digest, ["a", "b", "c", "d"], [10, 20, 30, 40], prefix=prefix)
    assert count(tmp_path, judged, [REMOTE]).judge_token_ratio(JUDGE.name) is None


def put_run(
    tmp_path: Path, benchmark_digest: str, texts: Sequence[str], tokens: Sequence[int], *, prefix: str = ""
) -> None:
    """A run of this benchmark whose judge read so many tokens about each completion."""
    calls = [Call(f"c{n}", Usage(input=5, output=5), text=text) for n, text in enumerate(texts)]
    said = [[Call(f"s{n}", Usage(input=read, output=20))] for n, read in enumerate(tokens)]
    ids = [f"{prefix}{n}" for n in range(len(texts))]
    add_run(
        tmp_path / "store", "tiny", REMOTE, calls, judged=[(JUDGE, said)], benchmark_digest=benchmark_digest, ids=ids
    )
