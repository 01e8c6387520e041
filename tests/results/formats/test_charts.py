"""Properties of every chart on any data: well-formed, inside its frame, no nan, every model named and escaped."""

from __future__ import annotations

import math
import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.analysis.comparison.pairs import compare_two_models
from medhelm.analysis.leaderboard.cells import Column
from medhelm.extensions.web.benchmark_charts import (
    FailureCount,
    ModelScores,
    benchmark_scores_chart,
    distribution_chart,
    failures_chart,
    subgroups_table,
)
from medhelm.extensions.web.board_charts import differences_chart
from medhelm.results.formats.charts import (
    IntervalPlot,
    IntervalRow,
    PricedPoint,
    cost_chart,
    cost_points,
    draw_intervals,
)
from medhelm.results.formats.drawing import NARROW, WIDE, Chart, cell_text, text_width
from medhelm.results.formats.tables import as_line
from tests.support.leaderboards import HOSTILE, score_cell, toy_board
from tests.support.values import present

GOLDEN = Path(__file__).parent / "golden"

COLUMN = Column(benchmark="b", title="Bench <b>", category="c", subcategory="s", metric="em", metric_title="EM")

JURY_COLUMN = replace(COLUMN, low=1, high=5, metric_title="Jury")

NAMES = st.text(max_size=20) | st.sampled_from(HOSTILE)
NUMBERS = st.floats(-0.5, 1.5) | st.none() | st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 1.0])
SCORES = st.lists(st.sampled_from([0.0, 1.0, math.nan]) | st.floats(1, 5) | st.just(math.inf), max_size=9)
COSTS = st.floats(1e-9, 1e9) | st.sampled_from([None, 0.0, math.nan])
FEW = settings(max_examples=10, deadline=None)

SVG = "{http://www.w3.org/2000/svg}"
POSITIONS = {"x": 0, "x1": 0, "x2": 0, "cx": 0, "y": 1, "y1": 1, "y2": 1, "cy": 1}
"""Attribute -> axis."""


def positions(node: ET.Element) -> Iterator[tuple[int, float]]:
    """Yield axis and value of every coordinate of an element, also of paths and polygons."""
    for name, axis in POSITIONS.items():
        if (text := node.get(name)) is not None:
            yield axis, float(text)
    if node.tag == f"{SVG}rect":
        yield 0, float(node.get("x", 0)) + float(node.get("width", 0))
        yield 1, float(node.get("y", 0)) + float(node.get("height", 0))
    for corner in node.get("points", "").split():
        yield from enumerate(map(float, corner.split(",")))
    for command, numbers in re.findall(r"([MHVL])([-\d. ]+)", node.get("d", "")):
        values = [float(number) for number in numbers.split()]
        yield from zip({"H": (0,), "V": (1,)}.get(command, (0, 1)), values, strict=True)


def check_picture(svg: str, width: int) -> ET.Element:
    """Parse a picture and check what holds for all of them."""
    root = ET.fromstring(svg)
    assert root.get("role") == "img"
    assert [child.tag for child in root[:2]] == [f"{SVG}title", f"{SVG}desc"]
    assert all(child.text for child in root[:2])
    _, _, right, bottom = map(float, root.get("viewBox", "").split())
    assert right == width
    for node in root.iter():
        assert not {name for name in node.attrib if name == "style" or name.startswith("on")}
        assert node.get("tabindex") is None
        assert node.tag.removeprefix(SVG) in ALLOWED_TAGS
        for axis, value in positions(node):
            assert -0.01 <= value <= (right, bottom)[axis] + 0.01, (node.tag, node.attrib)
        assert not any(
            re.search(r"\b(nan|inf|None)\b", value) for name, value in node.attrib.items() if name != "class"
        )
    return root


ALLOWED_TAGS = {"svg", "title", "desc", "g", "rect", "line", "circle", "polygon", "path", "text"}


def check_chart(chart: Chart, names: list[str]) -> None:
    """Check both pictures and the table of a chart that names these models."""
    for svg, width in ((chart.svg, WIDE), (chart.narrow, NARROW)):
        texts = [text for node in check_picture(svg, width).iter() for text in (node.text, node.tail) if text]
        for name in names:
            assert readable(name) in [readable(text) for text in texts], name
    assert all(len(row) == len(chart.headers) for row in chart.rows)
    assert len(chart.csv.splitlines()) > len(chart.rows)
    numbers = (cell_text(value) for row in chart.rows for value in row if not isinstance(value, str))
    assert all("nan" not in number for number in numbers)


def readable(name: str) -> str:
    """Return a name as XML parsers return it, on one line."""
    return re.sub("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", as_line(name))


