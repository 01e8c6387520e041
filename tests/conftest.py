"""What every test may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from medhelm.cli import main
from tests.support.cli import Medhelm, Outcome
from tests.support.plugins import example, install, site  # noqa: F401 - fixtures
from tests.support.servers.http import Server

REAL_DATA = Path(os.environ.get("MEDHELM_DATA") or Path(__file__).parent.parent.parent / "shared" / "data")


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
