"""What a browser would find in a page."""

from __future__ import annotations

from html.parser import HTMLParser


class HtmlPage(HTMLParser):
    """Elements of a page with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        """Read the page."""
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.text += data

    def values(self, *names: str) -> list[str]:
        """Return the values of attributes with these names."""
        return [attributes[name] for _, attributes in self.elements for name in names if name in attributes]

    def tags(self) -> list[str]:
        """Return the names of the elements, and check that none has a handler of events."""
        assert not any(name.startswith("on") for _, attributes in self.elements for name in attributes)
        return [tag for tag, _ in self.elements]
