"""Reads what python-calamine leaves out of a sheet: errors, formulas without stored values, and hidden rows.

Both are in the XML of .xlsx, .xlsm and .ods files. An .xls file is binary: only its merged cells are known here.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from medhelm.io.xml_reader import XmlTarget, parse_into, parse_xml

NO_VALUE = "a formula without a stored value"
"""Problem of a cell whose program never computed it."""

_NOTABLE = re.compile(rb"""\bt=["']e["']|\bhidden=|[<:]f[\s/>]""")
"""Markup of an error, a hidden row or a formula; most sheets have none, and are not parsed."""
_LONGEST_NOTABLE = 10
_CHUNK = 1 << 22


class CellRange(NamedTuple):
    """Merged cells. All positions count from 0 and are included."""

    first_row: int
    first_column: int
    last_row: int
    last_column: int

    @property
    def is_wide(self) -> bool:
        """True if it covers several columns."""
        return self.last_column > self.first_column

    def __str__(self) -> str:
        """Name the range as a spreadsheet does, such as `B2:B3`."""
        return f"{cell_name(self.first_row, self.first_column)}:{cell_name(self.last_row, self.last_column)}"


@dataclass(slots=True)
class SheetMarkup:
    """Properties of a sheet that its cells do not tell. All positions count from 0."""

    broken: dict[int, dict[int, str]] = field(default_factory=lambda: defaultdict(dict))
    """Row -> column -> problem, such as `the error #REF!`."""
    hidden_rows: set[int] = field(default_factory=set)
    """Rows with content that a person does not see: hidden, or left out by a filter."""
    merged: list[CellRange] = field(default_factory=list)
    """Merged cells."""


def cell_name(row: int, column: int) -> str:
    """Return the name of a cell; both positions count from 0.

    >>> cell_name(0, 0), cell_name(9, 27)
    ('A1', 'AB10')
    """
    letters = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return f"{letters}{row + 1}"


def read_markup(path: Path, sheet: str) -> SheetMarkup:
    """Read the markup of a sheet; without merged cells, unless the file is .ods. Nothing is known of an .xls file.

    Raises: DataError for XML that is not well-formed; KeyError for a file without the parts of a workbook.
    """
    found = SheetMarkup()
    if not zipfile.is_zipfile(path):
        return found
    with zipfile.ZipFile(path) as archive:
        is_open_document = "content.xml" in archive.namelist()
        part = "content.xml" if is_open_document else _worksheet_part(archive, sheet)
        if is_open_document or _is_notable(archive, part):
            target: XmlTarget = _OpenDocumentSheet(found, sheet) if is_open_document else _Worksheet(found)
            with archive.open(part) as file:
                parse_into(target, file, f"{path}, {part}")
    return found


def _worksheet_part(archive: zipfile.ZipFile, sheet: str) -> str:
    """Return the part of an .xlsx file that holds a sheet."""
    sheets = [entry for entry in parse_xml(archive.read("xl/workbook.xml")).iter() if _local(entry.tag) == "sheet"]
    (wanted,) = {
        value for one in sheets for key, value in one.items() if one.get("name") == sheet and key[-3:] == ":id"
    }
    relations = parse_xml(archive.read("xl/_rels/workbook.xml.rels"))
    target = {entry.get("Id"): entry.get("Target", "") for entry in relations}[wanted]
    return posixpath.normpath(posixpath.join("/xl", target)).lstrip("/")


def _is_notable(archive: zipfile.ZipFile, part: str) -> bool:
    rest = b""
    with archive.open(part) as file:
        while chunk := file.read(_CHUNK):
            if _NOTABLE.search(rest + chunk):
                return True
            rest = chunk[-_LONGEST_NOTABLE:]
    return False


def _error(text: str) -> str:
    return f"the error {text}" if text else "an error"


def _local(name: str) -> str:
    """Return a name without its prefix."""
    return name.rpartition(":")[2]


class _Worksheet(XmlTarget):
    """Receives the elements of a sheet of an .xlsx file."""

    def __init__(self, found: SheetMarkup) -> None:
        self._found = found
        self._row = self._column = -1
        self._is_hidden = self._has_formula = self._in_value = False
        self._kind = self._value = ""

    def start(self, name: str, attributes: Mapping[str, str], /) -> None:
        match _local(name):
            case "row":
                self._row = int(attributes.get("r", self._row + 2)) - 1
                self._column = -1
                self._is_hidden = attributes.get("hidden", "0") in ("1", "true")
            case "c":
                letters = attributes.get("r", "").rstrip("0123456789")
                self._column = column_number(letters) - 1 if letters else self._column + 1
                self._kind, self._value, self._has_formula = attributes.get("t", ""), "", False
            case "f":
                self._has_formula = True
            case "v" | "t":
                self._in_value = True

    def data(self, text: str, /) -> None:
        if self._in_value:
            self._value += text

    def end(self, name: str, /) -> None:
        match _local(name):
            case "v" | "t":
                self._in_value = False
            case "c":
                has_no_value = not self._value and self._kind not in ("str", "inlineStr")  # these can be empty texts
                if self._kind == "e":
                    self._found.broken[self._row][self._column] = _error(self._value)
                elif self._has_formula and has_no_value:
                    self._found.broken[self._row][self._column] = NO_VALUE
                if self._is_hidden and (self._value or self._has_formula):
                    self._found.hidden_rows.add(self._row)


class _OpenDocumentSheet(XmlTarget):
    """Receives the elements of an .ods file, and keeps those of one sheet."""

    def __init__(self, found: SheetMarkup, sheet: str) -> None:
        self._found, self._sheet = found, sheet
        self._is_wanted = self._is_hidden = self._is_error = False
        self._row = self._column = -1
        self._rows = self._columns = 1
        self._text = ""

    def start(self, name: str, attributes: Mapping[str, str], /) -> None:
        own = {_local(key): value for key, value in attributes.items()}
        match _local(name):
            case "table":
                self._is_wanted, self._row = own.get("name") == self._sheet, -1
            case "table-row":
                self._row, self._column = self._row + 1, -1
                self._rows = int(own.get("number-rows-repeated", 1))
                self._is_hidden = own.get("visibility", "visible") != "visible"
            case "table-cell" | "covered-table-cell" if self._is_wanted:
                self._column += 1
                self._columns = int(own.get("number-columns-repeated", 1))
                types = [value for key, value in attributes.items() if _local(key) == "value-type"]
                self._start_cell(own, has_value=bool(types), is_error="error" in types)

    def _start_cell(self, own: Mapping[str, str], *, has_value: bool, is_error: bool) -> None:
        rows, columns = int(own.get("number-rows-spanned", 1)), int(own.get("number-columns-spanned", 1))
        if rows > 1 or columns > 1:
            last = (self._row + rows - 1, self._column + columns - 1)
            self._found.merged.append(CellRange(self._row, self._column, *last))
        self._is_error, self._text = is_error, ""
        if "formula" in own and not has_value:
            self._found.broken[self._row][self._column] = NO_VALUE
        if self._is_hidden and has_value:
            self._found.hidden_rows.add(self._row)

    def data(self, text: str, /) -> None:
        if self._is_error:
            self._text += text

    def end(self, name: str, /) -> None:
        match _local(name):
            case "table-row":
                self._row += self._rows - 1
            case "table-cell" | "covered-table-cell" if self._is_wanted:
                if self._is_error:
                    self._found.broken[self._row][self._column] = _error(self._text.strip())
                self._column, self._is_error = self._column + self._columns - 1, False


def column_number(letters: str) -> int:
    """Convert the letters of a column to its number: A is 1, AA is 27."""
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number
