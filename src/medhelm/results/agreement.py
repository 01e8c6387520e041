"""Agreement of the jury with the clinicians of a ratings file, as tables and JSON, and completions to rate.

The jury's grades come from the file if it has them, else from the store. The store also holds the grades of each judge
and the values of ROUGE-L and BERTScore. `comparable.select_runs` decides which run of a model counts, so that all
completions of a benchmark have the same jury; sample rows count if there is nothing else.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from medhelm.analysis.agreement.calibration import (
    DrawnCompletion,
    RatingSample,
    Selection,
    draw_completions,
    draw_shared,
)
from medhelm.analysis.agreement.jury_vs_clinicians import (
    SHARE,
    AgreementWithClinicians,
    BenchmarkAgreement,
    ClinicianAgreement,
    Conclusion,
    JuryAgreement,
    RatingMatrix,
    conclude,
    measure_agreement,
    pool_benchmarks,
)
from medhelm.analysis.agreement.reliability import JuryAndRaters, RaterAgreement
from medhelm.analysis.means import DRAWS, Floats, row_means
from medhelm.domain import JURY, Benchmark, Estimate, Rule, Run
from medhelm.domain.benchmark import group_by
from medhelm.domain.completion import strip_reasoning
from medhelm.domain.result import Remark
from medhelm.domain.text import AnyPath, listed
from medhelm.errors import UserError
from medhelm.results.comparable import SelectedRuns, default_tier, left_out_remarks, select_runs
from medhelm.results.formats.fields import Field, select, table_of
from medhelm.results.formats.studies import study_json
from medhelm.results.formats.tables import Value, decimal, estimate_text, number, render, with_interval
from medhelm.results.options import EVERY_RUN, USUAL_DRAW, DrawOptions, RunFilter
from medhelm.results.ratings import RatedBenchmark, Ratings, hidden_name
from medhelm.results.runs.selection import filter_runs
from medhelm.results.runs.stored_ratings import chosen_ratings, is_ratings_file
from medhelm.storage.damage import intact_runs
from medhelm.storage.judgments import read_judgments
from medhelm.storage.runs import load_runs, read_columns, read_prompt, score_column
from medhelm.storage.store import Store, open_store

SEED = 0
"""Seed of the resampling, so that results are reproducible."""

BASELINES: Mapping[str, str] = {"rouge_l": "ROUGE-L", "bertscore": "BERTScore"}
"""Metric that clinicians are compared with as well -> its title."""

Runs = Mapping[tuple[str, str], Run]
"""Benchmark and model -> the selected run."""


def agreement(
    ratings: AnyPath,
    store: Path,
    benchmarks: Sequence[Benchmark],
    *,
    scale: tuple[float, float] | None = None,
    draws: int = DRAWS,
    wanted: RunFilter = EVERY_RUN,
) -> JuryAgreement | None:
    """Compare the jury with clinicians, and clinicians with each other; None if no ratings are chosen.

    Parameters: ratings, as of `chosen_ratings`; store, which need not exist if a file has the jury's grades;
    benchmarks, whose rubrics are known; scale, the lowest and highest grade of the file if they are not the rubric's;
    draws, of the bootstrap; wanted, the runs whose ratings count.
    Raises: ConfigError with all problems of the file; UserError as `filter_runs` and for an unknown study; StoreError.
    """
    opened = open_store(store) if (store / "store.json").exists() else None
    chosen = judged_runs(store) if opened else {}
    judged = _by_benchmark(*chosen.values())
    runs = judged
    if opened and not is_ratings_file(ratings):
        runs = {**_by_benchmark(_selected(intact_runs(load_runs(opened)))), **judged}
    found = chosen_ratings(ratings, opened, runs, lambda: known_benchmarks(benchmarks, judged), scale=scale)
    if found is None:
        return None
    found = _of_wanted_runs(found, wanted, runs)
    rated = dict.fromkeys((row.benchmark, row.model) for row in found.rows)
    stored = {key: _read_stored(runs[key], found.benchmarks[key[0]]) for key in rated if key in runs}
    panels = {name: _rating_matrix(known, found, stored) for name, known in found.benchmarks.items()}
    rng = np.random.default_rng
    not_compared = dict(_not_compared(found, judged))
    pooled = [panel for name, panel in panels.items() if name not in not_compared] or list(panels.values())
    datasets = {name: measure_agreement(panel, rng(SEED), draws) for name, panel in panels.items()}
    return JuryAgreement(
        place=found.place,
        datasets={name: _without_jury_remarks(one) if name in not_compared else one for name, one in datasets.items()},
        combined=measure_agreement(pool_benchmarks(pooled), rng(SEED), draws),
        jury_from="file" if found.has_jury else "store",
        not_compared=not_compared,
        studies=found.studies,
        titles={one.name: one.title for one in benchmarks} | {run.benchmark: run.title for run in runs.values()},
        remarks=(
            *found.remarks,
            *(remark for name in panels if name in chosen for remark in left_out_remarks(chosen[name].left_out)),
            *_remarks(panels, runs, stored),
        ),
    )


def _without_jury_remarks(found: BenchmarkAgreement) -> BenchmarkAgreement:
    """Return agreement among clinicians alone: without remarks on jury scores that are not to be expected."""
    codes = ("without_jury_score", "jury_without_icc")
    return replace(found, remarks=tuple(remark for remark in found.remarks if remark.code not in codes))


def _selected(runs: Sequence[Run]) -> SelectedRuns:
    """Return the runs that count on each benchmark; on real data, if there are any."""
    tier = default_tier(runs)
    return select_runs((("", run) for run in runs if run.tier == tier), comparable_only=False)


def _by_benchmark(*selected: SelectedRuns) -> Runs:
    """Return selected runs by benchmark and model."""
    return {(benchmark, model): run for one in selected for (model, benchmark), run in one.runs.items()}


def _not_compared(ratings: Ratings, judged: Runs) -> Iterator[tuple[str, str]]:
    """Yield each benchmark whose ratings of a study cannot be compared with a jury, and why."""
    with_jury = {benchmark for benchmark, _ in judged}
    instruments = {name: card.instrument.title for card in ratings.studies for name in card.benchmarks}
    for name, known in ratings.benchmarks.items():
        if not known.is_rubric:
            yield name, f"clinicians rated with {instruments[name]}, which is not the rubric of the judges"
        elif ratings.studies and name not in with_jury:
            yield name, "the store has no run with judges"


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
    by_benchmark = group_by(filter_runs(wanted, found, lambda run: run), lambda run: run.benchmark)
    return {name: _selected(runs) for name, runs in by_benchmark.items()}


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


# --- stored grades ----------------------------------------------------------------------------------------------------


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
    jury = np.array(columns[score], dtype=float)
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
        baselines={
            name: np.array(columns[column], dtype=float) for name, column in zip(BASELINES, baselines, strict=True)
        },
    )


# --- grades of the ratings file ---------------------------------------------------------------------------------------


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
    elif known.is_rubric:
        jury = np.array([of[0].jury[of[1]] if of else np.nan for of in found])
        jury_grades = np.stack([of[0].grades[of[1]] if of else jury_grades[at] for at, of in enumerate(found)])
    else:
        jury = np.full(n, np.nan)
    return RatingMatrix(
        cases=[f"{known.name} {instance} of {model}" for _, model, instance in cases],
        clusters=[_cluster(case, one) for case, one in zip(cases, found, strict=True)],
        raters=raters,
        criteria=known.criteria,
        grades=grades,
        composites=grades.mean(axis=2),
        jury_grades=jury_grades,
        jury=jury,
        judges=_columns_by_name([one and (one[0].judges, one[1]) for one in found]) if known.is_rubric else {},
        baselines=_columns_by_name([one and (one[0].baselines, one[1]) for one in found]),
        low=known.low,
        high=known.high,
        whole_grades=known.high - known.low > 1 and not known.scales,
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
    judged = _by_benchmark(*chosen.values())
    runs = {key: run for key, run in judged.items() if run.jury_result and run.jury_result.form != "points"}
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
    scores = np.array(columns[score], dtype=float)
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


# --- JSON -------------------------------------------------------------------------------------------------------------

COMBINED = "Combined"
"""Name of the row for all benchmarks together."""

MEANING = """\
Jury and a clinician: correlation of the jury's scores with one clinician's. Two clinicians: correlation of one
clinician's ratings with another's; 0 for clinicians who guess. Jury minus clinicians: difference in level, in grades.
Brackets: 95% confidence intervals."""
"""Explanation that is printed below the table."""

WIDE_MEANING = """\
If the jury's correlation with a clinician is not lower than that of two clinicians, it agrees with a clinician as well
as another clinician does. Both come from all ratings at once, and ignore differences in level.
ICC(3,k): agreement with the clinicians' average: 0 none, 1 perfect order and spacing, below 0 the reverse. It ignores
differences in level, which ICC(2,1) does not.
Intervals: those of ICC(3,k) use Fisher's transformation, unless noted, as do those of Spearman in the second table;
those of ICC(2,1) the F distribution, those of correlations with a clinician a jackknife over instances, and all others
a bootstrap over instances."""
"""Explanation that is printed below the tables of all numbers."""

PUBLISHED_MEANING = """\
Published rule: clinicians with each other by the mean of ICC(3,k) over pairs who share at least two completions, with a
bootstrap interval over pairs. With few shared completions this mean is near 1 even for clinicians who guess: do not
judge a jury by it."""
"""Explanation of the published rule."""

WEAK = 0.5
"""Correlation of two clinicians below which they agree weakly."""

SPEARMAN = "spearman=value spearman_low=low spearman_high=high"
"""JSON of a rank correlation: key and field."""

NOT_COMPARED = "not_compared"
"""Conclusion in JSON on a benchmark whose ratings cannot be compared with a jury."""

KAPPA = "weighted_kappa=kappa.value"
"""JSON of a weighted kappa: key and field."""


def as_json(found: JuryAgreement) -> dict[str, Any]:
    """Return the output of `medhelm agreement --json`. An undefined number is null and has a `reason`."""
    return {
        "ratings": found.place,
        "jury_from": found.jury_from,
        "datasets": {
            name: _benchmark_json(one)
            | ({"conclusion": NOT_COMPARED, "not_compared": why} if (why := found.not_compared.get(name)) else {})
            for name, one in found.datasets.items()
        },
        "combined": _benchmark_json(found.combined),
        "verdict": verdict(found),
        "remarks": [remark.text for remark in found.remarks],
        **({"studies": [study_json(card) for card in found.studies]} if found.studies else {}),
    }


def _benchmark_json(found: BenchmarkAgreement) -> dict[str, Any]:
    jury, clinicians = found.jury, _clinicians_json(found.clinicians, found.raters)
    return {
        "n_instances": found.n_instances,
        "n_raters": len(found.raters),
        "jury_vs_clinicians": _comparison_json(jury),
        # Two keys for the published number, the mean over pairs: the first one is older. No text uses it.
        "clinicians": clinicians,
        "clinicians_published": clinicians,
        "one_clinician": {
            "jury": _raters_json(found.one_clinician.jury),
            "clinicians": _raters_json(found.one_clinician.raters),
            "difference": _raters_json(found.one_clinician.difference),
            "share": {**_raters_json(found.one_clinician.share), "needed": SHARE},
        },
        "clinicians_all_ratings": _raters_json(found.one_clinician.raters.of_mean(2), "icc3k"),
        "conclusion": str(conclude(found.one_clinician)),
        **select(jury.spearman, SPEARMAN, rounded=True),
        **select(jury, f"{KAPPA} weighted_kappa_low=kappa.low weighted_kappa_high=kappa.high", rounded=True),
        "criteria": {
            name: {
                **_full_comparison_json(match),
                "clinicians": _raters_json(found.by_criterion[name].raters),
                "jury_and_clinician": _raters_json(found.by_criterion[name].jury),
            }
            for name, match in found.criteria.items()
        },
        "judges": {name: _full_comparison_json(match) for name, match in found.judges.items()},
        "baselines": {name: _full_comparison_json(match) for name, match in found.baselines.items()},
        "remarks": [remark.text for remark in found.remarks],
    }


def _comparison_json(found: AgreementWithClinicians) -> dict[str, Any]:
    """Return a comparison, with its bootstrap interval if there is one."""
    row = {**select(found.consistency, "icc3k=value low high", rounded=True), "n": found.n}
    if found.resampled:
        row |= select(found.resampled, "bootstrap_low=low bootstrap_high=high", rounded=True)
    if found.consistency.reason:
        row["reason"] = found.consistency.reason
    if found.agreement:
        row["absolute"] = select(found.agreement, "icc21=value low high", rounded=True)
    if found.difference:
        row["difference"] = select(found.difference, "value low high", rounded=True)
    return row


def _raters_json(found: RaterAgreement, key: str = "value") -> dict[str, Any]:
    """Return agreement with one clinician."""
    row = {**select(found, f"{key}=value low high", rounded=True), "n": found.n, "n_raters": found.n_raters}
    return {**row, "reason": found.reason} if found.reason else row


def _full_comparison_json(found: AgreementWithClinicians) -> dict[str, Any]:
    """Return a comparison with rank correlation and kappa."""
    more = select(found.spearman, SPEARMAN, rounded=True) | select(found, KAPPA, rounded=True)
    return _comparison_json(found) | more


def _clinicians_json(found: ClinicianAgreement, raters: Sequence[str]) -> dict[str, Any]:
    values = [pair.value for pair in found.pairs.pairs if pair.value is not None]
    return {
        "icc3k": number(found.pairs.value),
        "low": number(found.low),
        "high": number(found.high),
        "pairs_low": number(found.pairs_low),
        "pairs_high": number(found.pairs_high),
        "n_pairs": found.pairs.n_pairs,
        "min": number(min(values, default=None)),
        "max": number(max(values, default=None)),
        "pairs": [
            {
                "raters": [raters[pair.first], raters[pair.second]],
                "n": pair.n,
                "icc3k": number(pair.value),
                **({"reason": pair.reason} if pair.reason else {}),
            }
            for pair in found.pairs.pairs
        ],
    }


# --- verdict ----------------------------------------------------------------------------------------------------------

CALIBRATE = (Conclusion.AS_GOOD, Conclusion.WORSE, Conclusion.UNCLEAR, Conclusion.NO_COMPARISON)
"""Conclusions after which calibrated scores can be read as clinicians' grades: jury and clinicians agree."""


