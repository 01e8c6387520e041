"""Exports as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medhelm.domain.text import plural
from medhelm.reports.formats.json_output import select
from medhelm.reports.formats.tables import size_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportResult:
    """The files that an export wrote."""

    kind: str
    """Format of the export, such as `helm`."""
    place: Path
    """Folder or file."""
    files: int
    """Number of files."""
    bytes: int
    """Their size."""
    counts: Mapping[str, int]
    """Plural noun, such as `runs`, or name of a table -> how many of them, or of its rows, were written."""
    scoring: str = ""
    """Rule of the scores; empty if the files hold both."""
    remarks: tuple[str, ...] = ()
    """Sentences for the reader."""
    left_out: tuple[str, ...] = ()
    """Runs that could not be exported, each with the reason."""


def export_as_json(result: ExportResult) -> dict[str, Any]:
    """Return the output of `medhelm export ... --json`."""
    return {
        **select(result, "kind path=place files bytes counts"),
        **({"scoring": result.scoring} if result.scoring else {}),
        "left_out": list(result.left_out),
    }


def export_to_text(result: ExportResult) -> str:
    """Return one line: format, counts, size and place."""
    counts = ", ".join(
        plural(number, noun[:-1], noun) if noun.endswith("s") else f"{plural(number, 'row')} of the {noun}"
        for noun, number in result.counts.items()
    )
    rule = f" ({result.scoring} scoring)" if result.scoring else ""
    size = size_text(result.bytes)
    return f"{result.kind}: {counts}{rule} in {plural(result.files, 'file')}, {size}: {result.place}\n"
