"""Evaluate language models on real medical work.

from pathlib import Path
import medhelm

benchmarks = [medhelm.load_benchmark("pubmed_qa")]
models = medhelm.find_models(["baseline/majority"])
evaluation = medhelm.evaluate(benchmarks, models, store=Path("store"), data=Path("data"))
leaderboard = medhelm.leaderboard([Path("store")])
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from medhelm.domain import Benchmark, Jury, Model, Run
    from medhelm.evaluation.evaluate import evaluate
    from medhelm.evaluation.settings import Settings
    from medhelm.results.leaderboard import leaderboard
    from medhelm.results.published.boards import published_leaderboard
    from medhelm.storage.judgments import read_judgments
    from medhelm.storage.runs import read_records

__version__ = "0.2.0"

__all__ = [
    "Jury",
    "Settings",
    "__version__",
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

_MODULES = {
    "Jury": "medhelm.domain",
    "Settings": "medhelm.evaluation.settings",
    "evaluate": "medhelm.evaluation.evaluate",
    "leaderboard": "medhelm.results.leaderboard",
    "published_leaderboard": "medhelm.results.published.boards",
    "read_judgments": "medhelm.storage.judgments",
    "read_records": "medhelm.storage.runs",
}
"""Public name -> the module that defines it. Loaded on first use, so that the command line starts at once."""


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module `medhelm` has no attribute `{name}`")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})


def load_benchmark(name: str, *, folders: Sequence[Path] = ()) -> Benchmark:
    """Load the benchmark with this name, alias, or path.

    Parameters
    ----------
    name
        Name or alias of a benchmark, or the path of a definition.
    folders
        Folders with further definitions.

    Raises
    ------
    UserError
        If the name is unknown.
    ConfigError
        If the definition is wrong; lists every problem with its line.
    ValueError
        If the name is that of a group of benchmarks.
    """
    from medhelm.benchmarks.catalog import load_benchmarks
    from medhelm.scoring.metrics import METRIC_NAMES

    found = load_benchmarks([name], metrics=METRIC_NAMES, extra=folders)
    if len(found) != 1:
        raise ValueError(f"`{name}` is a group of {len(found)} benchmarks: {', '.join(b.name for b in found)}")
    return found[0]


def find_models(names: Sequence[str], *, file: Path | None = None) -> list[Model]:
    """Find models by the names that `--model` takes; keys come from the environment.

    Parameters
    ----------
    names
        `PROVIDER/NAME`, `openai/NAME@URL`, or names defined in `file`.
    file
        A `models.yaml`; None looks for one in the working directory.

    Raises
    ------
    UserError
        If a name is wrong; lists every problem.
    """
    from medhelm.models import catalog

    return catalog.find_models(names, file=file, environment=os.environ)


def load_runs(store: Path) -> list[Run]:
    """Load every complete or partial run in a store, with its estimates under both rules.

    Raises
    ------
    StoreError
        If `store` is not a store, or a run in it is damaged.
    """
    from medhelm.storage import runs
    from medhelm.storage.store import open_store

    return runs.load_runs(open_store(store))


def published_scores(suite: str = "paper35") -> list[dict[str, Any]]:
    """Return the published score of each of nine models on each benchmark of a suite: rows for a data frame.

    Parameters
    ----------
    suite
        `paper35`, `all`, or the path of a suite file.

    Returns
    -------
    list of dict
        Keys: model, name, benchmark, title, category, metric, scale_low, scale_high, value, low, high, n,
        input_tokens, output_tokens, cost_usd. `value`, `low` and `high` are in the metric's own unit; `low` and `high`
        are None where no interval can be given. Output tokens and costs are upper bounds.
    """
    from medhelm.results.published.cells import published_rows

    return published_rows(suite)
