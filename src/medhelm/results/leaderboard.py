"""Leaderboards of stores."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.analysis.leaderboard.build import build_leaderboard
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.findings import MAJORITY, with_doubts
from medhelm.analysis.leaderboard.lowest_grades import with_floors_as_worst, with_score_with_floors
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.benchmarks.suites import load_suite
from medhelm.domain import JURY, ConstantBaseline, InjectionEffect, Rule, Run, Tier
from medhelm.domain.benchmark import Suite
from medhelm.domain.option_fields import check_options
from medhelm.domain.result import LeftOut, Remark
from medhelm.domain.run import completion_remarks
from medhelm.domain.text import AnyPaths, as_names, as_paths, listed
from medhelm.errors import UserError
from medhelm.evaluation.remarks import cut_text_remarks, drift_remarks, truncation_remarks
from medhelm.results.comparable import default_tier, left_out_remarks, select_runs, temperature_remarks
from medhelm.results.options import (
    NO_RATINGS,
    USUAL,
    BoardOptions,
    Pricing,
    by_keywords,
    folders_of,
    read_pricing,
    resolve_suite,
    suite_sort_key,
)
from medhelm.results.runs.cells import cell_of, column_of
from medhelm.results.runs.criteria import with_criteria
from medhelm.results.runs.lowest_grades import latest_floors, with_floors
from medhelm.results.runs.remarks import (
    cached_completions_text,
    cluster_remarks,
    distant_dates_remarks,
    imported_remarks,
    injection_effects,
    injection_remarks,
    jury_remarks,
    shard_remarks,
    unfinished_remarks,
    unknown_metric_remarks,
)
from medhelm.results.runs.selection import load_filtered, names_in, with_names
from medhelm.results.spending import repriced
from medhelm.storage.damage import intact_runs, leave_out
from medhelm.storage.ratings import ratings_names
from medhelm.storage.run_scores import RunScores, read_all
from medhelm.storage.runs import read_baseline
from medhelm.storage.store import DamagedRunError, Store, open_store

if TYPE_CHECKING:
    from medhelm.analysis.jury.judges import JuryReliability
    from medhelm.results.calibration import Calibration

PUBLISHED = "published"
"""Name of the panel of all published models."""


@by_keywords(BoardOptions)
def leaderboard(stores: AnyPaths, options: BoardOptions) -> Leaderboard:
    """Build the leaderboard of one or more stores.

    If a model has more than one run on a benchmark, the one with the most instances counts, then the latest.
    Interrupted runs do not count; a remark names them.

    Parameters
    ----------
    stores
        Folder of a store, or a list of folders.

    The others are the fields of `BoardOptions`.

    Raises
    ------
    StoreError
        If a folder is not a store.
    UserError
        For wrong arguments, or if there is nothing to rank.
    ConfigError
        For a wrong file of ratings, prices or a suite.
    """
    return leaderboard_of(as_paths(stores, "stores"), options)


def leaderboard_of(
    stores: Sequence[Path], options: BoardOptions = USUAL, *, finished: LeaderboardInputs | None = None
) -> Leaderboard:
    """Build a leaderboard, as `leaderboard`, with options in one object.

    `finished`: what `read_inputs` returned for them, if it was read before.
    """
    check_options(options)
    if not stores:
        raise UserError("`stores` is empty: name the folder of a store.")
    if options.clinicians and options.clinicians.is_given and options.resample == "none":
        raise UserError("ratings need single scores, which --resample none does not read. Leave one of them out.")
    finished = finished or read_inputs(stores, options, single_scores=options.resample != "none")
    finished = calibrated_inputs(finished, options, stores)
    if options.short_names:
        finished = renamed_inputs(finished, finished.short_names)
    return leaderboard_from_inputs(finished, options)


def calibrated_inputs(finished: LeaderboardInputs, options: BoardOptions, stores: Sequence[Path]) -> LeaderboardInputs:
    """Add the ratings of clinicians, and what they would give to the completions that the jury scored.

    Ratings of the store are not used for several stores, without single scores and with published scoring; a remark
    then says so. Raises: UserError for other ratings there, and as `chosen_ratings`; ConfigError.
    """
    clinicians = options.clinicians
    if clinicians is None or str(clinicians.ratings) == NO_RATINGS:
        return finished
    by_itself = not clinicians.is_given
    named = [path for path in stores if by_itself and ratings_names(Store(path))]
    if by_itself and not named:
        return finished
    if len(stores) > 1 or finished.rule != "corrected" or options.resample == "none":
        if not by_itself:
            raise UserError("ratings go with one --store and with corrected scoring: they name models, not stores.")
        text = (
            f"The clinicians' ratings in {listed(list(map(str, named)))} are not used: they need one store, corrected "
            "scoring and single scores."
        )
        return replace(finished, remarks=[*finished.remarks, Remark("ratings_not_used", "", text)])
    # Lazy: few leaderboards have ratings.
    from medhelm.results.agreement import known_benchmarks
    from medhelm.results.calibration import calibrate
    from medhelm.results.runs.stored_ratings import chosen_ratings

    runs = {(benchmark, model): run for (model, benchmark), run in finished.runs.items()}
    judged = {key: run for key, run in runs.items() if run.jury_result}
    ratings = chosen_ratings(
        clinicians.ratings,
        Store(stores[0]),
        runs,
        lambda: known_benchmarks(clinicians.definitions, judged),
        studies=clinicians.studies,
    )
    if ratings is None:
        return finished
    found = calibrate(finished.cells, runs, ratings, curve=clinicians.curve)
    return replace(finished, cells=found.cells, calibration=found)


def leaderboard_from_inputs(finished: LeaderboardInputs, options: BoardOptions = USUAL) -> Leaderboard:
    """Build the leaderboard of runs that were read before, with the remarks on their selection.

    Raises: UserError as `resolve_suite` and `build_leaderboard`.
    """
    if PUBLISHED in as_names(options.panel, "panel"):
        raise UserError(
            f"--panel {PUBLISHED}: published results are means by the published rule, which this leaderboard does not "
            "include. Name models that it shows, or use `medhelm leaderboard --panel published`."
        )
    board = _board_of(finished, finished.cells, options)
    if board.has_floors:
        columns = {column.benchmark: column for column in finished.columns}
        worse = [with_floors_as_worst(cell, columns[cell.benchmark]) for cell in finished.cells]
        board = with_score_with_floors(board, _board_of(finished, worse, options))
    left_out = finished.left_out_of(board.columns)
    remarks = [*left_out_remarks(left_out), *finished.remarks_on(board.columns)]
    remarks += unfinished_remarks(finished.unfinished)
    shown = {column.benchmark for column in board.columns}
    effects = tuple(one for one in finished.injection_effects if one.benchmark in shown)
    remarks += injection_remarks(effects)
    board = replace(board, left_out=left_out, injection_effects=effects, remarks=(*board.remarks, *remarks))
    return with_jury_doubts(board, finished)


def _board_of(finished: LeaderboardInputs, cells: Sequence[Cell], options: BoardOptions) -> Leaderboard:
    """Rank these cells on the benchmarks of runs that were read before."""
    suite = suite_of(options, finished.columns)
    return leaderboard_from_cells(cells, finished.columns, suite, options, scoring=finished.rule, tier=finished.tier)


def with_jury_doubts(board: Leaderboard, finished: LeaderboardInputs) -> Leaderboard:
    """Return a leaderboard whose verdict begins with what judges, or clinicians, say against the jury's scores.

    It names the judges, and benchmarks, whose scores cannot rank models.
    """
    if finished.judge_agreement and len(board.rows) > 1:
        from medhelm.analysis.jury.findings import judges_in_words  # lazy, as `_judge_agreement`

        judged = [column for column in board.columns if column.benchmark in finished.judge_agreement]
        sentences = judges_in_words((column.title, finished.judge_agreement[column.benchmark]) for column in judged)
        board = replace(board, verdict=with_doubts(board, sentences))
    if finished.calibration is None:
        return board
    from medhelm.results.calibration import with_clinicians  # lazy: few leaderboards have ratings

    return with_clinicians(board, finished.calibration)


def suite_of(options: BoardOptions, columns: Iterable[Column]) -> Suite:
    """Return the suite of a leaderboard of these benchmarks. Raises: as `resolve_suite`."""
    return resolve_suite(str(options.suite), columns, folders_of(options))


def leaderboard_from_cells(
    cells: Sequence[Cell],
    columns: Sequence[Column],
    suite: Suite,
    options: BoardOptions,
    *,
    scoring: Rule,
    tier: Tier = "real",
) -> Leaderboard:
    """Build a leaderboard of these cells on the benchmarks of a suite, with its weights.

    Parameters: columns, of all benchmarks of the cells; options, those of the ranking; the rest as
    `build_leaderboard`. Raises: UserError.
    """
    weights = suite.weights or {}
    board = build_leaderboard(
        cells,
        [replace(column, weight=weights.get(column.benchmark, column.weight)) for column in columns],
        benchmarks=None if suite.weights is None else list(suite.weights),
        options=options,
        suite=suite.name,
        scoring=scoring,
        tier=tier,
    )
    return replace(board, suite_description=suite.description)


def leaderboard_of_scores(scores: Path, options: BoardOptions = USUAL) -> Leaderboard:
    """Build the leaderboard of a published table of scores, a CSV file with the reference's header."""
    from medhelm.results.scores_csv import read_scores as read_published  # lazy: few leaderboards show others' scores

    published = read_published(scores, load_suite())
    board = leaderboard_from_cells(
        published.cells,
        published.columns,
        resolve_suite(str(options.suite), published.columns),
        options,
        scoring="published",
    )
    rows = tuple(replace(row, published=True) for row in board.rows)
    return replace(board, rows=rows, remarks=(*published.remarks, *board.remarks))


