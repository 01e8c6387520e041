"""Compare the models in stores, two of them or every pair, show the results, and estimate the power of benchmarks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

from medhelm.analysis.agreement.clinician_means import CalibratedPair
from medhelm.analysis.comparison.pairs import (
    AdjustedDifference,
    ComparedBenchmark,
    ComparedPairs,
    Comparison,
    ModelPair,
    compare_all_pairs,
    compare_two_models,
)
from medhelm.analysis.comparison.power import DetectableEffect, PowerDesign, SuitePower, detectable_effects, suite_power
from medhelm.analysis.comparison.significance import LEVEL, Adjustment
from medhelm.analysis.criteria import compare_criteria
from medhelm.analysis.leaderboard.build import rank_models, without_baselines
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.domain import Rule, Tier
from medhelm.domain.option_fields import check_options
from medhelm.domain.result import LeftOut, Remark
from medhelm.domain.text import AnyNames, AnyPath, AnyPaths, as_names, as_paths, check_choice, listed, plural
from medhelm.errors import UserError, suggestion
from medhelm.io.plugins import COMMANDS, extension_targets
from medhelm.results.calibration_view import clinician_json, rated_text
from medhelm.results.comparable import left_out_remarks
from medhelm.results.formats.fields import (
    ABSENT,
    LEFT_OUT,
    Field,
    estimate_json,
    fields_json,
    fields_schema,
    fields_table,
    flat_interval,
    left_out_json,
    list_field,
    list_of,
    object_field,
    probability,
    select,
)
from medhelm.results.formats.tables import (
    Columns,
    ObjectView,
    Value,
    decimal,
    estimate_numbers,
    estimate_text,
    p_text,
    records_as_columns,
    render,
    shows_all,
)
from medhelm.results.leaderboard import LeaderboardInputs, calibrated_inputs, read_inputs, renamed_inputs, suite_of
from medhelm.results.options import EVERY_RUN, USUAL, BoardOptions, RunFilter
from medhelm.results.runs.criteria import DIFFERENCE_FIELDS
from medhelm.results.runs.lowest_grades import (
    DIFFERENCE_WITH_FLOORS,
    compare_with_floors,
    floors_sentence,
    overall_with_floors,
    with_floors_field,
)
from medhelm.results.runs.remarks import unfinished_remarks
from medhelm.results.runs.selection import match_name, matching_names, with_named_variants


def compare(
    stores: AnyPaths,
    models: AnyNames = (),
    *,
    rule: Rule = "corrected",
    tier: Tier | None = None,
    suite: AnyPath = "all",
    adjustment: Adjustment = "holm",
    benchmark_folders: AnyPaths = (),
    wanted: RunFilter = EVERY_RUN,
) -> Comparison | ComparedPairs:
    """Test whether models of one or more stores differ significantly.

    Parameters
    ----------
    stores
        Folder of a store, or a list of folders.
    models
        Names of two models or more; empty for every model. Win shares and adjusted p-values are those of the
        leaderboard, among all of its models, whichever are named.
    rule, tier, suite, benchmark_folders, wanted
        As in `leaderboard`.
    adjustment
        Adjustment of p-values: `holm` (family-wise error), or `bh` (false discovery rate, Benjamini and Hochberg).

    Returns
    -------
    Comparison or ComparedPairs
        For two named models, their differences on each benchmark and overall; otherwise those of every pair.

    Raises
    ------
    StoreError
        If a folder is not a store.
    UserError
        For wrong arguments, for a model without a finished run, or if models share no instance.
    """
    names, paths = as_names(models, "models"), as_paths(stores, "stores")
    folders = as_paths(benchmark_folders, "benchmark_folders")
    options = BoardOptions(rule=rule, tier=tier, suite=suite, benchmark_folders=folders, wanted=wanted)
    check_options(options)
    check_choice(adjustment, get_args(Adjustment), "adjustment")
    if len(names) == 1:
        raise UserError(f"one model cannot be compared: {names[0]}. Name a second model, or none for every pair.")
    if len(names) == 2:
        return compare_models(paths, names[0], names[1], options, adjustment=adjustment)
    return replace(compare_all_models(paths, names, options), adjustment=adjustment)


def compare_models(
    stores: Sequence[Path],
    first: str,
    second: str,
    options: BoardOptions = USUAL,
    *,
    adjustment: Adjustment = "holm",
) -> Comparison:
    """Return the paired differences between two models of the stores.

    Parameters: as in `leaderboard`.
    Raises: UserError for a model without a finished run, for one model given twice, or if the two share no instance.
    """
    finished, (first, second) = selected_inputs(stores, [first, second], options, with_ratings=True)
    return compare_inputs(finished, first, second, adjustment=adjustment)


def compare_inputs(
    finished: LeaderboardInputs, first: str, second: str, *, adjustment: Adjustment = "holm"
) -> Comparison:
    """Return the paired differences between two models of runs that were read before. Raises: as `compare_models`."""
    left_out = _left_out_of(finished, [first, second])
    _refuse_names([first, second], {cell.model for cell in finished.cells}, "no finished run of", left_out)
    cells = _competing(finished.cells, [first, second])
    found = compare_two_models(cells, finished.columns, first, second, adjustment=adjustment)
    if found is None:
        message = f"{first} and {second} have no instance in common: run both on the same benchmark."
        raise UserError("\n".join([message, *map(str, left_out_remarks(left_out))]))
    found = replace(
        found,
        criteria=compare_criteria(cells, finished.columns, first, second, adjustment),
        left_out=left_out,
        remarks=(*left_out_remarks(left_out), *_pairwise_remarks(found)),
    )
    found = compare_with_floors(found, cells, finished.columns)
    return _with_ratings(found, finished) if finished.calibration else found


def _pairwise_remarks(found: Comparison) -> Iterator[Remark]:
    """Yield the command that has judges compare completions, if the grades of judges do not separate the two models."""
    tied = [one.column for one in found.benchmarks if one.column.judges and one.p_adjusted > LEVEL]
    if tied and "pairwise" in extension_targets(COMMANDS):
        first = tied[0]
        yield Remark(
            "pairwise",
            first.benchmark,
            f"The grades of judges do not separate the two on {listed([column.title for column in tied])}. `medhelm "
            f"pairwise {first.benchmark} --judge JUDGE --model {found.first} --model {found.second}` has judges "
            "compare their completions with each other.",
        )


def _with_ratings(found: Comparison, finished: LeaderboardInputs) -> Comparison:
    """Return a comparison with what clinicians gave to both models, and their difference in what they would give."""
    assert finished.calibration is not None, "the caller checks it"
    from medhelm.results.calibration import jury_sentences, pairs_with_ratings  # lazy: few comparisons have ratings

    columns = {one.column.benchmark: one.column for one in found.benchmarks}
    models = (found.first, found.second)
    cells = {(cell.benchmark, cell.model): cell for cell in finished.cells}
    pairs = pairs_with_ratings(finished.calibration, list(columns.values()), finished.cells, models)
    by_benchmark = (
        {pair.benchmark: _from_0_to_1(pair, columns[pair.benchmark]) for pair in pairs.benchmarks} if pairs else {}
    )
    (overall,) = pairs.overall if pairs else (None,)
    doubts, agreeing = jury_sentences(finished.calibration, list(columns.values()))
    means = {name: (cells[name, found.first].clinicians, cells[name, found.second].clinicians) for name in columns}
    return replace(
        found,
        benchmarks=tuple(
            replace(one, clinicians=means[one.column.benchmark], calibrated=by_benchmark.get(one.column.benchmark))
            for one in found.benchmarks
        ),
        calibrated=by_benchmark.get(overall.benchmark, overall) if overall else None,
        doubts=tuple(doubts),
        agreement=tuple(agreeing),
    )


def _from_0_to_1(pair: CalibratedPair, column: Column) -> CalibratedPair:
    """Return a difference in grades on a scale from 0 to 1."""
    span = column.high - column.low
    ends = [None if value is None else value / span for value in (pair.value, pair.low, pair.high)]
    return replace(pair, value=ends[0], low=ends[1], high=ends[2])


def compare_all_models(
    stores: Sequence[Path],
    names: Sequence[str] = (),
    options: BoardOptions = USUAL,
) -> ComparedPairs:
    """Compare every pair of the models of the stores, or of the named ones.

    Parameters: as in `leaderboard`.
    Raises: UserError for a model without a finished run, or if there is no pair to compare.
    """
    finished, names = selected_inputs(stores, names, options, with_ratings=True)
    found = compare_cells(finished.cells, finished.columns, finished.rule, names=names)
    left_out = _left_out_of(finished, names)
    remarks = [
        *_rating_remarks(finished),
        *found.remarks,
        *left_out_remarks(left_out),
        *finished.remarks_on(finished.columns, names),
    ]
    remarks += unfinished_remarks(finished.unfinished)
    return replace(
        found,
        suite=str(options.suite),
        scoring=finished.rule,
        tier=finished.tier,
        left_out=left_out,
        remarks=tuple(remarks),
    )


def _rating_remarks(finished: LeaderboardInputs) -> Iterator[Remark]:
    """Yield what clinicians' ratings say against the jury, and where the models are compared with these ratings."""
    if finished.calibration is None:
        return
    from medhelm.results.calibration import jury_sentences  # lazy: few comparisons have ratings

    doubts, _ = jury_sentences(finished.calibration, finished.columns)
    yield from (Remark("jury_doubted", "", text) for text in doubts)
    text = (
        "Clinicians rated some of these completions. `medhelm leaderboard` shows their ratings of each model, and "
        "`medhelm compare A B` the difference of two models with them."
    )
    yield Remark("rated_by_clinicians", "", text)


