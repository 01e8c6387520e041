"""Pictures: real SVG, PNG and PDF, made without a network."""

from __future__ import annotations

import json
import struct
import sys
import xml.etree.ElementTree as ET
import zlib
from typing import Any

import pytest

from medhelm.errors import MissingError
from medhelm.reports.figures.rendering import PICTURES, PNG_SCALE, check_installed, render
from medhelm.reports.paper import figures
from medhelm.results.paper.compose import taxonomy_titles
from tests.support.leaderboards import HOSTILE, published, toy_board, toy_costs


def texts_of(svg: bytes) -> list[str]:
    return ["".join(node.itertext()) for node in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def png_rows(content: bytes) -> tuple[int, int, set[bytes]]:
    """Width, height and the different compressed lines of a PNG."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    at, data = 8, b""
    while at < len(content):
        (size,) = struct.unpack(">I", content[at : at + 4])
        if content[at + 4 : at + 8] == b"IDAT":
            data += content[at + 8 : at + 8 + size]
        at += size + 12
    raw = zlib.decompress(data)
    step = len(raw) // height
    return width, height, {raw[i : i + step] for i in range(0, len(raw), step)}


@pytest.fixture(scope="module")
def drawn() -> dict[str, bytes]:
    return render(figures.figure_win_rates(published()).spec, PICTURES)


def test_every_format_has_its_signature(drawn: dict[str, bytes]) -> None:
    assert list(drawn) == ["json", "svg", "png", "pdf"]
    assert drawn["pdf"].startswith(b"%PDF-1.") and b"%%EOF" in drawn["pdf"][-32:]
    assert b"FontFile" in drawn["pdf"], "fonts are inside"
    assert json.loads(drawn["json"]) == dict(figures.figure_win_rates(published()).spec)


def test_the_svg_holds_every_name_and_number_as_text(drawn: dict[str, bytes]) -> None:
    texts = texts_of(drawn["svg"])
    for row in published().rows:
        assert f"{row.model} †" in texts
        assert row.win_rate is not None
        assert any(text.startswith(f"{row.win_rate.value:.3f} [") for text in texts)
    assert b"<image" not in drawn["svg"] and b"<script" not in drawn["svg"]


def test_the_png_is_twice_as_fine_and_not_blank(drawn: dict[str, bytes]) -> None:
    root = ET.fromstring(drawn["svg"])
    width, height, lines = png_rows(drawn["png"])
    assert width == pytest.approx(PNG_SCALE * float(root.attrib["width"]), abs=2)
    assert height == pytest.approx(PNG_SCALE * float(root.attrib["height"]), abs=2)
    assert len(lines) > 100, "many different lines of pixels"


def test_a_figure_is_the_same_each_time(drawn: dict[str, bytes]) -> None:
    again = render(figures.figure_win_rates(published()).spec, ["svg", "json"])
    assert (again["svg"], again["json"]) == (drawn["svg"], drawn["json"])


def test_heat_map_and_cost_figure_hold_their_labels() -> None:
    board = toy_board(3, 4, missing=[(0, 0)])
    heat = texts_of(render(figures.figure_3(board, taxonomy_titles()).spec, ["svg"])["svg"])
    assert {column.title for column in board.columns} <= set(heat)
    assert {row.model for row in board.rows} <= set(heat)
    assert "–" in heat and "Clinical Decision Support" not in heat, "one category needs no heading"
    costs = figures.figure_5(board, toy_costs(board, unknown=[2]))
    assert costs is not None
    shown = texts_of(render(costs.spec, ["svg"])["svg"])
    assert {board.rows[0].model, f"{board.rows[2].model} (cost unknown)", "$0.59"} <= set(shown)


def test_hostile_names_are_text_in_the_picture() -> None:
    svg = render(figures.figure_pairs(toy_board(5, 2, names=HOSTILE)).spec, ["svg"])["svg"]
    texts = texts_of(svg)
    assert any(text.startswith("</text><script>alert(1)") for text in texts)
    assert any(text.startswith('datum.model["x"]') for text in texts)
    assert b"<script" not in svg


def test_only_a_specification_needs_no_renderer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    spec: dict[str, Any] = {"mark": "point"}
    assert json.loads(render(spec, ["json"])["json"]) == spec
    assert render(spec, []) == {}


def test_nan_is_refused_and_not_written() -> None:
    with pytest.raises(ValueError, match="JSON"):
        render({"value": float("nan")}, ["json"])


@pytest.mark.parametrize(("module", "package"), [("altair", "altair"), ("vl_convert", "vl-convert-python")])
def test_a_missing_package_is_named_with_the_command(
    monkeypatch: pytest.MonkeyPatch, module: str, package: str
) -> None:
    check_installed()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingError, match=rf"package missing: {package}.*pip install '\.\[figures\]'"):
        check_installed()
