"""Published results of nine models on 37 benchmarks, shipped with MedHELM, and the leaderboards made of them.

The files hold numbers and names only; `sources.yaml` names their sources.
"""

from __future__ import annotations

import csv
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from math import fsum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from medhelm.analysis.cost import CostCeiling, cost_ceiling
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.findings import verdict
from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.analysis.means import ALIKE_IN_CLUSTERS, wilson_interval
from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.sampling import PUBLISHED as PUBLISHED_SAMPLE
from medhelm.benchmarks.suites import load_suite
from medhelm.domain import JURY, Benchmark, Estimate, Price, Rule, Run, Tier
from medhelm.domain.benchmark import Suite
from medhelm.domain.result import Remark, Resample
from medhelm.domain.text import AnyNames, AnyPath, as_names, listed, metric_title, plural
from medhelm.errors import MedHelmError, UserError
from medhelm.io.package_yaml import read_package_yaml
from medhelm.models.model_names import plain_name
from medhelm.results.comparable import has_own_data, left_out_remarks
from medhelm.results.formats.fields import select
from medhelm.results.leaderboard import (
    PUBLISHED,
    LeaderboardInputs,
    leaderboard_from_cells,
    read_inputs,
    renamed_inputs,
    suite_of,
)
from medhelm.results.options import USUAL, BoardOptions, resolve_suite
from medhelm.results.runs.remarks import unfinished_remarks
from medhelm.scoring.metrics import METRIC_NAMES, METRICS

# --- data -------------------------------------------------------------------------------------------------------------

FOLDER = Path(__file__).parent
"""Folder of the files."""

PRICES_DATE = date(2025, 5, 12)
"""Day of the prices behind the published costs."""

REASONING_LIMIT = 4000
"""Limit on a completion of a reasoning model, in tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedModel:
    """A published model."""

    key: str
    """Name in the files of this folder, such as `gpt_4o`."""
    name: str
    """Name for people, as in the published table."""
    model: str
    """The version that was evaluated, as `PROVIDER/NAME`."""
    developer: str
    """Developer of the model."""
    released: date
    """Release date."""
    window: int
    """Context window in tokens."""
    reasoning: bool
    """True for a reasoning model, whose completions were limited to REASONING_LIMIT."""
    judge: bool
    """True if it was also a judge of the published jury."""
    win_rate: float
    """Mean win rate over 37 benchmarks as published, three decimals."""
    price: Price
    """US dollars per million tokens behind the published costs."""
    printed_price: Price | None
    """Price in the paper's table of prices; None if it is the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBenchmark:
    """A benchmark of the published results."""

    name: str
    """Id of the benchmark."""
    metric: str
    """Name of the metric."""
    question_type: Literal["open", "closed"]
    """`open` for completions graded by a jury."""
    instances: int
    """Instances that most models were run on."""
    scored: int
    """Instances behind the mean; in MedQA fewer than were run."""
    max_tokens: int
    """Limit on a completion of a model without reasoning, in tokens."""
    runs: int
    """Runs behind the published mean."""
    independent: int | None
    """Independent instances if clusters count as one; None if unknown, or if the mean is not a share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedScore:
    """One model on one benchmark, as published."""

    model: str
    """Key of the model."""
    benchmark: str
    """Id of the benchmark."""
    value: float
    """Mean score in the unit of the metric, three decimals."""
    instances: int
    """Instances that the model was run on."""
    scored: int
    """Instances behind the mean."""
    input_tokens: int
    """Tokens of all prompts."""
    output_tokens: int
    """Upper bound of the tokens of all completions: requests x limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedResults:
    """All published results."""

    models: Mapping[str, PublishedModel]
    """Key -> model, in the order of the published table."""
    benchmarks: Mapping[str, PublishedBenchmark]
    """Id -> benchmark, in the order of the suite."""
    scores: Mapping[tuple[str, str], PublishedScore]
    """Key of the model and id of the benchmark -> score."""
    sources: Mapping[str, Any]
    """Sources of the numbers."""

    @property
    def jury(self) -> tuple[PublishedModel, ...]:
        """Models that judged all open questions."""
        return tuple(model for model in self.models.values() if model.judge)


