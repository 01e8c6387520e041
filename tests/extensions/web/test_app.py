"""Routes, limits and errors of the application."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medhelm.extensions.web.site import MOST_RESULTS, Site
from tests.support.stores import make_store
from tests.support.web.sites import make_board_store, make_client


@pytest.mark.parametrize(
    ("version", "status", "words"),
    [(None, 503, "No store at"), (99, 503, "layout version 99"), (1, 200, "medhelm run")],
)
def test_a_store_that_is_missing_too_new_or_empty_is_a_page_that_says_so(
    version: int | None, status: int, words: str, tmp_path: Path
) -> None:
    if version:
        (tmp_path / "store.json").write_text(json.dumps({"medhelm_store": version}), encoding="utf-8")
    found = make_client(tmp_path if version else tmp_path / "nowhere").get("/")
    assert found.status_code == status
    assert words in found.text


def test_bad_addresses_are_refused(tmp_path: Path) -> None:
    client = make_client(tmp_path)
    for path, status in (
        ("/nothing", 404),
        ("/static/%2e%2e%2fapp.py", 404),
        ("/?" + "x" * 500, 400),
        ("/?" + "&".join(f"p{i}=1" for i in range(150)), 400),
        ("/?" + "&".join(f"p{i}=1" for i in range(2000)), 414),
    ):
        assert client.get(path).status_code == status, path[:30]


def test_only_reading_is_possible(tmp_path: Path) -> None:
    client = make_client(tmp_path)
    assert {client.request(method, "/").status_code for method in ("POST", "PUT", "DELETE", "PATCH")} == {405}


def test_an_error_of_the_program_shows_no_details(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr("medhelm.extensions.web.pages.leaderboard.page", fail)
    found = make_client(tmp_path).get("/")
    assert found.status_code == 500
    assert "secret" not in found.text


def test_results_are_kept_until_others_were_used_later_or_the_store_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medhelm.extensions.web.site.SECONDS_BETWEEN_CHECKS", 0)
    site = Site(stores=[make_store(tmp_path, {"wards": {"openai/a": [1.0, 0.0]}})])
    computed: list[int] = []

    def use(key: int) -> int:
        def compute() -> int:
            computed.append(key)
            return 10 * key

        return site.keep(key, compute)

    for key in range(1, 2 * MOST_RESULTS):
        assert (use(0), use(key)) == (0, 10 * key)
    assert computed == list(range(2 * MOST_RESULTS))
    assert (use(1), computed[-1]) == (10, 1)
    make_store(tmp_path, {"wards": {"openai/b": [1.0, 0.0]}})
    assert (use(1), computed[-2:]) == (10, [1, 1])


def test_pages_are_compressed_for_browsers_that_can_read_it(tmp_path: Path) -> None:
    client = make_client(make_board_store(tmp_path))
    for path in ("/", "/leaderboard.csv", "/api/leaderboard", "/static/site.css", "/nothing/here"):
        plain, compressed = (client.get(path, headers={"accept-encoding": wanted}) for wanted in ("identity", "gzip"))
        assert "content-encoding" not in plain.headers
        assert compressed.headers["content-encoding"] == "gzip"
        assert int(compressed.headers["content-length"]) < len(plain.content) / 2
        assert (compressed.content, compressed.status_code) == (plain.content, plain.status_code)
        assert compressed.headers["vary"].lower() == plain.headers["vary"].lower() == "accept-encoding"
