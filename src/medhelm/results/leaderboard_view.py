"""The fields of a leaderboard, and the leaderboard as tables, CSV and JSON.

A new column of the leaderboard is a field here, and a value in `analysis.leaderboard.types.Row`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, Literal, get_args

from medhelm.analysis.comparison.pairs import ModelPair
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.rows import HeadToHead, head_to_head
from medhelm.analysis.leaderboard.types import GroupMean, Leaderboard, Row, remark_groups, short_remarks
from medhelm.domain import CompletionCounts, Rule, Tier
from medhelm.domain.text import group_title, listed, plural
from medhelm.errors import UserError
from medhelm.results.calibration_view import (
    CLINICIANS,
    calibrated_json,
    clinician_columns,
    clinician_fields,
    clinician_json,
    pairs_as_json,
    ranks_as_json,
)
from medhelm.results.formats.fields import (
    ABSENT,
    INJECTIONS,
    INTEGER,
    LEFT_OUT,
    NUMBER,
    STRING,
    Field,
    JsonSchema,
    PageColumn,
    columns_of,
    estimate_json,
    fields_json,
    fields_schema,
    flat_interval,
    injection_effects_json,
    interval_page,
    keys,
    left_out_json,
    list_field,
    list_of,
    map_of,
    plain_json,
    record,
    rounded_rows,
    schema_of,
    select,
    table_of,
)
from medhelm.results.formats.frontier import FRONTIER_FIELDS, frontier_as_json
from medhelm.results.formats.studies import STUDY_SCHEMA, study_json
from medhelm.results.formats.tables import (
    MISSING,
    Columns,
    ObjectView,
    Value,
    as_line,
    data_text,
    decimal,
    escape_markdown,
    estimate_text,
    money,
    number,
    percent,
    percentages,
    render,
    score_decimals,
)
from medhelm.results.runs.criteria import CRITERION_SCHEMA, criteria_columns, criteria_json, criteria_to_text
from medhelm.results.runs.lowest_grades import floor_cell_field, floor_fields

PUBLISHED = "†"
"""Mark after the name of a model with published scores."""

CSV_FIRST = (
    "rank tie_group model win_rate win_rate_low win_rate_high win_rate_sd macro_average macro_average_low "
    "macro_average_high macro_average_sd n_benchmarks coverage cost_usd suite scoring tier source rank_low rank_high "
    "guarded_win_rate win_share win_share_low win_share_high usd_per_1000 seconds_per_completion "
    "mean_seconds_per_completion tokens_per_completion output_tokens_per_completion frontier_probability "
    "adjusted_average adjusted_average_low adjusted_average_high worst_answers failed"
)
"""Columns of CSV whose places scripts may know; those of other fields follow."""

PAGE_FIRST = "rank model ranking_value tie_letters win_rate adjusted_average below_floor average_with_floors"
"""First columns of the page; those of other fields follow."""

MOST_CATEGORIES = 8
"""Most categories with a column of their own on the page."""

RANKING: Mapping[str, str] = {
    "macro average": "mean of the scores on all benchmarks, each on a scale from 0 (worst) to 1 (best); estimated for "
    "benchmarks that a model lacks",
    "win rate": "share of rivals with a lower mean, averaged over benchmarks",
    "mean score": "mean score on the benchmark, on a scale from 0 (worst) to 1 (best)",
}
"""Number that ranks -> its meaning."""

_SHARE = "0 to 1"
_NOT_SHARED = "no benchmark in common with another model"
_NO_INSTANCES = "instance scores unknown"
_NO_SCORE = "no score"
_NO_GRADES = "no benchmark with grades"
_NO_PRICE = "a price is unknown"
_NO_TOKENS = "tokens are unknown"


# --- fields of models -------------------------------------------------------------------------------------------------


def model_fields(board: Leaderboard) -> list[Field[Row]]:
    """Return the fields of the models on a leaderboard."""
    return [*_places(board), *_averages(board), *_counts(board), *_own_averages(), *_shares(board), *_use(board)]


def _places(board: Leaderboard) -> list[Field[Row]]:
    """Ranks and names."""
    return [
        Field("rank", lambda row: row.rank, kind="whole number", range="1 and above", missing="a baseline",
              meaning="Rank; equal models share one.",
              heading="Rank", text=rank_text,
              page=PageColumn(
                  note="95% confidence set", explanation="rank, and the ranks that the model can have at the 95% level",
                  text=lambda row: MISSING if row.rank is None else str(row.rank),
                  small=lambda row: "" if row.rank_low in (None, row.rank_high) else f"{row.rank_low}–{row.rank_high}",
                  sort=lambda row: row.rank, best_first=False,
              )),
        Field("model", lambda row: row.model, kind="text",
              meaning="Name of the model, with the address of its server if it has one.",
              heading="Model", text=shown_name,
              page=PageColumn(text=shown_name, sort=lambda row: row.model.lower(), best_first=False)),
        Field("rank_low", lambda row: row.rank_low, kind="whole number", range="1 and above", missing="unknown",
              meaning="Best rank: below all models that are significantly better."),
        Field("rank_high", lambda row: row.rank_high, kind="whole number", range="1 and above", missing="unknown",
              meaning="Worst rank: above all models that are significantly worse."),
        Field("tie_group", lambda row: row.tie_group, kind="whole number", range="1 and above", missing="unknown",
              meaning="Group of neighbors in rank that do not differ significantly from the best of them."),
        Field("tie_letters", lambda row: row.tie_letters or None, kind="text", missing="not tested, or too many groups",
              is_present=any(row.tie_letters for row in board.rows) or not board.rows,
              meaning="Letters of ties: two models share one if and only if they were compared and do not differ "
              "significantly.",
              heading="Ties", drop=12,
              page=PageColumn(
                  title="Not separated", text=lambda row: row.tie_letters or MISSING, best_first=False,
                  sort=lambda row: row.rank if row.tie_letters else None,
                  explanation="two models that share a letter do not differ significantly",
              )),
        Field("ranking_value", lambda row: row.ranking_value, range=_SHARE, missing=_NO_SCORE,
              meaning="The number that decides the rank.",
              heading=board.ranked_by.capitalize(), text=lambda row: estimate_text(board.ranking_average(row)),
              page=interval_page(
                  board.ranking_average, note="ranks; 95% interval", mark="interval",
                  explanation=RANKING[board.ranked_by],
              )),
        Field("rank_bounds", lambda row: list(row.rank_bounds) if row.rank_bounds else None, kind="object",
              schema=list_of(INTEGER), missing="nothing is missing",
              meaning="Rank if all missing scores were the best, and the worst."),
        Field("published", lambda row: row.published, kind="true or false", column="",
              meaning="True for published scores, not measured here."),
        _same_for_all("suite", board.suite, "Selection of benchmarks."),
        _same_for_all("scoring", board.scoring, "Scoring rule: corrected or published."),
        _same_for_all("tier", board.tier, "Real data, or invented sample rows."),
        Field("source", source_of, kind="text", in_json=False,
              range="measured, published", meaning="Source of the scores."),
    ]  # fmt: skip


def _averages(board: Leaderboard) -> list[Field[Row]]:
    """Averages with intervals."""
    return [
        Field("adjusted_average", lambda row: row.adjusted_average, kind="interval", range=_SHARE,
              missing=_NO_SCORE, meaning="Macro average adjusted for the benchmarks that the model lacks.",
              heading="" if board.ranked_by in ("mean score", "macro average") else "Macro average",
              page=interval_page(
                  lambda row: row.adjusted_average, title="Macro average", note="95% interval",
                  explanation=RANKING["macro average"], mark="interval",
              ) if board.ranked_by == "win rate" else None),
        Field("worst_answers", lambda row: row.worst_answers, kind="interval", parts="value low high n",
              range=_SHARE, missing=_NO_GRADES,
              meaning="Share of the completions on benchmarks with grades whose grade is the worst one, with the "
              "failures that count as the worst answer.",
              heading="Worst answers", text=lambda row: percentages(row.worst_answers), hide_empty=True, drop=10),
        *floor_fields(board),
        *clinician_fields(board),
    ]  # fmt: skip


def _own_averages() -> list[Field[Row]]:
    """Averages over the benchmarks that a model has, and intervals for other benchmarks of the same kind."""
    return [
        Field("macro_average", lambda row: row.macro_average, kind="interval", range=_SHARE, missing=_NO_SCORE,
              meaning="Mean over the benchmarks that the model has, each on a scale of 0 to 1.",
              heading="Own average", is_wide=True, drop=6),
        Field("macro_sd", lambda row: row.macro_average and row.macro_average.sd, column="macro_average_sd",
              missing="fewer than two benchmarks", meaning="Sample SD of these scores over benchmarks.",
              heading="SD", is_wide=True, drop=2),
        Field(key="macro_bounds", kind="object", schema=list_of(NUMBER), missing="nothing is missing",
              get=lambda row: [number(value) for value in row.macro_bounds] if row.macro_bounds else None,
              meaning="Macro average if all missing scores were the worst, and the best."),
        Field("win_share_over_benchmarks", lambda row: row.win_share_over_benchmarks, kind="interval", column="",
              missing="one benchmark", meaning="Win share with an interval for other benchmarks of the same kind."),
        Field("macro_average_over_benchmarks", lambda row: row.macro_over_benchmarks, kind="interval", column="",
              missing="one benchmark", meaning="Macro average with an interval for other benchmarks of the same kind."),
    ]  # fmt: skip


def _shares(board: Leaderboard) -> list[Field[Row]]:
    """Win shares and win rates."""
    return [
        Field("win_share", lambda row: row.win_share, kind="interval", range=_SHARE, missing=_NO_INSTANCES,
              meaning="Share of the other models whose answer is beaten, question by question, mean over questions and "
              "benchmarks.",
              heading="Win share", is_wide=True, hide_empty=True, drop=4),
        Field("guarded_win_share", lambda row: row.guarded_win_share, range=_SHARE, missing=_NO_INSTANCES,
              meaning="Win share with missing benchmarks counted as losses."),
        Field("win_rate", lambda row: row.win_rate, kind="interval", range=_SHARE, missing=_NOT_SHARED,
              meaning="Share of the other models beaten, mean over benchmarks.",
              heading="" if board.ranked_by == "win rate" else "Win rate", is_wide=True, drop=5,
              page=interval_page(
                  lambda row: row.win_rate,
                  explanation="share of rivals with a lower mean, averaged over benchmarks; comparable with the paper",
              ) if board.ranked_by == "macro average" else None),
        Field("win_rate_sd", lambda row: row.win_rate and row.win_rate.sd, missing=_NOT_SHARED,
              meaning="Population SD, over the other models, of the share of benchmarks won.",
              heading="SD over rivals", is_wide=True, drop=1),
        Field("guarded_win_rate", lambda row: row.guarded_win_rate, range=_SHARE, missing=_NOT_SHARED,
              meaning="Win rate with missing benchmarks counted as losses."),
        Field("panel", lambda _: ", ".join(board.panel or ()), kind="text", in_json=False, missing="no panel",
              is_present=bool(board.panel), meaning="Models against which win shares are computed."),
    ]  # fmt: skip


def _counts(board: Leaderboard) -> list[Field[Row]]:
    """Groups of benchmarks, counts, failures and dates."""
    cells = {column.benchmark: cell_fields(column) for column in board.columns}
    return [
        *map(_category, page_categories(board)),
        Field("failed", lambda row: sum(cell.n_failed or 0 for cell in row.cells.values()), kind="whole number",
              unit="instances", range="0 and above", in_json=False,
              meaning="Instances without a completion or score, as far as they are known.",
              heading="Failed", text=_failed_text, hide_empty=True, drop=8),
        Field("n_benchmarks", lambda row: row.n_benchmarks, kind="whole number", unit="benchmarks",
              range="0 and above", meaning="Benchmarks with a score.",
              heading="Benchmarks", drop=7),
        Field("cost_usd", lambda row: row.cost_usd, unit="US dollars", missing=_NO_PRICE,
              meaning="Cost of its runs, without judges; a ceiling with judges for published models.",
              heading="Cost USD", text=lambda row: at_most(row, decimal(row.cost_usd, 2)), drop=9),
        Field("cost_is_ceiling", lambda row: row.cost_is_ceiling, kind="true or false", column="",
              meaning="True if the cost is a published ceiling: every completion as long as allowed, judges included."),
        Field(
            "completion_dates", _completion_dates, kind="object", missing="unknown",
            schema=record(earliest=STRING, latest=STRING), meaning="First and last day on which completions arrived.",
        ),
        Field(key="benchmarks", kind="object", schema=map_of(CELL_SCHEMA),
              get=lambda row: {
                  name: fields_json(fields, row.cells[name]) for name, fields in cells.items() if name in row.cells
              }),
        _means("categories", lambda row: row.categories),
        _means("subcategories", lambda row: row.subcategories),
    ]  # fmt: skip


def _use(board: Leaderboard) -> list[Field[Row]]:
    """Cost, time and tokens of a completion, without judges; coverage, and failures on pages."""
    has_bills = not all(row.published for row in board.rows)
    explained = "US dollars for 1,000 completions, without judges; a dash if a price is unknown"
    if any(row.cost_is_ceiling for row in board.rows):
        explained += "; ≤ marks a published ceiling, which includes judges"
    return [
        Field("usd_per_1000", lambda row: row.usd_per_1000, unit="US dollars", missing=_NO_PRICE,
              meaning="Cost of 1,000 completions, as `cost_usd`.",
              page=PageColumn(
                  title="Cost", note="per 1,000", text=lambda row: at_most(row, money(row.usd_per_1000)) or MISSING,
                  small=lambda row: "" if row.cost_usd is None else f"{at_most(row, money(row.cost_usd))} in total",
                  sort=lambda row: None if row.cost_is_ceiling and has_bills else row.usd_per_1000, best_first=False,
                  explanation=explained,
              )),
        Field("seconds_per_completion", _seconds, unit="seconds", range="0 and above",
              missing="times are unknown", meaning="Median time of a request, without waits, retries and batches.",
              page=PageColumn(
                  title="Seconds", note="median", text=lambda row: decimal(_seconds(row), 2) or MISSING, sort=_seconds,
                  best_first=False, explanation="median time of one completion",
              )),
        Field("mean_seconds_per_completion", lambda row: row.use and row.use.mean_seconds, unit="seconds",
              range="0 and above", missing="times are unknown", meaning="Mean time of a request."),
        Field("tokens_per_completion", lambda row: row.use and row.use.tokens, unit="tokens",
              range="0 and above", missing=_NO_TOKENS, meaning="Mean input and output tokens of a completion."),
        Field(
            "output_tokens_per_completion", lambda row: row.use and row.use.output_tokens, unit="tokens",
            range="0 and above", missing=_NO_TOKENS, meaning="Mean output tokens of a completion, reasoning included.",
        ),
        Field(key="frontier_probability", range=_SHARE, missing="not compared by cost",
              get=lambda row: board.frontier.probability(row.model) if board.frontier else None,
              meaning="Probability that no other model on the same benchmarks is at least as good by macro average and "
              "cheaper, or better and no costlier."),
        Field("coverage", lambda row: row.coverage, range=_SHARE,
              meaning="Share of the leaderboard's benchmarks with a score.",
              heading="Coverage", text=lambda row: f"{row.coverage:.0%}", is_wide=True, drop=3,
              page=PageColumn(
                  note="benchmarks", text=lambda row: percent(row.coverage),
                  small=lambda row: f"{row.n_benchmarks} of {len(board.columns)}", sort=lambda row: row.coverage,
                  explanation="share of the benchmarks on which the model has a score",
              )),
        Field("failures", _share_failed, in_json=False, column="",
              page=PageColumn(
                  title="Failures", note="of instances", text=lambda row: percent(_share_failed(row)),
                  small=_failures_small, sort=_share_failed,
                  explanation="instances without a completion or score; those that the model caused count as the worst "
                  "answer",
              )),
    ]  # fmt: skip


def _same_for_all(key: str, text: str, meaning: str) -> Field[Row]:
    """Return a column of files that says something about the leaderboard."""
    return Field(key=key, kind="text", get=lambda _: text, in_json=False, meaning=meaning)


def _category(name: str) -> Field[Row]:
    """Return the column of the page with the means of a category."""

    def mean(row: Row) -> float | None:
        return row.categories[name].value

    page: PageColumn[Row] = PageColumn(
        title=group_title(name), text=lambda row: decimal(mean(row)) or MISSING, sort=mean
    )
    return Field(key=f"category-{name}", get=mean, in_json=False, column="", page=page)


def _means(key: str, get: Callable[[Row], Mapping[str, GroupMean]]) -> Field[Row]:
    """Return the means of categories or subcategories as JSON."""
    schema = map_of(record(value=NUMBER, n_benchmarks=INTEGER))

    def means(row: Row) -> dict[str, Any]:
        return {name: select(mean, "value n_benchmarks", rounded=True) for name, mean in get(row).items()}

    return Field(key=key, kind="object", schema=schema, get=means)


# --- values of the fields of models -----------------------------------------------------------------------------------


def shown_name(row: Row) -> str:
    """Return the name of a model in tables, with a mark if its scores are published ones."""
    return f"{row.model} {PUBLISHED}" if row.published else row.model


def source_of(row: Row) -> str:
    """Return the source of a model's scores, for files."""
    return "published" if row.published else "measured"


