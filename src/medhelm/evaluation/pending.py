"""What an evaluation still has to ask: every prompt of a benchmark held against what was bought before.

Nothing is sent. Where a completion is known, from the cache or because the model answers within this process, its
judges' prompts are made as they would be, and looked up as well.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from medhelm.analysis.cost.plan import CompletionLength, TokenRatio, learn_token_ratio
from medhelm.benchmarks.data.dataset import Dataset
from medhelm.benchmarks.prompts import render
from medhelm.domain import Benchmark, Completion, Failure, Instance, Model, Prompt, Request
from medhelm.errors import ProviderError
from medhelm.evaluation.context_window.fit import ContextFitter
from medhelm.evaluation.context_window.token_ratios import SEEN, RunHistory, TokenEstimator, judge_in
from medhelm.evaluation.context_window.truncate import n_characters
from medhelm.evaluation.requests import (
    JudgeRequest,
    judge_requests,
    model_request,
    second_judge_request,
    temperature_of,
)
from medhelm.models.cache_reader import CacheReader
from medhelm.models.provider import Provider
from medhelm.scoring.jury.aggregation import is_blank, shown_texts
from medhelm.scoring.jury.parsing import parse_judgments, retry_reason
from medhelm.scoring.jury.prompts import judge_prompts
from medhelm.storage.lengths import read_sent_to_judge
from medhelm.storage.runs import read_columns


@dataclass(slots=True)
class ModelRequests:
    """What one model still has to be asked on one benchmark."""

    requests: int = 0
    """Requests in all."""
    cached: int = 0
    """Answered already, or twice the same within the benchmark."""
    waiting: int = 0
    """Handed over to a batch API before, and not collected yet."""
    characters: int = 0
    """Of the prompts that are still to be sent."""
    shortened: int = 0
    """Prompts that are shortened, because they would not fit."""
    unfit: int = 0
    """Instances that are not asked, because they do not fit and may not be shortened."""


@dataclass(slots=True)
class JudgeRequests:
    """What one judge still has to be asked on one benchmark."""

    requests: int = 0
    """Requests in all, a second try where the first reply is known to be of no use."""
    cached: int = 0
    """Answered already."""
    waiting: int = 0
    """Handed over to a batch API before, and not collected yet; among the first tries."""
    first: int = 0
    """First tries that are still to be sent."""
    second: int = 0
    """Second tries of which that is known."""
    characters: int = 0
    """Of the prompts that are still to be sent, without completions that are not known yet."""
    unknown: dict[str, int] = field(default_factory=dict)
    """Model -> prompts to be sent that will hold a completion of its that is not known yet."""
    unfit: int = 0
    """Prompts that are not sent, because they do not fit; not among the requests."""


@dataclass(slots=True)
class JudgeTokenSample:
    """An earlier run that a judge graded: what its prompts were, and how many tokens the provider counted."""

    texts: Mapping[str, str]
    """Instance -> completion."""
    tokens: Mapping[tuple[str, int], int]
    """Instance and part -> input tokens."""
    characters: list[int] = field(default_factory=list)
    counted: list[int] = field(default_factory=list)

    def learn(self, benchmark: Benchmark, instance: Instance) -> None:
        """Make the prompts about one instance again and keep their lengths."""
        text = self.texts.get(instance.id)
        if text is None or (instance.id, 0) not in self.tokens:
            return
        for ask in judge_prompts(benchmark, instance, text):
            if (tokens := self.tokens.get((instance.id, ask.part))) is not None:
                self.characters.append(n_characters(ask.prompt))
                self.counted.append(tokens)


@dataclass(slots=True)
class PendingRequests:
    """What is still to be asked on one benchmark."""

    to_models: dict[str, ModelRequests]
    """By name."""
    to_judges: dict[str, JudgeRequests]
    """By name; empty where nobody judges."""
    lessons: dict[str, JudgeTokenSample]
    """Judge -> what its earlier prompts tell."""
    n_references: int = 0
    """Instances with a right answer to go by."""
    reference_characters: int = 0
    """Of these answers together."""

    @property
    def references(self) -> CompletionLength | None:
        """Mean length of the right answers; None where there are none."""
        if not self.n_references:
            return None
        return CompletionLength(self.reference_characters / self.n_references / 4 + 1, "the length of the references")

    def judge_factor(self, judge: str) -> TokenRatio | None:
        """Input tokens for each character that a judge reads, by an earlier run; None if there is none."""
        lesson = self.lessons.get(judge)
        return (
            learn_token_ratio(lesson.characters, lesson.counted, "its own judgments on this benchmark")
            if lesson
            else None
        )


class PendingCounter:
    """Counts what is to be asked on one benchmark after the other."""

    def __init__(
        self,
        models: Sequence[Model],
        judges: Sequence[Model],
        journal: CacheReader,
        experience: RunHistory,
        local: Mapping[str, Provider],
        waiting: Collection[bytes] = (),
    ) -> None:
        """`local`: model -> how it answers, for those that do so within this process. `waiting`: digests of the
        requests that a batch API may be answering.
        """
        self._waiting = frozenset(waiting)
        self._models, self._judges = models, judges
        self._journal, self._experience, self._local = journal, experience, local
        self._nothing_bought = journal.is_empty
        self._fitter, self._judge_fitter = (
            ContextFitter(TokenEstimator(lambda: experience), self._is_known) for _ in range(2)
        )

    def _is_known(self, digest: bytes) -> bool:
        """Whether a prompt was bought, or is as good as bought."""
        return digest in self._waiting or self._journal.get(digest) is not None

    def count(self, dataset: Dataset, *, judged: bool) -> PendingRequests:
        """What is to be asked on one benchmark. `judged`: whether its completions go to the judges."""
        benchmark, judges = dataset.benchmark, self._judges if judged else ()
        found = PendingRequests(
            to_models={model.name: ModelRequests() for model in self._models},
            to_judges={judge.name: JudgeRequests() for judge in judges},
            lessons={judge.name: lesson for judge in judges if (lesson := self._lesson(judge, benchmark))},
        )
        for provider in self._local.values() if judged else ():
            provider.prepare(benchmark.name, dataset)
        seen: set[int] = set()  # not the prompts themselves: some benchmarks have hundreds of megabytes of them
        for instance in dataset:
            prompt = render(benchmark, instance)
            self._add_reference(found, instance)
            for lesson in found.lessons.values():
                lesson.learn(benchmark, instance)
            blank = list(judge_requests(benchmark, judges, instance, "")) if judges else []
            for model in self._models:
                completion = self._ask(found.to_models[model.name], model, dataset, instance, prompt, seen, judged)
                if completion is None:
                    self._expect(found, model, benchmark, blank)
                elif judged and not completion.failure and not is_blank(completion):
                    self._look_up(found, benchmark, instance, completion.text or "")
            seen.add(hash(prompt))
        return found

    def _add_reference(self, found: PendingRequests, instance: Instance) -> None:
        if instance.expected:
            found.n_references += 1
            found.reference_characters += len(instance.expected)

    def _ask(
        self,
        count: ModelRequests,
        model: Model,
        dataset: Dataset,
        instance: Instance,
        prompt: Prompt,
        seen: Collection[int],
        judged: bool,
    ) -> Completion | None:
        """Count one request to a model; its completion if it is known."""
        benchmark = dataset.benchmark
        request = model_request(benchmark, model, instance, prompt, temperature_of(dataset, model))
        if provider := self._local.get(model.name):
            return at_once(provider, request) if judged else Completion(text="")
        fit = self._fitter.fit(request, benchmark)
        if fit.failure:
            count.unfit += 1
            return Completion(failure=fit.failure)
        count.requests += 1
        count.shortened += fit.left_out > 0
        known = None if self._nothing_bought else self._journal.get(fit.request.digest)
        if known is not None or hash(prompt) in seen:
            count.cached += 1
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
        for request in judge_requests(benchmark, self._judges, instance, text):
            self._look_up_one(found.to_judges[request.request.model.name], benchmark, instance, text, request)

    def _look_up_one(
        self, count: JudgeRequests, benchmark: Benchmark, instance: Instance, text: str, first: JudgeRequest
    ) -> None:
        """Count one judge request, and its second try if the first completion is known and cannot be parsed."""
        ask, request = first
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
        rubric = benchmark.rubric
        assert rubric is not None, "only benchmarks with a rubric are judged"
        judgments = parse_judgments(
            request.model.name, ask, completion, rubric=rubric, shown=shown_texts(instance, text)
        )
        problem = retry_reason(judgments)
        if not problem:
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
        return None if self._nothing_bought else self._journal.get(request.digest)

    def _lesson(self, judge: Model, benchmark: Benchmark) -> JudgeTokenSample | None:
        """The latest run of the benchmark, as it is defined now, that the judge graded."""
        for run in self._experience.judged:
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


def at_once(provider: Provider, request: Request) -> Completion:
    """The completion of a provider that answers within this process, and so never waits."""
    answering = provider.complete(request)
    try:
        answering.send(None)
    except StopIteration as done:
        answer: Completion = done.value
        return answer
    except ProviderError as error:
        return Completion(failure=Failure("provider", error.code, str(error)))
    raise AssertionError("a provider within this process waited")
