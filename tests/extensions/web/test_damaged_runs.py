"""Damaged runs: every page and the JSON name them, the static site too, and none shows the place of a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medhelm.extensions.web.site import Site
from tests.support.html import HtmlPage
from tests.support.web.sites import make_board_store, make_client, static_page

pytestmark = pytest.mark.filterwarnings("ignore::medhelm.storage.damage.DamagedRunWarning")

PAGES = ("/", "/benchmarks", "/benchmarks/medec", "/benchmarks/medec/cases", "/compare", "/judges", "/data", "/running")


def break_run(store: Path, benchmark: str, model: str, file: str) -> str:
    """Make a file of a run unreadable; return the beginning of the run's id."""
    folder = next(one for one in (store / "runs" / benchmark).iterdir() if model in one.name)
    path = folder / file
    path.write_bytes(path.read_bytes()[:40])
    return folder.name.rpartition("-")[2]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return make_board_store(tmp_path / "store")


def test_every_page_names_damaged_runs(store: Path) -> None:
    client = make_client(store)
    for page in PAGES:
        assert "cannot be read and" not in client.get(page).text, page
    ids = [
        break_run(store, "medec", "model-1", "records.parquet"),
        break_run(store, "head_qa", "model-2", "run.json"),
    ]
    client = make_client(store)
    for page in PAGES:
        text = HtmlPage(client.get(page).text).text
        assert "2 runs cannot be read and are left out:" in text, page
        for words in ("openai/model-1 on MEDEC", "openai/model-2 on HEAD_QA", *(f"runs remove {one}" for one in ids)):
            assert words in text, (page, words)
    for path in ("/api/leaderboard", "/api/benchmarks", "/api/benchmarks/medec"):
        damaged = client.get(path).json()["damaged"]
        assert sorted(one["run"] for one in damaged) == sorted(ids), path
        assert {one["command"] for one in damaged} == {f"medhelm runs remove {one}" for one in ids}
    assert "cannot be read and" not in make_client(store, signed_in=False).get("/").text


def test_the_static_site_names_them_without_addresses_and_folders(store: Path) -> None:
    for benchmark in ("medec", "head_qa", "pubmed_qa"):  # no readable run has this model
        break_run(store, benchmark, "model-3", "run.json")
    site = Site(stores=[store])
    text = static_page(site, "leaderboard")
    assert "3 runs cannot be read and are left out:" in HtmlPage(text).text
    assert "openai_model-3 on" in text
    assert not any(words in text for words in ("127.0.0.1", str(store)))
    assert len(json.loads(static_page(site, "leaderboard_json"))["damaged"]) == 3


def test_a_run_damaged_beyond_its_folder_leaves_the_pages_readable(store: Path) -> None:
    for folder in (store / "runs").glob("*/*"):
        (folder / "run.json").write_text("{")
    client = make_client(store)
    found = client.get("/benchmarks")
    assert found.status_code == 200
    assert "12 runs cannot be read" in found.text
