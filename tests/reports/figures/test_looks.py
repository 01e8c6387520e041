"""Rendered figures: overlaps, colors, sizes, and no network."""

from __future__ import annotations

import re
import socket
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.reports.figures import style
from medhelm.reports.figures.rendering import render
from medhelm.reports.figures.win_rates import KNOWN
from medhelm.reports.paper import figures
from medhelm.reports.paper.figures import PaperFigure
from medhelm.results.options import BoardOptions
from medhelm.results.paper.compose import taxonomy_titles
from medhelm.results.paper.gather import ReportRequest, gather_inputs
from tests.support.leaderboards import HOSTILE, published, toy_board, toy_costs

SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Text:
    """A text of a picture, with the place where it starts, ends or has its middle."""

    text: str
    x: float
    y: float
    size: float
    anchor: str
    turned: bool

    @property
    def box(self) -> tuple[float, float, float, float]:
        """About where it is, for a text that is not turned."""
        width = 0.9 * style.text_width(self.text, self.size)
        left = {"start": self.x, "middle": self.x - width / 2, "end": self.x - width}[self.anchor]
        return left, self.y - 0.7 * self.size, left + width, self.y + 0.15 * self.size


def texts_of(svg: bytes) -> list[Text]:
    """Every text of a picture in its own coordinates."""
    found: list[Text] = []

    def walk(node: ET.Element, x: float, y: float) -> None:
        moved = re.match(r"translate\((-?[\d.]+),\s*(-?[\d.]+)\)", node.get("transform", ""))
        if moved:
            x, y = x + float(moved[1]), y + float(moved[2])
        if node.tag == SVG + "text":
            size = float(node.get("font-size", "11px").removesuffix("px"))
            turned = "rotate" in node.get("transform", "")
            anchor = node.get("text-anchor", "start")
            lines = [child for child in node if child.tag == SVG + "tspan"]
            for number, line in enumerate(lines or [node]):
                down = float(line.get("dy", 0) or 0) * bool(lines) * number
                found.append(Text("".join(line.itertext()), x, y + down, size, anchor, turned))
        for child in node:
            walk(child, x, y)

    walk(ET.fromstring(svg), 0, 0)
    return found


def size_of(svg: bytes) -> tuple[float, float]:
    root = ET.fromstring(svg)
    return float(root.attrib["width"]), float(root.attrib["height"])


def overlap(one: Text, other: Text) -> float:
    """Square pixels that two texts share."""
    left, top, right, bottom = one.box
    left_2, top_2, right_2, bottom_2 = other.box
    across, down = min(right, right_2) - max(left, left_2), min(bottom, bottom_2) - max(top, top_2)
    return across * down if across > 0 and down > 0 else 0.0


def picture(figure: PaperFigure | None) -> bytes:
    assert figure is not None
    return render(figure.spec, ["svg"])["svg"]


def long_names(n: int) -> list[str]:
    return [f"provider-{i % 3}/a-model-with-a-name-{i}-2025-0{i % 9 + 1}-01" for i in range(n)]


def boards() -> dict[str, Leaderboard]:
    return {
        "published": published(),
        "one": toy_board(1, 1),
        "two": toy_board(2, 1, names=["x" * 200, "y"]),
        "hostile": toy_board(5, 2, names=HOSTILE),
        "many": toy_board(16, 4, names=long_names(16), missing=[(0, 0)]),
        "sample": toy_board(3, 2, tier="sample"),
    }


@pytest.mark.parametrize("name", boards())
@pytest.mark.long
def test_no_text_is_cut_off_or_covers_another_in_a_heat_map(name: str) -> None:
    svg = picture(figures.figure_3(boards()[name], taxonomy_titles()))
    width, height = size_of(svg)
    flat = [text for text in texts_of(svg) if not text.turned]
    assert len(flat) > 5
    for text in flat:
        left, top, right, bottom = text.box
        assert left >= 0 and top >= 0 and right <= width + 1 and bottom <= height + 1, text
    for one, other in combinations(flat, 2):
        assert overlap(one, other) == 0, f"{one.text!r} covers {other.text!r}"


@pytest.mark.parametrize("name", ["published", "two", "hostile", "many", "sample"])
def test_no_text_is_cut_off_or_covers_another_in_the_figure_of_win_rates(name: str) -> None:
    svg = picture(figures.figure_win_rates(boards()[name]))
    width, height = size_of(svg)
    flat = [text for text in texts_of(svg) if not text.turned]
    for text in flat:
        left, top, right, bottom = text.box
        assert left >= -1 and top >= 0 and right <= width + 1 and bottom <= height + 1, text
    for one, other in combinations(flat, 2):
        assert overlap(one, other) == 0, f"{one.text!r} covers {other.text!r}"


