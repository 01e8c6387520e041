"""Where sentences begin: places at which a text can be cut without leaving half of one."""

from __future__ import annotations

import re

_BREAK = re.compile(r"[.!?][\"'”’)\]]*(?:\s+|(?=[A-Z][A-Z /&-]{2,40}:))|\n\s*")
"""What stands between two sentences: the end of one, with what closes after it; nothing more where a section's title
follows at once, as in notes that lost their line ends; or the end of a line."""

_NO_END = re.compile(
    r"(?:^|[\s(\[])(?:[A-Za-z]|Drs?|Mrs?|Ms|Prof|St|vs|e\.g|i\.e|cf|[Nn]os?|[Ff]igs?|[Aa]pprox|ca|[Pp]ts?|[Yy]rs?"
    r"|n\.v|U\.[SK])$"
    r"|(?:^|\n|[.;]\s|[a-z][.;])[ \t]*\d{1,3}$|:[ \t]*1$"
)
"""What a full stop can stand after within a sentence: abbreviations, initials, the number of a list's item."""

_LOOKED_AT = 12
"""Characters before a full stop that are looked at."""

_WORD = re.compile(r"\s+(?=\S)")


def sentence_starts(text: str) -> list[int]:
    r"""Places in `text`, ascending, at which a sentence or a line begins; the first, at 0, left out.

    A small letter after a full stop begins none, unless a blank stands before the stop, as in text that was cut into
    tokens.

    >>> text = "Seen by Dr. Low on 3 May. BP was 120/80 mm Hg.\n- no fever"
    >>> [text[start : start + 7] for start in sentence_starts(text)]
    ['BP was ', '- no fe']
    """
    return [match.end() for match in _BREAK.finditer(text) if match.end() < len(text) and _ends(text, match)]


def word_starts(text: str) -> list[int]:
    """Places in `text`, ascending, at which a word begins; the first left out.

    >>> word_starts("to be or")
    [3, 6]
    """
    return [match.end() for match in _WORD.finditer(text)]


def _ends(text: str, match: re.Match[str]) -> bool:
    """Whether a sentence ends here."""
    if "\n" in match.group() or text[match.start()] != ".":
        return True
    if text[match.end()].islower():
        return text[match.start() - 1 : match.start()] == " "
    return not _NO_END.search(text[max(0, match.start() - _LOOKED_AT) : match.start()])
