"""Where output goes and how wide it is; places that cannot be written: one sentence, and nothing half-written."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from medhelm.cli import output
from medhelm.evaluation.scheduler import on_interrupt
from tests.support.cli import Medhelm, assert_refused
from tests.support.evaluated_store import copy_of_store
from tests.support.made_once import made_once

MODELS = ["baseline/majority", "baseline/lexical", "baseline/random"]
PLAN = ["plan", "all", "--tier", "sample", "--model", "openai/gpt-4o-2024-05-13", "--judge", "anthropic/claude-opus-4"]
COMMANDS = [
    ["leaderboard", "--rank-baselines"],
    ["leaderboard", "--rank-baselines", "--by", "category"],
    ["compare", MODELS[0], MODELS[1]],
    ["compare", *MODELS, "--by", "test"],
    ["cost", "--rule", "ceiling"],
    ["runs", "list"],
    ["power"],
]
_RULE = re.compile(r"^-+(?:  +-+)+$", re.MULTILINE)


@pytest.fixture
def store(medhelm: Medhelm, tmp_path: Path) -> Path:
    folder = tmp_path / "sample"
    models = [part for name in MODELS for part in ("--model", name)]
    benchmarks = ["medcalc_bench", "adhd_medeffects", "patient_instruct", "mtsamples_procedures"]
    run = ["run", *benchmarks, "--tier", "sample", "--store", folder, *models]
    made_once(tmp_path, f"{__name__} sample", lambda: medhelm(*run))
    return folder


def widths(text: str) -> list[int]:
    """Return the widths of the tables in a text."""
    return [len(rule) for rule in _RULE.findall(text)]


def check_widths(medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch, arguments: list[object]) -> None:
    everything = medhelm(*arguments).out
    for width in (80, 120):
        monkeypatch.setattr(output, "terminal_width", lambda width=width: width)
        shown = medhelm(*arguments)
        assert widths(shown.out), shown.err
        assert max(widths(shown.out)) <= width
        assert ("Not shown at" in shown.out) <= (max(widths(everything)) > width)
    wide = medhelm(*arguments, "--wide").out
    assert "Not shown at" not in wide
    assert max(widths(wide)) >= max(widths(everything))


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize(
    "command",
    [pytest.param(one, marks=[pytest.mark.long] * (i % 2), id=" ".join(one)) for i, one in enumerate(COMMANDS)],
)
def test_tables_of_a_store_fit_the_terminal(
    medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch, store: Path, command: list[str]
) -> None:
    check_widths(medhelm, monkeypatch, [*command, "--store", store])


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize("command", [["benchmarks", "list"], ["models", "list"], PLAN], ids=" ".join)
def test_tables_of_definitions_fit_the_terminal(
    medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    check_widths(medhelm, monkeypatch, [*command])


@pytest.mark.usefixtures("few_draws")
def test_a_failed_command_leaves_the_file_of_a_result(medhelm: Medhelm, store: Path, tmp_path: Path) -> None:
    printed = medhelm("leaderboard", "--store", store, "--format", "md")
    file = tmp_path / "new" / "board.md"
    outcome = medhelm("leaderboard", "--store", store, "--format", "md", "-o", file)
    assert (outcome.code, outcome.out, outcome.err) == (0, "", printed.err)
    assert file.read_text() == printed.out
    assert medhelm("leaderboard", "--store", tmp_path / "none", "--output", file).code == 2
    assert file.read_text() == printed.out
    assert list(file.parent.iterdir()) == [file]
    assert_refused(medhelm("taxonomy", "-o", file / "x.txt"), f"{file / 'x.txt'} cannot be written")


@pytest.mark.usefixtures("few_draws")
def test_quiet_keeps_the_result_and_errors(medhelm: Medhelm, tmp_path: Path) -> None:
    run = ["run", "aci_bench", "--tier", "sample", "--model", "baseline/majority", "--store", tmp_path / "store"]
    assert "no judges were named" in medhelm(*run).err
    quiet = medhelm(*run, "-q")
    assert (quiet.err, bool(quiet.out)) == ("", True)
    assert "unknown benchmark" in medhelm("run", "acibench", "-q", "--model", "baseline/majority").err


# --- output that cannot be written ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("benchmarks instances pubmed_qa --tier sample | head -c 10 > /dev/null; exit ${PIPESTATUS[0]}", 0, ""),
        ("benchmarks list > /dev/full", 4, "could not be written: No space left on device."),
        ("benchmarks list >&-", 0, ""),
        ("leaderboard --store $'a\\xff'", 2, "'a\\udcff') is not UTF-8"),
    ],
)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device is always full")
def test_output_that_cannot_be_written(tmp_path: Path, command: str, code: int, told: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m medhelm {command}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no such signal")
def test_a_lost_connection_stops_work_as_ctrl_c_does() -> None:
    usual = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
    stopped: list[int] = []

    async def work() -> None:
        with on_interrupt(lambda: stopped.append(1)):
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0.05)

    try:
        asyncio.run(work())
        assert (stopped, signal.getsignal(signal.SIGHUP)) == ([1], signal.SIG_DFL)
    finally:
        signal.signal(signal.SIGHUP, usual)


@pytest.mark.parametrize(
    "error", [MemoryError(), ImportError("numpy.so: failed to map segment from shared object")], ids=["data", "code"]
)
def test_lack_of_memory_is_a_message(medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise ExceptionGroup("tasks", [error])

    monkeypatch.setattr("medhelm.evaluation.check.check_all", fail)
    done = medhelm("benchmarks", "check", "pubmed_qa")
    assert (done.code, done.err.startswith("medhelm: there is not enough memory")) == (4, True)


# --- places that cannot be written ------------------------------------------------------------------------------------

OUTPUTS = {
    "benchmarks new": ("benchmarks", "new", "sepsis", "--out", "place"),
    "benchmarks new --from": ("benchmarks", "new", "sepsis", "--out", "place", "--from", "rows.csv"),
    "data sample": ("data", "sample", "pubmed_qa", "--out", "place"),
    "export csv": ("export", "csv", "place/out"),
    "export helm": ("export", "helm", "place/out"),
    "export card": ("export", "card", "place/out"),
    "export card FILE": ("export", "card", "place/card.html"),
    "export site": ("export", "site", "place/out"),
    "report": ("report", "place/out"),
    "leaderboard -o": ("leaderboard", "-o", "place/board.csv", "--format", "csv"),
    "agreement sample": ("agreement", "sample", "place/rate.csv", "--size", "2"),
}
"""Commands that write to the folder `place`, outside the store."""


@pytest.fixture
def place(
    tmp_path: Path, medhelm: Medhelm, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """An empty folder beside a store and a table."""
    store = copy_of_store(medhelm, tmp_path, tmp_path_factory.getbasetemp() / "store-beside-places")
    monkeypatch.setenv("MEDHELM_STORE", str(store))
    (tmp_path / "rows.csv").write_text("id,question,answer\n1,why?,yes\n2,how?,no\n3,who?,yes\n", encoding="utf-8")
    (tmp_path / "place").mkdir()
    return tmp_path / "place"


@pytest.mark.parametrize(("number", "code"), [(errno.EROFS, 2), (errno.ENOSPC, 4)])
@pytest.mark.parametrize("name", OUTPUTS)
def test_a_folder_that_cannot_be_made_is_one_sentence(
    place: Path, medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch, name: str, number: int, code: int
) -> None:
    """A mode would not do: root could write in spite of it."""
    mkdir = os.mkdir

    def refused(path: str, *options: object, **more: object) -> None:
        if Path(path).absolute().is_relative_to(place):
            raise OSError(number, os.strerror(number), str(path))
        mkdir(path, *options, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "mkdir", refused)
    done = medhelm(*OUTPUTS[name])
    assert done.code == code, done.err
    assert "place" in done.err
    assert f"cannot be written: {os.strerror(number)}. " in done.err
    assert "another f" in done.err.lower()
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("name", ["benchmarks new", "benchmarks new --from", "data sample"])
def test_a_disk_that_fills_up_leaves_nothing_half_written(
    place: Path, medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write_text = Path.write_text

    def full(self: Path, *_: object, **__: object) -> None:
        write_text(self, "half", encoding="utf-8")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", full)
    monkeypatch.setattr("medhelm.benchmarks.data.sample_rows.write_text", full)
    assert_refused(medhelm(*OUTPUTS[name]), "No space left on device. Free some space, or name another folder.", code=4)
    assert [path for path in place.rglob("*") if path.is_file()] == []
