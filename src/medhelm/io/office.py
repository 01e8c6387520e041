"""Reads workbooks, Word documents and XML files. Zip archives among them are checked before they are read."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, Protocol
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from medhelm.domain import Source
from medhelm.domain.benchmark import group_by
from medhelm.domain.text import plural
from medhelm.errors import DataError, suggestion
from medhelm.io.files import check_file, check_zip, open_bytes
from medhelm.io.rows import HEAD_ROWS, BrokenCell, PlacedRow, Row, header, header_position, is_error, plain

if TYPE_CHECKING:
    from docx.text.paragraph import Paragraph
    from python_calamine import CalamineSheet, CalamineWorkbook


# --- workbooks and Word documents -------------------------------------------------------------------------------------

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


class WorkbookSheet(NamedTuple):
    """All cells of a sheet."""

    name: str
    """Name of the sheet."""
    rows: list[list[object]]
    """The cells of every row, from cell A1 on, as in `read_sheet`; rows can differ in length."""
    merged: list[CellRange]
    """Merged cells."""


def read_sheets(path: Path) -> list[WorkbookSheet]:
    """Return all sheets of a workbook, hidden ones included. Raises: DataError."""
    with _open_workbook(path, "Save it as .xlsx, without a password.") as workbook:
        found = []
        for name in workbook.sheet_names:
            table = workbook.get_sheet_by_name(name)
            markup = _markup(path, table, name)
            left: list[object] = [""] * _left(table, markup)
            rows = [[*left, *cells] for cells in _rows(table, markup, name)]
            found.append(WorkbookSheet(name, rows, markup.merged))
    return found


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


# --- XML --------------------------------------------------------------------------------------------------------------
# Reads XML safely: element by element, without entity definitions or external references.

_XML_CHUNK = 1 << 16
_DEEPEST = 200
"""Maximum nesting depth. Documents of clinical notes reach 10."""
_NAMES_KEPT = 200

OWN_TEXT = "#text"
"""Key of an element's own text, if it also has attributes or child elements."""
ATTRIBUTE = "@"
"""Prefix of the keys of attributes."""


def read_xml(path: Path, source: Source) -> Iterator[Row]:
    """Yield one row per element named by `source.rows`, a name or path such as `List/Answer`, or per child of the root.

    Attributes become `@NAME`. A child element becomes a text if it contains only text, else a mapping; elements with
    the same name become a list. The element's own text becomes `#text`, unless it is white space between elements.
    Names keep their prefix. A matching element inside another matching element is part of it, not a row.
    """
    collector = _Rows(tuple(source.rows.split("/")) if source.rows else ())
    parser = _parser(str(path), collector)
    with open_bytes(path) as file:
        for _ in _feed(parser, file, str(path)):
            yield from collector.take_rows()
    if source.rows and not collector.found:
        help_ = suggestion(collector.wanted[-1], collector.names)
        raise DataError(f"{path}: `rows: {source.rows}` matches no element. {help_}".rstrip())


def parse_xml(text_or_path: str | bytes | Path) -> Element:
    """Parse an XML document, given as text, bytes or file (which may end in `.gz`), and return its root element.

    Raises: FileNotFoundError; DataError with the line if it is not well formed, defines entities or nests too deeply.
    """
    place, encoding = "the XML text", None
    builder = TreeBuilder()
    if isinstance(text_or_path, Path):
        place, file = str(text_or_path), open_bytes(text_or_path)
    elif isinstance(text_or_path, bytes):
        file = io.BytesIO(text_or_path)
    else:
        # The encoding declaration does not apply to text that is already decoded.
        encoding, file = "utf-8", io.BytesIO(text_or_path.encode())
    with file:
        for _ in _feed(_parser(place, builder, encoding), file, place):
            pass
    return builder.close()


def parse_into(target: XmlTarget, file: IO[bytes], place: str) -> None:
    """Parse an XML document and pass its elements to `target`, in order. Names keep their prefix.

    Parameters: place, the document, for messages. Raises: DataError as `parse_xml`.
    """
    for _ in _feed(_parser(place, target), file, place):
        pass


class XmlTarget(Protocol):
    """Receives the events of a parser: `_Rows`, or the standard library's `TreeBuilder`."""

    def start(self, name: str, attributes: dict[str, str], /) -> object:
        """Handle the start of an element."""

    def data(self, text: str, /) -> object:
        """Handle text in the innermost element."""

    def end(self, name: str, /) -> object:
        """Handle the end of the innermost element."""


