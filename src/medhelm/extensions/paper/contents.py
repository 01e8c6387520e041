"""Main tables of a report: win rates, agreement with clinicians, and costs.

They follow the tables of the MedHELM paper (Bedi et al. 2025), with intervals added.

Further tables of a report: the benchmarks, models by subcategory, detectable effects, and models head to head.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from medhelm.benchmarks.suites import load_suite
from medhelm.benchmarks.taxonomy import load_taxonomy
from medhelm.domain.benchmark import SuiteEntry
from medhelm.domain.text import group_title, listed
from medhelm.results.agreement import by_criterion_table, verdict
from medhelm.results.calibration_view import rated_text
from medhelm.results.cost import left_out, seconds_text
from medhelm.results.formats.fields import columns_of, rounded_rows, select_fields
from medhelm.results.formats.studies import study_facts
from medhelm.results.formats.tables import (
    SAMPLE_WARNING,
    Value,
    as_texts,
    decimal,
    escape_markdown,
    estimate_numbers,
    estimate_text,
    longtable,
    number,
    render,
    with_interval,
)
from medhelm.results.leaderboard_view import (
    BOARD_COLUMNS,
    board_values,
    caption,
    count_instances,
    has_weights,
    head_to_head_list,
    head_to_head_matrix,
    head_to_head_note,
    model_fields,
    rank_text,
    shown_name,
)
from medhelm.results.published.boards import load_results

if TYPE_CHECKING:
    from medhelm.analysis.agreement.jury_vs_clinicians import BenchmarkAgreement, JuryAgreement
    from medhelm.analysis.comparison.power import BenchmarkEffects, DetectableEffect
    from medhelm.analysis.leaderboard.cells import Column
    from medhelm.analysis.leaderboard.rows import HeadToHead
    from medhelm.analysis.leaderboard.types import Leaderboard, Row
    from medhelm.domain.study import StudyCard

BASIS = {
    "instances within benchmarks": (
        "95% confidence intervals and tests reflect the choice of questions on these benchmarks. Tests pair the "
        "answers to the same question."
    ),
    "benchmarks": (
        "95% confidence intervals and tests reflect the choice of benchmarks, not the choice of questions. Tests pair "
        "the scores on the same benchmark."
    ),
    "nothing": "No intervals: nothing could be tested.",
}
"""Unit of the tests -> a sentence."""


def intervals_in_words(board: Leaderboard) -> str:
    """Return a sentence on the method of the intervals."""
    return BASIS[board.interval_method]


WIN_SHARE = (
    "Win share: share of other models whose answer is beaten, question by question, ties counting half; averaged over "
    "questions and benchmarks."
)
"""Meaning of a win share."""

NO_INTERVAL = "Win rates have no interval here: they count differences between means, however small."
"""Reason why a win rate has no interval where questions are sampled."""

BASELINES = "Baselines come last: they have no rank, and models are not compared with them in win shares and win rates."
"""Place of baselines in the table."""


CLINICIANS = (
    "Clinicians: mean rating by clinicians of the n completions that they rated, each benchmark on a scale of 0 to 1. "
    "The interval includes their severity, which is the same for all models."
)
"""Meaning of a mean rating by clinicians."""

RATED = "clinicians clinicians_low clinicians_high clinicians_n clinicians_n_raters clinicians_n_benchmarks"
"""Further columns of the CSV file of table 1 where clinicians rated completions."""

TABLE_1 = (
    "rank rank_low rank_high tie_group model win_rate win_rate_low win_rate_high win_rate_sd macro_average "
    "macro_average_low macro_average_high macro_average_sd guarded_win_rate n_benchmarks coverage source suite scoring "
    "tier win_share win_share_low win_share_high"
)
"""Columns of its CSV file."""

USE = (
    "usd_per_1000 seconds_per_completion mean_seconds_per_completion tokens_per_completion "
    "output_tokens_per_completion frontier_probability"
)
"""Columns of the CSV file of table 3 about what a completion takes."""


def table_1(board: Leaderboard) -> PaperTable:
    """Return the table of ranks, macro averages, win shares and win rates, baselines last."""
    shares = any(row.win_share for row in board.rows)
    named = ["Macro average", *([] if board.is_complete else ["Own average"]), "SD"]
    named_wins = [*(["Win share"] if shares else []), "Win rate", "SD"]
    rated = ["Clinicians"] if board.has_clinicians else []
    headers = ["Rank", "Model", *map(str, _in_order(board, named, named_wins)), *rated, "Coverage"]
    rows: list[list[Value]] = []
    in_csv = f"{TABLE_1} {RATED}" if rated else TABLE_1
    csv_rows, csv_headers = rounded_rows(select_fields(columns_of(model_fields(board)), in_csv), board.all_rows)
    for row in board.all_rows:
        win, macro = row.win_rate, row.macro_average
        averages: list[Value] = [
            estimate_text(row.adjusted_average), *([] if board.is_complete else [estimate_text(macro)]),
            decimal(macro.sd) if macro else None,
        ]  # fmt: skip
        wins: list[Value] = [
            *([estimate_text(row.win_share)] if shares else []), estimate_text(win), decimal(win.sd) if win else None
        ]  # fmt: skip
        coverage = f"{row.n_benchmarks} ({row.coverage:.0%})"
        clinicians = [rated_text(row.clinicians)] if rated else []
        rows.append([rank_text(row), shown_name(row), *_in_order(board, averages, wins), *clinicians, coverage])
    ranks = "" if board.pairs is None else (
        " Brackets after a rank: the ranks that are possible, for all models together at the 95% level."
    )  # fmt: skip
    own = "" if board.is_complete else (
        ", estimated from the other scores for benchmarks that a model lacks. Own average: mean over the benchmarks "
        "that a model has"
    )  # fmt: skip
    notes = [
        f"Models are ranked by {board.ranked_by}. {intervals_in_words(board)}{ranks}",
        f"Macro average: mean of benchmark scores on a scale of 0 to 1{own}; its SD is over benchmarks.",
        *([WIN_SHARE] if shares else []),
        "Win rate: mean over benchmarks of the share of other models beaten, ties counting half; its SD is over the "
        "other models.",
        *([NO_INTERVAL] if shares else []),
        *([BASELINES] if board.baselines else []),
        *([CLINICIANS] if rated else []),
    ]
    if has_weights(board):
        notes.append("Means over benchmarks are weighted, see table C3.")
    return PaperTable(
        key="table1",
        title=f"Table 1. Averages, {'win shares and win rates' if shares else 'and win rates'}",
        caption=caption(board),
        headers=headers,
        rows=rows,
        csv_headers=csv_headers,
        csv_rows=csv_rows,
        notes=notes,
    )  # fmt: skip


def _in_order(board: Leaderboard, averages: Sequence[Value], wins: Sequence[Value]) -> list[Value]:
    """Join two groups of cells, the one of the number that ranks first."""
    return [*wins, *averages] if board.ranked_by == "win rate" else [*averages, *wins]


# --- table 2: the jury against clinicians -----------------------------------------------------------------------------


def table_2(found: JuryAgreement, board: Leaderboard, titles: Mapping[str, str]) -> PaperTable:
    """Return the agreement of jury, baselines and clinicians with clinicians.

    `titles`: name of a baseline -> its title.
    """
    several = {**found.datasets, **({"Combined": found.combined} if len(found.datasets) > 1 else {})}
    baselines = [key for key in titles if any(key in one.baselines for one in several.values())]
    names = {column.benchmark: column.title for column in board.columns}
    rows: list[list[Value]] = []
    csv_rows: list[list[Value]] = []
    for name, one in several.items():
        others = [one.baselines[key].consistency if key in one.baselines else None for key in baselines]
        rows.append([
            names.get(name, name), one.n_instances, len(one.raters), estimate_text(one.jury.consistency),
            estimate_text(one.one_clinician.raters.of_mean(2)), _mean_over_pairs(one), *map(estimate_text, others),
        ])  # fmt: skip
        csv_rows += [
            [name, one.n_instances, len(one.raters), *cells, *board_values(board)] for cells in _rater_rows(one)
        ]
    return PaperTable(
        key="table2",
        title="Table 2. The jury against clinicians",
        caption=f"Intraclass correlation ICC(3,k) with 95% intervals. {Path(found.place).name}; grades of the jury "
        f"from the {found.jury_from}.{f' {SAMPLE_WARNING}' if board.tier == 'sample' else ''}",
        headers=["Benchmark", "Completions", "Raters", "Jury and clinicians", "Clinicians with each other",
                 "Clinicians, mean over pairs", *(f"{titles[name]} and clinicians" for name in baselines)],
        rows=rows,
        csv_headers=["benchmark", "n_instances", "n_raters", "who", "icc3k", "low", "high", "reason", *BOARD_COLUMNS],
        csv_rows=csv_rows,
        notes=(
            "ICC(3,k), k = 2: consistency of two scores of each completion after standardization. "
            "Clinicians: any two of them, estimated from all ratings at once. Mean over pairs: the paper's estimate, "
            "with a bootstrap interval over pairs, and the range of the pairs in brackets. With few shared completions "
            "it is near 1 even for clinicians who guess.",
            *(f"{titles[name]}: a dash where the store has no scores by it." for name in baselines),
            *verdict(found),
            *map(str, found.remarks),
            *(f"{names.get(name, name)}: {remark}" for name, one in found.datasets.items() for remark in one.remarks),
        ),
    )  # fmt: skip


def table_by_criterion(found: JuryAgreement, board: Leaderboard) -> PaperTable:
    """Return agreement by criterion: of the jury with a clinician, and of two clinicians."""
    names = {column.benchmark: column.title for column in board.columns}
    rows: list[list[Value]] = []
    csv_rows: list[list[Value]] = []
    for name, one in found.datasets.items():
        own, headers, _ = by_criterion_table(one)
        rows += [[names.get(name, name), *row] for row in own]
        for criterion, both in one.by_criterion.items():
            for who, of in (("jury_and_clinician", both.jury), ("two_clinicians", both.raters)):
                csv_rows.append([name, criterion, who, *estimate_numbers(of), of.n, of.n_raters, of.reason])
    return PaperTable(
        key="criteria",
        title="Agreement with clinicians by criterion",
        caption="Correlations with 95% intervals, from all ratings at once.",
        headers=["Benchmark", *headers],
        rows=rows,
        csv_headers=["benchmark", "criterion", "who", "correlation", "low", "high", "n", "n_raters", "reason"],
        csv_rows=csv_rows,
        notes=tuple(
            f"{names.get(name, name)}: not compared with the jury, because {why}."
            for name, why in found.not_compared.items()
        ),
    )


def table_of_studies(studies: Sequence[StudyCard]) -> PaperTable:
    """Return the cards of the studies in which clinicians rated completions."""
    rows: list[list[Value]] = [[card.name, *fact] for card in studies for fact in study_facts(card)]
    return PaperTable(
        key="study",
        title="Ratings by clinicians: the study",
        caption="Who rated what, how it was blinded, and what was not as planned.",
        headers=["Study", "", "Content"],
        rows=rows,
        csv_headers=["study", "part", "content"],
        csv_rows=rows,
    )


def _mean_over_pairs(one: BenchmarkAgreement) -> str | None:
    """Return the paper's agreement of clinicians, with its interval and the range of the pairs."""
    among = one.clinicians
    values = [pair.value for pair in among.pairs.pairs if pair.value is not None]
    if among.pairs.value is None:
        return None
    text = with_interval(among.pairs.value, among.pairs_low, among.pairs_high)
    return f"{text} ({decimal(min(values))} to {decimal(max(values))})"


