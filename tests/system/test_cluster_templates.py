"""The scripts and manifests for clusters, run on this machine: stand-ins take the place of Slurm and vLLM."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

from medhelm.results.leaderboard import leaderboard

kubernetes_validate = pytest.importorskip("kubernetes_validate")

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how-to"
TEMPLATES = HOW_TO / "templates"
SUPPORT = ROOT / "tests" / "support"
ORDER = {"MODEL": "baseline/lexical", "BENCHMARKS": "pubmed_qa", "OPTIONS": "--tier sample"}
"""An evaluation that needs no server."""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The programs of a cluster, on the PATH."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, words in {
        "sbatch": f"{sys.executable} {SUPPORT / 'sbatch.py'}",
        "vllm": f"{sys.executable} {SUPPORT / 'servers' / 'fake_vllm.py'}",
        "medhelm": f"{sys.executable} -m medhelm",
    }.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (programs / name).chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MEDHELM_", "SLURM_"))}
    return {**kept, "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path)}


def run(script: str, folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-ec", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )


def ranked(store: Path) -> list[str]:
    return [row.model for row in leaderboard([store]).rows]


def test_the_commands_for_slurm_run_shards_and_merge_them(tmp_path: Path, environment: dict[str, str]) -> None:
    """The array has two tasks here instead of eight."""
    for file in TEMPLATES.glob("slurm_*.sh"):
        (tmp_path / file.name).write_text(
            file.read_text().replace("--array=1-8", "--array=1-2").replace("SHARDS:=8", "SHARDS:=2")
        )
    (tmp_path / "disk").mkdir()
    environment["NODE_DISK"] = str(tmp_path / "disk")
    blocks = re.findall(r"```bash\n(.*?)```", (HOW_TO / "slurm.md").read_text(), re.DOTALL)
    (commands,) = (block for block in blocks if "slurm_merge.sh" in block)
    done = run(commands, tmp_path, {**environment, **ORDER})
    assert (done.returncode, done.stderr) == (0, ""), logs(tmp_path)
    assert sorted(path.name for path in (tmp_path / "shards").iterdir()) == ["1", "2"]
    assert "pubmed_qa with baseline/lexical: 2 shards" in logs(tmp_path)
    assert ranked(tmp_path / "results") == ["baseline/lexical"]
    assert list((tmp_path / "disk").iterdir()) == []


@pytest.mark.long
def test_servers_on_slurm_list_their_addresses_while_they_run(tmp_path: Path, environment: dict[str, str]) -> None:
    shutil.copytree(TEMPLATES, tmp_path, dirs_exist_ok=True)
    (tmp_path / "orders.json").write_text("{}")
    environment |= {"STAND_IN": str(tmp_path / "orders.json"), "HOST": "127.0.0.1", "WEIGHTS": "/models/tiny"}
    environment["MEDHELM_API_KEY"] = "a-key"
    command = ["sbatch", "--array=1-2", "--export=ALL", "slurm_servers.sh"]
    file = tmp_path / "endpoints.txt"
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL) as cluster:
        try:
            deadline = time.monotonic() + 600
            while not (file.exists() and len(file.read_text().splitlines()) == 2):
                assert cluster.poll() is None and time.monotonic() < deadline, logs(tmp_path)
                time.sleep(0.05)
            for address in file.read_text().split():
                with urlopen(f"{address}/models", timeout=600) as reply:
                    assert json.load(reply)["data"][0]["id"] == "tiny"
            model = f"openai/tiny@{file.read_text().split()[0]}"
            checked = run(f"medhelm models check {model}", tmp_path, environment)
            assert checked.returncode == 0, checked.stderr
        finally:
            cluster.send_signal(signal.SIGTERM)
            cluster.wait(600)
    assert file.read_text() == ""


def logs(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.glob("*.log"))


# --- Kubernetes -------------------------------------------------------------------------------------------------------


def manifests() -> list[dict[str, Any]]:
    return [one for file in sorted(TEMPLATES.glob("*.yaml")) for one in yaml.safe_load_all(file.read_text())]


@pytest.mark.parametrize("version", ["1.31", kubernetes_validate.latest_version()])
def test_manifests_follow_the_schema_of_kubernetes(version: str) -> None:
    for manifest in manifests():
        kubernetes_validate.validate(manifest, version, strict=True)
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate({**manifest, "unknown": 1}, version, strict=True)


def test_pods_have_no_more_rights_than_they_need() -> None:
    templates = [one["spec"]["template"]["spec"] for one in manifests() if "template" in one["spec"]]
    assert len(templates) == 3
    for pod in templates:
        context, (only,) = pod["securityContext"], pod["containers"]
        assert context["runAsNonRoot"] and context["runAsUser"] > 0
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not pod["automountServiceAccountToken"]
        assert only["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert only["resources"]["requests"] and "memory" in only["resources"]["limits"]


@pytest.mark.long
def test_the_jobs_for_kubernetes_run_shards_and_merge_them(tmp_path: Path, environment: dict[str, str]) -> None:
    """Runs the containers' commands, two indexes instead of eight."""
    jobs = {one["metadata"]["name"]: one["spec"] for one in manifests() if one["kind"] == "Job"}
    (shards,), (merge,) = (jobs[f"medhelm-{name}"]["template"]["spec"]["containers"] for name in ("shards", "merge"))
    given = {one["name"]: one.get("value", "") for one in shards["env"]}
    assert given["SHARDS"] == str(jobs["medhelm-shards"]["completions"])
    own = {**environment, **given, **ORDER, "SHARDS": "2", "WORK": str(tmp_path), "HOME": str(tmp_path)}
    words = [*shards["command"], *shards["args"]]
    pods = [subprocess.Popen(words, env=own | {"JOB_COMPLETION_INDEX": str(index)}) for index in range(2)]
    assert [pod.wait(300) for pod in pods] == [0, 0]
    done = subprocess.run([*merge["command"], *merge["args"]], env=own, capture_output=True, text=True)
    assert (done.returncode, "2 shards" in done.stderr) == (0, True), done.stderr
    assert ranked(tmp_path / "results") == ["baseline/lexical"]
