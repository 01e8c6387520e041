"""Plan the requests to judges about completions that are stored: their number, tokens and cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from medhelm.analysis.cost import UNKNOWN
from medhelm.analysis.planned_cost import CostPlan, PlanRow, TokenForecast
from medhelm.domain import Benchmark, Model, Request
from medhelm.evaluation.context_window import RunHistory, n_characters
from medhelm.evaluation.plan import SECOND_TRY_CHARACTERS
from medhelm.models.cache_reader import CacheReader
from medhelm.models.keys import missing_key
from medhelm.scoring.jury.panel import judge_max_tokens
from medhelm.storage.store import Store


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
