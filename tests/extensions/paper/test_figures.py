"""Figures of a report: every model, its numbers, no text over another or outside, and readable cells."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.extensions.paper import figures
from medhelm.extensions.paper.contents import ModelCost, taxonomy_titles
from medhelm.extensions.paper.figures import BETTER, TIED, WORSE, PaperFigure, score_cell
from medhelm.extensions.paper.write import (
    FIGURES,
    ReportInputs,
    ReportRequest,
    compose_figures,
    gather_inputs,
)
from medhelm.results.formats.drawing import names, text_width
from medhelm.results.formats.tables import SAMPLE_WARNING
from medhelm.results.leaderboard_view import shown_name
from medhelm.results.options import BoardOptions
from tests.support.leaderboards import HOSTILE, published, toy_board, toy_costs

TITLES = taxonomy_titles()
SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Text:
    """A text of a picture, with the place where it starts, ends or has its middle."""

    text: str
    x: float
    y: float
    size: float
    anchor: str
    is_turned: bool

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Left, top, right and bottom in Arial or a font of its widths; of a turned text, which rises, at its angle."""
        width = text_width(self.text, self.size) / 1.16
        if self.is_turned:
            slant = math.radians(55)
            return self.x, self.y - width * math.sin(slant), self.x + width * math.cos(slant), self.y
        left = {"start": self.x, "middle": self.x - width / 2, "end": self.x - width}[self.anchor]
        return left, self.y - 0.7 * self.size, left + width, self.y + 0.15 * self.size


def texts_of(svg: str) -> list[Text]:
    """Every text that is seen."""

    def walk(node: ET.Element, x: float, y: float, size: float) -> Iterator[Text]:
        size = float(node.get("font-size", size))
        if moved := re.match(r"translate\(([-\d.]+) ([-\d.]+)\)", node.get("transform", "")):
            x, y = x + float(moved[1]), y + float(moved[2])
        if node.tag == f"{SVG}text":
            shown = (node.text or "") + "".join(child.tail or "" for child in node)
            at = x + float(node.get("x", 0)), y + float(node.get("y", 0))
            yield Text(shown, *at, size, node.get("text-anchor", "start"), "rotate" in node.get("transform", ""))
        for child in node:
            yield from walk(child, x, y, size)

    return list(walk(ET.fromstring(svg), 0, 0, 12))


def words_of(figure: PaperFigure | None) -> list[str]:
    assert figure is not None
    return [text.text for text in texts_of(figure.svg)]


def line_of(figure: PaperFigure, name: str) -> list[str]:
    """The texts right of a name, also where the table goes on below."""
    found = texts_of(figure.svg)
    heights = [text.y for text in found if text.text == name and not text.is_turned]
    beside = [text for text in found if any(abs(text.y - y) < 2 for y in heights) and text.text != name]
    return [text.text for text in sorted(beside, key=lambda text: (round(text.y / 4), text.x))]


def drawn(board: Leaderboard, unknown: tuple[int, ...] = (), free: tuple[int, ...] = ()) -> list[PaperFigure]:
    flagged = [
        figures.FlaggedScores(title="RaceBias", accepted=0.7, flagged=0.72, n_accepted=150, n_flagged=17, n_models=2)
    ]
    costs = toy_costs(board, unknown=unknown, free=free)
    if any(row.published for row in board.rows):
        costs = with_ceilings(costs, len(costs))
    return compose_figures(ReportInputs(board=board, costs=costs, flagged=flagged), FIGURES)[0]


def long_names(n: int) -> list[str]:
    return [f"provider-{i % 3}/a-model-with-a-name-{i}-2025-0{i % 9 + 1}-01" for i in range(n)]


CASES: dict[str, tuple[Callable[[], Leaderboard], tuple[int, ...], tuple[int, ...]]] = {
    "published": (published, (), ()),
    "long": (lambda: toy_board(2, 1, names=["x" * 200, "y"]), (), ()),
    "hostile": (lambda: toy_board(5, 3, names=HOSTILE, missing=[(0, 0)]), (2,), (1,)),
    "forty": (lambda: toy_board(40, 37, names=long_names(40), missing=[(0, 0), (9, 9)]), (3, 7), ()),
    "sample": (lambda: toy_board(3, 2, tier="sample", names=["baseline/majority"]), (), ()),
}
"""Leaderboards, with places of models of unknown cost and of models that cost nothing."""


