"""Agreement of the jury with the clinicians of a ratings file.

The jury's grades come from the file if it has them, else from the store. The store also holds the grades of each judge
and the values of ROUGE-L and BERTScore. `run_selection` decides which run of a model counts, so that all completions of
a benchmark have the same jury; sample rows count if there is nothing else.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from medhelm.analysis.agreement.calibration import (
    DrawnCompletion,
    RatingSample,
    Selection,
    draw_completions,
    draw_shared,
)
from medhelm.analysis.agreement.jury_vs_clinicians import (
    JuryAgreement,
    RatingMatrix,
    measure_agreement,
    pool_benchmarks,
)
from medhelm.analysis.means import DRAWS, row_means
from medhelm.domain import JURY, Benchmark, Run
from medhelm.domain.benchmark import group_by
from medhelm.domain.completion import strip_reasoning
from medhelm.domain.result import Remark
from medhelm.domain.text import listed
from medhelm.errors import UserError
from medhelm.results.comparable import SelectedRuns, left_out_remarks, select_runs
from medhelm.results.options import EVERY_RUN, USUAL_DRAW, DrawOptions, RunFilter
from medhelm.results.ratings import RatedBenchmark, Ratings, hidden_name, read_ratings
from medhelm.results.runs.run_filter import filter_runs
from medhelm.storage.damage import intact_runs
from medhelm.storage.judgments import read_judgments
from medhelm.storage.runs import load_runs, read_columns, read_prompt, score_column
from medhelm.storage.store import Store, open_store

if TYPE_CHECKING:
    from medhelm.analysis.means import Floats

SEED = 0
"""Seed of the resampling, so that results are reproducible."""

BASELINES: Mapping[str, str] = {"rouge_l": "ROUGE-L", "bertscore": "BERTScore"}
"""Metric that clinicians are compared with as well -> its title."""

Runs = Mapping[tuple[str, str], Run]
"""Benchmark and model -> the selected run."""


def agreement(
    path: Path,
    store: Path,
    benchmarks: Sequence[Benchmark],
    *,
    scale: tuple[float, float] | None = None,
    draws: int = DRAWS,
    wanted: RunFilter = EVERY_RUN,
) -> JuryAgreement:
    """Compare the jury with the clinicians of a ratings file.

    Parameters: store, which need not exist if the file has the jury's grades; benchmarks, whose rubrics are known;
    scale, the lowest and highest grade of the file if they are not the rubric's; draws, of the bootstrap; wanted, the
    runs whose ratings count.
    Raises: ConfigError with all problems of the file; UserError as `filter_runs`; StoreError.
    """
    chosen = judged_runs(store) if (store / "store.json").exists() else {}
    runs = {(benchmark, model): run for one in chosen.values() for (model, benchmark), run in one.runs.items()}
    ratings = read_ratings(
        path, known_benchmarks(benchmarks, runs), lambda *key: instance_ids_of(runs[key]), scale=scale
    )
    ratings = _of_wanted_runs(ratings, wanted, runs)
    rated = dict.fromkeys((row.benchmark, row.model) for row in ratings.rows)
    stored = {key: _read_stored(runs[key], ratings.benchmarks[key[0]]) for key in rated if key in runs}
    panels = {name: _rating_matrix(known, ratings, stored) for name, known in ratings.benchmarks.items()}
    rng = np.random.default_rng
    return JuryAgreement(
        place=ratings.place,
        datasets={name: measure_agreement(panel, rng(SEED), draws) for name, panel in panels.items()},
        combined=measure_agreement(pool_benchmarks(list(panels.values())), rng(SEED), draws),
        jury_from="file" if ratings.has_jury else "store",
        remarks=(
            *ratings.remarks,
            *(remark for name in panels if name in chosen for remark in left_out_remarks(chosen[name].left_out)),
            *_remarks(panels, runs, stored),
        ),
    )


@dataclass(frozen=True, slots=True)
class _RatedRun:
    """Facts of the run whose completions were rated; `started` is "" if it is not in the store."""

    benchmark: str
    model: str
    started: str


def _of_wanted_runs(ratings: Ratings, wanted: RunFilter, runs: Runs) -> Ratings:
    """Return only ratings of runs that meet the conditions. Raises: UserError as `filter_runs`."""
    if wanted.is_empty:
        return ratings
    keys = dict.fromkeys((row.benchmark, row.model) for row in ratings.rows)
    rated = [_RatedRun(*key, started=runs[key].started if key in runs else "") for key in keys]
    kept = {(run.benchmark, run.model) for run in filter_runs(wanted, rated, lambda run: run)}
    rows = tuple(row for row in ratings.rows if (row.benchmark, row.model) in kept)
    names = {row.benchmark for row in rows}
    return replace(ratings, rows=rows, benchmarks={k: v for k, v in ratings.benchmarks.items() if k in names})


def judged_runs(store: Path, wanted: RunFilter = EVERY_RUN) -> dict[str, SelectedRuns]:
    """Select the judged runs of each benchmark; on real data, if there are any. Raises: as `filter_runs`."""
    found = list(intact_runs(run for run in load_runs(open_store(store)) if run.jury_result))
    chosen = {}
    for name, runs in group_by(filter_runs(wanted, found, lambda run: run), lambda run: run.benchmark).items():
        real = [run for run in runs if run.tier == "real"]
        chosen[name] = select_runs((("", run) for run in real or runs), comparable_only=False)
    return chosen


def known_benchmarks(benchmarks: Sequence[Benchmark], runs: Runs) -> dict[str, RatedBenchmark]:
    """Return name or alias -> rubric and judged models of a benchmark with a rubric, or of one that the store has."""
    models: dict[str, list[str]] = {}
    for benchmark, model in runs:
        models.setdefault(benchmark, []).append(model)
    known: dict[str, RatedBenchmark] = {}
    for definition in benchmarks:
        if (rubric := definition.rubric) is None:
            continue
        one = RatedBenchmark(
            name=definition.name,
            criteria=tuple(criterion.name for criterion in rubric.criteria),
            lower_is_better=frozenset(c.name for c in rubric.criteria if not c.higher_is_better),
            low=rubric.low,
            high=rubric.high,
            models=tuple(models.pop(definition.name, ())),
            in_points=rubric.form == "points",
        )
        known |= dict.fromkeys((definition.name, *definition.aliases), one)
    for name, judged in models.items():
        run = runs[name, judged[0]]
        assert run.jury_result is not None, "only judged runs are looked at"
        criteria = tuple(dict.fromkeys(read_judgments(run).criteria))
        known[name] = RatedBenchmark(
            name=name,
            criteria=criteria,
            lower_is_better=frozenset(run.jury_result.lower_is_better),
            low=run.jury_result.low,
            high=run.jury_result.high,
            models=tuple(judged),
            in_points=run.jury_result.form == "points",
        )
    return known


def instance_ids_of(run: Run) -> list[str]:
    """Read the instance ids of a run."""
    return read_columns(run, ["instance_id"])["instance_id"]


# --- the store --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Stored:
    """A run as arrays: n instances, C criteria, high grades good, nan if missing."""

    place: Mapping[str, int]
    """Instance -> its row."""
    clusters: Sequence[str]
    jury: Floats
    """Shape (n,)."""
    grades: Floats
    """Shape (n, C): mean over the judges that graded everything."""
    judges: Mapping[str, Floats]
    """Judge -> its scores, shape (n,), where it graded everything."""
    baselines: Mapping[str, Floats]


def _read_stored(run: Run, known: RatedBenchmark) -> _Stored:
    """Read a run. A scored completion that no judge saw, such as a blank one, gets the worst grade from each judge."""
    score, *baselines = (score_column(name, "corrected") for name in (JURY, *BASELINES))
    columns = read_columns(run, ["instance_id", "cluster", score, *baselines])
    place = {name: row for row, name in enumerate(columns["instance_id"])}
    criteria = {name: column for column, name in enumerate(known.criteria)}
    judgments = read_judgments(run)
    names = list(dict.fromkeys(judgments.judges)) or [judge.name for judge in run.judges]
    cells = np.full((len(names), len(place), len(criteria)), np.nan)
    for instance, judge, criterion, grade in zip(*judgments[:4], strict=True):
        mirrored = criterion in known.lower_is_better
        value = known.low + known.high - grade if mirrored else grade
        if criterion in criteria:
            cells[names.index(judge), place[instance], criteria[criterion]] = value
    jury = _numbers(columns[score])
    unseen = ~np.isnan(jury)
    unseen[[place[name] for name in set(judgments.instance_ids)]] = False
    cells[:, unseen] = known.low
    cells[np.isnan(cells).any(axis=2)] = np.nan
    grades = np.stack([row_means(cells[:, :, column].T) for column in criteria.values()], axis=1)
    grades[np.isnan(jury)] = np.nan
    return _Stored(
        place=place,
        clusters=columns["cluster"],
        jury=jury,
        grades=grades,
        judges={name: own.mean(axis=1) for name, own in zip(names, cells, strict=True)},
        baselines={name: _numbers(columns[column]) for name, column in zip(BASELINES, baselines, strict=True)},
    )


def _numbers(values: Sequence[float | None]) -> Floats:
    """Return a column of the store as numbers, nan if missing."""
    return np.array([np.nan if value is None else value for value in values], dtype=float)


# --- the ratings file -------------------------------------------------------------------------------------------------


def _rating_matrix(known: RatedBenchmark, ratings: Ratings, stored: Mapping[tuple[str, str], _Stored]) -> RatingMatrix:
    """Return the ratings of one benchmark, with the jury's grades from the file or the store."""
    rows = [row for row in ratings.rows if row.benchmark == known.name]
    cases = {case: number for number, case in enumerate(dict.fromkeys(row.case for row in rows))}
    raters = list(dict.fromkeys(row.rater for row in rows))
    n, width = len(cases), len(known.criteria)
    grades = np.full((n, len(raters), width), np.nan)
    jury_grades = np.full((n, width), np.nan)
    for row in rows:
        at = cases[row.case]
        grades[at, raters.index(row.rater)] = known.oriented(row.grades)
        if ratings.has_jury:
            own = known.oriented(row.jury)
            jury_grades[at] = np.where(np.isnan(own), jury_grades[at], own)
    found = [_find_stored(case, stored) for case in cases]
    if ratings.has_jury:
        jury = jury_grades.mean(axis=1)
    else:
        jury = np.array([of.jury[at] for of, at in filter(None, found)])
        jury_grades = np.stack([of.grades[at] for of, at in filter(None, found)])
    return RatingMatrix(
        cases=[f"{known.name} {instance} of {model}" for _, model, instance in cases],
        clusters=[_cluster(case, one) for case, one in zip(cases, found, strict=True)],
        raters=raters,
        criteria=known.criteria,
        grades=grades,
        composites=grades.mean(axis=2),
        jury_grades=jury_grades,
        jury=jury,
        judges=_columns_by_name([one and (one[0].judges, one[1]) for one in found]),
        baselines=_columns_by_name([one and (one[0].baselines, one[1]) for one in found]),
        low=known.low,
        high=known.high,
        whole_grades=known.high - known.low > 1,
    )


