"""Texts in one plain style, so that formatting does not tell raters which model wrote them.

No word and no number is added, lost or moved: only marks, symbols and white space change. Where a mark may have a
meaning of its own, such as `- 2.5` or `+ fever` at the start of a line, it stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from medhelm.domain.completion import strip_reasoning

MOST_LEVELS = 4
"""Deepest level of a list that keeps an indent of its own."""

LONG_LINE = 60
"""Characters from which a line that ends within a sentence is taken for one that was broken to a fixed width."""

_LINE_ENDS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_BLANKS = re.compile(r"[^\S\n]|[\x00-\x08\x0e-\x1f\x7f]")
_INVISIBLE = re.compile(r"[\u00ad\u200b\u2060\ufeff\u202a-\u202e]+")
_SIGNS = {"✅": "✓", "✔": "✓", "☑": "✓", "❌": "✗", "✖": "✗", "✘": "✗", "❎": "✗"}  # marks of right and wrong stay
_EMOJI = re.compile(
    r"[ ]*(?:(?![✓✗☐★☆♀♂❶-➓])[\U0001F000-\U0001F0FF\U0001F10D-\U0001F12F\U0001F16A-\U0001FAFF\u2600-\u27BF\u2B50\u2B55]"
    r"|[\ufe0f\u20e3\u200d\U000E0020-\U000E007F])+[ ]*"
)
_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "…": "...", "‐": "-", "‑": "-"})
_DASH = re.compile(r"[ ]*—[ ]*")

_RULE = re.compile(r"[ ]*(?:[-*_][ ]*){3,}|[ ]*={3,}[ ]*")
_TABLE_RULE = re.compile(r"[ ]*\|?[ ]*:?-+:?[ ]*(?:\|[ ]*:?-+:?[ ]*)*\|?[ ]*")
_FENCE = re.compile(r"[ ]*(?:`{3,}|~{3,})[ ]*")
_HEADING = re.compile(r"[ ]{0,3}#{1,6}[ ]+(?=\S)")
_QUOTE = re.compile(r"(?:[ ]{0,3}>[ ]?)+(?=[^\W\d])")
_BULLETS = "[-*•◦▪‣●○·▸►➤➢–]"
_BULLET = re.compile(rf"([ ]*)({_BULLETS})[ ]+(?=\S)")
_INNER_BULLET = re.compile(rf"([*_]{{0,3}})[ ]*{_BULLETS}[ ]+(?=\S)")
_IN_TABLE = re.compile(r"[ ]*\|.*\|[ ]*")
_LINK = re.compile(r"!?\[([^\[\]\n]{1,500})\]\((\S{1,500}?)\)")
_CODE = re.compile(r"(`+)(?!`)(.{1,1500}?)(?<!`)\1(?!`)")
_EMPHASIS = (
    re.compile(r"(?<![\w*])(\*{1,3})(?=[^\s*])((?:(?!\n\n).){1,1500}?)(?<=[^\s*])\1(?!\*)", re.DOTALL),
    re.compile(r"(?<!\w)(_{1,3})(?=[^\s_])((?:(?!\n\n).){1,1500}?)(?<=[^\s_])\1(?!\w)", re.DOTALL),
)

_UNPAIRED = re.compile(r"(?<!\w)\*{2,}(?=[^\W\d])|(?<=[^\W\d])\*{2,}(?!\w)|(?<=[:.!?])\*{2,}(?!\w)|(?<=• )\*{2,}(?=\S)")


def leveled(text: str) -> str:
    r"""Return a completion in the plain style of all cases, without its reasoning.

    Marks of headings, emphasis, code and quotes are dropped; bullets, quotation marks and dashes have one form; rows of
    tables are lines with `|` between cells; formulas stay as they are written; emoji and empty lines are dropped; lines
    that were broken to a fixed width are joined.

    >>> leveled("## Plan\n\n* **Aspirin** 81 mg 💊\n* follow-up")
    'Plan\n\n• Aspirin 81 mg\n• follow-up'
    """
    text = _LINE_ENDS.sub("\n", strip_reasoning(text))
    text = _BLANKS.sub(lambda found: "    " if found[0] == "\t" else " ", text)
    text = _INVISIBLE.sub(_gap, text)
    text = _EMOJI.sub(_gap_of_emoji, "".join(_SIGNS.get(sign, sign) for sign in text)).translate(_QUOTES)
    text = "\n".join(_without_marks(text.split("\n")))
    text = _CODE.sub(_inner, _LINK.sub(r"\1 (\2)", text))
    for pattern in (*_EMPHASIS, *_EMPHASIS):  # twice: bold in italic
        text = pattern.sub(_inner, text)
    text = _UNPAIRED.sub("", text)
    text = _DASH.sub(" – ", text)
    return "\n".join(joined_lines([_single_blanks(line) for line in text.split("\n")])).strip()


def _gap(found: re.Match[str]) -> str:
    """Return what replaces something between two parts of a text: a space if words would grow together."""
    text = found.string
    before, after = text[max(found.start() - 1, 0) : found.start()], text[found.end() : found.end() + 1]
    return " " if before.isalnum() and after.isalnum() else ""


def _gap_of_emoji(found: re.Match[str]) -> str:
    """Return what replaces emoji: nothing at an end of a line and before punctuation, else a space."""
    text = found.string
    before, after = text[max(found.start() - 1, 0) : found.start()], text[found.end() : found.end() + 1]
    return "" if before in ("", "\n") or after in ("", "\n", *".,;:!?)]") else " "


def _inner(found: re.Match[str]) -> str:
    """Return a marked text without its marks, apart from a word that follows at once."""
    after = found.string[found.end() : found.end() + 1]
    before = found.string[max(found.start() - 1, 0) : found.start()]
    left = " " if before.isalnum() and found[2][:1].isalnum() else ""
    return left + found[2] + (" " if after.isalnum() and found[2][-1:].isalnum() else "")


def _without_marks(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines without marks of headings, rules, code, quotes and tables, and with bullets in one form."""
    has_plus = any(line.lstrip(" ").startswith("+ ") for line in lines)
    bullets = {found[2] for line in lines if (found := _BULLET.match(line)) and not line[found.end()].isdigit()}
    if has_plus:
        bullets.discard("-")  # `+` and `-` may mean present and absent
    indents: list[int] = []
    for line in lines:
        if "|" in line and _TABLE_RULE.fullmatch(line):
            continue
        if _RULE.fullmatch(line):
            yield ""
            continue
        fence = _FENCE.match(line)
        line = line[fence.end() :] if fence else line
        heading = _HEADING.match(line)
        if heading:
            yield from ("", line[heading.end() :].rstrip("# "), "")
            continue
        line = line[quote.end() :] if (quote := _QUOTE.match(line)) else line
        found = _BULLET.match(line)
        if found and found[2] in bullets:
            indent = len(found[1])
            while indents and indents[-1] >= indent:
                indents.pop()
            indents.append(indent)
            rest = line[found.end() :]
            while (again := _INNER_BULLET.match(rest)) and not rest[again.end()].isdigit():
                rest = again[1] + rest[again.end() :]
            yield "  " * min(len(indents) - 1, MOST_LEVELS - 1) + "• " + rest
            continue
        indents = indents if line.strip() == "" else []
        if _IN_TABLE.fullmatch(line):
            line = " | ".join(cell.strip() for cell in line.strip(" ")[1:-1].split("|"))
        yield line.strip()


def _single_blanks(line: str) -> str:
    """Return a line with single spaces; a bullet keeps its indent."""
    text = re.sub(r" {2,}", " ", line.strip())
    indent = len(line) - len(line.lstrip(" "))
    return " " * indent + text if text.startswith("•") else text


def joined_lines(lines: Sequence[str]) -> list[str]:
    """Return lines with at most one empty line between them, and lines that were broken within a sentence as one."""
    kept: list[str] = []
    for line in lines:
        last = kept[-1] if kept else ""
        if len(last) >= LONG_LINE and last[-1].isalnum() and line[:1].islower() and "|" not in line + last:
            kept[-1] += f" {line}"
        elif line or last:
            kept.append(line)
    return kept
