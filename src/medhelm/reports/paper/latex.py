r"""LaTeX tables for papers, to be included by `\input`: they need no package and fit the width of the text.

A column of words that would make the table too wide is broken into lines, headings are stacked, and if necessary the
letters become smaller or the table is split. A `\resizebox` would instead shrink wide tables until they are unreadable.
Model names are untrusted input and are escaped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from medhelm.reports.figures.labels import text_width
from medhelm.reports.tables import NUMERIC, Value, escape_latex

LINE = 340.0
"""Width of a line of a ten-point article, in points, with a margin because letters are measured in another font."""

SIZES = {r"\footnotesize": 8.0, r"\scriptsize": 7.0}
"""Command -> font size in points, largest first; smaller letters are hard to read."""

LEADING = 1.2
"""Line height, in font sizes."""

GAP = 4.0
"""Space between two columns, in points."""

PAGE = 420.0
"""Largest height of the rows on a page, in points, with room for caption and notes."""

LONG = 12
"""Letters above which a name in a heading is broken."""

LONGEST = 60
"""Letters shown of a word."""

BREAKABLE = 6.0
"""Width, in font sizes, above which a word may be broken: about ten letters."""

SHORT = 9
"""Letters of a heading on one line."""

KNOWN = {
    "…": r"\ldots{}", "†": r"$\dagger$", "×": r"$\times$", "≥": r"$\geq$", "≤": r"$\leq$", "−": "$-$", "’": "'",
    "“": "``", "”": "''", "α": r"$\alpha$", "κ": r"$\kappa$",
}  # fmt: skip
"""Characters beyond Latin letters that every LaTeX can print -> their commands."""


@dataclass(frozen=True, slots=True)
class _Layout:
    """Layout of a table."""

    size: str
    """Command for the font size."""
    widths: Sequence[float | None]
    """Width of each column, as a share of the line; None: not broken; empty: no column is broken."""


_SMALL = _Layout(list(SIZES)[-1], ())
"""Layout of a table that does not fit."""


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of a table."""

    head: str
    cells: Sequence[str]
    right: bool
    """True for a column of numbers."""

    def width(self, size: float) -> float:
        """Return the width in points if only the heading is broken."""
        return max(text_width(text, size) for text in ("", *self.cells, *_stack(self.head)))

    def narrowest(self, size: float) -> float:
        """Return the width of its longest word, where spaces, slashes and hyphens end a word."""
        words = (word for text in (self.head, *self.cells) for word in re.findall(r"[^\s/_-]+[/_-]?", text))
        return min(max((text_width(word, size) for word in words), default=0.0), BREAKABLE * size)


@dataclass(frozen=True, slots=True)
class _Part:
    """Columns and groups of one table."""

    columns: Sequence[_Column]
    groups: Sequence[str]
    """Group of each row, whose name is shown above its first row; empty for none."""

    def rows(self, chosen: Sequence[int]) -> _Part:
        """Return a part with some of the rows."""
        columns = [_Column(c.head, [c.cells[i] for i in chosen], c.right) for c in self.columns]
        return _Part(columns, [self.groups[i] for i in chosen])


def latex(
    rows: Sequence[Sequence[Value]],
    headers: Sequence[str],
    *,
    name: str,
    caption: str,
    notes: Sequence[str] = (),
    grouped: bool = False,
) -> str:
    """Return a floating table with caption and notes, or several if it is too large for one.

    Parameters: rows, each as long as headers; name, letters and digits for the label; grouped, true if the first
    column names groups of rows, which become subheadings.
    Raises: ValueError for a row of another length.
    """
    if any(len(row) != len(headers) for row in rows):
        raise ValueError(f"{name}: a row is not as long as the headings")
    texts = [["–" if value is None else _shortened(str(value)) for value in row] for row in rows]
    columns = []
    for j, head in enumerate(headers):
        cells = [row[j] for row in texts]
        columns.append(_Column(head, cells, all(text == "–" or NUMERIC.match(text) for text in cells)))
    whole = _Part(columns[1:], columns[0].cells) if grouped else _Part(columns, [""] * len(rows))
    sides = [_Part(side, whole.groups) for side in _side_by_side(whole.columns)]
    parts = [part for side in sides for part in _one_below_the_other(side)]
    tables = []
    for number, part in enumerate(parts, start=1):
        heading = caption if len(parts) == 1 else f"{caption} Part {number} of {len(parts)}."
        label = name if number == 1 else f"{name}-{number}"
        tables.append(_table(part, heading, label, notes if number == len(parts) else ()))
    return "% For \\input; needs no package.\n" + "\n".join(tables)


