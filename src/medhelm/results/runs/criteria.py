"""The grades of stored runs by criterion of the rubric, or by tag of criteria with points, and how they are shown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import fsum
from typing import Any, TypeVar

import numpy as np

from medhelm.analysis.comparison.non_inferiority import Change, paired_change
from medhelm.analysis.comparison.pairs import Comparison
from medhelm.analysis.criteria import (
    CriterionDifference,
    CriterionMean,
    criteria_among,
    criterion_column,
    criterion_means,
)
from medhelm.analysis.leaderboard.cells import Cell, Column, GradedCriterion
from medhelm.analysis.leaderboard.lowest_grades import count_below_floor, has_score_with_floors, with_floors_as_worst
from medhelm.analysis.leaderboard.types import Leaderboard, Row
from medhelm.domain import JuryResult, Run
from medhelm.domain.text import group_title, listed
from medhelm.errors import UserError, suggestion
from medhelm.results.formats.fields import (
    BOOLEAN,
    INTEGER,
    NUMBER,
    Field,
    columns_of,
    estimate_json,
    fields_table,
    flat_interval,
    keys,
    list_of,
    nullable,
    record,
    rounded_rows,
)
from medhelm.results.formats.tables import Columns, Value, estimate_text, render, score_decimals
from medhelm.results.runs.lowest_grades import with_floors, without_judges_as_worst
from medhelm.storage.judgments import read_rows
from medhelm.storage.run_scores import RunScores, read_all
from medhelm.storage.runs import prompts_path, read_prompt_rows
from medhelm.storage.store import stored_folder

V = TypeVar("V")
"""A value of an instance."""

Grades = Mapping[str, tuple[float, float]]
"""Criterion -> mean grade of a completion, and points for meeting the criterion."""


def with_criteria(cell: Cell, run: Run, scored: RunScores | None) -> Cell:
    """Add the grades of each completion by criterion, by the corrected rule: what the jury's score is the mean of.

    A grade is the mean over the judges that graded every criterion. A completion with fewer of them than the jury
    needs has none. Blank completions, and failures that count as the worst answer, have the worst grade. For a rubric
    in points, the grade on a tag is the share of the points met on the criteria with this tag; where all instances
    share the criteria, that on a criterion is the share of the judges that find it met.
    """
    result = run.jury_result
    grades = _complete_grades(run) if result and scored and cell.scores is not None else {}
    if result is None or scored is None or not grades:
        return cell
    tags = _read_tags(run) if result.form == "points" else {}
    as_worst = without_judges_as_worst(cell, run, scored, grades, "corrected")
    if tags:
        values = {name: _shares(grades.get(name, {}), own) for name, own in tags.items()}
    else:
        values = {name: {key: grade for key, (grade, _) in own.items()} for name, own in grades.items()}
    found = {}
    for criterion in _criteria(result, grades, tags):
        # An instance has a tag, or lacks it, whatever its completion is.
        has = np.array([not tags or criterion.name in tags.get(name, {}) for name in scored.ids])
        own = np.array([values.get(name, {}).get(criterion.name, np.nan) for name in scored.ids])
        found[criterion] = np.where(as_worst & has, criterion.worst, own)
    return replace(cell, criteria=found)


def read_criteria(cells: Sequence[Cell], runs: Mapping[tuple[str, str], Run]) -> list[Cell]:
    """Return cells with their grades by criterion, where they have judges.

    Parameters: runs, model and benchmark -> the run behind its cell.
    """
    judged = {key: run for cell in cells if (run := runs.get(key := (cell.model, cell.benchmark))) and run.jury_result}
    keys = sorted(judged, key=lambda key: key[1])
    scored = dict(zip(keys, read_all([judged[key] for key in keys], "corrected"), strict=True))
    return [
        with_criteria(cell, *scored[key]) if (key := (cell.model, cell.benchmark)) in scored else cell for cell in cells
    ]


def board_with_criteria(board: Leaderboard, runs: Mapping[tuple[str, str], Run]) -> Leaderboard:
    """Return a leaderboard whose cells have their grades by criterion; as it is unless scoring is corrected."""
    if board.scoring != "corrected":
        return board
    cells = read_criteria([cell for row in board.all_rows for cell in row.cells.values()], runs)
    found = {(cell.model, cell.benchmark): cell for cell in cells}

    def add(row: Row) -> Row:
        return replace(row, cells={name: found[row.model, name] for name in row.cells})

    return replace(board, rows=tuple(map(add, board.rows)), baselines=tuple(map(add, board.baselines)))


def changes_by_criterion(
    runs: Sequence[Run], sides: Sequence[tuple[Cell, RunScores]], column: Column, ids: Sequence[str]
) -> Iterator[tuple[str, str, Change]]:
    """Yield id, title and change of each criterion that two runs share, and of the score with floors.

    Parameters: runs, the new one and the reference; sides, the cell of each and its scores as they were read; ids, the
    instances of both. Floors are those of the new run.
    """
    first, _ = sides[0]
    clusters = np.array(_in_order(first.ids, () if first.clusters is None else first.clusters, ids, ""))
    graded = [with_criteria(cell, run, scored) for run, (cell, scored) in zip(runs, sides, strict=True)]
    for criterion in graded[0].criteria:
        if criterion not in graded[1].criteria:
            continue
        scale = criterion_column(column, criterion)
        found = [_in_order(one.ids, scale.normalize(one.criteria[criterion]), ids, np.nan) for one in graded]
        new, old = np.array(found, dtype=float)
        # An instance without the tag is not a missing grade.
        has = ~(np.isnan(new) & np.isnan(old)) if criterion.is_tag else np.ones(len(ids), dtype=bool)
        if change := paired_change(new[has], old[has], clusters[has]):
            yield criterion.name, criterion_title(criterion), change
    floors = runs[0].jury_result.floors if runs[0].jury_result else ()
    cells = [
        with_floors(cell, run, floors, scored, "corrected") for run, (cell, scored) in zip(runs, sides, strict=True)
    ]
    scores = [with_floors_as_worst(cell, column) for cell in cells if has_score_with_floors(cell)]
    if len(scores) < 2:
        return
    found = [_in_order(one.ids, column.normalize(one.scores), ids, np.nan) for one in scores if one.scores is not None]
    new, old = np.array(found, dtype=float)
    if change := paired_change(new, old, clusters):
        (n, _), (before, _) = map(count_below_floor, cells)
        yield "with_floors", f"{column.metric_title}, with floors: {n:,} below, before {before:,}", change


def _in_order(own: Sequence[str], values: Iterable[V], ids: Sequence[str], missing: V) -> list[V]:
    """Return the values of instances, given in their own order, in the order of `ids`."""
    known = dict(zip(own, values, strict=False))
    return [known.get(one, missing) for one in ids]


def _complete_grades(run: Run) -> dict[str, dict[str, tuple[float, float]]]:
    """Return id of each judged instance -> criterion -> mean grade, and points, of the judges behind the jury's score.

    These are the judges that graded every criterion. An instance of which the jury has too few has no criteria. Grades
    are those of the judges, also where lower is better. Empty without a jury, and if the file is missing.
    """
    if run.jury_result is None or not (stored_folder(run) / "judgments.parquet").exists():
        return {}
    columns = ", ".join(f"list({name} ORDER BY file_row_number)" for name in ("criterion", "score", "points"))
    group, order = "GROUP BY instance_id, judge", "min(file_row_number)"
    rows = read_rows(run, "judgments.parquet", f"instance_id, {columns}", group, order=order)
    by_instance: dict[str, list[tuple[list[str], list[float], list[float]]]] = {}
    for instance_id, *lists in rows:
        complete = by_instance.setdefault(instance_id, [])
        if None not in lists[1]:
            complete.append((lists[0], lists[1], lists[2]))
    return {
        instance_id: _mean_by_criterion(complete) if len(complete) >= run.jury_result.jury.min_judges else {}
        for instance_id, complete in by_instance.items()
    }


def _mean_by_criterion(judges: Sequence[tuple[list[str], list[float], list[float]]]) -> dict[str, tuple[float, float]]:
    """Return criterion -> mean over judges of its grade, and its points. `judges`: criteria, grades and points."""
    found: dict[str, tuple[float, float]] = {}
    for criteria, grades, points in judges:
        for name, grade, weight in zip(criteria, grades, points, strict=True):
            found[name] = (found.get(name, (0.0, 0.0))[0] + grade / len(judges), weight or 0.0)
    return found


def _read_tags(run: Run) -> dict[str, dict[str, list[str]]]:
    """Read the tags of the instances' own criteria from stored prompts: instance id -> tag -> names of its criteria.

    Tags of harms alone, whose criteria earn no points, are left out, and so are instances without criteria of their
    own. Empty if the file is missing or older than this column; older files hold no tags.
    """
    found: dict[str, dict[str, list[str]]] = {}
    rows = read_prompt_rows(prompts_path(run), "instance_id, criteria", "WHERE criteria <> '[]'")
    for instance_id, criteria in rows or ():
        own = json.loads(criteria)
        earning = dict.fromkeys(tag for one in own if one["points"] > 0 for tag in one.get("tags", ()))
        found[instance_id] = {tag: [one["name"] for one in own if tag in one.get("tags", ())] for tag in earning}
    return found


def _criteria(
    result: JuryResult, grades: Mapping[str, Grades], tags: Mapping[str, Mapping[str, Sequence[str]]]
) -> Iterator[GradedCriterion]:
    """Yield the criteria of a run: in the order of the judgments, tags by name."""
    in_points = result.form == "points"
    if tags:
        for tag in sorted({tag for own in tags.values() for tag in own} & set(result.subscores)):
            yield GradedCriterion(name=tag, low=result.low, high=result.high, is_tag=True)
        return
    points = {name: weight for own in grades.values() for name, (_, weight) in own.items()}
    for name in dict.fromkeys(key for own in grades.values() for key in own):
        is_low_good = name in result.lower_is_better or (in_points and points[name] < 0)
        yield GradedCriterion(name=name, low=result.low, high=result.high, higher_is_better=not is_low_good)


def _shares(grades: Grades, tags: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Return tag -> share of the points met on its criteria; a tag of harms alone has none."""
    found = {}
    for tag, names in tags.items():
        own = [grades[name] for name in names if name in grades]
        total = fsum(points for _, points in own if points > 0)
        if total and len(own) == len(names):
            found[tag] = fsum(points * met for met, points in own) / total
    return found


