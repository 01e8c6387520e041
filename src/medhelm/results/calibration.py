"""Calibration of a leaderboard's jury scores with clinicians' ratings; see `analysis.agreement.calibration`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from medhelm.analysis.agreement.rating_sample import IMBALANCE, imbalance
from medhelm.analysis.agreement.reliability import one_rater_agreement
from medhelm.analysis.agreement.severity import RaterEffect, rater_effect
from medhelm.analysis.leaderboard.cells import Cell
from medhelm.analysis.statistics.cluster_bootstrap import Floats
from medhelm.domain import Benchmark, Run
from medhelm.domain.grouping import group_by
from medhelm.domain.remark import Remark
from medhelm.results.agreement import Runs, instance_ids_of, known_benchmarks
from medhelm.results.ratings import RatedBenchmark, Rating, read_ratings
from medhelm.storage.runs import read_columns

SEED = 0
"""Seed of random draws, so that leaderboards are reproducible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _RatedCompletion:
    """Ratings of one completion."""

    composites: Mapping[str, float]
    """Rater -> mean of the grades, high ones good; ratings with gaps are left out."""
    probability: float | None
    """Probability with which it was drawn; None if unknown."""

    @property
    def mean(self) -> float:
        """Return the mean over raters."""
        return fmean(self.composites.values())


_Rated = Mapping[tuple[str, str], Mapping[str, _RatedCompletion]]
"""Benchmark and model -> instance -> its ratings."""


def calibrate(
    cells: Sequence[Cell], runs: Runs, path: Path, definitions: Sequence[Benchmark], *, curve: bool = False
) -> tuple[list[Cell], list[Remark]]:
    """Return the cells with calibrated scores where there are enough ratings, and remarks on the others.

    A model with enough ratings of its own is corrected with these, others with the ratings of all models of the
    benchmark.

    Parameters: runs, benchmark and model -> the judged run behind a cell; path, the ratings file; definitions,
    benchmarks whose rubrics are known; curve, True to map grades through a rising curve if the ratings suffice.
    Raises: ConfigError with all problems of the file.
    """
    known = known_benchmarks(definitions, runs)
    ratings = read_ratings(path, known, lambda *key: instance_ids_of(runs[key]))
    by_model = group_by(ratings.rows, lambda row: (row.benchmark, row.model))
    rated = {key: _by_instance(rows, ratings.benchmarks[key[0]]) for key, rows in by_model.items()}
    remarks = list(ratings.remarks)
    if unknown := sorted({f"{model} on {benchmark}" for benchmark, model in rated if (benchmark, model) not in runs}):
        text = f"Rated, but without a jury score on the leaderboard: {', '.join(unknown)}."
        remarks.append(Remark("rated_without_jury_score", "", text))
    remarks += _yardstick_remarks(rated)
    found = []
    for cell in cells:
        key = (cell.benchmark, cell.model)
        if key not in runs or cell.benchmark not in ratings.benchmarks:
            found.append(cell)
            continue
        rivals = [one for one in cells if one.benchmark == cell.benchmark and (one.benchmark, one.model) in runs]
        outcome = _calibrate_cell(cell, rivals, rated, ratings.benchmarks[cell.benchmark], curve)
        if isinstance(outcome, str):
            text = f"{cell.benchmark}, {cell.model}: not calibrated, because {outcome}"
            remarks.append(Remark("not_calibrated", cell.model, text))
        if key in rated:
            n_drawn = len({row.instance_id for row in by_model[key] if row.probability is not None})
            remarks += _selection_remarks(cell, rated[key], n_drawn, runs[key])
        found.append(replace(cell, calibrated=None if isinstance(outcome, str) else outcome))
    return found, remarks


