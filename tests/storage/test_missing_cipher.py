"""Without the extension that encrypts, no encrypted store is read, and nothing is written that should be encrypted."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from medhelm.errors import MissingError
from medhelm.io import plugins
from medhelm.io.files import KEY_VARIABLE
from medhelm.storage.store import create, open_store
from tests.support.cli import Medhelm
from tests.support.encryption import KEYS, lock_stores, without_key
from tests.support.evaluated_store import copy_of_store

COMMANDS = (
    *(("leaderboard",), ("compare",), ("show", "letters", "q6"), ("cost",), ("power",), ("jury", "summary")),
    *(("runs", "list"), ("runs", "remove", "--model", "openai/a", "--yes"), ("release", "one"), ("verify",)),
    *(("budget", "set", "5"), ("batches",), ("purge", "--all", "--yes"), ("export", "csv", "OUT"), ("rescore",)),
    *(("run", "TOY", "--model", "baseline/random"), ("plan", "TOY", "--model", "baseline/random")),
    *(("filter-references", "OPEN"), ("agreement", "sample", "OUT.csv"), ("report", "OUT")),
)
"""Commands that open a store. TOY and OPEN are benchmarks, OUT a new folder."""


@pytest.fixture
def store(tmp_path: Path, medhelm: Medhelm, tmp_path_factory: pytest.TempPathFactory, store_key: str) -> Path:
    """A plain store with runs and judgments, and a key in the environment."""
    with without_key():
        return copy_of_store(medhelm, tmp_path, tmp_path_factory.getbasetemp() / "store-to-encrypt")


def hide_extension(monkeypatch: pytest.MonkeyPatch) -> None:
    """Go on as a new process of an installation without extensions."""
    monkeypatch.setattr(plugins, "extension_targets", lambda group: {})
    lock_stores(monkeypatch)


def content(folder: Path) -> dict[str, str]:
    """Digest of every file below a folder, without what SQLite makes for readers."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(("-shm", "-wal"))
    }


@pytest.mark.parametrize("variable", ["", KEY_VARIABLE, f"{KEY_VARIABLE}_FILE", f"{KEY_VARIABLE}_COMMAND"])
def test_no_command_opens_a_store_that_is_or_must_be_encrypted(
    store: Path, medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    if not variable:
        assert medhelm("encrypt", "--store", store).code == 0
    hide_extension(monkeypatch)
    monkeypatch.delenv(KEY_VARIABLE)
    if variable:
        monkeypatch.setenv(variable, KEYS[0])
    before = content(store.parent)
    words = {name: store.parent / name.lower() for name in ("TOY", "OUT")} | {"OPEN": store.parent / "letters"}
    reason = f"{variable} is set, so that the store" if variable else f"the store {store} is encrypted"
    for command in COMMANDS if variable in ("", KEY_VARIABLE) else COMMANDS[:1]:
        done = medhelm(*(words.get(word, word) for word in command), "--store", store)
        assert (done.code, done.out) == (4, ""), (command, done.err)
        for part in (reason, str(store), "needs the extension `vault`", "lacks", "Install"):
            assert part in done.err, (command, part)
        assert KEYS[0] not in done.err
    assert content(store.parent) == before


def test_no_new_store_is_made_plain_if_a_key_is_given(
    tmp_path: Path, medhelm: Medhelm, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide_extension(monkeypatch)
    done = medhelm("run", store.parent / "toy", "--model", "baseline/random", "--store", tmp_path / "new")
    assert (done.code, done.out) == (4, "")
    with pytest.raises(MissingError, match="must be encrypted"):
        create(tmp_path / "new")
    assert content(tmp_path / "new") == {}
    monkeypatch.delenv(KEY_VARIABLE)
    assert open_store(create(tmp_path / "new").folder).folder == tmp_path / "new"