@cache
def load_results() -> PublishedResults:
    """Read the files, once."""
    models = {key: _model(key, entry) for key, entry in _yaml("models.yaml").items()}
    benchmarks = {row["benchmark"]: _benchmark(row) for row in _rows("benchmarks.csv")}
    values = {(key, row["benchmark"]): float(row[key]) for row in _rows("scores.csv") for key in models}
    scores = {
        (row["model"], row["benchmark"]): PublishedScore(
            model=row["model"],
            benchmark=row["benchmark"],
            value=values[row["model"], row["benchmark"]],
            instances=int(row["instances"]),
            scored=_scored(int(row["instances"]), benchmarks[row["benchmark"]]),
            input_tokens=int(row["input_tokens"]),
            output_tokens=int(row["output_tokens"]),
        )
        for row in _rows("tokens.csv")
    }
    return PublishedResults(
        models=MappingProxyType(models),
        benchmarks=MappingProxyType(benchmarks),
        scores=MappingProxyType(scores),
        sources=MappingProxyType(_yaml("sources.yaml")),
    )


def _rows(name: str) -> Iterator[dict[str, str]]:
    """Read a CSV file of this folder."""
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _yaml(name: str) -> dict[str, Any]:
    """Read a YAML file of this folder."""
    content: dict[str, Any] = read_package_yaml(FOLDER / name)
    return content


def _model(key: str, entry: Mapping[str, Any]) -> PublishedModel:
    rest = {name: value for name, value in entry.items() if name not in ("price", "printed_price")}
    printed = entry.get("printed_price")
    return PublishedModel(
        key=key,
        **rest,
        price=_price(entry["price"], "published costs"),
        printed_price=_price(printed, "table of prices in the paper") if printed else None,
    )


def _price(entry: Mapping[str, float], where: str) -> Price:
    return Price(input=entry["input"], output=entry["output"], source=f"{where}, {PRICES_DATE.isoformat()}")


def _scored(instances: int, benchmark: PublishedBenchmark) -> int:
    """Return the number of instances behind a mean."""
    return benchmark.scored if instances == benchmark.instances else instances


def _benchmark(row: Mapping[str, str]) -> PublishedBenchmark:
    return PublishedBenchmark(
        name=row["benchmark"],
        metric=row["metric"],
        question_type="open" if row["question_type"] == "open" else "closed",
        instances=int(row["instances"]),
        scored=int(row["scored"]),
        max_tokens=int(row["max_tokens"]),
        runs=int(row["runs"]),
        independent=int(row["independent"]) if row["independent"] else None,
    )


# --- cells and columns ------------------------------------------------------------------------------------------------

JURY_SCALE = (1.0, 5.0)
"""Scale of the published jury's grades."""

HALF_STEP = 0.0005
"""Largest rounding error of a published mean, which has three decimals."""

INTERVAL = "wilson, from the published mean and N"
"""Interval method of published means that are shares of correct completions."""

CLUSTERED = f"{INTERVAL}, {ALIKE_IN_CLUSTERS}"
"""The same for instances that share a note, a question or a patient."""


def published_cells(suite: str | Suite = "all") -> tuple[list[Cell], list[Column]]:
    """Return the published scores on the benchmarks of a suite as cells and columns of a leaderboard.

    Scores of instances are unknown (`Cell.scores` is None). `Cell.cost_usd` is a ceiling, not a bill. `Cell.estimate`
    is a conservative interval if the mean is a share of correct completions of one run, else None.
    Raises: UserError for an unknown suite.
    """
    results = load_results()
    wanted = published_names(suite)
    columns = [_column(benchmark) for name, benchmark in results.benchmarks.items() if name in wanted]
    cells = [_cell(score) for score in results.scores.values() if score.benchmark in wanted]
    return cells, columns