def _rater_rows(one: BenchmarkAgreement) -> list[list[Value]]:
    """Return one row per rater that is compared with clinicians."""
    among = one.clinicians
    compared = {"jury": one.jury, **one.judges, **one.baselines}
    rows: list[list[Value]] = [
        [name, *estimate_numbers(of.consistency), of.consistency.reason] for name, of in compared.items()
    ]
    together = one.one_clinician.raters.of_mean(2)
    return [
        *rows,
        ["clinicians", *map(number, (among.pairs.value, among.low, among.high)), among.reason],
        ["clinicians_over_pairs", *map(number, (among.pairs.value, among.pairs_low, among.pairs_high)), ""],
        ["clinicians_all_ratings", *estimate_numbers(together), together.reason],
    ]


# --- table 3: tokens and cost -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCost:
    """Tokens and cost of one model on the benchmarks of a leaderboard."""

    model: str
    """Name of the model."""
    benchmark_tokens: int | None
    """Input and output tokens of the model; None if unknown."""
    jury_tokens: int | None
    """Input and output tokens of its judges; None if unknown."""
    benchmark_usd: float | None
    """Price of the model's tokens; None if unknown."""
    jury_usd: float | None
    """Price of the judges' tokens; None if unknown."""
    ceiling_usd: float | None
    """Total by the published rule, with every completion as long as its limit; None if unknown."""
    is_ceiling: bool = False
    """True if the other numbers are ceilings as well, not bills."""

    @property
    def total_usd(self) -> float | None:
        """Sum of both costs; None if one is unknown."""
        if self.benchmark_usd is None or self.jury_usd is None:
            return None
        return round(self.benchmark_usd + self.jury_usd, 10)


