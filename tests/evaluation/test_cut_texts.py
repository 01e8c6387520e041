"""Texts of which a metric reads only the beginning: counted by a run, summed over shards, and said."""

from __future__ import annotations

from pathlib import Path

import pytest

from medhelm.evaluation.remarks import cut_text_remarks
from medhelm.scoring import metrics
from medhelm.scoring.metric import Metric
from tests.support.cli import Medhelm

LIMIT = 5


@pytest.fixture
def short_sighted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The metric of the benchmark reads five characters."""
    metric = Metric(
        name="quasi_exact_match",
        title="Short-sighted",
        description="d",
        source="s",
        corrected=lambda completion, instance: float(completion[:LIMIT] == instance.expected[:LIMIT]),
        cuts=lambda completion, instance: max(len(completion), len(instance.expected)) > LIMIT,
    )
    monkeypatch.setattr(metrics.METRICS, "built_in", {**metrics.METRICS.built_in, metric.name: metric})


@pytest.fixture
def command(tmp_path: Path) -> tuple[object, ...]:
    place = tmp_path / "tiny"
    place.mkdir()
    (place / "benchmark.yaml").write_text(
        "{name: tiny, title: Tiny, description: d, access: private, max_tokens: 9, metrics: [quasi_exact_match],\n"
        "taxonomy: {category: clinical_decision_support, subcategory: planning_treatments},\n"
        'source: {kind: csv, files: {t.csv: ""}}, id: id, answer: answer, prompt: "{question}"}\n',
        encoding="utf-8",
    )
    rows = [f"{n},question {n},{'yes' if n % 3 else 'certainly'}" for n in range(9)]
    (place / "t.csv").write_text("\n".join(["id,question,answer", *rows]), encoding="utf-8")
    lines = [f'{{"benchmark": "tiny", "instance_id": "{n}", "completion": "yes"}}' for n in range(9)]
    (tmp_path / "m.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return "run", place, "--model", f"replay/{tmp_path}/m.jsonl"


@pytest.mark.usefixtures("short_sighted")
def test_a_run_and_its_shards_count_the_same(medhelm: Medhelm, command: tuple[object, ...], tmp_path: Path) -> None:
    whole = medhelm(*command)
    assert "on Tiny compared only the beginning of long texts" in whole.err
    assert "m.jsonl 3 of 9 instances have a completion or reference that is longer" in whole.err
    assert "3 of 9 instances" in medhelm("leaderboard").out
    for part in ("1/2", "2/2"):
        medhelm(*command, "--shard", part, "--store", tmp_path / "parts")
    assert medhelm("merge", tmp_path / "parts", "--store", tmp_path / "merged").code == 0
    assert "3 of 9 instances" in medhelm("leaderboard", "--store", tmp_path / "merged").out


def test_a_run_whose_texts_are_read_to_the_end_says_nothing(medhelm: Medhelm, command: tuple[object, ...]) -> None:
    assert "beginning" not in medhelm(*command).err
    assert cut_text_remarks([]) == []
