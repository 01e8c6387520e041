"""Tables, links and texts of a page, as a reader gets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"br", "hr", "img", "input", "link", "meta", "wbr"}
"""Elements without an end."""


@dataclass
class Node:
    """An element of a page."""

    tag: str
    """Name of the element."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Its attributes."""
    children: list[Node | str] = field(default_factory=list)
    """Elements and texts in it."""

    def all(self, tag: str, **attributes: str) -> list[Node]:
        """Return the elements of a name below this one that have these attributes; `class_` is one of the classes."""
        found = []
        for child in self.children:
            if isinstance(child, Node):
                if child.tag == tag and all(child._has(name, value) for name, value in attributes.items()):
                    found.append(child)
                found += child.all(tag, **attributes)
        return found

    def _has(self, name: str, value: str) -> bool:
        own = self.attributes.get(name.rstrip("_"), "")
        return value in own.split() if name == "class_" else own == value

    @property
    def text(self) -> str:
        """Its text without pictures, spaces run together."""
        return " ".join(self._words().split())

    def _words(self) -> str:
        if self.tag == "svg":
            return ""
        return "".join(child if isinstance(child, str) else child._words() for child in self.children)

    @property
    def links(self) -> list[str]:
        """The addresses of its links."""
        return [one.attributes["href"] for one in self.all("a") if "href" in one.attributes]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Node("page")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Node(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> ends <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse(text: str) -> Node:
    """Parse a page. Raises: AssertionError for an end that fits no start."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert [node.tag for node in reader.open] == ["page"]
    return reader.open[0]


def rows_of(page: Node, table: str) -> dict[str, dict[str, Node]]:
    """Return the rows of a table by their heading: heading of the row -> key of the column -> cell.

    Parameters: table, its id.
    """
    node = page.all("table", id=table)[0]
    keys = [one.attributes["data-key"] for one in node.all("th") if "data-key" in one.attributes]
    found = {}
    for row in node.all("tr"):
        cells: Sequence[Node] = [one for one in row.children if isinstance(one, Node)]
        names = [one for one in cells if one.attributes.get("scope") == "row"]
        if len(cells) == len(keys) and names:
            found[name_in(names[0])] = dict(zip(keys, cells, strict=True))
    return found


def name_in(cell: Node) -> str:
    """Return the name in the heading of a row, without its labels."""
    named = [*cell.all("a"), *(one for one in cell.all("span", class_="model") if not one.all("a")), cell]
    return named[0].text if named[0].tag != "span" else Node("", {}, named[0].children[:1]).text