def table_3(costs: Sequence[ModelCost], board: Leaderboard, warnings: Sequence[str] = ()) -> PaperTable:
    """Return the table of tokens and costs, with models in order of rank."""
    has_use = any(row.use and row.use.tokens is not None for row in board.rows)
    by_model = {cost.model: cost for cost in costs}
    ranked = [(row, by_model[row.model]) for row in board.rows if row.model in by_model]
    use = select_fields(columns_of(model_fields(board)), USE)
    rows: list[list[Value]] = [
        [
            shown_name(row), _count_text(cost.benchmark_tokens), _count_text(cost.jury_tokens),
            _dollars_text(cost.benchmark_usd), _dollars_text(cost.jury_usd), _dollars_text(cost.total_usd),
            _dollars_text(cost.ceiling_usd), "ceiling" if cost.is_ceiling else "bill",
            *(_per_completion(row) if has_use else []), _frontier_probability(row, board),
        ]
        for row, cost in ranked
    ]  # fmt: skip
    csv_rows: list[list[Value]] = [
        [
            cost.model, cost.benchmark_tokens, cost.jury_tokens, number(cost.benchmark_usd), number(cost.jury_usd),
            number(cost.total_usd), number(cost.ceiling_usd), "ceiling" if cost.is_ceiling else "bill",
            *board_values(board), *used,
        ]
        for (row, cost), used in zip(ranked, rounded_rows(use, [row for row, _ in ranked])[0], strict=True)
    ]  # fmt: skip
    notes = []
    if any(cost.is_ceiling for cost in costs):
        notes.append(
            "ceiling: the published rule, with every completion as long as its limit and every judgment 4,096 tokens "
            "long; jury tokens are those of one judge, jury cost is that of all judges."
        )
    if any(not cost.is_ceiling for cost in costs):
        notes.append("bill: tokens counted by providers, at the prices on the day of the run or those of --prices.")
    if has_use:
        notes.append("Per completion, without judges: mean input and output tokens, median seconds of a request.")
    if board.frontier:
        notes.append(FRONTIER)
        notes += [f"{text[:1].upper()}{text[1:]}" for text in left_out(board.frontier)]
    if len({cost.is_ceiling for cost in costs}) > 1:
        notes.append("Costs cover the evaluated instances, which may differ between models: see table C3.")
    if any(cost.total_usd is None for cost in costs):
        notes.append("A dash: unknown. Unknown costs are never counted as 0.")
    return PaperTable(
        key="table3",
        title="Table 3. Tokens and cost",
        caption=caption(board),
        headers=["Model", "Benchmark tokens", "Jury tokens", "Benchmark cost USD", "Jury cost USD", "Total USD",
                 "Ceiling USD", "Basis", *(PER_COMPLETION if has_use else []), "On frontier"],
        rows=rows,
        csv_headers=["model", "benchmark_tokens", "jury_tokens", "benchmark_usd", "jury_usd", "total_usd",
                     "ceiling_usd", "basis", *BOARD_COLUMNS, *USE.split()],
        csv_rows=csv_rows,
        notes=[*notes, *warnings],
    )  # fmt: skip


