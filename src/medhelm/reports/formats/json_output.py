"""Dataclasses as JSON whose keys stay when fields are renamed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medhelm.reports.formats.tables import number

if TYPE_CHECKING:
    from medhelm.domain import InjectionEffect
    from medhelm.domain.remark import LeftOut

KEYS: Mapping[str, Mapping[str, str]] = {
    "BenchmarkCheck": {"constant_baseline": "floor"},
    "CellProvenance": {"min_judges": "at_least"},
    "Completion": {"refused_parameters": "refused_parts"},
    "RankSwap": {"is_significant": "told_apart"},
    "Origin": {"completions_made_here": "asked_here", "is_medhelm_task": "our_task"},
    "Release": {"medhelm_version": "medhelm", "provenance": "bases", "leaderboard": "board"},
}
"""Class -> field -> JSON key, for fields whose key differs. The approved outputs of the tests hold all keys."""


def plain_json(value: Any) -> Any:
    """Return a value as plain JSON types: dataclasses become objects, tuples become lists, paths become texts.

    >>> from medhelm.domain import Usage
    >>> plain_json({"tokens": Usage(input=3)})["tokens"]["input"]
    3
    """
    if is_dataclass(value) and not isinstance(value, type):
        keys = KEYS.get(type(value).__name__, {})
        return {keys.get(field.name, field.name): plain_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain_json(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


def select(value: Any, names: str, *, rounded: bool = False) -> dict[str, Any]:
    """Return fields of a dataclass as JSON, in this order; `key=field` renames, and `key=outer.inner` reaches inside.

    A field of `outer` is None if `outer` is None.

    Parameters: rounded, whether floats are rounded to six decimals, and nan and infinity become None.

    >>> from medhelm.domain import Usage
    >>> select(Usage(input=3, output=4), "output prompt=input")
    {'output': 4, 'prompt': 3}
    """
    found = {}
    for name in names.split():
        key, _, path = name.partition("=")
        content = value
        for part in (path or key).split("."):
            content = None if content is None else getattr(content, part)
        found[key] = number(content) if rounded and isinstance(content, float) else plain_json(content)
    return found


def estimate_json(found: Any | None, names: str = "value low high") -> dict[str, Any] | None:
    """Return a number with its interval as rounded JSON; None stays None. `names`: see `select`."""
    return None if found is None else select(found, names, rounded=True)


def left_out_json(entries: Iterable[LeftOut]) -> list[dict[str, Any]]:
    """Return the models that do not count on a benchmark, with the reason and the command after which they do."""
    return [select(entry, "model benchmark reason command") for entry in entries]


def injection_effects_json(effects: Iterable[InjectionEffect]) -> list[dict[str, Any]]:
    """Return the runs with completions that have signs of a prompt injection."""
    return [select(one, "model benchmark n n_suspicious=n_flagged mean mean_without", rounded=True) for one in effects]


def probability(p: float | None) -> float | None:
    """Return a p-value for JSON: four significant digits, however small; None if undefined."""
    return None if p is None or not math.isfinite(p) else float(f"{p:.4g}")
