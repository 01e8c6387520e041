"""The pages of the leaderboard and of two models compared: order, filters, marks and downloads without scripts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from medhelm.domain import Origin
from medhelm.extensions.web import page as pages
from medhelm.extensions.web.pages import leaderboard as page
from medhelm.storage.store import create
from tests.support.stores import make_store
from tests.support.web.sites import make_board_store, make_client


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    store = make_board_store(tmp_path_factory.mktemp("board"))
    (store / "ours.txt").write_text("pubmed_qa\n", encoding="utf-8")
    with make_client(store, suites={"ours": store / "ours.txt"}) as made:
        yield made


def text_of(client: TestClient, path: str = "/") -> str:
    found = client.get(path)
    assert found.status_code == 200, found.text
    return found.text


def models_in(text: str) -> list[str]:
    """Return the names of the models in the table of the leaderboard, in order."""
    table = text.partition('<table class="board"')[2].partition("</table>")[0]
    names = re.findall(r'<span class="model"[^>]*>(?:<a [^>]*>)?([^<]*(?:<span class="end">[^<]*)?)', table)
    return [unescape(name.replace('<span class="end">', "")).strip() for name in names]


def test_the_verdict_comes_before_the_table_in_order_of_rank(client: TestClient) -> None:
    text = text_of(client)
    assert text.index("openai/model-1 leads") < text.index('<table class="board"')
    assert models_in(text) == ["openai/model-1", "openai/model-2", "openai/model-3", "baseline/majority"]
    assert "@http" not in text.partition("Left out")[0]
    assert text.count('<span class="model" title="http://127.0.0.1:9/v1">') == 3
    assert "6 of 120" in text, "failures"


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("sort=failures", "openai/model-3"),
        ("sort=ranking&order=ascending", "openai/model-3"),
        ("sort=category-clinical_decision_support", "openai/model-1"),
    ],
)
def test_a_link_sorts_the_table(client: TestClient, query: str, first: str) -> None:
    text = text_of(client, f"/?{query}")
    assert models_in(text)[0] == first
    assert text.count("aria-sort=") == 1


def test_filters_rank_on_the_selected_benchmarks_and_find_models_by_a_part_of_their_name(client: TestClient) -> None:
    assert "3 benchmarks" in text_of(client)
    assert "2 benchmarks" in text_of(client, "/?category=clinical_decision_support&access=public")
    assert "1 benchmark " in text_of(client, "/?suite=ours")
    text = text_of(client, "/?model=MODEL-2")
    assert models_in(text) == ["openai/model-2", "baseline/majority"]
    assert "Ranks are among all of them" in text
    assert "No model matches" in text_of(client, "/?model=nothing")


@pytest.mark.parametrize(
    ("query", "status"),
    [("suite=../ours.txt", 404), ("results=published", 404), ("page=99", 400), ("sort=rank&sort=model", 400)],
)
def test_values_that_the_site_does_not_offer_are_refused(client: TestClient, query: str, status: int) -> None:
    assert client.get(f"/?{query}").status_code == status


def test_downloads_have_the_numbers_of_the_selection(client: TestClient) -> None:
    csv = client.get("/leaderboard.csv?category=medical_research_assistance")
    assert csv.headers["content-disposition"] == 'attachment; filename="leaderboard-overall.csv"'
    assert csv.text.startswith("rank,tie_group,model")
    assert len(client.get("/leaderboard.csv?by=benchmark").text.splitlines()) == 1 + 3 * 4
    content = json.loads(client.get("/leaderboard.json").text)
    assert content["models"][0]["model"] == "openai/model-1"
    assert client.get("/leaderboard/charts/heat-map.csv").text.startswith("model,")
    for name in ("nothing.csv", "heat-map.svg", "heat-map", "..%2fapp.py"):
        assert client.get(f"/leaderboard/charts/{name}").status_code == 404


def test_long_tables_have_pages(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "ROWS_PER_PAGE", 2)
    for path in ("/", "/benchmarks/pubmed_qa"):
        second = text_of(client, f"{path}?page=2")
        assert re.findall(r"openai/model-\d", second.partition("<tbody>")[2])[0] == "openai/model-3"
        assert f'rel="next" href="{path}?page=2"' in text_of(client, path)
        assert f'rel="prev" href="{path}?page=1"' in second
        assert client.get(f"{path}?page=3").status_code == 400


def test_charts_of_some_models_leave_probabilities_to_the_csv_file(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert '<th scope="col" class="number">probability</th>' in text_of(client)
    monkeypatch.setattr(page, "MOST_CHARTED", 2)
    text = text_of(client)
    assert "that of cost and performance their probability" in text
    assert ">probability</th>" not in text
    assert "probability" in client.get("/leaderboard/charts/cost.csv").text.splitlines()[0]


def test_sample_rows_are_marked_on_every_page(tmp_path: Path) -> None:
    client = make_client(make_board_store(tmp_path, tier="sample"))
    for path in ("/", "/compare"):
        assert "Sample tier." in text_of(client, path)
        assert "invented rows" in text_of(client, path)


def test_own_runs_come_first_and_published_models_are_marked_and_selected(tmp_path: Path) -> None:
    with_published = make_client(make_board_store(tmp_path), with_published=True)
    for query, n, n_published, scoring in (
        ("", 4, 0, "corrected"),
        ("results=own", 4, 0, "corrected"),
        ("results=all", 13, 9, "published"),
        ("results=published", 9, 9, "published"),
    ):
        text = text_of(with_published, f"/?{query}")
        table = text.partition('<table class="board"')[2].partition("</table>")[0]
        assert (len(models_in(text)), table.count("† published</span>")) == (n, n_published)
        assert f"<dt>Scoring</dt><dd>{scoring}</dd>" in text
        assert query in ("", "results=own") or f'href="/leaderboard.csv?{query}"' in text, "the choice stays in links"
        field = text.partition('name="results"')[2].partition("</select>")[0]
        shown = re.findall(r'<option value="(\w*)"[^>]*>([^<]*)', field)
        assert shown == [("", "Your runs"), ("all", "Your runs and published"), ("published", "Published")]


def test_a_site_without_runs_or_common_benchmarks_shows_what_it_has_and_says_why(tmp_path: Path) -> None:
    create(tmp_path / "empty")
    other = make_store(tmp_path / "other", {"ours": {"openai/a": [1.0, 0.0, 1.0], "openai/b": [0.0, 0.0, 1.0]}})
    for store, n in ((tmp_path / "empty", 9), (other, 2)):
        text = text_of(make_client(store, with_published=True))
        assert len(models_in(text)) == n
        assert "Published results are not shown beside your runs" in text
        assert "Your runs and published" not in text


def test_imported_results_are_marked_on_every_page(tmp_path: Path) -> None:
    scores = {"pubmed_qa": {"openai/a": [1.0, 0.0, 1.0], "openai/b": [0.0, 0.0, 1.0]}}
    origin = Origin(harness="helm", version="1", run="a", sha256="d" * 64)
    client = make_client(make_store(tmp_path, scores, origin=origin))
    for path in ("/", "/benchmarks/pubmed_qa", "/compare"):
        assert ">imported</span>" in text_of(client, path), path


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/?category=nothing", 404, "There is no category <code>nothing</code> here. Known: "),
        ("/?access=nothing", 400, "<code>access</code> is <code>nothing</code>"),
        (f"/?model={'x' * 401}", 400, "has 401 characters; at most 400 are allowed"),
        ("/compare?category=nothing", 404, "There is no category"),
        ("/compare?a=nothing&b=openai/model-2", 404, "no model <code>nothing</code>"),
        (f"/compare?a={'x' * 401}", 400, "has 401 characters; at most 400 are allowed"),
        (f"/search?text={'x' * 401}", 400, "has 401 characters; at most 400 are allowed"),
        (f"/benchmarks/medec/cases?text={'x' * 401}", 400, "has 401 characters; at most 400 are allowed"),
    ],
)
def test_an_impossible_filter_keeps_the_form_and_says_why(
    client: TestClient, path: str, status: int, reason: str
) -> None:
    found = client.get(path)
    assert found.status_code == status
    assert reason in found.text.replace("`text`", "<code>text</code>")
    assert '<form method="get"' in found.text


def test_two_models_are_compared_the_best_ones_first(client: TestClient) -> None:
    best = client.get("/compare").text
    assert "openai/model-1 is significantly better than openai/model-2" in best
    chosen = client.get("/compare?a=openai/model-3&b=openai/model-1").text
    assert "openai/model-1 is significantly better than openai/model-3" in chosen
    assert ("second is better" in chosen, "first is better" in chosen) == (True, False)
    assert "Verdict" in client.get("/compare?a=openai/model-2&b=openai/model-2").text
    assert client.get("/compare?a=nothing&b=openai/model-2").status_code == 404
    file = client.get("/compare.csv?a=openai/model-1&b=openai/model-2").text
    assert file.startswith("Benchmark,Metric,Difference")


def test_each_count_of_better_and_worse_cases_leads_to_exactly_these(tmp_path: Path) -> None:
    scores: dict[str, dict[str, list[float | None]]] = {
        "pubmed_qa": {"lab/a": [1.0, 0.0, 1.0, 0.0, 1.0], "lab/b": [1.0, 1.0, 0.0, 0.0, 0.0]},
        "medec": {"lab/a": [0.2, 0.4, 0.9, 0.3, None], "lab/b": [0.4, 0.3, 0.6, 0.3, 0.1]},
    }
    client = make_client(make_store(tmp_path, scores))
    page = client.get("/compare?a=lab/a&b=lab/b").text
    found = re.findall(r'href="(/benchmarks/\w+/cases\?(?:got|better)=[^"]*)"[^>]*>(\d+)</a>', page)
    assert len(found) == 4
    assert {"better=" in address for address, _ in found} == {True, False}
    for address, n in found:
        address = address.replace("&amp;", "&")
        cases = client.get(address.replace("/benchmarks", "/api/benchmarks")).json()
        assert cases["total"] == int(n) > 0
        assert f"<strong>{n} case" in client.get(address).text


def test_each_benchmark_leads_to_the_cases_that_only_one_model_got_right(client: TestClient) -> None:
    text = client.get("/compare?a=openai/model-1&b=openai/model-3").text
    address = "/benchmarks/pubmed_qa/cases?got=openai%2Fmodel-1&amp;missed=openai%2Fmodel-3"
    assert address in text
    assert "openai/model-1 is right and openai/model-3 wrong" in client.get(address.replace("&amp;", "&")).text
