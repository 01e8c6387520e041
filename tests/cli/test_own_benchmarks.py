"""A benchmark of the user's own: `run` names its folder, and commands that read the store find it by themselves."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from medhelm.benchmarks.definition import LIBRARY
from medhelm.extensions.web.site import Site
from medhelm.storage.own_benchmarks import remember_folders
from medhelm.storage.store import Store
from tests.support.benchmarks.choice import make_benchmark
from tests.support.cli import Medhelm, succeeded
from tests.support.html import HtmlPage
from tests.support.web.sites import make_client

CANARY = "a title that only the definition has"


@pytest.fixture
def store(medhelm: Medhelm, tmp_path: Path) -> Path:
    """A store with a run of the benchmark `toy` in the folder `own`; the command names it."""
    make_benchmark(tmp_path / "own")
    store = tmp_path / "results"
    words = ("run", "toy", "--benchmarks", tmp_path / "own", "--model", "baseline/majority", "--store", store)
    succeeded(medhelm(*words))
    return store


def test_commands_that_read_the_store_find_it(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    for words in (
        ("rescore", "toy"),
        ("export", "card", tmp_path / "card.html"),
        ("leaderboard", "--suite", "private"),
        ("export", "site", tmp_path / "site"),
    ):
        found = succeeded(medhelm(*words, "--store", store))
        assert "benchmark folder" not in found.err, words
    assert "your own" in (tmp_path / "site" / "benchmarks.html").read_text(encoding="utf-8")


def test_a_folder_that_is_gone_is_named_with_the_fix(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    shutil.move(tmp_path / "own", tmp_path / "moved")
    found = succeeded(medhelm("export", "card", tmp_path / "card.html", "--store", store))
    assert f"benchmark folder of toy not found: {tmp_path / 'own' / 'toy'}. Add --benchmarks DIR." in found.err
    page = HtmlPage(make_client(store).get("/benchmarks").text)
    assert "Benchmark folder not found: add --benchmarks DIR" in page.text
    again = succeeded(medhelm("rescore", "toy", "--store", store, "--benchmarks", tmp_path / "moved"))
    assert "not found" not in again.err


def test_what_the_user_names_wins_and_a_store_cannot_replace_a_benchmark(
    medhelm: Medhelm, store: Path, tmp_path: Path
) -> None:
    other = make_benchmark(tmp_path / "other")
    text = (other / "benchmark.yaml").read_text(encoding="utf-8")
    title = next(line for line in text.splitlines() if line.startswith("title:"))
    (other / "benchmark.yaml").write_text(text.replace(title, f"title: {CANARY}"), encoding="utf-8")
    shutil.copytree(LIBRARY / "pubmed_qa", tmp_path / "fake" / "pubmed_qa")
    fake = tmp_path / "fake" / "pubmed_qa"
    remember_folders(Store(store), {"pubmed_qa": fake})
    named, remembered = Site(stores=[store], benchmark_folders=[tmp_path / "other"]), Site(stores=[store])
    assert named.definitions["toy"].title == CANARY
    assert remembered.definitions["toy"].title != CANARY
    assert remembered.definitions["pubmed_qa"].folder == LIBRARY / "pubmed_qa"
    succeeded(medhelm("rescore", "toy", "--store", store, "--benchmarks", tmp_path / "other"))


def test_a_folder_that_only_a_store_names_runs_no_code_and_makes_no_text_public(
    medhelm: Medhelm, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "own" / "toy"
    text = (folder / "benchmark.yaml").read_text(encoding="utf-8")
    (folder / "benchmark.yaml").write_text(text.replace("access: private", "access: public"), encoding="utf-8")
    assert "access: public" in (folder / "benchmark.yaml").read_text(encoding="utf-8")
    trace = tmp_path / "trace"
    code = f"import pathlib\npathlib.Path({str(trace)!r}).touch()\n\ndef rows(rows):\n    yield from rows\n"
    (folder / "hooks.py").write_text(code, encoding="utf-8")
    hidden = Site(stores=[store], with_text=False)
    assert (hidden.access_of("toy"), hidden.shows_text_of("toy")) == ("public", False)
    assert Site(stores=[store], with_text=False, benchmark_folders=[tmp_path / "own"]).shows_text_of("toy")
    assert make_client(store).get("/benchmarks/toy").status_code == 200
    succeeded(medhelm("export", "card", tmp_path / "card.html", "--store", store))
    refused = medhelm("rescore", "toy", "--store", store)
    assert refused.code != 0
    assert f"--trust {folder}" in refused.err
    assert not trace.exists()
