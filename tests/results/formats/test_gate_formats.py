"""The output of a gate: sentences, JUnit, JSON, Markdown and annotations, with names that try to break out."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from medhelm.analysis.comparison.non_inferiority import GateResult, GateTest, NotCompared, decide, paired_change
from medhelm.domain.result import Remark
from medhelm.results.formats.gate import as_json, gate_text, to_annotations, to_junit, verdict

HOSTILE = 'x"/><script>\n::error::a,b:100%\x1b[31m\x00|`*\u202e'


def result(name: str = "openai/m", *, dropped: int = 0, n: int = 1000, gap: bool = False) -> GateResult:
    new = np.ones(n)
    new[:dropped] = 0
    change = paired_change(new, np.ones(n), None)
    assert change is not None
    tests = [
        GateTest(model=name, baseline_model=name, benchmark=id_, title=id_ or "Mean", metric="EM", change=change)
        for id_ in ("toy", "")
    ]
    missing = NotCompared(model=name, baseline_model=name, benchmark="more", title=name, reason=f"run on {name}")
    remark = Remark("models_not_checked", "", f"Not checked: {name}.")
    return GateResult(
        against=name, margin=0.02, tests=decide(tests, 0.02), not_compared=(missing,) if gap else (), remarks=(remark,)
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "Pass: openai/m is not worse than `openai/m` by more than 0.020."),
        ({"dropped": 100}, "Worse than `openai/m` by more than 0.020: openai/m on toy (-0.100 ["),
        ({"n": 50}, "Undecided at a margin of 0.020 against `openai/m`: openai/m overall (0.000 ["),
        ({"gap": True}, "Undecided at a margin of 0.020 against `openai/m`: not compared: openai/m with openai/m (run"),
    ],
)
def test_the_first_sentence_says_what_was_found(changes: dict[str, Any], said: str) -> None:
    assert said in verdict(result(**changes))


@pytest.mark.parametrize("dropped", [0, 8, 15, 100])
def test_json_and_junit_agree_with_the_exit_code(dropped: int) -> None:
    found = result(dropped=dropped)
    content = as_json(found)
    root = ElementTree.fromstring(to_junit(found))
    failures, errors = int(root.get("failures", "")), int(root.get("errors", ""))
    assert content["exit_code"] == found.exit_code
    assert content["verdict"] == found.outcome == content["tests"][1]["verdict"]
    assert (failures > 0) == (found.outcome == "worse")
    assert (errors > 0) == (found.outcome == "undecided")
    assert content["tests"][0]["difference"] == pytest.approx(-dropped / 1000)


def test_hostile_names_stay_data_in_junit() -> None:
    root = ElementTree.fromstring(to_junit(result(HOSTILE, gap=True)))
    allowed = {"testsuites", "testsuite", "testcase", "failure", "error", "skipped", "system-out"}
    assert {element.tag for element in root.iter()} <= allowed
    (suite,) = root.findall("testsuite")
    assert "<script>" in suite.get("name", "")
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["3", "0", "1", "0"]


def test_hostile_names_cannot_start_another_workflow_command() -> None:
    lines = to_annotations(result(HOSTILE, gap=True)).splitlines()
    assert len(lines) == 3
    for line in lines:
        found = re.fullmatch(r"::(error|notice) title=([^,:\n\r]*)::(.*)", line)
        assert found, line
        assert "\x1b" not in line
        assert not re.search(r"%(?!25|0A|0D|3A|2C)", line)


def test_hostile_names_stay_on_their_line_of_a_table() -> None:
    for format in ("table", "md"):
        text = gate_text(result(HOSTILE, gap=True), format)
        assert not re.search("[\x1b\x00]|\n::error", text)
    assert len([line for line in text.splitlines() if line.startswith("|")]) == 4
    assert not re.search(r"(?<!\\)<script>", text)
