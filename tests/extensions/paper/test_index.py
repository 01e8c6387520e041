"""The first page: in words, as Markdown and as HTML that runs nothing and needs nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.extensions.paper.write import (
    FIGURES,
    TABLES,
    ReportIndex,
    ReportInputs,
    compose_figures,
    compose_tables,
    findings,
    to_html,
    to_markdown,
)
from tests.support.leaderboards import HOSTILE, published, toy_board, toy_costs

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"></svg>'


def page_of(board: Leaderboard, **changes: object) -> ReportIndex:
    found = ReportInputs(board=board, costs=toy_costs(board))
    tables, not_made = compose_tables(found, TABLES)
    figures, not_drawn = compose_figures(found, FIGURES)
    page = ReportIndex(
        board=board,
        tables=tables,
        table_formats=["md", "csv", "latex"],
        figures=figures,
        pictures={figure.key: {"svg": SVG, "pdf": b"%PDF"} for figure in figures},
        facts={"command": "medhelm report <DIR>", "suite": board.suite},
        not_made={**not_made, **not_drawn},
    )
    return replace(page, **changes)  # type: ignore[arg-type]


class Outline(HTMLParser):
    """Tags, their balance, addresses and text."""

    VOID = ("meta", "img", "br", "hr", "!doctype")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


# --- in words ---------------------------------------------------------------------------------------------------------


def test_the_published_board_in_words() -> None:
    first, cost, cheapest, *rest = findings(published())
    assert first.startswith("DeepSeek R1 leads (win rate 0.662), but cannot be separated from ")
    assert all(name in first for name in ("o3-mini", "Claude 3.5 Sonnet", "Claude 3.7 Sonnet", "GPT-4o"))
    assert "Gemini 1.5" not in first
    assert "cost ceiling" in cost
    assert "has the lowest ceiling" in cheapest
    assert f"{len(published().separated)} of 36 differences between models are larger than chance explains." in rest
    assert "reflect the choice of benchmarks" in rest[-1]


def test_a_few_significant_pairs_are_named() -> None:
    named = [text for text in findings(toy_board(3, 5)) if " is better than " in text]
    assert len(named) == len(toy_board(3, 5).separated) > 0
    assert all(re.search(r"macro averages differ by 0\.\d+ \[.*\], adjusted p <?0\.0", text) for text in named)
    assert not [text for text in findings(published()) if " is better than " in text and "differ by" in text]


def test_a_clear_winner_is_called_one() -> None:
    board = toy_board(2, 8, n=60)
    assert board.separated
    assert findings(board)[0].endswith("is significantly better than the other model.")


def test_one_model_and_missing_intervals_are_reported() -> None:
    assert "at least two models" in findings(toy_board(1, 2))[0]
    bare = replace(toy_board(3, 2), pairs=None, interval_method="nothing", verdict=())
    assert findings(bare) == ["Nothing was tested, so significance is unknown."]


@pytest.mark.parametrize("board", [published(), toy_board(3, 4)], ids=["published", "own"])
def test_the_verdict_comes_first(board: Leaderboard) -> None:
    markdown, html = to_markdown(page_of(board)), to_html(page_of(board))
    assert markdown.split("\n## ")[1].startswith("Verdict\n\n- ")
    assert html.index("<h2>Verdict</h2>") < html.index("<h2>Significant differences</h2>")
    for text in board.verdict:
        assert text in Outline(html).text
        assert Outline(html).text.count(text) == 1, "said once"
    for page in (markdown, html):
        assert "bootstrap" not in page and "resampl" not in page


# --- Markdown ---------------------------------------------------------------------------------------------------------


def test_markdown_shows_tables_figures_warnings_and_how_it_was_made() -> None:
    page = page_of(toy_board(3, 4, missing=[(0, 1)]))
    text = to_markdown(page)
    for table in page.tables:
        assert f"## {table.title}" in text
        assert f"[csv](tables/{table.key}.csv)" in text and f"[latex](tables/{table.key}.tex)" in text
    for figure in page.figures:
        assert f"](figures/{figure.key}.svg)" in text and f"[pdf](figures/{figure.key}.pdf)" in text
    assert page.board.remarks
    assert "## Warnings" in text and "was not run on" in text
    assert "## Not made\n\n- table2: needs --ratings FILE" in text
    assert text.rstrip().endswith("- suite: all")


def test_markdown_without_pictures_or_tables_has_no_dead_links() -> None:
    page = page_of(toy_board(2, 2), pictures={}, table_formats=[])
    text = to_markdown(page)
    assert "](" not in text
    assert "## Figure 3. Scores by benchmark" in text
    assert "<img" not in to_html(page)


def test_hostile_names_end_no_row_and_start_no_tag_in_markdown() -> None:
    text = to_markdown(page_of(toy_board(5, 2, names=HOSTILE)))
    assert not re.search(r"(?<!\\)<script", text)
    table = text[text.index("## Table 1") : text.index("## Table 3")]
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 5
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1


# --- HTML -------------------------------------------------------------------------------------------------------------


def test_html_is_whole_and_needs_nothing_else() -> None:
    page = page_of(published())
    text = to_html(page)
    outline = Outline(text)
    assert outline.open == []
    assert "script" not in outline.tags and "link" not in outline.tags
    assert len(outline.addresses) == len(page.figures)
    assert all(address.startswith("data:image/svg+xml;base64,") for address in outline.addresses)
    assert "default-src 'none'" in text
    assert outline.tags.count("table") == len(page.tables)
    assert "DeepSeek R1 †" in outline.text and "0.662 [" in outline.text


@pytest.mark.parametrize("tier", ["real", "sample"])
def test_sample_rows_are_stamped(tier: str) -> None:
    page = page_of(toy_board(2, 2, tier=tier))  # type: ignore[arg-type]
    assert ('<p class="stamp">' in to_html(page)) == (tier == "sample")
    assert ("**SAMPLE TIER" in to_markdown(page)) == (tier == "sample")


def test_hostile_names_are_text_in_html() -> None:
    text = to_html(page_of(toy_board(5, 2, names=HOSTILE)))
    outline = Outline(text)
    assert outline.open == []
    assert "script" not in outline.tags
    assert "</text><script>alert(1)</script>" in outline.text
    assert "\u202e" not in text


def test_a_picture_that_no_page_can_show_is_not_embedded() -> None:
    page = page_of(toy_board(2, 2))
    only_pdf = replace(page, pictures={figure.key: {"pdf": b"%PDF"} for figure in page.figures})
    assert Outline(to_html(only_pdf)).addresses == []
    png = replace(page, pictures={figure.key: {"png": b"\x89PNG"} for figure in page.figures})
    assert all(address.startswith("data:image/png") for address in Outline(to_html(png)).addresses)
