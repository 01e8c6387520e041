"""Plan what an evaluation would send and cost. Nothing is sent, and no store is created.

Plan the requests to judges about completions that are stored: their number, tokens and cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from medhelm.analysis.cost import UNKNOWN, CompletionLength, TokenRatio, learn_token_ratio, pool_token_ratios
from medhelm.analysis.planned_cost import CostPlan, ExpectedAndMax, PlanRow, TokenForecast, is_within_limit
from medhelm.benchmarks.data.dataset import Dataset
from medhelm.benchmarks.data.sampling import named_sample
from medhelm.benchmarks.prompts import render
from medhelm.domain import JURY, Benchmark, Completion, Failure, Instance, Jury, Model, Request, Rubric
from medhelm.domain.run import asked_in_words
from medhelm.domain.text import listed, plural
from medhelm.errors import ErrorCollector, MissingError, ProviderError, StoreError, UserError
from medhelm.evaluation.context_window import SEEN, ContextFitter, RunHistory, TokenEstimator, judge_in, n_characters
from medhelm.evaluation.fresh_runs import expected_fresh_runs
from medhelm.evaluation.requests import (
    JudgeRequest,
    completion_limit,
    judge_requests,
    model_request,
    sampling_of,
    second_judge_request,
)
from medhelm.evaluation.session import (
    EvaluationSetup,
    check_and_open,
    check_scorable,
    check_shard,
    next_metrics,
    open_variants,
    sent_of,
    with_prices,
)
from medhelm.evaluation.settings import Settings
from medhelm.io.http.client import HttpClient
from medhelm.io.http.egress import EgressPolicy
from medhelm.models.addresses import missing_consent, policy_for
from medhelm.models.batch.api import has_batches
from medhelm.models.budget import NANO
from medhelm.models.cache_reader import CacheReader
from medhelm.models.gateway import remote_of
from medhelm.models.keys import missing_key
from medhelm.models.price_book import PriceBook
from medhelm.models.provider import Provider
from medhelm.models.providers import answers_in_process, open_provider
from medhelm.scoring.jury.panel import is_judged, judge_max_tokens, shown_texts
from medhelm.scoring.jury.parsing import parse_judgments, retry_reason
from medhelm.scoring.jury.prompts import judge_prompts
from medhelm.storage.runs import read_columns
from medhelm.storage.store import Store, open_store
from medhelm.storage.token_usage import read_sent_to_judge
from medhelm.storage.unfinished import Batches

SECOND_TRY_CHARACTERS = 2500
"""Most characters that a judge's second prompt adds to the first: its completion, truncated, and what was wrong."""

SECOND_TRY_TOKENS = 100
"""Tokens of the words about what was wrong."""


def make_plan(
    benchmarks: Sequence[Benchmark],
    models: Sequence[Model],
    setup: EvaluationSetup,
    *,
    jury: Jury | None = None,
    datasets: Sequence[Dataset] = (),
    books: Sequence[PriceBook] = (),
    errors: ErrorCollector | None = None,
) -> CostPlan:
    """Plan what `evaluate` would send and cost with the same arguments.

    Requests whose completions are in the store's cache cost nothing. Missing data and keys are listed in the rows.
    `books`: prices that take precedence over all others. `errors`: as for `evaluate`.
    Raises: UserError or StoreError if `evaluate` would raise them for all benchmarks.
    """
    errors = errors or ErrorCollector()
    models = with_prices(models, books)
    judges = with_prices(jury.judges if jury else (), books)
    asked = None if jury is None else judges
    refuse = partial(check_and_open, benchmarks, models, asked, setup, errors, datasets, look_up=False)
    local: dict[str, Provider] = {}
    with errors.collect():
        local = _local_providers(models, benchmarks, setup.settings, setup.environment)
    if errors.errors:
        refuse()
    try:
        if not remote_of(setup.environment):  # else hosts are the gateway's
            _check_hosts((*models, *judges), setup.settings)
        check_shard(setup.settings, like=bool(datasets))
        check_scorable(benchmarks, judged=jury is not None)
        check_scorable((dataset.benchmark for dataset in datasets), judged=jury is not None, imported=True)
        return _make_plan(benchmarks, models, judges, setup, datasets, local)
    except UserError:
        refuse()  # for this reason and all others that `evaluate` has
        raise


