"""HealthBench against an implementation of its authors' formula of its own, from invented decisions to the numbers."""

from __future__ import annotations

import gzip
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
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.runs import read_scores
from tests.support.benchmarks.choice import chat
from tests.support.benchmarks.judged import is_judge, jury, mock
from tests.support.benchmarks.library import LIBRARY
from tests.support.cli import Medhelm
from tests.support.servers.openai import Answer, Server

N = 40
AXES = ("axis:accuracy", "axis:completeness", "axis:communication_quality")
Row = Mapping[str, Any]


def rows(seed: int, *, harm: int = 4) -> list[Row]:
    """Conversations whose criteria have points of both signs; some are repeated, with the same tags or others."""
    draw = random.Random(seed)
    found: list[Row] = []
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
        found.append(
            {
                "prompt_id": f"c{number}",
                "prompt": [{"role": "user", "content": f"Question number {number}?"}],
                "rubrics": rubrics,
                "example_tags": [f"theme:{'hedging' if number % 2 else 'global_health'}"],
                "ideal_completions_data": None,
                "canary": "invented",
            }
        )
    return found


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
    start, end = text.index("  files:\n"), text.index("  expected_count:")
    text = (
        text[:start]
        + f'  files: {{own.jsonl: ""}}\n  expected_count: {len(conversations)}\n'
        + text[end:].partition("\n")[2]
    )
    (place / "benchmark.yaml").write_text(text, encoding="utf-8")
    content = "".join(json.dumps(row) + "\n" for row in conversations)
    (place / "own.jsonl").write_text(content, encoding="utf-8")
    trust(place)
    (benchmark,) = load_benchmarks([str(folder / "hb")], metrics=METRIC_NAMES)
    return benchmark


def serve(server: Server, shares: Mapping[str, float]) -> None:
    """Models answer with their name; each criterion is met as `is_met` says."""

    def decide(body: dict[str, Any]) -> Answer:
        text = body["messages"][0]["content"]
        if not is_judge(body):
            return chat(f"I am {body['model']}.")
        model = next(name for name in shares if f"I am {name}." in text)
        line = next(line for line in text.splitlines() if line.startswith("["))
        criterion = line.partition("] ")[2]
        return chat(json.dumps({"criteria_met": is_met(model, criterion, shares[model]), "explanation": "so"}))

    server.answer_with(decide)


def run_of(tmp_path: Path, server: Server, benchmark: Benchmark, *models: str) -> list[Run]:
    done = evaluate(
        [benchmark],
        [mock(server, name) for name in models],
        store=tmp_path / "medhelm-store",
        settings=Settings(attempts=1),
        jury=jury(server, "judge-1", at_least=1),
    )
    assert done.exit_code == 0
    return list(done.runs)


@pytest.mark.parametrize(("seed", "share", "harm"), [(2, 0.5, 20), (3, 0.9, 30), (4, 0.0, 4)])
def test_scores_and_tags_are_the_authors_by_both_rules(
    tmp_path: Path, server: Server, seed: int, share: float, harm: int
) -> None:
    conversations = rows(seed, harm=harm)
    serve(server, {"m1": share})
    (run,) = run_of(tmp_path, server, bench(tmp_path, conversations), "m1")
    met = {
        item["criterion"]: is_met("m1", item["criterion"], share) for row in conversations for item in row["rubrics"]
    }
    expected = authors_numbers(conversations, met)
    for rule in RULES:
        estimate = run.estimates[rule]["jury"]
        assert estimate.value == pytest.approx(expected.pop("score") if rule == RULES[-1] else expected["score"])
        assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    assert run.jury_result is not None
    found = {tag: one.value for tag, one in run.jury_result.subscores.items()}
    assert found == pytest.approx(expected)
    assert all(0 <= one.low <= one.value <= one.high <= 1 for one in run.jury_result.subscores.values())


def test_harm_shows_where_scores_are_averaged_and_compared(tmp_path: Path, server: Server, medhelm: Medhelm) -> None:
    conversations = rows(5, harm=20)
    serve(server, {"good": 0.5, "harmful": 0.95})
    good, harmful = run_of(tmp_path, server, bench(tmp_path, conversations), "good", "harmful")
    values = {run.model: read_scores(run, "jury", "corrected").values for run in (good, harmful)}
    raw = {model: fmean(own) for model, own in values.items()}
    assert min(raw.values()) < 0 and min(min(own) for own in values.values()) < -1
    board = medhelm("leaderboard", "--format", "json").json
    shown = {row["model"]: row for row in board["models"]}
    for run in (good, harmful):
        row = shown[run.model]
        cell = row["benchmarks"]["hb"]
        assert cell["value"] == pytest.approx(max(raw[run.model], 0), abs=1e-4)
        assert 0 <= cell["low"] <= cell["value"] <= cell["high"] <= 1
        average = row["macro_average"]
        assert 0 <= average["low"] <= average["value"] <= average["high"] <= 1
        assert row["win_share"]["low"] <= row["win_share"]["value"] <= row["win_share"]["high"]
    compared = medhelm("compare", good.model, harmful.model, "--json")
    (pair,) = compared.json["benchmarks"]
    assert pair["difference"] == pytest.approx(raw[good.model] - raw[harmful.model], abs=1e-4)
    assert pair["low"] < pair["difference"] < pair["high"]


def test_the_real_conversations_have_the_authors_number(tmp_path: Path, server: Server, data_dir: Path) -> None:
    with gzip.open(next((data_dir / "healthbench").glob("*.jsonl.gz")), "rt", encoding="utf-8") as lines:
        conversations = [json.loads(line) for line in lines]
    assert len(conversations) == 104
    serve(server, {"m1": 0.5})
    (run,) = run_of(tmp_path, server, bench(tmp_path, conversations), "m1")
    items = [item for row in conversations for item in row["rubrics"]]
    expected = authors_numbers(
        conversations,
        {item["criterion"]: is_met("m1", item["criterion"].strip().split("\n")[0], 0.5) for item in items},
    )
    assert run.estimates["corrected"]["jury"].value == pytest.approx(expected["score"])
