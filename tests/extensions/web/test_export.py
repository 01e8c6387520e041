"""The static site: every link leads to a file, it shows what the server shows, and no text that must not leave."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from posixpath import dirname, join, normpath

import pytest

from medhelm.domain import Completion
from medhelm.extensions.web.export import NOT_EXPORTED, export_site
from medhelm.extensions.web.site import Site
from medhelm.results.export import ExportResult
from tests.support.case_store import HOSTILE_IDS, make_case_store
from tests.support.cli import Medhelm
from tests.support.stores import make_record, make_store, scored_run, write_run
from tests.support.web.sites import XSS, make_board_store

CANARY = "CANARY-51c9"


def export(store: Path, folder: Path, **settings: object) -> ExportResult:
    return export_site(Site(stores=[store], with_text=False, **settings), folder, most_cases=3)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("export")
    done = export(make_board_store(place / "store"), place / "site")
    assert done.left_out == ()
    return place / "site"


def test_every_link_leads_to_a_file_and_nothing_is_loaded_from_elsewhere_or_inline(folder: Path) -> None:
    for page in folder.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        text = re.sub(r'<a href="https://[^"]+" rel="noreferrer">', "", text)  # papers and data, for people to follow
        for link in re.findall(r'(?:href|src)="([^"#]+)', text):
            here = page.relative_to(folder).as_posix()
            file, _, query = unescape(link).partition("?")
            assert (folder / normpath(join(dirname(here), file))).is_file(), f"{here}: {link}"
            assert not query or file.endswith("cases.html"), "only lists of cases read a query"
        assert not re.search(r'(?:src|href|action)="(?:https?:)?//', text), page
        assert not re.search(r"<script(?![^>]* src=)| style=|<form", text), page
    assert "medhelm serve" in (folder / NOT_EXPORTED).read_text(encoding="utf-8")
    assert not any(path.is_file() and b"127.0.0.1" in path.read_bytes() for path in folder.rglob("*"))


def private_store(folder: Path) -> Path:
    """Write a store with texts of a benchmark that is not public, and nothing public."""
    run = scored_run("wards", "openai/a", [1.0, 0.0], groups={CANARY: {"corrected": 0.5, "n": 2}}, message=CANARY)
    said = Completion(text=f"{CANARY} says")
    records = [make_record(n, instance_id=f"{CANARY}-{n}", group=CANARY, completion=said) for n in range(2)]
    write_run(folder, run, records)
    return folder


def test_texts_that_are_not_public_enter_only_when_they_are_asked_for(tmp_path: Path, medhelm: Medhelm) -> None:
    store = private_store(tmp_path / "store")
    done = export(store, tmp_path / "site")
    assert any("Only numbers" in remark for remark in done.remarks)
    for path in (tmp_path / "site").rglob("*"):
        assert CANARY not in path.name
        assert not path.is_file() or CANARY.encode() not in path.read_bytes(), path
    with_text = medhelm("export", "site", tmp_path / "site", "--store", store, "--with-text")
    assert "Contains prompts and completions" in with_text.err
    assert any(CANARY.encode() in path.read_bytes() for path in (tmp_path / "site").rglob("*.html"))


def test_hostile_names_make_safe_files(tmp_path: Path) -> None:
    names = [*XSS, "../../../etc", "a" * 300, "line\nbreak", "%2e%2e", "con"]
    scores = {"pubmed_qa": {f"openai/{name}": [1.0, 0.0, 1.0] for name in names}}
    export(make_store(tmp_path / "store", scores), tmp_path / "site")
    assert {path.name for path in tmp_path.iterdir()} == {"store", "site"}
    for path in (tmp_path / "site").rglob("*"):
        assert re.fullmatch(r"[\w.~-]{1,120}", path.name)
        assert path.suffix != ".html" or "<script>alert" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("most", [0, 3])
def test_nothing_is_written_of_cases_beyond_the_limit(tmp_path: Path, most: int) -> None:
    """Lists included: no text, no id."""
    store = make_case_store(tmp_path / "store")
    done = export_site(Site(stores=[store], with_text=True), tmp_path / "site", most_cases=most)
    assert done.counts["cases"] == most
    content = "".join(
        f"{path} {unescape(path.read_text(encoding='utf-8'))}" for path in (tmp_path / "site").rglob("*.*")
    )
    written = [n for n in range(len(HOSTILE_IDS)) if f"Question {n}: which" in content]
    assert written == [0, 2, 4][:most], "those on which models differ"
    assert ("Aspirin" in content) == bool(most)
    assert "Ünïcödé" not in content
    assert "' OR 1=1" not in content
    if most:
        assert "These files hold 3 cases of 10" in content