def _make_plan(
    benchmarks: Sequence[Benchmark],
    models: Sequence[Model],
    judges: Sequence[Model],
    setup: EvaluationSetup,
    datasets: Sequence[Dataset],
    local: Mapping[str, Provider],
) -> CostPlan:
    """Make the plan of a run that nothing forbids. Raises: UserError for the first data that is not what it should be.

    `local`: model -> its provider, for those within this process.
    """
    store, settings, environment = setup.store, setup.settings, setup.environment
    is_remote = remote_of(environment) is not None  # then keys and hosts are the gateway's
    asked = () if is_remote else (*models, *judges)
    keys = {one.name: text for one in asked if (text := missing_key(one, environment))}
    is_new = not store.exists() or (store.is_dir() and not any(store.iterdir()))
    existing = None if is_new else open_store(store)
    with CacheReader.of_store(existing or Store(store)) as cache:
        counter = PendingCounter(models, judges, existing, cache, settings, local)
        forecast = _Forecast(models, judges, settings, counter, keys)
        # Count all benchmarks first: the prompts of judges on one of them help to estimate the others.
        found = forecast.count_all(benchmarks, setup.data, datasets)
        rows = [row for benchmark, one in found for row in forecast.rows(benchmark, one)]
    plan = CostPlan(rows=tuple(rows), max_cost_usd=settings.max_cost_usd, is_batched=settings.batch)
    warnings = [*_warnings(plan, [*models, *judges], _store_budget(existing)), *forecast.too_long]
    if is_remote:
        warnings.append("the gateway's cache is not counted: completions that it has already cost nothing.")
    else:
        sent = [sent_of(benchmark, _n_instances(one), settings) for benchmark, one in found]
        if text := missing_consent(sent, models, judges, allowed=settings.allow_hosts):
            warnings.append(f"a run would not start: {text}")
    if not judges and (replacing := next_metrics(benchmarks)):
        warnings.append(
            f"no judges were named (--judge): {plural(len(replacing), 'free-text benchmark')} would be scored by "
            f"{listed(list(dict.fromkeys(replacing)))} instead; the plan has no judges."
        )
    return replace(plan, warnings=tuple(warnings))


def _check_hosts(models: Sequence[Model], settings: Settings) -> None:
    """Check that the hosts of all models may be reached. Raises: UserError."""
    policy = policy_for(models, offline=settings.offline, proxy=settings.proxy, allow_hosts=settings.allow_hosts)
    policy.admit_all((address for model in models for address in model.addresses), look_up=False)


def _local_providers(
    models: Sequence[Model], benchmarks: Sequence[Benchmark], settings: Settings, environment: Mapping[str, str]
) -> dict[str, Provider]:
    """Open the providers within this process. Raises: UserError for an invalid replay file."""
    aliases = {alias: benchmark.name for benchmark in benchmarks for alias in benchmark.aliases}
    nowhere = HttpClient(EgressPolicy(offline=True))
    return {
        model.name: open_provider(model, nowhere, environment=environment, seed=settings.seed, aliases=aliases)
        for model in models
        if answers_in_process(model.provider)
    }


