"""The leaderboard page: order, filters, marks and downloads without scripts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from medhelm.domain import Origin
from medhelm.extensions.web.pages import leaderboard as page
from tests.support.stores import make_store
from tests.support.web.sites import XSS, make_board_store, make_client


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
    return [unescape(name).strip() for name in re.findall(r'<span class="model">([^<]*)', table)]


def test_the_verdict_comes_before_the_table(client: TestClient) -> None:
    text = text_of(client)
    assert text.index("openai/model-1 leads") < text.index('<table class="board"')


def test_models_are_in_order_of_rank_and_baselines_below(client: TestClient) -> None:
    models = models_in(text_of(client))
    assert models == ["openai/model-1", "openai/model-2", "openai/model-3", "baseline/majority"]


def test_names_have_no_address_and_the_address_is_beside_them(client: TestClient) -> None:
    text = text_of(client)
    assert "@http" not in text.partition("Left out")[0]
    assert '<span class="sub">http://127.0.0.1:9/v1</span>' in text


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("sort=model&order=descending", "openai/model-3"),
        ("sort=model", "openai/model-1"),
        ("sort=failures", "openai/model-3"),
        ("sort=ranking&order=ascending", "openai/model-3"),
        ("sort=category-clinical_decision_support", "openai/model-1"),
    ],
)
def test_a_link_sorts_the_table(client: TestClient, query: str, first: str) -> None:
    text = text_of(client, f"/?{query}")
    assert models_in(text)[0] == first
    assert text.count("aria-sort=") == 1


def test_missing_values_come_last_in_both_orders(client: TestClient) -> None:
    for order in ("ascending", "descending"):
        assert len(models_in(text_of(client, f"/?sort=seconds&order={order}"))) == 4


def test_filters_rank_on_the_selected_benchmarks(client: TestClient) -> None:
    assert "3 benchmarks" in text_of(client)
    assert "1 benchmark " in text_of(client, "/?category=medical_research_assistance")
    assert "2 benchmarks" in text_of(client, "/?category=clinical_decision_support&access=public")
    assert "1 benchmark " in text_of(client, "/?suite=ours")


def test_models_are_found_by_a_part_of_their_name(client: TestClient) -> None:
    text = text_of(client, "/?model=MODEL-2")
    assert models_in(text) == ["openai/model-2", "baseline/majority"]
    assert "Ranks are among all of them" in text
    assert "No model matches" in text_of(client, "/?model=nothing")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("suite=/etc/passwd", 404),
        ("suite=../ours.txt", 404),
        ("category=x", 404),
        ("sort=x", 400),
        ("order=x", 400),
        ("page=0", 400),
        ("page=99", 400),
        ("page=1e3", 400),
        ("sort=rank&sort=model", 400),
        ("access=x", 400),
    ],
)
def test_values_that_the_site_does_not_offer_are_refused(client: TestClient, query: str, status: int) -> None:
    assert client.get(f"/?{query}").status_code == status


def test_a_selection_without_runs_says_so(client: TestClient) -> None:
    found = client.get("/?category=medical_research_assistance&suite=paper35&access=public")
    assert found.status_code == 200
    assert client.get("/?access=gated").status_code == 404


def test_failures_are_counted(client: TestClient) -> None:
    assert "6 of 120" in text_of(client)


def test_downloads_have_the_numbers_of_the_selection(client: TestClient) -> None:
    csv = client.get("/leaderboard.csv?category=medical_research_assistance")
    assert csv.headers["content-disposition"] == 'attachment; filename="leaderboard-overall.csv"'
    assert csv.text.startswith("rank,tie_group,model")
    assert len(client.get("/leaderboard.csv?by=benchmark").text.splitlines()) == 1 + 3 * 4
    content = json.loads(client.get("/leaderboard.json").text)
    assert content["models"][0]["model"] == "openai/model-1"
    assert client.get("/leaderboard/charts/heat-map.csv").text.startswith("model,")
    assert client.get("/leaderboard/charts/head-to-head.csv").status_code == 200
    for name in ("nothing.csv", "heat-map.svg", "heat-map.exe", "heat-map", "..%2fapp.py"):
        assert client.get(f"/leaderboard/charts/{name}").status_code == 404


def test_long_tables_have_pages(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "ROWS_PER_PAGE", 2)
    assert models_in(text_of(client, "/?page=2"))[0] == "openai/model-3"
    assert 'rel="next" href="/?page=2"' in text_of(client)


def test_sample_rows_are_marked_on_every_page(tmp_path: Path) -> None:
    client = make_client(make_board_store(tmp_path, tier="sample"))
    for path in ("/", "/compare"):
        assert "Sample tier." in text_of(client, path)
        assert "invented rows" in text_of(client, path)


def test_hostile_names_are_shown_as_text(tmp_path: Path) -> None:
    scores = {"pubmed_qa": {f"openai/{name}": [1.0, 0.0, 1.0] for name in XSS}}
    client = make_client(make_store(tmp_path, scores))
    for path in ("/", "/compare", f"/?model={XSS[0]}"):
        text = text_of(client, path)
        assert "<script>alert" not in text
        assert "<img" not in text
        assert "onload=alert(1)>" not in text.replace("&gt;", "")
        assert str(7919 * 7919) not in text


@pytest.mark.parametrize(
    ("models", "verdict"),
    [
        ({"lab/x": [1.0, 0.0]}, "There is one model: a comparison needs at least two."),
        ({"lab/x": [None, None]}, "There is nothing to rank yet: no model has a score."),
    ],
)
def test_a_board_without_a_verdict_says_why(
    models: dict[str, list[float | None]], verdict: str, tmp_path: Path
) -> None:
    assert verdict in text_of(make_client(make_store(tmp_path, {"pubmed_qa": models})))


def test_one_model_is_shown_without_rivals(tmp_path: Path) -> None:
    client = make_client(make_store(tmp_path, {"pubmed_qa": {"openai/a": [1.0, 0.0]}}))
    assert models_in(text_of(client)) == ["openai/a"]
    assert "needs two models" in text_of(client, "/compare")


@pytest.fixture(scope="module")
def with_published(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with make_client(make_board_store(tmp_path_factory.mktemp("published")), with_published=True) as made:
        yield made


@pytest.mark.parametrize(
    ("query", "n", "n_published", "scoring"),
    [
        ("", 13, 9, "published"),
        ("results=all", 13, 9, "published"),
        ("results=own", 4, 0, "corrected"),
        ("results=published", 9, 9, "published"),
        ("results=published&category=medical_research_assistance&access=public", 9, 9, "published"),
    ],
)
def test_published_models_are_marked_and_selected(
    with_published: TestClient, query: str, n: int, n_published: int, scoring: str
) -> None:
    text = text_of(with_published, f"/?{query}")
    table = text.partition('<table class="board"')[2].partition("</table>")[0]
    assert (len(models_in(text)), table.count(">published</span>")) == (n, n_published)
    assert f"<dt>Scoring</dt><dd>{scoring}</dd>" in text
    content = json.loads(with_published.get(f"/leaderboard.json?{query}").text)
    assert sum(model["published"] for model in content["models"]) == n_published


def test_the_published_choice_stays_in_links(with_published: TestClient) -> None:
    text = text_of(with_published, "/?results=published")
    assert '<option value="published" selected>' in text
    assert 'href="/leaderboard.csv?results=published"' in text
    assert "/leaderboard/charts/heat-map.csv?results=published" in text


def test_published_models_are_offered_only_when_asked_for(client: TestClient) -> None:
    assert client.get("/?results=published").status_code == 404
    assert 'name="results"' not in text_of(client)


def test_own_results_are_shown_where_published_ones_cannot_be_beside_them(tmp_path: Path) -> None:
    client = make_client(make_board_store(tmp_path, tier="sample"), with_published=True)
    assert "Published results are not shown beside your runs" in text_of(client)
    assert "Sample tier." in text_of(client)
    assert "Sample tier." not in text_of(client, "/?results=published")
    assert client.get("/?results=all").status_code == 404


def test_published_models_are_shown_without_own_ones(tmp_path: Path) -> None:
    (tmp_path / "store.json").write_text('{"medhelm_store": 1}', encoding="utf-8")
    client = make_client(tmp_path, with_published=True)
    assert len(models_in(text_of(client))) == 9
    assert client.get("/?results=own").status_code == 404


def test_imported_results_are_marked_on_every_page(tmp_path: Path) -> None:
    scores = {"pubmed_qa": {"openai/a": [1.0, 0.0, 1.0], "openai/b": [0.0, 0.0, 1.0]}}
    origin = Origin(harness="helm", version="1", run="a", sha256="d" * 64)
    client = make_client(make_store(tmp_path, scores, origin=origin))
    for path in ("/", "/benchmarks/pubmed_qa", "/compare"):
        assert ">imported</span>" in text_of(client, path), path
