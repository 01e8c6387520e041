"""Texts in Markdown: nothing of them is active on a page, and no word gets lost."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2.bccache import bc_magic

from medhelm.results.formats.markdown import MOST_CHARACTERS, MOST_MARKS, page_templates, rendered, with_code

ALLOWED = {
    *("p", "br", "hr", "ul", "ol", "li", "blockquote", "pre", "code", "strong", "em", "s"),
    *("h2", "h3", "h4", "h5", "h6", "div", "table", "thead", "tbody", "tr", "th", "td"),
}
ATTRIBUTES = {"dir": r"auto", "scope": r"col", "value": r"\d{1,9}", "tabindex": r"0"}
CLASSES = {"scroll", "text", "right", "center", "quiet small"}


class Reader(HTMLParser):
    """Collects the elements and the text of a page; fails on anything that is not allowed or not closed."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[str] = []
        self.shown = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED
        for name, value in attrs:
            assert value in CLASSES if name == "class" else re.fullmatch(ATTRIBUTES[name], value or "")
        self.elements.append(tag)
        if tag not in ("br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.shown += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(decl)

    handle_pi = unknown_decl = handle_comment


def letters(text: str) -> str:
    return "".join(re.findall(r"[^\W_]", text))


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("# Plan\n### Dose\n# Next", "<h2>Plan</h2><h3>Dose</h3><h2>Next</h2>"),
        ("BP 120/80\nHR 80", "<p>BP 120/80<br>\nHR 80</p>"),
        ("3. a\n7. b", '<ol><li value="3">a</li><li value="7">b</li></ol>'),
        ("- a\n  - b", "<ul><li>a<ul><li>b</li></ul></li></ul>"),
        ("**a** _b_ ~~c~~ `d<`", "<p><strong>a</strong> <em>b</em> <s>c</s> <code>d&lt;</code></p>"),
        ("2*3*4 mg", "<p>2*3*4 mg</p>"),
        ("a formula \\( without end\n\n\\(*x*\\)", "<p>a formula ( without end</p><p>\\(*x*\\)</p>"),
        (r"\(a_1*b*c\), \[x\] and $$y$$", r"<p>\(a_1*b*c\), \[x\] and $$y$$</p>"),
        ("```json\n<b>\n```", '<p class="quiet small">json</p><pre class="text"><code>&lt;b&gt;\n</code></pre>'),
        ("[a](https://x.org/ 'b') [c](d.md)", "<p>a (https://x.org/, b) c</p>"),
        ("<https://x.org/>", "<p>https://x.org/</p>"),
        ("[a](javascript:alert(1))", "<p>[a](javascript:alert(1))</p>"),
        ("![scan](https://x.org/1.png)", "<p>[image: scan (https://x.org/1.png)]</p>"),
        ("[a]: https://x.org/", "<p>[a]: https://x.org/</p>"),
        ("<script>a</script> &lt;", "<p>&lt;script&gt;a&lt;/script&gt; &lt;</p>"),
        ("<!-- a -->", "<p>&lt;!-- a --&gt;</p>"),
        ("|a|b|\n|-|-|\n|1|2|3|", '<pre class="text">|a|b|\n|-|-|\n|1|2|3|</pre>'),
        ("> > a", "<blockquote><blockquote><p>a</p></blockquote></blockquote>"),
        (">" * 10_000 + "a", f'<pre class="text">{"&gt;" * 10_000}a</pre>'),
    ],
)
def test_markdown_on_a_page(text: str, page: str) -> None:
    assert str(rendered(text)).replace(' dir="auto"', "") == page


def test_table_of_a_text() -> None:
    page = rendered("| | dose |\n|---|--:|\n| a \\| b | 5 <i> |\n| c |")
    assert Reader(str(page)).elements == ["div", "table", "thead", "tr", "td", "th", "tbody", *["tr", "td", "td"] * 2]
    assert '<th scope="col" class="right" dir="auto">dose</th>' in page
    assert '<td dir="auto">a | b</td><td class="right" dir="auto">5 &lt;i&gt;</td>' in page


PIECES = st.sampled_from(
    [
        *("*", "**", "_", "~~", "`", "```", "---", "- ", "1. ", "9) ", "# ", "###### ", "> "),
        *("\n", "\n\n", "\r", "\u2028", "\t", " ", "    ", "\0", "\u202e", "a", "ward", "7"),
        *("|", "|-|-|\n", "[", "]", "](", "![", "](http://x.org ", '"', "<b onclick=a>", "</p>", "<!--", "]]>", "<?"),
        *("\\", "\\(", "\\)", "$$", "&lt;", "&#60;", "javascript:"),
    ]
)  # fmt: skip


@given(st.lists(PIECES, max_size=40).map("".join))
def test_nothing_but_allowed_elements_is_written_and_no_word_gets_lost(text: str) -> None:
    shown = Reader(str(rendered(text))).shown
    without_addresses = re.sub(r"&lt;|&#60;|http://x\.org|javascript:", "", text)
    remaining = iter(letters(shown))
    numbers = r"(?m)^[\s>\-*#]*(?:\d+[.)]\s*)*"  # of lists: attributes of their items
    assert all(letter in remaining for letter in letters(re.sub(numbers, "", without_addresses)) if letter.isalpha())


REPEATED = (
    *("*", "**a *b ", "[", "![", "[a](", "`a``b```", "|a|b\n|-|-\n"),
    *(">", "> a\nb\n", "- a\n", "\\(", "$$ a", "~~a ", "a\n=\n"),
)


@pytest.mark.parametrize("piece", REPEATED)
def test_hostile_repetition(piece: str) -> None:
    """A text of the most characters is rendered, a longer one shown as it is, and no mark is too deep for a browser."""
    reader = Reader(str(rendered(piece * (4_000 // len(piece)))))
    assert len(reader.elements) <= 6_000
    whole = piece * (MOST_CHARACTERS // len(piece) + 1)
    assert Reader(str(rendered(whole))).elements == ["pre"]


def test_marks_inside_marks_are_limited() -> None:
    page = str(rendered("*a **b " * 500 + "c" + "** *" * 500))
    assert max((page[:end].count("<strong>") for end in [page.find("</")]), default=0) <= MOST_MARKS
    assert Reader(page).shown.count("a") == 500


def test_code_in_a_sentence() -> None:
    assert str(with_code("`a<` and `` ` `b\n`")) == "<code>a&lt;</code> and `<code> </code> `b\n`"


@pytest.mark.parametrize("content", [None, b"", bc_magic, bc_magic + b"no pickle", b"\0" * 400])
def test_compiled_templates_that_are_damaged_are_compiled_again(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "shown_here"
    (package / "templates").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "templates" / "one.html").write_text("{{ 6 * 7 }} {{ name }}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, package.name, raising=False)

    def shown() -> str:
        return page_templates.__wrapped__(package.name).get_template("one.html").render(name="<b>")

    for never in (True, False):
        monkeypatch.setattr(sys, "dont_write_bytecode", never)
        assert shown() == "42 &lt;b&gt;"
        assert not list(package.glob("**/*.template")), "Python keeps no modules there"
    (package / "__pycache__").mkdir()
    assert shown() == shown() == "42 &lt;b&gt;"
    [kept] = package.glob("__pycache__/*.template")
    if content is not None:
        kept.write_bytes(content)
    assert shown() == "42 &lt;b&gt;"
    (package / "templates" / "one.html").write_text("new")
    assert shown() == "new"
