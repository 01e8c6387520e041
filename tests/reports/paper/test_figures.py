"""Specifications of figures: every model, finite numbers, and no name as code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import altair as alt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import ValidationError

from medhelm.analysis.leaderboard.types import Average, Leaderboard
from medhelm.reports.figures import style
from medhelm.reports.figures.cost import BEATEN, BEST, OFF_AXIS, PricedModel, average_by_cost
from medhelm.reports.formats.tables import SAMPLE_WARNING
from medhelm.reports.leaderboard import shown_name
from medhelm.reports.paper import figures
from medhelm.reports.paper.figures import PaperFigure
from medhelm.results.options import BoardOptions
from medhelm.results.paper.compose import FIGURES, compose_figures, taxonomy_titles
from medhelm.results.paper.gather import ReportInputs, ReportRequest, gather_inputs
from tests.support.leaderboards import HOSTILE, published, toy_board, toy_costs

TITLES = taxonomy_titles()

SHAPES = [(1, 1), (2, 1), (2, 37), (3, 2), (9, 5), (30, 6)]


def parts(node: Any) -> Iterator[dict[str, Any]]:
    """Every dictionary of a specification."""
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from parts(value)
    elif isinstance(node, list):
        for value in node:
            yield from parts(value)


def data_of(figure: PaperFigure) -> list[dict[str, Any]]:
    """All rows of data of a figure."""
    return rows_of(figure.spec)


def rows_of(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [row for rows in spec["datasets"].values() for row in rows]


def drawn(board: Leaderboard, **changes: Any) -> list[PaperFigure]:
    found = ReportInputs(board=board, costs=toy_costs(board, **changes))
    return compose_figures(found, FIGURES)[0]


@pytest.mark.long
def test_specifications_are_valid_vega_lite() -> None:
    for figure in drawn(toy_board(4, 2, missing=[(0, 0)]), unknown=[1]):
        # The schema is slow on data, and has nothing to say of it.
        bare = {**figure.spec, "datasets": {name: [] for name in figure.spec["datasets"]}}
        read = alt.Chart.from_dict(bare, validate=True)
        assert read.to_dict(validate=True)["$schema"] == figure.spec["$schema"]
        with pytest.raises(ValidationError):
            alt.Chart.from_dict({**bare, "width": "broad"}, validate=True)


@pytest.mark.parametrize("shape", SHAPES)
def test_specifications_are_json_with_all_they_need(shape: tuple[int, int]) -> None:
    for figure in drawn(toy_board(*shape, missing=[(0, 0)] if shape[1] > 1 else [])):
        text = json.dumps(figure.spec, allow_nan=False)
        assert not re.search(r"\b(NaN|Infinity)\b", text)
        assert figure.spec["description"].startswith(figure.title)
        assert "url" not in {key for part in parts(figure.spec) for key in part}, "all data is inside"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.long
def test_all_models_are_in_every_figure(shape: tuple[int, int]) -> None:
    board = toy_board(*shape)
    for figure in drawn(board, unknown=[1], free=[2] if shape[0] > 3 else []):
        shown = json.dumps(data_of(figure))
        assert all(row.model in shown for row in board.rows), figure.key


def test_the_heat_map_has_normalized_values_by_category_in_order_of_rank() -> None:
    board = published()
    figure = figures.figure_3(board, TITLES)
    cells = {(row["label"], row["model"]): row for row in data_of(figure)}
    assert len(cells) == 35 * 9
    assert len({row["group"] for row in cells.values()}) == 5
    for column in board.columns:
        for row in board.rows:
            cell = cells[column.title, shown_name(row)]
            value = row.cells[column.benchmark].value
            assert value is not None
            assert cell["value"] == pytest.approx(column.normalize(value), abs=1e-6)
            assert cell["text"] == f"{column.normalize(value):.2f}"
            assert cell["group"] == TITLES[column.category]
    scales = [part["scale"] for part in parts(figure.spec) if part.get("field") == "value"]
    assert [scale["domain"] for scale in scales] == [[0, 1]], "two heat maps can be compared"
    (order,) = {tuple(part["sort"]) for part in parts(figure.spec) if part.get("field") == "model"}
    assert list(order) == [shown_name(row) for row in board.rows]


def test_figure_4_holds_the_published_ranges_of_the_categories() -> None:
    found: dict[str, list[float]] = {}
    for row in data_of(figures.figure_4(published(), TITLES)):
        found.setdefault(row["label"], []).append(round(row["value"], 2))
    assert {name: (min(values), max(values)) for name, values in found.items()} == {
        "Clinical Decision Support (10)": (0.61, 0.76),
        "Clinical Note Generation (6)": (0.74, 0.85),
        "Patient Communication and Education (8)": (0.76, 0.89),
        "Medical Research Assistance (6)": (0.65, 0.75),
        "Administration and Workflow (5)": (0.53, 0.63),
    }
    assert len(data_of(figures.figure_4_subcategories(published(), TITLES))) == 22 * 9


def test_a_missing_value_is_marked() -> None:
    board = toy_board(3, 4, missing=[(0, 1), (2, 3)])
    empty = [row for row in data_of(figures.figure_3(board, TITLES)) if row["value"] is None]
    assert [row["text"] for row in empty] == ["–", "–"]
    assert {(row["model"], row["label"]) for row in empty} == {("lab/model-0", "CLEAR"), ("lab/model-2", "Medec")}


def test_the_frontier_has_the_efficient_models() -> None:
    found = gather_inputs(ReportRequest(published="only", options=BoardOptions(suite="paper35")))
    figure = figures.figure_5(found.board, found.costs)
    assert figure is not None
    points = [row for row in data_of(figure) if "cost_usd" in row and "kind" in row]
    kinds = {row["model"]: row["kind"] for row in points}
    # By hand from tables 1 and 3: cheapest first, each better than all before it.
    best = ["GPT-4o mini", "Gemini 2.0 Flash", "GPT-4o", "Claude 3.7 Sonnet", "o3-mini", "DeepSeek R1"]
    assert {name.removesuffix(" †") for name, kind in kinds.items() if kind == BEST} == set(best)
    assert set(kinds.values()) == {BEST, BEATEN}
    line = [row for row in data_of(figure) if set(row) == {"cost_usd", "value"}]
    assert [row["cost_usd"] for row in line] == [804.74, 814.77, 1413.19, 1536.64, 1722.04, 1806.17]
    assert [row["value"] for row in line] == sorted(row["value"] for row in line)
    (x_type,) = {part["scale"]["type"] for part in parts(figure.spec) if part.get("field") == "cost_usd"}
    assert x_type == "log"
    for row in points:
        assert row["low"] < row["value"] < row["high"]
    assert "ceilings" in json.dumps(figure.spec)


def test_models_without_a_price_are_beside_the_plot_and_never_at_zero() -> None:
    board = toy_board(5, 3)
    figure = figures.figure_5(board, toy_costs(board, unknown=[1], free=[3]))
    assert figure is not None
    models = [row for row in data_of(figure) if "kind" in row]
    assert all(row["cost_usd"] > 0 for row in models if row["kind"] != OFF_AXIS)
    beside = {row["key"] for row in models if row["kind"] == OFF_AXIS}
    assert beside == {f"{board.rows[1].model} (cost unknown)", f"{board.rows[3].model} (no cost)"}
    assert figures.figure_5(board, toy_costs(board, unknown=[0, 1], free=[2, 3, 4])) is None
    assert figures.figure_5(board, []) is None
    with pytest.raises(ValueError, match="no model has a known cost"):
        average_by_cost([], heading="", notes=[], sample=False)


def test_the_data_hold_the_use_of_models_and_their_probability_of_being_efficient() -> None:
    board = toy_board(3, 2, n=40, costs=[0.1, 0.2, None])
    figure = figures.figure_5(board, toy_costs(board))
    assert figure is not None
    rows = {row["model"]: row for row in data_of(figure) if "kind" in row}
    assert {"seconds_per_completion", "tokens_per_completion", "frontier_probability"} <= set(rows["lab/model-0"])
    assert rows["lab/model-0"]["key"] == "lab/model-0 (100%)"
    assert (rows["lab/model-2"]["frontier_probability"], rows["lab/model-2"]["key"]) == (None, "lab/model-2")
    assert "without judges" in json.dumps(figure.spec)


def test_the_cost_of_judges_is_not_on_the_axis() -> None:
    board = toy_board(3, 2)
    figure = figures.figure_5(board, [replace(cost, jury_usd=100.0) for cost in toy_costs(board)])
    assert figure is not None
    shown = {row["model"]: row["cost_usd"] for row in data_of(figure) if "kind" in row}
    assert shown == {cost.model: cost.benchmark_usd for cost in toy_costs(board)}


def test_ceilings_and_bills_are_not_on_one_axis() -> None:
    board = toy_board(3, 2)
    costs = toy_costs(board)
    mixed = [*costs[:2], replace(costs[2], benchmark_usd=5.0, jury_usd=1.0, ceiling_usd=6.0, is_ceiling=True)]
    figure = figures.figure_5(board, mixed)
    assert figure is not None
    shown = {row["model"]: row["cost_usd"] for row in data_of(figure) if "kind" in row}
    assert shown == {cost.model: cost.ceiling_usd for cost in mixed}


@settings(max_examples=10, deadline=None)  # each draws a figure
@given(
    st.lists(
        st.tuples(st.sampled_from([None, 0.0, 0.5, 1.0, 2.0, 80.0]), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])),
        min_size=1,
        max_size=7,
    ).filter(lambda points: any(cost for cost, _ in points))
)
@pytest.mark.long
def test_the_frontier_agrees_with_comparing_all_pairs(points: list[tuple[float | None, float]]) -> None:
    models = [
        PricedModel(model=f"m{i}", average=Average(value=value, low=value, high=value, sd=None), cost_usd=cost)
        for i, (cost, value) in enumerate(points)
    ]
    rows = rows_of(average_by_cost(models, heading="h", notes=[], sample=False))
    known = [(f"m{i}", cost, value) for i, (cost, value) in enumerate(points) if cost is not None]
    beaten = {
        name
        for name, cost, value in known
        for _, other_cost, other_value in known
        if (other_cost <= cost and other_value > value) or (other_cost < cost and other_value >= value)
    }
    on_axis = {name for name, cost, _ in known if cost > 0}
    assert {row["model"]: row["kind"] for row in rows if "cost_usd" in row and "kind" in row} == {
        name: BEATEN if name in beaten else BEST for name in on_axis
    }
    line = [(row["cost_usd"], row["value"]) for row in rows if set(row) == {"cost_usd", "value"}]
    assert sorted(line) == sorted((cost, value) for name, cost, value in known if name in on_axis - beaten)
    assert len({row["model"] for row in rows if row.get("kind") == OFF_AXIS}) == len(points) - len(on_axis)


def test_an_unknown_interval_has_no_bar() -> None:
    models = [
        PricedModel(model=f"m{i}", average=Average(value=0.2 * i, low=None, high=None, sd=None), cost_usd=1.0 + i)
        for i in range(3)
    ]
    spec = average_by_cost(models, heading="h", notes=[], sample=False)
    points = [row for row in rows_of(spec) if "kind" in row]
    assert {row["model"] for row in points} == {"m0", "m1", "m2"}
    assert all(row["low"] == row["value"] == row["high"] for row in points)


def test_averages_are_drawn_with_their_numbers_in_words() -> None:
    board = published()
    rows = {row["model"]: row for row in data_of(figures.figure_win_rates(board))}
    for row in board.rows:
        shown = rows[shown_name(row)]
        assert row.win_rate is not None
        assert shown["value"] == pytest.approx(row.win_rate.value, abs=1e-6)
        assert shown["text"].startswith(f"{row.win_rate.value:.3f} [")


def test_the_triangle_of_pairs_agrees_with_the_leaderboard() -> None:
    board = published()
    cells = data_of(figures.figure_pairs(board))
    names = {shown_name(row): row.model for row in board.rows}
    assert len(cells) == 36
    signs = {(names[cell["better"]], names[cell["other"]]): cell["text"] for cell in cells}
    for pair, sign in signs.items():
        assert sign == (">" if pair in board.separated else "=")
    assert sum(sign != "=" for sign in signs.values()) == len(board.separated)


def test_own_models_are_drawn_by_macro_average_with_error_bars() -> None:
    board = toy_board(3, 4)
    figure = figures.figure_5(board, toy_costs(board))
    assert figure is not None and figure.title == "Figure 5. Macro average and cost"
    for drawn_rows in (data_of(figure), data_of(figures.figure_win_rates(board))):
        shown = {row["model"]: row for row in drawn_rows if "low" in row}
        for row in board.rows:
            assert row.adjusted_average is not None
            assert shown[row.model]["value"] == pytest.approx(row.adjusted_average.value, abs=1e-6)
            assert shown[row.model]["low"] < shown[row.model]["value"] < shown[row.model]["high"]


def test_baselines_are_right_of_the_models_in_heat_maps_and_in_no_comparison() -> None:
    board = toy_board(3, 4, names=["baseline/majority"])
    for figure in drawn(board):
        orders = {tuple(part["sort"]) for part in parts(figure.spec) if part.get("field") == "model" and "sort" in part}
        if figure.key.startswith(("figure3", "figure4")):
            assert {order[-1] for order in orders} == {"baseline/majority"}
        else:
            assert "baseline/majority" not in json.dumps(data_of(figure))


def test_figures_of_ties_only() -> None:
    board = toy_board(3, 4, tied=True)
    cells = data_of(figures.figure_pairs(board))
    assert [cell["text"] for cell in cells] == ["=", "=", "="]


def test_sample_rows_are_stamped_on_every_figure() -> None:
    for figure in drawn(toy_board(3, 4, tier="sample")):
        assert figure.spec["title"]["text"][0] == SAMPLE_WARNING
    for figure in drawn(toy_board(3, 4)):
        assert SAMPLE_WARNING not in json.dumps(figure.spec)


SAFE_CODE = {"isValid(datum.value)", "datum.ink === 'white'"}


def test_names_are_data_not_code_or_fields() -> None:
    board = toy_board(5, 3, names=HOSTILE)
    for figure in drawn(board):
        code = [str(part[key]) for part in parts(figure.spec) for key in ("test", "expr", "calculate") if key in part]
        assert set(code) <= SAFE_CODE
        fields = {part["field"] for part in parts(figure.spec) if "field" in part}
        assert all(re.fullmatch(r"[a-z0-9_]+", field) for field in fields)
        names = {str(row[key]) for row in data_of(figure) for key in ("model", "better", "other") if key in row}
        assert all(len(name) <= style.LONGEST_NAME + len(" (cost unknown)") for name in names)
        assert not any(c in name for name in names for c in "\n\u202e")


def test_one_model_has_heat_maps_only() -> None:
    made, reasons = compose_figures(ReportInputs(board=toy_board(1, 3)), FIGURES)
    assert [figure.key for figure in made] == ["figure3", "figure4", "figure4_subcategories"]
    assert set(reasons) == {"figure5", "figureD1", "win_rates", "pairs"}


# --- style ------------------------------------------------------------------------------------------------------------


def contrast(first: str, second: str) -> float:
    """By WCAG 2.2, written anew."""

    def luminance(color: str) -> float:
        shares = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    dark, light = sorted([luminance(first), luminance(second)])
    return (light + 0.05) / (dark + 0.05)


def test_text_in_cells_is_readable_on_every_color() -> None:
    inks = {"black": "#000000", "white": "#ffffff"}
    for value in np.linspace(-0.1, 1.1, 241):
        color = style.shade(float(value))
        assert contrast(color, inks[style.ink_on(color)]) >= 4.5


def test_shades_keep_their_order_in_gray() -> None:
    greys = [contrast(style.shade(float(value)), "#000000") for value in np.linspace(0, 1, 101)]
    assert greys == sorted(greys)
    assert len(set(greys)) == 101


def test_short_names_are_kept_and_shortened_names_are_unique() -> None:
    long = ["provider/" + "x" * 60 + f"-{i}" for i in range(12)]
    same = ["a" * 100 + "b" + "c" * 100, "a" * 100 + "d" + "c" * 100]
    for texts in (long, same, ["", " ", "\n"], ["twice", "twice"]):
        shown = style.names(texts)
        assert len(set(shown)) == len(texts)
        assert all(0 < len(name) <= style.LONGEST_NAME for name in shown)
    assert style.names(["short", "two\nlines"]) == ["short", "two lines"]
