"""Offer MedHELM benchmarks as Inspect tasks: `inspect eval medhelm/pubmed_qa --model openai/gpt-4o -T data=DIR`.

This module is the package's entry point for `inspect_ai`. Every built-in benchmark is a task with its own name; a
user's own benchmark is `medhelm/benchmark -T path=DIR`. Instances, prompts, limits and scores are those of
`medhelm run`; Inspect makes the requests. Definitions and data are read when a task is created, not when it is
listed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from inspect_ai import Task, task

import medhelm
from medhelm.extensions.exchange.inspect.scorer import Judges
from medhelm.extensions.exchange.inspect.scorer import estimate as estimate
from medhelm.extensions.exchange.inspect.scorer import medhelm_scores as medhelm_scores

# Listed here so that Inspect finds the scorer and the metric by name when it scores a log again.

LIBRARY = Path(medhelm.__file__).parent / "benchmarks" / "library"
"""Folder of the built-in benchmarks, which are named after their folders, so that listing them opens no file."""


def _task_of(name: str) -> Callable[..., Task]:
    """Register the task of one benchmark."""

    def made(
        data: str | None = None,
        tier: str = "real",
        sample: str = "default",
        limit: int | None = None,
        seed: int = 0,
        judges: Judges = None,
        min_judges: int | None = None,
        judge_tokens: int | None = None,
        reasoning: bool | None = None,
    ) -> Task:
        from medhelm.extensions.exchange.inspect.instances import InstanceSelector
        from medhelm.extensions.exchange.inspect.task import make_task

        selector = InstanceSelector(benchmark=name, data=data, tier=tier, sample=sample, limit=limit, seed=seed)
        return make_task(selector, judges=judges, min_judges=min_judges, judge_tokens=judge_tokens, reasoning=reasoning)

    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"The benchmark {name}, with the prompts and scores of `medhelm run {name}`."
    return task(name=name)(made)


TASKS = {folder.parent.name: _task_of(folder.parent.name) for folder in sorted(LIBRARY.glob("*/benchmark.yaml"))}
"""Name of each built-in benchmark -> its task."""


@task
def benchmark(
    path: str,
    data: str | None = None,
    tier: str = "real",
    sample: str = "default",
    limit: int | None = None,
    seed: int = 0,
    judges: Judges = None,
    min_judges: int | None = None,
    judge_tokens: int | None = None,
    reasoning: bool | None = None,
) -> Task:
    """Create the task of a user's own benchmark: the folder or YAML file of its definition, or a name or alias."""
    from medhelm.extensions.exchange.inspect.instances import InstanceSelector
    from medhelm.extensions.exchange.inspect.task import make_task

    selector = InstanceSelector(benchmark=path, data=data, tier=tier, sample=sample, limit=limit, seed=seed)
    return make_task(selector, judges=judges, min_judges=min_judges, judge_tokens=judge_tokens, reasoning=reasoning)