_Place = tuple[_Stored, int]
"""A run, and the row of an instance in it."""


def _find_stored(case: tuple[str, str, str], stored: Mapping[tuple[str, str], _Stored]) -> _Place | None:
    """Return the run and row of a completion in the store; None if missing."""
    benchmark, model, instance = case
    of = stored.get((benchmark, model))
    return (of, of.place[instance]) if of and instance in of.place else None


def _cluster(case: tuple[str, str, str], found: _Place | None) -> str:
    """Return the name of a completion's cluster: those on the same instance or cluster are not independent."""
    benchmark, _, instance = case
    cluster = found[0].clusters[found[1]] if found else ""
    return f"{benchmark}/{cluster or instance}"


def _columns_by_name(found: Sequence[tuple[Mapping[str, Floats], int] | None]) -> dict[str, Floats]:
    """Return name -> its value for every completion, nan if missing; names without any value are left out."""
    names = dict.fromkeys(name for one in found if one for name in one[0])
    columns = {
        name: np.array([one[0][name][one[1]] if one and name in one[0] else np.nan for one in found]) for name in names
    }
    return {name: column for name, column in columns.items() if not np.isnan(column).all()}


def _remarks(
    panels: Mapping[str, RatingMatrix], runs: Runs, stored: Mapping[tuple[str, str], _Stored]
) -> Iterator[Remark]:
    """Yield remarks on judged runs, baselines and real data that the store lacks."""
    absent = [name for name in panels if name not in {benchmark for benchmark, _ in stored}]
    if absent:
        text = "the store has no judged run of these models: single judges and baselines are not compared"
        yield Remark("no_judged_run", "", f"{', '.join(absent)}: {text}")
    for name, panel in panels.items():
        own = [runs[key] for key in stored if key[0] == name]
        for metric, title in BASELINES.items():
            if own and metric not in panel.baselines:
                why = next((run.not_computed[metric] for run in own if metric in run.not_computed), "")
                yield Remark("baseline_missing", name, f"{name}: {title} is not in the store{': ' * bool(why)}{why}")
        if any(run.tier == "sample" for run in own):
            yield Remark("sample_tier", name, f"{name}: the completions are of invented sample rows, not real data")


