"""Submitted batches as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from medhelm.domain.completion import Batch
from medhelm.reports.formats import tables
from medhelm.reports.formats.json import select


def as_json(batches: Sequence[Batch]) -> list[dict[str, Any]]:
    """Return the output of `medhelm batches --json`; `batch` is null while its id at the provider is unknown."""
    return [
        {
            **select(batch, "provider model role requests=n"),
            "handed_over": datetime.fromtimestamp(batch.created, UTC).isoformat(timespec="seconds"),
            "state": batch.state,
            "batch": batch.remote_id or None,
        }
        for batch in batches
    ]


def to_table(batches: Sequence[Batch], format: str = "table") -> str:
    """Return one row per batch, oldest first."""
    headers = ["provider", "model", "role", "requests", "submitted", "state", "batch"]
    rows = [list(row.values()) for row in as_json(batches)]
    return tables.render(rows, headers, format=format)
