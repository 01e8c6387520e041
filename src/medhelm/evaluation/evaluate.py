"""Evaluate models on benchmarks: check the arguments, open the data, run.

benchmark -> instances -> requests -> completions -> scores -> records -> run folder
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from medhelm.benchmarks.data.dataset import Dataset
from medhelm.domain import Benchmark, Jury, Model
from medhelm.errors import ErrorCollector
from medhelm.evaluation.recorder import NullListener
from medhelm.evaluation.runner import EvaluationRunner
from medhelm.evaluation.session import EvaluationSetup, check_and_open, with_prices, without_deleted
from medhelm.evaluation.settings import Evaluation
from medhelm.storage.store import create


def evaluate(
    benchmarks: Sequence[Benchmark],
    models: Sequence[Model],
    setup: EvaluationSetup,
    *,
    jury: Jury | None = None,
    datasets: Sequence[Dataset] = (),
    errors: ErrorCollector | None = None,
) -> Evaluation:
    """Evaluate models on benchmarks; parameters, result and errors are those of `python_api.evaluate`.

    `errors`: those in names that the caller looked up. They are raised together with the errors found here.
    """
    models = with_prices(models)
    if jury:
        jury = replace(jury, judges=tuple(with_prices(jury.judges)))
    judges = jury.judges if jury else None
    opened = check_and_open(benchmarks, models, judges, setup, errors or ErrorCollector(), datasets)
    place, listener = create(setup.store), setup.listener or NullListener()
    opened = without_deleted(opened, place)
    return run_in_event_loop(EvaluationRunner(opened, models, place, setup.settings, setup.environment, listener, jury))


def run_in_event_loop(runner: EvaluationRunner) -> Evaluation:
    """Run an evaluation to its end, from code inside or outside an event loop."""
    ended: list[Evaluation] = []

    async def run() -> None:  # without a result, whose `repr` the event loop would make at its end
        ended.append(await runner.run())

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(run())
    else:
        # A notebook has an event loop of its own: run in a thread beside it.
        with ThreadPoolExecutor(max_workers=1) as executor:
            executor.submit(lambda: asyncio.run(run())).result()
    return ended[0]