def _shortened(text: str) -> str:
    """Return the text on one line, with very long words cut in the middle."""
    words = (
        word if len(word) <= LONGEST else f"{word[: LONGEST // 2]}…{word[-LONGEST // 2 :]}" for word in text.split()
    )
    return " ".join(words)


def _table(part: _Part, caption: str, label: str, notes: Sequence[str]) -> str:
    """Return one floating table."""
    columns = part.columns
    layout = _layout(columns) or _SMALL
    widths = layout.widths or [None] * len(columns)
    kinds = [
        f"p{{{width:.3f}\\linewidth}}" if width is not None else "r" if column.right else "l"
        for width, column in zip(widths, columns, strict=True)
    ]
    body, group = [], ""
    for own, row in zip(part.groups, zip(*(column.cells for column in columns), strict=True), strict=True):
        if own and own != group:
            body.append(rf"\multicolumn{{{len(columns)}}}{{l}}{{\textbf{{{plain_latex(own)}}}}} \tabularnewline")
        group = own
        body.append(_row([_cell(text, width) for text, width in zip(row, widths, strict=True)]))
    lines = [
        r"\begin{table}[htbp]",
        r"\centering",
        rf"\caption{{{plain_latex(caption)}}}",
        rf"\label{{tab:{label}}}",
        layout.size,
        rf"\setlength{{\tabcolsep}}{{{GAP / 2:g}pt}}",
        rf"\begin{{tabular}}{{{''.join(kinds)}}}",
        r"\hline",
        _row([_heading(column, width) for column, width in zip(columns, widths, strict=True)]),
        r"\hline",
        *body,
        r"\hline",
        r"\end{tabular}",
    ]
    if notes:
        lines += [r"\par\smallskip", r"\begin{minipage}{\linewidth}", r"\footnotesize"]
        lines += [rf"{plain_latex(note)}\par" for note in notes]
        lines.append(r"\end{minipage}")
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _side_by_side(columns: Sequence[_Column]) -> list[list[_Column]]:
    """Return the columns of each table: all if they fit, else the columns of names with as many others as fit."""
    if not columns or _layout(columns):
        return [list(columns)]
    first = next((j for j, column in enumerate(columns) if not column.right), 0)
    keep = next((j for j in range(first, len(columns)) if columns[j].right), 1)
    names, others = list(columns[:keep]), list(columns[keep:])
    for n_parts in range(2, len(others) + 1):
        size = math.ceil(len(others) / n_parts)
        parts = [[*names, *others[at : at + size]] for at in range(0, len(others), size)]
        if all(_layout(part) for part in parts):
            return parts
    return [[*names, column] for column in others] or [names]


def _one_below_the_other(part: _Part) -> list[_Part]:
    """Return the rows of each table, as many as fit on a page."""
    layout = _layout(part.columns) or _SMALL
    size = SIZES[layout.size]
    widths = layout.widths or [None] * len(part.columns)
    parts: list[list[int]] = [[]]
    used = 0.0
    for i, group in enumerate(part.groups):
        lines = [
            1 if width is None else math.ceil(1.15 * text_width(column.cells[i], size) / (width * LINE))
            for column, width in zip(part.columns, widths, strict=True)
        ]
        above = bool(group) and (not parts[-1] or part.groups[parts[-1][-1]] != group)
        height = (max([1, *lines]) + above) * size * LEADING
        if parts[-1] and used + height > PAGE:
            parts.append([])
            used = 0.0
        parts[-1].append(i)
        used += height
    return [part.rows(chosen) for chosen in parts]