def published_scores(suite: str = "paper35") -> list[dict[str, Any]]:
    """Return the published score of each of nine models on each benchmark of a suite: rows for a data frame.

    Parameters
    ----------
    suite
        `paper35`, `all`, or the path of a suite file.

    Returns
    -------
    list of dict
        Keys: model, name, benchmark, title, category, metric, scale_low, scale_high, value, low, high, n,
        input_tokens, output_tokens, cost_usd. `value`, `low` and `high` are in the metric's own unit; `low` and `high`
        are None where no interval can be given. Output tokens and costs are upper bounds.

    Raises
    ------
    UserError
        For an unknown suite.
    """
    results = load_results()
    keys = {model.name: key for key, model in results.models.items()}
    cells, columns = published_cells(suite)
    by_name = {column.benchmark: column for column in columns}
    rows = []
    for cell in cells:
        key = keys[cell.model]
        rows.append(
            {
                "model": results.models[key].model,
                "name": cell.model,
                **select(by_name[cell.benchmark], "benchmark title category metric scale_low=low scale_high=high"),
                "value": cell.value,
                "low": cell.estimate.low if cell.estimate else None,
                "high": cell.estimate.high if cell.estimate else None,
                "n": cell.n,
                **select(results.scores[key, cell.benchmark], "input_tokens output_tokens"),
                "cost_usd": cell.cost_usd,
            }
        )
    return rows


def ceiling_of(score: PublishedScore) -> CostCeiling:
    """Return the cost by the published rule, which assumes that every completion is as long as its limit."""
    results = load_results()
    model, benchmark = results.models[score.model], results.benchmarks[score.benchmark]
    return cost_ceiling(
        input_tokens=score.input_tokens,
        instances=score.instances,
        max_tokens=benchmark.max_tokens,
        output_tokens=score.output_tokens,
        price=model.price,
        jury=[judge.price for judge in results.jury] if benchmark.question_type == "open" else (),
    )


def published_names(suite: str | Suite) -> frozenset[str]:
    """Return the benchmarks of a suite that have published results."""
    weights = (resolve_suite(suite) if isinstance(suite, str) else suite).weights
    known = frozenset(load_results().benchmarks)
    return known if weights is None else known & set(weights)


def _cell(score: PublishedScore) -> Cell:
    results, ceiling = load_results(), ceiling_of(score)
    # As the published table does: the sum of the rounded parts, not `total_usd`.
    cost = ceiling.input_usd + ceiling.output_usd + ceiling.judge_input_usd + ceiling.judge_output_usd
    return Cell(
        model=results.models[score.model].name,
        benchmark=score.benchmark,
        value=score.value,
        estimate=_estimate(score, results.benchmarks[score.benchmark]),
        n=score.scored,
        cost_usd=float(cost),
    )


def _estimate(score: PublishedScore, benchmark: PublishedBenchmark) -> Estimate | None:
    """Return a conservative interval; None where the data do not allow one."""
    n = benchmark.independent
    if n is None or score.instances != benchmark.instances:
        return None
    low, _ = wilson_interval(max(score.value - HALF_STEP, 0.0) * n, n)
    _, high = wilson_interval(min(score.value + HALF_STEP, 1.0) * n, n)
    method = INTERVAL if n == score.scored else CLUSTERED
    return Estimate(value=score.value, low=low, high=high, n=score.scored, method=method)


def _column(benchmark: PublishedBenchmark) -> Column:
    entry = next(entry for entry in load_suite() if entry.name == benchmark.name)
    metric = METRICS.get(benchmark.metric)
    judged = benchmark.metric == JURY
    low, high = JURY_SCALE if judged else (0.0, 1.0)
    return Column(
        benchmark=entry.name,
        title=entry.title,
        category=entry.category,
        subcategory=entry.subcategory,
        metric=benchmark.metric,
        metric_title=metric.title if metric else metric_title(benchmark.metric),
        low=low,
        high=high,
        judges=tuple(judge.model for judge in load_results().jury) if judged else (),
    )


# --- leaderboards -----------------------------------------------------------------------------------------------------
# The published results alone, or together with own models.

MARK = "[published]"
"""Suffix of a published model if an own model has the same name."""


