"""Decide which requests an evaluation sends: prompt, limits, temperature, schema and order.

Runs, plans and batches all take their requests from here. So their digests agree, and a completion bought by one of
them is found by the others. Prompts that exceed a context window are truncated afterwards, by `context_window.fit`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from medhelm.benchmarks.data.dataset import Dataset
from medhelm.benchmarks.prompts import render
from medhelm.domain import Benchmark, Instance, Model, Prompt, Request
from medhelm.domain.completion import REASONING_TOKENS, UNSAMPLED
from medhelm.domain.run import REPEAT, run_name
from medhelm.evaluation.settings import MAXIMUM_IN_FLIGHT, Settings, stored_settings
from medhelm.models.prompt_caching import CachePrices, cache_prices, order_by_shared_prefix

if TYPE_CHECKING:
    from medhelm.scoring.jury.panel import IsKnown
    from medhelm.scoring.jury.prompts import JudgePrompt

ORDERED_TOGETHER, ORDERED_CHARACTERS = 4 * MAXIMUM_IN_FLIGHT, 8_000_000
"""Most instances to order together, and about the most characters of their prompts: they are held in memory."""


class Sampling(NamedTuple):
    """The way in which a completion is sampled."""

    temperature: float | None
    """Sampling temperature; None for models that take none."""
    sample: int = 0
    """Number of the completion among several for the same prompt, from 0."""
    logprobs: bool = False
    """True to ask for log-probabilities of tokens."""


class ModelRequest(NamedTuple):
    """The request for one instance."""

    position: int
    """Position of the instance in the data set."""
    instance: Instance
    request: Request


class JudgeRequest(NamedTuple):
    """A request to a judge."""

    prompt: JudgePrompt
    """The prompt, with what is needed to read the judge's completion."""
    request: Request


class OrderedInstance(NamedTuple):
    """An instance in the order of sending."""

    position: int
    """Position among the instances to evaluate."""
    instance: Instance
    prompt: Prompt
    shared: int
    """Length of the prefix that this prompt shares with others sent with it, in characters, if that makes them
    cheaper; else 0."""


def model_requests(
    dataset: Dataset, model: Model, *, fresh: str = "", in_order: bool = False
) -> Iterator[ModelRequest]:
    """Yield the request to a model for each instance to evaluate.

    `fresh`: start of the fresh run, if it is one. `in_order`: in the order of sending, in which a provider's prompt
    cache saves most; else in that of the data set.
    """
    benchmark = dataset.benchmark
    sampling = sampling_of(dataset, model)
    for place, instance, prompt, shared in in_request_order(
        benchmark, dataset.to_evaluate(), cache_prices(model) if in_order else None
    ):
        yield ModelRequest(
            dataset.positions[place],
            instance,
            model_request(benchmark, model, instance, prompt, sampling, fresh=fresh, shared=shared),
        )


def model_request(
    benchmark: Benchmark,
    model: Model,
    instance: Instance,
    prompt: Prompt,
    sampling: Sampling,
    *,
    fresh: str = "",
    shared: int = 0,
) -> Request:
    """Return the request that sends this prompt to a model."""
    return Request(
        model=model,
        prompt=prompt,
        max_tokens=completion_limit(benchmark, model),
        temperature=float(sampling.temperature or 0.0),
        stop=benchmark.stop,
        sample=sampling.sample,
        logprobs=sampling.logprobs,
        benchmark=benchmark.name,
        instance=instance,
        shared_characters=shared,
        fresh=fresh,
    )


def run_settings(dataset: Dataset, model: Model, options: Settings) -> dict[str, Any]:
    """Return the settings of a run's requests, which identify the run; those of a fresh run get its start as well."""
    return {
        **stored_settings(options),
        "max_tokens": completion_limit(dataset.benchmark, model),
        **dataset.settings,
        "temperature": sampling_of(dataset, model).temperature,
    }


def completion_limit(benchmark: Benchmark, model: Model) -> int:
    """Return the most tokens of a completion: the model's own limit, the reasoning limit, or the benchmark's."""
    return model.max_tokens or (REASONING_TOKENS if model.reasoning else benchmark.max_tokens)


def sampling_of(dataset: Dataset, model: Model) -> Sampling:
    """Return how completions are sampled."""
    temperature: float | None = dataset.settings.get("temperature", 0.0) if model.takes_temperature else None
    return Sampling(temperature, dataset.settings.get(REPEAT, 1) - 1, dataset.settings.get("logprobs", False))


def name_in_run(settings: Mapping[str, Any], model: Model) -> str:
    """Return the name of a model in a run with these settings, which says how it was asked."""
    return run_name(model.name, settings, is_sampled=model.provider not in UNSAMPLED)


def judge_requests(
    benchmark: Benchmark,
    judges: Sequence[Model],
    instance: Instance,
    text: str,
    is_known: IsKnown | None = None,
    *,
    with_codes: bool = True,
) -> Iterator[JudgeRequest]:
    """Yield the first requests to each judge about a completion with this text; the judges see the same prompts.

    `is_known`: see `judge_request`. `with_codes`: False to ask for no verification codes.
    """
    from medhelm.scoring.jury.panel import judge_request  # lazy: most runs have no judges
    from medhelm.scoring.jury.prompts import judge_prompts

    prompts = judge_prompts(benchmark, instance, text, with_codes=with_codes)
    for judge in judges:
        for prompt in prompts:
            yield JudgeRequest(*judge_request(judge, prompt, is_known=is_known))


def second_judge_request(first: JudgeRequest, text: str, problem: str) -> Request:
    """Return the request that follows a judge's completion that could not be parsed.

    `text`: the completion; `problem`: what was wrong with it.
    """
    from medhelm.scoring.jury.panel import request_to_judge
    from medhelm.scoring.jury.prompts import retry_prompt

    prompt = retry_prompt(first.prompt, text, problem)
    return request_to_judge(first.request.model, prompt, first.prompt.schema)


def in_request_order(
    benchmark: Benchmark, instances: Iterable[Instance], prices: CachePrices | None
) -> Iterator[OrderedInstance]:
    """Yield the instances in their own order, except where shared prefixes are cheaper at these `prices`."""
    if prices is None:
        for position, instance in enumerate(instances):
            yield OrderedInstance(position, instance, render(benchmark, instance), 0)
        return
    for portion in _portions(benchmark, instances):
        texts = ["".join(message.text for message in one.prompt.messages) for one in portion]
        for turn in order_by_shared_prefix(texts, prices, lead=MAXIMUM_IN_FLIGHT):
            yield portion[turn.position]._replace(shared=turn.shared)


def _portions(benchmark: Benchmark, instances: Iterable[Instance]) -> Iterator[list[OrderedInstance]]:
    """Yield lists of instances that are ordered together."""
    portion: list[OrderedInstance] = []
    size = 0
    for position, instance in enumerate(instances):
        prompt = render(benchmark, instance)
        portion.append(OrderedInstance(position, instance, prompt, 0))
        size += sum(len(message.text) for message in prompt.messages)
        if len(portion) == ORDERED_TOGETHER or size >= ORDERED_CHARACTERS:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion
