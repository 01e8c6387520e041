r"""Tables as aligned text, CSV, Markdown and LaTeX, as HTML for notebooks, and as data frames.

A cell holds a text, a number, or None: an en dash for people, an empty field in CSV. Special characters of the format
are escaped, and control characters, which could move a terminal's cursor, become spaces. In CSV a text that a
spreadsheet would run as a formula gets a leading apostrophe.
"""

from __future__ import annotations

import csv
import io
import math
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, Literal, Protocol, TypeVar, get_args
from unicodedata import category, combining, east_asian_width
from xml.etree import ElementTree as ET

from medhelm.domain import Estimate
from medhelm.errors import MissingError, UserError
from medhelm.io.spreadsheets import guarded

Format = Literal["table", "csv", "md", "latex"]
"""Format of a table."""

FORMATS: tuple[Format, ...] = get_args(Format)
"""All formats."""

T = TypeVar("T")

Value = str | float | int | None
"""Content of a cell."""

GAP = "  "
"""Space between the columns of a text table."""

NUMERIC = re.compile(r"[-+<>]?\d[\d.,]*%?( |$)")
"""Start of a text that counts as a number: the number or percentage, then a space or the end."""

MISSING = "–"
"""Text of a cell without a value."""

SAMPLE_WARNING = "SAMPLE TIER: invented rows, not real performance"
"""Warning on everything made from sample rows."""

DIGITS = 6
"""Decimals of a number in JSON and CSV."""

_COMMAND = re.compile(r"`[^`]*`")

SHORTEST = 12
"""Width to which the texts of a column are shortened at most."""

_terminal: ContextVar[int | None] = ContextVar("terminal", default=None)
"""Width that text tables must fit; None if they go to a file, a pipe or Python."""


_is_wide: ContextVar[bool] = ContextVar("is_wide", default=False)
"""True if tables show the columns that most readers do not need."""


@contextmanager
def fitted(width: int | None, *, wide: bool = False) -> Iterator[None]:
    """Make text tables fit a terminal of this width.

    Parameters: width, None if they may be as wide as their columns; wide, True to show columns that most readers do not
    need, see `shows_all`.
    """
    before, was_wide = _terminal.set(width), _is_wide.set(wide)
    try:
        yield
    finally:
        _terminal.reset(before)
        _is_wide.reset(was_wide)


def shows_all(format: str) -> bool:
    """Return True if a table shows the numbers that most readers do not need: in CSV, and with `--wide`."""
    return format == "csv" or _is_wide.get()


def render(
    rows: Sequence[Sequence[Value]],
    headers: Sequence[str],
    *,
    format: str = "table",
    caption: str = "",
    width: int | None = None,
    keep: int = 1,
    drop: Sequence[str] = (),
) -> str:
    """Return a table that ends with a line feed.

    Within `fitted`, a text table that is too wide loses columns of `drop`; if that is not enough, long texts are
    shortened, or the table is folded.

    Parameters: rows, each as long as headers; format, one of FORMATS, or `html` for notebooks; caption, a line above
    the table, left out of CSV; width, a wider text table is folded into blocks that repeat the first `keep` columns;
    drop, headings of the columns that a narrow terminal leaves out, the least important first.
    Raises: UserError for another format; ValueError for a row of another length.
    """
    texts, heads, numeric = as_texts(rows, headers)
    if format == "csv":
        return _csv(rows, headers)
    caption = as_line(caption)
    if format == "table":
        if (terminal := _terminal.get()) is None:
            return _aligned(texts, heads, numeric, caption, width, keep)
        texts, heads, numeric, dropped = _fit(texts, heads, numeric, terminal, keep, drop)
        return _aligned(texts, heads, numeric, caption, terminal, keep) + _left_out(dropped, terminal)
    if format == "md":
        return _markdown(texts, heads, numeric, caption)
    if format == "latex":
        return tabular(texts, heads, numeric, caption)
    if format == "html":
        return _html(texts, heads, numeric, caption)
    raise UserError(f"Unknown table format `{format}`. Known: {', '.join(FORMATS)}.")