# --- tables and JSON --------------------------------------------------------------------------------------------------

NAMES = 12
"""Most criteria named in one sentence."""

SIDE_BY_SIDE = 6
"""Most models shown as columns; more are listed in rows."""

CRITERION_SCHEMA = record(
    **keys("value low high", NUMBER),
    n=INTEGER,
    n_missing=nullable(INTEGER),
    scale=list_of(NUMBER),
    higher_is_better=BOOLEAN,
)
"""JSON Schema of a model's mean grade on a criterion."""

CRITERION_FIELDS: list[Field[CriterionMean]] = [
    Field("benchmark", lambda one: one.column.benchmark, kind="text", heading="Benchmark",
          text=lambda one: one.column.title),
    Field("criterion", lambda one: one.criterion.name, kind="text", heading="Criterion",
          text=lambda one: criterion_title(one.criterion)),
    Field("model", lambda one: one.model, kind="text", heading="Model"),
    Field("value", lambda one: one.estimate, kind="interval", heading="Mean", missing="no grade",
          text=lambda one: estimate_text(one.estimate, _places(one)),
          meaning="Mean grade on the scale of the criterion, of the judges that graded every criterion."),
    Field("n", lambda one: one.estimate.n if one.estimate else 0, kind="whole number", heading="Completions"),
    Field("n_missing", lambda one: one.n_missing, kind="whole number", heading="Missing", hide_empty=True,
          missing="a tag, which not every instance has", meaning="Instances without a grade."),
    Field("scale_low", lambda one: one.criterion.low, meaning="The lowest grade."),
    Field("scale_high", lambda one: one.criterion.high, meaning="The highest grade."),
    Field("higher_is_better", lambda one: one.criterion.higher_is_better, kind="true or false"),
]  # fmt: skip
"""A model on a criterion of a benchmark."""


