"""XML without its dangers: read element by element, no entity is ever defined, and nothing outside is ever fetched."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from medhelm.domain import Source
from medhelm.errors import DataError, suggestion
from medhelm.io.files import open_bytes
from medhelm.io.rows import Row

_CHUNK = 1 << 16
_DEEPEST = 200
"""Elements within elements. Documents of notes have 10."""
_NAMES_KEPT = 200

OWN_TEXT = "#text"
"""Key of an element's own text, where it has attributes or elements too."""
ATTRIBUTE = "@"
"""What keys of attributes begin with."""


def read_xml(path: Path, source: Source) -> Iterator[Row]:
    """One row per element named by `source.rows`, a name or a path such as `List/Answer`; else the root's children.

    Attributes become `@NAME`; an element within becomes a text if it holds nothing but text, else a mapping, and a list
    if there are several of one name; the element's own text becomes `#text`, unless it is white space around elements.
    Names keep their prefix. An element that matches within another one that matches is part of it, not a row.
    """
    collector = _Rows(tuple(source.rows.split("/")) if source.rows else ())
    parser = _parser(str(path), collector)
    with open_bytes(path) as file:
        for _ in _fed(parser, file, str(path)):
            yield from collector.taken()
    if source.rows and not collector.found:
        help_ = suggestion(collector.wanted[-1], collector.names)
        raise DataError(f"{path}: `rows: {source.rows}` is not in it: there is no such element. {help_}".rstrip())


def parse_xml(text_or_path: str | bytes | Path) -> Element:
    """The root element of an XML document: its text, its bytes, or the file it is in (which may be packed as `.gz`).

    Raises: FileNotFoundError; DataError with the line if it is not well formed, defines entities or nests too deeply.
    """
    place = str(text_or_path) if isinstance(text_or_path, Path) else "the XML text"
    builder = _Tree()
    if isinstance(text_or_path, Path):
        with open_bytes(text_or_path) as file:
            _exhaust(_fed(_parser(place, builder), file, place))
    else:
        # A text is no longer in the encoding that its declaration names.
        encoding, content = ("utf-8", text_or_path.encode()) if isinstance(text_or_path, str) else (None, text_or_path)
        _exhaust(_fed(_parser(place, builder, encoding), io.BytesIO(content), place))
    return builder.tree.close()


class _Target(Protocol):
    """What is told about a document on the way through it."""

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""

    def text(self, text: str) -> None:
        """Text within the innermost element."""

    def end(self, name: str) -> None:
        """The innermost element ends."""


class _Tree:
    """Builds the whole document."""

    def __init__(self) -> None:
        self.tree = TreeBuilder()

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        self.tree.start(name, dict(attributes))

    def text(self, text: str) -> None:
        self.tree.data(text)

    def end(self, name: str) -> None:
        self.tree.end(name)


@dataclass(slots=True)
class _Node:
    """An element that has begun, within a row."""

    content: Row
    texts: list[str] = field(default_factory=list)
    n_elements: int = 0

    def value(self) -> object:
        """What the element becomes within its parent: a text, or a mapping."""
        return self.row() if self.content else "".join(self.texts)

    def row(self) -> Row:
        """What it becomes as a row: always a mapping."""
        text = "".join(self.texts)
        if not self.content or (text if not self.n_elements else text.strip()):
            self.content[OWN_TEXT] = text
        return self.content

    def add(self, name: str, value: object) -> None:
        """Take in an element within; the second of its name makes a list."""
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
    """Keeps the elements that are rows, and of all others no more than where it is."""

    def __init__(self, wanted: Sequence[str]) -> None:
        self.wanted = tuple(wanted)
        self.found = False
        self.names: dict[str, None] = {}
        self._path: list[str] = []
        self._open: list[_Node] = []
        self._done: list[Row] = []

    def taken(self) -> list[Row]:
        """The rows that ended since the last time."""
        done, self._done = self._done, []
        return done

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._path.append(name)
        if len(self.names) < _NAMES_KEPT:
            self.names[name] = None
        if self._open or self._is_row():
            self._open.append(_Node({f"{ATTRIBUTE}{key}": value for key, value in attributes.items()}))

    def text(self, text: str) -> None:
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


def _parser(place: str, target: _Target, encoding: str | None = None) -> expat.XMLParserType:
    """A parser that tells `target` what it reads, and refuses what is dangerous."""
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
    parser.CharacterDataHandler = target.text
    fix = "Entities of one's own are refused, because they can blow up a file or reach into others. Write them out."
    parser.EntityDeclHandler = refuse(f"defines an entity. {fix}")
    parser.ExternalEntityRefHandler = refuse(f"refers to something outside the file. {fix}")
    parser.SkippedEntityHandler = refuse(f"refers to an entity that is defined elsewhere. {fix}")
    return parser


def _fed(parser: expat.XMLParserType, file: BinaryIO, place: str) -> Iterator[None]:
    """Feed the parser, one portion of the file after another."""
    try:
        while chunk := file.read(_CHUNK):
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


def _exhaust(steps: Iterator[None]) -> None:
    for _ in steps:
        pass
