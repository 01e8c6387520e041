"""Imports as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from medhelm.domain import Rule, Run
from medhelm.domain.grouping import group_by
from medhelm.domain.titles import metric_title
from medhelm.extensions.exchange.importer import ImportedRunResult, ImportSummary
from medhelm.reports.formats.json_output import plain_json, select
from medhelm.reports.formats.tables import Value, render, tabulate


def as_json(done: ImportSummary) -> dict[str, Any]:
    """Return the output of `medhelm import ... --json`."""
    return {
        "runs": [_entry_json(entry) for entry in done.taken],
        "skipped": [{"run": name, "reason": reason} for name, reason in done.skipped],
        "remarks": list(done.remarks),
    }


def _entry_json(entry: ImportedRunResult) -> dict[str, Any]:
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


def to_table(entries: Sequence[ImportedRunResult], rule: Rule) -> str:
    """Return one line per run, with the main metric under both rules, the chosen rule first."""
    other: Rule = "published" if rule == "corrected" else "corrected"
    columns: dict[str, Callable[[ImportedRunResult], Value]] = {
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


def _unscored_notes(entries: Sequence[ImportedRunResult]) -> list[str]:
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
