"""From stores to a leaderboard, and from a store to one case: what is read, and which run stands for a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from medhelm.analysis.board import Cell, Column, Leaderboard
from medhelm.analysis.leaderboard import build
from medhelm.analysis.pooling import linearised
from medhelm.benchmarks.suite import load_suite, suite_names
from medhelm.calibrating import calibrate
from medhelm.chosen_runs import choose, jury_remarks, place_in, store_label
from medhelm.domain import JURY, Benchmark, Floor, Rule, Run, Tier
from medhelm.errors import UserError, suggestion
from medhelm.reports.published import read_scores as read_published
from medhelm.scoring.metrics import METRICS
from medhelm.storage.floors import read_floor
from medhelm.storage.judgments import read_explanations
from medhelm.storage.runs import load_runs, read_prompt, read_record, read_scores
from medhelm.storage.store import Store, open_store

SEED = 0
"""Seed of the resampling, so that a leaderboard comes out the same each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clinicians:
    """Whose ratings jury scores are calibrated to, and how."""

    ratings: Path
    """The ratings file."""
    definitions: Sequence[Benchmark] = ()
    """Benchmarks whose rubrics are known."""
    curve: bool = False
    """Whether grades are mapped through a rising curve instead of a straight line."""


def standings(
    stores: Sequence[Path],
    *,
    rule: Rule,
    tier: Tier | None = None,
    suite: str = "all",
    clinicians: Clinicians | None = None,
) -> Leaderboard:
    """The leaderboard of one store, or of several side by side.

    Of several runs of a model on a benchmark the one with the most instances counts, of equals the latest. A run that
    was stopped on the way does not count; a warning names it. `tier` None: real data, or the sample rows if there is
    nothing else. `clinicians`: jury scores get what clinicians would give beside them; ranks go by the jury.
    Raises StoreError for a folder that is no store, UserError if there is nothing to rank, ConfigError for ratings.
    """
    finished = read_finished(stores, rule, tier)
    cells, remarks = finished.cells, finished.remarks
    if clinicians:
        if len(stores) > 1 or rule != "corrected":
            raise UserError("ratings go with one --store and with corrected scoring: they name models, not stores.")
        judged = {(benchmark, model): run for (model, benchmark), run in finished.runs.items() if run.sitting}
        cells, more = calibrate(cells, judged, clinicians.ratings, clinicians.definitions, curve=clinicians.curve)
        remarks = [*remarks, *more]
    board = build(
        cells,
        finished.columns,
        rng=np.random.default_rng(SEED),
        benchmarks=suite_names(suite),
        suite=suite,
        scoring=rule,
        tier=finished.tier,
    )
    unfinished = [f"not counted, because it was stopped on the way: {text}" for text in finished.partial]
    return replace(board, warnings=(*board.warnings, *remarks, *unfinished))


def published_standings(scores: Path, *, suite: str = "all") -> Leaderboard:
    """The leaderboard of a published table of scores, a CSV file with the reference's header."""
    published = read_published(scores, load_suite())
    board = build(
        published.cells,
        published.columns,
        rng=np.random.default_rng(SEED),
        benchmarks=suite_names(suite),
        suite=suite,
        scoring="published",
    )
    return replace(board, warnings=(*published.warnings, *board.warnings))


def find_case(stores: Sequence[Path], benchmark: str, instance_id: str) -> dict[str, Any]:
    """Everything the stores know about one instance, as JSON: prompt, references, each model's record and judgments.

    Raises UserError if no run has it.
    """
    runs: list[tuple[str, Store, Run]] = []
    for path in stores:
        store = open_store(path)
        runs += [(store_label(path, stores), store, run) for run in load_runs(store)]
    names = {run.benchmark for _, _, run in runs}
    if benchmark not in names:
        places = ", ".join(map(str, stores))
        raise UserError(f"no run of `{benchmark}` in {places}. {suggestion(benchmark, names)}".strip())
    completions = []
    prompt: Mapping[str, Any] | None = None
    for label, store, run in runs:
        if run.benchmark != benchmark or (record := read_record(run, instance_id)) is None:
            continue
        prompt = prompt or read_prompt(
            store.prompts_file(benchmark, run.benchmark_digest, run.data_digest), instance_id
        )
        judgments = read_explanations(run, instance_id)
        shown = {"model": run.model + label, "tier": run.tier, "main_metric": run.main_metric, **record}
        completions.append({**shown, "judgments": judgments} if judgments else shown)
    if not completions:
        raise UserError(
            f"no run of {benchmark} has an instance `{instance_id}`. "
            f"`medhelm benchmarks instances {benchmark}` lists them."
        )
    return {"benchmark": benchmark, "instance_id": instance_id, **(prompt or {}), "completions": completions}