def rank_text(row: Row) -> str | None:
    """Return a rank with the ranks that the model can have, such as `2 (1-4)`; None without one."""
    if row.rank is None:
        return None
    return str(row.rank) if row.rank_low == row.rank_high else f"{row.rank} ({row.rank_low}-{row.rank_high})"


def at_most(row: Row, cost: str | None) -> str | None:
    """Return the cost of a model in words, with a mark if it is a ceiling."""
    return f"≤ {cost}" if cost and row.cost_is_ceiling else cost


def _failed_text(row: Row) -> str | None:
    """Return how many instances failed, and how many of them count as the worst answer; None for none."""
    failed = sum(cell.n_failed or 0 for cell in row.cells.values())
    worst = sum(cell.n_failed_by_model for cell in row.cells.values())
    if not failed:
        return None
    return (
        f"{failed:,} ({worst:,} as worst)"
        if 0 < worst < failed
        else f"{failed:,} (as worst)"
        if worst
        else f"{failed:,}"
    )


def count_instances(cell: Cell) -> int:
    """Return the instances of a cell, with and without a score."""
    scored = cell.estimate.n if cell.estimate else cell.n or 0
    return scored + (cell.n_failed or 0) - cell.n_failed_by_model


def _n_failed(row: Row) -> int | None:
    """Return the failed instances of a model; None if they are unknown, as for published scores."""
    counts = [cell.n_failed for cell in row.cells.values()]
    return None if None in counts else sum(count or 0 for count in counts)