class _Forecast:
    """Makes the rows of a plan."""

    def __init__(
        self,
        models: Sequence[Model],
        judges: Sequence[Model],
        settings: Settings,
        counter: PendingCounter,
        keys: Mapping[str, str],
    ) -> None:
        """`keys`: model or judge -> the message about its missing key."""
        self.models, self.judges, self.settings = models, judges, settings
        self.history, self.counting, self.keys = counter.history, counter, keys
        self.judge_ratios: dict[str, list[TokenRatio]] = {}
        self.too_long: list[str] = []

    def _judges_of(self, benchmark: Benchmark) -> Sequence[Model]:
        return self.judges if JURY in benchmark.metrics else ()

    def count_all(
        self, benchmarks: Sequence[Benchmark], data: Path | None, datasets: Sequence[Dataset]
    ) -> list[tuple[Benchmark, PendingRequests | str]]:
        """Count the requests on benchmarks and on data sets that are open.

        Raises: UserError for the first benchmark whose data is not what it should be.
        """
        found: list[tuple[Benchmark, PendingRequests | str]] = [
            counted for benchmark in benchmarks for counted in self.open_and_count(benchmark, data)
        ]
        return [*found, *((dataset.benchmark, self.count(dataset)) for dataset in datasets)]

    def open_and_count(
        self, benchmark: Benchmark, data: Path | None
    ) -> Sequence[tuple[Benchmark, PendingRequests | str]]:
        """Count the requests on one benchmark, in each way in which it is asked; or return why its data is missing.

        Raises: UserError if its data is not what it should be.
        """
        try:
            datasets = open_variants(benchmark, data, self.settings)
        except MissingError as error:
            return [(benchmark, str(error))]
        return [(dataset.benchmark, self.count(dataset)) for dataset in datasets]

    def count(self, dataset: Dataset) -> PendingRequests:
        """Count the requests on a data set."""
        found = self.counting.count(dataset, judged=bool(self._judges_of(dataset.benchmark)))
        dataset.release()
        for name, count in found.to_models.items():
            if count.truncated or count.unfit:
                self.too_long.append(_too_long(dataset.benchmark.name, name, count, len(dataset.positions)))
        for name, asked in found.to_judges.items():
            if asked.unfit:
                n = asked.unfit + asked.requests
                what = f"{asked.unfit:,} of {n:,} prompts do not fit this judge and are not sent, by estimate."
                self.too_long.append(f"{dataset.benchmark.name} with {name}: {what}")
        for judge in self.judges:
            if ratio := found.judge_token_ratio(judge.name):
                self.judge_ratios.setdefault(judge.name, []).append(ratio)
        return found

    def rows(self, benchmark: Benchmark, found: PendingRequests | str) -> list[PlanRow]:
        """Return the rows of one benchmark, given its requests or why they cannot be counted."""
        judges = self._judges_of(benchmark)
        if isinstance(found, str):
            n = _expected_number(benchmark, self.settings)
            absent = [self._absent(benchmark, model, "model", n, found) for model in self.models]
            return absent + [self._absent(benchmark, j, "judge", n * len(self.models), found) for j in judges]
        lengths = {model.name: self._output(model, benchmark, found) for model in self.models}
        rows = [self._model_row(benchmark, model, found, lengths[model.name]) for model in self.models]
        return rows + [self._judge_row(benchmark, judge, found, lengths) for judge in judges]

    def _judge_token_ratio(self, judge: Model, benchmark: Benchmark, found: PendingRequests) -> TokenRatio:
        """Return the input tokens per character of a judge."""
        elsewhere = pool_token_ratios(self.judge_ratios.get(judge.name, []), "its judgments on other benchmarks")
        return found.judge_token_ratio(judge.name) or elsewhere or self.history.ratio(judge, benchmark)

    def _missing(self, model: Model, *more: str) -> tuple[str, ...]:
        return (*more, *([self.keys[model.name]] if model.name in self.keys else []))

    def _absent(self, benchmark: Benchmark, model: Model, role: str, n: int, why: str) -> PlanRow:
        """Return a row for a benchmark whose data is missing."""
        is_local = answers_in_process(model.provider)
        return PlanRow(
            benchmark=benchmark.name,
            model=model.name,
            role="judge" if role == "judge" else "model",
            requests=0 if is_local else n,
            cached=0,
            input_tokens=0 if is_local else None,
            output_tokens=ExpectedAndMax(expected=0, max=0) if is_local else None,
            cost_usd=ExpectedAndMax(expected=0.0, max=0.0) if is_local else None,
            batch_cost_usd=ExpectedAndMax(expected=0.0, max=0.0) if is_local else None,
            missing=self._missing(model, why),
        )

    def _output(self, model: Model, benchmark: Benchmark, found: PendingRequests) -> CompletionLength:
        """Return the expected tokens of a completion."""
        limit = completion_limit(benchmark, model)
        return self.history.completion_length(model, benchmark, limit, found.references)

    def _model_row(
        self, benchmark: Benchmark, model: Model, found: PendingRequests, length: CompletionLength
    ) -> PlanRow:
        """Return the row of one model on one benchmark."""
        count = found.to_models[model.name]
        n = count.requests - count.cached
        ratio = self.history.ratio(model, benchmark) if n else UNKNOWN
        read = count.characters * ratio.tokens_per_character
        tokens = TokenForecast(
            input=read,
            input_max=read * (1 + ratio.error),
            output=n * length.tokens,
            output_max=n * completion_limit(benchmark, model),
        )
        return PlanRow(
            benchmark=benchmark.name,
            model=model.name,
            role="model",
            asked=found.asked,
            requests=count.requests,
            cached=count.cached,
            duplicate=count.duplicate,
            input_tokens=round(read),
            output_tokens=tokens.written,
            cost_usd=tokens.cost(model.price),
            batch_cost_usd=tokens.batch_cost(model.price, tokens if has_batches(model) else None),
            waiting=count.waiting,
            missing=self._missing(model),
            input_basis=ratio.basis if n else "",
            input_error=ratio.error if n else 0.0,
            output_basis=length.basis if n else "",
        )

    def _judge_row(
        self, benchmark: Benchmark, judge: Model, found: PendingRequests, lengths: Mapping[str, CompletionLength]
    ) -> PlanRow:
        """Return the row of one judge on one benchmark, for the completions of all models."""
        count = found.to_judges[judge.name]
        n = count.first + count.second
        ratio = self._judge_token_ratio(judge, benchmark, found) if n else UNKNOWN
        limit = judge_max_tokens(judge)
        length = self.history.judge_completion_length(judge, benchmark, _criteria_at_once(benchmark), limit)
        limits = {model.name: completion_limit(benchmark, model) for model in self.models}
        shown = sum(k * lengths[name].tokens * (1 - lengths[name].hidden) for name, k in count.unknown.items())
        shown_at_most = sum(k * limits[name] for name, k in count.unknown.items())
        read = count.characters * ratio.tokens_per_character + shown
        most_read = count.characters * ratio.tokens_per_character * (1 + ratio.error)
        tokens = TokenForecast(
            input=read + _again(count, length, read),
            input_max=most_read * (1 + bool(count.first))  # a second request repeats the first one
            + shown_at_most * (1 + bool(count.first))
            + count.first * SECOND_TRY_CHARACTERS * UNKNOWN.tokens_per_character * (1 + UNKNOWN.error),
            output=(n + count.first * length.again) * length.tokens,
            output_max=(n + count.first) * limit,
        )
        first = TokenForecast(  # all that goes through a batch API: a second request depends on the first completion
            input=read * count.first / max(n, 1),
            input_max=most_read * count.first / max(n, 1) + shown_at_most,
            output=count.first * length.tokens,
            output_max=count.first * limit,
        )
        return PlanRow(
            benchmark=benchmark.name,
            model=judge.name,
            role="judge",
            asked=found.asked,
            requests=count.requests,
            cached=count.cached,
            input_tokens=round(tokens.input),
            output_tokens=tokens.written,
            cost_usd=tokens.cost(judge.price),
            batch_cost_usd=tokens.batch_cost(judge.price, first if has_batches(judge) else None),
            waiting=count.waiting,
            missing=self._missing(judge),
            input_basis=ratio.basis if n else "",
            input_error=ratio.error if n else 0.0,
            output_basis=length.basis if n else "",
        )


