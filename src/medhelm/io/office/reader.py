"""Reads workbooks and Word documents. Both are zip archives, which are checked before they are read."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.domain import Source
from medhelm.domain.grouping import group_by
from medhelm.domain.text import plural
from medhelm.errors import DataError, suggestion
from medhelm.io.files import check_file, check_zip
from medhelm.io.office.sheet_markup import CellRange, SheetMarkup, cell_name, column_number, read_markup
from medhelm.io.rows import HEAD_ROWS, BrokenCell, PlacedRow, Row, header, header_position, is_error, plain

if TYPE_CHECKING:
    from docx.text.paragraph import Paragraph
    from python_calamine import CalamineSheet, CalamineWorkbook

_RED = "FF0000"
_PLACE = re.compile(rb' r="([A-Z]{2,3}|)(\d{1,7})"')
"""Position of a row or cell in the XML of a sheet; cells of the first 26 columns are skipped."""
_LONGEST_PLACE = 20
_MOST_CELLS = 100_000_000
"""Maximum number of cells in a sheet, including empty ones: about 3 GB."""
_READ_SIZE = 1 << 22
_SHOWN = 5
_BROKEN = (
    AttributeError,
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)
"""Exceptions that the libraries raise for damaged files; malformed XML is a SyntaxError."""


def read_xlsx(path: Path, source: Source) -> Iterator[Row]:
    """Yield each row of a sheet that is not empty, below the header. Columns without a name are left out."""
    rows = read_sheet(path, source)
    names = header([str(name) for name in next(rows, (0, []))[1]], path)
    for number, cells in rows:
        named = ((name, cell) for name, cell in zip(names, cells, strict=False) if name)
        yield PlacedRow(named, f"row {number}")


def read_sheet(path: Path, source: Source) -> Iterator[tuple[int, list[object]]]:
    """Yield the header of a sheet and the rows below it that are not empty, each with its number in the sheet.

    The sheet is `source.sheet`, or the first visible one. The header is `source.header_row`, or the first row that is
    not a title. Cells that are merged in one column all hold its text. A cell with an error, or a formula without a
    stored value, is a `BrokenCell`. Raises DataError for an empty sheet if the workbook has others and none was named,
    and for cells that are merged over several columns.
    """
    with _open_workbook(path, "Save it as .xlsx, without a password; text needs `kind: csv`.") as workbook:
        shown = _visible_sheets(workbook)
        sheet = _sheet_name(workbook, source, path)
        table = workbook.get_sheet_by_name(sheet)
        markup = _markup(path, table, sheet)
    numbered: Iterator[tuple[int, list[object]]] = (
        (row + 1, cells)
        for row, cells in enumerate(_rows(table, markup, sheet))
        if row + 1 >= (source.header_row or 1) and not all(cell == "" for cell in cells)
    )
    head = list(islice(numbered, HEAD_ROWS))
    if not source.header_row:
        place = header_position([cells for _, cells in head])
        while place + 2 < len(head) and _is_heading_of_groups(
            head[place], head[place + 1], markup, _left(table, markup)
        ):
            place += 1
        head = head[place:]
    if len(head) < 2 and len(shown) > 1 and not source.sheet:
        others = ", ".join(f"`{name}`" for name in shown[1:])
        raise DataError(f"{path}: the first sheet, `{sheet}`, has no rows below a header. Name another: {others}.")
    wide = group_by((one for one in markup.merged if one.is_wide), lambda one: one.first_row + 1)
    for number, cells in chain(head, numbered):
        for merged in wide.get(number, ()) if number > head[0][0] else ():
            what = f"{path}: the cells {merged} of the sheet `{sheet}`"
            _refuse_wide(merged, cells, head[0][1], _left(table, markup), what)
        yield number, cells


def sheet_remarks(path: Path, source: Source) -> list[str]:
    """Describe, in sentences, what of a workbook a person may not expect: hidden rows and sheets, merged cells."""
    rows = read_sheet(path, source)
    first = next(rows, (0, []))[0]
    with _open_workbook(path, "Save it as .xlsx, without a password.") as workbook:
        sheet = _sheet_name(workbook, source, path)
        is_hidden = sheet not in _visible_sheets(workbook)
        markup = _markup(path, workbook.get_sheet_by_name(sheet), sheet)
    place = f"the sheet `{sheet}`"
    hidden = [f"{row + 1}" for row in sorted(markup.hidden_rows) if row >= first]
    filled = [str(one) for one in markup.merged if one.first_row >= first and not one.is_wide]
    broken = [cell_name(row, column) for row in markup.broken if row >= first for column in markup.broken[row]]
    remarks = [f"{place} is hidden"] if is_hidden else []
    if hidden:
        remarks.append(f"{place} has {plural(len(hidden), 'hidden row')}, read like the others: {_first_few(hidden)}")
    if filled:
        remarks.append(f"{place} has merged cells, each filled with the text of the first: {_first_few(filled)}")
    if broken:
        remarks.append(f"{place} has errors, or formulas without stored values: {_first_few(broken)}")
    if not zipfile.is_zipfile(path):
        remarks.append("hidden rows and errors of an .xls file are not seen: save it as .xlsx")
    return remarks


def _first_few(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


def _visible_sheets(workbook: CalamineWorkbook) -> list[str]:
    """Return the names of the sheets that a person sees; of all, if none is visible."""
    from python_calamine import SheetTypeEnum, SheetVisibleEnum

    tables = [one for one in workbook.sheets_metadata if one.typ == SheetTypeEnum.WorkSheet]
    return [one.name for one in tables if one.visible == SheetVisibleEnum.Visible] or workbook.sheet_names


def _sheet_name(workbook: CalamineWorkbook, source: Source, path: Path) -> str:
    """Return the sheet of a source. Raises: DataError if there is none of its name."""
    if source.sheet and source.sheet not in workbook.sheet_names:
        raise DataError(
            f"{path}: the file has no sheet `{source.sheet}`. {suggestion(source.sheet, workbook.sheet_names)}"
        )
    return source.sheet or _visible_sheets(workbook)[0]


def _markup(path: Path, table: CalamineSheet, sheet: str) -> SheetMarkup:
    found = read_markup(path, sheet)
    found.merged += [CellRange(*first, *last) for first, last in table.merged_cell_ranges or ()]
    return found


def _left(table: CalamineSheet, markup: SheetMarkup) -> int:
    """Return the first column with content, from 0. Cells that the library leaves out count too."""
    return min([table.start[1] if table.start else 0, *(min(cells) for cells in markup.broken.values())])


def _rows(table: CalamineSheet, markup: SheetMarkup, sheet: str) -> Iterator[list[object]]:
    """Yield the cells of every row from the top of a sheet, as a person sees them."""
    left = _left(table, markup)
    before = [""] * ((table.start[1] if table.start else left) - left)
    starting = group_by((one for one in markup.merged if not one.is_wide), lambda one: one.first_row)
    below: list[tuple[CellRange, object]] = []
    n_rows = max([table.end[0] + 1 if table.end else 0, *(row + 1 for row in markup.broken)])
    rows = table.iter_rows() if table.start else iter(())
    for row in range(n_rows):
        cells = [*before, *map(plain, next(rows, ()))]
        texts = {left + place: f"the error {cell}" for place, cell in enumerate(cells) if _is_error_text(cell)}
        for column, problem in {**texts, **markup.broken.get(row, {})}.items():
            cells += [""] * (column - left + 1 - len(cells))
            cells[column - left] = BrokenCell(f"cell {cell_name(row, column)} of the sheet `{sheet}`", problem)
        for merged, text in below:
            cells[merged.first_column - left] = text
        below = [(merged, text) for merged, text in below if merged.last_row > row]
        for merged in starting.get(row, ()):
            if left <= merged.first_column < left + len(cells):
                below.append((merged, cells[merged.first_column - left]))
        yield cells


def _is_error_text(cell: object) -> bool:
    return isinstance(cell, str) and is_error(cell)


def _is_heading_of_groups(
    row: tuple[int, list[object]], following: tuple[int, list[object]], markup: SheetMarkup, left: int
) -> bool:
    """Return True if a row has a merged cell above several names, such as `Options` above `A` and `B`."""
    under = [
        following[1][one.first_column - left : one.last_column - left + 1]
        for one in markup.merged
        if one.is_wide and one.first_row == row[0] - 1 and one.last_row < following[0] - 1 and one.first_column >= left
    ]
    return any(sum(cell != "" for cell in cells) > 1 for cells in under)


def _refuse_wide(merged: CellRange, cells: Sequence[object], names: Sequence[object], left: int, what: str) -> None:
    """Raise DataError for cells of a row that are merged over several columns, unless the row holds nothing else."""
    inside = range(merged.first_column - left, merged.last_column - left + 1)
    others = [cell for place, cell in enumerate(cells) if place not in inside and cell != ""]
    n_named = sum(names[place] != "" for place in inside if 0 <= place < len(names))
    if n_named > 1 and others and any(cell != "" for place, cell in enumerate(cells) if place in inside):
        raise DataError(
            f"{what} are merged over several columns, so their text belongs to no single one. Unmerge them."
        )


def fullest_sheet(path: Path) -> str:
    """Return the visible sheet with the most rows; empty if the workbook has one sheet."""
    with _open_workbook(path, "Save it as .xlsx, without a password.") as workbook:
        if len(workbook.sheet_names) == 1:
            return ""
        heights = {name: workbook.get_sheet_by_name(name).height for name in _visible_sheets(workbook)}
    return max(heights, key=lambda name: heights[name])


@contextmanager
def _open_workbook(path: Path, fix: str) -> Iterator[CalamineWorkbook]:
    """Open a workbook that fits in memory. Raises: DataError with `fix`, here or in the block."""
    from python_calamine import CalamineWorkbook

    with _readable(path, "a workbook", fix):
        check_file(path)
        if zipfile.is_zipfile(path):
            check_zip(path)
            _check_extent(path)
        with CalamineWorkbook.from_path(str(path)) as workbook:
            yield workbook


def read_docx(path: Path, _source: Source) -> Iterator[Row]:
    """Yield one row per paragraph: its text, and "true" in `red` if any part of it is pure red."""
    import docx
    from docx.opc.exceptions import OpcError

    with _readable(path, "a Word document", "Save it as .docx.", OpcError):
        check_zip(path)
        document = docx.Document(str(path))
        rows: list[Row] = [{"text": p.text, "red": "true" if _has_red(p) else ""} for p in document.paragraphs]
    yield from rows


def _has_red(paragraph: Paragraph) -> bool:
    colors = (run.font.color for run in paragraph.runs)
    return any(color is not None and str(color.rgb) == _RED for color in colors)


def _check_extent(path: Path) -> None:
    """Refuse sheets whose used range does not fit in memory. Raises: DataError."""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if not name.startswith("xl/worksheets/") or not name.endswith(".xml"):
                continue
            width, height, rest = 26, 1, b""
            with archive.open(name) as file:
                while chunk := file.read(_READ_SIZE):
                    for column, row in _PLACE.findall(rest + chunk):
                        width, height = max(width, column_number(column.decode())), max(height, int(row))
                    rest = chunk[-_LONGEST_PLACE:]
            if width * height > _MOST_CELLS:
                raise DataError(
                    f"{path}: {name} extends to column {width:,} and row {height:,}, which is too large for memory. "
                    "Delete the cells that are far from the others, or save the table as CSV."
                )


@contextmanager
def _readable(path: Path, what: str, fix: str, *errors: type[Exception]) -> Iterator[None]:
    """Convert a library's exceptions for damaged files in this block to DataError."""
    from python_calamine import CalamineError

    known: tuple[type[Exception], ...] = (*_BROKEN, *errors, CalamineError)
    try:
        yield
    except DataError:
        raise
    except known as error:
        words = str(error).strip().split("\n", 1)[0] or type(error).__name__
        raise DataError(f"{path}: cannot be read as {what} ({words}). {fix}") from None