# --- completions to rate ----------------------------------------------------------------------------------------------


def draw_rating_sample(
    store: Path, size: int, options: DrawOptions = USUAL_DRAW, *, seed: int = 0, wanted: RunFilter = EVERY_RUN
) -> RatingSample:
    """Draw `size` completions of each model on each benchmark that has a jury score.

    The draw of a model on a benchmark depends on the seed and both names only, not on what else is in the store.

    If all models have the same instances, their names do not count. Baselines that `wanted` names are drawn from, too.
    Raises: UserError if there is nothing to draw from, and as `filter_runs`; StoreError.
    """
    chosen = judged_runs(store, wanted) if (store / "store.json").exists() else {}
    runs = {
        (name, model): run
        for name, selected in chosen.items()
        for (model, _), run in selected.runs.items()
        if run.jury_result and run.jury_result.form != "points"
    }
    if not runs:
        raise UserError(f"{store} has no run whose judges gave grades. `medhelm run --judge` makes one.")
    left_out: tuple[str, ...] = ()
    if not (options.include_baselines or wanted.models):
        left_out = tuple(dict.fromkeys(model for _, model in runs if model.startswith("baseline/")))
        runs = {key: run for key, run in runs.items() if key[1] not in left_out}
        if not runs:
            raise UserError(f"{store} has only judged runs of {listed(left_out)}. --include-baselines draws from them.")
    criteria: dict[str, None] = {}
    scales: dict[tuple[str, str], tuple[float, float, bool]] = {}
    found: list[DrawnCompletion] = []
    for name in dict.fromkeys(name for name, _ in runs):
        of_benchmark: list[DrawnCompletion] = []
        for (benchmark, model), run in runs.items():
            if benchmark == name:
                of_benchmark += _draw_from_run(open_store(store), run, model, size, seed, options)
                own = dict.fromkeys(read_judgments(run).criteria)
                criteria |= own
                scales |= {(name, one): _scale(run, one) for one in own}
        order = np.random.default_rng([seed, zlib.crc32(name.encode())]).permutation(len(of_benchmark))
        found += [of_benchmark[place] for place in order]
    if not found:
        raise UserError("no completion of these benchmarks and models has a jury score.")
    if not options.show_models:
        found = [replace(one, model=hidden_name(one.benchmark, one.model, one.instance_id)) for one in found]
    return RatingSample(criteria=tuple(criteria), completions=tuple(found), scales=scales, left_out=left_out)