def compare_published_models(names: Sequence[str] = (), *, suite: str = "all") -> ComparedPairs:
    """Compare every pair of the published models, or of the named ones, over benchmarks: only means are published.

    Raises: UserError for an unknown model or suite.
    """
    from medhelm.results.published.boards import published_cells

    cells, columns = published_cells()
    _refuse_names(names, {cell.model for cell in cells}, "no published results of")
    found = compare_cells(cells, _columns_of_suite(columns, BoardOptions(suite=suite)), "published", names=names)
    return replace(found, suite=suite, scoring="published")


def compare_cells(
    cells: Sequence[Cell], columns: Sequence[Column], scoring: Rule = "corrected", *, names: Sequence[str] = ()
) -> ComparedPairs:
    """Compare every pair of models, or of the named ones; cells without single scores count over benchmarks only.

    All models of the cells are tested, so that a pair has the same numbers whichever models are named. Pairs with a
    named baseline are tested among models and baselines, as by `leaderboard --rank-baselines`.
    Raises: UserError if there are fewer than two models, or no two of them share a benchmark.
    """
    shown = {column.benchmark for column in columns}
    kept = [cell for cell in cells if cell.value is not None and cell.benchmark in shown]
    board = without_baselines(kept)
    order = rank_models(board, columns, scoring)
    baselines = [model for model in rank_models(kept, columns, scoring) if model not in order]
    baselines = baselines if set(baselines) & set(names) else []
    models = [model for model in [*order, *baselines] if not names or model in names]
    if len(models) < 2:
        only = f"only {models[0]} has" if models else "no model has"
        raise UserError(
            f"{only} a score: a comparison needs two models. `medhelm run` adds models, and `medhelm rescore` computes "
            "missing scores of imported runs."
        )
    found = compare_all_pairs(board, columns, models=order)
    pairs = found.pairs_among(models)
    if baselines:
        ranked = compare_all_pairs(kept, columns, models=[*order, *baselines]).pairs_among(models)
        known = {(pair.first, pair.second): pair for pair in pairs}
        pairs = tuple(known.get((pair.first, pair.second), pair) for pair in ranked)
    if all(pair.macro_average is None for pair in pairs):
        raise UserError(f"{', '.join(models)} have no instance in common: run them on the same benchmark.")
    return ComparedPairs(
        all_pairs=found,
        models=tuple(models),
        pairs=pairs,
        n_models=len(order),
        n_baselines=len(baselines),
        effects=detectable_effects(board, columns),
    )


