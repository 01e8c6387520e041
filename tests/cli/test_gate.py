"""`medhelm gate` on runs of replayed completions."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from tests.support.benchmarks.choice import make_benchmark
from tests.support.benchmarks.choice import rows as toy_rows
from tests.support.cli import Medhelm, assert_refused, succeeded
from tests.support.made_once import made_once

N = 300
MODEL = "replay/candidate.jsonl"


@pytest.fixture
def stores(medhelm: Medhelm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a reference and three builds: the same, one that got worse, and one of few instances."""

    def make() -> None:
        benchmark = make_benchmark(tmp_path, name="toy", n=N)
        for store, wrong, more in (
            ("reference", 5, ()),
            ("same", 5, ()),
            ("worse", 60, ()),
            ("few", 5, ("--limit", "40")),
        ):
            lines = []
            for place, row in enumerate(toy_rows(N)):
                letter = row["answer"] if place >= wrong else "AB"[row["answer"] == "A"]
                lines.append(json.dumps({"benchmark": "toy", "instance_id": row["id"], "completion": letter}))
            (tmp_path / "candidate.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
            succeeded(medhelm("run", benchmark, "--model", MODEL, "--store", tmp_path / store, *more))

    monkeypatch.chdir(tmp_path)
    made_once(tmp_path, __name__, make)
    return tmp_path


@pytest.mark.parametrize(
    ("store", "code", "start"), [("same", 0, "Pass:"), ("worse", 1, "Worse"), ("few", 5, "Undecided")]
)
def test_the_exit_code_is_the_verdict(medhelm: Medhelm, stores: Path, store: str, code: int, start: str) -> None:
    done = medhelm("gate", "--store", stores / store, "--against", stores / "reference")
    assert (done.code, done.err) == (code, "")
    assert done.out.startswith(start)
    found = medhelm("gate", "--store", stores / store, "--against", stores / "reference", "--json").json
    assert (found["exit_code"], found["tests"][-1]["benchmark"]) == (code, None)
    assert found["tests"][0]["metric"] == "exact_match"
    if code == 5:
        assert found["tests"][0]["n"] == 40
        assert found["tests"][0]["n_needed"] > 40
        assert [one["code"] for one in found["remarks"]] == ["shared_instances"]


def test_builds_with_the_same_random_subset_are_compared(medhelm: Medhelm, stores: Path) -> None:
    for name, size in (("large", 200), ("small", 150)):
        options = ("--subset", size, "--seed", 7, "--store", stores / name)
        assert medhelm("run", stores / "toy", "--model", MODEL, *options).code == 0
    found = medhelm(
        "gate", "--store", stores / "small", "--against", stores / "large", "--margin", "0.1", "--json"
    ).json
    assert (found["exit_code"], found["tests"][0]["n"]) == (0, 150)
    (folder,) = (stores / "small" / "runs" / "toy").iterdir()
    settings = json.loads((folder / "run.json").read_text(encoding="utf-8"))["settings"]
    assert (settings["subset"], settings["seed"], settings["limit"]) == (150, 7, None)
    for command in (("rescore", stores / "toy"), ("verify", "--benchmarks", stores)):
        assert medhelm(*command, "--store", stores / "small").code == 0
    assert len(list((stores / "small" / "runs" / "toy").iterdir())) == 1


def test_the_plan_of_a_subset_has_its_requests(medhelm: Medhelm, stores: Path) -> None:
    model = "openai/m@http://127.0.0.1:9/v1"
    assert medhelm("plan", stores / "toy", "--model", model, "--subset", "5", "--json").json["requests"] == 5


def test_a_report_is_written_beside_the_verdict(medhelm: Medhelm, stores: Path) -> None:
    file = stores / "gate.xml"
    command = ("gate", "--store", stores / "worse", "--against", stores / "reference", "--format", "junit")
    done = medhelm(*command, "-o", file)
    assert done.code == 1
    assert done.out.count("\n") == 1
    root = ElementTree.parse(file).getroot()
    assert [root.get(name) for name in ("tests", "failures")] == ["2", "2"]
    assert medhelm(*command, "-o", stores).code == 2


def test_a_release_is_a_reference(medhelm: Medhelm, stores: Path) -> None:
    assert medhelm("release", "v1", "--store", stores / "reference").code == 0
    release = stores / "reference" / "releases" / "v1"
    assert medhelm("gate", "--store", stores / "worse", "--against", release).code == 1
    assert medhelm("gate", "--store", stores / "same", "--against", release).code == 0
    assert_refused(
        medhelm("gate", "--store", stores / "reference", "--against", "v1"), "nothing was measured since", code=4
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--against", "nowhere"), "neither the folder"),
        (("--against", "reference", "--margin", "0"), "margin"),
        (("--against", "reference", "--model", "replay/x"), "no finished run of `replay/x`"),
        (("--against", "reference", "--benchmark", "tyo"), "Did you mean `toy`"),
        (("--against", "same"), "is the store itself"),
        ((), "--against"),
    ],
)
def test_mistakes_end_with_2(medhelm: Medhelm, stores: Path, options: tuple[str, ...], words: str) -> None:
    assert_refused(medhelm("gate", "--store", stores / "same", *options), words)


# --- docs/how-to/ci.md ------------------------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """Return the only code block of the page in a language."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("code", [0, 1])
def test_the_script_of_the_page_ends_with_the_verdict(stores: Path, code: int) -> None:
    if code:
        text = (
            (stores / "candidate.jsonl").read_text(encoding="utf-8").replace('"completion": "A"', '"completion": "B"')
        )
        (stores / "candidate.jsonl").write_text(text, encoding="utf-8")
    (stores / "bin").mkdir()
    program = stores / "bin" / "medhelm"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m medhelm "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    (stores / "gate.sh").write_text(block("bash"), encoding="utf-8")
    environment = {
        **os.environ,
        "PATH": f"{stores / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "MODEL": MODEL,
        "BENCHMARKS": str(stores / "toy"),
        "REFERENCE": str(stores / "reference"),
        "GITHUB_STEP_SUMMARY": str(stores / "summary.md"),
    }
    done = subprocess.run(["bash", "gate.sh"], cwd=stores, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert ElementTree.parse(stores / "gate.xml").getroot().get("failures") == str(2 * code)
    assert (stores / "summary.md").read_text(encoding="utf-8").startswith("## MedHELM gate")
    assert f"::{'error' if code else 'notice'} title=MedHELM gate::" in done.stdout


def test_the_workflow_of_the_page_runs_the_script_with_its_variables() -> None:
    steps = yaml.safe_load(block("yaml"))["jobs"]["gate"]["steps"]
    (run,) = [step for step in steps if step.get("run") == "bash gate.sh"]
    assert set(re.findall(r"\$([A-Z]+)\b", block("bash"))) - {"GITHUB_STEP_SUMMARY"} <= set(run["env"])