def criteria_json(cell: Cell, column: Column) -> dict[str, Any]:
    """Return criterion -> mean grade of a model as JSON."""
    return {
        one.criterion.name: {
            **(estimate_json(one.estimate) or dict.fromkeys(("value", "low", "high"))),
            "n": one.estimate.n if one.estimate else 0,
            "n_missing": one.n_missing,
            "scale": [one.criterion.low, one.criterion.high],
            "higher_is_better": one.criterion.higher_is_better,
        }
        for one in criterion_means(cell, column)
    }


def criteria_to_text(board: Leaderboard, benchmark: str = "", format: str = "table") -> str:
    """Return one table of mean grades for each judged benchmark of a leaderboard; CSV is one table of all.

    Parameters: benchmark, the only one to show; empty for all.
    Raises: UserError if no such benchmark has judges.
    """
    if format == "csv":
        headings, rows = criteria_columns(board, benchmark)
        return render(rows, headings, format=format)
    columns = _judged_columns(board, benchmark)
    return "\n".join(_table_of(board, column, list(means_on(board, column)), format) for column in columns)


def criteria_columns(board: Leaderboard, benchmark: str = "") -> Columns:
    """Return the columns of CSV; parameters and errors as of `criteria_to_text`."""
    means = [one for column in _judged_columns(board, benchmark) for one in means_on(board, column)]
    rows, headings = rounded_rows(columns_of(CRITERION_FIELDS), means)
    return headings, rows


