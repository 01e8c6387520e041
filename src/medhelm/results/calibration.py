"""Calibrate the jury scores of a leaderboard with clinicians' ratings.

The methods are those of `analysis.agreement.calibration` and `analysis.agreement.calibrated_pairs`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from functools import partial
from math import isnan
from statistics import fmean

import numpy as np

from medhelm.analysis.agreement.calibrated_pairs import (
    CalibratedLeaderboard,
    CalibratedPairs,
    ScoredModel,
    calibrated_pairs,
)
from medhelm.analysis.agreement.calibration import (
    IMBALANCE,
    CalibratedMean,
    RatedPairs,
    RatingDesign,
    imbalance,
    isotonic_mapped,
    prediction_powered,
    prediction_powered_pooled,
)
from medhelm.analysis.agreement.clinician_means import (
    ClinicianMean,
    RatedCompletion,
    average_over_benchmarks,
    drawn_probabilities,
    effect_of_raters,
    mean_of_ratings,
    ratings_table,
)
from medhelm.analysis.agreement.jury_vs_clinicians import Conclusion, conclude
from medhelm.analysis.agreement.reliability import JuryAndRaters, jury_and_raters
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.findings import with_doubts
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.analysis.means import Floats
from medhelm.domain import Run
from medhelm.domain.benchmark import group_by
from medhelm.domain.result import Remark
from medhelm.domain.study import StudyCard
from medhelm.domain.text import listed, plural
from medhelm.results.formats.tables import estimate_text
from medhelm.results.ratings import RatedBenchmark, Rating, Ratings
from medhelm.results.runs.selection import with_names
from medhelm.results.runs.stored_ratings import CountedRuns
from medhelm.storage.runs import read_columns

SEED = 0
"""Seed of random draws, so that leaderboards are reproducible."""

MOST_ORDERED = 12
"""Most models, or benchmarks, named in a sentence of the verdict."""


_Rated = Mapping[tuple[str, str], Mapping[str, RatedCompletion]]
"""Benchmark and model -> instance -> its ratings."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calibration:
    """Ratings of the completions of a leaderboard, and what they make of its scores."""

    cells: Sequence[Cell]
    """The cells, with calibrated scores where there are enough ratings."""
    remarks: Sequence[tuple[str, Remark]]
    """Limits of the ratings, each with the benchmark it is about, "" for all."""
    scored: Sequence[ScoredModel]
    """Every judged model on every judged benchmark, with its ratings."""
    tables: Mapping[str, tuple[Sequence[str], Floats]]
    """Benchmark -> its raters and all ratings, shape (n, raters)."""
    agreement: Mapping[str, JuryAndRaters]
    """Benchmark -> agreement of the jury with a clinician, beside that of two clinicians."""
    studies: Sequence[StudyCard] = ()
    """Cards of the studies that the ratings come from."""

    def renamed(self, names: Mapping[str, str]) -> Calibration:
        """Return the ratings with other names of models, to compare them by; cells keep theirs."""
        text = partial(with_names, names)
        return replace(
            self,
            scored=[replace(one, model=names.get(one.model, one.model)) for one in self.scored],
            remarks=[
                (benchmark, replace(one, subject=text(one.subject), text=text(one.text)))
                for benchmark, one in self.remarks
            ],
        )


