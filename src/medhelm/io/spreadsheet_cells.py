"""Makes texts safe in files that people open in a spreadsheet: no text is run as a formula, no cell is too long.

Every writer of CSV files and workbooks for people uses this module.
"""

from __future__ import annotations

import re
from functools import lru_cache

LONGEST_CELL = 32_767
"""Maximum length of a cell in Excel, in UTF-16 code units; it cuts or refuses more."""

_INVISIBLE = (
    r"\x00-\x20\x7f" + "\x80-\xa0\xad\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u2064\u2066-\u206f\u3000\ufeff"
)
"""Characters that a spreadsheet may remove before it reads a cell, as ranges of a regular expression."""
_SIGNS = r"=+\-@" + "\u2212\ufe62\ufe63\ufe66\ufe6b＝＋－＠"
"""Signs that begin a formula, with their full-width and small forms."""

FORMULA = rf"^'*(?:[\t\r]|[{_INVISIBLE}]*[{_SIGNS}])"
"""Start of a text that a spreadsheet may run as a formula, after any apostrophes; for `re` and for DuckDB."""

NUMBER = r"^[-+]?(?:[0-9]+(?:[.,][0-9]+)*|[.,][0-9]+)%?(?:[eE][-+]?[0-9]+)?(?: \[[-+0-9.,% ]+\])?$"
"""A whole cell that is a number, alone or with its interval; it is no formula, whatever its sign."""

_FORMULA, _NUMBER = re.compile(FORMULA), re.compile(NUMBER)


def is_formula(text: str) -> bool:
    """Return True if a spreadsheet may run a text as a formula.

    >>> is_formula("-2 +HYPERLINK(A2)"), is_formula("-2.5"), is_formula("-0.1 [-0.2, 0.1]"), is_formula("a = b")
    (True, False, False, False)
    """
    return bool(_FORMULA.match(text)) and not (text[-1:] != "\n" and _NUMBER.match(text))


def guarded(text: str) -> str:
    """Return a text for a CSV file, with an apostrophe in front if a spreadsheet may run it as a formula.

    >>> guarded("=1+1"), guarded("1+1")
    ("'=1+1", '1+1')
    """
    return f"'{text}" if is_formula(text) else text


def unguarded(text: str) -> str:
    """Return the text that `guarded` was given.

    >>> unguarded("'=1+1"), unguarded("'tis")
    ('=1+1', "'tis")
    """
    return text[1:] if text.startswith("'") and is_formula(text[1:]) else text


def is_too_long(text: str) -> bool:
    """Return True if a text does not fit into one cell of Excel."""
    return len(text) > LONGEST_CELL // 2 and _length(text) > LONGEST_CELL


def cell_parts(text: str) -> list[str]:
    """Return a text in parts that fit into a cell; at least one. Characters that a workbook cannot hold become `�`."""
    text = _not_in_xml().sub("\ufffd", text)
    if not is_too_long(text):
        return [text]
    step = LONGEST_CELL // 2  # characters of two code units each
    return [text[start : start + step] for start in range(0, len(text), step)]


def csv_file(text: str) -> bytes:
    """Return the content of a CSV file for people: Excel needs a byte order mark for all but ASCII."""
    return text.encode("utf-8" if text.isascii() else "utf-8-sig", "replace")


def _length(text: str) -> int:
    """Return the length of a text in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


@lru_cache(maxsize=1)
def _not_in_xml() -> re.Pattern[str]:
    """Return the pattern of characters that XML forbids and no escape of a workbook can hold."""
    return re.compile("[\ud800-\udfff\ufffe\uffff]")