def _competing(cells: Sequence[Cell], names: Sequence[str]) -> list[Cell]:
    """Return the cells of the leaderboard: without baselines, unless one of them is named."""
    board = without_baselines(cells)
    return list(cells) if set(names) - {cell.model for cell in board} else board


def measure_power(
    stores: Sequence[Path],
    names: Sequence[str] = (),
    options: BoardOptions = USUAL,
    *,
    design: PowerDesign,
    difference: float | None = None,
) -> SuitePower:
    """Estimate the power of the benchmarks in the stores, for two models or for all of them.

    Parameters: names, models; empty for all; difference, the true difference to detect, None for the observed ones;
    the rest as in `leaderboard`.
    Raises: UserError for a model without a finished run, or if no two models share two independent instances.
    """
    finished, names = selected_inputs(stores, names, options)
    cells = [cell for cell in finished.cells if not names or cell.model in names]
    found = suite_power(without_baselines(cells, keep=names), finished.columns, design=design, difference=difference)
    if not found.benchmarks:
        models = ", ".join(sorted({cell.model for cell in finished.cells}))
        raise UserError(
            f"{models}: no two models share two independent instances with {finished.rule} scores, so nothing is known "
            "of the noise between them. Run two models on one benchmark, compute missing scores of imported runs with "
            "`medhelm rescore`, or give --disagreement or --sd."
        )
    return found


def selected_inputs(
    stores: Sequence[Path], names: Sequence[str], options: BoardOptions, *, with_ratings: bool = False
) -> tuple[LeaderboardInputs, list[str]]:
    """Read the results of all models on the benchmarks of a suite; also return the full names of the named ones.

    Raises: UserError for a name that is unknown or given twice, or if no model was run on the suite.
    """
    finished = read_inputs(stores, with_named_variants(options, names))
    finished = calibrated_inputs(finished, options, stores) if with_ratings else finished
    names = _full_names(names, finished)
    left_out = _left_out_of(finished, names)
    _refuse_names(names, {cell.model for cell in finished.cells}, "no finished run of", left_out)
    if options.short_names:
        names = [finished.short_names[name] for name in names]
        finished = renamed_inputs(finished, finished.short_names)
    columns = _columns_of_suite(finished.columns, options)
    shown = {column.benchmark for column in columns}
    cells = [cell for cell in finished.cells if cell.benchmark in shown]
    return replace(finished, columns=columns, cells=cells), names


def _full_names(names: Sequence[str], finished: LeaderboardInputs) -> list[str]:
    """Return the full names of models; unknown ones stay. Raises: UserError for names that could be several."""
    known = {cell.model for cell in finished.cells} | {one.model for one in finished.left_out}
    return [match_name(name, known) if matching_names(name, known) else name for name in names]


def _left_out_of(finished: LeaderboardInputs, names: Sequence[str]) -> tuple[LeftOut, ...]:
    """Return the entries of the named models, or of all, that do not count on a benchmark that is compared."""
    return tuple(one for one in finished.left_out_of(finished.columns) if not names or one.model in names)


