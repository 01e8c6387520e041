"""Reads XML safely: element by element, without entity definitions or external references."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from medhelm.domain import Source
from medhelm.errors import DataError, suggestion
from medhelm.io.files import open_bytes
from medhelm.io.rows import Row

_CHUNK = 1 << 16
_DEEPEST = 200
"""Maximum nesting depth. Documents of clinical notes reach 10."""
_NAMES_KEPT = 200

OWN_TEXT = "#text"
"""Key of an element's own text, if it also has attributes or child elements."""
ATTRIBUTE = "@"
"""Prefix of the keys of attributes."""


def read_xml(path: Path, source: Source) -> Iterator[Row]:
    """Yield one row per element named by `source.rows`, a name or path such as `List/Answer`, or per child of the root.

    Attributes become `@NAME`. A child element becomes a text if it contains only text, else a mapping; elements with
    the same name become a list. The element's own text becomes `#text`, unless it is white space between elements.
    Names keep their prefix. A matching element inside another matching element is part of it, not a row.
    """
    collector = _Rows(tuple(source.rows.split("/")) if source.rows else ())
    parser = _parser(str(path), collector)
    with open_bytes(path) as file:
        for _ in _feed(parser, file, str(path)):
            yield from collector.take_rows()
    if source.rows and not collector.found:
        help_ = suggestion(collector.wanted[-1], collector.names)
        raise DataError(f"{path}: `rows: {source.rows}` matches no element. {help_}".rstrip())


def parse_xml(text_or_path: str | bytes | Path) -> Element:
    """Parse an XML document, given as text, bytes or file (which may end in `.gz`), and return its root element.

    Raises: FileNotFoundError; DataError with the line if it is not well formed, defines entities or nests too deeply.
    """
    place, encoding = "the XML text", None
    builder = TreeBuilder()
    if isinstance(text_or_path, Path):
        place, file = str(text_or_path), open_bytes(text_or_path)
    elif isinstance(text_or_path, bytes):
        file = io.BytesIO(text_or_path)
    else:
        # The encoding declaration does not apply to text that is already decoded.
        encoding, file = "utf-8", io.BytesIO(text_or_path.encode())
    with file:
        for _ in _feed(_parser(place, builder, encoding), file, place):
            pass
    return builder.close()


def parse_into(target: XmlTarget, file: IO[bytes], place: str) -> None:
    """Parse an XML document and pass its elements to `target`, in order. Names keep their prefix.

    Parameters: place, the document, for messages. Raises: DataError as `parse_xml`.
    """
    for _ in _feed(_parser(place, target), file, place):
        pass


class XmlTarget(Protocol):
    """Receives the events of a parser: `_Rows`, or the standard library's `TreeBuilder`."""

    def start(self, name: str, attributes: dict[str, str], /) -> object:
        """Handle the start of an element."""

    def data(self, text: str, /) -> object:
        """Handle text in the innermost element."""

    def end(self, name: str, /) -> object:
        """Handle the end of the innermost element."""


@dataclass(slots=True)
class _Node:
    """An open element within a row."""

    content: Row
    texts: list[str] = field(default_factory=list)
    n_elements: int = 0

    def value(self) -> object:
        """Convert the element to a value within its parent: a text or a mapping."""
        return self.row() if self.content else "".join(self.texts)

    def row(self) -> Row:
        """Convert the element to a row: always a mapping."""
        text = "".join(self.texts)
        if not self.content or (text if not self.n_elements else text.strip()):
            self.content[OWN_TEXT] = text
        return self.content

    def add(self, name: str, value: object) -> None:
        """Add a child element; elements with the same name become a list."""
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
    """Collects the elements that are rows; of all others, only the current path is kept."""

    def __init__(self, wanted: Sequence[str]) -> None:
        self.wanted = tuple(wanted)
        self.found = False
        self.names: dict[str, None] = {}
        self._path: list[str] = []
        self._open: list[_Node] = []
        self._done: list[Row] = []

    def take_rows(self) -> list[Row]:
        """Return the rows completed since the last call."""
        done, self._done = self._done, []
        return done

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._path.append(name)
        if len(self.names) < _NAMES_KEPT:
            self.names[name] = None
        if self._open or self._is_row():
            self._open.append(_Node({f"{ATTRIBUTE}{key}": value for key, value in attributes.items()}))

    def data(self, text: str) -> None:
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


def _parser(place: str, target: XmlTarget, encoding: str | None = None) -> expat.XMLParserType:
    """Create a parser that passes events to `target` and refuses dangerous content."""
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
    parser.CharacterDataHandler = target.data
    fix = "Entities are refused, because they can expand without limit or read other files. Write their text instead."
    parser.EntityDeclHandler = refuse(f"defines an entity. {fix}")
    parser.ExternalEntityRefHandler = refuse(f"refers to another file. {fix}")
    parser.SkippedEntityHandler = refuse(f"refers to an entity that is defined elsewhere. {fix}")
    return parser


def _feed(parser: expat.XMLParserType, file: IO[bytes], place: str) -> Iterator[None]:
    """Feed the file to the parser; yield after each chunk."""
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