FRONTIER = (
    "On frontier: probability that no other model on the same benchmarks is at least as good by macro average and "
    "cheaper, or better and no costlier, given the scores."
)
"""Meaning of the probability of being on the efficient frontier."""


PER_COMPLETION = ["Tokens per completion", "Seconds per completion"]
"""Headings of what a completion takes; shown if it is known for any model."""


def _per_completion(row: Row) -> list[Value]:
    """Return tokens and seconds of a completion."""
    return [decimal(row.use.tokens, 0), seconds_text(row.use.seconds)] if row.use else [None, None]


def _frontier_probability(row: Row, board: Leaderboard) -> str | None:
    """Return the probability of being on the efficient frontier."""
    return decimal(board.frontier.probability(row.model), 2) if board.frontier else None


def _count_text(value: int | None) -> str | None:
    return None if value is None else f"{value:,}"


def _dollars_text(value: float | None) -> str | None:
    """Return dollars with two decimals, or with three digits for a small amount."""
    if value is None:
        return None
    return f"{value:,.2f}" if value >= 0.1 or value == 0 else f"{value:.3g}" if value >= 1e-4 else f"{value:.6f}"


# --- tables -----------------------------------------------------------------------------------------------------------
# Tables of a report as Markdown, CSV and LaTeX.
#
# Markdown and LaTeX hold rounded numbers with intervals, and notes. CSV holds the same numbers with six decimals in
# separate columns, and the suite, rule and tier in every row.