def verdict(found: JuryAgreement) -> list[str]:
    """Return the verdict in words, from the numbers of the table: one or two sentences on each benchmark."""
    several = len(found.datasets) > 1
    sentences = []
    for name, one in found.datasets.items():
        about = f"{found.title(name)}: " if several else ""
        if why := found.not_compared.get(name):
            sentences.append(f"{about}The jury is not compared with clinicians: {why}. {_among_clinicians(one)}")
            continue
        sentences.append(about + _conclusion_sentence(one))
        if conclude(one.one_clinician) not in CALIBRATE:
            continue
        if (lenient := one.jury.difference) and (lenient.low > 0 or lenient.high < 0):
            sentences.append(about + _leniency_sentence(lenient))
    return sentences


def _among_clinicians(found: BenchmarkAgreement) -> str:
    """Return a sentence on the agreement of clinicians with each other."""
    one = found.one_clinician.raters
    if one.value is None:
        return f"How well clinicians agree with each other is unknown: {one.reason}."
    return f"The correlation of two clinicians is {estimate_text(one)}."


def _conclusion_sentence(found: BenchmarkAgreement) -> str:
    """Return the conclusion on one benchmark with its numbers."""
    one = found.one_clinician
    jury, raters, difference = (estimate_text(of) for of in (one.jury, one.raters, one.difference))
    match conclude(one):
        case Conclusion.AS_GOOD:
            weak = " Two clinicians agree weakly, so a single rating, theirs or the jury's, says little."
            return (
                "The jury can be used in place of a clinician to rank completions: its correlation with a clinician is "
                f"{jury}, that of two clinicians {raters}. The jury reaches at least {_percent(one.share.low)} of it; "
                f"{SHARE:.0%} is needed.{weak if one.raters.value is not None and one.raters.value < WEAK else ''}"
            )
        case Conclusion.WORSE:
            return (
                f"Do not use the jury in place of a clinician: its correlation with a clinician is {jury}, lower than "
                f"that of two clinicians, {raters}. The difference is {difference}."
            )
        case Conclusion.UNCLEAR:
            return (
                f"The jury agrees with a clinician (correlation {jury}), and clinicians with each other ({raters}), "
                f"but the ratings are too few to compare the two: the jury is shown to reach {_percent(one.share.low)} "
                f"of their agreement, and {SHARE:.0%} is needed. Rate more completions before the jury replaces "
                "clinicians."
            )
        case Conclusion.NO_COMPARISON:
            reason = one.raters.reason or one.difference.reason
            return (
                f"The jury agrees with a clinician (correlation {jury}), but how well clinicians agree with each other "
                f"is unknown: {reason}."
            )
        case Conclusion.NO_YARDSTICK:
            return (
                "These ratings cannot show whether the jury can be trusted: the clinicians are not shown to agree with "
                f"each other (correlation {raters}). The jury's correlation with a clinician is {jury}."
            )
        case Conclusion.NO_AGREEMENT:
            known = f" That of two clinicians is {raters}." if one.raters.value is not None else ""
            shown = f"Its correlation with a clinician is {jury}, so agreement is not shown."
            return f"Do not rely on the jury. {shown}{known}"
        case Conclusion.TOO_FEW:
            if one.jury.n == 0:
                return "No completion has both a complete rating and a jury score yet: fill in all grades."
            return f"There are too few ratings to say whether the jury can be trusted: {one.jury.reason}."