def _share_failed(row: Row) -> float | None:
    failed, n = _n_failed(row), sum(map(count_instances, row.cells.values()))
    return failed / n if n and failed is not None else None


def _failures_small(row: Row) -> str:
    failed = _n_failed(row)
    return "unknown" if failed is None else f"{failed:,} of {sum(map(count_instances, row.cells.values())):,}"


def _seconds(row: Row) -> float | None:
    return row.use.seconds if row.use else None


def _completion_dates(row: Row) -> dict[str, str] | None:
    """Return the first and last day on which a model's completions arrived; None if unknown."""
    known = [cell.dates for cell in row.cells.values() if cell.dates]
    return {"earliest": min(first for first, _ in known), "latest": max(last for _, last in known)} if known else None


def page_categories(board: Leaderboard) -> list[str]:
    """Return the categories with a column of their own on the page; none if there is only one."""
    found = list(dict.fromkeys(column.category for column in board.columns))
    return found[:MOST_CATEGORIES] if len(found) > 1 else []


def page_columns(board: Leaderboard) -> list[tuple[Field[Row], PageColumn[Row]]]:
    """Return the columns of the page, in order."""
    fields = {field.key: field for field in model_fields(board)}
    order = dict.fromkeys([*PAGE_FIRST.split(), *fields])
    return [(field, field.page) for key in order if (field := fields[key]).page and field.is_present]