@pytest.mark.parametrize("case", CASES)
def test_names_are_in_full_and_no_text_is_cut_off_or_covers_another(case: str) -> None:
    make, unknown, free = CASES[case]
    board = make()
    for figure in drawn(board, unknown, free):
        root = ET.fromstring(figure.svg)
        assert [child.text for child in root[:2]] == [figure.title, figure.words]
        assert {node.tag.removeprefix(SVG) for node in root.iter()} <= {
            "svg", "title", "desc", "g", "rect", "line", "circle", "path", "text"
        }  # fmt: skip
        found = texts_of(figure.svg)
        rows = board.all_rows if figure.key.startswith(("figure3", "figure4")) else board.rows
        if figure.key != "figureD1":
            assert set(names([shown_name(row) for row in rows])) <= {text.text for text in found}
        assert ("baseline/majority" in {text.text for text in found}) <= (rows is not board.rows)
        assert (found[0].text == SAMPLE_WARNING) == (case == "sample")
        width, height = float(root.attrib["width"]), float(root.attrib["height"])
        assert 400 < width < 1300
        for text in found:
            left, top, right, bottom = text.box
            assert text.size >= 10
            is_inside = left >= 0 and top >= 0 and right <= width and bottom <= height
            is_axis_title = text.anchor == "middle" and text.is_turned
            assert is_inside or is_axis_title, (figure.key, text)
        flat = [text for text in found if not text.is_turned]
        left, top, right, bottom = np.array([text.box for text in flat]).T
        beside = np.minimum.outer(right, right) > np.maximum.outer(left, left)
        covered = np.triu(beside & (np.minimum.outer(bottom, bottom) > np.maximum.outer(top, top)), k=1)
        assert not covered.any(), [(figure.key, flat[i], flat[j]) for i, j in np.argwhere(covered)]


def test_the_heat_map_has_normalized_values_by_category_in_order_of_rank() -> None:
    board = published()
    figure = figures.figure_3(board, TITLES)
    for row in board.rows:
        cells = [(column, row.cells[column.benchmark].value) for column in board.columns]
        expected = [f"{column.normalize(value):.2f}" for column, value in cells if value is not None]
        assert line_of(figure, shown_name(row)) == expected
    found = texts_of(figure.svg)
    assert [text.text for text in found if text.is_turned] == [column.title for column in board.columns]
    shown = [shown_name(row) for row in board.rows]
    order = [text.text for text in sorted(found, key=lambda text: text.y) if text.text in shown]
    assert order == shown * (len(order) // len(shown))
    gaps = figures.figure_3(toy_board(3, 4, missing=[(0, 1), (2, 3)]), TITLES)
    assert [line_of(gaps, f"lab/model-{i}").count("–") for i in range(3)] == [1, 0, 1]


def symbols(figure: PaperFigure | None) -> list[tuple[str, bool]]:
    """The model of each symbol in figure 5, and whether it is round."""
    assert figure is not None
    found = [node for node in ET.fromstring(figure.svg).iter(f"{SVG}g") if node.find(f"{SVG}title") is not None]
    return [(str(node[0].text), node[1].tag == f"{SVG}circle") for node in found]


def test_the_frontier_has_the_efficient_models() -> None:
    found = gather_inputs(ReportRequest(published="only", options=BoardOptions(suite="paper35")))
    figure = figures.figure_5(found.board, found.costs)
    # By hand from tables 1 and 3: cheapest first, each better than all before it.
    best = ["GPT-4o mini", "Gemini 2.0 Flash", "GPT-4o", "Claude 3.7 Sonnet", "o3-mini", "DeepSeek R1"]
    assert {name.removesuffix(" †") for name, is_round in symbols(figure) if is_round} == set(best)
    assert len(symbols(figure)) == 9
    words = " ".join(words_of(figure))
    assert "ceilings" in words and "$1,500" in words and "(13%)" not in words and "13%" in words


def test_models_without_a_price_are_never_on_the_axis() -> None:
    board = toy_board(5, 3)
    figure = figures.figure_5(board, toy_costs(board, unknown=[1], free=[3]))
    shown = [name for name, _ in symbols(figure)]
    assert sorted(shown) == sorted(row.model for row in board.rows)
    assert {"cost unknown", "$0"} <= set(words_of(figure))
    assert figures.figure_5(board, toy_costs(board, unknown=[0, 1], free=[2, 3, 4])) is None
    costs = toy_costs(board)
    bills, mixed, ceilings = (figures.figure_5(board, with_ceilings(costs, n)) for n in (0, 1, 5))
    assert mixed == ceilings != bills, "never both on one axis"
    assert bills == figures.figure_5(board, [replace(cost, jury_usd=100.0) for cost in costs])


def with_ceilings(costs: list[ModelCost], n: int) -> list[ModelCost]:
    """The costs, the last `n` of them published ceilings."""
    at = len(costs) - n
    return [*costs[:at], *(replace(cost, benchmark_usd=5.0, jury_usd=1.0, is_ceiling=True) for cost in costs[at:])]


def test_the_triangle_of_pairs_agrees_with_the_leaderboard() -> None:
    board = published()
    figure = figures.figure_pairs(board)
    for i, row in enumerate(board.rows[:-1]):
        expected = [">" if (row.model, other.model) in board.separated else "=" for other in board.rows[i + 1 :]]
        assert line_of(figure, shown_name(row)) == expected
    assert line_of(figures.figure_pairs(toy_board(3, 4, tied=True)), "lab/model-0") == ["=", "="]


def linear(color: str) -> np.ndarray:
    shares = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def test_text_in_cells_is_readable_on_every_color() -> None:
    for cell in (BETTER, WORSE, TIED, *map(score_cell, np.linspace(-0.1, 1.1, 241).tolist())):
        dark, light = sorted(float(linear(color) @ [0.2126, 0.7152, 0.0722]) for color in (cell.fill, cell.ink))
        assert (light + 0.05) / (dark + 0.05) >= 4.5  # WCAG 2.2