def tabulate(
    items: Iterable[T], columns: Mapping[str, Callable[[T], Value]], *, optional: Sequence[str] = ()
) -> tuple[list[list[Value]], list[str]]:
    """Return the rows and headings of a table with one row per item, for `render`.

    Parameters: columns, heading -> function that returns the cell of an item; optional, headings of the columns that
    are left out if no item has a value other than 0 there.

    >>> tabulate([3, 4], {"n": int, "square": lambda n: n * n, "remark": lambda n: None}, optional=["remark"])
    ([[3, 9], [4, 16]], ['n', 'square'])
    """
    rows = [[cell(item) for cell in columns.values()] for item in items]
    heads = list(columns)
    shown = [j for j, head in enumerate(heads) if head not in optional or any(row[j] for row in rows)]
    return [[row[j] for j in shown] for row in rows], [heads[j] for j in shown]


def as_texts(rows: Sequence[Sequence[Value]], headers: Sequence[str]) -> tuple[list[list[str]], list[str], list[bool]]:
    """Return cells and headings for people, and which columns hold numbers, to be aligned right.

    Raises: ValueError for a row of another length than the headings.
    """
    for row in rows:
        if len(row) != len(headers):
            raise ValueError(f"a row has {len(row)} cells, the table {len(headers)} columns")
    texts = [[MISSING if value is None else as_line(str(value)) for value in row] for row in rows]
    columns = ([row[j] for row in rows] for j in range(len(headers)))
    numeric = [all(not isinstance(cell, str) or NUMERIC.match(cell) for cell in cells) for cells in columns]
    return texts, [as_line(header) for header in headers], numeric


def decimal(value: float | None, places: int = 3) -> str | None:
    """Return a number with fixed decimals; None stays None, and minus zero becomes zero.

    >>> decimal(0.6617)
    '0.662'
    """
    if value is None:
        return None
    text = f"{value:.{places}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def with_minus(text: str) -> str:
    """Return numbers with the minus sign of print instead of a hyphen, for pages."""
    return text.replace("-", "−")


def signed(value: float | None, places: int = 3) -> str:
    """Return a difference with its sign, for people.

    >>> signed(0.0462), signed(-0.0462), signed(0.0), signed(None)
    ('+0.046', '−0.046', '0.000', '–')
    """
    text = MISSING if value is None else decimal(value, places) or MISSING
    return f"+{text}" if value is not None and value > 0 and float(text) else with_minus(text)


def number(value: float | None) -> float | None:
    """Return a number for JSON: rounded to six decimals; None for nan and infinity."""
    return None if value is None or not math.isfinite(value) else round(float(value), DIGITS)


def with_interval(value: float | None, low: float | None, high: float | None, places: int = 3) -> str | None:
    """Return a number with its interval, or alone if the interval is unknown.

    >>> with_interval(0.552, 0.5214, 0.5826)
    '0.552 [0.521, 0.583]'
    """
    if value is None or low is None or high is None or not math.isfinite(low) or not math.isfinite(high):
        return decimal(value, places)
    return f"{decimal(value, places)} [{decimal(low, places)}, {decimal(high, places)}]"


def size_text(n_bytes: int) -> str:
    """Return the size of files for people.

    >>> size_text(2_000), size_text(5_000_000)
    ('2.0 KiB', '4.8 MiB')
    """
    return f"{n_bytes / 2**20:.1f} MiB" if n_bytes >= 2**20 / 10 else f"{n_bytes / 1024:.1f} KiB"


def cost_text(usd: float | None) -> str:
    """Return an amount of US dollars with four decimals; a question mark if it is unknown."""
    return "?" if usd is None else f"{usd:.4f}"


def counts_text(counts: Mapping[str, int]) -> str:
    """Return names with their counts, the largest first.

    >>> counts_text({"refusal": 1, "timeout": 12})
    'timeout 12, refusal 1'
    """
    return ", ".join(f"{name} {count}" for name, count in Counter(counts).most_common())


