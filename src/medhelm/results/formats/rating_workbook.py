"""Workbooks for clinicians to fill in: their cells, and the workbook with completions to rate.

No text is a link or a formula, or becomes one when it is edited. Only cells to fill in can be changed: the sheets are
protected, without a password. The file's properties tell neither who wrote it nor when.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from medhelm.analysis.agreement.calibration import DrawnCompletion, RatingSample
from medhelm.io.spreadsheets import cell_parts, is_formula

# --- sheets to fill in ------------------------------------------------------------------------------------------------

_NO_DATE = datetime(2000, 1, 1)
"""Date of every workbook."""

_MOST_LISTED, _MOST_TITLE, _MOST_HINT = 255, 32, 255
"""Most characters that Excel takes of a list of choices, and of the title and the text of a hint."""

_PROTECTION = {"format_columns": True, "format_rows": True, "autofilter": True, "sort": True}
"""Actions that a protected sheet allows, besides filling in cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerCell:
    """A cell to fill in."""

    rule: Mapping[str, Any] | None = None
    """Rule for its content, as of `number_rule` or `choice_rule`; None for any text."""
    title: str = ""
    """Heading of the hint that is shown while the cell is selected."""
    hint: str = ""
    """Text of the hint; Excel shows 255 characters."""
    value: str | float | None = None
    """Content; None for an empty cell."""


FormCell: TypeAlias = str | float | AnswerCell | None
"""A text, a number, a cell to fill in, or None for a cell without use, which is gray."""


@contextmanager
def new_workbook(content: io.BytesIO) -> Iterator[Any]:
    """Write the workbook of this block into `content`."""
    from xlsxwriter import Workbook

    options = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False, "in_memory": True}
    with Workbook(content, options) as workbook:
        workbook.set_properties({"created": _NO_DATE})
        yield workbook


def write_form(
    workbook: Any, name: str, widths: Mapping[str, int], rows: Iterable[Sequence[FormCell]], *, n_frozen: int = 0
) -> Any:
    """Write a sheet with a header, and return it.

    Parameters: widths, name of each column -> its width in characters; rows, each with a cell for each column;
    n_frozen, columns on the left that stay in view.
    """
    sheet = workbook.add_worksheet(name)
    head, write = workbook.add_format({"bold": True, "text_wrap": True, "valign": "top"}), _cell_writer(workbook, sheet)
    for place, (title, width) in enumerate(widths.items()):
        sheet.write_string(0, place, title, head)
        sheet.set_column(place, place, width)
    number = 0
    for number, cells in enumerate(rows, 1):
        for place, cell in enumerate(cells):
            write(number, place, cell)
    sheet.freeze_panes(1, n_frozen)
    sheet.autofilter(0, 0, number, max(len(widths) - 1, 0))
    sheet.protect("", _PROTECTION)
    sheet.set_landscape()
    sheet.fit_to_pages(1, 0)
    sheet.repeat_rows(0)
    return sheet


def number_rule(low: float, high: float) -> dict[str, Any]:
    """Return the rule of a cell that accepts numbers from `low` to `high`."""
    return {
        "validate": "decimal",
        "criteria": "between",
        "minimum": low,
        "maximum": high,
        "error_title": "Not on the scale",
        "error_message": f"Write a number from {low:g} to {high:g}, or leave the cell empty.",
    }


def choice_rule(choices: Sequence[str]) -> dict[str, Any] | None:
    """Return the rule of a cell that accepts these texts; None if Excel cannot list them."""
    if any("," in choice for choice in choices) or len(",".join(choices)) > _MOST_LISTED:
        return None
    return {
        "validate": "list",
        "source": list(choices),
        "error_title": "Not one of the choices",
        "error_message": "Choose from the list, or leave the cell empty.",
    }


def _cell_writer(workbook: Any, sheet: Any) -> Callable[[int, int, FormCell], None]:
    """Return a function that writes a cell. A formula is marked, so that editing does not activate it."""
    look = {"text_wrap": True, "valign": "top"}
    plain, marked = workbook.add_format(look), workbook.add_format({**look, "quote_prefix": True})
    to_fill = {**look, "bg_color": "#FFF7D6", "border": 1, "locked": False}
    to_choose, unused = workbook.add_format(to_fill), workbook.add_format({"bg_color": "#DDDDDD"})
    to_write = workbook.add_format({**to_fill, "num_format": "@"})  # text that begins with a dash is no formula

    def write(row: int, column: int, cell: FormCell) -> None:
        look, value = plain, cell
        if isinstance(cell, AnswerCell):
            look, value = to_choose if cell.rule else to_write, cell.value
            hint = {"input_title": cell.title[:_MOST_TITLE], "input_message": cell.hint[:_MOST_HINT]}
            if cell.rule or cell.hint:
                sheet.data_validation(row, column, row, column, {**(cell.rule or {"validate": "any"}), **hint})
        if value is None:
            sheet.write_blank(row, column, None, look if cell is not None else unused)
        elif isinstance(value, str):
            value = cell_parts(value)[0]
            sheet.write_string(row, column, value, marked if look is plain and is_formula(value) else look)
        else:
            sheet.write_number(row, column, value, look)

    return write