def _n_instances(found: PendingRequests | str) -> int | None:
    """Return the number of instances; None if the data is missing."""
    if isinstance(found, str):
        return None
    return max((count.requests for count in found.to_models.values()), default=None)


def _too_long(benchmark: str, model: str, count: PendingModelRequests, n: int) -> str:
    """Return a warning about prompts that do not fit, by estimate."""
    parts = []
    if count.truncated:
        parts.append(f"{count.truncated:,} of {n:,} prompts are truncated to fit it")
    if count.unfit:
        parts.append(f"{count.unfit:,} of {n:,} instances do not fit it and are not sent")
    return f"{benchmark} with {model}: {', and '.join(parts)}, by estimate."


def _again(count: PendingJudgeRequests, length: CompletionLength, read: float) -> float:
    """Return the expected input of second requests: the prompt, the first completion, and what was wrong with it."""
    if not count.first:
        return 0.0
    share = count.first / (count.first + count.second)
    return length.again * (share * read + count.first * (length.tokens + SECOND_TRY_TOKENS))


def _criteria_at_once(benchmark: Benchmark) -> int:
    """Return the number of criteria that a judge grades in one completion."""
    rubric = benchmark.rubric
    return 1 if rubric is None or rubric.form == "points" else max(1, len(rubric.criteria))