def published_leaderboard(
    *,
    suite: AnyPath = "all",
    tier: Tier | None = None,
    rule: Rule | None = None,
    resample: Resample | None = None,
    panel: AnyNames = (),
    only: Container[str] | None = None,
) -> Leaderboard:
    """Return the leaderboard of the nine published models.

    Parameters
    ----------
    suite
        `all`, `paper35` for tables 1 and 3 of the paper, or the path of a suite file.
    tier, rule
        None. Published results have one tier, `real`, and one rule, `published`.
    resample
        As in `leaderboard`.
    panel
        Models against which win rates are computed: one name or more, `published` for all nine.
    only
        Benchmarks to keep of the suite; None for all.

    Raises
    ------
    UserError
        For another rule or tier, an unknown suite, or a suite without published benchmarks.
    """
    suite, panel = str(suite), as_names(panel, "panel")
    _refuse_corrected(rule)
    if tier == "sample":
        raise UserError("--tier sample: published results are on real data. Leave out --tier sample.")
    chosen = resolve_suite(suite)
    cells, columns = published_cells(chosen)
    if not columns:
        raise UserError(f"--suite {suite}: none of its benchmarks is among the 37 with published results.")
    if only is not None:
        cells = [cell for cell in cells if cell.benchmark in only]
        columns = [column for column in columns if column.benchmark in only]
        chosen = _limited_to(columns, chosen)
    models = {cell.model for cell in cells}
    names = _panel_members(panel, models)
    options = BoardOptions(resample=resample, panel=names)
    board = leaderboard_from_cells(cells, columns, chosen, options, scoring="published")
    remarks = [*cost_remarks(), *known_error_remarks(column.benchmark for column in columns)]
    # With other benchmarks or another panel, no win rate is the one in the paper.
    if chosen.name == "paper35" and only is None and set(names) in (set(), models):
        remarks += table_1_remarks()
    return _mark_published(board, models, remarks)


def leaderboard_with_published(
    stores: Sequence[Path], options: BoardOptions = USUAL, *, rule: Rule | None = None
) -> Leaderboard:
    """Return a leaderboard of own and published models on the benchmarks that both have, by the published rule.

    Benchmarks without own results, or with another metric, are left out; remarks give their number.

    Parameters: options, of the own runs; `published` in their panel means the nine published models, which give every
    own model the win rate that it would have in the published table; rule, None or `published`.
    Raises: UserError for the corrected rule, the sample tier, and without a benchmark in common; StoreError for a
    folder that is not a store.
    """
    _refuse_corrected(rule)
    finished = read_inputs(stores, replace(options, rule="published"), single_scores=options.resample != "none")
    if options.short_names:
        finished = renamed_inputs(finished, finished.short_names)
    return board_of_own_and_published(finished, options)


def board_of_own_and_published(finished: LeaderboardInputs, options: BoardOptions = USUAL) -> Leaderboard:
    """Return the leaderboard of runs that were read by the published rule, and of the published models.

    Parameters and errors: as `leaderboard_with_published`.
    """
    chosen = suite_of(options, finished.columns)
    common = common_benchmarks(finished, chosen)
    published = {cell.model for cell in common.published}
    members = _panel_members(as_names(options.panel, "panel"), published)
    board = leaderboard_from_cells(
        [*common.own, *common.published],
        common.columns,
        _limited_to(common.columns, chosen),
        replace(options, panel=members),
        scoring="published",
    )
    left_out = finished.left_out_of(common.columns)
    remarks = [
        *benchmark_remarks(len(common.columns), common.without_own, common.unpublished, common.different_metric),
        *condition_remarks(common.own, finished.runs, common.columns),
        *same_model_remarks(common.own, common.published, common.columns, finished.runs),
        *cost_remarks(beside_bills=True),
        *known_error_remarks(column.benchmark for column in common.columns),
        *left_out_remarks(left_out),
        *finished.remarks_on(common.columns),
        *unfinished_remarks(finished.unfinished),
    ]
    return _mark_published(replace(board, left_out=left_out), published, remarks)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonBenchmarks:
    """Benchmarks that own and published results have in common."""

    columns: Sequence[Column]
    """Benchmarks that both have, measured by the same metric on the same scale."""
    own: Sequence[Cell]
    """Cells of own models on them."""
    published: Sequence[Cell]
    """Cells of published models on them, with names that no own model has."""
    without_own: Sequence[str]
    """Titles of published benchmarks of the suite without an own score."""
    unpublished: Sequence[str]
    """Titles of own benchmarks of the suite without published results."""
    different_metric: Sequence[str]
    """Benchmarks with different metrics, as text."""


