"""Hooks: code beside a definition that makes a table of what is none."""

from __future__ import annotations

import os
import sys
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
    for row in rows:
        for text in row["texts"]:
            yield {"text": Pair(text).text}
"""


def written(folder: Path, code: str) -> Path:
    path = folder / "hooks.py"
    path.write_text(code, encoding="utf-8")
    return path


def result(path: Path, rows: list[dict[str, object]]) -> list[Mapping[str, object]]:
    return list(run_hook(load_hook(path), iter(rows), path))


def test_a_hook_makes_its_own_rows(tmp_path: Path) -> None:
    path = written(tmp_path, PAIRS)
    assert result(path, [{"texts": ["a", "b"]}, {"texts": []}, {"texts": ["c"]}]) == [
        {"text": "a"},
        {"text": "b"},
        {"text": "c"},
    ]


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


def test_a_hook_reads_row_by_row(tmp_path: Path) -> None:
    path = written(tmp_path, PAIRS)
    taken = 0

    def endless() -> Iterator[Mapping[str, object]]:
        nonlocal taken
        while True:
            taken += 1
            yield {"texts": ["x"]}

    rows = run_hook(load_hook(path), endless(), path)
    assert [next(rows), next(rows), taken] == [{"text": "x"}, {"text": "x"}, 2]


def test_hooks_of_the_same_name_do_not_mix(tmp_path: Path) -> None:
    paths = []
    for i in (1, 2):
        folder = tmp_path / str(i) / "same"
        folder.mkdir(parents=True)
        paths.append(written(folder, f"X = {i}\ndef rows(rows):\n    for _ in rows: yield {{'x': X}}\n"))
    hooks = [load_hook(path) for path in paths]
    assert [next(hook(iter([{}])))["x"] for hook in hooks] == [1, 2]
    assert len({hook.__module__ for hook in hooks}) == 2
    assert all(hook.__module__ in sys.modules for hook in hooks)


def test_changed_hooks_are_read_again_without_bytecode(tmp_path: Path) -> None:
    for value in ("1", "2"):
        path = written(tmp_path, f"def rows(rows):\n    yield {{'x': {value}}}\n")
        assert result(path, []) == [{"x": int(value)}]
    assert [entry.name for entry in tmp_path.iterdir()] == ["hooks.py"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def rows(:\n", "hooks.py, line 1: not Python"),
        ("x = 1\nimport no_such_module_here\n", "hooks.py, line 2: cannot be run (ModuleNotFoundError"),
        ("\n\n1 / 0\n", "hooks.py, line 3: cannot be run (ZeroDivisionError"),
        ("def row(rows): ...\n", "hooks.py: has no function `rows`"),
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
        ("for row in rows: pass\n    return 5 + None", "hooks.py, line 3: TypeError"),
        ("for row in rows: yield {'x': int(row['x'])}", "hooks.py, line 2: ValueError: invalid literal"),
        ("for row in rows: yield roww", "hooks.py, line 2: NameError"),
        ("for row in rows: yield row['x']", "yields str; it must yield mappings of columns to values"),
        ("return None", "TypeError: 'NoneType' object is not iterable, after row 0"),
    ],
)
def test_an_error_in_a_hook_names_its_line(tmp_path: Path, body: str, words: str) -> None:
    path = written(tmp_path, f"def rows(rows):\n    {body}\n")
    with pytest.raises(DataError) as caught:
        result(path, [{"x": "not a number"}])
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_errors_of_the_data_pass_through_a_hook(tmp_path: Path) -> None:
    path = written(tmp_path, "def rows(rows): yield from rows\n")

    def broken() -> Iterator[Mapping[str, object]]:
        yield {}
        raise DataError("line 7 is broken")

    with pytest.raises(DataError, match=r"^line 7 is broken$"):
        list(run_hook(load_hook(path), broken(), path))


def test_a_hook_may_get_a_folder_and_a_variant(tmp_path: Path) -> None:
    code = (
        "def rows(folder, variant=''):\n"
        "    for path in sorted(folder.glob('*.txt')):\n"
        "        yield {'name': path.name, 'variant': variant}\n"
    )
    path = written(tmp_path, code)
    (tmp_path / "a.txt").touch()
    hook = load_hook(path)
    assert list(run_hook(hook, tmp_path, path)) == [{"name": "a.txt", "variant": ""}]
    assert list(run_hook(hook, tmp_path, path, variant="old")) == [{"name": "a.txt", "variant": "old"}]


def test_a_hook_that_fails_on_a_folder_names_it(tmp_path: Path) -> None:
    path = written(tmp_path, "def rows(folder):\n    yield {}[folder]\n")
    with pytest.raises(DataError, match=rf"hooks.py, line 2: KeyError: .*, in {tmp_path}\. The hook does not match"):
        list(run_hook(load_hook(path), tmp_path, path))