TableFormat = Literal["md", "csv", "latex"]
"""Format of a table."""

TABLE_FORMATS: tuple[TableFormat, ...] = get_args(TableFormat)
"""All formats."""

ENDINGS = {"md": "md", "csv": "csv", "latex": "tex"}
"""Format -> file extension."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable:
    """One table of a report."""

    key: str
    """Name for `--only` and of its files, such as `table1`."""
    title: str
    """Title, such as `Table 1. Win rates and averages`."""
    caption: str
    """Models, suite and scoring rule, with a warning about invented rows."""
    headers: Sequence[str]
    """Headings for people."""
    rows: Sequence[Sequence[Value]]
    """Cells for people, each row as long as `headers`."""
    csv_headers: Sequence[str]
    """Names of the columns of the CSV file."""
    csv_rows: Sequence[Sequence[Value]]
    """Its cells."""
    notes: Sequence[str] = ()
    """Notes below the table, in sentences."""
    grouped: bool = False
    """True if the first column names groups of rows, which LaTeX shows as subheadings."""


def write(table: PaperTable, format: str) -> str:
    """Return the content of a table's file.

    Raises: ValueError for a row of another length than the headings, or another format.
    """
    if format == "csv":
        return render(table.csv_rows, table.csv_headers, format="csv")
    if format == "md":
        return markdown(table, level=1)
    if format == "latex":
        # LaTeX numbers tables itself.
        caption = f"{table.title.partition('. ')[2] or table.title}. {table.caption}."
        texts, heads, numeric = as_texts(table.rows, table.headers)
        return longtable(
            texts, heads, numeric, label=table.key, caption=caption, notes=table.notes, grouped=table.grouped
        )
    raise ValueError(f"unknown format of a table: {format}")


def markdown(table: PaperTable, level: int) -> str:
    """Return a table as a section of a Markdown text, under a heading of that level."""
    body = render(table.rows, table.headers, format="md", caption=table.caption)
    notes = "".join(f"- {escape_markdown(note)}\n" for note in table.notes)
    return f"{'#' * level} {escape_markdown(table.title)}\n\n{body}" + (f"\n{notes}" if notes else "")


# --- appendix ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteListing:
    """A benchmark with results."""

    entry: SuiteEntry
    """Names and category of the benchmark."""
    column: Column
    """Its column of the leaderboard."""


def table_c3(board: Leaderboard, suite: Collection[str], titles: Mapping[str, str]) -> PaperTable:
    """Return the table of benchmarks with results.

    Parameters: suite, benchmarks that were wanted; titles, id of a category or subcategory -> its title.
    """
    weighted = has_weights(board)
    rows: list[list[Value]] = []
    csv_rows: list[list[Value]] = []
    for one in suite_listings(board):
        entry, column = one.entry, one.column
        cells = [row.cells[entry.name] for row in board.rows if entry.name in row.cells]
        counts = sorted({count for count in map(count_instances, cells) if count})
        shown = None if not counts else f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
        places = [titles.get(name) or group_title(name) or None for name in (entry.category, entry.subcategory)]
        metric = column.metric_title or column.metric
        facts: list[Value] = [entry.access or None, entry.construction or None, metric or None]
        weights: list[Value] = [f"{column.weight:g}"] if weighted else []
        models = f"{len(cells)} of {len(board.rows)}"
        rows.append([places[0], entry.title, places[1], *facts, *weights, shown, models])
        ends: list[Value] = [counts[0], counts[-1]] if counts else [None, None]
        csv_rows.append([entry.name, entry.title, entry.category, entry.subcategory, *facts, column.weight, *ends,
                         len(cells),
                         *board_values(board)])  # fmt: skip
    shown_names = {column.benchmark for column in board.columns}
    lacking = [entry.title for entry in load_suite() if entry.name in set(suite) - shown_names]
    weighing = ["Weight"] if weighted else []
    return PaperTable(
        key="tableC3",
        title="Table C3. The benchmarks",
        caption=caption(board),
        headers=["Category", "Benchmark", "Subcategory", "Access", "Source", "Metric", *weighing, "Instances",
                 "Models"],
        rows=rows,
        csv_headers=["benchmark", "title", "category", "subcategory", "access", "source", "metric", "weight",
                     "instances_low", "instances_high", "n_models", *BOARD_COLUMNS],
        csv_rows=csv_rows,
        notes=[
            "Instances: evaluated instances; a range if models differ.",
            *([f"Benchmarks of the suite without results: {listed(lacking)}."] if lacking else []),
        ],
        grouped=True,
    )  # fmt: skip


def table_subcategories(board: Leaderboard, titles: Mapping[str, str]) -> PaperTable:
    """Return the table of models by subcategory."""
    groups = {column.subcategory: column.category for column in board.columns}
    counts = {name: sum(column.subcategory == name for column in board.columns) for name in groups}
    rows: list[list[Value]] = []
    csv_rows: list[list[Value]] = []
    for name, category in groups.items():
        means = [row.subcategories.get(name) for row in board.all_rows]
        shown = [titles.get(key, group_title(key)) for key in (category, name)]
        rows.append(
            [shown[0], f"{shown[1]} ({counts[name]})", *(decimal(mean.value) if mean else None for mean in means)]
        )
        csv_rows += [
            [category, name, counts[name], row.model, number(mean.value) if mean else None,
             mean.n_benchmarks if mean else 0, *board_values(board)]
            for row, mean in zip(board.all_rows, means, strict=True)
        ]  # fmt: skip
    return PaperTable(
        key="subcategories",
        title="Models by subcategory",
        caption=caption(board),
        headers=["Category", "Subcategory", *(shown_name(row) for row in board.all_rows)],
        rows=rows,
        csv_headers=[
            "category",
            "subcategory",
            "n_benchmarks",
            "model",
            "value",
            "n_benchmarks_of_model",
            *BOARD_COLUMNS,
        ],
        csv_rows=csv_rows,
        notes=(
            "Means of benchmark scores from 0 (worst) to 1 (best); brackets: number of benchmarks. A dash: no score.",
        ),
        grouped=True,
    )


def table_e4(effects: Mapping[str, BenchmarkEffects], board: Leaderboard) -> PaperTable:
    """Return the table of minimum detectable effects; by the published formula where benchmarks were ever published."""
    published = {column.benchmark for column in board.columns} & load_results().benchmarks.keys()
    rows: list[list[Value]] = []
    csv_rows: list[list[Value]] = []
    for column in board.columns:
        own = effects.get(column.benchmark)
        by_paper, corrected = (own.published, own.corrected) if own else (None, None)
        shown_by_paper = _effect(by_paper if column.benchmark in published else None) if published else []
        rows.append([column.title, own.n if own else None, *shown_by_paper, *_effect(corrected),
                     corrected.n_pairs if corrected else None])  # fmt: skip
        csv_rows.append([column.benchmark, own.n if own else None, *_effect_numbers(by_paper),
                         *_effect_numbers(corrected), *board_values(board)])  # fmt: skip
    names = [f"{rule}_{part}" for rule in ("published", "corrected") for part in ("mde", "sd", "pairs")]
    notes = [
        "The smallest true difference between two models that is detected with a power of 0.8 at the 5% level, on a "
        "scale of 0 to 1: mean and SD over pairs of models.",
    ]
    if published:
        notes.append(
            "Published: the paper's formula as implemented, which divides scores above 1 by 5 and treats all instances "
            "as independent. Corrected: scores on the scale of their metric, with clustered instances."
        )
    if not effects:
        notes.append("The table needs scores of instances for at least two models; here only means are known.")
    elif published and board.scoring != "published":
        notes.append("Both columns use corrected scores; --scoring published gives the numbers of the paper.")
    return PaperTable(
        key="tableE4",
        title="Table E4. Minimum detectable effect",
        caption=caption(board),
        headers=["Benchmark", "Instances", *(["Published", "SD", "Corrected"] if published else ["Effect"]), "SD",
                 "Pairs"],
        rows=rows,
        csv_headers=["benchmark", "n", *names, *BOARD_COLUMNS],
        csv_rows=csv_rows,
        notes=notes,
    )  # fmt: skip


def table_head_to_head(found: HeadToHead, board: Leaderboard) -> PaperTable:
    """Return the table of models against each other."""
    headers, rows = head_to_head_matrix(found, [shown_name(row) for row in board.rows])
    csv_rows, csv_headers = head_to_head_list(found)
    return PaperTable(
        key="head_to_head",
        title="Head to head",
        caption=caption(board),
        headers=headers,
        rows=rows,
        csv_headers=[*csv_headers, *BOARD_COLUMNS],
        csv_rows=[[*row, *board_values(board)] for row in csv_rows],
        notes=(f"{head_to_head_note(found)}.", *(remark.text for remark in found.remarks)),
    )


def _effect(found: DetectableEffect | None) -> list[Value]:
    return [decimal(found.value), decimal(found.sd)] if found else [None, None]


def _effect_numbers(found: DetectableEffect | None) -> list[Value]:
    return [number(found.value), number(found.sd), found.n_pairs] if found else [None, None, None]


def suite_listings(board: Leaderboard) -> list[SuiteListing]:
    """Return the benchmarks of a leaderboard with what the published suite says about them."""
    known = {entry.name: entry for entry in load_suite()}
    return [SuiteListing(entry=known.get(one.benchmark) or _new_entry(one), column=one) for one in board.columns]


def _new_entry(column: Column) -> SuiteEntry:
    """Return an entry for a benchmark outside the suite."""
    return SuiteEntry(
        name=column.benchmark,
        title=column.title,
        category=column.category,
        subcategory=column.subcategory,
        in_paper=False,
    )


def taxonomy_titles() -> dict[str, str]:
    """Return the title of each category and subcategory."""
    categories = load_taxonomy()
    below = {part.id: part.title for category in categories for part in category.subcategories}
    return {category.id: category.title for category in categories} | below