def common_benchmarks(finished: LeaderboardInputs, suite: Suite) -> CommonBenchmarks:
    """Return the benchmarks that own and published results have in common.

    Raises: UserError if there are none, or if own results are on sample rows.
    """
    if finished.tier == "sample":
        raise UserError(
            "the store has results on sample rows only, which are invented and cannot be compared with published "
            "results. Run a benchmark on its real data first, or see `medhelm leaderboard --published-only`."
        )
    published, columns = published_cells(suite)
    scored = {cell.benchmark for cell in finished.cells if cell.value is not None}
    if suite.weights is not None:
        scored &= set(suite.weights)
    own = {column.benchmark: column for column in finished.columns if column.benchmark in scored}
    theirs = {column.benchmark: column for column in columns}
    alike = [own[name] for name in theirs if name in own and _is_same_metric(own[name], theirs[name])]
    different = [
        f"{c.title} (own: {_metric_and_scale(own[c.benchmark])}, published: {_metric_and_scale(c)})"
        for c in columns
        if c.benchmark in own and not _is_same_metric(own[c.benchmark], c)
    ]
    if not alike:
        why = f"; with different metrics: {', '.join(different)}" if different else ""
        raise UserError(f"no benchmark has both own and published results{why}. `medhelm benchmarks list` names all.")
    names = {column.benchmark for column in alike}
    own_cells = [cell for cell in finished.cells if cell.benchmark in names]
    taken = {cell.model for cell in own_cells}
    return CommonBenchmarks(
        columns=alike,
        own=own_cells,
        published=[_unique_name(cell, taken) for cell in published if cell.benchmark in names],
        without_own=[column.title for column in columns if column.benchmark not in own],
        unpublished=[column.title for name, column in own.items() if name not in theirs],
        different_metric=different,
    )


def _is_same_metric(own: Column, published: Column) -> bool:
    """Return whether two columns have the same metric and scale."""
    mine, theirs = ((c.metric, c.low, c.high, c.higher_is_better) for c in (own, published))
    return mine == theirs


def _metric_and_scale(column: Column) -> str:
    """Return metric and scale as text."""
    return f"{column.metric} on {column.low:g} to {column.high:g}"


def _unique_name(cell: Cell, taken: set[str]) -> Cell:
    """Return the cell with a name that no own model has."""
    return replace(cell, model=f"{cell.model} {MARK}") if cell.model in taken else cell


def _limited_to(columns: Sequence[Column], suite: Suite) -> Suite:
    """Return a suite of these benchmarks alone."""
    weights = suite.weights or {}
    return replace(suite, weights={column.benchmark: weights.get(column.benchmark, 1.0) for column in columns})


def _mark_published(board: Leaderboard, published: set[str], remarks: Sequence[Remark]) -> Leaderboard:
    """Mark published rows, which changes the verdict on costs, and add remarks."""
    rows = tuple(replace(row, published=row.model in published) for row in board.rows)
    # Published costs are ceilings with judges, own costs are bills without them: one frontier cannot compare both.
    frontier = board.frontier if len({row.published for row in rows}) == 1 else None
    marked = replace(board, rows=rows, remarks=(*board.remarks, *remarks), frontier=frontier)
    return replace(marked, verdict=tuple(verdict(marked)))


def _panel_members(names: Sequence[str], published: set[str]) -> list[str]:
    """Return the names of a panel with those of the published models in place of `published`."""
    return [name for given in names for name in (sorted(published) if given == PUBLISHED else [given])]


def _refuse_corrected(rule: Rule | None) -> None:
    if rule == "corrected":
        n = len(load_results().benchmarks)
        raise UserError(
            f"--scoring corrected: published results are means on {n} benchmarks by the published rule, from which "
            "corrected scores cannot be computed. Leave out --scoring, or use --scoring published."
        )


# --- remarks ----------------------------------------------------------------------------------------------------------
# Remarks on published results, and on own results that are compared with them.

