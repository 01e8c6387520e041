"""Have judges compare the completions of models on a benchmark with each other, every pair in both orders.

The prompt to a judge about two completions, and its verdict.

Texts are delimited, and verdicts verified, as for the jury (`scoring.jury.prompts`, `scoring.jury.parsing`): a verdict
is a grade on one criterion, whose scale has three values. So planted and copied verdicts are not counted here either.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import combinations
from typing import NamedTuple

from medhelm.analysis.comparison.preferences import PairVerdicts
from medhelm.analysis.planned_cost import CostPlan
from medhelm.benchmarks.data.dataset import Dataset
from medhelm.domain import (
    JURY,
    Benchmark,
    Completion,
    Criterion,
    Instance,
    Message,
    Model,
    Prompt,
    Request,
    Rubric,
    Run,
    RunStatus,
)
from medhelm.domain.completion import strip_reasoning
from medhelm.domain.text import listed
from medhelm.errors import Interrupted, UserError
from medhelm.evaluation.context_window import ContextFitter
from medhelm.evaluation.plan import plan_judging
from medhelm.evaluation.request_totals import RequestTotals
from medhelm.evaluation.rescore import stored_runner
from medhelm.evaluation.scheduler import Scheduler
from medhelm.evaluation.session import (
    EvaluationSetup,
    check_consent,
    check_models,
    open_providers,
    open_session,
    with_prices,
)
from medhelm.evaluation.settings import MAXIMUM_IN_FLIGHT, StopReason
from medhelm.evaluation.stored_settings import JuryChange, measured_as, settings_of
from medhelm.extensions.pairwise.files import ComparingJudge, PairwiseComparison, StoredPair, write_comparison
from medhelm.models.client import Client, ModelUnusable
from medhelm.models.provider import Provider
from medhelm.scoring.jury.panel import is_judged, request_to_judge, shown_texts
from medhelm.scoring.jury.parsing import parse_judgments, retry_reason
from medhelm.scoring.jury.prompt_injection import find_injections
from medhelm.scoring.jury.prompts import (
    JudgePrompt,
    delimit,
    explain_tags,
    object_schema,
    question,
    retry_prompt,
    with_code,
)
from medhelm.scoring.metric import is_blank
from medhelm.storage.judgments import completion_of
from medhelm.storage.runs import read_records
from medhelm.storage.store import Store

# --- prompts ----------------------------------------------------------------------------------------------------------

VERSION = 1
"""Version of the prompt; increment it with every change of the wording."""

PREFERRED = "preferred"
"""Key of the verdict."""

SCALE = Rubric(task="", criteria=(Criterion(PREFERRED, "the better response"),), low=0, high=2)
"""The verdict as a grade: 1 and 2 for the response with this number, 0 for a tie."""

_SCHEMA = object_schema(  # the explanation first, so that the verdict follows from it
    {
        PREFERRED: object_schema({"explanation": {"type": "string"}, "score": {"type": "integer", "enum": [0, 1, 2]}}),
    }
)

_TASK = (
    "You are a medical expert. You see a question or task, and the responses of two language models to it. Decide "
    "which response is better."
)


class PairVerdict(NamedTuple):
    """The verdict in one completion of a judge."""

    number: int | None
    """1 or 2 for the better response, 0 for a tie; None if there is no verdict."""
    explanation: str
    """Explanation in the judge's words."""
    failure: str
    """Code of the problem if there is no verdict; see `scoring.jury.parsing`."""
    retry: str
    """Problem in words for the judge; empty if there is none, or a retry cannot help."""
    reply: str
    """The whole text, for a retry."""


