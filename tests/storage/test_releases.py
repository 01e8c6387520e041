"""Frozen leaderboards on disk: written once, read back whole, and every damage noticed."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain.result import Release
from medhelm.errors import StoreError, UserError
from medhelm.storage.releases import (
    BOARD,
    MANIFEST,
    board_bytes,
    file_digest,
    prompts_digest,
    read_release,
    release_names,
    write_release,
)
from medhelm.storage.store import Store, create

FIXTURE = next((Path(__file__).parents[1] / "fixtures" / "stores" / "v1").glob("*/releases/*"))
BOARDS: list[dict[str, Any]] = [
    {"models": [{"model": "openai/one", "rank": 1}], "benchmarks": [{"id": "toy"}]},
    {"models": [], "benchmarks": []},
]


def release(name: str = "2026-11", board: int = 0) -> Release:
    digest = hashlib.sha256(board_bytes(BOARDS[board])).hexdigest()
    return replace(read_release(Store(FIXTURE), str(FIXTURE)), name=name, leaderboard=BOARDS[board], sha256=digest)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return create(tmp_path / "store")


def test_a_release_is_read_back_as_it_was_written_and_never_changes(store: Store) -> None:
    folder = write_release(store, release())
    assert read_release(store, "2026-11") == release()
    assert file_digest(folder / BOARD) == hashlib.sha256(board_bytes(BOARDS[0])).hexdigest()
    assert board_bytes({"b": 1, "a": "é"}) == '{\n  "a": "é",\n  "b": 1\n}\n'.encode()
    with pytest.raises(ValueError, match="not JSON compliant"):
        board_bytes({"a": float("nan")})
    assert read_release(create(store.folder.parent / "other"), str(folder)) == release()
    assert release_names(store) == ["2026-11"]
    assert sorted(path.name for path in folder.iterdir()) == [BOARD, MANIFEST]
    with pytest.raises(UserError, match="releases never change"):
        write_release(store, release(board=1))
    assert read_release(store, "2026-11") == release()


@pytest.mark.parametrize("name", ["", ".hidden", "../up", "a/b", "a b", "x" * 81, "é"])
def test_names_that_are_no_file_names_are_refused(store: Store, name: str) -> None:
    with pytest.raises(UserError, match="a release cannot be named"):
        write_release(store, release(name))
    assert release_names(store) == []


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        (BOARD, '{"models": [], "benchmarks": []}', "was changed after the release"),
        (BOARD, "{", "is damaged"),
        (MANIFEST, "[]", "is damaged"),
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
    one, two = [{"role": "user", "content": "one"}], [{"role": "user", "content": "two"}]
    system = [{"role": "system", "content": "one"}]
    others: list[dict[str, list[dict[str, str]]]] = [
        {"b": two, "a": two},
        {"b": two, "c": one},
        {"b": two, "a": system},
    ]
    digest = prompts_digest({"b": two, "a": one})
    assert digest == prompts_digest({"a": one, "b": two})
    assert len({digest, *map(prompts_digest, others)}) == 4
    assert prompts_digest({}) == ""