def _refuse_names(names: Sequence[str], known: Collection[str], what: str, left_out: Sequence[LeftOut] = ()) -> None:
    """Raise UserError for names that are not known, or given twice. `left_out`: the reason for some of them."""
    if doubles := sorted(name for name, count in Counter(names).items() if count > 1):
        raise UserError(f"{', '.join(doubles)}: named twice. A model does not differ from itself; name another one.")
    if unknown := [name for name in names if name not in known]:
        named = {one.model for one in left_out} & set(unknown)
        lines = [f"{what} `{name}`. {suggestion(name, known)}".rstrip() for name in unknown if name not in named]
        raise UserError("\n".join([*lines, *map(str, left_out_remarks(x for x in left_out if x.model in named))]))


def _columns_of_suite(columns: Sequence[Column], options: BoardOptions) -> list[Column]:
    """Return the benchmarks of a suite that are among these, with its weights. Raises: UserError if there is none."""
    weights = suite_of(options, columns).weights
    if weights is None:
        return list(columns)
    known = {column.benchmark: column for column in columns}
    kept = [replace(known[name], weight=weight) for name, weight in weights.items() if name in known]
    if not kept:
        raise UserError(
            f"--suite {options.suite}: no model was run on its benchmarks. Benchmarks with runs: "
            f"{', '.join(sorted(known))}."
        )
    return kept


# --- two models: tables and JSON --------------------------------------------------------------------------------------

ADJUSTED: dict[Adjustment, str] = {"holm": "Holm", "bh": "Benjamini and Hochberg"}
"""Adjustment -> its name for people."""

WHAT_COUNTS = "A significant difference is unlikely to be chance. It may still be small."
"""Sentence on significant differences, for the foot of tables."""


def finding(comparison: Comparison) -> str:
    """Return in a few words which of the two models is better overall, for a cell of a table."""
    if found := comparison.pair.direction(comparison.adjustment):
        return "first is better" if found > 0 else "second is better"
    is_lost = comparison.pair.is_lost_with_missing(comparison.adjustment)
    return "depends on missing answers" if is_lost else "cannot be separated"


ADJUSTED_AVERAGES = (
    "Not every model has every benchmark. Macro averages are adjusted for this, as on the leaderboard, so their "
    "difference is not the mean of the differences on single benchmarks."
)
"""Remark on a difference of macro averages of models that lack benchmarks."""

ROUNDING = 5e-4
"""Largest deviation of a mean that three decimals do not show."""


def _is_adjusted(pair: ModelPair, columns: Sequence[Column]) -> bool:
    """Return whether the difference of macro averages is not the mean of the differences on the shared benchmarks."""
    tests = [(column.weight, pair.benchmarks.get(column.benchmark)) for column in columns]
    known = [(weight, test.difference.value) for weight, test in tests if test is not None]
    if pair.macro_average is None or len(known) != pair.n_benchmarks:
        return False
    mean = sum(weight * value for weight, value in known) / sum(weight for weight, _ in known)
    return abs(mean - pair.macro_average.difference.value) > ROUNDING


BENCHMARK_FIELDS: list[Field[ComparedBenchmark]] = [
    Field("id", lambda one: one.column.benchmark, kind="text", heading="Benchmark", text=lambda one: one.column.title),
    Field("metric", lambda one: one.column.metric, kind="text",
          heading="Metric", text=lambda one: one.column.metric_title or one.column.metric, drop=2),
    *flat_interval("difference", lambda one: one.difference, "low high n n_left_out n_clusters", heading="Difference"),
    Field("instances", lambda one: one.difference.n, in_json=False, heading="Instances", drop=3),
    Field("p_value", lambda one: one.difference.p_value, kind="p-value",
          heading="p", text=lambda one: p_text(one.difference.p_value), is_wide=True, drop=1),
    Field("p_adjusted", lambda one: one.p_adjusted_alone, kind="p-value"),
    Field("p_adjusted_all_pairs", lambda one: one.p_adjusted, kind="p-value",
          heading="p adjusted", text=lambda one: p_text(one.p_adjusted)),
    *DIFFERENCE_WITH_FLOORS,
    Field("clinicians", lambda one: _clinicians_json(one), kind="object", schema={"type": "object"}, is_optional=True,
          meaning="Mean ratings of both models by clinicians, and their difference with these ratings on the scale of "
          "0 to 1."),
    Field("clinicians_first", lambda one: one.clinicians[0], in_json=False, heading="Clinicians, first",
          text=lambda one: rated_text(one.clinicians[0]), hide_empty=True),
    Field("clinicians_second", lambda one: one.clinicians[1], in_json=False, heading="Clinicians, second",
          text=lambda one: rated_text(one.clinicians[1]), hide_empty=True),
    Field("calibrated", lambda one: one.calibrated, in_json=False, heading="Difference with ratings",
          text=lambda one: estimate_text(one.calibrated) if one.calibrated else None, hide_empty=True),
]  # fmt: skip
"""Two models on a benchmark."""


def _clinicians_json(one: ComparedBenchmark) -> Any:
    """Return what clinicians say of two models on a benchmark as JSON; ABSENT without ratings."""
    if not any(one.clinicians) and one.calibrated is None:
        return ABSENT
    first, second = (mean and clinician_json(mean) for mean in one.clinicians)
    return {"first": first, "second": second, "difference": _calibrated_json(one.calibrated)}


