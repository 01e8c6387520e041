"""Evaluate language models on real medical work.

import medhelm

settings = medhelm.Settings(tier="sample")
evaluation = medhelm.evaluate("pubmed_qa", ["baseline/majority", "baseline/lexical"], store="store", settings=settings)
leaderboard = medhelm.leaderboard("store")
print(leaderboard)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from medhelm.analysis.comparison.pairs import ComparedPairs, Comparison
    from medhelm.analysis.leaderboard.types import Leaderboard
    from medhelm.domain import Jury, Run, Runs
    from medhelm.errors import ConfigError, DataError, MedHelmError, MissingError, StoreError, UserError
    from medhelm.evaluation.python_api import evaluate, load_benchmark
    from medhelm.evaluation.settings import Evaluation, Settings
    from medhelm.models.catalog import find_models
    from medhelm.results.comparison import compare
    from medhelm.results.leaderboard import leaderboard
    from medhelm.results.options import BoardOptions, CalibrationOptions, RunFilter
    from medhelm.results.published.boards import published_leaderboard, published_scores
    from medhelm.results.runs.cells import load_runs, read_judgments, read_records

__version__ = "0.2.0"

__all__ = [
    "BoardOptions",
    "CalibrationOptions",
    "ComparedPairs",
    "Comparison",
    "ConfigError",
    "DataError",
    "Evaluation",
    "Jury",
    "Leaderboard",
    "MedHelmError",
    "MissingError",
    "Run",
    "RunFilter",
    "Runs",
    "Settings",
    "StoreError",
    "UserError",
    "__version__",
    "compare",
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
    "analysis.comparison.pairs": "ComparedPairs Comparison",
    "analysis.leaderboard.types": "Leaderboard",
    "domain": "Jury Run Runs",
    "errors": "ConfigError DataError MedHelmError MissingError StoreError UserError",
    "evaluation.python_api": "evaluate load_benchmark",
    "evaluation.settings": "Evaluation Settings",
    "models.catalog": "find_models",
    "results.comparison": "compare",
    "results.leaderboard": "leaderboard",
    "results.published.boards": "published_leaderboard published_scores",
    "results.runs.cells": "load_runs read_judgments read_records",
    "results.options": "BoardOptions CalibrationOptions RunFilter",
}
"""Module -> the public names that it defines. Loaded on first use, so that the command line starts at once."""


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    for module, names in _MODULES.items():
        if name in names.split():
            from importlib import import_module

            value = globals()[name] = getattr(import_module(f"medhelm.{module}"), name)
            return value
    raise AttributeError(f"module `medhelm` has no attribute `{name}`")


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
