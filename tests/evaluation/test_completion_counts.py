"""Completions without a readable answer are counted, and every output names them with the likely cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import CompletionCounts, Run
from medhelm.domain.run import completion_remarks
from tests.support.benchmarks.choice import chat, make_benchmark, perfect, question_number
from tests.support.cli import Medhelm
from tests.support.servers.openai import Answer, Server
from tests.support.stores import make_run

N = 10


REPLIES = {
    "blank": chat(""),
    "null": chat(None),
    "swallowed": chat(None, message={"role": "assistant", "content": None, "reasoning_content": "The answer is A."}),
    "thinks": chat("<think>The answer is A.</think>"),
    "prose": chat("Both are interesting, and more tests would help."),
    "cut": chat("Let us think about this", finish_reason="length"),
    "letter": chat("A", finish_reason="length"),
}


def replies(body: dict[str, Any]) -> Answer:
    """The name of the model says what it replies to the first questions; the others are answered."""
    kind, _, first = body["model"].partition("-")
    number = question_number(body)
    return REPLIES[kind] if number < int(first) else chat(perfect(number))


@pytest.fixture
def benchmark(tmp_path: Path, server: Server) -> Path:
    server.answer_with(replies)
    return make_benchmark(tmp_path, n=N)


def run(medhelm: Medhelm, server: Server, benchmark: Path, *models: str) -> Any:
    """Run these models, under their own names."""
    file = benchmark.parent / "models.yaml"
    lines = [f"{model}: {{provider: openai, model: {model}, base_url: '{server.url}/v1'}}\n" for model in models]
    file.write_text("".join(lines), encoding="utf-8")
    return medhelm("run", benchmark, *(word for model in models for word in ("--model", model)), "--models", file)


COUNTED = {
    "blank-2": {"blank": 2},
    "null-2": {"blank": 2},
    "swallowed-2": {"blank": 2, "blank_with_reasoning": 2},
    "thinks-2": {"blank": 2, "blank_with_reasoning": 2},
    "prose-4": {"unreadable": 4},
    "cut-3": {"unreadable": 3, "at_limit": 3},
    "letter-5": {},
}
SENTENCES = {
    "blank-2": "2 of 10 completions on toy are blank: check the chat template",
    "swallowed-2": "2 of 10 completions on toy are blank: the replies hold reasoning but no answer, so check the "
    "reasoning parser",
    "prose-4": "4 of 10 completions on toy hold no readable option: `medhelm show toy INSTANCE`",
    "cut-3": "3 of 10 completions on toy end at the limit of 5 tokens: raise `max_tokens`",
}


def test_each_kind_is_counted_and_named_once_with_its_cause(medhelm: Medhelm, server: Server, benchmark: Path) -> None:
    done = run(medhelm, server, benchmark, *COUNTED)
    nothing = {"n": N, "blank": 0, "blank_with_reasoning": 0, "unreadable": 0, "answer": "option", "at_limit": 0}
    expected = {name: nothing | kinds for name, kinds in COUNTED.items()}
    for runs in (medhelm("runs", "list", "--json"), medhelm("rescore", benchmark, "--json")):
        assert {run["model"]: run["completion_counts"] for run in runs.json["runs"]} == expected
    models = medhelm("leaderboard", "--json").json["models"]
    assert {row["model"]: row["benchmarks"]["toy"]["completion_counts"] for row in models} == expected
    board = medhelm("leaderboard", "--wide").out
    for model, sentence in SENTENCES.items():
        for shown in (done.out, board, medhelm("runs", "show", "toy", model).out):
            assert shown.count(f"- {model}: {sentence}") == 1
    assert "letter-5:" not in done.out
    assert medhelm("show", "toy", "q0").out.count("no readable answer") == 2, "of prose-4 and cut-3"


def counted(title: str, model: str = "m", **counts: Any) -> Run:
    numbers = CompletionCounts(**{"n": 100, "unreadable": 0, "answer": "option", **counts})
    return make_run(title, model, title=title, settings={"max_tokens": 5}, completion_counts=numbers)


def test_many_completions_of_a_model_get_one_sentence_for_each_kind() -> None:
    assert completion_remarks([counted("A", blank=4, unreadable=4, at_limit=4)]) == []
    assert completion_remarks([counted("A", "baseline/lexical", blank=50), make_run("A", "m")]) == []
    kinds = [remark.code for remark in completion_remarks([counted("A", blank=5, unreadable=6, at_limit=7)])]
    assert kinds == ["blank_completions", "unreadable_completions", "completions_at_limit"]
    runs = [counted("A", blank=50), counted("B", blank=1), counted("C", blank=25), counted("A", "other", blank=9)]
    runs += [counted("D", "third", unreadable=9), counted("E", "third", unreadable=9, answer="number")]
    assert [str(remark).rpartition(": ")[0] for remark in completion_remarks(runs)] == [
        "m: 75 of 200 completions are blank (A 50 of 100 and C 25 of 100)",
        "other: 9 of 100 completions on A are blank",
        "third: 18 of 200 completions hold no readable answer (D 9 of 100 and E 9 of 100)",
    ]