@dataclass(frozen=True, slots=True)
class LeaderboardInputs:
    """The finished runs of some stores, ready to be ranked or compared."""

    cells: Sequence[Cell]
    """One for each run that counts."""
    columns: Sequence[Column]
    """One for each benchmark, in the order of the suite."""
    tier: Tier
    """Real data or sample rows."""
    unfinished: Sequence[str]
    """Interrupted runs, which do not count, in words."""
    rule: Rule
    """Scoring rule."""
    remarks: Sequence[Remark]
    """Limits that hold on all benchmarks; `remarks_on` adds those of runs."""
    runs: Mapping[tuple[str, str], Run]
    """Model and benchmark -> the selected run."""
    left_out: Sequence[LeftOut] = ()
    """Models that do not count on a benchmark, because they were measured under other conditions."""
    short_names: Mapping[str, str] = field(default_factory=dict)
    """Name of each model and judge -> its name without the address of its server."""
    shown_names: Mapping[str, str] = field(default_factory=dict)
    """Name of each model and judge in its runs -> its name here; empty if they are the same."""
    judge_agreement: Mapping[str, JuryReliability | None] = field(default_factory=dict)
    """Benchmark with more than one judge -> its judges beside each other."""
    calibration: Calibration | None = None
    """Clinicians' ratings of these runs; None without."""
    injection_effects: Sequence[InjectionEffect] = ()
    """Completions with signs of a prompt injection, and the mean jury score with and without them."""

    def left_out_of(self, columns: Iterable[Column]) -> tuple[LeftOut, ...]:
        """Return the models that are left out of these benchmarks."""
        shown = {column.benchmark for column in columns}
        return tuple(one for one in self.left_out if one.benchmark in shown)

    def remarks_on(self, columns: Iterable[Column], models: Collection[str] = ()) -> list[Remark]:
        """Return the limits of the runs on these benchmarks, of some models or of all, and of their juries."""
        place = {column.benchmark: number for number, column in enumerate(columns)}
        shown = [column for column in self.columns if column.benchmark in place]
        cells = [one for one in self.cells if one.benchmark in place and (not models or one.model in models)]
        keyed = {key: run for key, run in self.runs.items() if key[1] in place and (not models or key[0] in models)}
        runs = sorted(keyed.values(), key=lambda run: place[run.benchmark])
        found = [*imported_remarks(runs, self.rule), *jury_remarks(runs), *truncation_remarks(runs)]
        found += [*completion_remarks(runs), *temperature_remarks(keyed)]
        found += cut_text_remarks(run for run in runs if run.main_metric in run.cut_texts)
        found += [*drift_remarks(runs), *distant_dates_remarks(keyed)]
        found += [*unknown_metric_remarks(shown, cells), *cluster_remarks(cells, shown)]
        text = partial(with_names, self.shown_names)
        return [*(replace(one, subject=text(one.subject), text=text(one.text)) for one in found), *self.remarks]


