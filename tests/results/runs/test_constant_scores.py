"""The constant answer is scored from the options and references in a store, with and without a run of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medhelm.domain import RULES, ConstantBaseline
from medhelm.results.leaderboard import read_inputs
from medhelm.results.runs.cells import constant_scores
from medhelm.storage.runs import load_runs
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import make_benchmark
from tests.support.benchmarks.choice import rows as toy_rows
from tests.support.cli import Medhelm

N = 60
"""Questions; two thirds of them have the answer A."""


def write_replies(folder: Path, name: str, share: float, seed: int) -> str:
    """Write replies that are right this often, and return the name of the model."""
    generator = np.random.default_rng(seed)
    with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
        for row in toy_rows(N):
            letter = row["answer"] if generator.random() < share else "AB"[row["answer"] == "A"]
            file.write(json.dumps({"benchmark": "toy", "instance_id": row["id"], "completion": letter}) + "\n")
    return f"replay/{name}.jsonl"


def said(board: dict[str, Any]) -> list[str]:
    texts = [*board["verdict"], *board["warnings"]]
    return [text for text in texts if "always" in text or "constant" in text]


@pytest.mark.parametrize("extra", ["", "group: topic\n"])
def test_the_verdict_is_the_same_whether_the_baseline_was_run(medhelm: Medhelm, tmp_path: Path, extra: str) -> None:
    place = make_benchmark(tmp_path, n=N, extra=extra)
    far, near = write_replies(tmp_path, "far", 0.97, 0), write_replies(tmp_path, "near", 0.72, 1)
    assert medhelm("run", place, "--model", far, "--model", near).code == 0
    without = {rule: said(medhelm("leaderboard", "--json", "--scoring", rule).json) for rule in RULES}
    assert medhelm("run", place, "--model", "baseline/majority").code == 0
    assert {rule: said(medhelm("leaderboard", "--json", "--scoring", rule).json) for rule in RULES} == without
    pooled = "scores 0.667" if extra else "is right in 67%"  # by groups, the number is no share of right answers
    assert without == {
        rule: [f"On toy always answering `A` {shown}. Not clearly better: replay/near.jsonl."]
        for rule, shown in {"corrected": "is right in 67%", "published": pooled}.items()
    }


def test_the_scores_are_those_that_the_baseline_gets(medhelm: Medhelm, tmp_path: Path) -> None:
    place = make_benchmark(tmp_path, n=N)
    model = write_replies(tmp_path, "near", 0.72, 1)
    assert medhelm("run", place, "--model", model, "--store", "one").code == 0
    assert medhelm("run", place, "--model", "baseline/majority", "--store", "two").code == 0
    (column,) = read_inputs([Path("one")]).columns
    (cell,) = read_inputs([Path("two")]).cells
    assert cell.scores is not None
    assert column.constant_scores == dict(zip(cell.ids, cell.scores.tolist(), strict=True))
    assert read_inputs([Path("two")]).columns[0].constant_scores is None, "it was run"
    means = read_inputs([Path("one")], single_scores=False)
    assert means.columns[0].constant_scores is None, "no scores are read"


def test_scores_that_do_not_have_the_known_mean_do_not_count(medhelm: Medhelm, tmp_path: Path) -> None:
    """A metric can need more than the store holds."""
    place = make_benchmark(tmp_path, n=N)
    assert medhelm("run", place, "--model", write_replies(tmp_path, "near", 0.72, 1)).code == 0
    store = open_store(Path("medhelm-store"))
    (run,) = load_runs(store)
    prompts = store.prompts_file(run.benchmark, run.benchmark_digest, run.data_digest)
    right = ConstantBaseline(answer="A", share=2 / 3, values={"corrected": 2 / 3, "published": 0.5})
    assert constant_scores(prompts, right, "exact_match", "corrected") is not None
    assert constant_scores(prompts, right, "exact_match", "published") is None
    assert constant_scores(prompts, right, "no_such_metric", "corrected") is None
    prompts.write_bytes(b"damaged")
    assert constant_scores(prompts, right, "exact_match", "corrected") is None