def _percent(share: float | None) -> str:
    """Return a lower limit in percent, rounded down; 0% if it is not known."""
    return f"{math.floor(100 * (share or 0.0))}%"


def _leniency_sentence(found: Estimate) -> str:
    """Return how much the jury's grades differ from clinicians'."""
    more = "higher" if found.value > 0 else "lower"
    low, high = sorted((abs(found.low), abs(found.high)))
    interval = f"{decimal(abs(found.value))} [{decimal(low)}, {decimal(high)}]"
    return (
        f"Its grades are {more} than clinicians' by {interval}: read them as clinicians' grades only after calibration."
    )


# --- tables -----------------------------------------------------------------------------------------------------------


def to_table(found: JuryAgreement, format: str = "table", rule: Rule = "corrected", *, wide: bool = False) -> str:
    """Return one row per benchmark; as text or Markdown also the verdict, remarks and meanings.

    Parameters: rule, agreement among clinicians from all ratings at once, or pair by pair as published; wide, True for
    all coefficients, and for criteria, single judges and baselines. CSV has all columns, and ids in place of titles.
    """
    every = wide or format == "csv"
    found = replace(found, titles={}) if format == "csv" else found
    rows, headers, drop = overview_table(found, rule, wide=every)
    overview = render(
        rows,
        headers,
        format=format,
        caption=f"{found.place}; grades of the jury from the {found.jury_from}",
        width=120 if every else 130,
        drop=drop,
    )
    if format in ("csv", "latex"):
        return overview
    hidden = {"pair_without_icc"} if rule == "corrected" else set()
    hidden |= set() if wide else {"baseline_missing"}
    shown = [str(remark) for remark in found.remarks if remark.code not in hidden]
    for name, one in found.datasets.items():
        shown += [f"{found.title(name)}: {remark}" for remark in one.remarks if remark.code not in hidden]
    if len(found.datasets) > 1:
        # A remark on one benchmark is not repeated for all benchmarks.
        known = {remark for one in found.datasets.values() for remark in one.remarks}
        more = [remark for remark in found.combined.remarks if remark not in known and remark.code not in hidden]
        shown += [f"{COMBINED}: {remark}" for remark in more]
    remarks = "".join(f"- {note}\n" for note in shown)
    top = "".join(f"{fill(sentence, 120)}\n" for sentence in verdict(found)) if rule == "corrected" else ""
    meaning = "\n".join([MEANING, *[WIDE_MEANING] * wide, *[PUBLISHED_MEANING] * (rule == "published")])
    details = [_details_table(found, format, part) for part in (by_criterion_table, details_table)] if wide else []
    return "\n".join(filter(None, [top, overview, *details, remarks, meaning])) + "\n"


