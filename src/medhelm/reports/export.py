"""Exports and imports as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from medhelm.domain import Rule, Run
from medhelm.domain.grouping import group_by
from medhelm.domain.text import plural
from medhelm.domain.titles import metric_title
from medhelm.reports.formats.json_output import plain_json, select
from medhelm.reports.formats.tables import Value, render, size_text, tabulate

# --- exports ----------------------------------------------------------------------------------------------------------


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


# --- imports ----------------------------------------------------------------------------------------------------------


class ImportEntry(Protocol):
    """One imported run."""

    @property
    def run(self) -> Run:
        """The run as stored."""

    @property
    def state(self) -> Literal["new", "unchanged", "changed"]:
        """Effect on the store."""

    @property
    def remarks(self) -> Sequence[str]:
        """Remarks on the import."""


def import_as_json(
    entries: Sequence[ImportEntry], skipped: Sequence[tuple[str, str]], remarks: Sequence[str]
) -> dict[str, Any]:
    """Return the output of `medhelm import ... --json`."""
    return {
        "runs": [_entry_json(entry) for entry in entries],
        "skipped": [{"run": name, "reason": reason} for name, reason in skipped],
        "remarks": list(remarks),
    }


def _entry_json(entry: ImportEntry) -> dict[str, Any]:
    run = entry.run
    return {
        **select(run, "benchmark model"),
        "state": entry.state,
        **select(run, "status n n_failed main_metric metrics_by_rule=estimates groups not_computed"),
        "judges": [judge.name for judge in run.judges],
        "origin": plain_json(run.origin),
        "remarks": list(entry.remarks),
        **select(run, "run_dir=folder"),
    }


def import_to_table(entries: Sequence[ImportEntry], rule: Rule) -> str:
    """Return one line per run, with the main metric under both rules, the chosen rule first."""
    other: Rule = "published" if rule == "corrected" else "corrected"
    columns: dict[str, Callable[[ImportEntry], Value]] = {
        "benchmark": lambda entry: entry.run.benchmark,
        "model": lambda entry: entry.run.model,
        "state": lambda entry: entry.state,
        "n": lambda entry: entry.run.n,
        "failed": lambda entry: entry.run.n_failed,
        "metric": lambda entry: metric_title(entry.run.main_metric),
        rule: lambda entry: _main_score(entry.run, rule),
        other: lambda entry: _main_score(entry.run, other),
    }
    text = render(*tabulate(entries, columns), drop=("failed", "metric", other))
    return "\n".join([text.rstrip(), *_unscored_notes(entries)])


def _unscored_notes(entries: Sequence[ImportEntry]) -> list[str]:
    """Return sentences on runs without a corrected score: what computes it, or why nothing can."""
    unscored = [entry.run for entry in entries if entry.run.main_metric not in entry.run.estimates["corrected"]]
    waiting = [run for run in unscored if run.is_complete and run.main_metric not in run.not_computed]
    notes = []
    if waiting:
        verb = "has" if len(waiting) == 1 else "have"
        notes.append(f"{len(waiting)} of {len(entries)} runs {verb} no corrected score yet: run `medhelm rescore`.")
    for reason, runs in group_by(unscored, lambda run: run.not_computed.get(run.main_metric, "")).items():
        if reason:
            verb = "has" if len(runs) == 1 else "have"
            notes.append(
                f"{len(runs)} of {len(entries)} runs {verb} no corrected score: {reason}. "
                "`medhelm leaderboard --scoring published` shows the scores of the harness."
            )
    return notes


def _main_score(run: Run, rule: Rule) -> float | None:
    estimate = run.estimates[rule].get(run.main_metric)
    return None if estimate is None else round(estimate.value, 3)
