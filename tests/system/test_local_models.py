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
from tests.support.cli import Medhelm, Outcome, assert_refused, succeeded
from tests.support.models import random_weights as tiny_models

STAND_IN = Path(__file__).parents[1] / "support" / "servers" / "fake_vllm.py"


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("torch", reason="torch comes with the extra hf")
    pytest.importorskip("transformers", reason="transformers comes with the extra hf")
    monkeypatch.setenv("MEDHELM_HF_DEVICE", "cpu")
    return tiny_models.save(tmp_path / "tiny", max_position_embeddings=4096)


def run_of(outcome: Outcome) -> dict[str, Any]:
    (run,) = succeeded(outcome).json["runs"]
    return dict(run)


def stored(folder: Path) -> dict[str, Any]:
    """Instance -> text, finish reason and tokens, of the newest run."""
    run = max(load_runs(open_store(folder / "medhelm-store")), key=lambda run: run.started)
    rows = ((row["instance_id"], row) for row in read_records(run))
    return {str(name): [row[key] for key in ("completion", "finish_reason", "output_tokens")] for name, row in rows}


def test_a_model_of_hugging_face_is_asked_once_and_kept(medhelm: Medhelm, tiny: Path, tmp_path: Path) -> None:
    benchmark = make_benchmark(tmp_path, n=20)
    words = ("run", benchmark, "--model", "hf/./tiny", "--offline", "--json")
    first = run_of(medhelm(*words, "--limit", "12"))
    assert (first["n"], first["n_failed"], first["requests_sent"]) == (12, 0, 12)
    before = stored(tmp_path)
    assert set(before) == {f"q{number}" for number in range(12)}
    assert run_of(medhelm(*words, "--limit", "12"))["requests_sent"] == 0
    assert stored(tmp_path) == before
    assert run_of(medhelm(*words))["requests_sent"] == 8, "the others were there"
    assert not any(thread.name == "hf" for thread in threading.enumerate())
    tiny_models.save(tiny, seed=1, max_position_embeddings=4096)
    assert run_of(medhelm(*words))["requests_sent"] == 20, "other weights in the same folder are another model"


def test_a_model_that_is_not_on_this_machine_ends_with_4(medhelm: Medhelm, tiny: Path, tmp_path: Path) -> None:
    told = medhelm("run", make_benchmark(tmp_path), "--model", "hf/org/nowhere", "--offline")
    assert_refused(told, "hf download org/nowhere", code=4)


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
    assert run_of(told)["requests_sent"] == 20
    assert "vllm/./m: its server was ready after" in told.err
    (start,) = starts(served)
    with pytest.raises(ProcessLookupError):
        os.kill(start["pid"], 0)
    assert run_of(medhelm(*words))["requests_sent"] == 0
    assert len(starts(served)) == 1, "all answers are there, so no server is started"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX processes")
def test_a_server_that_does_not_start_ends_the_run_with_its_log(medhelm: Medhelm, served: Path, tmp_path: Path) -> None:
    orders = json.dumps({"exit": 1, "says": "torch.OutOfMemoryError: CUDA out of memory."})
    (tmp_path / "orders.json").write_text(orders, encoding="utf-8")
    told = medhelm("run", make_benchmark(tmp_path, n=20), "--model", "vllm/./m", "--offline")
    assert told.code == 1
    assert "The GPU does not have enough memory" in told.out + told.err
    assert len(starts(served)) == 1
