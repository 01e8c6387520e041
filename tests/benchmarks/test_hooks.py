"""Hooks: code beside a definition that makes a table of what is none."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from medhelm.benchmarks.hooks import load_hook, run_hook
from medhelm.errors import DataError, UserError

PAIRS = """
from __future__ import annotations
from dataclasses import dataclass
@dataclass
class Pair:
    text: str
def rows(rows):
    yield from ({"text": Pair(text).text} for row in rows for text in row["texts"])
"""


def written(folder: Path, code: str) -> Path:
    path = folder / "hooks.py"
    path.write_text(code, encoding="utf-8")
    return path


def result(path: Path, rows: list[dict[str, object]]) -> list[Mapping[str, object]]:
    return list(run_hook(load_hook(path), iter(rows), path))


def test_a_hook_makes_its_own_rows(tmp_path: Path) -> None:
    path = written(tmp_path, PAIRS)
    found = result(path, [{"texts": ["a", "b"]}, {"texts": []}, {"texts": ["c"]}])
    assert [row["text"] for row in found] == ["a", "b", "c"]


def test_a_hook_sees_no_secrets_and_no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither while it is loaded, nor while it makes rows; afterwards they are there again."""
    secrets = (
        "OPENAI_API_KEY", "MEDHELM_PROXY_LOGIN", "MEDHELM_STORE_KEY_FILE", "MEDHELM_GATEWAY", "MEDHELM_DATA", "DB_PWD",
        "HF_TOKEN", "SSH_AUTH_SOCK", "AZURE_STORAGE_SAS", "GOOGLE_APPLICATION_CREDENTIALS", "SESSION_COOKIE",
    )  # fmt: skip
    for name in secrets:
        monkeypatch.setenv(name, "hidden")
    monkeypatch.setenv("TZ", "UTC")
    code = """
import os
LOADED = sorted(os.environ)
def rows(rows):
    started = sorted(os.environ)
    for row in rows:
        yield {"seen": [*LOADED, *started, *os.environ]}
"""
    path = written(tmp_path, code)
    for row in run_hook(load_hook(path), iter([{}, {}]), path):
        seen = row["seen"]
        assert isinstance(seen, list)
        assert not {*secrets} & {*seen}
        assert seen.count("TZ") == 3
        assert os.environ["OPENAI_API_KEY"] == "hidden", "others see it between two rows"
    assert {os.environ[name] for name in secrets} == {"hidden"}


def test_others_keep_their_environment_while_a_hook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread finds its keys at any moment, also when it copies the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    started, checked = Event(), Event()

    def rows() -> Iterator[Mapping[str, object]]:
        started.set()  # the hook is running now: it asked for a row
        checked.wait(600)
        yield {}

    path = written(tmp_path, "import os\ndef rows(rows):\n    for _ in rows: yield {'seen': list(os.environ.copy())}\n")
    hook = load_hook(path)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(lambda: list(run_hook(hook, rows(), path)))
        assert started.wait(600)
        copied = os.environ.copy()
        checked.set()
        assert copied["OPENAI_API_KEY"] == "key"
        assert len(copied) == len(os.environ)
        assert "OPENAI_API_KEY" not in found.result()[0]["seen"]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("x = 1\nimport no_such_module_here\n", "hooks.py, line 2: cannot be run (ModuleNotFoundError"),
        ("\n\n1 / 0\n", "hooks.py, line 3: cannot be run (ZeroDivisionError"),
        ("rows = 5\n", "hooks.py: has no function `rows`"),
    ],
)
def test_hooks_that_cannot_be_run_are_reported(tmp_path: Path, code: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        load_hook(written(tmp_path, code))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("for row in rows:\n        yield {'x': row['y']}", "hooks.py, line 3: KeyError: 'y', after row 1 of the data"),
        ("for row in rows: yield {'x': int(row['x'])}", "hooks.py, line 2: ValueError: invalid literal"),
        ("for row in rows: yield row['x']", "yields str; it must yield mappings of columns to values"),
    ],
)
def test_an_error_in_a_hook_names_its_line(tmp_path: Path, body: str, words: str) -> None:
    path = written(tmp_path, f"def rows(rows):\n    {body}\n")
    with pytest.raises(DataError) as caught:
        result(path, [{"x": "not a number"}])
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