def _calibrated_json(pair: CalibratedPair | None) -> dict[str, Any] | None:
    """Return a difference with ratings as JSON; None without ratings."""
    if pair is None:
        return None
    return {
        **select(pair, "value low high", rounded=True),
        "p_value": probability(pair.p_value),
        **({"reason": pair.reason} if pair.reason else {}),
    }


OVERALL_FIELDS: list[Field[Comparison]] = [
    *flat_interval("difference", lambda both: both.macro_average.difference),
    Field("p_value", lambda both: both.macro_average.difference.p_value, kind="p-value"),
    Field("n_benchmarks", lambda both: both.n_benchmarks, kind="whole number"),
    Field("unit", lambda both: both.unit, kind="text"),
    with_floors_field(overall_with_floors),
]
"""Two models by macro averages."""

WIN_SHARE_FIELDS: list[Field[Comparison]] = [
    *flat_interval("difference", lambda both: both.win_share.difference),
    Field("p_value", lambda both: both.win_share.difference.p_value, kind="p-value"),
    Field("p_adjusted", lambda both: both.win_share.p_adjusted(both.adjustment), kind="p-value"),
    Field("separated", lambda both: both.pair.direction(both.adjustment) != 0, kind="true or false"),
    Field("n_models", lambda both: both.n_models, kind="whole number"),
]
"""Two models by win shares, the test that decides on the leaderboard."""

FIELDS: list[Field[Comparison]] = [
    Field("verdict", lambda both: verdict(both)[:1], kind="texts"),
    Field("first", lambda both: both.first, kind="text"),
    Field("second", lambda both: both.second, kind="text"),
    Field("adjustment", lambda both: both.adjustment, kind="text"),
    list_field("benchmarks", BENCHMARK_FIELDS, lambda both: both.benchmarks),
    object_field("overall", OVERALL_FIELDS, lambda both: both),
    object_field("win_share", WIN_SHARE_FIELDS, lambda both: both),
    Field(
        "with_ratings",
        lambda both: _calibrated_json(both.calibrated) or ABSENT,
        kind="object",
        schema={"type": "object"},
        is_optional=True,
        meaning="Difference over all benchmarks with the ratings by clinicians.",
    ),
    Field(
        "criteria",
        lambda both: [fields_json(DIFFERENCE_FIELDS, one) for one in both.criteria] or ABSENT,
        kind="object",
        schema=list_of(fields_schema(DIFFERENCE_FIELDS)),
        is_optional=True,
        meaning="Criteria of the judges' rubrics that both models have grades on.",
    ),
    Field("left_out", lambda both: left_out_json(both.left_out), kind="object", schema=LEFT_OUT),
]
"""Two models; differences are first minus second, on a scale of 0 to 1."""


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Return the output of `medhelm compare A B --json`."""
    return fields_json(FIELDS, comparison)


def to_table(comparison: Comparison, format: str = "table") -> str:
    """Return one row per benchmark and one overall; `--wide` and CSV add unadjusted p-values and the win share."""
    overall = [
        ComparedBenchmark(
            column=Column(benchmark="", title=name, category="", subcategory="", metric=""),
            difference=test.difference,
            p_adjusted=test.p_adjusted(comparison.adjustment),
            p_adjusted_alone=test.p_adjusted(comparison.adjustment),
            calibrated=comparison.calibrated if test is comparison.macro_average else None,
            with_floors=overall_with_floors(comparison) if test is comparison.macro_average else None,
        )
        for name, test in overall_tests(comparison).items()
    ]
    caption = (
        f"{comparison.first} minus {comparison.second}, on a scale from 0 (worst) to 1 (best); p adjusted for all "
        f"pairs of {comparison.n_models} models, on single benchmarks also for all benchmarks "
        f"({ADJUSTED[comparison.adjustment]})"
    )
    rows = [*comparison.benchmarks, *(overall if shows_all(format) else overall[:1])]
    return fields_table(BENCHMARK_FIELDS, rows, format=format, caption=caption)


def overall_tests(comparison: Comparison) -> dict[str, AdjustedDifference]:
    """Return the tests over all benchmarks by name; on a single benchmark that of its mean score."""
    if comparison.n_benchmarks == 1:
        return {"Mean score": comparison.macro_average}
    return {"Macro average": comparison.macro_average, "Win share": comparison.win_share}


def verdict(comparison: Comparison) -> list[str]:
    """Return whether the two models differ, what a difference is, and how averages are adjusted."""
    first, second, pair = comparison.first, comparison.second, comparison.pair
    found = pair.direction(comparison.adjustment)
    p = _equals(p_text(pair.p_adjusted(comparison.adjustment)))
    among = f", adjusted for all pairs of {comparison.n_models} models" if comparison.n_models > 2 else ""
    means, shares = comparison.macro_average.difference, comparison.win_share.difference
    higher, lower = (first, second) if means.value >= 0 else (second, first)
    if found:
        better, worse = (first, second) if found > 0 else (second, first)
        text = f"{better} is significantly better than {worse} (p {p}{among})."
    elif means.value * shares.value < 0:
        text = (
            f"{first} and {second} cannot be separated: {higher} has the higher average, {lower} the higher win share."
        )
    elif pair.is_lost_with_missing(comparison.adjustment):
        missing = plural(means.n_left_out, "question")
        text = (
            f"{higher} may be better than {lower}, but not if the missing answers are counted against it ({missing}). "
            "Run again to get them."
        )
    else:
        text = f"{first} and {second} cannot be separated (p {p}{among})."
    adjusted = _is_adjusted(pair, [one.column for one in comparison.benchmarks])
    more = [*floors_sentence(comparison), *_ratings_sentence(comparison)]
    text = " ".join([*comparison.doubts, text, *more, *comparison.agreement])
    return [text, WHAT_COUNTS, *([ADJUSTED_AVERAGES] if adjusted else [])]


def _ratings_sentence(comparison: Comparison) -> list[str]:
    """Return a sentence on the difference with the clinicians' ratings; none without."""
    found = comparison.calibrated
    if found is None or found.value is None:
        return []
    interval = estimate_text(found)
    if found.better:
        worse = comparison.second if found.better == comparison.first else comparison.first
        return [f"With the clinicians' ratings, {found.better} is better than {worse} (difference {interval})."]
    return [f"With the clinicians' ratings, the two cannot be separated (difference {interval})."]