# --- fields of benchmarks and of the scores on them -------------------------------------------------------------------


def column_fields(board: Leaderboard) -> list[Field[Column]]:
    """Return the fields of the benchmarks of a leaderboard."""
    return [
        Field("id", lambda column: column.benchmark, kind="text"),
        Field("title", lambda column: column.title, kind="text"),
        Field("category", lambda column: column.category, kind="text"),
        Field("subcategory", lambda column: column.subcategory, kind="text"),
        Field("metric", lambda column: column.metric, kind="text"),
        Field("judges", lambda column: list(column.judges), kind="object", schema=list_of(STRING)),
        Field("mde", lambda column: board.mde.get(column.benchmark), missing="single scores are not known",
              meaning="Minimum detectable difference of two models, on a scale of 0 to 1."),
        Field("low", lambda column: column.low, meaning="Lower end of the metric's scale."),
        Field("high", lambda column: column.high, meaning="Upper end of the metric's scale."),
        Field("higher_is_better", lambda column: column.higher_is_better, kind="true or false"),
        Field("floor", lambda column: column.constant_baseline, missing="unknown",
              meaning="Score of the most frequent reference, given for every instance."),
        Field("floor_answer", lambda column: column.constant_answer, kind="text",
              meaning="That reference; empty if unknown."),
        Field("weight", lambda column: column.weight, meaning="Weight in averages."),
    ]  # fmt: skip


