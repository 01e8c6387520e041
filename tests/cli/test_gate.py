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

from tests.support.benchmarks.choice import make_benchmark
from tests.support.benchmarks.choice import rows as toy_rows
from tests.support.cli import Medhelm, succeeded
from tests.support.made_once import made_once

N = 300
MODEL = "replay/candidate.jsonl"


@pytest.fixture
def stores(medhelm: Medhelm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a reference and three builds: the same, one that got worse, and one of few instances."""

    def make() -> None:
        benchmark = make_benchmark(tmp_path, name="toy", n=N)
        few = ("--limit", "40")
        for store, wrong, more in (("reference", 5, ()), ("same", 5, ()), ("worse", 60, ()), ("few", 5, few)):
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
    assert found["exit_code"] == code
    if code == 5:
        assert found["tests"][0]["n"] == 40 < found["tests"][0]["n_needed"]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_script_of_the_page_ends_with_the_verdict(stores: Path) -> None:
    file = stores / "candidate.jsonl"
    file.write_text(file.read_text(encoding="utf-8").replace('"completion": "A"', '"completion": "B"'), "utf-8")
    (stores / "bin").mkdir()
    program = stores / "bin" / "medhelm"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m medhelm "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"^```bash\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (stores / "gate.sh").write_text(script, encoding="utf-8")
    environment = {
        **os.environ,
        "PATH": f"{stores / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "MODEL": MODEL,
        "BENCHMARKS": str(stores / "toy"),
        "REFERENCE": str(stores / "reference"),
        "GITHUB_STEP_SUMMARY": str(stores / "summary.md"),
    }
    done = subprocess.run(["bash", "gate.sh"], cwd=stores, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert ElementTree.parse(stores / "gate.xml").getroot().get("failures") == "2"
    assert (stores / "summary.md").read_text(encoding="utf-8").startswith("## MedHELM gate")
    assert "::error title=MedHELM gate::" in done.stdout