def _equals(p: str | None) -> str:
    return "unknown" if p is None else p if p.startswith(("<", ">")) else f"= {p}"


# --- every pair: tables and JSON --------------------------------------------------------------------------------------

By = Literal["overall", "benchmark", "test"]
"""Meaning of the rows: pairs, benchmarks, or pairs on each benchmark."""

NAMES = 12
"""Most benchmarks named in one sentence."""


def pairs_as_json(compared: ComparedPairs) -> dict[str, Any]:
    """Return the output of `medhelm compare --json`; differences are first minus second, on a scale of 0 to 1."""
    pairs, way = compared.pairs, compared.adjustment
    return {
        "verdict": pairs_verdict(compared),
        **select(compared, "models n_models n_baselines"),
        "benchmarks": [
            {
                **select(column, "id=benchmark title metric"),
                **_counts_json(_tests_on(compared, column.benchmark), way),
                "mde": estimate_json(effects and effects.corrected, "value sd n_pairs"),
                "mde_published": estimate_json(effects and effects.published, "value sd n_pairs"),
            }
            for column in compared.all_pairs.columns
            for effects in [compared.effects.get(column.benchmark)]
        ],
        "pairs": [
            {
                **select(pair, "first second unit n_benchmarks"),
                "separated": pair.direction(way) != 0,
                "macro_average": _test_json(pair.macro_average, way),
                "win_share": _test_json(pair.win_share, way),
                "win_rate": _test_json(_win_rate_test(pair), way),
                "survives_failures": pair.survives_failures,
                "benchmarks": {name: _test_json(test, way) for name, test in pair.benchmarks.items()},
            }
            for pair in pairs
        ],
        "told_apart": {
            "win_share": _counts_json([pair.win_share for pair in pairs], way),
            "win_rate": _counts_json([_win_rate_test(pair) for pair in pairs], way),
            "macro_average": _counts_json([pair.macro_average for pair in pairs], way),
            "benchmarks": _counts_json([test for pair in pairs for test in pair.benchmarks.values()], way),
        },
        "adjustment": way,
        "level": LEVEL,
        **select(compared, "suite scoring tier"),
        "left_out": left_out_json(compared.left_out),
        "remarks": [*in_words(compared), *map(str, compared.remarks)],
    }


def pairs_to_table(compared: ComparedPairs, *, by: str = "overall", format: str = "table") -> str:
    """Return a table of pairs, of benchmarks, or of pairs on each benchmark; see `By`."""
    if by == "benchmark":
        return _benchmark_table(compared, format)
    if by == "test":
        return _test_table(compared, format)
    is_long, way = shows_all(format), compared.adjustment
    names = ["win share", "macro average"] if is_long else ["macro average"]
    headers = ["Model", "Compared with", "Benchmarks"]
    for name in names:
        headers += [*_interval_headers(f"{name} difference", format), "p adjusted"]
    rows: list[list[Value]] = []
    for pair in compared.pairs:
        tests = dict(zip(names, [pair.win_share, pair.macro_average][-len(names) :], strict=True))
        significant = ", ".join(name for name, test in tests.items() if _is_significant(test, way))
        cells = [cell for test in tests.values() for cell in _test_cells(test, way, format)]
        rows.append([pair.first, pair.second, pair.n_benchmarks, *cells, *([significant or None] if is_long else [])])
    caption = f"First minus second, on a scale from 0 (worst) to 1 (best); {_adjusted_for(compared)}"
    headers += ["Significant by"] if is_long else []
    return render(rows, headers, format=format, caption=caption, drop=() if is_long else ("Benchmarks",))


def _adjusted_for(compared: ComparedPairs) -> str:
    """Return what p-values are adjusted for, for captions."""
    text = f"p adjusted for all pairs of {plural(compared.n_models, 'model')}"
    if compared.n_baselines:
        text += f", pairs with a baseline for all pairs of these and {plural(compared.n_baselines, 'baseline')}"
    return f"{text} ({ADJUSTED[compared.adjustment]})"


