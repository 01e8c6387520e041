"""Cells about models on this machine: what they measure is what is asked, and what they tell is worked out by hand."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.table import Row
from bench.tools import local_gpu, local_hf, local_vllm
from bench.workloads import local

OWN = {cell.mode: cell for cell in local.CELLS}
SMALL: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
}


def row(mode: str, **told: float) -> Row:
    nothing: dict[str, Any] = dict.fromkeys(("wall_s", "wall_min_s", "wall_max_s", "cpu_s", "peak_mib"), 0.0)
    return Row(cell=mode, harness="local", mode=mode, n=0, latency_ms=0, repetitions=1, **nothing, reported=told)


def test_goals_are_ratios_of_what_was_told() -> None:
    rows = [
        row(
            "hf",
            requests=64,
            tokens=2000,
            same_answers=64,
            ours_tokens_per_s=900,
            one_tokens_per_s=300,
            batched_tokens_per_s=450,
        ),
        row("vllm", vllm_per_s=500, openai_per_s=600, start_s=1),
    ]
    goals = local.goals(rows)
    assert [(goal.value, goal.limit, goal.at_least) for goal in goals] == [
        (3.0, 2, True),
        (2.0, 2, True),
        (1.2, 1.5, False),
    ]
    assert [goal.value for goal in local.goals([])] == [None, None, None]
    table = local.local_table(
        [*rows, row("hf-gpu", tokens_per_s=2500, batched_tokens_per_s=1200, weights_gib=15, share_of_bandwidth=0.4)]
    )
    for said in ("900 tokens/s", "450 tokens/s", "500 requests/s", "2,500 tokens/s", "1,200 tokens/s", "40%"):
        assert said in table
    assert local.local_table([]) == ""


def test_the_requests_are_of_mixed_lengths_and_always_the_same() -> None:
    todo = local_hf.jobs()
    assert todo == local_hf.jobs()
    assert len(todo) == local_hf.REQUESTS
    assert {job.limit for job in todo} == set(local_hf.LIMITS)
    assert max(len(job.text) for job in todo) > 5 * min(len(job.text) for job in todo)


def test_what_is_not_here_is_not_measured(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    assert local.can_run(OWN["vllm"], tmp_path / "medhelm")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "python").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    (tmp_path / "empty" / "python").chmod(0o755)
    assert not local.can_run(OWN["hf"], tmp_path / "empty" / "medhelm")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch", reason="torch comes with the extra hf")
    pytest.importorskip("transformers", reason="transformers comes with the extra hf")
    from bench.tools.random_models import save_random_llama

    return save_random_llama(tmp_path_factory.mktemp("models") / "small", SMALL)


def test_all_loops_give_the_same_answers(
    small: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local_hf, "LIMITS", (2, 5))
    monkeypatch.setattr(local_hf, "jobs", lambda real=local_hf.jobs: real(6))
    answers = []
    for what in (local_hf.OURS, local_hf.ONE, local_hf.BATCHED):
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
        local_hf.work(what, small)
        ready, told = capsys.readouterr().out.splitlines()
        assert ready == ""
        seconds, found = json.loads(told)
        assert seconds > 0
        answers.append([text for text, _ in found])
    assert answers[0] == answers[1] == answers[2]
    assert len(answers[0]) == 6


def test_the_measure_of_a_gpu_works_on_a_processor(small: Path) -> None:
    """But for the device, what runs there is what runs here."""
    setting = local_gpu.Setting(
        sizes={**SMALL, "vocab_size": 300, "eos_token_id": None},
        device="cpu",
        dtype="float32",
        requests=5,
        prompts=(10, 60),
        limit=6,
        batch_tokens=4096,
        copied=2**20,
    )
    told = local_gpu.measure(setting)
    assert told["requests"] == 5
    assert 1 <= told["batches"] <= 5
    assert told["tokens_per_s"] > 0
    assert 0 < told["share_of_bandwidth"] < 1
    assert set(told) >= {"weights_gib", "bandwidth_gb_per_s"}


def test_what_attention_reads_is_counted_token_by_token() -> None:
    setting = local_gpu.Setting(sizes=SMALL, limit=4)
    each = 2 * 2 * 2 * 8 * 2  # keys and values, layers, heads, width, bytes
    by_hand = sum(each * (prompt + written) for prompt in (10, 25) for written in range(4))
    assert local_gpu.cache_bytes(setting, [10, 25], 2) == by_hand


def test_the_stand_in_is_asked_through_both_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_vllm, "REQUESTS", 4)
    monkeypatch.setattr(local_vllm, "ROUNDS", 1)
    told = local_vllm.measure()
    assert told["ratio"] == pytest.approx(told["openai_per_s"] / told["vllm_per_s"])
    assert told["start_s"] > 0


def test_it_runs_by_its_path() -> None:
    program = Path(local_hf.__file__).with_name("local_speed.py")
    done = subprocess.run([sys.executable, str(program), "nothing"], capture_output=True, text=True, check=False)
    assert "KeyError: 'nothing'" in done.stderr  # it found its modules
