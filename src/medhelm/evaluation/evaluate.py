"""The front door of the road from benchmarks and models to runs: `evaluate`.

benchmark -> instances -> prompt -> completion -> scores -> record -> run folder
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from medhelm.benchmarks.data.dataset import Dataset, open_dataset
from medhelm.domain import Benchmark, Jury, Model
from medhelm.errors import MedHelmError, MissingError, UserError
from medhelm.evaluation.evaluation_result import Evaluation
from medhelm.evaluation.run_recorder import NullListener, ProgressListener
from medhelm.evaluation.runner import EvaluationRunner
from medhelm.evaluation.settings import Settings
from medhelm.models.catalog import missing_key
from medhelm.models.prices import price_of
from medhelm.scoring.metrics import metrics_of
from medhelm.storage.store import Store, create

__all__ = ["Evaluation", "Settings", "evaluate"]

HELD_CHARACTERS = 50_000_000
"""How much text of benchmarks that wait for their turn is kept in memory."""


def evaluate(
    benchmarks: Sequence[Benchmark],
    models: Sequence[Model],
    *,
    store: Path,
    data: Path | None = None,
    settings: Settings | None = None,
    environment: Mapping[str, str] | None = None,
    listener: ProgressListener | None = None,
    jury: Jury | None = None,
    like: Sequence[Path] = (),
    library: Mapping[str, Benchmark] | None = None,
) -> Evaluation:
    """Ask every model every question that the store does not answer yet, score the completions, and store the runs.

    Open-ended benchmarks are judged by `jury`; without one the metrics that need no judge stand in.

    `like` are folders of finished runs of HELM, whose prompts are sent as they were; `library` the benchmarks that are
    known, by name and alias.
    `data` holds one folder per benchmark and is not needed for the sample tier; `environment` holds the keys.
    Raises UserError, MissingError or StoreError before anything is sent, and StoreFullError if the disk fills up.
    Everything received is kept, whatever happens.
    """
    settings = settings or Settings()
    environment = environment or {}
    models, jury = with_prices(models, jury)
    check(models, jury, settings, environment)
    for benchmark in benchmarks:  # metrics of packages are imported here, and what is wrong with them shows
        if not metrics_of(benchmark, judged=False) and jury is None:
            raise UserError(f"{benchmark.name} can only be scored by judges: name some with --judge. Nothing was sent.")
    datasets = open_all(benchmarks, data, settings)
    place = create(store)
    if like:
        datasets += _as_asked(like, library or {}, place, settings, data, judged=jury is not None)
    return run_in_event_loop(
        EvaluationRunner(datasets, models, place, settings, environment, listener or NullListener(), jury)
    )


def _as_asked(
    folders: Sequence[Path],
    library: Mapping[str, Benchmark],
    store: Store,
    settings: Settings,
    data: Path | None,
    *,
    judged: bool,
) -> list[Dataset]:
    """The questions of finished runs of HELM. Raises: UserError if some cannot be read, or not be scored."""
    from medhelm.exchange.helm.same_prompts import like_helm

    found = like_helm(folders, library, store, limit=settings.limit, data=data)
    for dataset in found:
        if not metrics_of(dataset.benchmark, judged=judged, foreign=True):
            name = dataset.benchmark.name
            raise UserError(f"{name} can only be scored by judges: name some with --judge. Nothing was sent.")
    return found


def run_in_event_loop(road: EvaluationRunner) -> Evaluation:
    """Walk a road to its end, wherever this is called."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(road.travel())
    # A notebook has a loop of its own: travel in a thread beside it.
    with ThreadPoolExecutor(max_workers=1) as beside:
        return beside.submit(lambda: asyncio.run(road.travel())).result()


def with_prices(models: Sequence[Model], jury: Jury | None) -> tuple[list[Model], Jury | None]:
    """Models and judges with the prices of today, where they have none of their own."""
    today = datetime.now(UTC).date()
    with_price = [replace(model, price=model.price or price_of(model, today)) for model in models]
    if jury is None:
        return with_price, None
    judges = tuple(replace(judge, price=judge.price or price_of(judge, today)) for judge in jury.judges)
    return with_price, replace(jury, judges=judges)


def check(models: Sequence[Model], jury: Jury | None, settings: Settings, environment: Mapping[str, str]) -> None:
    """Raises: MissingError or UserError with everything that is missing of keys, or of prices where they are needed."""
    asked = {model.name: model for model in (*models, *(jury.judges if jury else ()))}.values()
    missing = [text for model in asked if (text := missing_key(model, environment))]
    if missing:
        raise MissingError("\n".join([*missing, "Nothing was sent."]))
    unpriced = [model.name for model in asked if model.price is None]
    if settings.max_cost_usd is not None and unpriced:
        raise UserError(
            f"--max-cost needs the price of every model and judge; unknown: {', '.join(unpriced)}. "
            "Give `price: {input: USD, output: USD}` per million tokens in models.yaml. Nothing was sent."
        )


def open_all(benchmarks: Sequence[Benchmark], data: Path | None, settings: Settings) -> list[Dataset]:
    """Open all data, and name everything that is wrong with it at once."""
    opened: list[Dataset] = []
    held = 0
    errors: list[MedHelmError] = []
    for benchmark in benchmarks:
        try:
            dataset = open_dataset(
                benchmark,
                data=data,
                tier=settings.tier,
                sample=settings.sample,
                limit=settings.limit,
                seed=settings.seed,
                scoring=True,
            )
        except (UserError, MissingError) as error:
            errors.append(error)
        else:
            opened.append(dataset)
            held += dataset.held
            if held > HELD_CHARACTERS:  # read again when its turn comes
                held -= dataset.held
                dataset.release()
    if errors:
        worst = next((e for e in errors if isinstance(e, UserError)), errors[0])
        kind = UserError if isinstance(worst, UserError) else MissingError
        raise kind("\n\n".join([*map(str, errors), "Nothing was sent."])) from worst
    return opened