def _layout(columns: Sequence[_Column]) -> _Layout | None:
    """Return the layout with the largest letters in which the columns fit, broken if necessary; None if none fits."""
    room = LINE - GAP * len(columns)
    for command, size in SIZES.items():
        natural = [column.width(size) for column in columns]
        if sum(natural) <= room:
            return _Layout(command, ())
        needed = {j: c.narrowest(size) for j, c in enumerate(columns) if not c.right}
        left = room - sum(width for j, width in enumerate(natural) if j not in needed) - sum(needed.values())
        if needed and left >= 0:
            more = _share(left, [natural[j] - width for j, width in needed.items()])
            broken = {j: width + extra for (j, width), extra in zip(needed.items(), more, strict=True)}
            # A column at its natural width needs no fixed width.
            widths = [
                broken[j] / LINE if j in broken and broken[j] < natural[j] - 1 else None for j in range(len(columns))
            ]
            return _Layout(command, widths)
    return None


def _share(room: float, wanted: Sequence[float]) -> list[float]:
    """Divide room so that narrow columns get their natural width and wide ones equal shares of the rest."""
    found = [0.0] * len(wanted)
    order = sorted(range(len(wanted)), key=lambda j: wanted[j])
    for place, j in enumerate(order):
        found[j] = min(wanted[j], room / (len(wanted) - place))
        room -= found[j]
    return found


def _stack(head: str) -> list[str]:
    """Return the lines of a heading: short words on one line, long names in parts."""
    lines: list[str] = []
    for word in head.split():
        parts = re.findall(r"[^/_-]+[/_-]*|[/_-]+", word) if len(word) > LONG else [word]
        for place, part in enumerate(parts):
            between = " " if place == 0 else ""
            if lines and len(lines[-1]) + len(between + part) < SHORT:
                lines[-1] += between + part
            else:
                lines.append(part)
    return lines or [""]


def _heading(column: _Column, width: float | None) -> str:
    """Return a heading, stacked in a column of natural width."""
    if width is not None:
        return rf"\raggedright {_breakable(plain_latex(column.head))}"
    lines = [plain_latex(line) for line in _stack(column.head)]
    stacked = r"\\".join(lines)
    return stacked if len(lines) == 1 else rf"\shortstack[{'r' if column.right else 'l'}]{{{stacked}}}"


def _row(cells: Sequence[str]) -> str:
    """Return one row; LaTeX would read a first cell with a leading [ or * as an argument of the line break above."""
    first, *rest = cells
    return " & ".join(["{}" + first if first.startswith(("[", "*")) else first, *rest]) + r" \tabularnewline"


def _cell(text: str, width: float | None) -> str:
    """Return a cell; a hyphen before a number becomes a minus."""
    shown = plain_latex(text)
    if text[:1] == "-" and text[1:2].isdigit():
        shown = "$-$" + shown[1:]
    return shown if width is None else rf"\raggedright {_breakable(shown)}"


def _breakable(text: str) -> str:
    """Allow line breaks after slashes and underscores, and in the first word."""
    return r"\hspace{0pt}" + text.replace("/", r"/\hspace{0pt}").replace(r"\_", r"\_\hspace{0pt}")


def plain_latex(text: str) -> str:
    r"""Escape a text for any LaTeX, on one line; an unknown letter becomes a question mark.

    >>> print(plain_latex("model_a--2 (50%) …"))
    model\_a-{}-2 (50\%) \ldots{}
    """
    clean = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    # Double hyphens are separated, because LaTeX would join them to a dash; dashes of the text are restored last.
    return "".join(_letter(c) for c in clean).replace("--", "-{}-").replace("--", "-{}-").replace("\0", "--")


def _letter(c: str) -> str:
    if c == "–":
        return "\0"
    if c in KNOWN:
        return KNOWN[c]
    return escape_latex(c) if ord(c) < 0x180 else "?"
