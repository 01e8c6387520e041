"""Load the instances of a task, for both the task and its scorer."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import cast

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import Dataset, open_dataset
from medhelm.domain import Instance, Tier
from medhelm.errors import UserError
from medhelm.scoring.metrics import METRIC_NAMES


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSelector:
    """A selection of instances of a benchmark."""

    benchmark: str
    """Name, alias or path."""
    data: str | None = None
    """Folder with one data folder per benchmark; None for the folder in MEDHELM_DATA."""
    tier: str = "real"
    """`real` or `sample`."""
    sample: str = "default"
    """Name of one of the benchmark's selections."""
    limit: int | None = None
    """Maximum number of instances, from the start of the selection."""
    seed: int = 0
    """Seed of a random selection."""


@lru_cache(maxsize=2)
def load_instances(selector: InstanceSelector) -> tuple[Dataset, dict[str, Instance]]:
    """Return the data set and its instances by id. The last two are cached, because task and scorer share one.

    Raises: UserError or MissingError, as `medhelm run` does, if anything is wrong or missing.
    """
    if selector.tier not in ("real", "sample"):
        raise UserError(f"tier={selector.tier}: use `real` or `sample`.")
    folders = [Path(place) for place in os.environ.get("MEDHELM_BENCHMARKS", "").split(os.pathsep) if place]
    found = load_benchmarks([selector.benchmark], metrics=METRIC_NAMES, extra=folders)
    if len(found) != 1:
        raise UserError(f"`{selector.benchmark}` is a group of {len(found)} benchmarks; name one of them.")
    place = selector.data or os.environ.get("MEDHELM_DATA")
    dataset = open_dataset(
        found[0],
        data=Path(place) if place else None,
        tier=cast(Tier, selector.tier),
        sample=selector.sample,
        limit=selector.limit,
        seed=selector.seed,
        scoring=True,
    )
    return dataset, {instance.id: instance for instance in dataset}