@dataclass(slots=True)
class _Node:
    """An open element within a row."""

    content: Row
    texts: list[str] = field(default_factory=list)
    n_elements: int = 0

    def value(self) -> object:
        """Convert the element to a value within its parent: a text or a mapping."""
        return self.row() if self.content else "".join(self.texts)

    def row(self) -> Row:
        """Convert the element to a row: always a mapping."""
        text = "".join(self.texts)
        if not self.content or (text if not self.n_elements else text.strip()):
            self.content[OWN_TEXT] = text
        return self.content

    def add(self, name: str, value: object) -> None:
        """Add a child element; elements with the same name become a list."""
        self.n_elements += 1
        if name not in self.content:
            self.content[name] = value
            return
        before = self.content[name]
        if isinstance(before, list):
            before.append(value)
        else:
            self.content[name] = [before, value]


class _Rows:
    """Collects the elements that are rows; of all others, only the current path is kept."""

    def __init__(self, wanted: Sequence[str]) -> None:
        self.wanted = tuple(wanted)
        self.found = False
        self.names: dict[str, None] = {}
        self._path: list[str] = []
        self._open: list[_Node] = []
        self._done: list[Row] = []

    def take_rows(self) -> list[Row]:
        """Return the rows completed since the last call."""
        done, self._done = self._done, []
        return done

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._path.append(name)
        if len(self.names) < _NAMES_KEPT:
            self.names[name] = None
        if self._open or self._is_row():
            self._open.append(_Node({f"{ATTRIBUTE}{key}": value for key, value in attributes.items()}))

    def data(self, text: str) -> None:
        if self._open:
            self._open[-1].texts.append(text)

    def end(self, name: str) -> None:
        self._path.pop()
        if not self._open:
            return
        node = self._open.pop()
        if self._open:
            self._open[-1].add(name, node.value())
        else:
            self.found = True
            self._done.append(node.row())

    def _is_row(self) -> bool:
        if not self.wanted:
            return len(self._path) == 2
        return tuple(self._path[-len(self.wanted) :]) == self.wanted


def _parser(place: str, target: XmlTarget, encoding: str | None = None) -> expat.XMLParserType:
    """Create a parser that passes events to `target` and refuses dangerous content."""
    parser = expat.ParserCreate(encoding)
    parser.buffer_text = True
    depth = 0

    def refuse(what: str) -> Callable[..., int]:
        def handler(*_: object) -> int:
            raise DataError(f"{place}, line {parser.CurrentLineNumber}: {what}")

        return handler

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            refuse(f"elements are nested more than {_DEEPEST} deep, which no data set does. It was not read.")()
        target.start(name, attributes)

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1
        target.end(name)

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = target.data
    fix = "Entities are refused, because they can expand without limit or read other files. Write their text instead."
    parser.EntityDeclHandler = refuse(f"defines an entity. {fix}")
    parser.ExternalEntityRefHandler = refuse(f"refers to another file. {fix}")
    parser.SkippedEntityHandler = refuse(f"refers to an entity that is defined elsewhere. {fix}")
    return parser


def _feed(parser: expat.XMLParserType, file: IO[bytes], place: str) -> Iterator[None]:
    """Feed the file to the parser; yield after each chunk."""
    try:
        while chunk := file.read(_XML_CHUNK):
            parser.Parse(chunk, False)
            yield
        parser.Parse(b"", True)
        yield
    except expat.ExpatError as error:
        words = expat.ErrorString(error.code)
        raise DataError(
            f"{place}, line {error.lineno}, column {error.offset + 1}: not well-formed XML ({words})."
        ) from None
    except (LookupError, ValueError) as error:
        raise DataError(f"{place}: its encoding cannot be read ({error}). Save it as UTF-8.") from None


# --- sheet markup -----------------------------------------------------------------------------------------------------
# Reads what python-calamine leaves out of a sheet: errors, formulas without stored values, and hidden rows.
#
# They are in the XML of .xlsx, .xlsm and .ods files. An .xls file is binary: only its merged cells are known here.

NO_VALUE = "a formula without a stored value"
"""Problem of a cell whose program never computed it."""

_NOTABLE = re.compile(rb"""\bt=["']e["']|\bhidden=|[<:]f[\s/>]""")
"""Markup of an error, a hidden row or a formula; most sheets have none, and are not parsed."""
_LONGEST_NOTABLE = 10
_SHEET_CHUNK = 1 << 22


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
        while chunk := file.read(_SHEET_CHUNK):
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
