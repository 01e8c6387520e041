"""Frozen leaderboards on disk: written once, read back whole, and every damage noticed."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain.result import CellProvenance, Release
from medhelm.errors import StoreError, UserError
from medhelm.io.parquet import connect, sql_text
from medhelm.storage.releases import (
    BOARD,
    MANIFEST,
    board_bytes,
    file_digest,
    prompts_digest,
    read_release,
    release_names,
    reported_models,
    write_release,
)
from medhelm.storage.store import Store, create

BASIS = CellProvenance(
    model="openai/one",
    benchmark="toy",
    run_id="r",
    started="2026-11-01T00:00:00+00:00",
    n=9,
    metric="exact_match",
    definition="d",
    data="e",
    prompts="f",
    settings={"limit": None, "seed": 0},
    records="g",
    judgments="",
    snapshots=["one-2026"],
    jury={},
    min_judges=0,
    prices={"openai/one": None},
    versions={"medhelm": "0.1.0"},
)
PLAIN_BOARD: dict[str, Any] = {"models": [{"model": "openai/one", "rank": 1}], "benchmarks": [{"id": "toy"}]}


def release(name: str = "2026-11", board: dict[str, Any] | None = None) -> Release:
    content = board or PLAIN_BOARD
    return Release(
        name=name,
        created="2026-11-01T00:00:00+00:00",
        medhelm_version="0.1.0",
        note="für den Ausschuss",
        options={"scoring": "corrected", "tier": None, "suite": "all"},
        provenance=(BASIS,),
        leaderboard=content,
        sha256=hashlib.sha256(board_bytes(content)).hexdigest(),
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return create(tmp_path / "store")


def test_what_is_written_is_read_back(store: Store) -> None:
    folder = write_release(store, release())
    assert read_release(store, "2026-11") == release()
    assert file_digest(folder / BOARD) == hashlib.sha256(board_bytes(PLAIN_BOARD)).hexdigest()
    assert file_digest(folder / "none") == ""
    assert board_bytes({"b": 1, "a": "é"}) == '{\n  "a": "é",\n  "b": 1\n}\n'.encode()
    with pytest.raises(ValueError, match="not JSON compliant"):
        board_bytes({"a": float("nan")})
    assert read_release(create(store.folder.parent / "other"), str(folder)) == release()
    assert release_names(store) == ["2026-11"]
    assert sorted(path.name for path in folder.iterdir()) == [BOARD, MANIFEST]


def test_a_release_never_changes(store: Store) -> None:
    write_release(store, release())
    with pytest.raises(UserError, match="releases never change"):
        write_release(store, release(board={"models": [], "benchmarks": []}))
    assert read_release(store, "2026-11") == release()


@pytest.mark.parametrize("name", ["", ".hidden", "../up", "a/b", "a b", "-x", "x" * 81, "é"])
def test_names_that_are_no_file_names_are_refused(store: Store, name: str) -> None:
    with pytest.raises(UserError, match="a release cannot be named"):
        write_release(store, release(name))
    assert release_names(store) == []


def test_an_unknown_release_is_helped_with(store: Store) -> None:
    with pytest.raises(UserError, match="There is none yet: `medhelm release NAME` makes one"):
        read_release(store, "2026-11")
    write_release(store, release())
    with pytest.raises(UserError, match=r"has no release `2026-10`\. Did you mean `2026-11`"):
        read_release(store, "2026-10")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (BOARD, '{"models": [], "benchmarks": []}', "was changed after the release"),
        (BOARD, "{", "is damaged"),
        (MANIFEST, "{", "is damaged"),
        (MANIFEST, "[]", "is damaged"),
        (MANIFEST, '{"medhelm_release": 1}', "is damaged"),
        (MANIFEST, '{"medhelm_release": 2}', "has version 2; this version of medhelm reads 1"),
        (MANIFEST, '{"medhelm_release": 1, "bases": [{"model": "x"}]}', "is damaged"),
    ],
)
def test_every_damage_is_noticed(store: Store, file: str, content: str, message: str) -> None:
    folder = write_release(store, release())
    (folder / file).write_text(content, encoding="utf-8")
    with pytest.raises(StoreError, match=message):
        read_release(store, "2026-11")


def test_the_digest_of_prompts_goes_by_every_word_and_not_by_order() -> None:
    prompts = {"b": [{"role": "user", "content": "two"}], "a": [{"role": "user", "content": "one"}]}
    digest = prompts_digest(prompts)
    assert digest == prompts_digest(dict(reversed(list(prompts.items()))))
    assert prompts_digest({}) == ""
    others = [
        {**prompts, "a": [{"role": "system", "content": "one"}]},
        {**prompts, "a": [{"role": "user", "content": "one "}]},
        {"b": prompts["b"], "c": prompts["a"]},
    ]
    assert len({digest, *map(prompts_digest, others)}) == 4


def test_names_under_which_models_answered_are_read_once_each(tmp_path: Path) -> None:
    path = tmp_path / "records.parquet"
    rows = "VALUES ('j1', 'b'), ('j1', 'a'), ('j1', 'a'), ('j2', ''), ('j2', 'c')"
    with connect() as connection:
        connection.execute(f"COPY (SELECT * FROM ({rows}) t(judge, reported_model)) TO {sql_text(path)}")
    assert reported_models(path) == {"": ["a", "b", "c"]}
    assert reported_models(path, "judge") == {"j1": ["a", "b"], "j2": ["c"]}
    assert reported_models(tmp_path / "none.parquet") == {}
