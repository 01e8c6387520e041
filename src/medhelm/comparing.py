"""From stores to a comparison of two models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from medhelm.analysis.board import Cell
from medhelm.analysis.comparison import Comparison, compare
from medhelm.domain import Rule, Tier
from medhelm.errors import UserError, suggestion
from medhelm.standings import SEED, read_finished


def compare_models(
    stores: Sequence[Path], first: str, second: str, *, rule: Rule, tier: Tier | None = None
) -> Comparison:
    """Paired differences between two models of the stores.

    Raises UserError for a model that has no finished run, or if the two share no instance.
    """
    finished = read_finished(stores, rule, tier)
    by_model: dict[str, dict[str, Cell]] = {}
    for cell in finished.cells:
        by_model.setdefault(cell.model, {})[cell.benchmark] = cell
    if unknown := [name for name in (first, second) if name not in by_model]:
        lines = [f"no finished run of `{name}`. {suggestion(name, by_model)}".rstrip() for name in unknown]
        raise UserError("\n".join(lines))
    found = compare(by_model[first], by_model[second], finished.columns, np.random.default_rng(SEED))
    if found is None:
        raise UserError(f"{first} and {second} have no instance in common: run both on the same benchmark.")
    return found
