"""Workbook for clinicians to rate completions in: one sheet to fill in, and one with the rubric."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from medhelm.analysis.agreement.calibration import DrawnCompletion, RatingSample
from medhelm.io.spreadsheets import cell_parts, is_formula

TEXTS = ("prompt", "reference", "completion")
"""Columns with texts."""

WIDTHS: Mapping[str, int] = {"prompt": 60, "reference": 45, "completion": 60, "instance_id": 16, "benchmark": 16}


def rating_workbook(found: RatingSample, raters: Sequence[str], descriptions: Mapping[tuple[str, str], str]) -> bytes:
    """Return a workbook in which each rater has one row for each completion.

    The first sheet has the columns of a ratings file, and accepts only grades of the scale. Texts that are too long for
    a cell continue in further columns. No text is a link or a formula, or becomes one when it is edited.
    `descriptions`: benchmark and criterion -> the question of the rubric.
    """
    from xlsxwriter import Workbook

    content = io.BytesIO()
    options = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False, "in_memory": True}
    with Workbook(content, options) as workbook:
        _write_ratings(workbook, found, raters)
        _write_rubric(workbook, found, descriptions)
    return content.getvalue()


def _texts(one: DrawnCompletion) -> dict[str, list[str]]:
    texts = (one.prompt, "\n\n".join(one.references), one.completion)
    return {name: cell_parts(text) for name, text in zip(TEXTS, texts, strict=True)}


def _write_ratings(workbook: Any, found: RatingSample, raters: Sequence[str]) -> None:
    """Write the sheet to fill in."""
    sheet = workbook.add_worksheet("Ratings")
    head, write = workbook.add_format({"bold": True}), _text_writer(workbook, sheet)
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
            cells = [cell_parts(text)[0] for text in (rater, one.benchmark, one.instance_id, one.model)]
            for name in TEXTS:
                cells += [*own[name], *[""] * (n_parts[name] - len(own[name]))]
            for place, text in enumerate(cells):
                write(number, place, text)
            for place, criterion in enumerate(found.criteria, first):
                scale = found.scales.get((one.benchmark, criterion))
                sheet.write_blank(number, place, None, to_fill if scale else unused)
                if scale:
                    sheet.data_validation(number, place, number, place, _validation(*scale[:2]))
            sheet.write_number(number, len(columns) - 1, one.probability)
    sheet.freeze_panes(1, 4)
    sheet.autofilter(0, 0, number, len(columns) - 1)


def _text_writer(workbook: Any, sheet: Any) -> Callable[[int, int, str], None]:
    """Return a function that writes a text into a cell. A formula is marked, so that editing does not activate it."""
    look = {"text_wrap": True, "valign": "top"}
    plain, marked = workbook.add_format(look), workbook.add_format({**look, "quote_prefix": True})

    def write(row: int, column: int, text: str) -> None:
        sheet.write_string(row, column, text, marked if is_formula(text) else plain)

    return write


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
    head, write = workbook.add_format({"bold": True}), _text_writer(workbook, sheet)
    sheet.write_string(0, 0, "Give each completion a grade on each criterion. Leave a cell empty if you cannot say.")
    for place, name in enumerate(("benchmark", "criterion", "lowest grade", "highest grade", "best grade", "question")):
        sheet.write_string(2, place, name, head)
        sheet.set_column(place, place, 70 if name == "question" else 18)
    for number, ((benchmark, criterion), (low, high, is_good)) in enumerate(found.scales.items(), 3):
        write(number, 0, benchmark)
        write(number, 1, criterion)
        for place, grade in enumerate((low, high, high if is_good else low), 2):
            sheet.write_number(number, place, grade)
        for place, text in enumerate(cell_parts(descriptions.get((benchmark, criterion), "")), 5):
            write(number, place, text)
