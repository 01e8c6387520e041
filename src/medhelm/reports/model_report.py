"""Models as a table and as JSON: where they are, what they cost, and whether they answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from medhelm.domain import Completion, Model
from medhelm.reports.tables import render


def list_table(models: Sequence[Model]) -> str:
    """One line per model; a price is in US dollars per million input and output tokens."""
    headers = ["model", "provider", "address", "key", "window", "reasoning", "price in", "price out"]
    rows = [
        [
            model.name,
            model.provider,
            model.base_url or "this process",
            model.key_variable or "none",
            str(model.window or "?"),
            "yes" if model.reasoning else "no",
            "?" if model.price is None else f"{model.price.input:g}",
            "?" if model.price is None else f"{model.price.output:g}",
        ]
        for model in models
    ]
    return render(rows, headers)


def to_json(model: Model, answer: Completion | None = None) -> dict[str, Any]:
    """A model, and what it answered if it was asked."""
    return {**asdict(model), **({"answer": asdict(answer)} if answer else {})}


def check_line(model: Model, answer: Completion) -> str:
    """What came of asking a model once."""
    if answer.failure:
        return f"{model.name}: {answer.failure.code}: {answer.failure.message}"
    version = f", reports itself as {answer.reported_model}" if answer.reported_model else ""
    return f"{model.name}: answered {answer.text!r} in {answer.latency_s:.2f} s{version}"