def cell_fields(column: Column) -> list[Field[Cell]]:
    """Return the fields of the scores on a benchmark, in the unit of its metric."""

    def bound(place: int) -> dict[str, Any]:
        def get(cell: Cell) -> Any:
            found = cell.bounds(column)
            return found[place] if found else ABSENT

        return {"get": get, "is_optional": True, "missing": "undefined"}

    return [
        Field("value", lambda cell: cell.value, missing=_NO_SCORE),
        Field("low", lambda cell: cell.estimate and cell.estimate.low, missing="no interval"),
        Field("high", lambda cell: cell.estimate and cell.estimate.high, missing="no interval"),
        Field("n", lambda cell: cell.estimate.n if cell.estimate else cell.n, kind="whole number",
              missing="unknown", meaning="Instances behind the value."),
        Field("n_failed", lambda cell: cell.n_failed, kind="whole number", missing="unknown"),
        Field("metric", lambda _: column.metric, kind="text"),
        Field("method", lambda cell: cell.estimate.method if cell.estimate else None, kind="text",
              missing="no interval", meaning="Method of the interval."),
        Field("cost_usd", lambda cell: cell.cost_usd, missing=_NO_PRICE),
        Field("n_failed_by_model", lambda cell: cell.n_failed_by_model or ABSENT, kind="whole number",
              is_optional=True, meaning="Failures that count as the worst answer."),
        Field(key="completers", kind="object", schema=record(**keys("value low high", NUMBER), n=INTEGER),
              get=lambda cell: estimate_json(cell.completers, "value low high n") if cell.n_failed_by_model else ABSENT,
              is_optional=True, missing="all failed", meaning="The same without these failures."),
        Field(key="completion_counts", kind="object", schema=schema_of(CompletionCounts), is_optional=True,
              get=lambda cell: plain_json(cell.completion_counts) if cell.completion_counts else ABSENT,
              meaning="Completions without a readable answer."),
        floor_cell_field(column),
        Field(key="criteria", kind="object", schema=map_of(CRITERION_SCHEMA), is_optional=True,
              get=lambda cell: criteria_json(cell, column) if cell.criteria else ABSENT,
              meaning="Criterion, or tag of criteria with points -> mean grade on its own scale."),
        Field(key="worst_case", **bound(0), meaning="The value if all missing scores were the worst."),
        Field(key="best_case", **bound(1), meaning="The value if all missing scores were the best."),
        Field(key="calibrated", kind="object", schema={"type": "object"}, is_optional=True,
              get=lambda cell: calibrated_json(cell.calibrated) if cell.calibrated else ABSENT,
              meaning="Estimated mean rating by clinicians."),
        Field("clinicians", kind="object", schema=CLINICIANS, is_optional=True,
              get=lambda cell: clinician_json(cell.clinicians) if cell.clinicians else ABSENT,
              meaning="Mean rating by clinicians of the completions that they rated, on their instrument's scale."),
    ]  # fmt: skip


EMPTY = Leaderboard(rows=(), columns=(), mde={}, interval_method="nothing", ranked_by="macro average", pairs=None)
"""A leaderboard without models, for the schema and the data dictionary."""

ANY_COLUMN = Column(benchmark="", title="", category="", subcategory="", metric="")
"""A benchmark, for the schema of its scores."""

CELL_SCHEMA: JsonSchema = fields_schema(cell_fields(ANY_COLUMN))
"""JSON Schema of a score."""

# --- fields of the leaderboard ----------------------------------------------------------------------------------------

MOST_PAIRS = 5_000
"""Most pairs in JSON: those of 100 models. `medhelm compare --format csv` lists any number."""

TEXTS = list_of(STRING)
PAIRS = list_of({**TEXTS, "minItems": 2, "maxItems": 2})
"""Schema of pairs of models."""


def board_fields(board: Leaderboard, against: HeadToHead) -> list[Field[Leaderboard]]:
    """Return the fields of a leaderboard. `against`: its models head to head."""
    models = model_fields(board)
    return [
        Field("verdict", lambda board: board.verdict, kind="texts"),
        Field("models", kind="object", schema=list_of(fields_schema(models)), get=lambda board: [
            fields_json(models, row) | ranks_as_json(board, row.model) for row in board.all_rows]),
        list_field("benchmarks", column_fields(board), lambda board: board.columns),
        Field("suite", lambda board: board.suite, kind="text"),
        Field("suite_description", lambda board: board.suite_description, kind="text"),
        Field("scoring", lambda board: board.scoring, kind="text", schema=schema_of(Rule)),
        Field("tier", lambda board: board.tier, kind="text", schema=schema_of(Tier)),
        Field("interval_method", lambda board: board.interval_method, kind="text"),
        Field("ranked_by", lambda board: board.ranked_by, kind="text"),
        Field("panel", lambda board: board.panel, kind="texts", missing="no panel"),
        list_field("head_to_head", head_to_head_fields(against), lambda _: shared_pairs(against)),
        Field("intransitive", lambda _: list(map(list, against.circles)), kind="object", schema=list_of(TEXTS)),
        list_field("pairs", _pair_fields(board), _tested_pairs),
        Field("calibrated_pairs", pairs_as_json, kind="object", schema=list_of({"type": "object"}), is_optional=True),
        Field("studies", lambda board: [study_json(card) for card in board.studies], kind="object",
              schema=list_of(STUDY_SCHEMA), is_optional=True, is_present=bool(board.studies),
              meaning="Studies whose ratings by clinicians are shown."),
        Field("frontier", lambda board: frontier_as_json(board.frontier), kind="object",
              schema=fields_schema(FRONTIER_FIELDS), missing="not compared by cost"),
        Field("told_apart", lambda board: sorted(map(list, board.nominally_different)), kind="object", schema=PAIRS),
        Field("told_apart_adjusted", lambda board: sorted(map(list, board.separated)), kind="object", schema=PAIRS),
        Field("left_out", lambda board: left_out_json(board.left_out), kind="object", schema=LEFT_OUT),
        Field("prompt_injection", lambda board: injection_effects_json(board.injection_effects), kind="object",
              schema=INJECTIONS),
        Field("warnings", lambda board: [remark.text for remark in board.remarks], kind="texts"),
        Field("remark_groups", lambda board: plain_json(remark_groups(board)), kind="object",
              schema=record(**keys("reading method", TEXTS), models=map_of(TEXTS)),
              meaning="The texts of `warnings`: those that change how to read the leaderboard, those about one model "
              "each, and those on the method."),
    ]  # fmt: skip


