"""The page that compares two releases, and releases that come from anyone."""

from __future__ import annotations

import hashlib
import html
import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from medhelm.domain import Taxonomy
from medhelm.extensions.web.export import export_site
from medhelm.extensions.web.site import Site
from medhelm.results.options import BoardOptions
from medhelm.results.releases import freeze
from medhelm.results.runs.side_by_side import as_json, compare_sides, find_sides
from medhelm.storage.releases import board_bytes
from medhelm.storage.runs import load_runs
from medhelm.storage.store import Store
from tests.support.cli import Medhelm, assert_refused
from tests.support.html import HtmlPage
from tests.support.stores import make_store
from tests.support.web.random_cases import write_choices
from tests.support.web.sites import make_board_store, make_client

MODEL = "openai/model-3@http://127.0.0.1:9/v1"
TAXONOMY = Taxonomy(category="medical_research_assistance", subcategory="some_work")


def add_run(store: Path, model: str, scores: Sequence[float], benchmark: str = "pubmed_qa") -> None:
    """Write a later run, which counts in place of an earlier one of the model."""
    make_store(store, {benchmark: {model: scores}}, taxonomy=TAXONOMY, started="2026-02-01T00:00:00+00:00")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two releases: then one model got 34 cases more and lost one, and another model is new."""
    place = make_board_store(tmp_path_factory.mktemp("releases"))
    freeze(place, "2026-10", BoardOptions(), note="<b>first</b>")
    add_run(place, MODEL, [0.0] + [1.0] * 37 + [0.0] * 2)
    add_run(place, "openai/new", [1.0] * 40)
    freeze(place, "2026-11", BoardOptions())
    return place


@pytest.fixture(scope="module")
def client(store: Path) -> Iterator[TestClient]:
    with make_client(store) as made:
        yield made


@pytest.mark.parametrize("now", ["2026-11", "current"])
def test_changes_have_the_verdict_of_the_test_and_their_cases(client: TestClient, now: str) -> None:
    found = client.get(f"/api/releases/compare?before=2026-10&now={now}").json()
    assert found["models"] == [[], ["openai/new"]]
    assert found["only"][1] == [{"model": "openai/new", "benchmark": "pubmed_qa"}]
    (change,) = found["cases"]
    assert change["model"] == "openai/model-3"
    assert (change["n_gained"], change["n_lost"], change["lost"]) == (34, 1, ["i000"])
    assert change["separated"]
    assert change["difference"] == pytest.approx(33 / 40)
    text = client.get(f"/compare/releases?before=2026-10&now={now}").text
    assert "openai/model-3 on PUBMED_QA (better)" in text
    assert "/benchmarks/pubmed_qa/cases/i000?before=2026-10" in text
    assert client.get("/benchmarks/pubmed_qa/cases/i000").status_code == 200
    assert "<b>first" not in text
    assert "@http" not in text


def test_the_reason_takes_the_place_of_a_number(tmp_path: Path) -> None:
    store = tmp_path / "store"
    make_store(store, {"wards": {"openai/a": [1.0, 0.0] * 9}}, taxonomy=TAXONOMY)
    freeze(store, "one", BoardOptions())
    later = {"wards": {"openai/a": [0.0, 1.0] * 8 + [1.0, 1.0]}}
    make_store(store, later, taxonomy=TAXONOMY, started="2026-02-01T00:00:00+00:00", data_digest="0" * 64)
    client = make_client(store)
    page = client.get("/compare/releases?before=one&now=current").text
    reason = "run on another version or selection of the data"
    assert f"1 of 1 score changed. No change could be tested: {reason}." in page
    row = page.partition('id="scores"')[2].partition("</tbody>")[0].partition("<tbody>")[2]
    shown = " ".join(HtmlPage(row.replace("</t", " </t")).text.split())
    assert shown == f"WARDS openai/a 0.500 0.556 cannot be compared: {reason} 9 8 – – data; records"
    (line,) = client.get("/compare/releases.csv?before=one&now=current").text.splitlines()[1:]
    assert line.startswith("wards,openai/a,0.5,0.555")
    assert line.endswith(f",,,,,,9,8,,{reason}")


def test_the_latest_release_is_compared_with_the_store_first(client: TestClient) -> None:
    text = client.get("/compare/releases").text
    assert "The leaderboards of 2026-11 and the store now are identical" in text
    assert 'href="/compare/releases"' in client.get("/compare").text


def test_unknown_releases_are_refused(client: TestClient) -> None:
    for query, status in (
        ("before=x", 404),
        ("before=a&before=b", 400),
        ("now=../2026-10", 404),
        ("also=x", 404),
        ("before=2026-10&now=2026-11&also=2026-11&also=x", 404),
    ):
        assert client.get(f"/compare/releases?{query}").status_code == status


def test_a_store_without_releases_says_how_to_make_one(tmp_path: Path) -> None:
    client = make_client(make_board_store(tmp_path))
    assert "medhelm release NAME" in client.get("/compare/releases").text
    assert "/compare/releases" not in client.get("/compare").text


def test_ids_of_secret_data_are_left_out_with_the_texts(tmp_path: Path) -> None:
    store = tmp_path / "store"
    make_store(store, {"wards": {"openai/a": [1.0, 0.0] * 9, "openai/b": [0.0] * 18}}, taxonomy=TAXONOMY)
    freeze(store, "one", BoardOptions())
    add_run(store, "openai/a", [0.0, 1.0] * 9, "wards")
    freeze(store, "two", BoardOptions())
    client = make_client(store, with_text=False)
    page = client.get("/compare/releases?before=one&now=two").text
    assert "Ids of cases are left out" in page
    assert "9 newly right, 9 newly wrong" in page
    for path in ("/compare/releases", "/compare/releases.csv", "/api/releases/compare"):
        assert "i001" not in client.get(f"{path}?before=one&now=two").text, path


def link_between(page: str, label: str) -> str:
    """Return the address behind a count of cases."""
    (found,) = re.findall(rf'<a href="([^"]+)" aria-label="{label}', page)
    return html.unescape(found)


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Choice questions answered twice by the same models: a release before, the store after."""
    store = tmp_path_factory.mktemp("runs") / "store"
    write_choices(store, 1, n=40, models=("lab/a", "lab/b", "lab/c"))
    freeze(store, "then", BoardOptions())
    write_choices(store, 1, n=40, models=("lab/a", "lab/b"), draws=2, started="2026-02-01T00:00:00+00:00")
    return store