NAMES = 6
"""Most names written out in one sentence."""

KNOWN_ERRORS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("medcalc_bench",),
        "MedCalc-Bench: questions of the categories `lab` and `dosage`, more than a third of all, could not score.",
    ),
    (
        ("ehrsql",),
        "EHRSQL: an empty answer to every question scores 0.38 by the published rule, more than any model.",
    ),
    (
        ("mtsamples",),
        "MTSamples: DeepSeek R1 and o3-mini were run on 427 instances, the other models on 78.",
    ),
    (
        ("med_qa",),
        "MedQA: the models were run on 1,000 instances of two splits; only the 503 of the test split are reported.",
    ),
    (("medalign",), "MedAlign: Claude 3.5 Sonnet was run on 172 instances, the other models on 149."),
    (
        ("n2c2_ct",),
        "N2C2-CT: the costs of Claude 3.5 Sonnet, Claude 3.7 Sonnet and Gemini 2.0 Flash omit a third of the tokens.",
    ),
)
"""Benchmarks -> known error in their published results."""

JURY_DEFAULT = (
    "Known error in published results: Jury scores: a completion that was blank, or that no judge could grade, counts "
    "as the lowest grade, 1.0."
)


def known_error_remarks(benchmarks: Iterable[str]) -> Iterator[Remark]:
    """Yield a remark for each known error in the published results on these benchmarks."""
    shown, results = set(benchmarks), load_results()
    for names, text in KNOWN_ERRORS:
        if shown & set(names):
            yield Remark("known_error", names[0], f"Known error in published results: {text}")
    if any(results.benchmarks[name].metric == JURY for name in shown if name in results.benchmarks):
        judges = listed([judge.name for judge in results.jury], NAMES)
        text = f"{JURY_DEFAULT} The judges, {judges}, also judged their own completions."
        yield Remark("known_error", JURY, text)
    for model in results.models.values():
        if model.printed_price:
            printed, used = model.printed_price, model.price
            text = (
                f"The published costs of {model.name} use {used.input:.2f} and {used.output:.2f} USD per million "
                f"tokens; the paper's table of prices has {printed.input:.2f} and {printed.output:.2f}."
            )
            yield Remark("published_price", model.name, text)


def table_1_remarks() -> Iterator[Remark]:
    """Yield a remark on the one entry of the paper's table 1 that cannot be reproduced as printed."""
    text = (
        "Scores were published to three decimals, which creates ties: the win rate of Claude 3.5 Sonnet comes out as "
        "0.636, and is 0.63 in table 1 of the paper. The other 35 entries are as printed."
    )
    yield Remark("rounded_scores", "Claude 3.5 Sonnet", text)


def cost_remarks(*, beside_bills: bool = False) -> Iterator[Remark]:
    """Yield a remark on what the published costs mean."""
    text = (
        "Published costs are ceilings, not bills: every completion and every judge's response counts as if it had "
        f"used its full limit, at prices of {PRICES_DATE.isoformat()}."
    )
    own = " Costs of your own runs are for the tokens used, so the two are not compared." if beside_bills else ""
    yield Remark("cost_ceilings", "", text + own)


def benchmark_remarks(
    n_common: int, without_own: Sequence[str], unpublished: Sequence[str], different_metric: Sequence[str]
) -> Iterator[Remark]:
    """Yield remarks on the number of benchmarks that are compared, and on those that are left out.

    Parameters: n_common, benchmarks with own and published results; without_own, titles of published benchmarks without
    own results; unpublished, titles of own benchmarks without published results; different_metric, benchmarks whose
    own and published results use different metrics.
    """
    n_published = n_common + len(without_own) + len(different_metric)
    text = (
        f"Published models were not measured here. {n_common} of {n_published} published benchmarks also have results "
        f"of your own; {len(without_own)} do not and are left out. Win rates and averages cover the {n_common}, so "
        "they differ from the published ones."
    )
    yield Remark("published_rows", "", text)
    if different_metric:
        text = f"Left out, because own and published results use different metrics: {', '.join(different_metric)}."
        yield Remark("different_metric", "", text)
    if unpublished:
        yield Remark("not_published", "", f"Left out, because results are not published: {listed(unpublished, NAMES)}.")


