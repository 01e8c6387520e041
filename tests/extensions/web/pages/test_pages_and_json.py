"""Pages compared with the JSON of the same results: every number, sentence and link, on invented stores."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import numpy as np
import pytest
from starlette.testclient import TestClient

from medhelm.analysis.means import estimate
from medhelm.domain import RULES, Completion, Failure, Score, Taxonomy, Usage
from medhelm.extensions.web.app import environment
from medhelm.io.http.pages import url_key
from medhelm.results.formats.tables import MISSING, decimal, money, p_text, percent, signed
from tests.support.stores import add_judged_runs, grades, make_record, make_run, write_run
from tests.support.web.html import Node, parse, rows_of
from tests.support.web.sites import make_client

PLACES = {
    "pubmed_qa": "medical_research_assistance",
    "head_qa": "clinical_decision_support",
    "medec": "clinical_decision_support",
    "aci_bench": "clinical_note_generation",
}
"""Benchmark -> its category. The last one is judged."""


def random_store(folder: Path, seed: int) -> Path:
    """Write a store of some models and a baseline: some benchmarks, prices and completions are missing."""
    rng = np.random.default_rng(seed)
    models = [f"lab/model {name} <{seed}>" for name in "abcde"[: 1 + seed % 5]]
    for benchmark, category in list(PLACES.items())[:-1]:
        for place, model in enumerate([*models, "baseline/majority"]):
            if place and rng.random() < 0.25:
                continue
            write_scores(folder, benchmark, category, model, rng)
    if seed % 2:
        taxonomy = Taxonomy(category=PLACES["aci_bench"], subcategory="some_work")
        table = grades(seed, 12, models)
        add_judged_runs(folder, "aci_bench", table, models=models, taxonomy=taxonomy, title="ACI-Bench")
    return folder


def write_scores(folder: Path, benchmark: str, category: str, model: str, rng: np.random.Generator) -> None:
    """Write a run of right and wrong answers, refusals, which count as wrong, and timeouts, which do not count."""
    n, right, price = int(rng.integers(8, 40)), rng.random(), rng.choice([0.0, 0.00001, 0.02, 1.5])
    records, failures = [], {"refusal": 0, "timeout": 0}
    for place in range(n):
        code = str(rng.choice(["", "refusal", "timeout"], p=[0.85, 0.1, 0.05]))
        failure = Failure("provider", code, "none") if code else None
        failures[code] = failures.get(code, 0) + 1
        value = None if failure else float(rng.random() < right)
        done = Completion(text=None if failure else "A", failure=failure, latency_s=float(rng.random()))
        scores = tuple(Score(metric="exact_match", rule=rule, value=value, failure=failure) for rule in RULES)
        records.append(
            make_record(place, instance_id=f"i{place:03d}", group="ward"[place % 2 :], completion=done, scores=scores)
        )
    values = np.array([np.nan if (value := one.scores[0].value) is None else value for one in records])
    found = estimate(values, low=0.0, high=1.0)
    failed = failures["refusal"] + failures["timeout"]
    run = make_run(
        benchmark, model, title=benchmark.replace("_", " ").title(), n=n, n_failed=failed,
        taxonomy=Taxonomy(category=category, subcategory=f"work_of_{benchmark}"),
        failures={code: failures[code] for code in ("refusal", "timeout") if failures[code]},
        usage=Usage(input=100 * n, output=10 * n), completion_days={"2026-11-20": n},
        cost_usd=None if rng.random() < 0.2 else float(price * n),
        estimates={rule: {"exact_match": replace(found, n_failed=failed)} if found else {} for rule in RULES},
        groups={"ward": {"corrected": 0.5, "n": n // 2}, "ard": {"corrected": 0.5, "n": n // 2}},
    )  # fmt: skip
    write_run(folder, run, records, ["exact_match"])


SEEDS = (0, 3, 4, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 5)))
"""One model and a baseline; four models with a jury; five models with the published ones; then others."""

two_models = pytest.mark.parametrize("client", [1], indirect=True)


@pytest.fixture(scope="module", params=SEEDS)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    store = random_store(tmp_path_factory.mktemp("random"), request.param)
    with make_client(store, with_published=request.param == 4) as made:
        yield made


def page_of(client: TestClient, path: str) -> Node:
    found = client.get(path)
    assert found.status_code == 200, f"{path}: {found.text}"
    return parse(found.text)


def same(cell: Node, value: float | None, places: int = 3) -> None:
    """Check that a cell begins with a number as its JSON says, and leads somewhere if it has one."""
    expected = MISSING if value is None else environment().filters["decimal"](value, places)
    assert cell.text.split()[0] == expected


def is_money(text: str, usd: float | None) -> bool:
    """Return whether a text is an amount of the JSON, whose numbers are rounded to six decimals."""
    return text in ({money(usd)} if usd is None else {money(usd - 1e-6), money(usd), money(usd + 1e-6)})


def ends_in(cell: Node) -> list[str]:
    """Return the ends of the interval of a cell, as its tooltip says them."""
    titles = [one.attributes["title"] for one in cell.all("span", class_="measured") if "title" in one.attributes]
    return titles[0].removeprefix("95% interval ").split(" to ") if titles else []


def sentences(page: Node, json_of: dict[str, Any]) -> None:
    """Check the verdict and the remarks of a page."""
    places = page.all("section", class_="verdict")
    verdict = [one.text for place in places for one in place.all("p") if not one.attributes]
    said = [text.replace("`", "") for text in json_of["verdict"]]
    assert verdict == said or (not said and len(verdict) <= 1)
    shown = page.text
    groups = json_of["remark_groups"]
    remarks = [*groups["reading"], *groups["method"], *(text for own in groups["models"].values() for text in own)]
    assert len(remarks) == len(json_of["warnings"])
    assert all(" ".join(text.replace("`", "").split()) in shown for text in remarks)


@pytest.mark.parametrize(
    "query",
    ["", "category=clinical_decision_support", "sort=cost&order=ascending", "model=MODEL+A", "results=own"],
)
def test_the_leaderboard_shows_the_numbers_of_its_json(client: TestClient, query: str) -> None:
    page, content = page_of(client, f"/?{query}"), client.get(f"/leaderboard.json?{query}").json()
    rows = rows_of(page, "leaderboard")
    assert list(rows) == [one["model"] for one in content["models"]], "the order of the page is that of the file"
    for one in content["models"]:
        cells = rows[one["model"]]
        assert cells["rank"].text.split()[0] == (MISSING if one["rank"] is None else str(one["rank"]))
        low, high = one["rank_low"], one["rank_high"]
        assert (f"{low}–{high}" in cells["rank"].text) == (low is not None and low != high)
        average = one["win_rate"] if content["ranked_by"] == "win rate" else one["adjusted_average"]
        same(cells["ranking"], average and average["value"])
        if one["rank"] is not None and content["ranked_by"] != "win rate":
            assert one["ranking_value"] == average["value"], "the number that is shown decides the rank"
        if average and average["low"] is not None:
            assert ends_in(cells["ranking"]) == [decimal(average["low"]), decimal(average["high"])]
        for name, mean in one["categories"].items():
            if f"category-{name}" in cells:
                same(cells[f"category-{name}"], mean["value"])
        assert cells["cost"].text.startswith("≤ ") == bool(one["cost_is_ceiling"] and one["usd_per_1000"] is not None)
        assert is_money(cells["cost"].text.removeprefix("≤ ").split()[0], one["usd_per_1000"])
        same(cells["seconds"], one["seconds_per_completion"], 2)
        if "coverage" in cells:
            assert cells["coverage"].text.split()[0] == percent(one["coverage"])
        counts = [cell["n_failed"] for cell in one["benchmarks"].values()]
        if None not in counts:
            n = sum(
                cell["n"] + cell["n_failed"] - cell.get("n_failed_by_model", 0) for cell in one["benchmarks"].values()
            )
            assert cells["failures"].text == f"{percent(sum(counts) / n)} {sum(counts):,} of {n:,}"
    sentences(page, content)
    n_models = sum(not one["model"].startswith("baseline/") for one in content["models"])
    heading = page.all("h1")[0].text
    assert heading.endswith(f"on {len(content['benchmarks'])} benchmark{'s' * (len(content['benchmarks']) != 1)}")
    assert heading.startswith("Clinical decision support: ") == query.startswith("category")
    assert page.all("title")[0].text == f"{heading} · MedHELM"
    assert "model=" in query or f": {n_models} model" in heading


def test_every_pair_head_to_head_is_that_of_the_files_and_of_the_comparison(client: TestClient) -> None:
    page, content = page_of(client, "/?results=own"), client.get("/leaderboard.json?results=own").json()
    file = client.get("/leaderboard.csv?results=own&by=head-to-head").text.lstrip("\ufeff")
    for one, row in zip(content["head_to_head"], csv.DictReader(io.StringIO(file)), strict=True):
        tip = f"{one['a']} against {one['b']}: "
        cell = next(cell for cell in page.all("td") if cell.attributes.get("title", "").startswith(tip))
        assert cell.text == f"{decimal(one['win_share'], 2)}{'*' * one['separated']}"
        better, equal, worse = (float(row[name]) for name in ("better", "equal", "worse"))
        assert better + equal / 2 == pytest.approx(one["win_share"], abs=2e-6)
        assert better + equal + worse == pytest.approx(1, abs=2e-6)
        words = f"{better:.0%} better, {equal:.0%} equal, {worse:.0%} worse"
        assert words in cell.attributes["title"]
        bars = page_of(client, cell.links[0]).all("span", class_="measured")
        assert len(content["benchmarks"]) == 1 or any(words in bar.attributes.get("title", "") for bar in bars)


def test_a_benchmark_shows_the_numbers_of_its_json(client: TestClient) -> None:
    for benchmark in client.get("/leaderboard.json?results=own").json()["benchmarks"]:
        name = benchmark["id"]
        page = page_of(client, f"/benchmarks/{name}")
        content = client.get(f"/api/benchmarks/{name}").json()["leaderboard"]
        rows, places = rows_of(page, "scores"), 3 if benchmark["high"] - benchmark["low"] <= 1 else 2
        for one in content["models"]:
            cells, score = rows[one["model"]], one["benchmarks"][name]
            assert cells["rank"].text.split()[0] == (MISSING if one["rank"] is None else str(one["rank"]))
            same(cells["score"], score["value"], places)
            if score["low"] is not None:
                assert ends_in(cells["score"]) == [decimal(score["low"], places), decimal(score["high"], places)]
            assert cells["instances"].text == f"{score['n'] + score['n_failed'] - score.get('n_failed_by_model', 0):,}"
            assert cells["failures"].text == f"{score['n_failed']:,}"
            assert cells["cost"].text == money(score["cost_usd"])
        sentences(page, content)
        bars = [one for one in page.all("figure", id="chart-distribution")[0].all("tr") if one.all("td")]
        for bar in bars if places == 3 else ():
            model, right, wrong, counted, _ = (cell.text for cell in bar.all("td"))
            n = int(right) + int(wrong) + int(counted)
            value = next(one for one in content["models"] if one["model"] == model)["benchmarks"][name]["value"]
            assert value == pytest.approx(int(right) / n, abs=1e-6), "the bars have the denominator of the score"


def test_a_model_page_shows_the_numbers_of_the_json(client: TestClient) -> None:
    board = client.get("/leaderboard.json?results=own").json()
    of_benchmark = {
        one["id"]: client.get(f"/api/benchmarks/{one['id']}").json()["leaderboard"] for one in board["benchmarks"]
    }
    titles = {one["id"]: one["title"] for one in board["benchmarks"]}
    ranked = [one for one in board["models"] if not one["model"].startswith("baseline/")]
    for one in board["models"]:
        page = page_of(client, f"/models/{url_key(one['model'])}")
        assert page.all("h1")[0].text.startswith(one["model"])
        rows = rows_of(page, "scores")
        assert set(rows) == {titles[name] for name in one["benchmarks"]}
        if one["rank"] is not None:
            place = page.all("section", class_="verdict")[0].text
            assert f"Rank {one['rank']} of " in place
            assert str(decimal(one["ranking_value"])) in place
        assert one["usd_per_1000"] is None or money(one["cost_usd"]) in page.all("dl")[0].text
        gaps = {
            name: max(other["benchmarks"][name]["value"] for other in ranked if name in other["benchmarks"])
            - score["value"]
            for name, score in one["benchmarks"].items()
            if name != "aci_bench"  # on another scale
        }
        worst = max(gaps, key=lambda name: gaps[name])
        weaknesses = page.text.partition("Furthest below the best model")[2].partition(" Benchmarks ")[0]
        assert (titles[worst] in weaknesses) == (gaps[worst] > 0)
        for name, score in one["benchmarks"].items():
            cells, places = rows[titles[name]], 2 if name == "aci_bench" else 3
            same(cells["score"], score["value"], places)
            there = next(other for other in of_benchmark[name]["models"] if other["model"] == one["model"])
            rank = there["rank"] if one["rank"] is not None else None  # without a model, baselines are ranked
            assert cells["rank"].text.split()[0] == (MISSING if rank is None else str(rank))
            assert cells["failures"].text == f"{score['n_failed']:,}"
            assert cells["cost"].text == money(score["cost_usd"])
        remarks = board["remark_groups"]["models"].get(one["model"], ())
        assert all(" ".join(text.replace("`", "").split()) in page.text for text in remarks)


def test_a_comparison_shows_the_numbers_of_its_json(client: TestClient) -> None:
    models = [one["model"] for one in client.get("/leaderboard.json?results=own").json()["models"]]
    if len(models) < 2:
        return
    query = f"a={quote(models[0])}&b={quote(models[1])}"
    page, content = page_of(client, f"/compare?{query}"), client.get(f"/api/compare?{query}").json()
    by_name = {
        one.text: cells
        for one, cells in (
            (cells["benchmark"].all("a")[0], cells)
            for cells in rows_of(page, "differences").values()
            if cells["benchmark"].links
        )
    }
    assert len(by_name) == len(content["benchmarks"])
    for one, cells in zip(content["benchmarks"], by_name.values(), strict=True):
        assert cells["difference"].text.split()[0] == signed(one["difference"])
        assert cells["instances"].text == f"{one['n']:,}"
        assert cells["p"].text == p_text(one["p_adjusted_all_pairs"])
        counts = [int(text) for text in cells["cases"].text.split(" · ")]
        assert sum(counts) <= one["n"]
        for address, n in zip(cells["cases"].links, filter(None, counts), strict=True):
            assert f"{n:,} case" in page_of(client, address).text or n == 0, "the link finds as many cases"
    assert content["verdict"][0] in page.text


@pytest.mark.long
@two_models
def test_every_score_leads_to_what_is_behind_it(client: TestClient) -> None:
    """Links of boards, benchmarks, comparisons and models lead to pages that exist, scores to their cases."""
    seen, waiting = set(), ["/", "/compare"]
    while waiting:
        address = waiting.pop()
        path = address.partition("#")[0]
        if path in seen or not path.startswith("/"):
            continue
        seen.add(path)
        found = client.get(path)
        assert found.status_code == 200, path
        if (not path.startswith(("/benchmarks/", "/models/", "/compare")) and path != "/") or "/cases" in path:
            continue
        if found.headers["content-type"].startswith("text/html"):
            page = parse(found.text)
            waiting += [one for one in page.links if "sort=" not in one or "/cases" in one]
            for cell in page.all("td", class_="number"):
                words = cell.text.split()
                if words and words[0].startswith("0.") and cell.all("span", class_="measured"):
                    assert cell.links or "published" in found.text, f"{path}: {cell.text}"
    for path in [one for one in seen if "/cases?" in one and "sort=worst" in one]:
        query = parse_qs(urlsplit(path).query)
        assert client.get(path).text.count("selected") >= 2, query


@two_models
def test_filters_that_no_run_meets_keep_the_form_and_say_how_to_go_on(client: TestClient) -> None:
    found = client.get("/?category=medical_research_assistance&subcategory=work_of_medec&results=own")
    assert found.status_code == 200
    page = parse(found.text)
    assert "runs outside these filters" in page.text
    assert page.all("select", name="category")
    chips = [one.text.rstrip(" ×") for one in page.all("ul", class_="chips")[0].all("li")]
    assert chips[-2:] == ["Category: Medical research assistance", "Subcategory: Work of medec"]
    for address in page.all("ul", class_="chips")[0].links:
        assert client.get(address).status_code == 200


@two_models
def test_an_unknown_model_or_benchmark_leads_to_those_that_exist(client: TestClient) -> None:
    for path, start in (("/models/nothing", "/models/"), ("/benchmarks/nothing", "/benchmarks/")):
        found = client.get(path)
        assert found.status_code == 404
        known = [one for one in parse(found.text).all("ul", class_="pairs")[0].links if one.startswith(start)]
        assert known
        assert {client.get(one).status_code for one in known} == {200}