def _expected_number(benchmark: Benchmark, settings: Settings) -> int:
    """Return the number of instances according to the definition alone; 0 if it does not say."""
    sample = named_sample(benchmark, settings.sample)
    n = sample.expected_count or benchmark.source.expected_count
    if n is None or benchmark.group_column:
        return 0
    return min(limit for limit in (n, sample.size, settings.limit, settings.subset) if limit is not None)


def _store_budget(store: Store | None) -> tuple[str, float] | None:
    """Return the name of what is left of a store's budget, and its amount in US dollars; None without a budget."""
    if store is None or not store.budget_file.is_file():
        return None
    from medhelm.storage.budget_ledger import Ledger  # lazy: most stores have no limit

    try:
        with closing(Ledger(store.budget_file)) as ledger:
            balance = ledger.balance()
    except (StoreError, OSError):  # such as a store that can only be read: a run would not start in it
        return None
    if balance.limit is None:
        return None
    left = max(0, balance.limit - balance.held) / NANO
    name = f"the rest of the store's budget, {left:.4f} of {balance.limit / NANO:g} USD (`medhelm budget show`),"
    return name, left


def _warnings(plan: CostPlan, asked: Sequence[Model], store_budget: tuple[str, float] | None) -> list[str]:
    """Return warnings about unknown prices, requests in batches, and budgets that are too small.

    `store_budget`: the name of what is left of the store's budget, and the amount.
    """
    warnings = []
    prices = {model.name: model.price for model in asked}
    to_buy = dict.fromkeys(row.model for row in plan.rows if row.requests > row.cached)
    if unpriced := [name for name in to_buy if prices[name] is None]:
        warnings.append(
            f"the price of {', '.join(unpriced)} is unknown, so {'its' if len(unpriced) == 1 else 'their'} cost is "
            "unknown, not 0. Give `price: {input: "
            "USD, output: USD}` per million tokens in models.yaml, or --prices FILE."
        )
    if plan.waiting and not plan.is_batched:
        warnings.append(
            f"{plan.waiting:,} of the requests are in batches (`medhelm batches`) and would be sent again at the full "
            "price; --batch collects their completions instead."
        )
    limits = [] if plan.max_cost_usd is None else [(f"--max-cost {plan.max_cost_usd:g}", plan.max_cost_usd)]
    if unpriced and (limits or store_budget):
        name = limits[0][0] if limits else "a store's budget (`medhelm budget show`)"
        warnings.append(f"a run with {name} would not start: it needs the price of every model and judge.")
    limits += [store_budget] if store_budget else []
    return warnings + [text for name, limit in limits if (text := _limit_warning(plan, name, limit))]


def _limit_warning(plan: CostPlan, name: str, limit: float) -> str:
    """Return a warning about a limit in US dollars that is too low, or may be; "" if it is high enough."""
    expected, most = (plan.batch_expected, plan.batch_most) if plan.is_batched else (plan.expected, plan.most)
    if is_within_limit(expected, limit) is False:
        return (
            f"{name} is too low: the expected cost is {expected.known_usd:.4f} USD. The run would stop "
            f"{'before it submits any batch' if plan.is_batched else 'before it is complete'}."
        )
    if is_within_limit(most, limit) is False:
        return f"{name} may be too low: the cost can reach {most.known_usd:.4f} USD." + (
            " Batches are submitted only if that is within the limit." if plan.is_batched else ""
        )
    return ""


