"""Models on this machine on the whole road: asked once, kept, judging, stopped, and gone at the end."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from medhelm.storage.runs import load_runs, read_records
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import make_benchmark
from tests.support.benchmarks.judged import write_benchmark
from tests.support.cli import Medhelm
from tests.support.models import random_weights as tiny_models

STAND_IN = Path(__file__).parents[1] / "support" / "servers" / "fake_vllm.py"


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("torch", reason="torch comes with the extra hf")
    pytest.importorskip("transformers", reason="transformers comes with the extra hf")
    monkeypatch.setenv("MEDHELM_HF_DEVICE", "cpu")
    return tiny_models.save(tmp_path / "tiny", max_position_embeddings=4096)


def counts(told: str) -> dict[str, Any]:
    (run,) = json.loads(told)["runs"]
    found: dict[str, Any] = run
    return found


def stored(folder: Path) -> dict[str, Any]:
    """Instance -> text, finish reason and tokens, of the newest run."""
    run = max(load_runs(open_store(folder / "medhelm-store")), key=lambda run: run.started)
    rows = ((row["instance_id"], row) for row in read_records(run))
    return {str(name): [row[key] for key in ("completion", "finish_reason", "output_tokens")] for name, row in rows}


def test_a_model_of_hugging_face_is_asked_once_and_kept(medhelm: Medhelm, tiny: Path, tmp_path: Path) -> None:
    benchmark = make_benchmark(tmp_path, n=20)
    words = ("run", benchmark, "--model", "hf/./tiny", "--offline", "--json")
    first = medhelm(*words, "--limit", "12")
    assert first.code == 0, first.err
    assert (counts(first.out)["n"], counts(first.out)["n_failed"]) == (12, 0)
    assert counts(first.out)["requests_sent"] == 12
    before = stored(tmp_path)
    assert set(before) == {f"q{number}" for number in range(12)}
    again = medhelm(*words, "--limit", "12")
    assert counts(again.out)["requests_sent"] == 0
    assert stored(tmp_path) == before
    more = medhelm(*words)
    assert counts(more.out)["requests_sent"] == 8  # the others were there
    assert not any(thread.name == "hf" for thread in threading.enumerate())
    # Other weights in the same folder are another model: nothing old is taken for its answers.
    tiny_models.save(tiny, seed=1, max_position_embeddings=4096)
    other = medhelm(*words)
    assert counts(other.out)["requests_sent"] == 20


def test_a_judge_may_be_one_too(medhelm: Medhelm, tiny: Path, tmp_path: Path) -> None:
    benchmark = write_benchmark(tmp_path)
    told = medhelm("run", benchmark, "--model", "hf/./tiny", "--judge", "hf/./tiny", "--offline", "--json")
    assert told.code in (0, 1), told.err
    run = counts(told.out)
    assert run["n"] > 0
    assert "schema" not in told.err  # left out, and not complained of


def test_a_model_that_is_not_on_this_machine_ends_with_4(medhelm: Medhelm, tiny: Path, tmp_path: Path) -> None:
    told = medhelm("run", make_benchmark(tmp_path), "--model", "hf/org/nowhere", "--offline")
    assert told.code == 4
    assert "hf download org/nowhere" in told.err
    assert "Traceback" not in told.err


def test_models_list_and_check(medhelm: Medhelm, tiny: Path) -> None:
    (listed,) = json.loads(medhelm("models", "list", "hf/./tiny", "--json").out)["models"]
    assert listed["window"] == 4096
    told = medhelm("models", "check", "hf/./tiny")
    assert told.code == 0, told.err
    assert "hf/./tiny: responded with" in told.out
    assert "reports itself as tiny@" in told.out


# --- a server of our own ----------------------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path: Path, medhelm: Medhelm, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model for the stand-in; its log is beside its orders."""
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "config.json").write_text("{}", encoding="utf-8")
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    (tmp_path / "orders.json").write_text("{}", encoding="utf-8")
    monkeypatch.setenv("MEDHELM_VLLM", str(STAND_IN))
    monkeypatch.setenv("STAND_IN", str(tmp_path / "orders.json"))
    return folder


def starts(folder: Path) -> list[dict[str, Any]]:
    log = folder.parent / "orders.log"
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")
def test_a_server_is_started_for_a_run_and_ended_with_it(medhelm: Medhelm, served: Path, tmp_path: Path) -> None:
    words = ("run", make_benchmark(tmp_path, n=20), "--model", "vllm/./m", "--offline", "--json")
    told = medhelm(*words)
    assert told.code == 0, told.err
    assert counts(told.out)["requests_sent"] == 20
    assert "vllm/./m: its server was ready after" in told.err
    (start,) = starts(served)
    with pytest.raises(ProcessLookupError):
        os.kill(start["pid"], 0)
    # All answers are there: no server is needed, and none is started.
    again = medhelm(*words)
    assert counts(again.out)["requests_sent"] == 0
    assert len(starts(served)) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")
def test_a_server_that_does_not_start_ends_the_run_with_its_log(medhelm: Medhelm, served: Path, tmp_path: Path) -> None:
    orders = json.dumps({"exit": 1, "says": "torch.OutOfMemoryError: CUDA out of memory."})
    (tmp_path / "orders.json").write_text(orders, encoding="utf-8")
    told = medhelm("run", make_benchmark(tmp_path, n=20), "--model", "vllm/./m", "--offline")
    assert told.code == 1
    assert "The GPU does not have enough memory" in told.out + told.err
    assert "CUDA out of memory" in told.out + told.err
    assert len(starts(served)) == 1


def test_without_vllm_nothing_is_run(
    medhelm: Medhelm, served: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDHELM_VLLM", str(tmp_path / "none"))
    told = medhelm("run", make_benchmark(tmp_path), "--model", "vllm/./m", "--offline")
    assert told.code == 4
    assert "which cannot be executed" in told.err
