"""Markdown as HTML, for texts of models and for pages of the documentation.

Only the elements of this module are written. HTML in the text is shown as text, links are not links, and images are not
loaded. All text is escaped when the parts are joined. No word gets lost: if Markdown would leave something out, such as
the last cell of a row that is too long, the whole text is shown as it is.

Templates of the pages of an extension: everything is escaped, and every unknown name is an error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path

from jinja2 import Environment, FileSystemBytecodeCache, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket
from markdown_it import MarkdownIt
from markdown_it.rules_block.table import escapedSplit
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markupsafe import Markup

from medhelm import __version__
from medhelm.domain.text import duration, listed, plural
from medhelm.results.formats.tables import MISSING, decimal, percent, printable, significant, with_minus

MOST_CHARACTERS = 100_000
"""Longest text that is rendered; a longer one is shown as it is. The worst text of this length takes about a second."""

MOST_LEVELS = 24
"""Deepest nesting of lists and quotes that is rendered; a text with more is shown as it is."""

MOST_MARKS = 8
"""Most marks inside each other, such as bold in italic; deeper ones are left out, their text is not."""

LOWEST_HEADING = 6

_START, _DIRECTED, _END = Markup("<{}>"), Markup('<{} dir="auto">'), Markup("</{}>")
ELEMENTS = {
    **{name: (_DIRECTED.format(name), _END.format(name)) for name in ("p", "li", "td", "h2", "h3", "h4", "h5", "h6")},
    **{
        name: (_START.format(name), _END.format(name))
        for name in ("ul", "ol", "blockquote", "thead", "tbody", "tr", "strong", "em", "s")
    },
    "th": (Markup('<th scope="col" dir="auto">'), Markup("</th>")),
}
"""Name of an element -> its start and end, as they are written."""

TABLE = (Markup('<div class="scroll" tabindex="0"><table>'), Markup("</table></div>"))
_TIMES = re.compile(r"(?<=\d)\*+(?=\d)")
_MATH_END = {"\\(": "\\)", "\\[": "\\]", "$$": "$$"}


def with_code(text: str) -> Markup:
    """Return a sentence with the parts between backticks as code.

    >>> str(with_code("`medhelm run` makes <some>"))
    '<code>medhelm run</code> makes &lt;some&gt;'
    """
    parts = re.split(r"`([^`\n]+)`", text)
    return Markup("").join(_code(part) if index % 2 else part for index, part in enumerate(parts))


def rendered(text: str, *, below: int = 1, keep_lines: bool = True) -> Markup:
    """Return a text in Markdown as HTML.

    Parameters
    ----------
    text
        A completion, or a page of the documentation; nothing in it is trusted.
    below
        Level of the heading that the text is under: its own headings are lower, and no level is left out.
    keep_lines
        True if the end of a line in the text is one on the page, as in clinical notes.

    Examples
    --------
    >>> str(rendered("**Dose**: 5 mg <b>"))
    '<p dir="auto"><strong>Dose</strong>: 5 mg &lt;b&gt;</p>'
    """
    if len(text) > MOST_CHARACTERS:
        return _as_it_is(text)
    tokens = _parser().parse(text)
    if any(token.level >= MOST_LEVELS - 1 for token in tokens) or _loses_cells(tokens, re.split(r"\r\n?|\n", text)):
        return _as_it_is(text)
    return Markup("").join(_Renderer(below=below, keep_lines=keep_lines).parts(tokens))


def _as_it_is(text: str) -> Markup:
    return Markup('<pre class="text" dir="auto">{}</pre>').format(text)


def _code(text: str) -> Markup:
    return Markup("<code>{}</code>").format(text)


@cache
def _parser() -> MarkdownIt:
    """Return the parser. Definitions of links are not read, because they would vanish from the page."""
    made = MarkdownIt("commonmark", {"html": False, "maxNesting": MOST_LEVELS})
    made.enable(["table", "strikethrough"]).disable(["reference", "html_block", "html_inline"])
    made.inline.ruler.before("escape", "math", _math)
    made.inline.ruler.before("emphasis", "times", _times)
    return made


def _times(state: StateInline, silent: bool) -> bool:
    """Read the `*` between two digits, as in 2*3, which is not emphasis."""
    found = _TIMES.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        state.pending += found[0]
    state.pos = found.end()
    return True


def _math(state: StateInline, silent: bool) -> bool:
    r"""Read a formula between `\(` and `\)`, `\[` and `\]` or `$$` and `$$`, which stays as it is written."""
    end = _MATH_END.get(state.src[state.pos : state.pos + 2], "")
    searched, without_end = state.env.get(end, ("", 0))
    if not end or (searched is state.src and state.pos >= without_end):
        return False
    found = state.src.find(end, state.pos + 2, state.posMax)
    if found < 0:
        if state.posMax == len(state.src):  # so that a thousand formulas without an end take one search
            state.env[end] = state.src, state.pos
        return False
    if not silent:
        state.push("math", "", 0).content = state.src[state.pos : found + 2]
    state.pos = found + 2
    return True


def _loses_cells(tokens: Sequence[Token], lines: Sequence[str]) -> bool:
    """Tell if a row of a table has more cells than its head; those are not among the tokens."""
    row, n_cells = 0, 0
    for token in tokens:
        if token.type == "tr_open" and token.map:
            row, n_cells = token.map[0], 0
        elif token.type == "td_open":
            n_cells += 1
        elif token.type == "tr_close" and n_cells:
            cells = escapedSplit(lines[row].strip(" \t>"))
            if len(cells) - (not cells[0]) - (not cells[-1]) > n_cells:
                return True
    return False


class _Renderer:
    """Writes the tokens of one text."""

    def __init__(self, *, below: int, keep_lines: bool) -> None:
        self.below = below
        self.line_end = Markup("<br>\n") if keep_lines else "\n"
        self.headings: list[int] = []
        """Levels in the text of the headings that the present one is under."""

    def parts(self, tokens: Sequence[Token]) -> list[str]:
        """Return the parts of the page for tokens of blocks; those that are not `Markup` are still to be escaped."""
        parts: list[str] = []
        for index, token in enumerate(tokens):
            kind = token.type
            if kind == "inline":
                parts += self._inline(token.children or ())
            elif kind in ("fence", "code_block"):
                parts += [Markup('<p class="quiet small">{}</p>').format(token.info.strip())] if token.info else []
                parts.append(Markup('<pre class="text"><code>{}</code></pre>').format(token.content))
            elif kind == "hr":
                parts.append(Markup("<hr>"))
            elif kind.startswith("table_"):
                parts.append(TABLE[token.nesting < 0])
            elif kind.startswith("heading_"):
                parts.append(ELEMENTS[self._heading(token)][token.nesting < 0])
            elif kind == "th_open" and not tokens[index + 1].content:
                parts.append(ELEMENTS["td"][0])
                tokens[index + 2].tag = "td"  # a head of a column or row without text is none
            elif not token.hidden:
                parts.append(self._start(token) if token.nesting > 0 else ELEMENTS[token.tag][1])
        return parts

    def _start(self, token: Token) -> Markup:
        """Return the start of an element, with the number of an item as it is written, and the side of a cell."""
        side = str(token.attrs.get("style", ""))
        if token.tag == "li" and token.info:
            return Markup('<li value="{}" dir="auto">').format(int(token.info))
        if side.endswith(("right", "center")):
            side = side.removeprefix("text-align:")
            if token.tag == "th":
                return Markup('<th scope="col" class="{}" dir="auto">').format(side)
            return Markup('<td class="{}" dir="auto">').format(side)
        return ELEMENTS[token.tag][0]

    def _heading(self, token: Token) -> str:
        """Return the element of a heading: one level below the heading that it is under."""
        level = int(token.tag[1:])
        if token.nesting > 0:
            while self.headings and self.headings[-1] >= level:
                self.headings.pop()
            self.headings.append(level)
        return f"h{min(self.below + len(self.headings), LOWEST_HEADING)}"

    def _inline(self, tokens: Sequence[Token]) -> list[str]:
        """Return the parts of one line of text or cell."""
        parts: list[str] = []
        n_open = 0
        link, link_start = Token("link_open", "", 1), 0
        for token in tokens:
            kind = token.type
            if kind in ("text", "math", "text_special"):
                parts.append(token.content)
            elif kind == "code_inline":
                parts.append(_code(token.content))
            elif kind == "softbreak":
                parts.append(self.line_end)
            elif kind == "hardbreak":
                parts.append(Markup("<br>\n"))
            elif kind == "image":
                parts += ["[image: ", token.content, *_address(token, token.content), "]"]
            elif kind == "link_open":
                link, link_start = token, len(parts)
            elif kind == "link_close":
                parts += _address(link, "".join(parts[link_start:]))
            elif token.nesting > 0:
                n_open += 1
                parts += [ELEMENTS[token.tag][0]] if n_open <= MOST_MARKS else []
            else:
                parts += [ELEMENTS[token.tag][1]] if n_open <= MOST_MARKS else []
                n_open -= 1
        return parts


def _address(link: Token, shown: str) -> list[str]:
    """Return the address of a link or image, if it is one of the web, and its title, in brackets after its text."""
    address, title = (str(link.attrs.get(name, "")) for name in ("src" if link.type == "image" else "href", "title"))
    is_new = address.startswith(("http://", "https://")) and address != shown
    parts = [*([address] if is_new else []), *([title] if title else [])]
    return [f" ({', '.join(parts)})" if shown else ", ".join(parts)] if parts else []


# --- templating -------------------------------------------------------------------------------------------------------


class _Compiled(FileSystemBytecodeCache):
    """Compiled templates of a package, in the folder and on the terms of Python's own compiled modules."""

    def __init__(self, package: str) -> None:
        folder = Path(str(import_module(package).__file__)).with_name("__pycache__")
        super().__init__(str(folder), f"%s.{sys.implementation.cache_tag}.template")

    def load_bytecode(self, bucket: Bucket) -> None:
        try:
            super().load_bytecode(bucket)
        except Exception:  # noqa: BLE001 - a damaged file, whose bytes can raise anything
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        if not sys.dont_write_bytecode:
            with suppress(OSError):  # no such folder, not ours, or no space left
                super().dump_bytecode(bucket)


@cache
def page_templates(package: str) -> Environment:
    """Return the templates in a package, with the filters that all pages share."""
    made = Environment(
        loader=PackageLoader(package),
        bytecode_cache=_Compiled(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(
        decimal=lambda value, places=3: MISSING if value is None else with_minus(decimal(value, places) or MISSING),
        duration=lambda seconds: MISSING if seconds is None else duration(seconds),
        listed=listed,
        percent=percent,
        plural=plural,
        printable=printable,
        rendered=rendered,
        significant=significant,
    )
    made.globals.update(version=__version__, missing=MISSING)
    return made