# --- completions to rate ----------------------------------------------------------------------------------------------

TEXTS = ("prompt", "reference", "completion")
"""Columns with texts."""

WIDTHS: Mapping[str, int] = {"prompt": 60, "reference": 45, "completion": 60, "instance_id": 16, "benchmark": 16}

_INSTRUCTIONS = (
    "Fill in the yellow cells of the sheet Ratings: a grade for each completion on each criterion.",
    "The sheet Rubric has the question of each criterion and its scale. Leave a cell empty if you cannot say.",
    "Rate on your own, in any order. Save the file as .xlsx.",
)


def rating_workbook(found: RatingSample, raters: Sequence[str], descriptions: Mapping[tuple[str, str], str]) -> bytes:
    """Return a workbook in which each rater has one row for each completion.

    The first sheet has the columns of a ratings file, and accepts only grades of the scale. Texts that are too long for
    a cell continue in further columns. `descriptions`: benchmark and criterion -> the question of the rubric.
    """
    content = io.BytesIO()
    with new_workbook(content) as workbook:
        _write_ratings(workbook, found, raters)
        _write_rubric(workbook, found, descriptions)
        write_form(workbook, "Instructions", {"How to rate": 100}, [[line] for line in _INSTRUCTIONS])
    return content.getvalue()


def _texts(one: DrawnCompletion) -> dict[str, list[str]]:
    texts = (one.prompt, "\n\n".join(one.references), one.completion)
    return {name: cell_parts(text) for name, text in zip(TEXTS, texts, strict=True)}


def _write_ratings(workbook: Any, found: RatingSample, raters: Sequence[str]) -> None:
    """Write the sheet to fill in."""
    texts = [_texts(one) for one in found.completions]
    n_parts = {name: max((len(one[name]) for one in texts), default=1) for name in TEXTS}
    columns = ["rater", "benchmark", "instance_id", "model"]
    columns += [name if n == 0 else f"{name} (continued {n})" for name in TEXTS for n in range(n_parts[name])]
    columns += [*found.criteria, "probability"]

    def cells(rater: str, one: DrawnCompletion, own: Mapping[str, list[str]]) -> Iterator[FormCell]:
        yield AnswerCell(value=rater, title="rater", hint="Write the same name in all of your rows.")
        yield from (cell_parts(text)[0] for text in (one.benchmark, one.instance_id, one.model))
        for name in TEXTS:
            yield from [*own[name], *[""] * (n_parts[name] - len(own[name]))]
        for criterion in found.criteria:
            scale = found.scales.get((one.benchmark, criterion))
            yield AnswerCell(rule=number_rule(*scale[:2])) if scale else None
        yield one.probability

    rows = (list(cells(rater, *pair)) for rater in raters for pair in zip(found.completions, texts, strict=True))
    widths = {name: WIDTHS.get(name.partition(" (")[0], 12) for name in columns}
    write_form(workbook, "Ratings", widths, rows, n_frozen=4)


def _write_rubric(workbook: Any, found: RatingSample, descriptions: Mapping[tuple[str, str], str]) -> None:
    """Write the sheet with the rubric and its scale."""
    asked = {key: cell_parts(descriptions.get(key, "")) for key in found.scales}
    n_parts = max(map(len, asked.values()), default=1)
    widths = dict.fromkeys(("benchmark", "criterion", "lowest grade", "highest grade", "best grade"), 18)
    widths |= {"question" if n == 0 else f"question (continued {n})": 70 for n in range(n_parts)}
    rows: list[Sequence[FormCell]] = [
        [*key, low, high, high if is_good else low, *asked[key], *[""] * (n_parts - len(asked[key]))]
        for key, (low, high, is_good) in found.scales.items()
    ]
    write_form(workbook, "Rubric", widths, rows)
