"""Routes, limits and errors of the application."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.web.sites import make_client


def test_a_missing_store_is_a_page_that_says_so(tmp_path: Path) -> None:
    found = make_client(tmp_path / "nowhere").get("/")
    assert found.status_code == 503
    assert "no store at" in found.text


def test_a_store_of_another_version_is_a_page_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "store.json").write_text(json.dumps({"medhelm_store": 99}), encoding="utf-8")
    assert "layout version 99" in make_client(tmp_path).get("/").text


def test_an_empty_store_is_a_page_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "store.json").write_text(json.dumps({"medhelm_store": 1}), encoding="utf-8")
    found = make_client(tmp_path).get("/")
    assert found.status_code == 404
    assert "medhelm run" in found.text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nothing", 404),
        ("/?" + "x" * 500, 400),
        ("/?a=" + "x" * 500, 400),
        ("/?" + "&".join(f"p{i}=1" for i in range(150)), 400),
        ("/?" + "&".join(f"p{i}=1" for i in range(2000)), 414),
        ("/static/%2e%2e%2fapp.py", 404),
        ("/static/app.py", 404),
    ],
)
def test_bad_addresses_are_refused(path: str, status: int, tmp_path: Path) -> None:
    found = make_client(tmp_path).get(path)
    assert found.status_code == status, found.text
    assert "Traceback" not in found.text


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