@FEW
@given(st.lists(st.tuples(NAMES, NUMBERS, NUMBERS, NUMBERS, st.booleans(), st.booleans()), max_size=12), st.booleans())
def test_intervals(
    rows: list[tuple[str, float | None, float | None, float | None, bool, bool]], has_scale: bool
) -> None:
    made = [
        IntervalRow(name=name, value=value, low=low, high=high, is_strong=strong, is_filled=filled, group=name[:1])
        for name, value, low, high, strong, filled in rows
    ]
    low, high = (0.0, 1.0) if has_scale else (None, None)
    plot = IntervalPlot(rows=made, axis="Score", low=low, high=high, references=[(0.4, "constant"), (0.41, "other")])
    chart = Chart(
        name="n", title="t", description="d", draw=partial(draw_intervals, plot), headers=(), rows=(),
        has_data=bool(made),
    )  # fmt: skip
    check_picture(chart.svg, WIDE)
    check_picture(chart.narrow, NARROW)


@FEW
@given(st.lists(st.tuples(NAMES, st.floats(0, 1), COSTS, st.booleans(), st.floats(0, 1) | st.none()), max_size=60))
def test_cost(models: list[tuple[str, float, float | None, bool, float | None]]) -> None:
    points = [
        PricedPoint(model=name, value=value, low=value - 0.1, high=value + 0.1, usd=cost, is_efficient=best,
                    probability=probability)
        for name, value, cost, best, probability in models
    ]  # fmt: skip
    check_chart(cost_chart(points), [point.model for point in points if readable(point.model)])


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 100)), min_size=2, max_size=24), st.sampled_from([WIDE, NARROW])
)
@FEW
def test_no_name_of_a_model_covers_another_name_or_point(models: list[tuple[float, float]], width: int) -> None:
    points = [
        PricedPoint(model=f"lab/model-{place}", value=value, usd=usd, is_efficient=place == 1)
        for place, (value, usd) in enumerate(models)
    ]
    root = ET.fromstring(cost_chart(points)._picture(width))
    boxes = []
    for node in root.iter(f"{SVG}text"):
        if str(node.text).startswith("lab/model-") and node.get("font-size") == "11":
            x, y, room = float(node.attrib["x"]), float(node.attrib["y"]), text_width(str(node.text), 11)
            left = x - room if node.get("text-anchor") == "end" else x
            boxes.append((left, y - 10, left + room, y + 2))
    for place, (left, top, right, bottom) in enumerate(boxes):
        for a, b, c, d in boxes[:place]:
            assert left >= c - 0.1 or right <= a + 0.1 or top >= d - 0.1 or bottom <= b + 0.1
    shown = {str(node.text) for node in root.iter(f"{SVG}text")}
    assert {one.model for one in points} <= shown, "in the plot or in the key"


@FEW
@given(
    st.lists(st.tuples(NAMES, SCORES, st.integers(0, 9), st.integers(0, 9)), max_size=9),
    st.sampled_from([COLUMN, JURY_COLUMN]),
)
def test_distributions(models: list[tuple[str, list[float], int, int]], column: Column) -> None:
    """Bars of right and wrong answers, and histograms of grades."""
    made = [
        ModelScores(model=name, scores=scores, mean=mean_of(scores, worst, column), n_worst=worst, n_failed=failed)
        for name, scores, worst, failed in models
    ]
    chart = distribution_chart(column, made)
    check_chart(chart, [one.model for one in made if readable(one.model)] if chart.has_data else [])


def mean_of(scores: list[float], worst: int, column: Column) -> float | None:
    """Return the score of a model, within the scale of the metric; None without a score."""
    known = [score for score in scores if math.isfinite(score)] + [column.low] * worst
    return min(max(float(np.mean(known)), column.low), column.high) if known else None


@FEW
@given(st.lists(st.tuples(NAMES, NAMES, st.integers(1, 10**6)), max_size=80))
def test_failures(counts: list[tuple[str, str, int]]) -> None:
    made = [FailureCount(model=model, reason=reason, n=n, n_instances=n + 3) for model, reason, n in counts]
    check_chart(failures_chart(made, without=["quiet <model>"]), [])


@pytest.mark.parametrize("n_models", [1, 7, 50])
def test_charts_of_a_leaderboard_of_hostile_names(n_models: int) -> None:
    """One model is missing on a benchmark, one has no known cost, one none."""
    costs = [None if i == 2 else 0.0 if i == 1 else 0.01 * 3**i for i in range(n_models)]
    missing = [(0, 1)] if n_models > 1 else []
    board = toy_board(n_models, 3, names=HOSTILE[:n_models], costs=costs, missing=missing)
    check_chart(cost_chart(cost_points(board)), [row.model for row in board.rows])
    for column in board.columns:
        models = [row.model for row in board.all_rows if column.benchmark in row.cells]
        check_chart(benchmark_scores_chart(board, column), models)