def _judged_columns(board: Leaderboard, benchmark: str) -> list[Column]:
    """Return the benchmarks with grades by criterion. Raises: UserError if there are none."""
    if board.scoring != "corrected":
        raise UserError("--by criterion needs corrected scoring: the published rule pools the grades of all criteria.")
    judged = [column for column in board.columns if any(True for _ in means_on(board, column))]
    found = [column for column in judged if benchmark in ("", column.benchmark)]
    if found:
        return found
    if benchmark:
        known = [column.benchmark for column in judged]
        raise UserError(f"--by {benchmark}:criterion: no judge graded it. {suggestion(benchmark, known)}".rstrip())
    raise UserError(
        "no benchmark here has grades by criterion. `medhelm run BENCHMARK --judge MODEL` makes judges grade it. "
        "Criteria of single instances are shown by their tags, which older stores do not hold."
    )


def means_on(board: Leaderboard, column: Column) -> Iterator[CriterionMean]:
    """Yield the means of all models on each criterion of a benchmark, by criterion."""
    cells = [row.cells[column.benchmark] for row in board.all_rows if column.benchmark in row.cells]
    means = [{one.criterion: one for one in criterion_means(cell, column)} for cell in cells]
    for criterion in criteria_among(cells):
        yield from (own[criterion] for own in means if criterion in own)


def _table_of(board: Leaderboard, column: Column, means: Sequence[CriterionMean], format: str) -> str:
    """Return the table of one benchmark: criteria by models, and last the score."""
    models = [row.model for row in board.all_rows if row.cells.get(column.benchmark)]
    caption = f"{column.title}: mean grades, with 95% intervals"
    if len(models) > SIDE_BY_SIDE:
        return fields_table(CRITERION_FIELDS[1:], means, format=format, caption=caption, keep=2)
    texts = {(one.criterion, one.model): estimate_text(one.estimate, _places(one)) for one in means}
    rows: list[list[Value]] = [
        [criterion_title(criterion), scale_text(criterion), *(texts.get((criterion, model)) for model in models)]
        for criterion in dict.fromkeys(one.criterion for one in means)
    ]
    cells = [row.cells[column.benchmark] for row in board.all_rows if row.cells.get(column.benchmark)]
    places, scale = score_decimals(column), f"{column.low:g} to {column.high:g}"
    title = column.metric_title or column.metric
    rows.append([title, scale, *(estimate_text(cell.estimate, places) for cell in cells)])
    if any(map(has_score_with_floors, cells)):
        second = [
            with_floors_as_worst(cell, column).estimate if has_score_with_floors(cell) else None for cell in cells
        ]
        rows.append([f"{title}, with floors", scale, *(estimate_text(one, places) for one in second)])
        counts = [count_below_floor(cell) for cell in cells]
        rows.append(
            ["Completions below a floor", "", *(f"{n:,} of {known:,}" if known else None for n, known in counts)]
        )
    return render(rows, ["Criterion", "Scale", *models], format=format, caption=caption, keep=2, drop=["Scale"])


