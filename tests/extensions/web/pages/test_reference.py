"""The glossary and the method: every term and section of the documents, on the server and in the static site."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from medhelm.extensions.web.app import environment
from medhelm.extensions.web.pages.reference import explain, glossary
from tests.support.web.sites import make_board_store, make_client

DOCS = Path(__file__).parents[4] / "docs"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_board_store(tmp_path_factory.mktemp("board"))


@pytest.fixture
def client(store: Path) -> Iterator[TestClient]:
    with make_client(store) as made:
        yield made


def plain(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_every_term_has_its_meaning(client: TestClient) -> None:
    found = plain(client.get("/glossary").text).replace(" ", "")
    rows = (DOCS / "reference" / "glossary.md").read_text(encoding="utf-8").splitlines()[6:]
    for row in rows:
        _, term, meaning, _ = (part.strip() for part in row.split("|"))
        assert re.sub("[`* ]", "", term + meaning) in found
    assert len(rows) == len(glossary()) > 50
    assert [term.lower() for term in glossary()] == sorted(term.lower() for term in glossary())


def test_every_section_of_the_method_is_on_the_page(client: TestClient) -> None:
    page = client.get("/method").text
    text = (DOCS / "explanation" / "method.md").read_text(encoding="utf-8")
    titles = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert re.findall(r"<h2 id=[^>]*>([^<]*)</h2>", page) == titles
    assert page.count("<h3") == len(re.findall(r"^### ", text, flags=re.MULTILINE))
    assert set(re.findall(r'href="#([^"]+)"', page)) - {"content"} == set(re.findall(r'<h2 id="([^"]+)"', page))
    assert page.count("<table>") == len(re.findall(r"^\|-", text, flags=re.MULTILINE)), "no table is shown as text"


def test_a_word_is_explained_where_it_stands() -> None:
    macro = environment().from_string(
        "{% import 'terms.html' as t %}{{ t.term('win share', id='head') }}{{ t.term('<i>') }}"
    )
    page = macro.render()
    assert explain("Win share") in page and explain("unheard of") == ""
    (button,) = re.findall(r'popovertarget="([^"]+)"', page)
    assert f'popover id="{button}"' in page and page.endswith("&lt;i&gt;")


def test_the_words_of_a_verdict_are_explained_below_it(client: TestClient) -> None:
    page = client.get("/").text.partition("</section>")[2].partition("</p>")[0]
    assert "macro average" in client.get("/").text.partition("</section>")[0]
    assert page.count("popovertarget") == page.count(" popover ") > 0
    assert explain("macro average") in unescape(page)
