"""Scores by slice on the pages of a benchmark and of a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm.domain import Instance, Message, Prompt
from medhelm.extensions.web import benchmark_charts
from medhelm.io.http.pages import url_key
from medhelm.storage.runs import write_prompts
from medhelm.storage.store import Store
from tests.support.stores import make_store
from tests.support.web.sites import make_client

N = 60
HOSTILE = "<script>alert('biology')</script>"
GOOD, BAD = "openai/good", "openai/bad"


def make_sliced(folder: Path) -> Path:
    """Two models on Head QA: one has all of `chemistry` wrong, both have every seventh question wrong."""
    usual = [float(i % 7 != 0) for i in range(N)]
    store = make_store(folder, {"head_qa": {GOOD: usual, BAD: [value * (i % 3 != 1) for i, value in enumerate(usual)]}})
    prompt = Prompt((Message("user", "?"),))
    instances = [
        Instance(
            id=f"i{i:03d}", fields={}, references=(),
            metadata={"category": (HOSTILE, "chemistry", "nursery")[i % 3], "year": str(2016 + i % 2)},
        )
        for i in range(N)
    ]  # fmt: skip
    write_prompts(Store(store).prompts_file("head_qa", "d" * 64, "e" * 64), ((one, prompt) for one in instances))
    return store


def test_a_benchmark_shows_the_models_by_its_columns(tmp_path: Path) -> None:
    client = make_client(make_sliced(tmp_path))
    page = client.get("/benchmarks/head_qa").text
    text = " ".join(page.split())
    assert f"HEAD_QA by category: the score of {BAD} depends on the slice" in text
    assert "worst on chemistry, best on" in text
    assert "HEAD_QA by year: no model&#39;s score is shown to depend on the slice." in text
    assert "<script>alert" not in page
    found = client.get("/api/benchmarks/head_qa").json()["slices"]
    assert [one["by"] for one in found] == ["category", "year"]
    own = client.get(f"/models/{url_key(BAD)}").text
    assert "chemistry 0.000" in own


def test_a_page_that_compares_some_models_by_slice_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark_charts, "MOST_SUBGROUP_MODELS", 1)
    text = " ".join(make_client(make_sliced(tmp_path)).get("/benchmarks/head_qa").text.split())
    assert "of a column of the data, of the best 1 of 2 models." in text
    assert "HEAD_QA by category: no score of the best 1 of 2 models is shown to depend on the slice." in text
    assert "no model&#39;s score" not in text


def test_names_of_slices_are_left_out_with_the_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = make_sliced(tmp_path)
    monkeypatch.setattr("medhelm.extensions.web.site.Site.access_of", lambda _self, _name: "private")
    client = make_client(store, with_text=False)
    for path in ("/benchmarks/head_qa", "/api/benchmarks/head_qa", f"/models/{url_key(BAD)}"):
        assert "chemistry" not in client.get(path).text