Table = tuple[list[list[Value]], list[str], list[str]]
"""Rows, headings, and the headings that a narrow terminal leaves out."""


def _named_rows(heading: str, names: Iterable[str], table: Table) -> Table:
    """Return a table with names as its first column."""
    rows, headers, drop = table
    return [[name, *row] for name, row in zip(names, rows, strict=True)], [heading, *headers], drop


def _with_combined(found: JuryAgreement) -> list[tuple[str, BenchmarkAgreement]]:
    """Return the title of each benchmark with its agreement, and all together if there are several."""
    titled = [(found.title(name), one) for name, one in found.datasets.items()]
    return [*titled, (COMBINED, found.combined)] if len(titled) > 1 else titled


def overview_table(found: JuryAgreement, rule: Rule = "corrected", *, wide: bool = False) -> Table:
    """Return the table with one row per benchmark; parameters as `to_table`."""
    several = _with_combined(found)
    table = table_of(_fields(rule, wide=wide), [one for _, one in several], wide=wide)
    return _named_rows("Benchmark", [title for title, _ in several], table)


def _fields(rule: Rule, *, wide: bool) -> list[Field[BenchmarkAgreement]]:
    """Return the columns of the jury against clinicians, and of clinicians against each other."""
    by_pairs = rule == "published"

    def column(
        heading: str, get: Callable[[BenchmarkAgreement], Any], drop: int = 0, **settings: Any
    ) -> Field[BenchmarkAgreement]:
        return Field(key=heading, kind="interval", get=get, heading=heading, drop=drop, **settings)

    return [
        column("Completions", lambda found: found.n_instances, 11, text=lambda found: found.n_instances),
        column("Raters", lambda found: found.raters, 10, text=lambda found: len(found.raters)),
        column("Jury and a clinician", lambda found: found.one_clinician.jury, is_present=not by_pairs),
        column("Two clinicians", lambda found: found.one_clinician.raters, is_present=not by_pairs),
        column("Difference", lambda found: found.one_clinician.difference, is_present=not by_pairs),
        column("Jury ICC(3,k)", lambda found: found.jury.consistency, 0 if by_pairs else 9, is_wide=not by_pairs),
        column("Jury ICC(3,k), bootstrap", lambda found: found.jury.resampled, 1, is_wide=True),
        column("Clinicians ICC(3,k)", lambda found: found.clinicians, is_present=by_pairs,
               text=lambda found: _pairwise_text(found.clinicians, wide=wide)),
        column("Clinicians ICC(3,k)", lambda found: found.one_clinician.raters.of_mean(2), 6, is_present=not by_pairs,
               is_wide=True),
        column("Jury ICC(2,1)", lambda found: found.jury.agreement, 5, is_wide=True),
        column("Jury minus clinicians", lambda found: found.jury.difference, 4 if wide else 0),
        column("Spearman", lambda found: found.jury.spearman, 3, is_wide=True),
        column("Weighted kappa", lambda found: found.jury.kappa, 2, is_wide=True),
        column("Pairs", lambda found: found.clinicians, 8, is_present=by_pairs, is_wide=True,
               text=lambda found: found.clinicians.pairs.n_pairs),
        column("Lowest to highest pair", lambda found: found.clinicians, 7, is_present=by_pairs, is_wide=True,
               text=lambda found: _range_text(found.clinicians)),
    ]  # fmt: skip