def test_counts_lead_to_lists_of_as_many_cases_and_each_case_to_both_completions(two_runs: Path) -> None:
    with make_client(two_runs) as client:
        found = client.get("/api/releases/compare?before=then&now=current").json()
        page = client.get("/compare/releases?before=then&now=current").text
        assert {one["model"] for one in found["cases"]} == {"lab/a", "lab/b"}
        for one in found["cases"]:
            ids = {"Newly right": one["gained"], "Newly wrong": one["lost"], "Other answer": one["other"]}
            assert [len(own) for own in ids.values()] == [one["n_gained"], one["n_lost"], one["n_other"]]
            assert all(ids.values()), "the stores were drawn so that all kinds occur"
            for kind, own in ids.items():
                address = link_between(page, f"{kind}, {one['model']} on ")
                listed = client.get(f"/api{address}").json()
                assert (listed["total"], [case["id"] for case in listed["cases"]]) == (len(own), own)
                text = client.get(address).text
                (case,) = set(re.findall(rf'href="(/benchmarks/toy/cases/{own[0]}\?[^"]+)"', text))
                shown = client.get(html.unescape(case)).text
                for name in (f"{one['model']} [then]", f"{one['model']} [the store now]"):
                    assert f'aria-label="{name}"' in shown
                assert "Two texts compared" in shown


