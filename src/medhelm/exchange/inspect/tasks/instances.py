"""The instances of a task, which task and scorer ask for alike."""

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
    """Which instances of which benchmark: what decides them, and nothing else."""

    benchmark: str
    """Name, alias or path."""
    data: str | None = None
    """Folder with one folder of data per benchmark; None: what MEDHELM_DATA names."""
    tier: str = "real"
    """`real` or `sample`."""
    sample: str = "default"
    """Which of the benchmark's named selections."""
    limit: int | None = None
    """Only the first so many of them."""
    seed: int = 0
    """Seed of a random selection."""


@lru_cache(maxsize=2)
def opened(asked: InstanceSelector) -> tuple[Dataset, dict[str, Instance]]:
    """The instances, in order and by id. Task and scorer ask for the same ones, so the last are remembered.

    Raises: UserError, MissingError as `medhelm run` does for what is wrong or not there.
    """
    if asked.tier not in ("real", "sample"):
        raise UserError(f"tier={asked.tier}: there are `real` and `sample`.")
    folders = [Path(place) for place in os.environ.get("MEDHELM_BENCHMARKS", "").split(os.pathsep) if place]
    found = load_benchmarks([asked.benchmark], metrics=METRIC_NAMES, extra=folders)
    if len(found) != 1:
        raise UserError(f"`{asked.benchmark}` is a group of {len(found)} benchmarks; a task is one.")
    place = asked.data or os.environ.get("MEDHELM_DATA")
    dataset = open_dataset(
        found[0],
        data=Path(place) if place else None,
        tier=cast(Tier, asked.tier),
        sample=asked.sample,
        limit=asked.limit,
        seed=asked.seed,
        scoring=True,
    )
    return dataset, {instance.id: instance for instance in dataset}