def pairs_verdict(compared: ComparedPairs) -> list[str]:
    """Return how many pairs of models differ, and which models the first one is better than."""
    tested = [pair for pair in compared.pairs if pair.macro_average is not None]
    if not tested:
        return []
    found = {(pair.first, pair.second): pair.direction(compared.adjustment) for pair in tested}
    n_models, differ = len(compared.models), sum(one != 0 for one in found.values())
    if not differ:
        subject = f"No two of the {n_models} models" if n_models > 2 else "The two models do not"
        return [f"{subject} differ significantly."]
    sentences = []
    if len(tested) > 1:
        adjusted = ADJUSTED[compared.adjustment]
        sentences.append(f"{differ} of {len(tested)} pairs of models differ significantly ({adjusted}).")
    return [*sentences, _first_model_sentence(compared, found)]


def _first_model_sentence(compared: ComparedPairs, found: Mapping[tuple[str, str], int]) -> str:
    """Return which models the first of the shown ones differs from. `found`: pair -> its direction."""
    first, *others = compared.models
    way = {name: found.get((first, name), -found.get((name, first), 0)) for name in others}
    tested = [name for name in others if (first, name) in found or (name, first) in found]
    better, worse = ([name for name in tested if way[name] == sign] for sign in (-1, 1))
    rest, apart = [name for name in tested if not way[name]], [name for name in others if name not in tested]
    is_whole = len(compared.models) == compared.n_models and not compared.n_baselines
    place = f"{first} ranks {'first' if is_whole else 'highest of these'}"
    if better:
        return f"{place}, but {listed(better, NAMES)} {'is' if len(better) == 1 else 'are'} significantly better."
    if not worse:
        return f"{place}, but is not significantly better than any other of these models."
    whom = "every other model" if len(worse) == len(others) > 1 and is_whole else listed(worse, NAMES)
    text = f"{place} and is significantly better than {whom}"
    text += f", but cannot be separated from {listed(rest, NAMES)}" if rest else ""
    return f"{text}{f'; it shares no benchmark with {listed(apart, NAMES)}' if apart else ''}."


def in_words(compared: ComparedPairs) -> list[str]:
    """Return a summary of the tests in sentences."""
    pairs = [pair for pair in compared.pairs if pair.macro_average is not None]
    if not pairs:
        return []
    sentences = []
    if fragile := [pair for pair in pairs if pair.is_lost_with_missing(compared.adjustment)]:
        sentences.append(
            "The difference of these models is significant only if missing answers are ignored: "
            f"{_named_pairs(fragile)}. Run again to get them."
        )
    if single := [test for pair in pairs for test in pair.benchmarks.values()]:
        differ = _count_significant(single, compared.adjustment)
        verb = "is" if differ == 1 else "are"
        text = f"{differ:,} of {len(single):,} differences on single benchmarks {verb} significant"
        text = text if differ else "No difference on a single benchmark is significant"
        sentences.append(f"{text} ({ADJUSTED[compared.adjustment]}).")
        columns = compared.all_pairs.columns
        tests = {column.title: _tests_on(compared, column.benchmark) for column in columns}
        tied = [title for title, own in tests.items() if own and not _count_significant(own, compared.adjustment)]
        sentences += [f"Benchmarks without a significant difference: {listed(tied, NAMES)}."] if tied and differ else []
    if over := [pair for pair in pairs if pair.unit == "benchmarks"]:
        whose = "all pairs" if len(over) == len(pairs) else f"{len(over)} of {len(pairs)} pairs"
        sentences.append(
            f"Scores of instances are unknown for {whose}: the tests compare benchmark means instead. This shows how "
            "much the choice of benchmarks matters; it says nothing about a single benchmark."
        )
    if alone := [pair for pair in compared.pairs if pair.macro_average is None]:
        sentences.append(f"No benchmark in common: {_named_pairs(alone)}.")
    if any(_is_adjusted(pair, compared.all_pairs.columns) for pair in pairs):
        sentences.append(ADJUSTED_AVERAGES)
    return [*sentences, WHAT_COUNTS]


def _named_pairs(pairs: Sequence[ModelPair]) -> str:
    """Return the names of pairs for a sentence, cut after `NAMES`."""
    named = "; ".join(f"{pair.first} and {pair.second}" for pair in pairs[:NAMES])
    return named if len(pairs) <= NAMES else f"{named}; and {len(pairs) - NAMES:,} more pairs"


def _win_rate_test(pair: ModelPair) -> AdjustedDifference | None:
    """Return the difference of win rates, which is tested over benchmarks only: there it is that of win shares."""
    return pair.win_share if pair.unit == "benchmarks" else None


def _benchmark_table(compared: ComparedPairs, format: str) -> str:
    headers = ["Benchmark", "Metric", "Instances", "Pairs", "Significant", "Adjusted", "mde", "mde, published"]
    rows: list[list[Value]] = []
    for column in compared.all_pairs.columns:
        counts = _counts_json(_tests_on(compared, column.benchmark), compared.adjustment)
        significant = [counts["n_unadjusted"], counts["n_adjusted"]] if counts["n_pairs"] else [None, None]
        effects = compared.effects.get(column.benchmark)
        mde = [_effect_text(effects.corrected), _effect_text(effects.published)] if effects else [None, None]
        n = effects.n if effects else None
        rows.append([column.title, column.metric_title or column.metric, n, counts["n_pairs"], *significant, *mde])
    caption = (
        "Pairs of models that differ at the 5% level, before and after adjustment over all pairs and benchmarks "
        f"({ADJUSTED[compared.adjustment]}); mde: minimum detectable effect, mean and SD over pairs"
    )
    return render(rows, headers, format=format, caption=caption, drop=("mde, published", "Metric", "Pairs"))