def condition_remarks(
    own: Sequence[Cell], runs: Mapping[tuple[str, str], Run], columns: Sequence[Column]
) -> Iterator[Remark]:
    """Yield remarks on differences between own and published runs: prompts, instances, data, limits, jury."""
    shown = [(cell.model, runs[cell.model, cell.benchmark]) for cell in own]
    order = {column.benchmark: place for place, column in enumerate(columns)}
    shown.sort(key=lambda pair: (order[pair[1].benchmark], pair[0]))
    yield from _prompt_remarks(shown)
    yield from _instance_remarks(shown)
    yield from _data_remarks([run for _, run in shown])
    yield from _limit_remarks(shown)
    yield from _jury_remarks([run for _, run in shown if run.main_metric == JURY])
    failed = sum(run.n_failed for _, run in shown)
    if failed:
        text = (
            f"{failed} instances of your own runs have no completion and are left out of the means; published means "
            "count such instances as the worst answer."
        )
        yield Remark("failed_instances", "", text)


def _prompt_remarks(shown: Sequence[tuple[str, Run]]) -> Iterator[Remark]:
    """Yield remarks on where the prompts of own runs come from."""
    reference, others, n_own = [], [], 0
    for model, run in shown:
        where = f"{run.title} with {model}"
        if run.origin is None:
            n_own += 1
        elif run.origin.harness == "helm":
            reference.append(where)
        else:
            others.append(where)
    if n_own:
        text = "Prompts differ: your own runs word the same tasks differently, which alone can change a score."
        yield Remark("different_prompts", "", text)
    if reference:
        rest = "; these are more comparable than the rest" if n_own or others else ""
        text = f"Prompts of the reference implementation were used for {listed(reference, NAMES)}{rest}."
        yield Remark("reference_prompts", "", text)
    if others:
        text = f"Prompts of another harness, not those of the published runs, were used for {listed(others, NAMES)}."
        yield Remark("imported_prompts", "", text)


def _instance_remarks(shown: Sequence[tuple[str, Run]]) -> Iterator[Remark]:
    """Yield a remark on benchmarks with another number of instances."""
    published = load_results()
    counts: dict[str, tuple[str, set[int]]] = {}
    for _, run in shown:
        counts.setdefault(run.benchmark, (run.title, set()))[1].add(run.n)
    differing = []
    for benchmark, (title, own) in counts.items():
        theirs = {published.scores[key, benchmark].scored for key in published.models}
        if own != theirs or len(theirs) > 1:
            differing.append(f"{title} {_counts_in_words(own)} (published: {_counts_in_words(theirs)})")
    if differing:
        text = f"Instances differ, so these are means over different questions: {listed(differing, NAMES)}."
        yield Remark("different_instances", "", text)


def _counts_in_words(numbers: set[int]) -> str:
    return " or ".join(f"{number:,}" for number in sorted(numbers))


def _data_remarks(runs: Sequence[Run]) -> Iterator[Remark]:
    """Yield remarks on benchmarks whose data or selection of instances may differ from the published ones."""
    found: dict[tuple[str, str, str], dict[str, None]] = {}
    for run in {(run.benchmark, run.benchmark_digest, run.data_digest): run for run in runs}.values():
        if run.has_imported_completions:
            continue  # The other harness read its own data.
        if has_own_data(run):
            found.setdefault(OWN, {})[run.title] = None
            continue
        definition = _built_in_definition(run)
        if definition is None:
            found.setdefault(CHANGED, {})[run.title] = None
        elif not (definition.source.files and all(definition.source.files.values())):
            found.setdefault(UNVERIFIED, {})[run.title] = None
        has_published = definition is not None and PUBLISHED_SAMPLE in definition.samples
        sample = run.settings.get("sample", "default")
        same = (PUBLISHED_SAMPLE,) if has_published else (PUBLISHED_SAMPLE, "default")
        if run.settings.get("seed", 0) != 0 or sample not in same:
            found.setdefault(OFFERED if has_published else REDRAWN, {})[run.title] = None
    for kind in (OWN, CHANGED, UNVERIFIED, REDRAWN, OFFERED):
        if kind in found:
            code, text, advice = kind
            yield Remark(code, "", f"{text}: {listed(list(found[kind]), NAMES)}.{advice}")


