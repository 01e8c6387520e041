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

from medhelm.benchmarks.dataset import Dataset, open_dataset
from medhelm.domain import Benchmark, Model
from medhelm.errors import MedHelmError, MissingError, UserError
from medhelm.models.catalog import missing_key
from medhelm.models.prices import price_of
from medhelm.road import Evaluation, Road
from medhelm.run_in_progress import Nobody, Watcher
from medhelm.settings import Settings
from medhelm.storage.store import create

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
    watcher: Watcher | None = None,
) -> Evaluation:
    """Ask every model every question that the store does not answer yet, score the completions, and store the runs.

    `data` holds one folder per benchmark and is not needed for the sample tier; `environment` holds the keys.
    Raises UserError, MissingError or StoreError before anything is sent, and StoreFullError if the disk fills up.
    Everything received is kept, whatever happens.
    """
    settings = settings or Settings()
    environment = environment or {}
    models = [replace(m, price=m.price or price_of(m, datetime.now(UTC).date())) for m in models]
    _check(models, settings, environment)
    datasets = _open_all(benchmarks, data, settings)
    road = Road(datasets, models, create(store), settings, environment, watcher or Nobody())
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(road.travel())
    # A notebook has a loop of its own: travel in a thread beside it.
    with ThreadPoolExecutor(max_workers=1) as beside:
        return beside.submit(lambda: asyncio.run(road.travel())).result()


def _check(models: Sequence[Model], settings: Settings, environment: Mapping[str, str]) -> None:
    missing = [text for model in models if (text := missing_key(model, environment))]
    if missing:
        raise MissingError("\n".join([*missing, "Nothing was sent."]))
    unpriced = [model.name for model in models if model.price is None]
    if settings.max_cost_usd is not None and unpriced:
        raise UserError(
            f"--max-cost needs the price of every model; unknown: {', '.join(unpriced)}. "
            "Give `price: {input: USD, output: USD}` per million tokens in models.yaml. Nothing was sent."
        )


def _open_all(benchmarks: Sequence[Benchmark], data: Path | None, settings: Settings) -> list[Dataset]:
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
