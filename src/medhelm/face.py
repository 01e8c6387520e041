"""What `import medhelm` offers to notebooks and scripts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.domain import Benchmark, Jury, Model, Run
from medhelm.evaluation.evaluate import Settings, evaluate
from medhelm.models import catalog
from medhelm.results.leaderboard import leaderboard
from medhelm.results.published import published_leaderboard, published_rows
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage import runs
from medhelm.storage.judgments import read_judgments
from medhelm.storage.runs import read_records
from medhelm.storage.store import open_store

__all__ = [
    "Jury",
    "Settings",
    "evaluate",
    "find_models",
    "leaderboard",
    "load_benchmark",
    "load_runs",
    "published_leaderboard",
    "published_scores",
    "read_judgments",
    "read_records",
]


def load_benchmark(name: str, *, folders: Sequence[Path] = ()) -> Benchmark:
    """The benchmark of that name, alias, or path; `folders` hold further ones.

    Raises: UserError for an unknown name or a group, ConfigError for a definition that is wrong.
    """
    found = load_benchmarks([name], metrics=METRIC_NAMES, extra=folders)
    if len(found) != 1:
        raise ValueError(f"`{name}` is a group of {len(found)} benchmarks: {', '.join(b.name for b in found)}")
    return found[0]


def find_models(names: Sequence[str], *, file: Path | None = None) -> list[Model]:
    """Models by the names that `--model` takes; `file`: a models.yaml. Keys come from the environment."""
    return catalog.find_models(names, file=file, environment=os.environ)


def load_runs(store: Path) -> list[Run]:
    """Every whole run in a store, with its estimates under both rules."""
    return runs.load_runs(open_store(store))


def published_scores(suite: str = "paper35") -> list[dict[str, Any]]:
    """The published score of each of nine models on each benchmark of a suite, one dictionary each: for a data frame.

    Keys: model, name, benchmark, title, category, metric, scale_low, scale_high, value, low, high, n, input_tokens,
    output_tokens, cost_usd. `value`, `low` and `high` are in the metric's own unit, `low` and `high` None where no
    interval can be given; output tokens and costs are upper bounds. `suite`: paper35, all, or a file.
    """
    return published_rows(suite)