def _by_instance(rows: Sequence[Rating], known: RatedBenchmark) -> dict[str, _RatedCompletion]:
    """Return instance -> its ratings; instances without a rating that has all grades are left out."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        composite = fmean(known.oriented(row.grades))
        if not isnan(composite):
            found.setdefault(row.instance_id, {})[row.rater] = composite
    drawn = {row.instance_id: row.probability for row in rows}
    return {
        instance: _RatedCompletion(composites=composites, probability=drawn[instance])
        for instance, composites in found.items()
    }


def _calibrate_cell(
    cell: Cell, rivals: Sequence[Cell], rated: _Rated, known: RatedBenchmark, curve: bool
) -> CalibratedMean | str:
    """Calibrate one model with the best method that its ratings allow; return the reason if there is none."""
    assert cell.scores is not None, "a cell of a run has the scores of its instances"
    own = rated.get((cell.benchmark, cell.model), {})
    ratings = np.array([own[instance].mean if instance in own else np.nan for instance in cell.ids])
    drawn = _probabilities([own.get(instance) for instance in cell.ids])
    used = [own[name] for name, score in zip(cell.ids, cell.scores, strict=True) if name in own and not np.isnan(score)]
    raters = _rater_effect(cell.benchmark, rated, used)
    low, high = known.low, known.high
    if curve:
        try:
            rng = np.random.default_rng(SEED)
            return isotonic_mapped(
                cell.scores, ratings, cell.clusters, low=low, high=high, rng=rng, probabilities=drawn, raters=raters
            )
        except ValueError:
            pass  # too few for a curve: a line needs fewer
    try:
        return prediction_powered(
            cell.scores, ratings, cell.clusters, low=low, high=high, probabilities=drawn, raters=raters
        )
    except ValueError as error:
        alone = str(error)
    pairs = [
        pair for rival in rivals for pair in _rated_completions(rival, rated.get((rival.benchmark, rival.model), {}))
    ]
    try:
        jury, given, models, names = zip(*pairs, strict=True) if pairs else ((), (), (), ())
        return prediction_powered_pooled(
            cell.scores,
            np.array(jury),
            np.array([one.mean for one in given]),
            models,
            model=cell.model,
            clusters=_cluster_names(cell),
            rated_clusters=names,
            low=low,
            high=high,
            probabilities=_probabilities(given),
            raters=_rater_effect(cell.benchmark, rated, given),
        )
    except ValueError as error:
        return f"{alone}; and of all models together, {error}"


def _probabilities(rated: Sequence[_RatedCompletion | None]) -> Floats | None:
    """Return the probabilities of completions, nan if unrated; None if the file has none."""
    found = [np.nan if one is None or one.probability is None else one.probability for one in rated]
    return None if all(map(isnan, found)) else np.array(found)


def _rater_effect(benchmark: str, rated: _Rated, used: Sequence[_RatedCompletion]) -> RaterEffect:
    """Estimate the effect of the choice of raters, from all ratings of the benchmark, on the mean of those used."""
    raters, table, _ = _table_of_ratings(benchmark, rated)
    shares = dict.fromkeys(raters, 0.0)
    total = sum(1 / (one.probability or 1) for one in used)
    for one in used:
        for rater in one.composites:
            shares[rater] += 1 / (one.probability or 1) / total / len(one.composites)
    return rater_effect(table, np.array(list(shares.values())))


def _table_of_ratings(benchmark: str, rated: _Rated) -> tuple[list[str], Floats, list[str]]:
    """Return the raters of a benchmark, all ratings, shape (n, raters), nan if missing, and the instance of each."""
    everything = [(name, one) for (own, _), of in rated.items() if own == benchmark for name, one in of.items()]
    raters = list(dict.fromkeys(rater for _, one in everything for rater in one.composites))
    table = np.array([[one.composites.get(rater, np.nan) for rater in raters] for _, one in everything])
    return raters, table.reshape(len(everything), len(raters)), [name for name, _ in everything]


def _yardstick_remarks(rated: _Rated) -> Iterator[Remark]:
    """Yield benchmarks whose clinicians are not shown to agree with each other."""
    for benchmark in dict.fromkeys(benchmark for benchmark, _ in rated):
        _, table, instances = _table_of_ratings(benchmark, rated)
        found = one_rater_agreement(table, instances)
        if found.low is not None and found.low <= 0:
            text = (
                f"{benchmark}: the clinicians are not shown to agree with each other (correlation {found.value:.2f} "
                f"[{found.low:.2f}, {found.high:.2f}]): calibrated scores are their average, and say little"
            )
            yield Remark("clinicians_disagree", benchmark, text)


def _rated_completions(
    cell: Cell, own: Mapping[str, _RatedCompletion]
) -> list[tuple[float, _RatedCompletion, str, str]]:
    """Return jury score, ratings, model and cluster of each completion of a model that has both."""
    scores: Floats = cell.scores if cell.scores is not None else np.array([])
    return [
        (float(score), own[instance], cell.model, name)
        for instance, score, name in zip(cell.ids, scores, _cluster_names(cell), strict=True)
        if instance in own and not np.isnan(score)
    ]


def _cluster_names(cell: Cell) -> list[str]:
    """Return the cluster of each instance, or its own id: completions of all models on it are not independent."""
    clusters = [""] * len(cell.ids) if cell.clusters is None else list(map(str, cell.clusters))
    return [cluster or instance for cluster, instance in zip(clusters, cell.ids, strict=True)]


# --- how the rated completions were selected --------------------------------------------------------------------------


def _number_drawn(cell: Cell, own: Mapping[str, _RatedCompletion]) -> int:
    """Return how many completions of a model were drawn, those that the file lacks included; 0 if it is not known.

    `medhelm agreement sample` draws a fixed number from each stratum, so that one over the probabilities of all drawn
    completions sums to the number of those that could be drawn.
    """
    assert cell.scores is not None, "a cell of a run has the scores of its instances"
    drawn = [one.probability for one in own.values()]
    known = [probability for probability in drawn if probability is not None]
    if not known or len(known) < len(drawn):
        return 0
    lacking = int((~np.isnan(cell.scores)).sum()) - sum(1 / probability for probability in known)
    return len(own) + max(0, round(lacking * fmean(known)))


def _selection_remarks(cell: Cell, own: Mapping[str, _RatedCompletion], n_drawn: int, run: Run) -> Iterator[Remark]:
    """Yield remarks on signs that the rated completions of a model were not drawn at random."""
    assert cell.scores is not None, "a cell of a run has the scores of its instances"
    about = f"{cell.benchmark}, {cell.model}"
    n_drawn = max(n_drawn, _number_drawn(cell, own))
    if n_drawn > len(own):
        text = f"{about}: {n_drawn - len(own)} of {n_drawn} completions that were drawn have no complete rating"
        text += ": rate them, or the sample is no longer a random one. If hard ones are missing, scores are too high"
        yield Remark("drawn_but_unrated", cell.model, text)
    columns = read_columns(run, ["instance_id", "completion"])
    length = {
        name: float(len(text)) for name, text in zip(columns["instance_id"], columns["completion"], strict=True) if text
    }
    is_rated = np.array([name in own for name in cell.ids])
    drawn = _probabilities([own.get(name) for name in cell.ids])
    weights = None if drawn is None else 1 / np.where(is_rated, drawn, 1.0)
    lengths = np.array([length.get(name, np.nan) for name in cell.ids])
    for what, values in (("jury score", cell.scores), ("length", lengths)):
        found = imbalance(values, is_rated & ~np.isnan(cell.scores), weights)
        if found is None or abs(found.value) <= IMBALANCE:
            continue
        more = "above" if found.value > 0 else "below"
        text = f"{about}: the rated completions' {what} is {abs(found.value):.2f} standard deviations {more} "
        text += "the others'" if weights is None else "that of all, probabilities taken into account"
        if abs(found.value) > found.by_chance:
            text += (
                ", more than chance explains. Calibration needs a random sample: `medhelm agreement sample` draws one"
            )
        else:
            text += f"; a random draw of {int(is_rated.sum())} can differ as much. Rate more completions"
        yield Remark("unbalanced_ratings", cell.model, text)