def _pairwise_text(among: ClinicianAgreement, *, wide: bool) -> str | None:
    """Return the mean over pairs with its bootstrap interval: over pairs, or in wide tables over instances."""
    low, high = (among.low, among.high) if wide else (among.pairs_low, among.pairs_high)
    return with_interval(among.pairs.value, low, high)


def _range_text(among: ClinicianAgreement) -> str | None:
    values = [pair.value for pair in among.pairs.pairs if pair.value is not None]
    return f"{decimal(min(values))} to {decimal(max(values))}" if values else None


_DETAILS: list[Field[AgreementWithClinicians]] = [
    Field("n", lambda match: match.n, heading="Completions", drop=2),
    Field("icc3k", lambda match: match.consistency, kind="interval", heading="ICC(3,k)"),
    Field("spearman", lambda match: match.spearman, kind="interval", heading="Spearman", drop=3),
    Field("kappa", lambda match: match.kappa and match.kappa.value, heading="Weighted kappa", drop=1),
    Field("difference", lambda match: match.difference, kind="interval", heading="Minus clinicians", drop=4),
]
"""Columns of criteria, single judges and baseline metrics against the clinicians."""

_BY_CRITERION: list[Field[JuryAndRaters]] = [
    Field("jury", lambda one: one.jury, kind="interval", heading="Jury and a clinician"),
    Field("n", lambda one: one.jury.n, heading="Completions", drop=1),
    Field("clinicians", lambda one: one.raters, kind="interval", heading="Two clinicians"),
    Field("shared", lambda one: one.raters.n, heading="By two or more", drop=2),
]
"""Columns of agreement by criterion. By two or more: completions that two or more clinicians rated."""