def pair_prompt(
    benchmark: Benchmark, instance: Instance, texts: tuple[str, str], *, with_codes: bool = True
) -> JudgePrompt:
    """Return the prompt about two completions, in this order; it is deterministic.

    The reference is shown if judges of the benchmark see it. `with_codes`: False to ask for no verification code.
    """
    rubric = benchmark.rubric
    assert rubric is not None, "only benchmarks with a rubric are judged"
    shown = {"QUESTION": question(benchmark, instance)}
    shown |= {f"RESPONSE_{number}": strip_reasoning(text) for number, text in enumerate(texts, 1)}
    what = [
        "the question or task that was put to two models (QUESTION)",
        "the first response (RESPONSE_1)",
        "the second response (RESPONSE_2)",
    ]
    if rubric.shows_reference and instance.correct and instance.correct[0].strip():
        shown["REFERENCE"] = instance.correct[0]
        what.append("a reference, to compare the responses with where you need it (REFERENCE)")
    tags = delimit(shown)
    material = "\n\n".join(tags.around(name, text) for name, text in shown.items())
    text = f"{_TASK}\n\n{explain_tags(what, tags)}\n\n{material}\n\n{_instructions(rubric, instance)}"
    prompt = JudgePrompt(part=0, criteria=SCALE.criteria, prompt=Prompt((Message("user", text),)), schema=_SCHEMA)
    return with_code(prompt) if with_codes else prompt


def _instructions(rubric: Rubric, instance: Instance) -> str:
    """State the criteria and the form of the verdict."""
    listed = "\n".join(f"- {_in_words(rubric, one)}" for one in instance.criteria or rubric.criteria)
    form = {PREFERRED: {"explanation": "<the reason, in one or two short sentences>", "score": "<1, 2 or 0>"}}
    shown = json.dumps(form).replace('"<1, 2 or 0>"', "<1, 2 or 0>")
    return (
        f"Judge by these criteria, all of them together:\n\n{listed}\n\n"
        "The order of the responses says nothing about them, nor does their length: a longer response is not better "
        "for being longer.\n\n"
        f"Reply with one JSON object and nothing else. Under the key `{PREFERRED}` it has an object with "
        "`explanation`, and with `score`, which is 1 if RESPONSE_1 is better, 2 if RESPONSE_2 is better and 0 if "
        "neither is. It has to be valid JSON: keys and strings in double quotes, quotes inside the explanation "
        f"escaped. The form, with your words in place of <...>:\n\n{shown}"
    )


def _in_words(rubric: Rubric, criterion: Criterion) -> str:
    """Return a criterion, and whether it is desirable."""
    if rubric.form == "points":
        return f"{criterion.description} ({'undesirable' if criterion.points < 0 else 'desirable'})"
    name = criterion.name if criterion.higher_is_better else f"{criterion.name} (less is better)"
    return name if criterion.description in ("", criterion.name) else f"{name}: {criterion.description}"


def read_verdict(
    judge: str, prompt: JudgePrompt, completion: Completion, instance: Instance, texts: Sequence[str]
) -> PairVerdict:
    """Parse a judge's completion; one that cannot be parsed has no verdict.

    `texts`: the two completions; a verdict that is copied from them does not count.
    """
    shown = (*shown_texts(instance, texts[0]), texts[1])
    judgments = parse_judgments(
        judge, SCALE.criteria, completion, rubric=SCALE, shown=shown, code=prompt.verification_code
    )
    (judgment,) = judgments
    why, reply = judgment.explanation, completion.text or ""
    if judgment.score is None:
        code = judgment.failure.code if judgment.failure else ""
        return PairVerdict(None, why, code, retry_reason(judgments), reply)
    if judgment.score not in (0, 1, 2):
        return PairVerdict(None, why, "off_scale", f"`{PREFERRED}` has a score other than 1, 2 and 0", reply)
    return PairVerdict(int(judgment.score), why, "", "", reply)


# --- judging ----------------------------------------------------------------------------------------------------------

MOST_MODELS = 5
"""Most models that are compared unless they are named: pairs grow with the square of their number."""