def _pair_fields(board: Leaderboard) -> list[Field[ModelPair]]:
    """Return the fields of the overall test of two models."""
    apart = set(map(frozenset, board.separated))
    return [
        Field("a", lambda pair: pair.first, kind="text"),
        Field("b", lambda pair: pair.second, kind="text"),
        Field("benchmark", lambda _: None, kind="text", missing="over all benchmarks"),
        *flat_interval("difference", lambda pair: pair.win_share and pair.win_share.difference),
        Field("p", lambda pair: pair.win_share and pair.win_share.difference.p_value, kind="p-value"),
        Field("p_adjusted", lambda pair: pair.win_share and pair.win_share.p_holm, kind="p-value"),
        Field("separated", lambda pair: frozenset((pair.first, pair.second)) in apart, kind="true or false"),
        Field("macro_average", lambda pair: estimate_json(
            pair.macro_average and pair.macro_average.difference, "value low high p=p_value"),
              kind="object", schema=record(**keys("value low high p", NUMBER)), missing="unknown"),
        Field("worst_case", lambda pair: pair.worst_case),
        Field("best_case", lambda pair: pair.best_case),
        Field("survives_failures", lambda pair: pair.survives_failures, kind="true or false"),
    ]  # fmt: skip


def _tested_pairs(board: Leaderboard) -> list[ModelPair]:
    """Return the pairs with an overall test, the higher-ranked first; empty for more than `MOST_PAIRS`."""
    if board.pairs is None or len(board.pairs.by_instance) > MOST_PAIRS:
        return []
    return [pair for pair in board.pairs.pairs if pair.win_share]


def _outcome_field(found: HeadToHead, place: int, name: str) -> Field[tuple[int, int]]:
    """Return the share of instances on which the first of two models is better, equal or worse."""
    return Field(
        name, lambda pair: (found.outcomes(*pair) or (None,) * 3)[place], in_json=False, range=_SHARE,
        missing="a benchmark whose number is a ratio",
        meaning=f"Share on which the first model is {name}; half of the equal ones count in the win share.",
    )  # fmt: skip


def head_to_head_fields(found: HeadToHead) -> list[Field[tuple[int, int]]]:
    """Return the fields of two models by their places."""
    return [
        Field("a", lambda pair: found.models[pair[0]], kind="text"),
        Field("b", lambda pair: found.models[pair[1]], kind="text"),
        Field("win_share", lambda pair: float(found.win_share[pair])),
        Field("unit", lambda _: found.unit, kind="text"),
        Field("n_benchmarks", lambda pair: int(found.n_benchmarks[pair]), kind="whole number"),
        Field("separated", lambda pair: bool(found.separated[pair]), kind="true or false"),
        *(_outcome_field(found, place, name) for place, name in enumerate(("better", "equal", "worse"))),
    ]  # fmt: skip


def shared_pairs(found: HeadToHead) -> list[tuple[int, int]]:
    """Return the places of every pair that shares a benchmark, the higher-ranked model first."""
    return [pair for pair in combinations(range(len(found.models)), 2) if found.n_benchmarks[pair]]


# --- JSON and tables --------------------------------------------------------------------------------------------------

By = Literal["overall", "category", "subcategory", "benchmark", "head-to-head", "criterion"]
"""Meaning of the rows or columns of the table."""

CRITERION = "criterion"
"""The value for grades by criterion; `BENCHMARK:criterion` for those of one benchmark."""

MOST_SHOWN = 15
"""Most models in the matrix; CSV and JSON list every pair."""

SEPARATED = "*"
"""Mark of a pair that differs significantly."""

SIDE_BY_SIDE = 6
"""Most models shown as columns; more are listed in rows."""

PANEL_NAMES = 5
"""Most names of a panel in the caption."""

CONSTANT = "constant baseline"
"""Heading of the score of the most frequent reference, given for every instance."""


MOST_HEAD_TO_HEAD = 30
"""Most models whose head-to-head shares are in JSON unless they are asked for."""


def as_json(board: Leaderboard, *, by: str = "overall") -> dict[str, Any]:
    """Return the output of `medhelm leaderboard --format json`; undefined numbers are None.

    Parameters: by, `head-to-head` lists the pairs of any number of models, not only up to `MOST_HEAD_TO_HEAD`.
    """
    is_listed = by == "head-to-head" or len(board.rows) <= MOST_HEAD_TO_HEAD
    return fields_json(board_fields(board, head_to_head(board if is_listed else EMPTY)), board)


SOME_MISSING = 0.02
"""Share of missing scores from which a score is shown with its bounds."""