@pytest.mark.parametrize("unknown", [(), range(1, 16)])
def test_no_text_is_cut_off_or_covers_another_in_figure_5(unknown: Sequence[int]) -> None:
    board = toy_board(16, 2, names=long_names(16))
    svg = picture(figures.figure_5(board, toy_costs(board, unknown=unknown)))
    width, height = size_of(svg)
    flat = [text for text in texts_of(svg) if not text.turned]
    assert sum(text.text.startswith("provider-") for text in flat) == 16
    for text in flat:
        left, top, right, bottom = text.box
        assert left >= -1 and top >= 0 and right <= width + 1 and bottom <= height + 1, text
    for one, other in combinations(flat, 2):
        assert overlap(one, other) == 0, f"{one.text!r} covers {other.text!r}"


@pytest.mark.long
def test_letters_are_large_enough_to_read_everywhere() -> None:
    board = toy_board(3, 4)
    for figure in (
        figures.figure_3(board, taxonomy_titles()),
        figures.figure_5(board, toy_costs(board, unknown=[1])),
        figures.figure_win_rates(board),
        figures.figure_pairs(board),
    ):
        assert min(text.size for text in texts_of(picture(figure))) >= 10


@pytest.mark.long
def test_the_picture_of_thirty_models_is_no_larger_than_a_poster() -> None:
    board = toy_board(30, 3)
    for figure in (figures.figure_3(board, taxonomy_titles()), figures.figure_5(board, toy_costs(board))):
        width, height = size_of(picture(figure))
        assert 200 < width < 1600 and 150 < height < 1600


@pytest.mark.parametrize(
    "text", ["DeepSeek R1", "Claude 3.5 Sonnet †", "provider/a-model-2025-01-01", "MMMMWWWW", "iiiill"]
)
def test_estimated_text_widths_agree_with_the_renderer(text: str) -> None:
    spec: dict[str, Any] = {
        "data": {"values": [{"t": text}]},
        "width": 1,
        "height": 1,
        "padding": 0,
        "mark": {
            "type": "text",
            "align": "left",
            "fontSize": 20,
            "font": style.FONT,
            "text": {"expr": "datum.t"},
            "x": 0,
        },
        "config": {"view": {"stroke": None}},
    }
    spec["mark"].pop("text")
    spec["encoding"] = {"text": {"field": "t"}}
    width, _ = size_of(render(spec, ["svg"])["svg"])
    assert 0.75 * width <= style.text_width(text, 20) <= 1.6 * width


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a figure asked for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    board = toy_board(2, 2)
    assert picture(figures.figure_3(board, taxonomy_titles())).startswith(b"<svg")


# --- colors -----------------------------------------------------------------------------------------------------------

DEUTERANOPIA = np.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]])
PROTANOPIA = np.array([[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]])
"""Linear RGB as seen without one kind of cones (Viénot, Brettel and Mollon 1999)."""


def linear(color: str) -> np.ndarray:
    shares = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear RGB, D65."""
    matrix = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    shares = (matrix @ np.clip(rgb, 0, 1)) / [0.95047, 1.0, 1.08883]
    f = np.where(shares > 0.008856, np.cbrt(shares), 7.787 * shares + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize(
    "sight", [np.eye(3), DEUTERANOPIA, PROTANOPIA], ids=["all cones", "deuteranopia", "protanopia"]
)
def test_meaningful_colors_are_distinct_with_any_color_vision(sight: np.ndarray) -> None:
    meant = [(style.BLUE, style.ORANGE), *combinations([color for _, color in KNOWN.values()], 2)]
    for one, other in meant:
        assert np.linalg.norm(lab(sight @ linear(one)) - lab(sight @ linear(other))) > 12, (one, other)


@pytest.mark.parametrize(
    "sight", [np.eye(3), DEUTERANOPIA, PROTANOPIA], ids=["all cones", "deuteranopia", "protanopia"]
)
def test_shades_of_a_heat_map_are_even_steps_with_any_color_vision(sight: np.ndarray) -> None:
    steps = [lab(sight @ linear(style.shade(value))) for value in np.linspace(0, 1, 11)]
    distances = [float(np.linalg.norm(b - a)) for a, b in pairwise(steps)]
    assert min(distances) > 3
    lightness = [float(step[0]) for step in steps]
    assert lightness == sorted(lightness)


def test_color_is_combined_with_a_shape_or_sign() -> None:
    """Color-blind readers have a shape or a sign."""
    board = published()
    found = gather_inputs(ReportRequest(published="only", options=BoardOptions(suite="paper35")))
    for figure in (figures.figure_5(board, found.costs), figures.figure_win_rates(board)):
        assert figure is not None
        for node in nodes(figure.spec):
            if isinstance(node.get("color"), dict) and node["color"].get("type") == "nominal":
                assert node["shape"]["field"] == node["color"]["field"]
    assert len({sign for sign, _ in KNOWN.values()}) == len(KNOWN)


def nodes(spec: object) -> list[Mapping[str, Any]]:
    if isinstance(spec, Mapping):
        return [spec, *(node for value in spec.values() for node in nodes(value))]
    return [node for value in spec for node in nodes(value)] if isinstance(spec, list) else []