def data_text(tier: str) -> str:
    """Return whether data is real, as text."""
    return "real data" if tier == "real" else SAMPLE_WARNING


class HasScale(Protocol):
    """Something that is measured on a scale."""

    @property
    def low(self) -> float:
        """Lower end of the scale."""

    @property
    def high(self) -> float:
        """Upper end of the scale."""


def score_decimals(scale: HasScale) -> int:
    """Return the decimals of a score on a scale: three for 0 to 1, two for wider scales."""
    return 3 if scale.high - scale.low <= 1 else 2


class HasInterval(Protocol):
    """A number with the ends of its interval."""

    @property
    def value(self) -> float | None:
        """The number; None if undefined."""

    @property
    def low(self) -> float | None:
        """Lower end; None if unknown."""

    @property
    def high(self) -> float | None:
        """Upper end; None if unknown."""


def estimate_text(found: HasInterval | None, places: int = 3) -> str | None:
    """Return a number with its interval for people; see `with_interval`."""
    return with_interval(found.value, found.low, found.high, places) if found else None


def estimate_numbers(found: HasInterval | None) -> list[Value]:
    """Return a number and the ends of its interval for CSV."""
    return [number(found.value), number(found.low), number(found.high)] if found else [None, None, None]


def as_line(text: str) -> str:
    """Return the text on one line, without control characters."""
    return "".join(" " if category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") else c for c in text).strip()


def _csv(rows: Sequence[Sequence[Value]], headers: Sequence[str]) -> str:
    """Return CSV with one line feed per row and numbers in full; line breaks in a text become line feeds."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_field(header) for header in headers])
    writer.writerows([_field(value) for value in row] for row in rows)
    return out.getvalue()


def _field(value: Value) -> str | float | int:
    """Return a cell of a CSV file."""
    if isinstance(value, str):
        return guarded(value.replace("\r\n", "\n").replace("\r", "\n"))
    return "" if value is None else value


# --- aligned text -----------------------------------------------------------------------------------------------------


def _aligned(
    texts: list[list[str]], heads: list[str], numeric: list[bool], caption: str, width: int | None, keep: int
) -> str:
    """Return aligned text: headings wrapped at words, wide tables folded into blocks."""
    widths = [_column_width(head, [row[j] for row in texts]) for j, head in enumerate(heads)]
    blocks = []
    for columns in _fold(widths, width, keep):
        wrapped = [_wrap(heads[j], widths[j]) for j in columns]
        depth = max((len(lines) for lines in wrapped), default=0)
        lines = [[""] * (depth - len(lines)) + lines for lines in wrapped]
        table = [[lines[i][at] for i in range(len(columns))] for at in range(depth)]
        table.append(["-" * widths[j] for j in columns])
        table += [[row[j] for j in columns] for row in texts]
        blocks.append("\n".join(_line(cells, columns, widths, numeric) for cells in table))
    return (caption + "\n\n" if caption else "") + "\n\n".join(blocks) + "\n"


def _fit(
    texts: list[list[str]], heads: list[str], numeric: list[bool], width: int, keep: int, drop: Sequence[str]
) -> tuple[list[list[str]], list[str], list[bool], list[str]]:
    """Return a table without the columns of `drop` for which there is no room, and the headings of these columns.

    Texts are shortened if that makes the table fit; a table of many numbers is folded with its texts in full.
    """
    widths = [_column_width(head, [row[j] for row in texts]) for j, head in enumerate(heads)]
    kept = list(range(len(heads)))
    dropped = []
    for name in drop:
        if _total(widths[j] for j in kept) <= width:
            break
        if found := [j for j in kept if heads[j] == name]:
            kept.remove(found[-1])
            dropped.append(name)
    least = {j: max([SHORTEST, *map(_width, heads[j].split())]) for j in kept if not numeric[j]}
    if _total(min(widths[j], least.get(j, widths[j])) for j in kept) <= width:
        _shrink(widths, kept, least, width)
    else:
        for other in kept[keep:]:
            _shrink(widths, [*kept[:keep], other], least, width)
    rows = [[_shorten(row[j], widths[j]) for j in kept] for row in texts]
    return rows, [heads[j] for j in kept], [numeric[j] for j in kept], dropped


def _shrink(widths: list[int], columns: Sequence[int], least: Mapping[int, int], width: int) -> None:
    """Make the widest texts of some columns narrower, down to `least`, until the columns fit."""
    while (over := _total(widths[j] for j in columns) - width) > 0:
        long = sorted((j for j in columns if widths[j] > least.get(j, widths[j])), key=widths.__getitem__)
        if not long:
            return
        widest = long[-1]
        second = widths[long[-2]] if len(long) > 1 else 0
        widths[widest] = max(least[widest], widths[widest] - over, min(second, widths[widest] - 1))


def _total(widths: Iterable[int]) -> int:
    """Return the width of a table with columns of these widths."""
    return sum(width + len(GAP) for width in widths) - len(GAP)


def _shorten(text: str, width: int) -> str:
    """Return a text with an ellipsis in its middle if it is too wide: names of versions differ at the end."""
    if _width(text) <= width:
        return text
    head, tail = text[: (width + 1) // 2 - 1], text[len(text) - width // 2 :]
    while _width(head) + 1 + _width(tail) > width:
        head, tail = (head[:-1], tail) if _width(head) > _width(tail) else (head, tail[1:])
    return f"{head}…{tail}"


def _left_out(dropped: Sequence[str], width: int) -> str:
    """Return the line about columns that were dropped; empty if there are none."""
    if not dropped:
        return ""
    text = f"Not shown at {width} columns: {', '.join(dropped)}. --wide shows all."
    return f"\n{textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)}\n"


def _column_width(head: str, cells: list[str]) -> int:
    """Return the width of a column: its widest cell, or the longest word of its heading."""
    longest = max((_width(word) for word in head.split()), default=0)
    short = _width(head) if _width(head) <= 10 else 0
    return max([longest, short, *(_width(cell) for cell in cells)])


def _wrap(head: str, width: int) -> list[str]:
    """Wrap a heading into lines of at most `width`."""
    return textwrap.wrap(head, max(width, 1), break_long_words=False, break_on_hyphens=False) or [""]


def _fold(widths: list[int], width: int | None, keep: int) -> list[list[int]]:
    """Return the columns of each block: the first `keep`, then as many others as fit."""
    columns = list(range(len(widths)))
    if width is None:
        return [columns]
    start = sum(widths[:keep]) + len(GAP) * max(keep - 1, 0)
    blocks, used = [columns[:keep]], start
    for j in columns[keep:]:
        needed = len(GAP) + widths[j]
        if used + needed > width and len(blocks[-1]) > keep:
            blocks.append(columns[:keep])
            used = start
        blocks[-1].append(j)
        used += needed
    return blocks


def _line(cells: list[str], columns: list[int], widths: list[int], numeric: list[bool]) -> str:
    """Return one line of the table, with numbers aligned right."""
    padded = []
    for cell, j in zip(cells, columns, strict=True):
        space = " " * (widths[j] - _width(cell))
        padded.append(space + cell if numeric[j] else cell + space)
    return GAP.join(padded).rstrip()


def _width(text: str) -> int:
    """Return the width of a text in a terminal: two columns for wide characters, none for combining ones."""
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


# --- Markdown ---------------------------------------------------------------------------------------------------------


def _markdown(texts: list[list[str]], heads: list[str], numeric: list[bool], caption: str) -> str:
    """Return a table in GitHub's Markdown."""
    rule = ["---:" if right else "---" for right in numeric]
    rows = [[escape_markdown(cell) for cell in row] for row in [heads, *texts]]
    lines = ["| " + " | ".join(row) + " |" for row in [rows[0], rule, *rows[1:]]]
    return (escape_markdown(caption) + "\n\n" if caption else "") + "\n".join(lines) + "\n"


def markdown_sentence(text: str) -> str:
    """Return a sentence for Markdown in one line, with code between backticks as code.

    >>> markdown_sentence("`medhelm run` asks <again>")
    '`medhelm run` asks \\\\<again>'
    """
    parts = as_line(text).split("`")
    if len(parts) % 2 == 0 or "" in parts[1::2]:
        return escape_markdown(text)
    return "".join(f"`{part}`" if at % 2 else _escaped(part) for at, part in enumerate(parts))


def escape_markdown(text: str) -> str:
    """Escape a text for Markdown, without control characters: no HTML, no link and no image remains.

    An underscore within a word needs no escape, nor do brackets without a link, as those of intervals.

    >>> escape_markdown("![x](http://a/b.png) [0.1, 0.2]")
    '![x\\\\](http://a/b.png) [0.1, 0.2]'
    """
    return _escaped(as_line(text))


def _escaped(text: str) -> str:
    text = re.sub(r"([\\`*|<~])", r"\\\1", text)
    text = re.sub(r"\](?=[\[(:])", r"\\]", text)
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", text)


# --- notebooks and data frames ----------------------------------------------------------------------------------------


def _html(texts: list[list[str]], heads: list[str], numeric: list[bool], caption: str) -> str:
    """Return an HTML table; the element tree escapes every text."""
    table = ET.Element("table")
    if caption:
        ET.SubElement(table, "caption").text = caption
    styles = ["text-align: right" if right else "text-align: left" for right in numeric]
    for group, tag, rows in (("thead", "th", [heads]), ("tbody", "td", texts)):
        part = ET.SubElement(table, group)
        for row in rows:
            line = ET.SubElement(part, "tr")
            for cell, style in zip(row, styles, strict=True):
                ET.SubElement(line, tag, style=style).text = cell
    return ET.tostring(table, encoding="unicode", method="html") + "\n"


def _paragraphs(texts: Iterable[object]) -> str:
    found = []
    for text in texts:
        paragraph = ET.Element("p")
        paragraph.text = as_line(str(text))
        found.append(ET.tostring(paragraph, encoding="unicode", method="html") + "\n")
    return "".join(found)


FRAME_LIBRARIES = ("pandas", "polars")
"""Libraries of data frames, the preferred one first."""


def to_frame(columns: Mapping[str, Sequence[Any]], library: str = "") -> Any:
    """Return columns as a data frame.

    Parameters: library, one of FRAME_LIBRARIES; empty for the first that is installed.
    Raises: MissingError if it is not installed; UserError for another library.
    """
    if library and library not in FRAME_LIBRARIES:
        raise UserError(f"`library` cannot be `{library}`. Known: {', '.join(FRAME_LIBRARIES)}.")
    wanted = [library] if library else list(FRAME_LIBRARIES)
    for name in wanted:
        try:
            found = import_module(name)
        except ImportError:
            continue
        return found.DataFrame({head: _of_one_type(values) for head, values in columns.items()})
    raise MissingError(
        f"data frames need {' or '.join(wanted)}: "
        f"{' or '.join(f'`pip install {name}`' for name in wanted)}. `to_dict()` needs neither pandas nor polars."
    )


def _of_one_type(values: Sequence[Any]) -> list[Any]:
    """Return the values of a column with whole numbers as floats if any is a float, and members of enums as texts."""
    has_floats = any(isinstance(value, float) for value in values)
    return [
        float(value) if has_floats and type(value) is int else str(value) if isinstance(value, str) else value
        for value in values
    ]


LONGEST_SUMMARY = 300
"""Most characters of a summary."""

Columns = tuple[Sequence[str], Sequence[Sequence[Value]]]
"""Headings and rows of numbers in full."""


def _no_lines(_: object) -> Sequence[object]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectView(Generic[T]):
    """Functions of a report that show the objects of one class in Python."""

    summary: Callable[[T], str]
    """One short line for `repr`."""
    table: Callable[[T, str], str]
    """Table in the format `table` or `html`."""
    as_json: Callable[[T], dict[str, Any]]
    """JSON of the command that shows it."""
    columns: Callable[[T, str], Columns]
    """Columns of a data frame. The second argument selects the rows; empty for the default."""
    verdict: Callable[[T], Sequence[object]] = _no_lines
    """Sentences above the table."""
    remarks: Callable[[T], Sequence[object]] = _no_lines
    """Remarks below the table."""

    def summarize(self, shown: T) -> str:
        """Return one line of limited length."""
        text = as_line(self.summary(shown))
        return text if len(text) <= LONGEST_SUMMARY else f"{text[:LONGEST_SUMMARY]} [...]"

    def to_text(self, shown: T) -> str:
        """Return the verdict, the table, and the remarks, as the command prints them."""
        verdict = " ".join(map(str, self.verdict(shown)))
        remarks = "".join(f"- {remark}\n" for remark in self.remarks(shown))
        return "\n".join(part for part in (verdict and f"{verdict}\n", self.table(shown, "table"), remarks) if part)

    def to_html(self, shown: T) -> str:
        """Return the same as HTML."""
        verdict = [" ".join(map(str, self.verdict(shown)))]
        return _paragraphs(filter(None, verdict)) + self.table(shown, "html") + _paragraphs(self.remarks(shown))

    def to_frame(self, shown: T, by: str, library: str) -> Any:
        """Return a data frame. Raises: as `tables.to_frame`, and UserError for a wrong `by`."""
        headers, rows = self.columns(shown, by)
        return to_frame({head: [row[j] for row in rows] for j, head in enumerate(headers)}, library)


def records_as_columns(records: Sequence[Mapping[str, Any]], by: str = "") -> Columns:
    """Return dictionaries with equal keys as columns. Raises: UserError for any `by`."""
    if by:
        raise UserError(f"`by` cannot be `{by}` here: it selects the rows of a leaderboard. Leave it out.")
    headers = list(dict.fromkeys(key for record in records for key in record))
    return headers, [[record.get(head) for head in headers] for record in records]


# --- untrusted text ---------------------------------------------------------------------------------------------------

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Escape control characters and direction marks, so that untrusted text cannot control a terminal.

    >>> printable("red \\x1b[31m")
    'red \\\\x1b[31m'
    """
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n"))


def wrapped(text: str, indent: str = "") -> str:
    """Break a text into lines that fit the terminal, if the output goes to one. Commands in backquotes stay whole.

    `indent`: that of all lines; the first one has none, because it begins with a bullet.
    """
    width = _terminal.get()
    if width is None:
        return text
    whole = _COMMAND.sub(lambda match: match[0].replace(" ", "\0"), text)
    filled = textwrap.fill(
        whole, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return filled.removeprefix(indent).replace("\0", " ")


# --- numbers ----------------------------------------------------------------------------------------------------------
# Numbers for people, in significant digits and in percent.


def significant(value: float | None) -> str:
    """Return a number with three significant digits, or all digits before the point; two digits below 0.001.

    >>> significant(0.7), significant(1234.5), significant(0.0), significant(None)
    ('0.700', '1,234', '0', '–')
    >>> significant(0.00009136), significant(2e-9)
    ('0.000091', '<0.000001')
    """
    if value is None:
        return MISSING
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 0.001:
        return f"{value:#.3g}"
    return "<0.000001" if abs(value) < 1e-6 else f"{value:.{1 - math.floor(math.log10(abs(value)))}f}"


def percent(value: float | None) -> str:
    """Return a share as a percentage, with a decimal below 10%.

    >>> percent(0.004), percent(0.5), percent(0.0), percent(None)
    ('0.4%', '50%', '0%', '–')
    """
    if value is None:
        return MISSING
    return f"{value:.1%}" if 0 < value < 0.0995 or 0.9905 < value < 1 else f"{value:.0%}"


SMALLEST = 0.0001
"""P-values below this are shown as `<0.0001`."""


LARGEST = 0.99
"""P-values above this are shown as `>0.99`: a test proves no equality."""


def p_text(p: float | None) -> str | None:
    """Return a p-value for people: four decimals.

    >>> p_text(0.04), p_text(1e-9), p_text(1.0)
    ('0.0400', '<0.0001', '>0.99')
    """
    if p is None:
        return None
    return f"<{SMALLEST}" if p < SMALLEST else f">{LARGEST}" if p > LARGEST else decimal(p, 4)


def percentages(found: Estimate | None) -> str | None:
    """Return a share with its interval in percent."""
    return None if found is None else f"{found.value:.1%} [{100 * found.low:.1f}, {100 * found.high:.1f}]"


def money(usd: float | None) -> str:
    """Return an amount of US dollars with cents, so that the amounts of a column are aligned.

    >>> money(0.4567), money(1234.6), money(0.002), money(0.0), money(None)
    ('$0.46', '$1,235', '<$0.01', '$0.00', '–')
    """
    if usd is None:
        return MISSING
    if 0 < usd < 0.005:
        return "<$0.01"
    return f"${usd:,.0f}" if usd >= 1000 else f"${usd:,.2f}"


# --- LaTeX ------------------------------------------------------------------------------------------------------------
# A plain `tabular`, and a `longtable` that fits the width of a line and breaks over pages.
#
# The `longtable` gives every column a share of the line by its longest cell, so that words wrap. A `\resizebox` would
# instead shrink wide tables until they are unreadable. Names are untrusted input and are escaped.

Row = Sequence[str]

PACKAGES = "% For \\input; \\usepackage{array,booktabs,longtable}\n"
"""First line of a file: the packages that it needs, which are part of every LaTeX distribution."""

LINE = 88
"""Letters of \\footnotesize in a line of a ten-point article."""

WIDEST = (24, 19, 14)
"""Letters of a line in the widest column, as many as let the table fit on a line; longer cells wrap."""

LONGEST = 60
"""Letters shown of a word."""

COMMANDS = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", "…": r"\ldots{}", "†": r"$\dagger$", "×": r"$\times$", "≥": r"$\geq$",
    "≤": r"$\leq$", "−": "$-$", "’": "'", "“": "``", "”": "''", "α": r"$\alpha$", "κ": r"$\kappa$", "±": r"$\pm$",
    "–": "--",
    **{c: "\\" + c for c in "&%$#_{}"},
}  # fmt: skip
"""Character -> its LaTeX command."""


def escape_latex(text: str) -> str:
    r"""Escape a text for any LaTeX, on one line; a letter that pdfLaTeX cannot print becomes a question mark.

    >>> print(escape_latex("50% of model_a--2 …"))
    50\% of model\_a-{}-2 \ldots{}
    """
    clean = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    clean = re.sub("-(?=-)", "-\0", clean)  # LaTeX would join two hyphens to a dash.
    return "".join(COMMANDS.get(c, c if ord(c) < 0x180 else "?") for c in clean).replace("\0", "{}")


def tabular(rows: Sequence[Row], heads: Row, numeric: Sequence[bool], caption: str) -> str:
    """Return a table that uses the package booktabs; with a caption it floats."""
    columns = "".join("r" if right else "l" for right in numeric)
    lines = [rf"\begin{{tabular}}{{{columns}}}", *_body(rows, heads, wraps=False), r"\bottomrule", r"\end{tabular}"]
    if caption:
        above = [r"\begin{table}", r"\centering", rf"\caption{{{escape_latex(caption)}}}"]
        lines = [*above, *lines, r"\end{table}"]
    return "\n".join(lines) + "\n"


def longtable(
    rows: Sequence[Row],
    heads: Row,
    numeric: Sequence[bool],
    *,
    label: str,
    caption: str,
    notes: Sequence[str] = (),
    grouped: bool = False,
) -> str:
    """Return a table of the width of a line, with notes; columns that do not fit go to further tables.

    Parameters: numeric, the columns that are aligned right; label, letters and digits; grouped, true if the first
    column names groups of rows, which become subheadings.
    """
    rows = [[_shortened(cell) for cell in row] for row in rows]
    groups = [row[0] for row in rows] if grouped else []
    shown = list(range(1 if grouped else 0, len(heads)))
    for widest in WIDEST:
        widths = [min(widest, _latex_width([head, *(row[j] for row in rows)])) for j, head in enumerate(heads)]
        parts = _side_by_side(shown, widths, numeric)
        if len(parts) == 1:
            break
    tables = []
    for number, columns in enumerate(parts, start=1):
        title = caption if len(parts) == 1 else f"{caption} Part {number} of {len(parts)}."
        name = label if number == 1 else f"{label}-{number}"
        kinds = [
            rf">{{\ragged{'left' if numeric[j] else 'right'}\arraybackslash}}p{{{widths[j] / LINE:.3f}\linewidth}}"
            for j in columns
        ]
        body = _body([[row[j] for j in columns] for row in rows], [heads[j] for j in columns], groups, wraps=True)
        body.insert(body.index(r"\midrule") + 1, r"\endhead")
        tables += [
            rf"{{\footnotesize\setlength{{\tabcolsep}}{{2pt}}\begin{{longtable}}{{{''.join(kinds)}}}",
            rf"\caption{{{escape_latex(title)}}}\label{{tab:{name}}}\\",
            *body,
            r"\bottomrule",
            r"\end{longtable}}",
        ]
    return PACKAGES + "\n".join([*tables, *(rf"{{\footnotesize {escape_latex(note)}\par}}" for note in notes)]) + "\n"


def _body(rows: Sequence[Row], heads: Row, groups: Sequence[str] = (), *, wraps: bool) -> list[str]:
    """Return the lines from the top rule to the last row; the name of a group is above its first row."""
    lines = [r"\toprule", _latex_line(heads, wraps), r"\midrule"]
    for i, row in enumerate(rows):
        if groups and groups[i] and (i == 0 or groups[i] != groups[i - 1]):
            lines.append(rf"\multicolumn{{{len(row)}}}{{l}}{{\textbf{{{escape_latex(groups[i])}}}}} \\")
        lines.append(_latex_line(row, wraps))
    return lines


def _latex_line(cells: Row, wraps: bool) -> str:
    """Return one row; LaTeX would read a first cell with a leading [ or * as an argument of the line break above."""
    escaped = [_cell(cell, wraps) for cell in cells]
    if escaped and escaped[0].startswith(("[", "*")):
        escaped[0] = "{}" + escaped[0]
    return " & ".join(escaped) + r" \\"


def _cell(text: str, wraps: bool) -> str:
    """Return a cell, which may break after a slash or underscore if it wraps; the hyphen of a number is a minus."""
    if re.match(r"-\d", text):
        return "$-$" + escape_latex(text[1:])
    shown = escape_latex(text)
    return re.sub(r"(/|\\_)(?=.)", r"\1\\hspace{0pt}", shown) if wraps else shown


def _shortened(text: str) -> str:
    """Return the text with very long words cut in the middle."""
    half = LONGEST // 2
    return " ".join(word if len(word) <= LONGEST else f"{word[:half]}…{word[-half:]}" for word in text.split())


def _latex_width(texts: Row) -> int:
    """Return the letters of the longest cell, or word of the heading."""
    head, *cells = texts
    return max([1, *map(len, cells), *map(len, re.split(r"[\s/_-]", head))])


def _side_by_side(columns: list[int], widths: Sequence[int], numeric: Sequence[bool]) -> list[list[int]]:
    """Return the columns of each table: as many as fit on a line, each after the columns of names."""
    names = [j for j in columns if not numeric[j]][:1]
    parts, used = [list[int]()], 0
    for j in columns:
        # The space between two columns is about one letter.
        if parts[-1] and used + widths[j] + 1 > LINE:
            parts.append([k for k in names if k != j])
            used = sum(widths[k] + 1 for k in parts[-1])
        parts[-1].append(j)
        used += widths[j] + 1
    return parts
