"""Create an Inspect task from a benchmark, with the same instances, prompts and limits as `medhelm run`."""

from __future__ import annotations

import logging
from dataclasses import asdict, replace
from typing import Any

from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    get_model,
)
from inspect_ai.solver import generate

from medhelm import __version__
from medhelm.benchmarks.data.dataset import Dataset
from medhelm.benchmarks.prompts import render
from medhelm.domain import JURY, RULES, Benchmark, Instance, Message, Rule
from medhelm.domain.completion import REASONING_TOKENS
from medhelm.errors import MedHelmError
from medhelm.evaluation.session import check_scorable
from medhelm.extensions.exchange.importer import model_of
from medhelm.extensions.exchange.inspect.instances import InstanceSelector, load_instances
from medhelm.extensions.exchange.inspect.scorer import (
    Judges,
    estimate,
    judge_names,
    medhelm_scores,
    prerequisite_error,
    score_name,
)
from medhelm.models.model_names import reasons
from medhelm.scoring.metric import Metric
from medhelm.scoring.metrics import metrics_of
from medhelm.storage.imported_instances import instance_to_json

_LOGGER = logging.getLogger(__name__)

_ROLES = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}


def make_task(
    selector: InstanceSelector,
    *,
    judges: Judges = None,
    min_judges: int | None = None,
    judge_tokens: int | None = None,
    reasoning: bool | None = None,
) -> Task:
    """Create the task.

    `reasoning`: the model reasons before its answer, so it gets a higher token limit and no temperature; None: decide
    by the model's name, which Inspect provides while it creates a task.
    A sample that fails is an error of that sample, and the others continue: failures are missing data.
    Raises: an Inspect error with our message, for errors that a user can fix.
    """
    try:
        dataset, instances = load_instances(selector)
        names = judge_names(judges)
        metrics = _metrics(dataset.benchmark, names)
        scorer = medhelm_scores(
            **asdict(selector), judges=names or None, min_judges=min_judges, judge_tokens=judge_tokens
        )
    except MedHelmError as error:
        raise prerequisite_error(error) from error
    benchmark = dataset.benchmark
    return Task(
        dataset=MemoryDataset([sample_of(benchmark, instance) for instance in instances.values()], name=benchmark.name),
        solver=generate(),
        scorer=scorer,
        metrics={
            score_name(metric.name, rule): [
                estimate(
                    metric=metric.name,
                    rule=rule,
                    low=metric.low,
                    high=metric.high,
                    open_below=metric.open_below,
                    pooled=is_pooled(benchmark, metric, rule),
                )
            ]
            for metric in metrics
            for rule in RULES
        },
        config=_config(benchmark, reasoning=_model_reasons() if reasoning is None else reasoning),
        fail_on_error=False,
        version=benchmark.digest[:16],
        metadata={"medhelm": _about(dataset, metrics[0].name)},
    )


def _about(dataset: Dataset, main_metric: str) -> dict[str, str]:
    """Return the metadata that a log needs to be imported by MedHELM."""
    return {
        "version": __version__,
        "benchmark": dataset.benchmark.name,
        "title": dataset.benchmark.title,
        "main_metric": main_metric,
        "benchmark_digest": dataset.benchmark.digest,
        "data_digest": dataset.digest,
        "tier": dataset.tier,
    }


def sample_of(benchmark: Benchmark, instance: Instance) -> Sample:
    """Return one instance as an Inspect sample: our exact prompt, under our id."""
    messages = render(benchmark, instance).messages
    only = messages[0] if len(messages) == 1 and messages[0].role == "user" else None
    # The viewer groups by top-level keys; the instance itself makes the log independent of the data.
    metadata: dict[str, Any] = {name: value for name in ("cluster", "group") if (value := getattr(instance, name))}
    metadata["medhelm"] = instance_to_json(instance)
    return Sample(
        input=only.text if only else [_chat_message(message) for message in messages],
        choices=list(instance.choices) or None,
        target=[instance.expected] if instance.choices else list(instance.correct),
        id=instance.id,
        metadata=metadata,
    )


def is_pooled(benchmark: Benchmark, metric: Metric, rule: Rule) -> bool:
    """Return True if the score is not a mean over instances."""
    return metric.parts is not None or (bool(benchmark.group_column) and rule == "published")


def _chat_message(message: Message) -> ChatMessage:
    turn: ChatMessage = _ROLES[message.role](content=message.text)
    return turn


def _metrics(benchmark: Benchmark, judges: list[str]) -> list[Metric]:
    """Return the metrics of a benchmark. Raises: UserError if it needs judges and there are none."""
    check_scorable((benchmark,), judged=bool(judges), option="-T judges=MODEL,MODEL")
    metrics = metrics_of(benchmark, judged=bool(judges))
    if JURY in benchmark.metrics and not judges:
        _LOGGER.warning(
            "%s has free-text completions, but no judges are named (-T judges=MODEL,MODEL): %s is used instead.",
            benchmark.name,
            metrics[0].name,
        )
    return metrics


def _model_reasons() -> bool:
    """Return True if the task's model is a reasoning model by its name; False if no model is set yet."""
    try:
        return reasons(get_model().name)
    except ValueError:
        return False


def _config(benchmark: Benchmark, *, reasoning: bool) -> GenerateConfig:
    """Return our limits. A reasoning model gets no stop sequences, and no temperature if its service refuses one."""
    if not reasoning:
        return GenerateConfig(max_tokens=benchmark.max_tokens, temperature=0.0, stop_seqs=list(benchmark.stop) or None)
    return GenerateConfig(max_tokens=REASONING_TOKENS, temperature=0.0 if _model_takes_temperature() else None)


def _model_takes_temperature() -> bool:
    """Return True if the task's model, which reasons, takes a sampling temperature; False if no model is set yet."""
    try:
        return replace(model_of(str(get_model())), reasoning=True).takes_temperature
    except ValueError:
        return False
