"""Finds the encoding of a text file, and names the lines of a file that mixes two encodings.

Spreadsheet programs write UTF-8, UTF-16 or the Windows code page, and rows pasted from another system can have a
different encoding. Decoding such a file in either encoding would garble the other lines, so it is refused with the line
numbers.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from medhelm.errors import DataError

DEFAULT = "utf-8-sig"
"""UTF-8 with or without a byte order mark."""

WINDOWS = "cp1252"
"""The encoding of files that are not Unicode: Windows-1252."""

_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, DEFAULT), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_ONE_BYTE = frozenset({"cp1252", "iso8859-1", "iso8859-15"})
"""Western encodings, by the names of Python's codecs. They decode every UTF-8 file to wrong text without an error."""

_UTF8_PAIR = re.compile(rb"[\xc2-\xc5][\x80-\xbf]|\xe2[\x80-\x9f][\x80-\xbf]")
"""UTF-8 of a letter or sign that western text holds. In Windows-1252 it would read `Ã©`, `Â°` or `â€“`."""

_CHUNK = 1 << 16
_SHOWN = 6
"""Ranges of lines in a message."""


@dataclass(slots=True)
class LineEncodings:
    """Lines of a file that are not ASCII, by their encoding; numbered from 1."""

    utf8: list[int] = field(default_factory=list)
    """Lines in UTF-8."""
    windows: list[int] = field(default_factory=list)
    """Lines in Windows-1252 or another encoding with one byte per character."""
    both: list[int] = field(default_factory=list)
    """Lines with characters in either encoding."""

    @property
    def is_mixed(self) -> bool:
        """Return True if no single encoding can read the file."""
        return bool(self.both or (self.utf8 and self.windows))

    def in_words(self) -> str:
        """List the lines of each encoding."""
        kinds = {"in UTF-8": self.utf8, "in Windows-1252": self.windows, "in both": self.both}
        parts = [f"{words}: {line_ranges(lines)}" for words, lines in kinds.items() if lines]
        return f"The file mixes encodings. Lines {'; '.join(parts)}."


def marked_encoding(content: bytes) -> str | None:
    """Return the encoding that a byte order mark at the beginning of `content` announces; None without a mark."""
    return next((name for mark, name in _BYTE_ORDER_MARKS if content.startswith(mark)), None)


def find_encoding(open_file: Callable[[], BinaryIO]) -> str:
    """Return the encoding of a file: UTF-8, UTF-16, or else Windows-1252. Reads all of it.

    A file that mixes UTF-8 and Windows-1252, is neither, or cannot be read to its end counts as UTF-8: reading it as
    such raises the error.
    """
    try:
        with open_file() as file:
            head = file.read(1000)
        if found := marked_encoding(head) or _unmarked_utf16(head):
            return found
        if _is_decodable(open_file, "utf-8"):
            return DEFAULT
        with open_file() as file:
            is_mixed = encodings_by_line(file).is_mixed
        return WINDOWS if not is_mixed and _is_decodable(open_file, WINDOWS) else DEFAULT
    except DataError:
        return DEFAULT


def has_one_byte_characters(encoding: str) -> bool:
    """Return True for Windows-1252 and Latin-1, which decode any UTF-8 file without an error, but to wrong text."""
    return codecs.lookup(encoding).name in _ONE_BYTE


def encodings_by_line(file: BinaryIO) -> LineEncodings:
    """Sort the lines of a file that are not ASCII by their encoding. A line whose encoding is in doubt is left out."""
    found = LineEncodings()
    for number, line in enumerate(file, 1):
        if line.isascii():
            continue
        has_pairs = _UTF8_PAIR.search(line) is not None
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            (found.both if has_pairs else found.windows).append(number)
        else:
            if has_pairs or sum(not character.isascii() for character in text) > 2:
                found.utf8.append(number)
    return found


def line_ranges(lines: Sequence[int]) -> str:
    """Format ascending line numbers, neighbors as a range.

    >>> line_ranges([1, 2, 3, 7])
    '1-3, 7'
    """
    ranges: list[list[int]] = []
    for line in lines:
        if ranges and ranges[-1][1] == line - 1:
            ranges[-1][1] = line
        else:
            ranges.append([line, line])
    shown = [str(first) if first == last else f"{first}-{last}" for first, last in ranges[:_SHOWN]]
    return ", ".join([*shown, "..."] if len(ranges) > _SHOWN else shown)


def _is_decodable(open_file: Callable[[], BinaryIO], encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    with open_file() as file:
        try:
            while chunk := file.read(_CHUNK):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def _unmarked_utf16(content: bytes) -> str | None:
    """Detect UTF-16 without a byte order mark by the zero bytes of ASCII characters."""
    head = content[:200]
    if len(head) <= 3:
        return None
    if head[1::2].count(0) > len(head) // 4:
        return "utf-16-le"
    return "utf-16-be" if head[::2].count(0) > len(head) // 4 else None