def test_a_difference_that_depends_on_missing_scores_is_not_called_significant() -> None:
    first, second = np.repeat([1.0, 0.0, np.nan], [50, 10, 40]), np.repeat([1.0, 0.0, 1.0], [35, 25, 40])
    cells = [score_cell("a", "b", first), score_cell("b", "b", second)]
    comparison = present(compare_two_models(cells, [COLUMN], "a", "b"))
    assert comparison.win_share.p_holm <= 0.05
    chart = differences_chart(comparison)
    check_chart(chart, ["Macro average", "Win share", COLUMN.title])
    assert "a may be better than b, but not if the missing answers" in chart.description


def test_a_chart_without_data_says_so() -> None:
    assert not subgroups_table(COLUMN, [], {}).has_data
    for chart in (cost_chart([]), failures_chart([]), distribution_chart(COLUMN, [])):
        assert (chart.has_data, chart.rows) == (False, [])
        check_chart(chart, [chart.description])


def test_a_model_of_unknown_cost_is_in_the_key_and_never_on_the_axis() -> None:
    chart = cost_chart([PricedPoint(model="cheap", value=0.5, usd=1.0), PricedPoint(model="secret", value=0.9)])
    symbols = [node for node in ET.fromstring(chart.svg).iter(f"{SVG}g") if node.find(f"{SVG}title") is not None]
    assert {node[0].text: node[1].tag.removeprefix(SVG) for node in symbols} == {"cheap": "rect", "secret": "rect"}
    dashed = [node[0].text for node in symbols if node[1].get("stroke-dasharray")]
    assert dashed == ["secret"], "it is in the key, not on the plot"
    assert chart.rows[1][2] is None
    assert "The cost of 1 model is unknown." in chart.description


def test_a_picture_of_the_best_models_has_the_whole_frontier_and_says_so() -> None:
    points = [
        PricedPoint(model=f"m{n}", value=n / 10, usd=float(n if n < 2 else 10 - n), is_efficient=n in (1, 9))
        for n in range(10)
    ]
    chart = cost_chart(points, most=2)
    assert sorted(str(row[1]) for row in chart.rows) == ["m1", "m8", "m9"]
    assert chart.description.startswith("On the efficient frontier, cheapest first: m9 and m1.")
    assert "Shown: the best 2 of 10 models by their average, and all on the frontier." in chart.notes
    assert not any("Shown" in note for note in cost_chart(points, most=10).notes)


def test_models_that_cost_nothing_need_no_axis_of_costs() -> None:
    points = [PricedPoint(model=name, value=value, usd=0.0) for name, value in (("free", 0.5), ("too", 0.7))]
    check_chart(cost_chart(points), ["free", "too"])


def test_long_names_are_shortened_with_the_whole_name_as_tooltip() -> None:
    chart = cost_chart([PricedPoint(model="lab/" + "x" * 200, value=0.5, usd=1.0)])
    texts = [node for node in ET.fromstring(chart.svg).iter(f"{SVG}text") if node.find(f"{SVG}title") is not None]
    assert [(node[0].text, "…" in (node[0].tail or "")) for node in texts] == [("lab/" + "x" * 200, True)]


@pytest.mark.parametrize("name", ["cost", "scores"])
def test_pictures_of_a_small_leaderboard(name: str) -> None:
    """The recorded SVG opens in a browser; look at it before recording it again with MEDHELM_UPDATE_GOLDEN=1."""
    board = toy_board(3, 2, names=["lab/small", "lab/middle <1>", "lab/large"], costs=[0.1, 0.5, None])
    charts = {"cost": cost_chart(cost_points(board)), "scores": benchmark_scores_chart(board, board.columns[0])}
    path, text = GOLDEN / f"{name}.svg", str(charts[name].svg).replace("><", ">\n<") + "\n"
    if os.environ.get("MEDHELM_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_differences_have_signs() -> None:
    plot = IntervalPlot(rows=(), axis="", is_signed=True)

    def text(value: float | None, low: float | None = None, high: float | None = None) -> str:
        return plot.text(IntervalRow(name="a", value=value, low=low, high=high, note="n = 9"))

    assert text(0.07, -0.08, 0.22) == "+0.070 [−0.080, 0.220]; n = 9"
    assert text(-0.1, -0.3, 0.1) == "−0.100 [−0.300, 0.100]; n = 9"
    assert text(0.0) == "0.000; n = 9"
    assert text(math.nan, 0.1, 0.2) == text(None) == "no score; n = 9"


def test_pictures_of_very_many_models_have_the_best_and_their_table_has_all() -> None:
    board = toy_board(103, 1, names=["baseline/majority"], n=200)
    chart = benchmark_scores_chart(board, board.columns[0])
    texts = [node.text for node in check_picture(chart.svg, WIDE).iter(f"{SVG}text")]
    assert sum(str(text).startswith("lab/model-") for text in texts) == 100
    assert "baseline/majority" in texts
    assert len(chart.rows) == 103
    assert chart.notes[-1] == "The picture has the best 100 of 102 models; the table has all."
