"""Reads workbooks and Word documents. Both are zip archives, which are checked before they are read."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.domain import Source
from medhelm.errors import DataError, suggestion
from medhelm.io.files import check_file, check_zip
from medhelm.io.rows import HEAD_ROWS, Row, header, header_position, plain

if TYPE_CHECKING:
    from docx.text.paragraph import Paragraph
    from python_calamine import CalamineWorkbook

_RED = "FF0000"
_PLACE = re.compile(rb' r="([A-Z]{2,3}|)(\d{1,7})"')
"""Position of a row or cell in the XML of a sheet; cells of the first 26 columns are skipped."""
_LONGEST_PLACE = 20
_MOST_CELLS = 100_000_000
"""Maximum number of cells in a sheet, including empty ones: about 3 GB."""
_CHUNK = 1 << 22
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
    for _, cells in rows:
        yield {name: cell for name, cell in zip(names, cells, strict=False) if name}


def read_sheet(path: Path, source: Source) -> Iterator[tuple[int, list[object]]]:
    """Yield the header of a sheet and the rows below it that are not empty, each with its number in the sheet.

    The header is `source.header_row`, or the first row that is not a title. Raises DataError for an empty sheet if the
    workbook has others and none was named.
    """
    with _open_workbook(path, "Save it as .xlsx, without a password; text needs `kind: csv`.") as workbook:
        names = workbook.sheet_names
        sheet = source.sheet or names[0]
        if sheet not in names:
            raise DataError(f"{path}: the file has no sheet `{sheet}`. {suggestion(sheet, names)}")
        table = workbook.get_sheet_by_name(sheet)
    numbered: Iterator[tuple[int, list[object]]] = (
        (number, [plain(cell) for cell in cells])
        for number, cells in enumerate(table.iter_rows(), 1)
        if number >= (source.header_row or 1) and not all(cell == "" for cell in cells)
    )
    head = list(islice(numbered, HEAD_ROWS))
    if not source.header_row:
        head = head[header_position([cells for _, cells in head]) :]
    if len(head) < 2 and len(names) > 1 and not source.sheet:
        others = ", ".join(f"`{name}`" for name in names[1:])
        raise DataError(f"{path}: the first sheet, `{sheet}`, has no rows below a header. Name another: {others}.")
    yield from chain(head, numbered)


def fullest_sheet(path: Path) -> str:
    """Return the sheet with the most rows; empty if the workbook has one sheet."""
    with _open_workbook(path, "Save it as .xlsx, without a password.") as workbook:
        names = workbook.sheet_names
        heights = {name: workbook.get_sheet_by_name(name).height for name in names} if len(names) > 1 else {"": 0}
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
                while chunk := file.read(_CHUNK):
                    for column, row in _PLACE.findall(rest + chunk):
                        width, height = max(width, _column_number(column)), max(height, int(row))
                    rest = chunk[-_LONGEST_PLACE:]
            if width * height > _MOST_CELLS:
                raise DataError(
                    f"{path}: {name} extends to column {width:,} and row {height:,}, which is too large for memory. "
                    "Delete the cells that are far from the others, or save the table as CSV."
                )


def _column_number(column: bytes) -> int:
    """Convert the letters of a column to its number: A is 1, AA is 27."""
    number = 0
    for letter in column:
        number = 26 * number + letter - ord("A") + 1
    return number


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
