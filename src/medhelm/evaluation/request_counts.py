"""Count the requests of an evaluation that the cache has no completion for. Nothing is sent.

If a completion is known, from the cache or from a provider within this process, the requests to its judges are made and
looked up as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from medhelm.analysis.cost.token_estimates import CompletionLength, TokenRatio, learn_token_ratio
from medhelm.benchmarks.data.dataset import Dataset
from medhelm.benchmarks.prompts import render
from medhelm.domain import Benchmark, Completion, Failure, Instance, Model, Request, Rubric
from medhelm.errors import ProviderError
from medhelm.evaluation.context_window.fit import ContextFitter
from medhelm.evaluation.context_window.token_ratios import SEEN, RunHistory, TokenEstimator, judge_in
from medhelm.evaluation.context_window.truncate import n_characters
from medhelm.evaluation.fresh_runs import FreshRuns
from medhelm.evaluation.requests import (
    JudgeRequest,
    judge_requests,
    model_request,
    second_judge_request,
    temperature_of,
)
from medhelm.models.cache_reader import CacheReader
from medhelm.models.provider import Provider
from medhelm.scoring.jury.aggregation import is_judged, shown_texts
from medhelm.scoring.jury.parsing import parse_judgments, retry_reason
from medhelm.scoring.jury.prompts import judge_prompts
from medhelm.storage.runs import read_columns
from medhelm.storage.token_usage import read_sent_to_judge


@dataclass(slots=True)
class PendingModelRequests:
    """The requests to one model on one benchmark."""

    requests: int = 0
    """All requests."""
    cached: int = 0
    """Requests in the cache, or equal to another one of the benchmark."""
    duplicate: int = 0
    """Of these, requests that are not in the cache but equal to another one."""
    waiting: int = 0
    """Requests in batches that are not collected yet."""
    characters: int = 0
    """Characters of the prompts that are still to be sent."""
    truncated: int = 0
    """Prompts that are truncated to fit the context window."""
    unfit: int = 0
    """Instances without a request, because their prompts do not fit and may not be truncated."""


@dataclass(slots=True)
class PendingJudgeRequests:
    """The requests to one judge on one benchmark."""

    requests: int = 0
    """All requests, including second ones after completions that are known and cannot be parsed."""
    cached: int = 0
    """Requests in the cache."""
    waiting: int = 0
    """First requests in batches that are not collected yet."""
    first: int = 0
    """First requests that are still to be sent."""
    second: int = 0
    """Second requests that are known to be sent."""
    characters: int = 0
    """Characters of the prompts that are still to be sent, without completions that are unknown yet."""
    unknown: dict[str, int] = field(default_factory=dict)
    """Model -> prompts to be sent that will contain an unknown completion of this model."""
    unfit: int = 0
    """Prompts that are not sent, because they do not fit; not counted as requests."""


@dataclass(slots=True)
class JudgeTokenSample:
    """Prompts of a judge in an earlier run, and the tokens that the provider counted for them."""

    texts: Mapping[str, str]
    """Instance -> completion."""
    tokens: Mapping[tuple[str, int], int]
    """Instance and part -> input tokens."""
    characters: list[int] = field(default_factory=list)
    counted: list[int] = field(default_factory=list)

    def learn(self, benchmark: Benchmark, instance: Instance) -> None:
        """Recreate the prompts about one instance and keep their lengths."""
        text = self.texts.get(instance.id)
        if text is None or (instance.id, 0) not in self.tokens:
            return
        for ask in judge_prompts(benchmark, instance, text):
            if (tokens := self.tokens.get((instance.id, ask.part))) is not None:
                self.characters.append(n_characters(ask.prompt))
                self.counted.append(tokens)


@dataclass(slots=True)
class PendingRequests:
    """The requests of all models and judges on one benchmark."""

    to_models: dict[str, PendingModelRequests]
    """Model -> its requests."""
    to_judges: dict[str, PendingJudgeRequests]
    """Judge -> its requests; empty without judges."""
    token_samples: dict[str, JudgeTokenSample]
    """Judge -> its prompts in an earlier run."""
    n_references: int = 0
    """Number of instances with a reference."""
    reference_characters: int = 0
    """Characters of these references."""

    @property
    def references(self) -> CompletionLength | None:
        """Mean length of the references; None if there are none."""
        if not self.n_references:
            return None
        return CompletionLength(self.reference_characters / self.n_references / 4 + 1, "the length of the references")

    def judge_token_ratio(self, judge: str) -> TokenRatio | None:
        """Return the input tokens per character of a judge in an earlier run; None if there is none."""
        sample = self.token_samples.get(judge)
        return (
            learn_token_ratio(sample.characters, sample.counted, "its own judgments on this benchmark")
            if sample
            else None
        )


class PendingCounter:
    """Counts the requests on one benchmark after the other."""

    def __init__(
        self,
        models: Sequence[Model],
        judges: Sequence[Model],
        cache: CacheReader,
        history: RunHistory,
        local: Mapping[str, Provider],
        waiting: Collection[bytes] = (),
        fresh: Callable[[Dataset], FreshRuns] = lambda _: FreshRuns(None, {}),
        *,
        with_codes: bool = True,
    ) -> None:
        """Count requests to `models` and `judges`.

        `local`: model -> its provider, for those within this process. `waiting`: digests of requests in batches.
        `fresh`: data set -> the fresh runs on it. `with_codes`: False if judges are asked for no verification codes.
        """
        self._waiting = frozenset(waiting)
        self._models, self._judges = models, judges
        self._fresh_runs = fresh
        self._judge_requests = partial(judge_requests, with_codes=with_codes)
        self._cache, self._history, self._local = cache, history, local
        self._is_empty = cache.is_empty
        self._fitter, self._judge_fitter = (
            ContextFitter(TokenEstimator(lambda: history), self._is_known) for _ in range(2)
        )

    def _is_known(self, request: Request) -> bool:
        """Return whether a request was bought or is in a batch."""
        return self._is_waiting(request) or self._completion(request) is not None

    def count(self, dataset: Dataset, *, judged: bool) -> PendingRequests:
        """Count the requests on one benchmark. `judged`: its completions go to the judges."""
        benchmark, judges = dataset.benchmark, self._judges if judged else ()
        found = PendingRequests(
            to_models={model.name: PendingModelRequests() for model in self._models},
            to_judges={judge.name: PendingJudgeRequests() for judge in judges},
            token_samples={judge.name: sample for judge in judges if (sample := self._token_sample(judge, benchmark))},
        )
        for provider in self._local.values() if judged else ():
            provider.prepare(benchmark.name, dataset)
        seen: set[int] = set()  # not the prompts themselves: some benchmarks have hundreds of megabytes of them
        fresh = self._fresh_runs(dataset)
        starts = {model.name: fresh.start_of(model, dataset) for model in self._models}
        for instance in dataset.to_evaluate():
            prompt = render(benchmark, instance)
            self._add_reference(found, instance)
            for sample in found.token_samples.values():
                sample.learn(benchmark, instance)
            blank = list(self._judge_requests(benchmark, judges, instance, "")) if judges else []
            for model in self._models:
                request = model_request(
                    benchmark, model, instance, prompt, temperature_of(dataset, model), fresh=starts[model.name]
                )
                completion = self._count_one(found.to_models[model.name], request, benchmark, seen, judged=judged)
                if completion is None:
                    self._expect(found, model, benchmark, blank)
                elif judged and is_judged(completion):
                    self._look_up(found, benchmark, instance, completion.text or "")
            seen.add(hash(prompt))
        return found

    def _add_reference(self, found: PendingRequests, instance: Instance) -> None:
        if instance.expected:
            found.n_references += 1
            found.reference_characters += len(instance.expected)

    def _count_one(
        self,
        count: PendingModelRequests,
        request: Request,
        benchmark: Benchmark,
        seen: Collection[int],
        *,
        judged: bool,
    ) -> Completion | None:
        """Count one request to a model; return its completion if it is known."""
        if provider := self._local.get(request.model.name):
            return complete_locally(provider, request) if judged else Completion(text="")
        fit = self._fitter.fit(request, benchmark)
        if fit.failure:
            count.unfit += 1
            return Completion(failure=fit.failure)
        count.requests += 1
        count.truncated += fit.left_out > 0
        known = self._completion(fit.request)
        if known is not None or hash(request.prompt) in seen:
            count.cached += 1
            count.duplicate += known is None
        else:
            count.characters += n_characters(fit.request.prompt)
            count.waiting += self._is_waiting(fit.request)
        return known

    def _is_waiting(self, request: Request) -> bool:
        return bool(self._waiting) and request.digest in self._waiting

    def _expect(
        self, found: PendingRequests, model: Model, benchmark: Benchmark, blank: Sequence[JudgeRequest]
    ) -> None:
        """Count the judge requests about a completion that is not known yet."""
        for _, request in blank:
            count = found.to_judges[request.model.name]
            if self._judge_fitter.unfit(request, benchmark):
                count.unfit += 1
                continue
            count.requests += 1
            count.first += 1
            count.characters += n_characters(request.prompt)
            count.unknown[model.name] = count.unknown.get(model.name, 0) + 1

    def _look_up(self, found: PendingRequests, benchmark: Benchmark, instance: Instance, text: str) -> None:
        """Count the judge requests about a known completion."""
        if rubric := benchmark.rubric:
            shown = shown_texts(instance, text)
            for first in self._judge_requests(benchmark, self._judges, instance, text, self._is_known):
                self._look_up_one(found.to_judges[first.request.model.name], benchmark, rubric, shown, first)

    def _look_up_one(
        self,
        count: PendingJudgeRequests,
        benchmark: Benchmark,
        rubric: Rubric,
        shown: Sequence[str],
        first: JudgeRequest,
    ) -> None:
        """Count one judge request, and a second one if the completion of the first is known and cannot be parsed."""
        prompt, request = first
        completion = self._completion(request)
        if completion is None and self._judge_fitter.unfit(request, benchmark):
            count.unfit += 1
            return
        count.requests += 1
        if completion is None:
            count.first += 1
            count.characters += n_characters(request.prompt)
            count.waiting += self._is_waiting(request)
            return
        count.cached += 1
        judgments = parse_judgments(
            request.model.name, prompt.criteria, completion, rubric=rubric, shown=shown, code=prompt.verification_code
        )
        if not (problem := retry_reason(judgments)):
            return
        second = second_judge_request(first, completion.text or "", problem)
        if self._completion(second) is not None:
            count.requests += 1
            count.cached += 1
        elif not self._judge_fitter.unfit(second, benchmark):
            count.requests += 1
            count.second += 1
            count.characters += n_characters(second.prompt)

    def _completion(self, request: Request) -> Completion | None:
        """Return the completion of a request if it was bought before."""
        known = None if self._is_empty else self._cache.find(request)
        return known.completion if known else None

    def _token_sample(self, judge: Model, benchmark: Benchmark) -> JudgeTokenSample | None:
        """Return the prompts of the judge in the latest run of the benchmark in its current definition."""
        for run in self._history.judged:
            if (run.benchmark, run.benchmark_digest) != (benchmark.name, benchmark.digest):
                continue
            if not (name := judge_in(run, judge)) or not (sent := read_sent_to_judge(run, name, SEEN)):
                continue
            columns = read_columns(run, ["instance_id", "completion"])
            texts = dict(zip(columns["instance_id"], columns["completion"], strict=True))
            return JudgeTokenSample(
                {one.instance_id: texts.get(one.instance_id) or "" for one in sent},
                {(one.instance_id, one.part): one.tokens for one in sent},
            )
        return None


def complete_locally(provider: Provider, request: Request) -> Completion:
    """Return the completion of a provider within this process, which never waits for anything."""
    coroutine = provider.complete(request)
    try:
        coroutine.send(None)
    except StopIteration as done:
        completion: Completion = done.value
        return completion
    except ProviderError as error:
        return Completion(failure=Failure("provider", error.code, str(error)))
    raise RuntimeError("a provider within this process must not wait")
