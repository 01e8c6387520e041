r"""LaTeX tables: a plain `tabular`, and a `longtable` that fits the width of a line and breaks over pages.

The `longtable` gives every column a share of the line by its longest cell, so that words wrap. A `\resizebox` would
instead shrink wide tables until they are unreadable. Names are untrusted input and are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

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
        widths = [min(widest, _width([head, *(row[j] for row in rows)])) for j, head in enumerate(heads)]
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
    lines = [r"\toprule", _line(heads, wraps), r"\midrule"]
    for i, row in enumerate(rows):
        if groups and groups[i] and (i == 0 or groups[i] != groups[i - 1]):
            lines.append(rf"\multicolumn{{{len(row)}}}{{l}}{{\textbf{{{escape_latex(groups[i])}}}}} \\")
        lines.append(_line(row, wraps))
    return lines


def _line(cells: Row, wraps: bool) -> str:
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


def _width(texts: Row) -> int:
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