OWN = ("own_data", "Run on own data, so the published scores are for other instances", "")
CHANGED = ("changed_definition", "The benchmark definition is not the built-in one, so the data may differ", "")
UNVERIFIED = ("unverified_data", "The published data has no public copy to compare with", "")
REDRAWN = ("different_selection", "The selection of instances differs from the published one", "")
OFFERED = (*REDRAWN[:2], f" Use `medhelm run --sample {PUBLISHED_SAMPLE}` for the published one.")
"""Code, text and advice of remarks on data."""


def _built_in_definition(run: Run) -> Benchmark | None:
    """Return the built-in definition that a run used; None if it used another."""
    try:
        (benchmark,) = load_benchmarks([run.benchmark], metrics=METRIC_NAMES)
    except MedHelmError:
        return None
    return benchmark if benchmark.as_used(run.rubric, run.benchmark_digest).digest == run.benchmark_digest else None


def _limit_remarks(shown: Sequence[tuple[str, Run]]) -> Iterator[Remark]:
    """Yield a remark on runs with another limit on completions."""
    differing = []
    for model, run in shown:
        benchmark = load_results().benchmarks[run.benchmark]
        limit = run.settings.get("max_tokens")
        if limit is not None and limit not in (benchmark.max_tokens, REASONING_LIMIT):
            differing.append(f"{run.title} with {model} ({limit})")
    if differing:
        text = f"The limit on completions differs from the published one: {listed(differing, NAMES)}."
        yield Remark("different_limit", "", text)


def _jury_remarks(runs: Sequence[Run]) -> Iterator[Remark]:
    """Yield a remark on benchmarks for each other jury that graded them."""
    if not runs:
        return
    published = {plain_name(judge.model): judge.name for judge in load_results().jury}
    differing: dict[tuple[str, ...], list[str]] = {}
    for run in runs:
        if {plain_name(judge.remote_name) for judge in run.judges} != set(published):
            titles = differing.setdefault(tuple(judge.name for judge in run.judges), [])
            titles += [run.title] if run.title not in titles else []
    theirs = listed(list(published.values()))
    for names, titles in differing.items():
        text = (
            f"{listed(titles, NAMES)} had another jury: {listed(names, NAMES)} instead of {theirs}. Juries differ in "
            "severity, so scores differ because of the jury as well as the model."
        )
        yield Remark("different_jury", "", text)


def same_model_remarks(
    own: Sequence[Cell],
    published: Sequence[Cell],
    columns: Sequence[Column],
    runs: Mapping[tuple[str, str], Run],
) -> Iterator[Remark]:
    """Yield a remark on how much own results of a published model differ from its published results."""
    by_name = {plain_name(model.model): model for model in load_results().models.values()}
    theirs = {(cell.model.partition(" [")[0], cell.benchmark): cell.value for cell in published}
    scale = {column.benchmark: column for column in columns}
    for name in dict.fromkeys(cell.model for cell in own):
        mine = [cell for cell in own if cell.model == name and cell.value is not None]
        known = {by_name.get(plain_name(_remote_name(runs[name, cell.benchmark]))) for cell in mine}
        same = next(iter(known)) if len(known) == 1 else None
        if same is None:
            continue
        gaps = [
            scale[benchmark].normalize(value) - scale[benchmark].normalize(other)
            for benchmark, value in ((cell.benchmark, cell.value) for cell in mine)
            if value is not None and (other := theirs.get((same.name, benchmark))) is not None
        ]
        if not gaps:
            continue
        text = (
            f"{name} is the model published as {same.name}. On {plural(len(gaps), 'benchmark')} its own results differ "
            f"from the published ones by {fsum(gaps) / len(gaps):+.3f} on average, on a scale of 0 to 1."
        )
        yield Remark("same_model", name, text)


def _remote_name(run: Run) -> str:
    """Return the name that the server uses for the model."""
    return run.resolved_model.remote_name if run.resolved_model else run.model
