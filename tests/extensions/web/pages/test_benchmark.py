"""The page of a benchmark and the page of all benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from medhelm.domain import ConstantBaseline, Score
from medhelm.extensions.web import benchmark_charts
from medhelm.extensions.web.site import Site
from tests.support.stores import make_record, make_store, scored_run, write_run
from tests.support.web.sites import make_board_store, make_client

CANARY = "CANARY-7f3a"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with make_client(make_board_store(tmp_path_factory.mktemp("benchmark"))) as made:
        yield made


def test_charts_are_files(client: TestClient) -> None:
    assert client.get("/benchmarks/medec/charts/scores.svg").text.startswith("<svg")
    assert client.get("/benchmarks/medec/charts/failures.csv").status_code == 200
    for path in ("medec/charts/nothing.svg", "medqa/charts/scores.svg", "nothing/charts/scores.svg"):
        assert client.get(f"/benchmarks/{path}").status_code == 404
    assert "medhelm run med_qa" in client.get("/benchmarks/med_qa").text


@pytest.mark.parametrize("name", ["..", "%2e%2e%2fpubmed_qa", "pubmed_qa%00", "<script>"])
def test_an_unknown_benchmark_is_not_found(client: TestClient, name: str) -> None:
    found = client.get(f"/benchmarks/{name}")
    assert found.status_code == 404 or found.url.path == "/"
    assert "<script>alert" not in found.text


def test_a_benchmark_of_the_store_needs_no_definition(tmp_path: Path) -> None:
    client = make_client(make_store(tmp_path, {"wards": {"openai/a": [1.0, 0.0], "openai/b": [0.0, 0.0]}}))
    assert "not installed here" in client.get("/benchmarks/wards").text
    assert "wards" in client.get("/benchmarks").text


def test_charts_of_some_models_say_which_and_failures_are_those_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the worst of five models has failures."""
    monkeypatch.setattr(benchmark_charts, "MOST_DISTRIBUTIONS", 3)
    monkeypatch.setattr(benchmark_charts, "MOST_SUBGROUP_MODELS", 2)
    groups = {"icu": {"corrected": 0.5, "n": 4}, "ward": {"corrected": 0.5, "n": 4}}
    for place in range(5):
        scores = [None if place == 4 and n < 2 else float(n > place) for n in range(8)]
        run = scored_run("pubmed_qa", f"openai/model-{place}", scores, groups=groups)
        rows = [
            replace(
                make_record(n, group=("icu", "ward")[n % 2]),
                scores=() if one is None else (Score(metric="exact_match", rule="corrected", value=one),),
            )
            for n, one in enumerate(scores)
        ]
        store = write_run(tmp_path, run, rows).folder.parents[2]  # type: ignore[union-attr]
    client = make_client(store)
    text = client.get("/benchmarks/pubmed_qa").text
    assert "2 failed instances of 1 model. Most frequent reason: timeout, 2." in text
    assert "No failures: openai/model-0, openai/model-1, openai/model-2 and openai/model-3." in text
    assert "No instance failed" not in text
    assert "The best 3 of 5 models: 24 completions, none of them failed." in text
    assert "Shown: the best 2 of 5 models; the CSV file has the best 3." in text
    assert client.get("/benchmarks/pubmed_qa/charts/failures.csv").text.count("\n") == 2
    assert client.get("/benchmarks/pubmed_qa/charts/subgroups.csv").text.count("\n") == 1 + 3 * 2


def test_texts_of_benchmarks_that_are_not_public_can_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = scored_run("wards", "openai/a", [1.0, 0.0], groups={CANARY: {"corrected": 0.5, "n": 2}})
    scores = [Score(metric="exact_match", rule="corrected", value=n) for n in range(2)]
    records = [replace(make_record(n, group=CANARY), scores=(scores[n],)) for n in range(2)]
    store = write_run(tmp_path, run, records).folder.parents[2]  # type: ignore[union-attr]
    baseline = ConstantBaseline(answer=CANARY, share=0.5, values={"corrected": 0.5, "published": 0.5})
    monkeypatch.setattr("medhelm.results.leaderboard.read_baseline", lambda _: baseline)
    text = make_client(store).get("/benchmarks/wards").text
    assert text.count(CANARY) > 2
    assert Site(stores=[store], with_text=False).shows_text_of("pubmed_qa")
    hidden = make_client(store, with_text=False)
    for path in ("", "leaderboard.json", "benchmarks", "benchmarks/wards", "benchmarks/wards/cases"):
        assert CANARY not in hidden.get(f"/{path}").text, path
    assert hidden.get("/benchmarks/wards/charts/subgroups.csv").status_code == 404
