"""The study of capacity: its arithmetic, and leaderboards of a small store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.studies import capacity
from bench.studies.capacity import RESULTS, Evaluation, harness_costs, need_table


def test_needs_are_the_sums_of_the_parts() -> None:
    costs = capacity.HarnessCosts(cpu_us=500.0, memory_bytes=100.0, record_bytes=90.0)
    text = "\n".join(need_table(Evaluation(models=10, benchmarks=4, instances=900), costs))
    assert "| requests | 36,000 |" in text
    assert "| time at 100 requests a second | 0.1 hours, 0.1 cores |" in text
    assert "13 US dollars" not in text
    assert "| 10 US dollars |" in text  # 36 million input tokens at 0.15, 7.2 million output tokens at 0.60


def test_costs_of_a_request_are_those_of_the_last_measurement() -> None:
    costs = harness_costs(json.loads(RESULTS.read_text(encoding="utf-8")))
    assert 0 < costs.cpu_us < 10_000
    assert 0 < costs.record_bytes < 1_000


def test_leaderboards_of_a_small_store_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(capacity, "YOUNG_S", -0.5)  # no wait
    words = ["--store", str(tmp_path / "s"), "--models", "2", "--benchmarks", "2", "--instances", "20"]
    assert capacity.main(words) == 0
    printed = capsys.readouterr().out
    assert all(f"| {name} |" in printed for name in ("first", "again", capacity.AFTER_RUN))