def _scale(run: Run, criterion: str) -> tuple[float, float, bool]:
    """Return the lowest and highest grade on a criterion, and whether the highest is the best."""
    assert run.jury_result is not None, "only judged runs are looked at"
    return run.jury_result.low, run.jury_result.high, criterion not in run.jury_result.lower_is_better


def _draw_from_run(
    store: Store, run: Run, model: str, size: int, seed: int, options: DrawOptions
) -> list[DrawnCompletion]:
    """Draw completions of one run."""
    assert run.jury_result is not None, "only judged runs are looked at"
    score = score_column(JURY, "corrected")
    columns = read_columns(run, ["instance_id", "completion", score])
    scores = _numbers(columns[score])
    names = [run.benchmark] if options.same_instances else [run.benchmark, model]
    rng = np.random.default_rng([seed, *(zlib.crc32(name.encode()) for name in names)])
    if options.same_instances:
        order = np.argsort(np.array(columns["instance_id"]))  # runs may hold them in any order
        found = draw_shared(scores[order], size, rng)
        selection = Selection(drawn=order[found.drawn], probabilities=found.probabilities[np.argsort(order)])
    else:
        scale = (run.jury_result.low, run.jury_result.high) if options.by_score else None
        selection = draw_completions(scores, size, rng, scale=scale)
    prompts = store.prompts_file(run.benchmark, run.benchmark_digest, run.data_digest)
    drawn = []
    for place in selection.drawn:
        instance_id = columns["instance_id"][place]
        shown = read_prompt(prompts, instance_id) or {"messages": (), "references": ()}
        drawn.append(
            DrawnCompletion(
                benchmark=run.benchmark,
                model=model,
                instance_id=instance_id,
                prompt="\n\n".join(message["content"] for message in shown["messages"]),
                references=tuple(one["text"] for one in shown["references"] if one["correct"]),
                completion=strip_reasoning(columns["completion"][place] or ""),
                probability=float(selection.probabilities[place]),
            )
        )
    return drawn


def rater_names(number: int) -> Sequence[str]:
    """Name raters for a file to be filled in.

    >>> rater_names(2)
    ['rater 1', 'rater 2']
    """
    return [f"rater {place}" for place in range(1, number + 1)]
