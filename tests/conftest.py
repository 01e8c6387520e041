"""Fixtures of all tests, and the markers `fast`, `system` and `real_data`, set by a test's folder and fixtures."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from medhelm.cli import main
from medhelm.results.agreement import agreement
from tests.support.cli import Medhelm, Outcome
from tests.support.coroutine_tests import pytest_pyfunc_call  # noqa: F401 - a hook
from tests.support.encryption import store_key  # noqa: F401 - a fixture
from tests.support.plugins import example, install, site  # noqa: F401 - fixtures
from tests.support.servers.openai import Server

settings.register_profile("medhelm", max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("medhelm")  # a busy machine fails no test

TESTS = Path(__file__).parent
FAST = {"analysis", "benchmarks", "domain", "io", "models", "scoring"}
"""Folders of tests that need no run and no process."""

SLOW = {
    *("analysis/agreement", "analysis/comparison", "analysis/jury"),  # simulations
    *(f"analysis/test_{name}" for name in ("bootstrap", "distributions", "means", "ratio_metrics")),
    *("analysis/leaderboard/test_build", "analysis/leaderboard/test_win_rates"),
    "benchmarks/library",  # every benchmark that ships
    "benchmarks/test_personal_identifiers",  # spaCy
    "benchmarks/test_plugin_template",  # processes
    *(f"benchmarks/data/test_{name}" for name in ("arrow_parquet", "dataset", "readers", "writers")),
    *(f"io/test_{name}" for name in ("folders", "plugins", "reader")),
    *("models/test_cache", "models/batch"),  # processes
    "models/providers/test_vendors",  # every error of every vendor
    *("scoring/sql", "scoring/metrics/test_sql"),  # processes
    *(
        "scoring/metrics/test_all_metrics",
        "scoring/test_wordings",
    ),  # long completions
    *("scoring/jury/test_planted_verdicts", "scoring/jury/test_prompt_injection"),
    "scoring/metrics/test_rouge",
}
"""Folders and modules within them that take more than a second or two."""

SYSTEM = {"bench", "system"}
"""Folders of tests that start processes, kill them and measure them."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background job; processes would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ["XDG_CONFIG_HOME"] = tempfile.mkdtemp(prefix="medhelm-tests-config-")
"""Consents that tests record are not the user's."""

REAL_DATA = Path(os.environ.get("MEDHELM_DATA") or Path(__file__).parent.parent.parent / "shared" / "data")


@cache
def is_fast(path: Path) -> bool:
    """Tell whether a test module is part of the inner loop."""
    place = path.relative_to(TESTS).with_suffix("")
    return place.parts[0] in FAST and SLOW.isdisjoint(map(str, (place, *place.parents)))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave modules unread of which no test is asked for: reading them may take longer than the tests."""
    if not collection_path.name.startswith("test_"):
        return None
    asked = config.option.markexpr
    left_out = (asked == "fast" and not is_fast(collection_path)) or (
        asked == "not long" and collection_path.relative_to(TESTS).parts[0] == "bench"
    )
    return left_out or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test by its folder and its fixtures."""
    for item in items:
        if "data_dir" in getattr(item, "fixturenames", ()):
            item.add_marker("real_data")
        elif is_fast(item.path) and not item.get_closest_marker("long"):
            item.add_marker("fast")
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in SYSTEM:
            item.add_marker("system")
        if folder == "bench":  # measuring programs, which only developers start
            item.add_marker("long")


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what lives until the end: thousands of tests, and all modules."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_unconfigure() -> None:
    """Delete the configuration of these tests, and leave nothing uncollected, which DuckDB would report."""
    gc.unfreeze()
    shutil.rmtree(os.environ["XDG_CONFIG_HOME"], ignore_errors=True)


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resample coefficients of agreement less often than usual, in tests that do not look at their intervals."""
    monkeypatch.setattr("medhelm.analysis.jury.cells.MOST_DRAWS", 50)
    monkeypatch.setattr(agreement, "__kwdefaults__", {**(agreement.__kwdefaults__ or {}), "draws": 50})


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder with the real public data, one folder per benchmark."""
    if not (REAL_DATA / "pubmed_qa").is_dir():
        pytest.skip(f"no real data at {REAL_DATA}; set MEDHELM_DATA to a folder with one folder per benchmark")
    return REAL_DATA


@pytest.fixture
def medhelm(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Medhelm:
    """The command line, in an empty working directory, without anybody's settings: `medhelm("run", "toy", ...)`."""
    settings = ("MEDHELM_", "OPENAI_", "AZURE_", "ANTHROPIC_", "GEMINI_", "GOOGLE_", "AWS_")
    for name in [name for name in os.environ if name.startswith(settings)]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path) -> Outcome:
        monkeypatch.setattr("sys.argv", ["medhelm", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), out, err)

    return run


@pytest.fixture
def server() -> Iterator[Server]:
    """A running server on 127.0.0.1; tell it what to do with `server.script(Answer(...), ...)`."""
    with Server() as running:
        yield running
