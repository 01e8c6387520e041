"""HealthBench against an implementation of its authors' formula of its own, from invented decisions to the numbers."""

from __future__ import annotations

import json
import random
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.hooks import trust
from medhelm.domain import RULES, Benchmark, Run
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.settings import Settings
from medhelm.results.leaderboard import leaderboard
from medhelm.results.leaderboard_view import as_json
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.run_scores import read_scores
from tests.support.benchmarks.choice import chat
from tests.support.benchmarks.definitions import write_rows
from tests.support.benchmarks.judged import is_judge, jury, mock
from tests.support.benchmarks.library import LIBRARY
from tests.support.cli import Medhelm
from tests.support.servers.openai import Answer, Server

N = 40
AXES = ("axis:accuracy", "axis:completeness", "axis:communication_quality")
Row = Mapping[str, Any]


def rows(seed: int, *, harm: int) -> list[Row]:
    """Conversations whose criteria have points of both signs; some are repeated, with the same tags or others."""
    draw = random.Random(seed)
    conversations: list[Row] = []
    for number in range(N):
        rubrics = [
            {
                "criterion": f"Criterion {number}-{k}",
                "points": draw.choice([1, 3, 5, 10] if k < 2 else [-harm, -2 * harm, 2, 7]),
                "tags": [draw.choice(AXES), "level:example"][: draw.choice([1, 2])],
            }
            for k in range(draw.randint(2, 6))
        ]
        if number % 5 == 0:
            rubrics.append({**rubrics[0], "points": 2})
        if number % 7 == 0:
            rubrics.append({**rubrics[0], "points": -6, "tags": ["axis:other"]})
        conversation = {
            "prompt_id": f"c{number}",
            "prompt": [{"role": "user", "content": f"Question number {number}?"}],
            "rubrics": rubrics,
            "example_tags": [f"theme:{'hedging' if number % 2 else 'global_health'}"],
            "ideal_completions_data": None,
            "canary": "invented",
        }
        conversations.append(conversation)
    return conversations


def is_met(model: str, criterion: str, share: float) -> bool:
    return random.Random(f"{model} {criterion}").random() < share


def authors_numbers(conversations: Sequence[Row], met: Mapping[str, bool]) -> dict[str, float]:
    """The score of each conversation and tag, averaged and then cut to 0..1: the formula as its authors describe it."""
    values: dict[str, list[float]] = defaultdict(list)

    def share(items: Sequence[Row]) -> float | None:
        possible = sum(item["points"] for item in items if item["points"] > 0)
        earned = sum(item["points"] for item in items if met[item["criterion"]])
        return earned / possible if possible else None

    for row in conversations:
        whole = share(row["rubrics"])
        assert whole is not None
        values["score"].append(whole)
        for tag in row["example_tags"]:
            values[tag].append(whole)
        for tag in {tag for item in row["rubrics"] for tag in item["tags"]}:
            own = share([item for item in row["rubrics"] if tag in item["tags"]])
            if own is not None:
                values[tag].append(own)
    return {name: float(np.clip(np.mean(own), 0, 1)) for name, own in values.items()}


def bench(folder: Path, conversations: Sequence[Row]) -> Benchmark:
    """A copy of HealthBench with other conversations, as the note of its source describes."""
    place = folder / "hb"
    shutil.copytree(LIBRARY / "healthbench", place)
    text = (place / "benchmark.yaml").read_text(encoding="utf-8").replace("name: healthbench", "name: hb")
    before, _, rest = text.partition("  files:\n")
    behind = rest.partition("  expected_count:")[2].partition("\n")[2]
    files = f'  files: {{own.jsonl: ""}}\n  expected_count: {len(conversations)}\n'
    (place / "benchmark.yaml").write_text(before + files + behind, encoding="utf-8")
    write_rows(place / "own.jsonl", conversations)
    trust(place)
    (benchmark,) = load_benchmarks([str(place)], metrics=METRIC_NAMES)
    return benchmark


def evaluated(folder: Path, server: Server, conversations: Sequence[Row], shares: Mapping[str, float]) -> list[Run]:
    """Evaluate models that answer with their name; each criterion is met as `is_met` says."""

    def decide(body: dict[str, Any]) -> Answer:
        text = body["messages"][0]["content"]
        if not is_judge(body):
            return chat(f"I am {body['model']}.")
        model = next(name for name in shares if f"I am {name}." in text)
        line = next(line for line in text.splitlines() if line.startswith("["))
        criterion = line.partition("] ")[2]
        return chat(json.dumps({"criteria_met": is_met(model, criterion, shares[model]), "explanation": "so"}))

    server.answer_with(decide)
    done = evaluate(
        [bench(folder, conversations)],
        [mock(server, name) for name in shares],
        store=folder / "medhelm-store",
        settings=Settings(attempts=1),
        jury=jury(server, "judge-1", at_least=1),
    )
    assert done.exit_code == 0
    return list(done.runs)


@pytest.mark.parametrize(
    ("seed", "share", "harm"), [(2, 0.5, 20), pytest.param(3, 0.9, 30, marks=pytest.mark.long), (4, 0.0, 4)]
)
def test_scores_and_tags_are_the_authors_by_both_rules(
    tmp_path: Path, server: Server, seed: int, share: float, harm: int
) -> None:
    conversations = rows(seed, harm=harm)
    (run,) = evaluated(tmp_path, server, conversations, {"m1": share})
    criteria = [item["criterion"] for row in conversations for item in row["rubrics"]]
    expected = authors_numbers(conversations, {name: is_met("m1", name, share) for name in criteria})
    score = expected.pop("score")
    assert run.jury_result is not None
    estimates = [run.estimates[rule]["jury"] for rule in RULES]
    assert [estimate.value for estimate in estimates] == pytest.approx([score] * len(RULES))
    assert {tag: estimate.value for tag, estimate in run.jury_result.subscores.items()} == pytest.approx(expected)
    for estimate in (*estimates, *run.jury_result.subscores.values()):
        assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    (row,) = as_json(leaderboard([tmp_path / "medhelm-store"], criteria=True))["models"]
    by_tag = row["benchmarks"]["hb"]["criteria"]
    assert {tag: mean["value"] for tag, mean in by_tag.items()} == pytest.approx(expected, abs=1e-6)
    assert {tag: mean["n"] for tag, mean in by_tag.items()} == {t: e.n for t, e in run.jury_result.subscores.items()}


def test_harm_shows_where_scores_are_averaged_and_compared(tmp_path: Path, server: Server, medhelm: Medhelm) -> None:
    good, harmful = evaluated(tmp_path, server, rows(5, harm=20), {"good": 0.5, "harmful": 0.95})
    values = {run.model: list(read_scores(run, "jury", "corrected").values) for run in (good, harmful)}
    means = {model: fmean(scores) for model, scores in values.items()}
    assert min(means.values()) < 0 and min(map(min, values.values())) < -1
    for row in medhelm("leaderboard", "--format", "json").json["models"]:
        assert row["benchmarks"]["hb"]["value"] == pytest.approx(max(means[row["model"]], 0), abs=1e-4)
        for interval in (row["benchmarks"]["hb"], row["macro_average"], row["win_share"]):
            assert 0 <= interval["low"] <= interval["value"] <= interval["high"] <= 1
    (pair,) = medhelm("compare", good.model, harmful.model, "--json").json["benchmarks"]
    assert pair["difference"] == pytest.approx(means[good.model] - means[harmful.model], abs=1e-4)
    assert pair["low"] < pair["difference"] < pair["high"]
