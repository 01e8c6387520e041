"""The card of a benchmark: the page shows what the exported card says, known problems first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medhelm.extensions.web.site import Site
from medhelm.results.card import export_card
from medhelm.results.options import BoardOptions, RunFilter
from medhelm.results.releases import freeze
from tests.support.html import HtmlPage
from tests.support.stores import add_judged_runs, grades
from tests.support.web.sites import make_board_store, make_client


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = make_board_store(tmp_path_factory.mktemp("cards") / "store")
    add_judged_runs(place, "letters", grades(1, 20))
    freeze(place, "2026-10", BoardOptions())
    return place


@pytest.mark.parametrize("name", ["medec", "letters"])
def test_the_page_shows_the_exported_card(store: Path, tmp_path: Path, name: str) -> None:
    only = BoardOptions(wanted=RunFilter(benchmarks=[name]))
    export_card(store, tmp_path / "card.json", only, definitions=Site(stores=[store]).definitions)
    exported = json.loads((tmp_path / "card.json").read_text(encoding="utf-8"))
    with make_client(store) as client:
        shown = client.get(f"/benchmarks/{name}/card.json").json()
        page = HtmlPage(client.get(f"/benchmarks/{name}/card").text)
    by_name = {model["name"]: model for model in exported["models"]}
    assert {model["name"]: (model["rank"], model["macro_average"]) for model in shown["models"]} == {
        key: (model["rank"], model["macro_average"]) for key, model in by_name.items()
    }
    for key in ("benchmarks", "judging", "limits", "release", "command", "settings", "first_run"):
        assert shown[key] == exported[key], key
    said = " ".join(page.text.split())
    for text in (*shown["verdict"], *shown["judging"], *shown["limits"], shown["benchmarks"][0]["data_digest"][:12]):
        assert " ".join(text.replace("`", "").split()) in said
    assert "Part of release 2026-10" in said
    assert said.index("Known problems and limitations") < said.index("Mean score")
    assert not any(words in said for words in ("Macro average", "Win rate", "The published costs of"))


def test_without_a_run_there_is_no_card_and_no_card_has_the_address_of_a_server(store: Path) -> None:
    with make_client(store) as client:
        assert client.get("/benchmarks/med_qa/card").status_code == 404
        for path in ("card", "card.json"):
            assert "127.0.0.1" not in client.get(f"/benchmarks/medec/{path}").text


def test_two_stores_share_a_card(store: Path, tmp_path: Path) -> None:
    models = ("lab/other", "lab/another")
    add_judged_runs(tmp_path / "second", "letters", grades(2, 20)[:, :2], models=models)
    with make_client(store, tmp_path / "second") as client:
        found = client.get("/benchmarks/letters/card.json").json()
    assert {model["name"] for model in found["models"]} >= {"lab/other [second]", "lab/another [second]"}
    assert found["release"] is None and found["judging"]
