"""Hooks: code beside a definition that makes a table of what is none, and consent to run it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.definition import LIBRARY, read_definition
from medhelm.benchmarks.hooks import check_trusted, load_hook, run_hook, trust
from medhelm.domain import Benchmark, Tier
from medhelm.errors import DataError, UserError
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.benchmarks.definitions import make_benchmark
from tests.support.cli import Medhelm, assert_refused

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
    with pytest.raises(UserError, match=re.escape(words)):
        load_hook(written(tmp_path, code))


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


# --- consent to the code of a benchmark folder ------------------------------------------------------------------------


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of consents, which does not exist yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("medhelm.benchmarks.hooks._trusted", {})
    return tmp_path / "config/medhelm/trusted.json"


@pytest.fixture
def foreign(tmp_path: Path) -> Benchmark:
    """A benchmark with code that leaves a trace, and the keys that it sees, when it is run."""
    folder = tmp_path / "foreign"
    shutil.copytree(LIBRARY / "pubmed_qa", folder)
    (folder / "benchmark.yaml").write_text(
        (folder / "benchmark.yaml").read_text(encoding="utf-8").replace("name: pubmed_qa", "name: foreign"),
        encoding="utf-8",
    )
    trace = tmp_path / "trace"
    with (folder / "hooks.py").open("a", encoding="utf-8") as file:
        file.write(
            f"\nimport os, pathlib\npathlib.Path({str(trace)!r}).write_text(str(os.environ.get('OPENAI_API_KEY')))\n"
        )
    return read_definition(folder, metrics=METRIC_NAMES)


@pytest.mark.parametrize(
    "words", [("benchmarks", "check"), ("run", "--model", "baseline/majority")], ids=lambda words: words[0]
)
@pytest.mark.usefixtures("config")
def test_code_of_a_folder_runs_after_consent_only(
    medhelm: Medhelm, foreign: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """All commands read rows in one way: here is one that only reads them, and one that sends them."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hunter2")
    words = (*words, str(foreign.folder), "--tier", "sample")
    refused = medhelm(*words, "--store", tmp_path / "store")
    assert_refused(refused, f"{foreign.folder / 'hooks.py'} is code", f"--trust {foreign.folder}")
    assert not (tmp_path / "trace").exists()
    assert medhelm(*words, "--store", tmp_path / "store", "--trust", foreign.folder).code == 0
    assert (tmp_path / "trace").read_text(encoding="utf-8") == "None", "keys are hidden from it"
    assert os.environ["OPENAI_API_KEY"] == "sk-hunter2"
    assert medhelm(*words, "--store", tmp_path / "store").code == 0, "the consent is remembered"


def test_changed_code_needs_another_consent(config: Path, foreign: Benchmark) -> None:
    trust(foreign.folder.parent)
    check_trusted(foreign)
    written = config.stat()
    assert written.st_mode & 0o777 == 0o600
    trust(foreign.folder)
    assert config.stat().st_mtime_ns == written.st_mtime_ns, "what was agreed to is not written again"
    assert list(json.loads(config.read_text(encoding="utf-8"))["folders"]) == [str(foreign.folder.resolve())]
    (foreign.folder / "helper.py").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"hooks.py changed since you agreed to run it\. It was not run"):
        check_trusted(foreign)


@pytest.mark.parametrize("content", ["", '{"folders": 1}', "[" * 100_000])
def test_a_damaged_record_is_not_consent(config: Path, foreign: Benchmark, content: str) -> None:
    config.parent.mkdir(parents=True)
    config.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match="--trust"):
        check_trusted(foreign)
    trust(foreign.folder)
    check_trusted(foreign)


@pytest.mark.usefixtures("config")
def test_code_that_is_installed_needs_no_consent(foreign: Benchmark) -> None:
    check_trusted(read_definition(LIBRARY / "pubmed_qa", metrics=METRIC_NAMES))
    with pytest.raises(UserError, match="this folder does not exist"):
        trust(foreign.folder / "none")


@pytest.mark.parametrize("tier", ["sample", "real"])
def test_links_out_of_a_benchmark_folder_are_refused(tmp_path: Path, tier: Tier) -> None:
    (tmp_path / "secret.jsonl").write_text('{"question": "x", "answer": "y"}\n', encoding="utf-8")
    source = {"kind": "jsonl", "files": {"linked/secret.jsonl": ""}}
    benchmark = make_benchmark(tmp_path / "benchmarks", source=source, sample_rows=[{"question": "x", "answer": "y"}])
    if tier == "sample":
        (benchmark.folder / "sample.jsonl").unlink()
        (benchmark.folder / "sample.jsonl").symlink_to(tmp_path / "secret.jsonl")
    (benchmark.folder / "linked").symlink_to(tmp_path)
    with pytest.raises(UserError, match="is a link out of its benchmark folder"):
        open_dataset(benchmark, data=None, tier=tier)