@dataclass(frozen=True, slots=True)
class Finished:
    """The finished runs of some stores, ready to be ranked or compared."""

    cells: Sequence[Cell]
    """One for each run that counts."""
    columns: Sequence[Column]
    """One for each benchmark, in the order of the suite."""
    tier: Tier
    """Real data or sample rows."""
    partial: Sequence[str]
    """Runs that were stopped on the way and do not count, in words."""
    remarks: Sequence[str]
    """What a reader has to know of the choice of runs and of their juries."""
    runs: Mapping[tuple[str, str], Run]
    """Model and benchmark -> the run that stands for them."""


def read_finished(stores: Sequence[Path], rule: Rule, tier: Tier | None) -> Finished:
    """Read what counts. Raises UserError if there is nothing."""
    found = [(store_label(path, stores), run) for path in stores for run in load_runs(open_store(path))]
    tier = tier or ("real" if any(run.tier == "real" for _, run in found) else "sample")
    choice = choose((label, run) for label, run in found if run.tier == tier)
    chosen = choice.runs
    if not chosen:
        unfinished = f"; unfinished: {'; '.join(choice.partial)}" if choice.partial else ""
        places = ", ".join(map(str, stores))
        kind = f" on {tier} data" if found else ""
        raise UserError(f"no finished run{kind} in {places}. `medhelm run` makes some{unfinished}.")
    order = [entry.name for entry in load_suite()]
    floors = _floors(stores, chosen.values())
    ranked = sorted(chosen.values(), key=lambda run: place_in(order, run.benchmark))
    columns = {run.benchmark: _column(run, floors.get(run.benchmark), rule) for run in ranked}
    cells = [_cell(model, run, rule) for (model, _), run in chosen.items()]
    remarks = [*choice.left_out, *jury_remarks(ranked)]
    return Finished(cells, tuple(columns.values()), tier, choice.partial, remarks, chosen)


def _cell(model: str, run: Run, rule: Rule) -> Cell:
    estimate = run.estimates[rule].get(run.main_metric)
    ids, values, clusters, parts = read_scores(run, run.main_metric, rule)
    return Cell(
        model=model,
        benchmark=run.benchmark,
        value=estimate.value if estimate else None,
        estimate=estimate,
        n_failed=estimate.n_failed if estimate else run.n_failed,
        ids=ids,
        scores=linearised(values, parts),
        clusters=clusters,
        cost_usd=run.cost_usd,
    )


def _floors(stores: Sequence[Path], runs: Iterable[Run]) -> dict[str, Floor]:
    """Benchmark -> its floor on the data of one of the runs, where it is known."""
    found: dict[str, Floor] = {}
    opened = [open_store(path) for path in stores]
    for run in runs:
        for store in opened if run.benchmark not in found else ():
            if floor := read_floor(store.floor_file(run.benchmark, run.benchmark_digest, run.data_digest)):
                found[run.benchmark] = floor
    return found


def _column(run: Run, floor: Floor | None, rule: Rule) -> Column:
    sitting = run.sitting if run.main_metric == JURY else None
    metric = METRICS.get(run.main_metric)
    if floor and floor.metric not in ("", run.main_metric):
        floor = None
    return Column(
        benchmark=run.benchmark,
        title=run.title,
        category=run.taxonomy.category,
        subcategory=run.taxonomy.subcategory,
        metric=run.main_metric,
        metric_title=metric.title if metric else run.main_metric.capitalize(),
        low=sitting.low if sitting else metric.low if metric else 0.0,
        high=sitting.high if sitting else metric.high if metric else 1.0,
        higher_is_better=metric.higher_is_better if metric else True,
        judges=tuple(judge.name for judge in sitting.jury.judges) if sitting else (),
        floor=floor.values[rule] if floor else None,
        floor_answer=floor.answer if floor else "",
    )