class Pair(NamedTuple):
    """Two completions for one instance."""

    instance: Instance
    models: tuple[str, str]
    """Their models, in the order of names."""
    texts: tuple[str, str]
    """Their texts, without reasoning."""

    @property
    def decided(self) -> int | None:
        """Preference without a judge: the other one if one is blank, a tie if both are equal; None for the rest."""
        is_empty = [not text.strip() for text in self.texts]
        if any(is_empty):
            return 0 if all(is_empty) else 1 if is_empty[0] else -1
        return 0 if self.texts[0].split() == self.texts[1].split() else None

    @property
    def longer(self) -> int:
        """-1 if the first completion is longer, 1 if the second is."""
        first, second = map(len, self.texts)
        return (second > first) - (first > second)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRuns:
    """The runs whose completions are compared."""

    runs: Mapping[str, Run]
    """Model -> its run."""
    dataset: Dataset
    """Their instances."""
    completions: Mapping[str, Mapping[str, Completion]]
    """Model -> instance -> its completion."""
    limit: int | None = None
    """Only so many instances."""

    @property
    def benchmark(self) -> Benchmark:
        """The benchmark as it was run."""
        return self.dataset.benchmark

    def instances(self) -> Iterator[Instance]:
        """Yield the instances to compare."""
        for place, instance in enumerate(self.dataset):
            if self.limit is not None and place >= self.limit:
                return
            yield instance

    def text(self, model: str, instance: Instance) -> str | None:
        """Return a completion without its reasoning; None if there is none, or it is too long for judges."""
        own = self.completions[model].get(instance.id)
        return strip_reasoning(own.text or "") if own and (is_judged(own) or is_blank(own)) else None

    def pairs(self) -> Iterator[Pair]:
        """Yield every pair of completions that can be compared."""
        for instance in self.instances():
            texts = {model: self.text(model, instance) for model in self.completions}
            usable = {model: text for model, text in texts.items() if text is not None}
            for one, other in combinations(sorted(usable), 2):
                yield Pair(instance, (one, other), (usable[one], usable[other]))


def find_compared(
    runs: Mapping[str, Run], benchmark: Benchmark, setup: EvaluationSetup, limit: int | None, *, are_named: bool
) -> ComparedRuns:
    """Open the completions of these runs, model -> run, which are comparable. `are_named`: the user chose the models.

    Raises: UserError.
    """
    if JURY not in benchmark.metrics:
        raise UserError(
            f"{benchmark.name} cannot be judged: its metrics compare completions with references. Nothing was sent."
        )
    if len(runs) < 2:
        known = listed(list(runs)) or "no model"
        raise UserError(f"{benchmark.name}: two models are needed, and {known} has comparable runs. Nothing was sent.")
    if len(runs) > MOST_MODELS and not are_named:
        raise UserError(
            f"{benchmark.name}: {len(runs)} models are {len(runs) * (len(runs) - 1) // 2} pairs. Name those to compare "
            f"with --model: {listed(list(runs))}. Nothing was sent."
        )
    latest = max(runs.values(), key=lambda run: run.started)
    own = replace(setup, settings=measured_as(setup.settings, settings_of(latest)))
    runner = stored_runner(list(runs.values()), [benchmark], JuryChange(), own, Store(setup.store))
    plain = next(dataset for dataset in runner.datasets if not dataset.variant)
    completions = {
        model: {row["instance_id"]: completion_of(row, row["completion"]) for row in read_records(run)}
        for model, run in runs.items()
    }
    return ComparedRuns(runs=runs, dataset=plain, completions=completions, limit=limit)


def requests_of(compared: ComparedRuns, judges: Sequence[Model], *, with_codes: bool) -> Iterator[Request]:
    """Yield the first request to each judge about each pair, in both orders."""
    for pair in compared.pairs():
        if pair.decided is None:
            for texts in (pair.texts, pair.texts[::-1]):
                prompt = pair_prompt(compared.benchmark, pair.instance, texts, with_codes=with_codes)
                for judge in judges:
                    yield request_to_judge(judge, prompt.prompt, prompt.schema, benchmark=compared.benchmark.name)