def calibrate(cells: Sequence[Cell], runs: CountedRuns, ratings: Ratings, *, curve: bool = False) -> Calibration:
    """Return the cells with the mean ratings of clinicians, and with calibrated scores where ratings suffice.

    A model with enough ratings of its own is calibrated with these, others with the ratings of all models of the
    benchmark. Where clinicians rated with another instrument than the judges, nothing is calibrated.

    Parameters: runs, benchmark and model -> the run behind a cell; curve, True to map grades through a rising curve if
    the ratings suffice.
    """
    by_model = group_by(ratings.rows, lambda row: (row.benchmark, row.model))
    every = {key: _by_instance(rows, ratings.benchmarks[key[0]]) for key, rows in by_model.items()}
    rated = {key: own for key, own in every.items() if ratings.benchmarks[key[0]].is_rubric}
    judged_runs = {key: run for key, run in runs.items() if run.jury_result}
    remarks = [(one.subject if one.subject in ratings.benchmarks else "", one) for one in ratings.remarks]
    if unknown := sorted(
        {f"{model} on {benchmark}" for benchmark, model in rated if (benchmark, model) not in judged_runs}
    ):
        text = f"Rated, but without a jury score on the leaderboard: {', '.join(unknown)}."
        remarks.append(("", Remark("rated_without_jury_score", "", text)))
    remarks += ((one.subject, one) for one in _instrument_remarks(ratings, judged_runs))
    agreement = _agreement(cells, judged_runs, rated)
    remarks += ((one.subject, one) for one in _yardstick_remarks(agreement))
    found = []
    for cell in cells:
        key = (cell.benchmark, cell.model)
        if own := every.get(key):
            mean = _mean_of_ratings(cell, own, ratings.benchmarks[cell.benchmark], every)
            cell = replace(cell, clinicians=mean)
        if key not in judged_runs or cell.benchmark not in {benchmark for benchmark, _ in rated}:
            found.append(cell)
            continue
        rivals = [one for one in cells if one.benchmark == cell.benchmark and (one.benchmark, one.model) in judged_runs]
        outcome = _calibrate_cell(cell, rivals, rated, ratings.benchmarks[cell.benchmark], curve)
        if isinstance(outcome, str):
            text = f"{cell.benchmark}, {cell.model}: not calibrated, because {outcome}"
            remarks.append((cell.benchmark, Remark("not_calibrated", cell.model, text)))
        if key in rated:
            n_drawn = len({row.instance_id for row in by_model[key] if row.probability is not None})
            found_here = _selection_remarks(cell, rated[key], n_drawn, runs[key])
            remarks += ((cell.benchmark, one) for one in found_here)
        found.append(replace(cell, calibrated=None if isinstance(outcome, str) else outcome))
    judged = [cell for cell in cells if (cell.benchmark, cell.model) in judged_runs and cell.scores is not None]
    return Calibration(
        cells=found,
        remarks=remarks,
        scored=[_scored_model(cell, judged_runs, rated.get((cell.benchmark, cell.model), {})) for cell in judged],
        tables={name: ratings_table(list(_on_benchmark(name, rated).values())) for name in ratings.benchmarks},
        agreement=agreement,
        studies=ratings.studies,
    )


def _instrument_remarks(ratings: Ratings, judged_runs: CountedRuns) -> Iterator[Remark]:
    """Yield a remark on each judged benchmark that clinicians rated with another instrument than the judges."""
    judged = {benchmark for benchmark, _ in judged_runs}
    for name, known in ratings.benchmarks.items():
        if not known.is_rubric and name in judged:
            text = (
                f"{name}: clinicians rated with another instrument than the judges, so that their ratings are shown "
                "beside the jury's scores, but neither compared with them nor used to calibrate them."
            )
            yield Remark("other_instrument_than_jury", name, text)


def _mean_of_ratings(
    cell: Cell, own: Mapping[str, RatedCompletion], known: RatedBenchmark, rated: _Rated
) -> ClinicianMean | None:
    """Return the mean rating of a model by clinicians; None if no rating has all grades."""
    if not own:
        return None
    cluster_of = dict(zip(cell.ids, _cluster_names(cell), strict=True))
    clusters = [cluster_of.get(instance, instance) for instance in own]
    every = list(_on_benchmark(cell.benchmark, rated).values())
    return mean_of_ratings(list(own.values()), every, low=known.low, high=known.high, clusters=clusters)


def _scored_model(cell: Cell, runs: CountedRuns, own: Mapping[str, RatedCompletion]) -> ScoredModel:
    """Return a model's jury scores on one benchmark with its ratings."""
    assert cell.scores is not None, "only cells with scores are looked at"
    jury = runs[cell.benchmark, cell.model].jury_result
    assert jury is not None, "only judged runs are looked at"
    used = [own[name] for name in cell.ids if name in own]
    shares: dict[str, float] = {}
    for one in used:
        for rater in one.composites:
            shares[rater] = shares.get(rater, 0.0) + 1 / len(one.composites) / len(used)
    return ScoredModel(
        benchmark=cell.benchmark,
        model=cell.model,
        ids=cell.ids,
        units=_cluster_names(cell),
        scores=cell.scores,
        low=jury.low,
        high=jury.high,
        ratings=np.array([own[name].mean if name in own else np.nan for name in cell.ids]),
        probabilities=drawn_probabilities([own.get(name) for name in cell.ids]),
        raters=shares,
    )


