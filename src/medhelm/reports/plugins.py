"""Installed plug-ins as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medhelm.reports.formats import tables
from medhelm.reports.formats.tables import printable

NONE = "No installed package adds providers, metrics or benchmarks."
"""Output without plug-ins."""


def to_text(rows: Sequence[Mapping[str, Any]], problems: Sequence[str]) -> str:
    """Return a table and the problems below it. Rows: `kind, name, package, version, gives, problems`."""
    listed = [
        [
            row["kind"],
            row["name"],
            f"{row['package']} {row['version']}",
            ", ".join(row["gives"]) or None,
            "see below" if row["problems"] else "yes",
        ]
        for row in rows
    ]
    headers = ["kind", "name", "package", "gives", "works"]
    shown = tables.render(listed, headers, format="table") if rows else NONE + "\n"
    wrong = dict.fromkeys([*(problem for row in rows for problem in row["problems"]), *problems])
    return shown + "".join(f"\n- {printable(problem)}" for problem in wrong) + ("\n" if wrong else "")
