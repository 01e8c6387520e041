"""The pages about judges: the numbers of `/api/judges`, links to cases, ratings of clinicians, and hostile names."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from tests.support.cli import Medhelm
from tests.support.html import HtmlPage
from tests.support.stores import MODELS, add_judged_runs, grades
from tests.support.web.sites import make_board_store, make_client

BENCHMARKS = ("aci_bench", "medication_qa")
N = 12


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("judges") / "store"
    for seed, name in enumerate(BENCHMARKS):
        table = grades(seed, N)
        table[2, :, :2] = np.nan
        add_judged_runs(place, name, table)
    return place


@pytest.fixture(scope="module")
def client(store: Path) -> Iterator[TestClient]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("medhelm.analysis.jury.cells.MOST_DRAWS", 50)
        yield make_client(store)


def shown(value: float | None, places: int) -> str:
    return "" if value is None else f"{value:.{places}f}".replace("-", "−")


def words_of(page: str) -> str:
    """Return the text of a page without backticks, which may be shown as code."""
    return plain(HtmlPage(page).text)


def plain(text: str) -> str:
    return " ".join(text.replace("`", "").split())


def check_numbers(text: str, own: dict[str, Any]) -> None:
    """Check that a page shows the numbers of every judge, and their agreement."""
    for name, judge in own["judges"].items():
        assert name in text
        assert f"{judge['judgments']['present']:,}" in text
        for key in ("mean", "harshness", "self_preference"):
            if number := judge[key]:
                assert shown(number["value"], 2) in text, (name, key)
        if number := judge["agreement_with_others"]:
            assert f"{shown(number['value'], 2)} {shown(number['low'], 2)} to {shown(number['high'], 2)}" in text, name
    for part in own["agreement"]:
        for key in ("icc_2_1", "icc_3_k", "weighted_kappa", "alpha"):
            assert not part[key] or shown(part[key]["value"], 2) in text, (part["on"], key)


def test_the_pages_show_the_numbers_of_the_json(client: TestClient) -> None:
    found = client.get("/api/judges").json()
    text = words_of(client.get("/judges").text)
    assert plain(" ".join(found["verdict"])) in text
    check_numbers(text, found["overall"])
    assert all(plain(warning) in text for warning in found["warnings"])
    for name in BENCHMARKS:
        own = client.get(f"/api/judges?benchmark={name}").json()
        assert own["benchmarks"].keys() == {name}
        page = words_of(client.get(f"/benchmarks/{name}/judges").text)
        assert plain(" ".join(own["verdict"])) in page
        check_numbers(page, own["benchmarks"][name])
        for judge in own["benchmarks"][name]["judges"].values():
            assert judge["by_criterion"]
            for mean in judge["by_criterion"].values():
                assert shown(mean["value"], 3) in page


def test_numbers_lead_to_their_cases(client: TestClient) -> None:
    links = HtmlPage(client.get("/judges").text).values("href")
    for name in BENCHMARKS:
        assert f"/benchmarks/{name}/judges" in links
        assert f"/benchmarks/{name}/cases?show=judges&sort=judges" in links
        found = client.get(f"/benchmarks/{name}/cases?show=judges&sort=judges")
        assert found.status_code == 200


def test_without_judges_the_pages_say_so(tmp_path: Path) -> None:
    client = make_client(make_board_store(tmp_path / "store"))
    assert "No run of this store was graded by judges." in words_of(client.get("/judges").text)
    assert "No run on this benchmark was graded by judges." in words_of(client.get("/benchmarks/medec/judges").text)
    assert client.get("/benchmarks/nothing/judges").status_code == 404
    assert client.get("/api/judges").status_code == 404


def test_ratings_of_clinicians_are_compared_with_the_judges(store: Path, tmp_path: Path, medhelm: Medhelm) -> None:
    ratings = tmp_path / "ratings.csv"
    with ratings.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["rater", "benchmark", "model", "instance_id", "accuracy", "completeness", "clarity"])
        for rater in ("A", "B"):
            for number, model in enumerate(MODELS[:2]):
                rows.writerows(
                    [rater, "aci_bench", model, f"i{i}", 1 + (i + number) % 5, 2 + i % 3, 3] for i in range(N)
                )
    client = make_client(store, ratings=ratings)
    found = client.get("/api/judges").json()["clinicians"]
    assert found["datasets"].keys() == {"aci_bench"}
    expected = medhelm("agreement", ratings, "--store", store, "--json").json
    assert (found["verdict"], found["datasets"]) == (expected["verdict"], expected["datasets"])
    for path in ("/judges", "/benchmarks/aci_bench/judges"):
        text = words_of(client.get(path).text)
        assert "Jury and a clinician" in text
        assert "--ratings FILE" not in text
    assert "--ratings FILE" in words_of(client.get("/benchmarks/medication_qa/judges").text)


@pytest.mark.filterwarnings("ignore::medhelm.storage.damage.DamagedRunWarning")
def test_judgments_that_cannot_be_read_are_left_out_and_named(tmp_path: Path) -> None:
    store = tmp_path / "store"
    add_judged_runs(store, "aci_bench", grades(1, 6))
    add_judged_runs(store, "medication_qa", grades(2, 6, MODELS[:1]), models=MODELS[:1])
    for folder in [*store.glob("runs/aci_bench/*qwen*"), *store.glob("runs/medication_qa/*")]:
        (folder / "judgments.parquet").write_bytes(b"PAR1")
    client = make_client(store)
    found = client.get("/api/judges").json()
    assert found["benchmarks"].keys() == {"aci_bench"}
    assert MODELS[2] not in found["benchmarks"]["aci_bench"]["models"]
    text = words_of(client.get("/judges").text)
    assert f"{MODELS[2]} on Aci Bench is left out: its judgments cannot be read." in text
    assert f"{MODELS[0]} on Medication Qa is left out" in text
    lost = client.get("/benchmarks/medication_qa/judges")
    assert (lost.status_code, "has judgments that can be read" in lost.text) == (200, True)


def test_the_criteria_on_a_page_of_a_long_table_say_whose_they_are(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "on this page of the table" not in words_of(client.get("/benchmarks/aci_bench").text)
    monkeypatch.setattr("medhelm.extensions.web.page.ROWS_PER_PAGE", 1)
    text = words_of(client.get("/benchmarks/aci_bench").text)
    assert f"Shown: the 1 of {len(MODELS)} models on this page of the table above." in text
