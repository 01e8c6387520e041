"""Calibrate the jury scores of a leaderboard with clinicians' ratings: see `analysis.agreement.calibration`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isnan
from pathlib import Path
from statistics import fmean

import numpy as np

from medhelm.analysis.agreement.calibration import (
    CalibratedMean,
    isotonic_mapped,
    prediction_powered,
    prediction_powered_pooled,
)
from medhelm.analysis.leaderboard.types import Cell
from medhelm.analysis.statistics.cluster_bootstrap import Floats
from medhelm.domain import Benchmark, Remark
from medhelm.results.agreement import Runs, instance_ids_of, known_benchmarks
from medhelm.results.ratings import RatedBenchmark, Rating, read_ratings

SEED = 0
"""Seed of random draws, so that leaderboards are reproducible."""


def calibrate(
    cells: Sequence[Cell], runs: Runs, path: Path, definitions: Sequence[Benchmark], *, curve: bool = False
) -> tuple[list[Cell], list[Remark]]:
    """Return the cells with calibrated scores where there are enough ratings, and remarks on the others.

    A model with ratings of its own is corrected with these; one with too few, with those of all models of the
    benchmark. Parameters: runs, benchmark and model -> the judged run behind a cell; path, the ratings file;
    definitions, of benchmarks whose rubrics are known; curve, whether grades are mapped through a rising curve where
    the ratings suffice. Raises: ConfigError with all problems of the file.
    """
    known = known_benchmarks(definitions, runs)
    ratings = read_ratings(path, known, lambda *key: instance_ids_of(runs[key]))
    by_model: dict[tuple[str, str], list[Rating]] = {}
    for row in ratings.rows:
        by_model.setdefault((row.benchmark, row.model), []).append(row)
    rated = {key: _by_instance(rows, ratings.benchmarks[key[0]]) for key, rows in by_model.items()}
    remarks = list(ratings.remarks)
    if unknown := sorted({f"{model} on {benchmark}" for benchmark, model in rated if (benchmark, model) not in runs}):
        text = f"Rated, but without a jury score on the leaderboard: {', '.join(unknown)}."
        remarks.append(Remark("rated_without_jury_score", "", text))
    found = []
    for cell in cells:
        if (cell.benchmark, cell.model) not in runs or cell.benchmark not in ratings.benchmarks:
            found.append(cell)
            continue
        rivals = [one for one in cells if one.benchmark == cell.benchmark and (one.benchmark, one.model) in runs]
        outcome = _calibrated(cell, rivals, rated, ratings.benchmarks[cell.benchmark], curve)
        if isinstance(outcome, str):
            text = f"{cell.benchmark}, {cell.model}: not calibrated, because {outcome}"
            remarks.append(Remark("not_calibrated", cell.model, text))
        found.append(replace(cell, calibrated=None if isinstance(outcome, str) else outcome))
    return found, remarks


def _by_instance(rows: Sequence[Rating], known: RatedBenchmark) -> dict[str, float]:
    """Instance -> mean over its raters of the mean of their grades, high ones good; ratings with gaps are left out."""
    found: dict[str, list[float]] = {}
    for row in rows:
        composite = fmean(known.oriented(row.grades))
        if not isnan(composite):
            found.setdefault(row.instance_id, []).append(composite)
    return {instance: fmean(means) for instance, means in found.items()}


def _calibrated(
    cell: Cell,
    rivals: Sequence[Cell],
    rated: Mapping[tuple[str, str], Mapping[str, float]],
    known: RatedBenchmark,
    curve: bool,
) -> CalibratedMean | str:
    """Calibrate one model with the best method that its ratings allow; else return the reason."""
    assert cell.scores is not None, "a cell of a run has the scores of its instances"
    own = rated.get((cell.benchmark, cell.model), {})
    ratings = np.array([own.get(instance, np.nan) for instance in cell.ids])
    low, high = known.low, known.high
    if curve:
        try:
            rng = np.random.default_rng(SEED)
            return isotonic_mapped(cell.scores, ratings, cell.clusters, low=low, high=high, rng=rng)
        except ValueError:
            pass  # too few for a curve: a line needs fewer
    try:
        return prediction_powered(cell.scores, ratings, cell.clusters, low=low, high=high)
    except ValueError as error:
        alone = str(error)
    pairs = [pair for rival in rivals for pair in _pairs(rival, rated.get((rival.benchmark, rival.model), {}))]
    try:
        jury, given, models, names = zip(*pairs, strict=True) if pairs else ((), (), (), ())
        return prediction_powered_pooled(
            cell.scores,
            np.array(jury),
            np.array(given),
            models,
            model=cell.model,
            clusters=_names(cell),
            rated_clusters=names,
            low=low,
            high=high,
        )
    except ValueError as error:
        return f"{alone}; and of all models together, {error}"


def _pairs(cell: Cell, own: Mapping[str, float]) -> list[tuple[float, float, str, str]]:
    """Jury score, rating, model and cluster of each completion of a model that has both."""
    scores: Floats = cell.scores if cell.scores is not None else np.array([])
    return [
        (float(score), own[instance], cell.model, name)
        for instance, score, name in zip(cell.ids, scores, _names(cell), strict=True)
        if instance in own and not np.isnan(score)
    ]


def _names(cell: Cell) -> list[str]:
    """The cluster of each instance, or its own name: other models' answers to it are not independent of this one's."""
    clusters = [""] * len(cell.ids) if cell.clusters is None else list(map(str, cell.clusters))
    return [cluster or instance for cluster, instance in zip(clusters, cell.ids, strict=True)]
