"""Where output goes, and how wide it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from medhelm.cli import output
from tests.support.cli import Medhelm, assert_refused
from tests.support.made_once import made_once

pytestmark = pytest.mark.usefixtures("few_draws")

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


@pytest.mark.parametrize(
    "command",
    [pytest.param(one, marks=[pytest.mark.long] * (i % 2), id=" ".join(one)) for i, one in enumerate(COMMANDS)],
)
def test_tables_of_a_store_fit_the_terminal(
    medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch, store: Path, command: list[str]
) -> None:
    check_widths(medhelm, monkeypatch, [*command, "--store", store])


@pytest.mark.parametrize("command", [["benchmarks", "list"], ["models", "list"], PLAN], ids=" ".join)
def test_tables_of_definitions_fit_the_terminal(
    medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    check_widths(medhelm, monkeypatch, [*command])


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


def test_quiet_keeps_the_result_and_errors(medhelm: Medhelm, tmp_path: Path) -> None:
    run = ["run", "aci_bench", "--tier", "sample", "--model", "baseline/majority", "--store", tmp_path / "store"]
    assert "no judges were named" in medhelm(*run).err
    quiet = medhelm(*run, "-q")
    assert (quiet.err, bool(quiet.out)) == ("", True)
    assert "unknown benchmark" in medhelm("run", "acibench", "-q", "--model", "baseline/majority").err
