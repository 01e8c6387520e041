"""Completions without a readable answer are counted, and every output names them with the likely cause."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import CompletionCounts, Run
from medhelm.domain.run import completion_remarks
from medhelm.storage.runs import load_runs
from medhelm.storage.store import NAME, open_store
from tests.support.benchmarks.choice import chat, make_benchmark, perfect, question_number
from tests.support.cli import Medhelm
from tests.support.servers.openai import Answer, Server
from tests.support.stores import make_run

N = 10
PROSE = "Both are interesting, and more tests would help."


def replies(body: dict[str, Any]) -> Answer:
    """The name of the model says what it replies to the first questions; the others are answered."""
    number = question_number(body)
    found: dict[str, Callable[[], Answer]] = {
        "blank": lambda: chat(""),
        "null": lambda: chat(None),
        "swallowed": lambda: chat(
            None, message={"role": "assistant", "content": None, "reasoning_content": "The answer is A."}
        ),
        "thinks": lambda: chat("<think>The answer is A.</think>"),
        "prose": lambda: chat(PROSE),
        "cut": lambda: chat("Let us think about this", finish_reason="length"),
        "letter": lambda: chat(perfect(number), finish_reason="length"),
        "wrong": lambda: chat("B" if perfect(number) == "A" else "A"),
    }
    kind, _, first = body["model"].partition("-")
    return found[kind]() if number < int(first) else chat(perfect(number))


@pytest.fixture
def benchmark(tmp_path: Path, server: Server) -> Path:
    server.answer_with(replies)
    return make_benchmark(tmp_path, n=N)


def run(medhelm: Medhelm, server: Server, benchmark: Path, *models: str, options: tuple[str, ...] = ()) -> Any:
    """Run these models, under their own names."""
    file = benchmark.parent / "models.yaml"
    lines = [f"{model}: {{provider: openai, model: {model}, base_url: '{server.url}/v1'}}\n" for model in models]
    file.write_text("".join(lines), encoding="utf-8")
    chosen = [word for model in models for word in ("--model", model)]
    return medhelm("run", benchmark, *chosen, "--models", file, *options)


COUNTED = [
    ("blank-2", {"blank": 2}),
    ("null-2", {"blank": 2}),
    ("swallowed-2", {"blank": 2, "blank_with_reasoning": 2}),
    ("thinks-2", {"blank": 2, "blank_with_reasoning": 2}),
    ("prose-4", {"unreadable": 4}),
    ("cut-3", {"unreadable": 3, "at_limit": 3}),
    ("letter-5", {}),
    ("wrong-10", {}),
]


def test_each_kind_is_counted_in_every_json(medhelm: Medhelm, server: Server, benchmark: Path) -> None:
    names = [name for name, _ in COUNTED]
    done = run(medhelm, server, benchmark, *names, options=("--json",)).json["runs"]
    nothing = {"n": N, "blank": 0, "blank_with_reasoning": 0, "unreadable": 0, "answer": "option", "at_limit": 0}
    expected = {name: nothing | counts for name, counts in COUNTED}
    assert {one["model"]: one["completion_counts"] for one in done} == expected
    listed = medhelm("runs", "list", "--json").json["runs"]
    assert {one["model"]: one["completion_counts"] for one in listed} == expected
    shown = medhelm("runs", "show", "toy", "cut-3", "--json").json
    assert shown["completion_counts"] == expected["cut-3"]
    board = medhelm("leaderboard", "--json").json["models"]
    assert {row["model"]: row["benchmarks"]["toy"]["completion_counts"] for row in board} == expected


SENTENCES = {
    "blank-2": "2 of 10 completions on toy are blank: check the chat template",
    "swallowed-2": "2 of 10 completions on toy are blank: the replies hold reasoning but no answer, so check the "
    "reasoning parser",
    "prose-4": "4 of 10 completions on toy hold no readable option: `medhelm show toy INSTANCE`",
    "cut-3": "3 of 10 completions on toy end at the limit of 5 tokens: raise `max_tokens`",
    "prose-1": "1 of 10 completions on toy holds no readable option",
}


def test_each_problem_is_named_once_with_its_cause(medhelm: Medhelm, server: Server, benchmark: Path) -> None:
    done = run(medhelm, server, benchmark, *SENTENCES, "letter-5", "wrong-10")
    board, shown = medhelm("leaderboard").out, medhelm("runs", "list").out
    for model, sentence in SENTENCES.items():
        assert done.out.count(f"- {model}: {sentence}") == 1, "not again below the leaderboard"
        assert board.count(f"- {model}: {sentence}") == 1
        assert medhelm("runs", "show", "toy", model).out.count(f"- {model}: {sentence}") == 1
    assert "letter-5:" not in done.out and "wrong-10:" not in done.out
    for text in ("2 blank", "4 unreadable", "3 unreadable"):
        assert text in done.out
        assert text in shown
    (prose, _) = medhelm("show", "toy", "q0").out.split("=== wrong-10")
    assert prose.count("no readable answer") == 3, "of prose-4, cut-3 and prose-1"


def test_runs_of_earlier_versions_have_no_counts_until_they_are_scored_again(
    medhelm: Medhelm, server: Server, benchmark: Path
) -> None:
    run(medhelm, server, benchmark, "prose-4")
    store = open_store(Path("medhelm-store"))
    (folder,) = [one.folder for one in load_runs(store)]
    assert folder
    content = json.loads((folder / NAME).read_text(encoding="utf-8"))
    del content["completion_counts"]
    (folder / NAME).write_text(json.dumps(content), encoding="utf-8")
    assert medhelm("runs", "list", "--json").json["runs"][0]["completion_counts"] is None
    assert "unknown: an earlier version" in medhelm("runs", "show", "toy", "prose-4").out
    row = medhelm("leaderboard", "--json").json["models"][0]
    assert "completion_counts" not in row["benchmarks"]["toy"]
    assert "readable option" not in medhelm("leaderboard").out
    again = medhelm("rescore", benchmark, "--json")
    assert again.json["runs"][0]["completion_counts"]["unreadable"] == 4
    assert "4 of 10 completions on toy hold no readable option" in medhelm("leaderboard").out


def test_merged_shards_and_deletions_count_like_the_whole(
    medhelm: Medhelm, server: Server, benchmark: Path, tmp_path: Path
) -> None:
    run(medhelm, server, benchmark, "prose-4")
    whole = medhelm("runs", "list", "--json").json["runs"][0]["completion_counts"]
    for shard in ("1/2", "2/2"):
        options = ("--shard", shard, "--store", str(tmp_path / shard[0]))
        run(medhelm, server, benchmark, "prose-4", options=options)
    merged = medhelm("merge", tmp_path / "1", tmp_path / "2", "--store", "merged", "--benchmarks", benchmark)
    assert merged.code == 0, merged.err
    listed = medhelm("runs", "list", "--store", "merged", "--json").json["runs"]
    assert [one["completion_counts"] for one in listed] == [whole]
    assert medhelm("purge", "--instance", "toy:q0", "--yes").code == 0
    (left,) = medhelm("runs", "list", "--json").json["runs"]
    assert left["completion_counts"] == whole | {"n": N - 1, "unreadable": whole["unreadable"] - 1}


# --- sentences --------------------------------------------------------------------------------------------------------


def counted(title: str, model: str = "m", **counts: Any) -> Run:
    numbers = CompletionCounts(**{"n": 100, "unreadable": 0, "answer": "option", **counts})
    return make_run(title, model, title=title, settings={"max_tokens": 5}, completion_counts=numbers)


def texts(*runs: Run) -> list[str]:
    return [str(one) for one in completion_remarks(runs)]


def test_a_few_are_not_worth_a_remark() -> None:
    assert texts(counted("A", blank=4, unreadable=4, at_limit=4)) == []
    assert [one.code for one in completion_remarks([counted("A", blank=5, unreadable=6, at_limit=7)])] == [
        "blank_completions",
        "unreadable_completions",
        "completions_at_limit",
    ]


def test_benchmarks_of_a_model_share_a_sentence() -> None:
    runs = [counted("A", blank=50), counted("B", blank=1), counted("C", blank=25), counted("A", "other", blank=9)]
    first, second = texts(*runs)
    assert first.startswith("m: 75 of 200 completions are blank (A 50 of 100 and C 25 of 100): ")
    assert second.startswith("other: 9 of 100 completions on A are blank: ")


def test_different_answers_have_sentences_of_their_own() -> None:
    assert texts(counted("A", unreadable=9), counted("B", unreadable=9, answer="number")) == [
        "m: 9 of 100 completions on A hold no readable option: `medhelm show A INSTANCE` shows the text.",
        "m: 9 of 100 completions on B hold no readable number: `medhelm show B INSTANCE` shows the text.",
    ]


def test_nothing_is_said_of_baselines_and_unknown_counts() -> None:
    assert texts(counted("A", "baseline/lexical", blank=50), make_run("A", "m")) == []
