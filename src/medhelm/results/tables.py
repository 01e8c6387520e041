"""Export the runs of a store as plain tables with a data dictionary."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import fsum
from pathlib import Path
from typing import Any

from medhelm import __version__
from medhelm.analysis.leaderboard.types import Average, Leaderboard
from medhelm.domain import JURY, RULES, Run, Usage
from medhelm.io.export_folder import check_export, new_export
from medhelm.reports.data_dictionary import ColumnEntry, Kind, MetricEntry, dictionary, to_markdown, to_rows
from medhelm.reports.exchange import ExportResult
from medhelm.results.export_selection import (
    ExportRequest,
    ExportSelection,
    export_leaderboard,
    measured,
    select_for_export,
)
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
    store: Path, folder: Path, format: Format, *, wanted: ExportRequest | None = None, texts: bool = False
) -> ExportResult:
    """Write the runs of a store as tables, and `dictionary.csv` and `dictionary.md`.

    Parameters: folder, new, empty or an export of the same kind; texts, whether prompts, completions and the words of
    judges are written too. All runs that are asked for are written; `runs.counts` says which are on the leaderboard.
    Raises: UserError, StoreError, StoreFullError.
    """
    check_export(folder, format)
    wanted = wanted or ExportRequest()
    selection = select_for_export(store, wanted)
    metrics = _metrics(selection)
    described = dictionary(map(_words, metrics), texts=texts)
    boards = [export_leaderboard(store, selection, wanted, rule) for rule in RULES] if selection.counted else []
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
            place("records"), record_columns(metrics, texts=texts), _sources(selection, "records.parquet")
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
    files, size = measured(folder)
    return ExportResult(
        kind=format, place=folder, files=files, bytes=size, counts=counts, remarks=tuple(map(str, selection.remarks))
    )


def _metrics(selection: ExportSelection) -> list[str]:
    """All metrics of the runs: ours in our order, then those of others by name."""
    found = {metric for run in selection.runs for metric in run_metrics(run)}
    order = [JURY, *METRICS]
    return [name for name in order if name in found] + sorted(found - set(order))


def _words(metric: str) -> MetricEntry:
    if metric == JURY:
        return MetricEntry(metric, "What judges gave.", "the rubric's scale, such as 1 to 5")
    known = METRICS.if_usable(metric)
    if known is None:
        return MetricEntry(metric, "As another harness reported it.", "")
    return MetricEntry(metric, known.description, f"{known.low:g} to {known.high:g}")


def _columns(entries: list[ColumnEntry]) -> dict[str, str]:
    return {entry.column: _TYPES[entry.kind] for entry in entries}


def _sources(selection: ExportSelection, file: str) -> list[RecordSource]:
    """A file of each run that has it."""
    found = []
    for run in selection.runs:
        if run.folder and (path := run.folder / file).exists():
            found.append(RecordSource(path=path.absolute(), front=_front(run), metric=run.main_metric))
    return found


def _front(run: Run) -> dict[str, str]:
    return {"run": run.id, "benchmark": run.benchmark, "model": run.model}


def _prompts(selection: ExportSelection) -> list[RecordSource]:
    """The prompts of the runs, once for each benchmark and data."""
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
            **_front(run),
            "title": run.title,
            "category": run.taxonomy.category,
            "subcategory": run.taxonomy.subcategory,
            "task": run.taxonomy.task or None,
            "model_at_server": run.resolved_model.remote_name if run.resolved_model else None,
            "tier": run.tier,
            "status": run.status,
            "counts": run.id in counted,
            "main_metric": run.main_metric,
            "n": run.n,
            "n_failed": run.n_failed,
            "failures": json.dumps(run.failures, sort_keys=True),
            "started": run.started,
            "seconds": run.seconds,
            "requests_sent": run.requests_sent,
            "requests_cached": run.requests_cached,
            "n_shortened": run.n_truncated,
            "snapshots": json.dumps(run.snapshots, sort_keys=True),
            **_usage(run.usage),
            "cost_usd": run.cost_usd,
            "judges_cost_usd": judges_cost(run),
            "price_input_usd": price.input if price else None,
            "price_output_usd": price.output if price else None,
            "price_source": price.source if price else None,
            "judges": "; ".join(judge.name for judge in judged.jury.judges) if judged else None,
            "jury_coverage": judged.coverage if judged else None,
            **{name: settings.get(name) for name in ("sample", "limit", "seed", "max_tokens", "temperature")},
            "benchmark_digest": run.benchmark_digest,
            "data_digest": run.data_digest,
            "medhelm_version": run.versions.get("medhelm"),
            "python_version": run.versions.get("python"),
            "origin": run.origin.harness if run.origin else None,
            "origin_run": run.origin.run if run.origin else None,
        }


def judges_cost(run: Run) -> float | None:
    """Return the cost of the judges of a run; None without judges or if a price is unknown."""
    costs = [tally.cost_usd for tally in run.jury_result.tallies.values()] if run.jury_result else []
    known = [cost for cost in costs if cost is not None]
    return fsum(known) if known and len(known) == len(costs) else None


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input,
        "cached_input_tokens": usage.cached_input,
        "output_tokens": usage.output,
        "reasoning_tokens": usage.reasoning,
        "cache_write_tokens": usage.cache_write,
    }


def _estimates(selection: ExportSelection) -> Iterator[dict[str, Any]]:
    for run in selection.runs:
        for metric in run_metrics(run):
            for rule in RULES:
                if estimate := run.estimates.get(rule, {}).get(metric):
                    yield {
                        **_front(run),
                        "metric": metric,
                        "main": metric == run.main_metric,
                        "scoring": rule,
                        "value": estimate.value,
                        "value_low": estimate.low,
                        "value_high": estimate.high,
                        "n": estimate.n,
                        "n_failed": estimate.n_failed,
                        "method": estimate.method or None,
                    }


def _groups(selection: ExportSelection) -> Iterator[dict[str, Any]]:
    for run in selection.runs:
        for group, means in run.groups.items():
            for rule in RULES:
                yield {**_front(run), "group": group, "scoring": rule, "value": means.get(rule), "n": means.get("n")}


def _judges(selection: ExportSelection) -> Iterator[dict[str, Any]]:
    for run in selection.runs:
        for judge, tally in run.jury_result.tallies.items() if run.jury_result else ():
            yield {
                **_front(run),
                "judge": judge,
                "expected": tally.expected,
                "failed": tally.failed,
                "failures": json.dumps(tally.failures, sort_keys=True),
                **_usage(tally.usage),
                "cost_usd": tally.cost_usd,
            }


def _leaderboard(boards: list[Leaderboard]) -> Iterator[dict[str, Any]]:
    for board in boards:
        for row in board.all_rows:
            yield {
                "scoring": board.scoring,
                "rank": row.rank,
                "rank_low": row.rank_low,
                "rank_high": row.rank_high,
                "tie_group": row.tie_group,
                "model": row.model,
                **_average("win_rate", row.win_rate),
                "guarded_win_rate": row.guarded_win_rate,
                "win_share": row.win_share and row.win_share.value,
                "win_share_low": row.win_share and row.win_share.low,
                "win_share_high": row.win_share and row.win_share.high,
                "guarded_win_share": row.guarded_win_share,
                **_average("macro_average", row.macro_average),
                "n_benchmarks": row.n_benchmarks,
                "coverage": row.coverage,
                "cost_usd": row.cost_usd,
                "usd_per_1000": row.usd_per_1000,
                "seconds_per_completion": row.use and row.use.seconds,
                "tokens_per_completion": row.use and row.use.tokens,
                "frontier_probability": board.frontier and board.frontier.probability(row.model),
                "tier": board.tier,
            }


def _average(name: str, average: Average | None) -> dict[str, float | None]:
    return {
        name: average.value if average else None,
        f"{name}_low": average.low if average else None,
        f"{name}_high": average.high if average else None,
        f"{name}_sd": average.sd if average else None,
    }
