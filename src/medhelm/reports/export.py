"""Exports as text and as JSON."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

from medhelm.domain.text import plural
from medhelm.io.spreadsheets import LONGEST_CELL
from medhelm.reports.formats.fields import NEVER, columns_of
from medhelm.reports.formats.json import select
from medhelm.reports.formats.tables import render, size_text
from medhelm.reports.leaderboard_fields import CSV_FIRST, EMPTY, model_fields

# --- export -----------------------------------------------------------------------------------------------------------


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


# --- data dictionary --------------------------------------------------------------------------------------------------
# Descriptions of the columns of exported tables: the data dictionary that goes with them.
#
# `data_dictionary.csv` lists the columns of each table in order; those of the leaderboard are its fields. A line with
# only a table and a column repeats the first description of that column. `missing` says when a cell is empty; columns
# with `text` are exported only with texts.

Kind = Literal["text", "whole number", "number", "true or false", "JSON"]
"""Type of a column."""

FILE = Path(__file__).with_name("data_dictionary.csv")


@dataclass(frozen=True, slots=True)
class ColumnEntry:
    """One column of one table."""

    column: str
    """Name of the column."""
    kind: Kind
    """Type of its cells."""
    meaning: str
    """Description, one or two sentences."""
    missing: str = NEVER
    """Condition under which a cell is empty."""
    unit: str = ""
    """Unit; empty without one."""
    range: str = ""
    """Range or list of values; empty for any."""
    is_text: bool = False
    """True for columns that may contain patient data and are exported only on request."""


@dataclass(frozen=True, slots=True)
class MetricEntry:
    """One metric."""

    name: str
    """Name of the metric."""
    description: str
    """Meaning of the metric, one sentence."""
    range: str
    """Range of its values."""


TABLES: Mapping[str, str] = {
    "runs": "One row per run: one model on one benchmark with fixed settings.",
    "estimates": "One row per run, metric and rule: the mean of the metric with its 95% interval.",
    "groups": "One row per run and group of instances, for benchmarks with groups.",
    "judges": "One row per run and judge: judgments, tokens and cost.",
    "records": "One row per run and instance: the scores of one completion.",
    "judgments": "One row per run, instance, judge and criterion: one grade.",
    "leaderboard": "One row per rule and model: the models in order of rank.",
    "prompts": "One row per benchmark and instance: the prompt, options and references.",
}
"""Table -> meaning of a row."""

TEXT_TABLES = {"prompts"}
"""Tables that are exported only with texts."""


@cache
def _columns() -> dict[str, list[ColumnEntry]]:
    """Read the file: table -> its columns in order."""
    tables: dict[str, list[ColumnEntry]] = {table: [] for table in TABLES}
    first: dict[str, ColumnEntry] = {}
    with FILE.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            name = row["column"]
            if row["type"]:
                entry = ColumnEntry(
                    name,
                    cast(Kind, row["type"]),
                    row["meaning"],
                    row["missing"] or NEVER,
                    row["unit"],
                    row["range"],
                    row["text"] == "yes",
                )
                first.setdefault(name, entry)
            tables[row["table"]].append(entry if row["type"] else first[name])
    tables["leaderboard"] = [
        ColumnEntry(field.key, cast(Kind, field.kind), field.meaning, field.missing, field.unit, field.range)
        for field in columns_of(model_fields(EMPTY), CSV_FIRST)
    ]
    return tables


def dictionary(metrics: Iterable[MetricEntry], *, texts: bool) -> dict[str, list[ColumnEntry]]:
    """Return the columns of each table in order, for these metrics, and with or without texts."""
    tables = {
        table: [entry for entry in entries if texts or not entry.is_text]
        for table, entries in _columns().items()
        if texts or table not in TEXT_TABLES
    }
    records = tables["records"]
    place = next((i for i, entry in enumerate(records) if entry.is_text), len(records))
    records[place:place] = _scores(metrics)
    return tables


def _scores(metrics: Iterable[MetricEntry]) -> list[ColumnEntry]:
    """Return two columns for each metric."""
    missing = "not a metric of the benchmark, no completion, or no score"
    return [
        ColumnEntry(
            f"{metric.name}_{rule}",
            "number",
            f"{metric.description} {rule.capitalize()} rule.",
            missing,
            "the metric's own",
            metric.range,
        )
        for metric in metrics
        for rule in ("corrected", "published")
    ]


def to_rows(tables: Mapping[str, Sequence[ColumnEntry]]) -> list[dict[str, str | None]]:
    """Return the dictionary as rows of a table."""
    return [
        {
            "table": table,
            **select(entry, "column type=kind"),
            "unit": entry.unit or None,
            "range": entry.range or None,
            **select(entry, "meaning missing"),
        }
        for table, entries in tables.items()
        for entry in entries
    ]


def to_markdown(tables: Mapping[str, Sequence[ColumnEntry]], *, format: str, texts: bool) -> str:
    """Return the dictionary as Markdown."""
    content = (
        "These tables contain prompts and completions. If those contain patient data, protect the tables accordingly."
        if texts
        else "These tables contain no prompts, completions or judges' explanations. Ids of instances come from the "
        "data set: if they identify patients, so do the tables. Clusters are keyed hashes of their names."
    )
    lines = ["# Data dictionary", "", content, "", *_how(format)]
    for table, entries in tables.items():
        rows = [list(row.values())[1:] for row in to_rows({table: entries})]
        heads = ["column", "type", "unit", "range", "meaning", "missing when"]
        lines += [f"## {table}.{format}", "", TABLES[table], "", render(rows, heads, format="md")]
    return "\n".join(lines).rstrip() + "\n"


def _how(format: str) -> list[str]:
    """Return the description of the file format."""
    if format == "parquet":
        return ["A missing value is null.", ""]
    return [
        'CSV as in RFC 4180, UTF-8, with one header line. An empty field is a missing value; an empty text is `""`. '
        "A text that a spreadsheet may run as a formula gets a leading apostrophe; remove one apostrophe to restore "
        "the text. Such a text starts with =, +, - or @, perhaps after spaces, or with a tab or a carriage return, and "
        f"is not a number. Excel cuts texts of more than {LONGEST_CELL:,} characters; `medhelm export parquet` has "
        "them in full.",
        "",
    ]