def with_clinicians(board: Leaderboard, found: Calibration) -> Leaderboard:
    """Return a leaderboard with what clinicians say about its models, and what that changes in its verdict.

    The verdict begins with benchmarks on which the jury is not shown to agree with clinicians; the order by calibrated
    scores then follows. Differences between models as clinicians would see them need two rated models.
    """
    shown_names = {column.benchmark for column in board.columns}
    board = replace(
        board,
        rows=_with_averages(board, board.rows),
        baselines=_with_averages(board, board.baselines),
        studies=tuple(card for card in found.studies if shown_names.intersection(card.benchmarks)),
        remarks=(*board.remarks, *(one for benchmark, one in found.remarks if benchmark in ("", *shown_names))),
    )
    board = replace(board, remarks=(*board.remarks, *_coverage_remarks(board)))
    doubts, agreeing = jury_sentences(found, board.columns)
    verdict = (*with_doubts(board, doubts), *(_calibrated_order(board) if doubts else ()))
    models = [row.model for row in board.rows if not row.published]
    cells = [cell for row in board.rows for cell in row.cells.values()]
    separated = frozenset(pair for pair in board.separated if set(pair) <= set(models))
    pairs = pairs_with_ratings(found, board.columns, cells, models, separated)
    if pairs is None:
        return replace(board, verdict=(*verdict, *agreeing))
    fields = {one.name: getattr(board, one.name) for one in dataclass_fields(board)}
    fields["verdict"] = (*verdict, *pairs.verdict(), *agreeing)
    return CalibratedLeaderboard(**fields, calibrated_pairs=pairs)


def pairs_with_ratings(
    found: Calibration,
    columns: Sequence[Column],
    cells: Sequence[Cell],
    models: Sequence[str],
    separated: frozenset[tuple[str, str]] = frozenset(),
) -> CalibratedPairs | None:
    """Compare models in the grades that clinicians would give; None unless two of them were rated.

    Parameters: columns, the benchmarks to compare on; cells, of the models; separated, pairs that differ significantly
    by the jury's scores, the better one first.
    """
    shown = {column.benchmark: column for column in columns}
    judged = [one for one in found.scored if one.model in models and one.benchmark in shown]
    rated = {one.model for one in judged if one.ratings is not None and not np.isnan(one.ratings).all()}
    if len(rated) < 2:
        return None
    known = {(one.benchmark, one.model) for one in judged}
    plain = [
        _plain_scores(cell, shown[cell.benchmark])
        for cell in cells
        if cell.model in models
        and cell.benchmark in shown
        and (cell.benchmark, cell.model) not in known
        and cell.scores is not None
    ]
    weights = {name: column.weight for name, column in shown.items()}
    return calibrated_pairs([*judged, *plain], models, weights, found.tables, separated)


def jury_sentences(found: Calibration, columns: Sequence[Column]) -> tuple[list[str], list[str]]:
    """Return what ratings say of the jury on some benchmarks: doubts, and a sentence on where it agrees with them."""
    titles = {column.benchmark: column.title for column in columns}
    shown = {name: one for name, one in found.agreement.items() if name in titles}
    return _jury_doubts(shown, titles), _agreement_sentence(shown, titles)


def _coverage_remarks(board: Leaderboard) -> Iterator[Remark]:
    """Yield a remark if clinicians rated models on different benchmarks, so that their means do not compare."""
    rated = {row.model: {name for name, cell in row.cells.items() if cell.clinicians} for row in board.all_rows}
    rated = {model: names for model, names in rated.items() if names}
    if len({frozenset(names) for names in rated.values()}) > 1:
        most = max(map(len, rated.values()))
        fewer = [f"{model} on {plural(len(names), 'benchmark')}" for model, names in rated.items() if len(names) < most]
        text = (
            f"Clinicians rated other models on {plural(most, 'benchmark')}, but {listed(fewer, MOST_ORDERED)}: compare "
            "their ratings benchmark by benchmark."
        )
        if not fewer:
            text = "Clinicians rated models on different benchmarks: compare their ratings benchmark by benchmark."
        yield Remark("unequal_rated_benchmarks", "", text)


def _with_averages(board: Leaderboard, rows: Sequence[Row]) -> tuple[Row, ...]:
    """Return models with their mean ratings over benchmarks, and their macro averages of calibrated scores."""
    weights = {column.benchmark: column.weight for column in board.columns}
    is_calibrated = {name for row in board.all_rows for name, cell in row.cells.items() if cell.calibrated}
    found = []
    for row in rows:
        means = {name: cell.clinicians for name, cell in row.cells.items() if cell.clinicians and name in weights}
        values = [_calibrated_value(row.cells.get(one.benchmark), one, is_calibrated) for one in board.columns]
        known = [value * one.weight for value, one in zip(values, board.columns, strict=True) if value is not None]
        is_whole = bool(is_calibrated & weights.keys()) and len(known) == len(values)
        average = sum(known) / sum(weights.values()) if is_whole else None
        clinicians = average_over_benchmarks(means, weights)
        found.append(replace(row, clinicians=clinicians, calibrated_average=average))
    return tuple(found)


