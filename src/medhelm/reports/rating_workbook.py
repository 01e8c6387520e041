"""A workbook for clinicians to rate completions in: one sheet to fill in, and one with the rubric."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from medhelm.analysis.agreement.rating_sample import DrawnCompletion, RatingSample

CELL = 32_000
"""Most characters of a cell: Excel refuses more than 32,767. Longer texts continue in further columns."""

TEXTS = ("prompt", "reference", "completion")
"""Columns with texts."""

WIDTHS: Mapping[str, int] = {"prompt": 60, "reference": 45, "completion": 60, "instance_id": 16, "benchmark": 16}


def rating_workbook(found: RatingSample, raters: Sequence[str], descriptions: Mapping[tuple[str, str], str]) -> bytes:
    """Return a workbook in which each rater has one row for each completion.

    The first sheet has the columns of a ratings file, and accepts only grades of the scale; no text is a formula or a
    link. `descriptions`: benchmark and criterion -> the question of the rubric.
    """
    from xlsxwriter import Workbook

    content = io.BytesIO()
    options = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False, "in_memory": True}
    with Workbook(content, options) as workbook:
        _write_ratings(workbook, found, raters)
        _write_rubric(workbook, found, descriptions)
    return content.getvalue()


def _parts(text: str) -> list[str]:
    """Return a text in parts that fit into a cell."""
    return [text[start : start + CELL] for start in range(0, len(text), CELL)] or [""]


def _texts(one: DrawnCompletion) -> dict[str, list[str]]:
    texts = (one.prompt, "\n\n".join(one.references), one.completion)
    return {name: _parts(text) for name, text in zip(TEXTS, texts, strict=True)}


def _write_ratings(workbook: Any, found: RatingSample, raters: Sequence[str]) -> None:
    """Write the sheet to fill in."""
    sheet = workbook.add_worksheet("Ratings")
    head, wrapped = workbook.add_format({"bold": True}), workbook.add_format({"text_wrap": True, "valign": "top"})
    to_fill = workbook.add_format({"bg_color": "#FFF7D6", "border": 1, "valign": "top"})
    unused = workbook.add_format({"bg_color": "#DDDDDD"})
    texts = [_texts(one) for one in found.completions]
    n_parts = {name: max((len(one[name]) for one in texts), default=1) for name in TEXTS}
    columns = ["rater", "benchmark", "instance_id", "model"]
    columns += [name if n == 0 else f"{name} (continued {n})" for name in TEXTS for n in range(n_parts[name])]
    columns += [*found.criteria, "probability"]
    for place, name in enumerate(columns):
        sheet.write_string(0, place, name, head)
        sheet.set_column(place, place, WIDTHS.get(name.partition(" (")[0], 12))
    first = len(columns) - 1 - len(found.criteria)
    number = 0
    for rater in raters:
        for one, own in zip(found.completions, texts, strict=True):
            number += 1
            cells = [rater, one.benchmark, one.instance_id, one.model]
            for name in TEXTS:
                cells += [*own[name], *[""] * (n_parts[name] - len(own[name]))]
            for place, text in enumerate(cells):
                sheet.write_string(number, place, text, wrapped)
            for place, criterion in enumerate(found.criteria, first):
                scale = found.scales.get((one.benchmark, criterion))
                sheet.write_blank(number, place, None, to_fill if scale else unused)
                if scale:
                    sheet.data_validation(number, place, number, place, _validation(*scale[:2]))
            sheet.write_number(number, len(columns) - 1, one.probability)
    sheet.freeze_panes(1, 4)
    sheet.autofilter(0, 0, number, len(columns) - 1)


def _validation(low: float, high: float) -> dict[str, Any]:
    """Return the rule of a cell that accepts a grade."""
    return {
        "validate": "decimal",
        "criteria": "between",
        "minimum": low,
        "maximum": high,
        "error_title": "Not on the scale",
        "error_message": f"Write a number from {low:g} to {high:g}, or leave the cell empty.",
    }


def _write_rubric(workbook: Any, found: RatingSample, descriptions: Mapping[tuple[str, str], str]) -> None:
    """Write the sheet with the rubric and its scale."""
    sheet = workbook.add_worksheet("Rubric")
    head, wrapped = workbook.add_format({"bold": True}), workbook.add_format({"text_wrap": True, "valign": "top"})
    sheet.write_string(0, 0, "Give each completion a grade on each criterion. Leave a cell empty if you cannot say.")
    for place, name in enumerate(("benchmark", "criterion", "question", "lowest grade", "highest grade", "best grade")):
        sheet.write_string(2, place, name, head)
        sheet.set_column(place, place, 70 if name == "question" else 18)
    for number, ((benchmark, criterion), (low, high, is_good)) in enumerate(found.scales.items(), 3):
        texts = (benchmark, criterion, descriptions.get((benchmark, criterion), ""))
        for place, text in enumerate(texts):
            sheet.write_string(number, place, text[:CELL], wrapped)
        for place, grade in enumerate((low, high, high if is_good else low), len(texts)):
            sheet.write_number(number, place, grade)