def read_inputs(
    stores: Sequence[Path],
    options: BoardOptions = USUAL,
    *,
    single_scores: bool = True,
    found: Sequence[tuple[str, Run]] | None = None,
) -> LeaderboardInputs:
    """Read the runs that count, and their scores. Runs whose scores cannot be read are left out with a warning.

    Parameters: single_scores, False to open no records, so that only means are known; found, the runs with intact
    records that meet `options.wanted`, if they were read before; the rest as in `leaderboard`.
    Raises: UserError if there is no finished run.
    """
    is_checked, pricing = found is not None, read_pricing(options.pricing)
    if found is None:
        found = load_filtered(stores, options.wanted)
    if not is_checked and (single_scores or pricing is not None):
        kept = set(map(id, intact_runs(run for _, run in found)))
        found = [(label, run) for label, run in found if id(run) in kept]
    while True:
        try:
            return _inputs_of(found, stores, options, pricing, single_scores=single_scores)
        except DamagedRunError as error:
            found = [(label, run) for label, run in found if run.folder != error.folder]
            leave_out([error], (run for _, run in found))


def _inputs_of(
    found: Sequence[tuple[str, Run]],
    stores: Sequence[Path],
    options: BoardOptions,
    pricing: Pricing | None,
    *,
    single_scores: bool,
) -> LeaderboardInputs:
    """Select the runs that count, and read their scores; parameters and errors as `read_inputs`.

    Raises: DamagedRunError for a run whose records cannot be read.
    """
    rule, tier = options.rule, options.tier or default_tier(run for _, run in found)
    of_tier = ((label, run) for label, run in found if run.tier == tier)
    choice = select_runs(of_tier, comparable_only=options.comparable_only)
    chosen: Mapping[tuple[str, str], Run] = choice.runs
    if pricing is not None:
        chosen = dict(zip(chosen, repriced(list(chosen.values()), pricing), strict=True))
    if not chosen:
        unfinished = f"; unfinished: {'; '.join(choice.unfinished)}" if choice.unfinished else ""
        places = ", ".join(map(str, stores))
        kind = f" on {tier} data" if found else ""
        shards = "".join(f"\n{remark}" for remark in shard_remarks(stores))
        cached = "" if found or shards else f" {cached_completions_text(stores)}".rstrip()
        raise UserError(f"no finished run{kind} in {places}. Start one with `medhelm run`{unfinished}.{cached}{shards}")
    baselines, prompts = _constant_baselines(stores, chosen.values())
    by_benchmark = {run.benchmark: run for run in chosen.values()}
    names = sorted(by_benchmark, key=suite_sort_key)
    columns = {name: column_of(by_benchmark[name], baselines.get(name), rule) for name in names}
    if single_scores:
        columns = _with_constant_scores(columns, chosen, baselines, prompts, rule)
    keys = sorted(chosen, key=lambda key: key[1])
    runs = [chosen[key] for key in keys]
    scores: Iterable[tuple[Run, RunScores | None]] = (
        read_all(runs, rule) if single_scores else ((run, None) for run in runs)
    )
    as_worst = rule == "corrected" and not options.completers_only
    floors, with_grades = latest_floors(runs), options.criteria and rule == "corrected"
    cells = []
    judged: dict[str, list[tuple[Run, RunScores]]] = {}
    for (model, _), (run, scored) in zip(keys, scores, strict=True):
        cell = cell_of(model, run, columns[run.benchmark], scored, as_worst=as_worst, rule=rule)
        cell = with_floors(cell, run, floors.get(run.benchmark, ()), scored, rule)
        cells.append(with_criteria(cell, run, scored) if with_grades else cell)
        if scored and run.main_metric == JURY and len(run.judges) > 1:
            judged.setdefault(run.benchmark, []).append((run, scored))
    return LeaderboardInputs(
        cells=cells,
        columns=tuple(columns.values()),
        tier=tier,
        unfinished=choice.unfinished,
        rule=rule,
        remarks=shard_remarks(stores),
        runs=chosen,
        left_out=choice.left_out,
        short_names=names_in(found),
        judge_agreement=_judge_agreement(judged) if rule == "corrected" else {},
        injection_effects=injection_effects(chosen, rule),
    )


