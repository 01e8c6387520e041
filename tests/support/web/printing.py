"""Pages printed to PDF by Chromium, and faults of their layout: texts that are cut, or printed over each other."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

PAPERS = (("Letter", False), ("Letter", True), ("A4", False), ("A4", True))
"""Sizes of paper, each upright and turned: name, and whether it is landscape."""

TOLERANCE = (3.0, 1.5)
"""Points by which the boxes of two texts may overlap across and down: letters are kerned, and lines set solid."""

OUTLINED = 16
"""Most characters of a piece of outlined text, which a reader of the file finds twice."""


@dataclass(frozen=True, slots=True)
class TextBox:
    """A piece of text of one line, in points from the lower left corner of its sheet."""

    left: float
    bottom: float
    right: float
    top: float
    text: str

    def overlaps(self, other: TextBox) -> bool:
        """Return True if another text is printed over this one."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.top, other.top) - max(self.bottom, other.bottom)
        return wide > TOLERANCE[0] and high > TOLERANCE[1] and not self._is_outline_of(other)

    def _is_outline_of(self, other: TextBox) -> bool:
        """Return True for pieces of one word whose letters are drawn twice, with a wide outline behind them."""
        mine, others = set("".join(self.text.split())), set("".join(other.text.split()))
        return max(len(self.text), len(other.text)) <= OUTLINED and not mine.isdisjoint(others)


@dataclass(frozen=True, slots=True)
class Sheet:
    """One sheet of a printed page."""

    width: float
    """In points."""
    height: float
    """In points."""
    boxes: tuple[TextBox, ...]
    """All pieces of text, from top to bottom."""
    text: str
    """The whole text."""

    def faults(self, margin: float = 10.0) -> Iterator[str]:
        """Yield texts outside the printable part of the sheet, and pairs of texts over each other."""
        for box in self.boxes:
            if min(box.left, box.bottom) < margin or self.width - box.right < margin or self.height - box.top < margin:
                yield f"cut: {box}"
        for at, box in enumerate(self.boxes):
            for other in self.boxes[at + 1 :]:
                if other.top < box.bottom:
                    break
                if box.overlaps(other):
                    yield f"over each other: {box} {other}"


def sheets_of(pdf: bytes) -> list[Sheet]:
    """Return the sheets of a PDF file; skip the test without the library that reads it."""
    pdfium: Any = pytest.importorskip("pypdfium2", reason="pypdfium2 is not installed")
    document = pdfium.PdfDocument(pdf)
    found = []
    for page in document:
        text = page.get_textpage()
        boxes = []
        for index in range(text.count_rects()):
            place = text.get_rect(index)
            said = text.get_text_bounded(*place).strip()
            if said and not _is_slanted(pdfium.raw, text, place):
                left, bottom, right, top = place
                boxes.append(TextBox(left, bottom, right, top, said))
        boxes.sort(key=lambda box: -box.top)
        width, height = page.get_size()
        found.append(Sheet(width, height, tuple(boxes), text.get_text_range()))
    document.close()
    return found


def _is_slanted(raw: Any, text: Any, place: tuple[float, float, float, float]) -> bool:
    """Return True for a text whose line is neither level nor upright: its box holds more than the text."""
    left, bottom, right, top = place
    at = raw.FPDFText_GetCharIndexAtPos(text.raw, (left + right) / 2, (bottom + top) / 2, right - left, top - bottom)
    angle = raw.FPDFText_GetCharAngle(text.raw, at) if at >= 0 else 0.0
    return abs(math.sin(2 * angle)) > 0.01


def print_page(page: Page, paper: str, *, landscape: bool) -> list[Sheet]:
    """Print the page that a browser shows as its user would: on this paper, with the browser's own margins."""
    margins: Any = dict.fromkeys(("top", "right", "bottom", "left"), "1cm")
    return sheets_of(page.pdf(format=paper, landscape=landscape, margin=margins))


def faults_of(sheets: list[Sheet], headings: Collection[str] = ()) -> list[str]:
    """Return all faults of a printed page. `headings`: texts that may not end a sheet."""
    found = [f"sheet {number}: {fault}" for number, sheet in enumerate(sheets, 1) for fault in sheet.faults()]
    lowest = [(number, sheet.boxes[-1].text if sheet.boxes else "") for number, sheet in enumerate(sheets[:-1], 1)]
    found += [f"sheet {number} is empty" for number, text in lowest if not text]
    return found + [f"sheet {number} ends with the heading {text}" for number, text in lowest if text in headings]


_SHOWN = """() => {
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const own = walker.currentNode.parentElement, text = walker.currentNode.data.replace(/\\s+/g, "");
    if (text && own.checkVisibility({visibilityProperty: true}) && !own.closest("select")) found.push(text);
  }
  return found;
}"""


def shown_texts(page: Page) -> list[str]:
    """Return the texts that a page shows with the style of its current medium, without spaces."""
    found: list[str] = page.evaluate(_SHOWN)
    return found


def missing_texts(shown: list[str], sheets: list[Sheet]) -> list[str]:
    """Return texts of a page that its sheets do not hold: they are beyond an edge, or cut."""
    printed = _plain("".join(re.sub(r"Page \d+ of \d+", "", sheet.text) for sheet in sheets))
    return [text for text in map(_plain, shown) if text not in printed]


def _plain(text: str) -> str:
    """Return a text without spaces, marks of broken lines, and characters that fonts join or replace."""
    return "".join(one for one in unicodedata.normalize("NFKD", text) if one.isascii() and one.isalnum())