# --- request counts ---------------------------------------------------------------------------------------------------
# Count the requests of an evaluation that the cache has no completion for. Nothing is sent.
#
# If a completion is known, from the cache or from a provider within this process, the requests to its judges are made
# and looked up as well.


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
    asked: str = ""
    """Setting and variant of the instances; empty for the usual way."""
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
        store: Store | None,
        cache: CacheReader,
        settings: Settings,
        local: Mapping[str, Provider],
    ) -> None:
        """Count requests to `models` and `judges`.

        `store`: None if it does not exist yet. `local`: model -> its provider, for those within this process.
        """
        self.history = RunHistory(store)
        self._waiting = frozenset(Batches(store).in_flight() if store else ())
        self._models, self._judges = models, judges
        self._fresh_runs = partial(expected_fresh_runs, store, models=models, settings=settings)
        self._judge_requests = partial(judge_requests, with_codes=settings.verification_codes)
        self._cache, self._local = cache, local
        self._is_empty = cache.is_empty
        # Of requests, because variants repeat them: two reversed options are two shuffled ones. Hashes and not prompts,
        # because some benchmarks have hundreds of megabytes of them.
        self._seen: set[int] = set()
        self._fitter, self._judge_fitter = (
            ContextFitter(TokenEstimator(lambda: self.history), self._is_known) for _ in range(2)
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
            asked=asked_in_words(dataset.settings),
        )
        for provider in self._local.values() if judged and not dataset.variant else ():
            provider.prepare(benchmark.name, dataset)
        fresh = self._fresh_runs([dataset])
        starts = {model.name: fresh.start_of(model, dataset) for model in self._models}
        for instance in dataset.to_evaluate():
            prompt = render(benchmark, instance)
            self._add_reference(found, instance)
            for sample in found.token_samples.values():
                sample.learn(benchmark, instance)
            blank = list(self._judge_requests(benchmark, judges, instance, "")) if judges else []
            for model in self._models:
                request = model_request(
                    benchmark, model, instance, prompt, sampling_of(dataset, model), fresh=starts[model.name]
                )
                completion = self._count_one(found.to_models[model.name], request, benchmark, judged=judged)
                if completion is None:
                    self._expect(found, model, benchmark, blank)
                elif judged and is_judged(completion):
                    self._look_up(found, benchmark, instance, completion.text or "")
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
        key = hash((request.model.name, benchmark.name, request.prompt, request.sample, request.fresh))
        is_repeated = key in self._seen
        self._seen.add(key)
        if known is not None or is_repeated:
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
        for run in self.history.judged:
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


# --- judge plan -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Count:
    """Requests of one judge on one benchmark."""

    benchmark: Benchmark
    judge: Model
    n_criteria: int
    requests: int = 0
    cached: int = 0
    characters: int = 0
    seen: set[bytes] = field(default_factory=set)


def plan_judging(
    requests: Iterable[tuple[Benchmark, Request, int]],
    store: Store,
    environment: Mapping[str, str],
    max_cost_usd: float | None = None,
) -> CostPlan:
    """Return the plan of these requests; those whose completion is in the cache of the store cost nothing.

    Parameters: requests, the first to each judge, with its benchmark and the number of criteria graded in one reply.
    """
    counts: dict[tuple[str, str], _Count] = {}
    with CacheReader.of_store(store) as cache:
        for benchmark, request, n_criteria in requests:
            key = (benchmark.name, request.model.name)
            count = counts.setdefault(key, _Count(benchmark, request.model, n_criteria))
            count.requests += 1
            if request.digest in count.seen or cache.find(request) is not None:
                count.cached += 1
            else:
                count.characters += n_characters(request.prompt)
            count.seen.add(request.digest)
    history = RunHistory(store)
    rows = [_row(count, history, missing_key(count.judge, environment)) for count in counts.values()]
    return CostPlan(rows=tuple(rows), max_cost_usd=max_cost_usd)


def _row(count: _Count, history: RunHistory, missing: str | None) -> PlanRow:
    """Return what one judge costs: every reply may need a second request, which repeats the first one."""
    judge, n = count.judge, count.requests - count.cached
    ratio = history.ratio(judge, count.benchmark) if n else UNKNOWN
    limit = judge_max_tokens(judge)
    length = history.judge_completion_length(judge, count.benchmark, count.n_criteria, limit)
    read = count.characters * ratio.tokens_per_character
    tokens = TokenForecast(
        input=read * (1 + length.again),
        input_max=2 * read * (1 + ratio.error) + n * SECOND_TRY_CHARACTERS * UNKNOWN.most,
        output=n * (1 + length.again) * length.tokens,
        output_max=2 * n * limit,
    )
    cost = tokens.cost(judge.price)
    return PlanRow(
        benchmark=count.benchmark.name,
        model=judge.name,
        role="judge",
        requests=count.requests,
        cached=count.cached,
        input_tokens=round(tokens.input),
        output_tokens=tokens.written,
        cost_usd=cost,
        batch_cost_usd=cost,
        missing=(missing,) if missing else (),
        input_basis=ratio.basis if n else "",
        input_error=ratio.error if n else 0.0,
        output_basis=length.basis if n else "",
    )
