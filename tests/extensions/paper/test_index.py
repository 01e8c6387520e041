"""The first page of a report: its findings in words, and hostile names in Markdown and HTML."""

from __future__ import annotations

import re
from dataclasses import replace

from medhelm.analysis.leaderboard.types import Leaderboard
from medhelm.domain.result import Remark
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
from medhelm.results.options import NO_DOCUMENT
from tests.support.html import HtmlPage
from tests.support.leaderboards import HOSTILE, published, toy_board, toy_costs

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"></svg>'


def page_of(board: Leaderboard, **changes: object) -> ReportIndex:
    found = ReportInputs(board=board, costs=toy_costs(board))
    tables, not_made = compose_tables(found, TABLES)
    figures, not_drawn = compose_figures(found, FIGURES)
    page = ReportIndex(
        about=NO_DOCUMENT,
        inputs=found,
        tables=tables,
        table_formats=["md", "csv", "latex"],
        figures=figures,
        pictures={figure.key: {"svg": SVG, "pdf": b"%PDF"} for figure in figures},
        facts={"command": "medhelm report <DIR>", "suite": board.suite},
        not_made={**not_made, **not_drawn},
    )
    return replace(page, **changes)  # type: ignore[arg-type]


def test_the_published_board_in_words() -> None:
    board = published()
    first, *rest = findings(board)
    start = "No winner: DeepSeek R1 ranks first (win rate 0.662), but cannot be separated from "
    assert first.startswith(start)
    assert all(name in first for name in ("o3-mini", "Claude 3.5 Sonnet", "Claude 3.7 Sonnet", "GPT-4o"))
    assert "Gemini 1.5" not in first
    assert "US dollars" not in " ".join(rest), "published costs are ceilings"
    assert f"{len(board.separated)} of 36 pairs of models differ significantly." in rest
    assert "reflect the choice of benchmarks" in rest[-1]
    assert to_markdown(page_of(board)).split("\n## ")[1].startswith("Verdict\n\n- ")


def test_a_few_significant_pairs_are_named() -> None:
    named = [text for text in findings(toy_board(3, 5)) if " is better than " in text]
    assert len(named) == len(toy_board(3, 5).separated) > 0
    assert all(re.search(r"macro averages differ by 0\.\d+ \[.*\], adjusted p <?0\.0", text) for text in named)
    assert not [text for text in findings(published()) if " is better than " in text and "differ by" in text]
    assert findings(toy_board(2, 8, n=60))[0].endswith("is significantly better than the other model.")
    assert "at least two models" in findings(toy_board(1, 2))[0]


def test_remarks_on_single_models_keep_the_name_of_the_model() -> None:
    board = toy_board(3, 5)
    name = board.rows[0].model
    text = f"{name}: 5 refusals on A, counted as the worst answer."
    noted = replace(board, remarks=(*board.remarks, Remark("failures_as_worst", name, text)))
    assert f"- {text}" in to_markdown(page_of(noted))


def test_hostile_names_end_no_row_and_start_no_tag() -> None:
    page = page_of(toy_board(5, 2, names=HOSTILE))
    text = to_markdown(page)
    assert not re.search(r"(?<!\\)<script", text)
    table = text[text.index("## Table 1") : text.index("## Table 3")]
    rows = [line for line in table.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 5
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    outline = HtmlPage(to_html(page))
    assert "script" not in outline.tags()
    assert "</text><script>alert(1)</script>" in outline.text
    assert "\u202e" not in to_html(page)


def test_html_is_whole_and_needs_nothing_else() -> None:
    page = page_of(published())
    text = to_html(page)
    outline = HtmlPage(text)
    assert "script" not in outline.tags() and "link" not in outline.tags()
    assert len(outline.values("src", "href")) == len(page.figures)
    assert all(address.startswith("data:image/svg+xml;base64,") for address in outline.values("src", "href"))
    assert "default-src 'none'" in text
    assert outline.tags().count("table") == len(page.tables)
    assert "DeepSeek R1 †" in outline.text and "0.662 [" in outline.text