def to_table(board: Leaderboard, by: str = "overall", format: str = "table", *, wide: bool = False) -> str:
    """The leaderboard as a table.

    Parameters: by, overall (one row per model), category or subcategory (models by groups), benchmark (benchmarks by
    models, or one row per pair if there are many models), head-to-head (models by models), criterion or
    `BENCHMARK:criterion` (criteria of judged benchmarks by models, read with `options.criteria`); format, see
    `tables.render`; wide, True for all averages and their spread. CSV holds the same numbers in columns of their own,
    with six decimals.
    Raises: UserError for another `by` or format.
    """
    benchmark, _, kind = by.rpartition(":")
    if kind == CRITERION:
        return criteria_to_text(board, benchmark, format)
    check_by(by)
    if by == "head-to-head":
        return _head_to_head_table(board, format)
    if format == "csv":
        rows, headers = _csv_overall(board) if by == "overall" else _csv_long(board, by)
        return render(rows, headers, format=format)
    drop = ["Failed", "Instances", CONSTANT, "Metric"]
    if by == "overall":
        rows, headers, drop = table_of(model_fields(board), board.all_rows, wide=wide)
    elif by == "benchmark":
        rows, headers = (
            _wide_benchmark_table(board) if len(board.all_rows) <= SIDE_BY_SIDE else _long_benchmark_table(board)
        )
    else:
        rows, headers = _group_table(board, by)
    has_bounds = by == "benchmark" and any(_has_bounds(one) for row in board.all_rows for one in row.cells.values())
    text = caption(board) + (f". {BOUNDS}" if has_bounds else "")
    return render(rows, headers, format=format, caption=text, keep=3 if by == "overall" else 2, drop=drop)


BOUNDS = "In parentheses: the score if all missing scores were the worst, and the best"
"""Explains the bounds after a score with missing instances."""


def check_by(by: str) -> None:
    """Raise UserError for an unknown meaning of the rows."""
    if by not in get_args(By):
        raise UserError(f"Cannot show the leaderboard by `{by}`. Known: {', '.join(get_args(By))}.")


Table = tuple[list[list[Value]], list[str]]
"""Rows and headings."""


def _head_to_head_table(board: Leaderboard, format: str) -> str:
    """The models against each other; CSV has one row per pair."""
    found = head_to_head(board)
    if format == "csv":
        rows, headers = head_to_head_list(found)
        return render([[*row, *board_values(board)] for row in rows], [*headers, *BOARD_COLUMNS], format=format)
    headers, rows = head_to_head_matrix(found, [shown_name(row) for row in board.rows])
    text = render(rows, headers, format=format, caption=f"{caption(board)}. {head_to_head_note(found)}.", keep=2)
    shown = escape_markdown if format == "md" else as_line
    remarks = "".join(f"- {shown(str(remark))}\n" for remark in found.remarks) if format in ("table", "md") else ""
    return f"{text}\n{remarks}" if remarks else text


def caption(board: Leaderboard) -> str:
    """Return one line on models, benchmarks and scoring, with a warning about invented data."""
    models, benchmarks = plural(len(board.rows), "model"), plural(len(board.columns), "benchmark")
    marked = f"; {PUBLISHED} published, not measured here" if any(row.published for row in board.rows) else ""
    panel = f"; against the panel: {listed(board.panel, PANEL_NAMES)}" if board.panel else ""
    scoring = f"{board.scoring} scoring, {data_text(board.tier)}"
    return f"{models}, {benchmarks} (suite: {board.suite}), {scoring}{marked}{panel}"


def has_weights(board: Leaderboard) -> bool:
    """Return whether benchmarks have different weights."""
    return len({column.weight for column in board.columns}) > 1


def _group_table(board: Leaderboard, by: str) -> Table:
    """Models by categories or subcategories: means of normalized scores."""
    names = _group_names(board, by)
    rows: list[list[Value]] = [
        [row.rank, shown_name(row), *(decimal(_group_means(row, by)[name].value) for name in names)]
        for row in board.all_rows
    ]
    return rows, ["Rank", "Model", *map(group_title, names)]


def _group_names(board: Leaderboard, by: str) -> list[str]:
    """Return the groups of the leaderboard, in the order of its benchmarks."""
    return list(dict.fromkeys(c.category if by == "category" else c.subcategory for c in board.columns))


def _group_means(row: Row, by: str) -> Mapping[str, GroupMean]:
    """Return the category or subcategory means of a model."""
    return row.categories if by == "category" else row.subcategories


def _score_text(cell: Cell | None, column: Column) -> str | None:
    """Return a cell of a benchmark table, in the unit of the metric."""
    if cell is None:
        return None
    places = score_decimals(column)
    text = estimate_text(cell.estimate, places) if cell.estimate else decimal(cell.value, places)
    if text is None or not _has_bounds(cell) or (bounds := cell.bounds(column)) is None:
        return text
    return f"{text} ({decimal(bounds[0], places)} to {decimal(bounds[1], places)})"


def _has_bounds(cell: Cell) -> bool:
    """Return whether so many scores are missing that the score is shown with its bounds."""
    return cell.share_missing > SOME_MISSING


