"""Cells about models on this machine: what they measure is what is asked, and what they tell is worked out by hand."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from bench.tools import local_gpu, local_hf
from bench.workloads import local
from tests.support.bench_rows import measured
from tests.support.models.random_weights import LLAMA


def test_goals_are_ratios_of_what_was_told() -> None:
    tokens = {"ours_tokens_per_s": 900, "one_tokens_per_s": 300, "batched_tokens_per_s": 450}
    rows = [
        measured("local/hf", reported={"requests": 64, "tokens": 2000, "same_answers": 64} | tokens),
        measured("local/vllm", reported={"vllm_per_s": 500, "openai_per_s": 600, "start_s": 1}),
    ]
    goals = local.goals(rows)
    assert [(goal.value, goal.limit, goal.at_least) for goal in goals] == [
        (3.0, 2, True),
        (2.0, 2, True),
        (1.2, 1.5, False),
    ]
    assert [goal.value for goal in local.goals([])] == [None, None, None]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch", reason="torch comes with the extra hf")
    pytest.importorskip("transformers", reason="transformers comes with the extra hf")
    from bench.tools.random_models import save_random_llama

    return save_random_llama(tmp_path_factory.mktemp("models") / "small", {**LLAMA, "max_position_embeddings": 2048})


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
        sizes={**LLAMA, "vocab_size": 300, "eos_token_id": None},
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
    assert all(rate > 0 for name, rate in told.items() if name.endswith("tokens_per_s"))
    table = local.local_table([measured("local/hf-gpu", reported=told)])
    assert table.count("tokens/s") == 6
    assert 0 < told["share_of_bandwidth"] < 1
    assert set(told) >= {"weights_gib", "bandwidth_gb_per_s"}
