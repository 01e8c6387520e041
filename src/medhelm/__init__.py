"""Evaluate language models on real medical work.

from pathlib import Path
import medhelm

benchmarks = [medhelm.load_benchmark("pubmed_qa")]
models = medhelm.find_models(["baseline/majority"])
done = medhelm.evaluate(benchmarks, models, store=Path("store"), data=Path("data"))
board = medhelm.leaderboard([Path("store")])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

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

if TYPE_CHECKING:
    from medhelm.face import (
        Jury,
        Settings,
        evaluate,
        find_models,
        leaderboard,
        load_benchmark,
        load_runs,
        published_leaderboard,
        published_scores,
        read_judgments,
        read_records,
    )


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is asked for, so that the command line starts at once."""
    if name not in __all__:
        raise AttributeError(f"module `medhelm` has no attribute `{name}`")
    from importlib import import_module

    face = import_module("medhelm.face")
    # All at once: the import made the module `medhelm.evaluation.evaluate` an attribute that would hide the function.
    globals().update({offered: getattr(face, offered) for offered in face.__all__})
    return globals()[name]


def __dir__() -> list[str]:
    """What is offered."""
    return sorted({*globals(), *__all__})