def _calibrated_value(cell: Cell | None, column: Column, is_calibrated: Collection[str]) -> float | None:
    """Return a normalized score, calibrated where other models' scores on the benchmark are; None if it is missing."""
    if cell is None or cell.value is None:
        return None
    if column.benchmark not in is_calibrated:
        return float(column.normalize(cell.value))
    return float(column.normalize(cell.calibrated.value)) if cell.calibrated else None


def _calibrated_order(board: Leaderboard) -> list[str]:
    """Return a sentence with the order of models by calibrated scores; none if fewer than two have one."""
    known = [(row.calibrated_average, row) for row in board.rows if row.calibrated_average is not None]
    if len(known) < 2:
        return []
    ordered = sorted(known, key=lambda one: -one[0])
    names = [f"{row.model} ({value:.2f})" for value, row in ordered]
    text = f"The order by scores calibrated to clinicians' ratings, from 0 to 1: {listed(names, MOST_ORDERED)}."
    return [
        text
        + (f" {plural(missing, 'model')} cannot be calibrated." if (missing := len(board.rows) - len(known)) else "")
    ]


def _plain_scores(cell: Cell, column: Column) -> ScoredModel:
    """Return a model's scores on a benchmark without a jury, from 0 to 1."""
    scores = cell.scores if cell.tested is None else cell.tested
    assert scores is not None, "only cells with scores are looked at"
    return ScoredModel(
        benchmark=cell.benchmark,
        model=cell.model,
        ids=cell.ids,
        units=_cluster_names(cell),
        scores=np.asarray(column.normalize(scores), dtype=float),
        low=0.0,
        high=1.0,
    )


