"""Consent to the code of a benchmark folder: every command that would run it asks, and again when it changes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.benchmarks.definition import LIBRARY, read_definition
from medhelm.benchmarks.hooks import check_trusted, trust
from medhelm.domain import Benchmark, Tier
from medhelm.errors import UserError
from medhelm.scoring.metrics import METRIC_NAMES
from tests.support.benchmarks.definitions import make_benchmark
from tests.support.cli import Medhelm, assert_refused


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