def _wide_benchmark_table(board: Leaderboard) -> Table:
    """One row per benchmark, one column per model."""
    weighted = has_weights(board)
    with_constant = any(column.constant_baseline is not None for column in board.columns)
    rows: list[list[Value]] = [
        [
            column.title,
            column.metric_title or column.metric,
            *([f"{column.weight:g}"] if weighted else []),
            *(_score_text(row.cells.get(column.benchmark), column) for row in board.all_rows),
            *([decimal(column.constant_baseline, score_decimals(column))] if with_constant else []),
        ]
        for column in board.columns
    ]
    headers = ["Benchmark", "Metric", *(["Weight"] if weighted else []), *map(shown_name, board.all_rows)]
    return rows, [*headers, *([CONSTANT] if with_constant else [])]


def _long_benchmark_table(board: Leaderboard) -> Table:
    """One row per benchmark and model; the name of a benchmark is shown once."""
    headers = ["Benchmark", "Metric", "Model", "Score", "Instances", "Failed"]
    rows: list[list[Value]] = []
    for column in board.columns:
        for index, row in enumerate(board.all_rows):
            cell = row.cells.get(column.benchmark)
            names = [column.title, column.metric_title or column.metric] if index == 0 else ["", ""]
            count = cell.estimate.n if cell and cell.estimate else cell.n if cell else None
            rows.append([*names, shown_name(row), _score_text(cell, column), count, cell.n_failed if cell else None])
        if column.constant_baseline is not None:
            rows.append(["", "", CONSTANT, decimal(column.constant_baseline, score_decimals(column)), None, None])
    return rows, headers


BOARD_COLUMNS = ["suite", "scoring", "tier"]
"""Columns of CSV that `board_values` fills."""


def board_values(board: Leaderboard) -> list[Value]:
    """Return what every row of a CSV file says about its leaderboard."""
    return [board.suite, board.scoring, board.tier]


def _csv_overall(board: Leaderboard) -> Table:
    """One row per model, every number in a column of its own."""
    return rounded_rows(columns_of(model_fields(board), CSV_FIRST), board.all_rows)


def _csv_long(board: Leaderboard, by: str) -> Table:
    """One row per benchmark, or group, and model."""
    end: list[Value] = [board.scoring, board.tier]
    rows: list[list[Value]] = []
    if by != "benchmark":
        headers = [by, "model", "value", "n_benchmarks", "scoring", "tier", "source"]
        for name in _group_names(board, by):
            for row in board.all_rows:
                mean = _group_means(row, by)[name]
                rows.append([name, row.model, number(mean.value), mean.n_benchmarks, *end, source_of(row)])
        return rows, headers
    headers = ["benchmark", "metric", "model", "value", "low", "high", "n", "n_failed", "scoring", "tier", "source"]
    rated = clinician_columns() if board.has_clinicians else []
    headers += ["weight", *(one.key for one in rated)]
    for column in board.columns:
        for row in board.all_rows:
            cell = row.cells.get(column.benchmark)
            found = fields_json(cell_fields(column), cell) if cell else {}
            numbers = [found.get(key) for key in ("value", "low", "high", "n", "n_failed")]
            weight = number(column.weight)
            own = [one.get(cell) if cell else None for one in rated]
            rows.append([column.benchmark, column.metric, row.model, *numbers, *end, source_of(row), weight, *own])
    return rows, headers


# --- head to head -----------------------------------------------------------------------------------------------------


def head_to_head_list(found: HeadToHead) -> Table:
    """Return one row per pair, and the names of the columns."""
    return rounded_rows(head_to_head_fields(found), shared_pairs(found))


def head_to_head_matrix(found: HeadToHead, names: Sequence[str]) -> tuple[list[str], list[list[Value]]]:
    """Return headings and rows of the matrix of the first models: each row against the numbered columns.

    Parameters: names, of the models as tables show them.
    """
    shown = range(min(len(found.models), MOST_SHOWN))
    rows: list[list[Value]] = []
    for i in shown:
        mark = [SEPARATED if found.separated[i, j] else "" for j in shown]
        cells = [number(float(found.win_share[i, j])) for j in shown]
        texts = [None if cell is None else f"{decimal(cell, 2)}{m}" for cell, m in zip(cells, mark, strict=True)]
        rows.append([i + 1, names[i], *texts])
    return ["No.", "Model", *(str(j + 1) for j in shown)], rows


def head_to_head_note(found: HeadToHead) -> str:
    """Return what the matrix shows, in one sentence."""
    text = f"Share of {found.unit} on which the row's model beats the column's, a tie counting one half; "
    text += f"{SEPARATED} significantly different on the leaderboard"
    if len(found.models) > MOST_SHOWN:
        text += f"; the first {MOST_SHOWN} of {len(found.models)} models, CSV lists all pairs"
    return text


# --- Python and notebooks ---------------------------------------------------------------------------------------------


def _frame_columns(board: Leaderboard, by: str) -> Columns:
    """Return the columns of `--format csv`. Raises: UserError for another `by`."""
    by = by or "overall"
    benchmark, _, kind = by.rpartition(":")
    if kind == CRITERION:
        return criteria_columns(board, benchmark)
    check_by(by)
    if by == "head-to-head":
        rows, headers = head_to_head_list(head_to_head(board))
    else:
        rows, headers = _csv_overall(board) if by == "overall" else _csv_long(board, by)
    return headers, rows


VIEW: ObjectView[Leaderboard] = ObjectView(
    summary=lambda board: f"{caption(board)}. {' '.join(board.verdict)}".strip(),
    table=lambda board, format: to_table(board, format=format),
    as_json=as_json,
    columns=_frame_columns,
    verdict=lambda board: board.verdict,
    remarks=lambda board: short_remarks(board, "The field `remarks` has all of them."),
)
"""The leaderboard in Python."""