def _judge_agreement(judged: Mapping[str, Sequence[tuple[Run, RunScores]]]) -> dict[str, JuryReliability | None]:
    """Return benchmark -> its judges beside each other."""
    if not judged:
        return {}
    from medhelm.results.jury import judges_on_benchmark  # lazy: many leaderboards have no jury

    return {name: judges_on_benchmark(runs) for name, runs in judged.items()}


def renamed_inputs(found: LeaderboardInputs, names: Mapping[str, str]) -> LeaderboardInputs:
    """Return the runs with other names of models and judges, in sentences too. `names`: as of `short_names`."""
    if all(name == shown for name, shown in names.items()):
        return found
    text = partial(with_names, names)
    return replace(
        found,
        cells=[replace(cell, model=names[cell.model]) for cell in found.cells],
        columns=[replace(one, judges=tuple(names.get(judge, judge) for judge in one.judges)) for one in found.columns],
        runs={(names[model], benchmark): run for (model, benchmark), run in found.runs.items()},
        left_out=[replace(one, model=text(one.model), reason=text(one.reason)) for one in found.left_out],
        injection_effects=[replace(one, model=names[one.model]) for one in found.injection_effects],
        remarks=[replace(one, subject=text(one.subject), text=text(one.text)) for one in found.remarks],
        unfinished=[text(one) for one in found.unfinished],
        calibration=found.calibration and found.calibration.renamed(names),
        judge_agreement={name: one and one.renamed(names) for name, one in found.judge_agreement.items()},
        shown_names=names,
    )