def by_criterion_table(one: BenchmarkAgreement) -> Table:
    """Return agreement by criterion, of the jury and of clinicians."""
    return _named_rows("Criterion", one.by_criterion, table_of(_BY_CRITERION, list(one.by_criterion.values())))


def _details_table(found: JuryAgreement, format: str, part: Callable[[BenchmarkAgreement], Table]) -> str:
    """Return a table with more rows for each benchmark: those of `part`."""
    tables = [(title, part(one)) for title, one in _with_combined(found)]
    rows = [[title, *row] for title, (own, _, _) in tables for row in own]
    _, headers, drop = tables[0][1]
    return render(rows, ["Benchmark", *headers], format=format, drop=drop)


def details_table(one: BenchmarkAgreement) -> Table:
    """Return criteria, single judges and metrics against the clinicians."""
    found = {
        f"{kind} {name}": match
        for kind, matches in (("jury,", one.criteria), ("judge", one.judges), ("metric", one.baselines))
        for name, match in matches.items()
    }
    return _named_rows("Compared with clinicians", found, table_of(_DETAILS, list(found.values())))


def sample_to_csv(found: RatingSample, raters: Sequence[str]) -> str:
    """Return CSV for raters to fill in: what is rated, the columns of a ratings file, and the probability."""
    texts = ["prompt", "reference", "completion"]
    headers = ["rater", "benchmark", "instance_id", "model", *texts, *found.criteria, "probability"]
    empty: list[Value] = [None] * len(found.criteria)
    rows: list[list[Value]] = [
        [
            rater,
            *(one.benchmark, one.instance_id, one.model, one.prompt, "\n\n".join(one.references), one.completion),
            *empty,
            one.probability,
        ]
        for rater in raters
        for one in found.completions
    ]
    return render(rows, headers, format="csv")