def _by_instance(rows: Sequence[Rating], known: RatedBenchmark) -> dict[str, RatedCompletion]:
    """Return instance -> its ratings; instances without a rating that has all grades are left out."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        composite = fmean(known.oriented(row.grades))
        if not isnan(composite):
            found.setdefault(row.instance_id, {})[row.rater] = composite
    drawn = {row.instance_id: row.probability for row in rows}
    return {
        instance: RatedCompletion(composites=composites, probability=drawn[instance])
        for instance, composites in found.items()
    }


def _calibrate_cell(
    cell: Cell, rivals: Sequence[Cell], rated: _Rated, known: RatedBenchmark, curve: bool
) -> CalibratedMean | str:
    """Calibrate one model with the best method that its ratings allow; return the reason if there is none."""
    assert cell.scores is not None, "a cell of a run has the scores of its instances"
    own = rated.get((cell.benchmark, cell.model), {})
    ratings = np.array([own[instance].mean if instance in own else np.nan for instance in cell.ids])
    drawn = drawn_probabilities([own.get(instance) for instance in cell.ids])
    used = [own[name] for name, score in zip(cell.ids, cell.scores, strict=True) if name in own and not np.isnan(score)]
    every = list(_on_benchmark(cell.benchmark, rated).values())
    raters = effect_of_raters(used, every)
    design = RatingDesign(low=known.low, high=known.high, probabilities=drawn, raters=raters)
    if curve:
        try:
            rng = np.random.default_rng(SEED)
            return isotonic_mapped(cell.scores, ratings, cell.clusters, design=design, rng=rng)
        except ValueError:
            pass  # too few for a curve: a line needs fewer
    try:
        return prediction_powered(cell.scores, ratings, cell.clusters, design=design)
    except ValueError as error:
        alone = str(error)
    pairs = [
        pair for rival in rivals for pair in _rated_completions(rival, rated.get((rival.benchmark, rival.model), {}))
    ]
    try:
        jury, given, models, names = zip(*pairs, strict=True) if pairs else ((), (), (), ())
        means = np.array([one.mean for one in given])
        return prediction_powered_pooled(
            cell.scores,
            RatedPairs(jury=np.array(jury), ratings=means, models=models, clusters=names),
            model=cell.model,
            design=replace(design, probabilities=drawn_probabilities(given), raters=effect_of_raters(given, every)),
            clusters=_cluster_names(cell),
        )
    except ValueError as error:
        return f"{alone}; and of all models together, {error}"


def _on_benchmark(benchmark: str, rated: _Rated) -> dict[tuple[str, str], RatedCompletion]:
    """Return model and instance -> ratings of the completion, for all models of a benchmark."""
    return {(model, name): one for (own, model), of in rated.items() if own == benchmark for name, one in of.items()}


def _agreement(cells: Sequence[Cell], runs: CountedRuns, rated: _Rated) -> dict[str, JuryAndRaters]:
    """Compare the jury with the clinicians on each benchmark; completions of one instance are not independent."""
    scores = {
        (cell.benchmark, cell.model, name): float(score)
        for cell in cells
        if (cell.benchmark, cell.model) in runs and cell.scores is not None
        for name, score in zip(cell.ids, cell.scores, strict=True)
    }
    found = {}
    for benchmark in dict.fromkeys(benchmark for benchmark, _ in rated):
        if benchmark not in {judged for judged, _ in runs}:
            continue
        completions = _on_benchmark(benchmark, rated)
        _, table = ratings_table(list(completions.values()))
        jury = np.array([scores.get((benchmark, *one), np.nan) for one in completions])
        found[benchmark] = jury_and_raters(table, jury, [instance for _, instance in completions])
    return found


def _yardstick_remarks(agreement: Mapping[str, JuryAndRaters]) -> Iterator[Remark]:
    """Yield benchmarks whose clinicians are not shown to agree with each other."""
    for benchmark, one in agreement.items():
        found = one.raters
        if found.low is not None and found.low <= 0:
            text = (
                f"{benchmark}: the clinicians are not shown to agree with each other (correlation {found.value:.2f} "
                f"[{found.low:.2f}, {found.high:.2f}]): calibrated scores are their average, and say little"
            )
            yield Remark("clinicians_disagree", benchmark, text)


def _jury_doubts(agreement: Mapping[str, JuryAndRaters], titles: Mapping[str, str]) -> list[str]:
    """Return a sentence on each benchmark on which the jury is not shown to agree with clinicians as they do."""
    found = []
    for benchmark, one in agreement.items():
        conclusion, title = conclude(one), titles.get(benchmark, benchmark)
        number, raters = (estimate_text(of, 2) for of in (one.jury, one.raters))
        if conclusion is Conclusion.NO_AGREEMENT:
            shown = f"its correlation with a clinician is {number}, so agreement is not shown"
            found.append(f"Do not rely on the jury on {title}: {shown}.")
        if conclusion is Conclusion.WORSE:
            found.append(
                f"On {title}, the jury agrees with a clinician less than two clinicians do ({number} against "
                f"{one.raters.value:.2f})."
            )
        if conclusion is Conclusion.NO_YARDSTICK:
            found.append(
                f"On {title}, ratings cannot show whether the jury can be trusted: the clinicians are not shown to "
                f"agree with each other (correlation {raters})."
            )
        if conclusion is Conclusion.TOO_FEW:
            found.append(f"On {title}, it is unknown whether the jury agrees with clinicians: {one.jury.reason}.")
    return found


def _agreement_sentence(agreement: Mapping[str, JuryAndRaters], titles: Mapping[str, str]) -> list[str]:
    """Return one sentence on the benchmarks on which the jury agrees with clinicians; none without any."""
    found = [
        f"{titles.get(benchmark, benchmark)} (correlation {estimate_text(one.jury, 2)})"
        for benchmark, one in agreement.items()
        if conclude(one) in (Conclusion.AS_GOOD, Conclusion.UNCLEAR, Conclusion.NO_COMPARISON)
    ]
    return [f"The jury agrees with clinicians on {listed(found, MOST_ORDERED)}."] if found else []


def _rated_completions(cell: Cell, own: Mapping[str, RatedCompletion]) -> list[tuple[float, RatedCompletion, str, str]]:
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


# --- selection of the rated completions -------------------------------------------------------------------------------


def _number_drawn(cell: Cell, own: Mapping[str, RatedCompletion]) -> int:
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


def _selection_remarks(cell: Cell, own: Mapping[str, RatedCompletion], n_drawn: int, run: Run) -> Iterator[Remark]:
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
    drawn = drawn_probabilities([own.get(name) for name in cell.ids])
    weights = None if drawn is None else 1 / np.where(is_rated, drawn, 1.0)
    lengths = np.array([length.get(name, np.nan) for name in cell.ids])
    for above, below, values in (
        ("have higher jury scores", "have lower jury scores", cell.scores),
        ("are longer", "are shorter", lengths),
    ):
        found = imbalance(values, is_rated & ~np.isnan(cell.scores), weights)
        if found is None or abs(found.value) <= IMBALANCE:
            continue
        more = above if found.value > 0 else below
        text = f"{about}: the {int(is_rated.sum())} rated completions {more} than "
        varied = weights is not None and np.ptp(weights[is_rated]) > 0
        text += "average, probabilities taken into account, " if varied else "the others "
        text += f"by {abs(found.value):.2f} standard deviations. "
        if abs(found.value) > found.by_chance:
            text += "This is more than chance explains. Calibration needs a random sample: `medhelm agreement sample`"
        else:
            text += "This can be chance; more ratings would tell"
        yield Remark("unbalanced_ratings", cell.model, text)