def _with_constant_scores(
    columns: Mapping[str, Column],
    chosen: Mapping[tuple[str, str], Run],
    baselines: Mapping[str, ConstantBaseline],
    prompts: Mapping[str, Path],
    rule: Rule,
) -> dict[str, Column]:
    """Return the columns with the scores of their constant answers, unless `baseline/majority` was run on them."""
    found = dict(columns)
    has_run = {run.benchmark for run in chosen.values() if run.model == MAJORITY}
    for name, column in columns.items():
        if name in has_run or column.constant_baseline is None:
            continue
        from medhelm.results.runs.cells import constant_scores  # lazy: few leaderboards lack the baseline

        scores = constant_scores(prompts[name], baselines[name], column.metric, rule)
        found[name] = replace(column, constant_scores=scores)
    return found


def _constant_baselines(
    stores: Sequence[Path], runs: Iterable[Run]
) -> tuple[dict[str, ConstantBaseline], dict[str, Path]]:
    """Return the known constant baseline of each benchmark, and the prompts that it belongs to.

    They are those of the data of the run with the most instances.
    """
    found: dict[str, ConstantBaseline] = {}
    prompts: dict[str, Path] = {}
    opened = [open_store(path) for path in stores]
    ordered = sorted(runs, key=lambda run: (-run.n, run.model))
    for benchmark, *digests in dict.fromkeys((run.benchmark, run.benchmark_digest, run.data_digest) for run in ordered):
        for store in opened if benchmark not in found else ():
            if baseline := read_baseline(store.baseline_file(benchmark, *digests)):
                found[benchmark], prompts[benchmark] = baseline, store.prompts_file(benchmark, *digests)
    return found, prompts
