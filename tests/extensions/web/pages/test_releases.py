"""The page that compares two releases, and releases that come from anyone."""

from __future__ import annotations

import copy
import hashlib
import json
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
from medhelm.storage.releases import board_bytes
from tests.support.cli import Medhelm
from tests.support.stores import make_store
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
    assert '<a href="/benchmarks/pubmed_qa/cases/i000">i000</a>' in text
    assert client.get("/benchmarks/pubmed_qa/cases/i000").status_code == 200
    assert "<b>first" not in text
    assert "@http" not in text


def test_the_latest_release_is_compared_with_the_store_first(client: TestClient) -> None:
    text = client.get("/compare/releases").text
    assert "The leaderboards of 2026-11 and the store now are identical" in text
    assert 'href="/compare/releases"' in client.get("/compare").text


def test_a_run_that_is_gone_is_named_as_the_reason(store: Path, tmp_path: Path) -> None:
    copied = tmp_path / "store"
    shutil.copytree(store, copied)
    release = json.loads((copied / "releases" / "2026-10" / "release.json").read_text(encoding="utf-8"))
    before = next(one for one in release["bases"] if (one["model"], one["benchmark"]) == (MODEL, "pubmed_qa"))
    for file in copied.glob("runs/pubmed_qa/*/run.json"):
        if json.loads(file.read_text(encoding="utf-8")).get("id", before["run_id"]) == before["run_id"]:
            shutil.rmtree(file.parent)
    (change,) = make_client(copied).get("/api/releases/compare?before=2026-10&now=2026-11").json()["cases"]
    assert change["problem"] == "the earlier run is not in the store, or changed there"


@pytest.mark.parametrize("query", ["before=x", "now=x", "before=current", "before=a&before=b", "now=../2026-10"])
def test_unknown_releases_are_refused(client: TestClient, query: str) -> None:
    status = 400 if "&" in query else 404
    assert client.get(f"/compare/releases?{query}").status_code == status
    assert client.get(f"/api/releases/compare?{query}").json()["error"]["status"] == status


def test_a_store_without_releases_says_how_to_make_one(tmp_path: Path) -> None:
    client = make_client(make_board_store(tmp_path))
    assert "medhelm release NAME" in client.get("/compare/releases").text
    assert "/compare/releases" not in client.get("/compare").text


def test_ids_of_secret_data_are_left_out_of_an_export(tmp_path: Path) -> None:
    store = tmp_path / "store"
    make_store(store, {"wards": {"openai/a": [1.0, 0.0] * 9, "openai/b": [0.0] * 18}}, taxonomy=TAXONOMY)
    freeze(store, "one", BoardOptions())
    add_run(store, "openai/a", [0.0, 1.0] * 9, "wards")
    freeze(store, "two", BoardOptions())
    export_site(Site(stores=[store], with_text=False), tmp_path / "site")
    texts = [path.read_text(encoding="utf-8") for path in tmp_path.glob("site/compare/releases*")]
    assert any("Ids of cases are left out" in text for text in texts)
    assert not any("i001" in text for text in texts)
    assert any("9 gained, 9 lost" in text for text in texts)


def damage(folder: Path, change: Callable[[Any, Any], object]) -> None:
    """Change the JSON of a release so that its checksum still fits."""
    manifest, board = folder / "release.json", folder / "leaderboard.json"
    release, content = (json.loads(path.read_text(encoding="utf-8")) for path in (manifest, board))
    change(release, content)
    board.write_bytes(board_bytes(content))
    release["sha256"] = hashlib.sha256(board.read_bytes()).hexdigest()
    manifest.write_text(json.dumps(release), encoding="utf-8")


def deep(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = [found]
    return found


DAMAGES = {
    "no models": lambda release, board: board.pop("models"),
    "models of another type": lambda release, board: board.update(models={"a": 1}),
    "a model without a name": lambda release, board: board["models"][0].pop("model"),
    "a rank of another type": lambda release, board: board["models"][0].update(rank="first"),
    "a value of another type": lambda release, board: board["models"][0]["benchmarks"]["medec"].update(value="0.5"),
    "a cell of another type": lambda release, board: board["models"][0]["benchmarks"].update(medec=[1]),
    "a benchmark of another type": lambda release, board: board["benchmarks"].append("medec"),
    "options of another type": lambda release, board: release.update(options=[1]),
    "provenance of another type": lambda release, board: release["bases"][0].update(records=5),
    "a jury of another type": lambda release, board: release["bases"][0].update(jury=["a"]),
    "a name of another type": lambda release, board: release.update(name=None),
    "too many levels": lambda release, board: board.update(panel=deep(60)),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_release_is_one_error_at_the_start(name: str, store: Path, tmp_path: Path, medhelm: Medhelm) -> None:
    folder = tmp_path / "hostile"
    shutil.copytree(store / "releases" / "2026-10", folder)
    damage(folder, DAMAGES[name])
    found = medhelm("export", "site", tmp_path / "site", "--store", store, "--release", folder)
    assert (found.code, found.out) == (2, "")
    assert f"the release in {folder} is damaged" in found.err
    assert "Traceback" not in found.err


def test_a_release_that_is_missing_is_one_error_at_the_start(store: Path, tmp_path: Path, medhelm: Medhelm) -> None:
    found = medhelm("serve", "--store", store, "--release", tmp_path / "nothing")
    assert found.code == 2
    assert "Name the folder of a release" in found.err


def test_a_damaged_release_in_the_store_is_named_and_others_are_shown(store: Path, tmp_path: Path) -> None:
    copied = tmp_path / "store"
    shutil.copytree(store, copied)
    (copied / "releases" / "2026-11" / "leaderboard.json").write_text("{", encoding="utf-8")
    found = make_client(copied).get("/compare/releases")
    assert found.status_code == 200
    assert "is damaged" in found.text
    assert "2026-10" in found.text


@pytest.mark.parametrize("suite", ["{}/outside.txt", "../../outside.txt", "ours/../../x"])
@pytest.mark.parametrize("content", ["", "pubmed_qa\n"])
def test_the_suite_of_a_release_is_no_path(suite: str, content: str, store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "hostile"
    shutil.copytree(store / "releases" / "2026-10", folder)
    changes = {"suite_text": content, "options": {"scoring": "corrected", "suite": suite.format(tmp_path)}}
    damage(folder, lambda release, board: release.update(changes))
    found = make_client(store, release_folders=[folder]).get("/compare/releases?before=2026-10 (2)&now=current")
    assert found.status_code == (200 if content else 503), found.text
    assert {path.name for path in tmp_path.iterdir()} == {"a"}


@pytest.mark.parametrize("options", [{"scoring": "none"}, {"tier": 5}, {"panel": 5}, {"unknown": 1}, {"suite": None}])
def test_options_of_a_release_that_are_not_valid_are_named(
    options: dict[str, Any], store: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "hostile"
    shutil.copytree(store / "releases" / "2026-10", folder)
    damage(folder, lambda release, board: release["options"].update(copy.deepcopy(options)))
    found = make_client(store, release_folders=[folder]).get("/compare/releases?before=2026-10 (2)&now=current")
    assert found.status_code == 503
    assert "options of release `2026-10` are not valid" in found.text