def _test_table(compared: ComparedPairs, format: str) -> str:
    headers = ["Benchmark", "Model", "Compared with", *_interval_headers("difference", format)]
    rows: list[list[Value]] = []
    for column in compared.all_pairs.columns:
        for pair in compared.pairs:
            if test := pair.benchmarks.get(column.benchmark):
                *difference, p = _test_cells(test, compared.adjustment, format)
                numbers = [*difference, test.difference.n, _p_cell(test.difference.p_value, format), p]
                rows.append([column.title, pair.first, pair.second, *numbers])
    caption = (
        "First minus second, on a scale from 0 (worst) to 1 (best); p adjusted over all pairs and benchmarks "
        f"({ADJUSTED[compared.adjustment]})"
    )
    headers += ["Instances", "p", "p adjusted"]
    return render(rows, headers, format=format, caption=caption, drop=("p", "Instances"))


def _tests_on(compared: ComparedPairs, benchmark: str) -> list[AdjustedDifference]:
    """Return the tests of all pairs on one benchmark."""
    return [pair.benchmarks[benchmark] for pair in compared.pairs if benchmark in pair.benchmarks]


def _is_significant(test: AdjustedDifference | None, adjustment: Adjustment) -> bool:
    return test is not None and test.p_adjusted(adjustment) <= LEVEL


def _count_significant(tests: Sequence[AdjustedDifference | None], adjustment: Adjustment) -> int:
    """Return the number of significant tests after adjustment."""
    return sum(_is_significant(test, adjustment) for test in tests)


def _counts_json(tests: Sequence[AdjustedDifference | None], adjustment: Adjustment) -> dict[str, int]:
    known = [test for test in tests if test is not None]
    return {
        "n_pairs": len(known),
        "n_unadjusted": sum(test.difference.p_value <= LEVEL for test in known),
        "n_adjusted": _count_significant(known, adjustment),
    }


def _test_json(test: AdjustedDifference | None, adjustment: Adjustment) -> dict[str, Any] | None:
    if test is None:
        return None
    return {
        **select(test.difference, "difference=value low high n n_left_out n_clusters", rounded=True),
        "p_value": probability(test.difference.p_value),
        "p_holm": probability(test.p_holm),
        "p_bh": probability(test.p_bh),
        "told_apart": _is_significant(test, adjustment),
    }


def _interval_headers(name: str, format: str) -> list[str]:
    """Return the headings of a difference; in CSV the ends of the interval have their own columns."""
    return [name.capitalize(), f"{name} low", f"{name} high"] if format == "csv" else [name.capitalize()]


def _test_cells(test: AdjustedDifference | None, adjustment: Adjustment, format: str) -> list[Value]:
    """Return the cells under `_interval_headers`, and the adjusted p-value."""
    found = test.difference if test else None
    difference = estimate_numbers(found) if format == "csv" else [estimate_text(found)]
    return [*difference, _p_cell(test.p_adjusted(adjustment), format) if test else None]


def _p_cell(p: float, format: str) -> Value:
    """Return a p-value for the format: rounded for people, in full for CSV."""
    return probability(p) if format == "csv" else p_text(p)


def _effect_text(effect: DetectableEffect | None) -> str | None:
    return f"{decimal(effect.value)} ± {decimal(effect.sd)}" if effect else None


# --- Python and notebooks ---------------------------------------------------------------------------------------------


def _pair_columns(compared: ComparedPairs, by: str) -> Columns:
    """Return one row per test: win share, macro average, or benchmark of a pair."""
    rows = [
        {"first": pair["first"], "second": pair["second"], "test": name, **test}
        for pair in pairs_as_json(compared)["pairs"]
        for name, test in [("win share", pair["win_share"]), ("macro average", pair["macro_average"]),
                           *pair["benchmarks"].items()]
        if test is not None
    ]  # fmt: skip
    return records_as_columns(rows, by)


VIEW: ObjectView[Comparison] = ObjectView(
    summary=lambda comparison: verdict(comparison)[0],
    table=to_table,
    as_json=as_json,
    columns=lambda comparison, by: records_as_columns(as_json(comparison)["benchmarks"], by),
    verdict=lambda comparison: verdict(comparison)[:1],
    remarks=lambda comparison: [*verdict(comparison)[1:], *comparison.remarks],
)
"""Two models in Python."""

PAIRS_VIEW: ObjectView[ComparedPairs] = ObjectView(
    summary=lambda compared: " ".join(pairs_verdict(compared)),
    table=lambda compared, format: pairs_to_table(compared, format=format),
    as_json=pairs_as_json,
    columns=_pair_columns,
    verdict=pairs_verdict,
    remarks=lambda compared: [*in_words(compared), *compared.remarks],
)
"""Every pair of models in Python."""