def criterion_title(criterion: GradedCriterion) -> str:
    """Return the name of a criterion for people; a tag stays as it is."""
    return criterion.name if criterion.is_tag else group_title(criterion.name)


def scale_text(criterion: GradedCriterion) -> str:
    """Return the scale of a criterion, and which end is good where that is the low one."""
    return f"{criterion.low:g} to {criterion.high:g}{'' if criterion.higher_is_better else ', low is good'}"


def _places(one: CriterionMean) -> int:
    return score_decimals(criterion_column(one.column, one.criterion))


DIFFERENCE_FIELDS: list[Field[CriterionDifference]] = [
    Field("benchmark", lambda one: one.column.benchmark, kind="text", heading="Benchmark",
          text=lambda one: one.column.title),
    Field("criterion", lambda one: one.criterion.name, kind="text", heading="Criterion",
          text=lambda one: criterion_title(one.criterion)),
    Field("first", lambda one: one.means[0], heading="First", drop=5,
          meaning="Mean grade of the first model on the scale of the criterion, on the instances of both."),
    Field("second", lambda one: one.means[1], heading="Second", drop=4, meaning="That of the second model."),
    *flat_interval("difference", lambda one: one.difference, "low high n n_left_out n_clusters", heading="Difference"),
    Field("instances", lambda one: one.difference.n, in_json=False, kind="whole number", heading="Instances", drop=3),
    Field("p_value", lambda one: one.difference.p_value, kind="p-value", heading="p", is_wide=True, drop=1),
    Field("p_adjusted", lambda one: one.p_adjusted, kind="p-value", heading="p adjusted",
          meaning="Adjusted for all criteria of all benchmarks of both models."),
    Field("separated", lambda one: one.direction != 0, kind="true or false",
          meaning="True if the adjusted p-value is at most 0.05."),
]  # fmt: skip
"""Two models on a criterion; the difference is first minus second, from 0 (worst) to 1 (best)."""


def differences_in_words(found: Sequence[CriterionDifference], first: str, second: str) -> list[str]:
    """Return the criteria on which one of two models is significantly better, one sentence for each model."""
    sentences = []
    for model, direction in ((first, 1), (second, -1)):
        won = [f"{criterion_title(one.criterion)} on {one.column.title}" for one in found if one.direction == direction]
        sentences += [f"{model} is significantly better by {listed(won, NAMES)}."] if won else []
    if found and not sentences:
        sentences = [f"{first} and {second} cannot be separated on any criterion."]
    return sentences


def criteria_to_table(comparison: Comparison, adjusted: str, format: str = "table") -> str:
    """Return one row per criterion. `adjusted`: name of the adjustment of p-values.

    Raises: UserError if the two models share no criterion with grades.
    """
    if not comparison.criteria:
        raise UserError(
            f"{comparison.first} and {comparison.second} share no criterion that judges graded. `medhelm leaderboard "
            "--by criterion` shows the criteria of each benchmark."
        )
    caption = (
        f"First: {comparison.first}, second: {comparison.second}; means on the scale of each criterion; difference "
        "first minus second, on a scale from 0 (worst) to 1 (best); p adjusted for all criteria of both models "
        f"({adjusted})"
    )
    return fields_table(DIFFERENCE_FIELDS, comparison.criteria, format=format, caption=caption, keep=2)
