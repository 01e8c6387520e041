"""Our benchmarks as tasks of Inspect: `inspect eval medhelm/pubmed_qa --model openai/gpt-4o -T data=DIR`.

The entry point `inspect_ai` of this package leads here. Every benchmark that ships is a task by its own name; one of
the user's own is `medhelm/benchmark -T path=DIR`. Instances, prompts, limits and scores are those of `medhelm run`;
the calls are Inspect's. Definitions and data are read when a task is made, not when its name is.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from inspect_ai import Task, task

import medhelm

# Named here so that Inspect finds scorer and metric by name when it scores a log again.
from medhelm.exchange.inspect.tasks.scorer import estimate as estimate
from medhelm.exchange.inspect.tasks.scorer import medhelm_scores as medhelm_scores

LIBRARY = Path(medhelm.__file__).parent / "benchmarks" / "library"
"""The benchmarks that ship, one folder for each. Their names are those of the folders: none is opened to know them."""

Judges = str | list[str] | None
"""Names of models as Inspect knows them, one or several; as text with commas between them."""


def _task_of(name: str) -> Callable[..., Task]:
    """Make the task of one benchmark known."""

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
        from medhelm.exchange.inspect.tasks.instances import InstanceSelector
        from medhelm.exchange.inspect.tasks.task import make_task

        asked = InstanceSelector(benchmark=name, data=data, tier=tier, sample=sample, limit=limit, seed=seed)
        return make_task(asked, judges=judges, min_judges=min_judges, judge_tokens=judge_tokens, reasoning=reasoning)

    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"The benchmark {name}, as `medhelm run {name}` asks and scores it."
    return task(name=name)(made)


TASKS = {folder.parent.name: _task_of(folder.parent.name) for folder in sorted(LIBRARY.glob("*/benchmark.yaml"))}
"""Name of each benchmark that ships -> its task."""


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
    """A benchmark of the user's own: the folder or YAML file of its definition, or a name or alias of ours."""
    from medhelm.exchange.inspect.tasks.instances import InstanceSelector
    from medhelm.exchange.inspect.tasks.task import make_task

    asked = InstanceSelector(benchmark=path, data=data, tier=tier, sample=sample, limit=limit, seed=seed)
    return make_task(asked, judges=judges, min_judges=min_judges, judge_tokens=judge_tokens, reasoning=reasoning)