def test_a_release_without_its_runs_has_no_texts_and_says_so(two_runs: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    shutil.copytree(two_runs, store)
    for run in load_runs(Store(store)):
        if run.folder and not run.started.startswith("2026-02"):
            shutil.rmtree(run.folder)
    with make_client(store) as client:
        assert "the earlier run is not in the store" in client.get("/compare/releases").text
        found = client.get("/benchmarks/toy/cases?before=then&now=current")
        assert found.status_code == 404
        assert "A release holds numbers" in found.text


def test_a_release_of_another_store_is_compared_with_the_runs_beside_it(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for store, draws in ((ours, 2), (theirs, 1)):
        write_choices(store, 1, n=40, models=("lab/a", "lab/b"), draws=draws)
    freeze(theirs, "then", BoardOptions())
    folder = theirs / "releases" / "then"
    shutil.copytree(folder, tmp_path / "alone")
    with make_client(ours, release_folders=[folder]) as client:
        found = client.get("/api/releases/compare").json()
        compared = find_sides(ours, [str(folder), "current"])
        expected = as_json(compare_sides(*compared))["side_by_side"]
        assert [[one["value"] for one in row["scores"]] for row in found["side_by_side"]] == [
            [one["value"] for one in row["scores"]] for row in expected
        ]
        changes = [[row["scores"][1]["change"] for row in rows] for rows in (found["side_by_side"], expected)]
        assert changes[0] == changes[1]
        assert {one["outcome"] for one in changes[0]} <= {"better", "worse", "not separated"}
        case = found["cases"][0]["gained"][0]
        page = client.get(f"/benchmarks/toy/cases/{case}?before=then&now=current").text
        assert all(name in page for name in ("lab/a [then]", "lab/a [the store now]"))
        assert client.get("/").text.count("theirs") == 0
        shutil.rmtree(theirs)
        assert client.get("/").status_code == 200
    with make_client(ours, release_folders=[tmp_path / "alone"]) as client:
        (reason,) = {one["problem"] for one in client.get("/api/releases/compare").json()["cases"]}
        assert reason == "the earlier run is not in the store, or changed there"


def test_stores_stand_side_by_side_with_their_own_numbers(two_runs: Path, store: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write_choices(other, 1, n=40, models=("lab/a", "lab/d"), draws=3)
    with make_client(two_runs, other) as client:
        text = client.get("/compare/releases").text
        found = client.get("/api/releases/compare").json()
        assert [one["name"] for one in found["sides"]] == ["store", "other", "then [store]"]
        for place, one in enumerate((two_runs, other)):
            with make_client(one) as alone:
                board = {row["model"]: row for row in alone.get("/api/leaderboard").json()["models"]}
            for row in found["side_by_side"]:
                score = row["scores"][place]
                assert (score is not None) == (row["model"] in board)
                if score:
                    own = board[row["model"]]
                    assert (score["rank"], score["value"]) == (own["rank"], own["ranking_value"])
                    assert f"{score['value']:.3f}" in text
        assert "not in store" in text
        assert client.get("/benchmarks/toy/cases?before=store&now=other").status_code == 200
        assert "lab/a [other]" in client.get("/benchmarks/toy/cases?before=store&now=other").text
    assert "/compare/releases" in make_client(two_runs, other).get("/compare").text


def test_the_trend_has_each_compared_store_as_it_is_now_or_says_why_not(two_runs: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write_choices(other, 1, n=40, models=("lab/a", "lab/d"), draws=3)
    address = "/compare/releases/charts/trend.csv"

    def columns(client: TestClient) -> set[str]:
        return {line.split(",20")[0] for line in client.get(address).text.splitlines()[1:]}

    with make_client(two_runs, other) as client:
        assert columns(client) == {"then [store]", '"store, now"'}
        assert "Not shown: other, which has no release." in client.get("/compare/releases").text
        now = {
            row["model"]: row["ranking_value"] for row in make_client(two_runs).get("/api/leaderboard").json()["models"]
        }
        drawn = [line.split(",") for line in client.get(address).text.splitlines() if line.startswith('"store, now"')]
        assert {row[3]: float(row[5]) for row in drawn} == pytest.approx(now)
    freeze(other, "first", BoardOptions())
    with make_client(two_runs, other) as client:
        assert columns(client) == {"then [store]", "first [other]", '"store, now"'}
        assert "Not shown" not in client.get("/compare/releases").text


def test_static_files_say_nothing_of_cases_that_they_do_not_hold(two_runs: Path, tmp_path: Path) -> None:
    export_site(Site(stores=[two_runs]), tmp_path / "site", most_cases=3)
    page = (tmp_path / "site" / "compare" / "releases.html").read_text(encoding="utf-8")
    held = {path.stem.partition("-")[0] for path in (tmp_path / "site" / "benchmarks" / "toy" / "cases").glob("i*")}
    assert len(held) == 3
    assert set(re.findall(r"\bi\d\d\b", page)) <= held


def test_static_files_hold_the_cases_that_changed_with_both_completions(two_runs: Path, tmp_path: Path) -> None:
    export_site(Site(stores=[two_runs]), tmp_path / "site")
    page = (tmp_path / "site" / "compare" / "releases.html").read_text(encoding="utf-8")
    assert "From then to the store now:" in page
    links = re.findall(r'href="\.\./(benchmarks/toy/cases/i\d+-[^"]+)"', page)
    assert links
    for link in set(links):
        shown = (tmp_path / "site" / "benchmarks" / link.removeprefix("benchmarks/")).read_text(encoding="utf-8")
        assert "Two texts compared" in shown
        assert "[the store now]" in shown


def damage(folder: Path, change: Callable[[Any, Any], object]) -> None:
    """Change the JSON of a release so that its checksum still fits."""
    manifest, board = folder / "release.json", folder / "leaderboard.json"
    release, content = (json.loads(path.read_text(encoding="utf-8")) for path in (manifest, board))
    change(release, content)
    board.write_bytes(board_bytes(content))
    release["sha256"] = hashlib.sha256(board.read_bytes()).hexdigest()
    manifest.write_text(json.dumps(release), encoding="utf-8")


def test_a_damaged_or_missing_release_is_one_error_at_the_start(store: Path, tmp_path: Path, medhelm: Medhelm) -> None:
    changes: list[Callable[[Any, Any], object]] = [
        lambda release, board: board["models"][0].update(rank="first"),
        lambda release, board: release["bases"][0].update(records=5),
        lambda release, board: board.update(panel=json.loads("[" * 60 + "]" * 60)),
    ]
    for place, change in enumerate(changes):
        folder = tmp_path / str(place)
        shutil.copytree(store / "releases" / "2026-10", folder)
        damage(folder, change)
        found = medhelm("export", "site", tmp_path / "site", "--store", store, "--release", folder)
        assert_refused(found, f"the release in {folder} is damaged")
    missing = medhelm("serve", "--store", store, "--release", tmp_path / "nothing")
    assert_refused(missing, "Name the folder of a release")


@pytest.mark.parametrize("suite", ["{}/outside.txt", "ours/../../x"])
@pytest.mark.parametrize("content", ["", "pubmed_qa\n"])
def test_the_suite_of_a_release_is_no_path(suite: str, content: str, store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "hostile"
    shutil.copytree(store / "releases" / "2026-10", folder)
    changes = {"suite_text": content, "options": {"scoring": "corrected", "suite": suite.format(tmp_path)}}
    damage(folder, lambda release, board: release.update(changes))
    found = make_client(store, release_folders=[folder]).get("/compare/releases?before=2026-10 (2)&now=current")
    assert found.status_code == (200 if content else 503), found.text
    assert {path.name for path in tmp_path.iterdir()} == {"a"}
