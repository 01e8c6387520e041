"""Every open-ended benchmark with judges: on the invented rows of all of them, and on the real data there is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.domain import Benchmark, Run
from medhelm.evaluation.python_api import evaluate
from medhelm.evaluation.settings import Settings
from medhelm.results.leaderboard import leaderboard
from medhelm.scoring.metrics import METRIC_NAMES
from medhelm.storage.judgments import read_judgments
from medhelm.storage.runs import read_prompt, read_records
from medhelm.storage.store import open_store
from tests.support.benchmarks.choice import chat
from tests.support.benchmarks.judged import is_judge, jury, mock
from tests.support.servers.openai import Answer, Server

OPEN = load_benchmarks(["open"], metrics=METRIC_NAMES)
GRADES = {"judge-1": 3, "judge-2": 4, "judge-3": 5}


def answer(body: Mapping[str, Any]) -> Answer:
    """Models write a sentence; judges grade whatever criteria their schema names, each judge always alike."""
    if not is_judge(body):
        return chat("The patient is stable; follow up in two weeks.")
    criteria = body["response_format"]["json_schema"]["schema"]["properties"]
    grade = GRADES[body["model"]]
    cell = {"score": grade, "explanation": "as seen"}
    return chat(json.dumps({name: cell for name in criteria if name != "verification_code"}))


def different(server: Server) -> set[str]:
    """The requests received, each once: equal questions are asked once, and judged once for each reference."""
    return {json.dumps(body) for body in server.bodies}


def judged(server: Server, benchmark: Benchmark, store: Path, **choices: Any) -> Run:
    server.answer_with(answer)
    data = choices.pop("data", None)
    (run,) = evaluate(
        [benchmark], [mock(server)], store=store, data=data, settings=Settings(**choices), jury=jury(server)
    ).runs
    return run


@pytest.mark.parametrize("benchmark", OPEN, ids=[benchmark.name for benchmark in OPEN])
def test_on_invented_rows(tmp_path: Path, server: Server, benchmark: Benchmark) -> None:
    run = judged(server, benchmark, tmp_path, tier="sample")
    assert benchmark.rubric is not None
    criteria = [criterion.name for criterion in benchmark.rubric.criteria]
    assert (run.status, run.main_metric, run.estimates["corrected"]["jury"].value) == ("complete", "jury", 4.0)
    assert run.estimates["published"]["jury"].value == 4.0
    assert read_judgments(run).criteria == criteria * 3 * run.n
    assert criteria == ["accuracy", "structure" if benchmark.name == "note_extract" else "completeness", "clarity"]
    assert 3 * run.n < server.count == len(different(server)) <= 4 * run.n
    shown = [body["messages"][0]["content"] for body in server.bodies if is_judge(body)]
    prompts = open_store(tmp_path).prompts_file(benchmark.name, run.benchmark_digest, run.data_digest)
    for row in read_records(run):
        prompt = read_prompt(prompts, row["instance_id"])
        assert prompt is not None
        reference = prompt["references"][0]["text"]
        with_reference = [text for text in shown if reference in text]
        assert (
            bool(with_reference) is (benchmark.name != "note_extract") or reference in prompt["messages"][0]["content"]
        )
    (column,) = leaderboard([tmp_path], rule="corrected").columns
    assert (column.metric, column.low, column.high, len(column.judges)) == ("jury", 1, 5, 3)
