"""Export the runs of a store as plain tables with a data dictionary."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from medhelm import __version__
from medhelm.analysis.cost.sums import sum_costs
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.domain import JURY, RULES, Rule, Run, Usage
from medhelm.io.export_folder import check_export, new_export
from medhelm.reports.data_dictionary import ColumnEntry, Kind, MetricEntry, dictionary, to_markdown, to_rows
from medhelm.reports.export import ExportResult
from medhelm.reports.formats.fields import columns_of, file_rows
from medhelm.reports.formats.json_output import select
from medhelm.reports.leaderboard_fields import CSV_FIRST, model_fields
from medhelm.results.export_selection import (
    ExportSelection,
    benchmarks_with_record_numbers,
    export_leaderboard,
    folder_size,
    select_for_export,
)
from medhelm.results.options import USUAL, BoardOptions
from medhelm.results.runs.counted_failures import counted_runs
from medhelm.scoring.metrics import METRICS
from medhelm.storage.export_tables import (
    PROMPTS,
    Format,
    RecordSource,
    judgment_columns,
    record_columns,
    write_joined,
    write_rows,
)
from medhelm.storage.privacy.export_log import record_export
from medhelm.storage.privacy.pseudonyms import Pseudonyms
from medhelm.storage.runs import run_metrics

_TYPES: Mapping[Kind, str] = {
    "text": "VARCHAR",
    "JSON": "VARCHAR",
    "whole number": "BIGINT",
    "number": "DOUBLE",
    "true or false": "BOOLEAN",
}
"""Kind of a column -> its type in DuckDB."""


def export_tables(
    store: Path, folder: Path, format: Format, options: BoardOptions = USUAL, *, texts: bool = False
) -> ExportResult:
    """Write the selected runs of a store as tables, and `dictionary.csv` and `dictionary.md`.

    Column `counts` of the table `runs` says which runs are on the leaderboard.
    Parameters: folder, new, empty or an export of the same kind; texts, True to include prompts, completions and
    explanations of judges.
    Raises: UserError, StoreError, StoreFullError.
    """
    check_export(folder, format)
    selection = select_for_export(store, options)
    metrics = _metrics(selection)
    described = dictionary(map(_describe, metrics), texts=texts)
    by_rule = [replace(options, rule=rule) for rule in RULES if selection.counted]
    boards = [export_leaderboard(store, selection, one) for one in by_rule]
    counts: dict[str, int] = {}
    with new_export(folder, format, {"medhelm": __version__, "texts": texts, "tier": selection.tier}) as new:

        def place(table: str) -> Path:
            return new / f"{table}.{format}"

        small: dict[str, Iterator[dict[str, Any]]] = {
            "runs": _runs(selection),
            "estimates": _estimates(selection),
            "groups": _groups(selection),
            "judges": _judges(selection),
            "leaderboard": _leaderboard(boards),
        }
        for table, rows in small.items():
            counts[table] = write_rows(place(table), _columns(described[table]), rows)
        counts["records"] = write_joined(
            place("records"),
            record_columns(metrics, texts=texts),
            _sources(selection, "records.parquet"),
            Pseudonyms.of_store(selection.store),
        )
        counts["judgments"] = write_joined(
            place("judgments"), judgment_columns(texts=texts), _sources(selection, "judgments.parquet")
        )
        if texts:
            counts["prompts"] = write_joined(place("prompts"), PROMPTS, _prompts(selection))
        names = dict.fromkeys(("table", "column", "type", "unit", "range", "meaning", "missing"), "VARCHAR")
        write_rows(new / "dictionary.csv", names, to_rows(described))
        words = to_markdown(described, format=format, texts=texts)
        (new / "dictionary.md").write_text(words, encoding="utf-8")
    record_export(store, folder, format, (run.benchmark for run in selection.runs), has_text=texts)
    files, size = folder_size(folder)
    return ExportResult(
        kind=format,
        place=folder,
        files=files,
        bytes=size,
        counts=counts,
        remarks=(*map(str, selection.remarks), *_cluster_remarks(selection)),
    )


def _cluster_remarks(selection: ExportSelection) -> Iterator[str]:
    """Yield a remark for each benchmark whose clusters look like record numbers of patients."""
    for name in benchmarks_with_record_numbers(selection.runs):
        yield (
            f"{name}: the clusters look like record numbers of patients. The column `cluster` holds keyed hashes "
            "of them; ids of instances are written as they are."
        )


def _metrics(selection: ExportSelection) -> list[str]:
    """Return all metrics of the runs: known ones in the order of the registry, then others by name."""
    found = {metric for run in selection.runs for metric in run_metrics(run)}
    order = [JURY, *METRICS]
    return [name for name in order if name in found] + sorted(found - set(order))


def _describe(metric: str) -> MetricEntry:
    if metric == JURY:
        return MetricEntry(metric, "What judges gave.", "the rubric's scale, such as 1 to 5")
    known = METRICS.if_usable(metric)
    if known is None:
        return MetricEntry(metric, "As another harness reported it.", "")
    return MetricEntry(metric, known.description, f"{known.low:g} to {known.high:g}")


def _columns(entries: list[ColumnEntry]) -> dict[str, str]:
    return {entry.column: _TYPES[entry.kind] for entry in entries}


def _sources(selection: ExportSelection, file: str) -> list[RecordSource]:
    """Return this file of each run that has it."""
    return [
        RecordSource(path=path.absolute(), front=_keys(run), metric=run.main_metric)
        for run in selection.runs
        if run.folder and (path := run.folder / file).exists()
    ]


def _keys(run: Run) -> dict[str, str]:
    return {"run": run.id, "benchmark": run.benchmark, "model": run.model}


def _prompts(selection: ExportSelection) -> list[RecordSource]:
    """Return the files of prompts of the runs, once for each benchmark and data."""
    found: dict[Path, RecordSource] = {}
    for run in selection.runs:
        path = selection.store.prompts_file(run.benchmark, run.benchmark_digest, run.data_digest).absolute()
        if path.exists():
            digests = {"benchmark_digest": run.benchmark_digest, "data_digest": run.data_digest}
            found.setdefault(path, RecordSource(path=path, front={"benchmark": run.benchmark, **digests}))
    return list(found.values())


# --- rows of the small tables -----------------------------------------------------------------------------------------


def _runs(selection: ExportSelection) -> Iterator[dict[str, Any]]:
    counted = {run.id for run in selection.counted.values()}
    for run in selection.runs:
        settings, price, judged = run.settings, run.resolved_model and run.resolved_model.price, run.jury_result
        yield {
            **_keys(run),
            **select(run, "title category=taxonomy.category subcategory=taxonomy.subcategory"),
            "task": run.taxonomy.task or None,
            "model_at_server": run.resolved_model.remote_name if run.resolved_model else None,
            **select(run, "tier status"),
            "counts": run.id in counted,
            **select(run, "main_metric n n_failed"),
            "failures": json.dumps(run.failures, sort_keys=True),
            **select(run, "n_blank=completion_counts.blank n_unreadable=completion_counts.unreadable"),
            **select(run, "n_at_limit=completion_counts.at_limit"),
            **select(run, "started seconds requests_sent requests_cached n_shortened=n_truncated"),
            "snapshots": json.dumps(run.snapshots, sort_keys=True),
            **_usage(run.usage),
            "cost_usd": run.cost_usd,
            "judges_cost_usd": judges_cost(run),
            "price_input_usd": price.input if price else None,
            "price_output_usd": price.output if price else None,
            "price_source": price.source if price else None,
            "judges": "; ".join(judge.name for judge in run.judges) if judged else None,
            "jury_coverage": judged.coverage if judged else None,
            **{name: settings.get(name) for name in ("sample", "limit", "seed", "max_tokens", "temperature")},
            **select(run, "benchmark_digest data_digest"),
            "medhelm_version": run.versions.get("medhelm"),
            "python_version": run.versions.get("python"),
            "origin": run.origin.harness if run.origin else None,
            "origin_run": run.origin.run if run.origin else None,
        }


def judges_cost(run: Run) -> float | None:
    """Return the cost of the judges of a run; None without judges or if a price is unknown."""
    costs = [tally.cost_usd for tally in run.tallies.values()]
    return sum_costs(costs).usd if costs else None


def _usage(usage: Usage) -> dict[str, int]:
    return select(
        usage,
        "input_tokens=input cached_input_tokens=cached_input output_tokens=output reasoning_tokens=reasoning "
        "cache_write_tokens=cache_write",
    )


def _estimates(selection: ExportSelection) -> Iterator[dict[str, Any]]:
    for run in counted_runs(selection.runs):
        for metric in run_metrics(run):
            for rule in RULES:
                if estimate := run.estimates.get(rule, {}).get(metric):
                    yield {
                        **_keys(run),
                        "metric": metric,
                        "main": metric == run.main_metric,
                        "scoring": rule,
                        **select(estimate, "value value_low=low value_high=high n n_failed"),
                        "method": estimate.method or None,
                        **_completers(run, metric, rule),
                    }


def _completers(run: Run, metric: str, rule: Rule) -> dict[str, Any]:
    """Return how many failures count as the worst answer, and the mean without them; empty cells if there are none."""
    own = run.completers.get(metric) if rule == "corrected" else None
    counted = own.n_failed - run.estimates[rule][metric].n_failed if own else None
    values = select(
        own, "completers_value=value completers_low=low completers_high=high completers_n=n completers_method=method"
    )
    return {"n_failed_by_model": counted, **values}


def _groups(selection: ExportSelection) -> Iterator[dict[str, Any]]:
    for run in counted_runs(selection.runs):
        for group, means in run.groups.items():
            for rule in RULES:
                yield {**_keys(run), "group": group, "scoring": rule, "value": means.get(rule), "n": means.get("n")}


def _judges(selection: ExportSelection) -> Iterator[dict[str, Any]]:
    for run in selection.runs:
        for judge, tally in run.tallies.items():
            yield {
                **_keys(run),
                "judge": judge,
                "expected": tally.expected,
                "failed": tally.failed,
                "failures": json.dumps(tally.failures, sort_keys=True),
                **_usage(tally.usage),
                "cost_usd": tally.cost_usd,
            }


def _leaderboard(boards: list[Leaderboard]) -> Iterator[dict[str, Any]]:
    for board in boards:
        yield from file_rows(columns_of(model_fields(board), CSV_FIRST), board.all_rows)