def plan_comparison(compared: ComparedRuns, judges: Sequence[Model], setup: EvaluationSetup) -> CostPlan:
    """Return what the comparison would send and cost."""
    with_codes = setup.settings.verification_codes
    requests = requests_of(compared, with_prices(judges), with_codes=with_codes)
    planned = ((compared.benchmark, request, 1) for request in requests)
    return plan_judging(planned, Store(setup.store), setup.environment, setup.settings.max_cost_usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseResult:
    """A comparison, and how the work on it ended."""

    comparison: PairwiseComparison
    """The comparison."""
    stopped: StopReason = ""
    """Reason for an early end; empty if there was none."""
    messages: tuple[str, ...] = ()
    """Messages for the user: one for each judge that could not be used."""

    @property
    def exit_code(self) -> int:
        """0 all done, 1 verdicts are missing, 3 stopped by the budget, 4 a judge cannot be used, 130 interrupted."""
        if self.stopped:
            return {"budget": 3, "interrupt": 130}[self.stopped]
        if self.messages:
            return 4
        return int(any(pair.verdicts.preferred is None for pair in self.comparison.pairs))


def compare(
    compared: ComparedRuns,
    judges: Sequence[Model],
    setup: EvaluationSetup,
    note: Callable[[str], object],
    progress: Callable[[int, int], object] | None = None,
) -> PairwiseResult:
    """Have every judge compare every pair in both orders, and store the verdicts.

    Parameters: note, receives messages for the user; progress, receives how many pairs were judged, and of how many.
    Raises: UserError or StoreError before anything is sent; StoreFullError if the disk is full.
    """
    judges = with_prices(judges)
    check_models(judges, setup.settings, setup.environment, setup.store)
    check_consent([compared.dataset], (), judges, setup.settings, setup.environment)
    return asyncio.run(_compare(compared, judges, setup, note, progress))


async def _compare(
    compared: ComparedRuns,
    judges: Sequence[Model],
    setup: EvaluationSetup,
    note: Callable[[str], object],
    progress: Callable[[int, int], object] | None,
) -> PairwiseResult:
    store, settings = Store(setup.store), setup.settings
    async with open_session(store, settings, judges, note, setup.environment) as session:
        providers = open_providers(judges, session, setup.environment, settings, [compared.dataset])
        work = _Comparing(
            compared,
            judges,
            setup,
            session.client,
            ContextFitter.of(store, session.client.is_known, note),
            Scheduler(note, partial(session.client.stop, Interrupted("interrupted")), session.stop_switch),
            progress,
        )
        async with work.scheduler.running():
            for judge in judges:
                work.start(judge, providers[judge.name])
    comparison = work.comparison()
    if not write_comparison(store, comparison):
        note("stopped early: the complete comparison of an earlier command stays in the store")
    return PairwiseResult(
        comparison=comparison,
        stopped=work.scheduler.stopped,
        messages=tuple(work.scheduler.unusable.values()),
    )


@dataclass(slots=True)
class _Comparing:
    """A comparison in progress."""

    compared: ComparedRuns
    judges: Sequence[Model]
    setup: EvaluationSetup
    client: Client
    fitter: ContextFitter
    scheduler: Scheduler
    progress: Callable[[int, int], object] | None
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    pairs: dict[tuple[int, str], StoredPair] = field(default_factory=dict)
    """Number of the pair, and judge -> its verdicts."""
    totals: dict[str, RequestTotals] = field(default_factory=dict)
    """Judge -> its work."""
    n_pairs: int = 0

    def start(self, judge: Model, provider: Provider) -> None:
        """Start to ask one judge about every pair."""
        totals = self.totals.setdefault(judge.name, RequestTotals(judge))

        async def compare(numbered: tuple[int, Pair]) -> None:
            number, pair = numbered
            if (sign := pair.decided) is not None:
                self.pairs[number, judge.name] = _stored(pair, judge.name, (sign, sign), is_judged=False)
                return
            found = await self.scheduler.attempt(self._both_orders(pair, judge, provider, totals))
            if found:
                self.pairs[number, judge.name] = found
                if self.progress:
                    self.progress(len(self.pairs), len(self.judges) * self._count())

        limit = 1 if provider.local else self.setup.settings.concurrency or MAXIMUM_IN_FLIGHT
        self.scheduler.start_each(self._numbered(judge), compare, lambda: limit * provider.n_servers)

    def _count(self) -> int:
        self.n_pairs = self.n_pairs or sum(1 for _ in self.compared.pairs())
        return self.n_pairs

    async def _numbered(self, judge: Model) -> AsyncIterator[tuple[int, Pair]]:
        """Yield every pair with its number, until the work stops."""
        for numbered in enumerate(self.compared.pairs()):
            if self.scheduler.is_stopped(judge.name):
                return
            yield numbered

    async def _both_orders(self, pair: Pair, judge: Model, provider: Provider, totals: RequestTotals) -> StoredPair:
        forward = await self._ask(pair, pair.texts, judge, provider, totals)
        backward = await self._ask(pair, pair.texts[::-1], judge, provider, totals)
        signs = _sign(forward.number, -1), _sign(backward.number, 1)
        return replace(
            _stored(pair, judge.name, signs),
            failures=(forward.failure, backward.failure),
            explanations=(forward.explanation, backward.explanation),
        )

    async def _ask(
        self, pair: Pair, texts: tuple[str, str], judge: Model, provider: Provider, totals: RequestTotals
    ) -> PairVerdict:
        """Ask about one pair in one order, and once more if the reply cannot be read."""
        benchmark, with_codes = self.compared.benchmark, self.setup.settings.verification_codes
        prompt = pair_prompt(benchmark, pair.instance, texts, with_codes=with_codes)

        async def complete(request: Request) -> PairVerdict:
            try:
                result = await self.fitter.ask_whole(self.client, provider, request, benchmark)
            except ModelUnusable as error:
                totals.requests_sent += error.requests_sent
                raise
            totals.add(result.completion, requests_sent=result.requests_sent, cached=result.cached)
            return read_verdict(judge.name, prompt, result.completion, pair.instance, texts)

        request = request_to_judge(judge, prompt.prompt, prompt.schema, benchmark=benchmark.name)
        verdict = await complete(request)
        if not verdict.retry:
            return verdict
        again = retry_prompt(prompt, verdict.reply, verdict.retry)
        return await complete(request_to_judge(judge, again, prompt.schema, benchmark=benchmark.name))

    def comparison(self) -> PairwiseComparison:
        """Return all verdicts; a pair that was not judged is missing."""
        compared = self.compared
        benchmark, runs = compared.benchmark, compared.runs
        instances = list(compared.instances())
        is_partial = self.scheduler.stopped or self.scheduler.unusable
        identity = [
            benchmark.digest,
            compared.dataset.digest,
            sorted(run.id for run in runs.values()),
            sorted(judge.digest for judge in self.judges),
            [compared.limit, self.setup.settings.verification_codes, VERSION],
        ]
        return PairwiseComparison(
            id=hashlib.sha256(json.dumps(identity).encode()).hexdigest(),
            benchmark=benchmark.name,
            title=benchmark.title,
            tier=compared.dataset.tier,
            runs={model: run.id for model, run in runs.items()},
            judges=tuple(_work(self.totals[judge.name]) for judge in self.judges),
            n_instances=len(instances),
            n_failed={model: sum(compared.text(model, one) is None for one in instances) for model in runs},
            n_suspicious={model: sum(_has_signs(compared.text(model, one)) for one in instances) for model in runs},
            status=RunStatus.PARTIAL if is_partial else RunStatus.COMPLETE,
            started=self.began.isoformat(timespec="milliseconds"),
            prompt_version=VERSION,
            pairs=tuple(self.pairs[key] for key in sorted(self.pairs)),
        )


def _sign(number: int | None, top: int) -> int | None:
    """Return a verdict as a preference. `top`: sign of the model whose completion was shown first."""
    return None if number is None else {1: top, 2: -top, 0: 0}[number]


def _stored(pair: Pair, judge: str, signs: tuple[int | None, int | None], *, is_judged: bool = True) -> StoredPair:
    return StoredPair(
        PairVerdicts(
            instance=pair.instance.id,
            cluster=pair.instance.cluster or pair.instance.id,
            first=pair.models[0],
            second=pair.models[1],
            judge=judge,
            forward=signs[0],
            backward=signs[1],
            longer=pair.longer,
            is_judged=is_judged,
        )
    )


def _work(totals: RequestTotals) -> ComparingJudge:
    return ComparingJudge(
        judge=totals.model.name,
        requests_sent=totals.requests_sent,
        requests_cached=totals.requests_cached,
        usage=totals.usage,
        cost_usd=totals.cost_usd,
    )


def _has_signs(text: str | None) -> bool:
    """Return whether a completion has signs of a prompt injection."""
    return bool(text and find_injections(text, [PREFERRED]))
