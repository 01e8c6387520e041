"""Logs of Inspect: real ones of several versions, and everything that can be odd about one."""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Message, Reference, Usage
from medhelm.errors import DataError
from medhelm.extensions.exchange.inspect.logs import read_inspect_log

FIXTURES = Path(__file__).parents[3] / "fixtures" / "inspect"

SHORT = ("short_0.3.285.eval", "short_0.3.285.json", "short_0.3.50.json")
OPTIONS = ("options_0.3.285.eval", "options_0.3.50.eval")


# --- real logs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHORT)
def test_a_real_log(name: str) -> None:
    run = read_inspect_log(FIXTURES / name)
    assert (run.benchmark, run.model, run.origin.harness, run.tier) == ("short", "invented/m", "inspect", "real")
    assert run.origin.version in name
    assert run.origin.sha256 == hashlib.sha256((FIXTURES / name).read_bytes()).hexdigest()
    assert [one.id for one in run.instances] == ["q1", "q2", "q3", "q4", "q5"]
    first = run.instances[0]
    question = "Which vitamin is given against scurvy?"
    assert first.turns == (Message("system", "You are a careful clerk."), Message("user", question))
    assert (first.fields, first.references) == ({"input": question}, (Reference("Vitamin C"),))
    assert first.metadata == {"topic": "1"}, "what is long is left out"
    assert run.completions["q2"].text == "The pancreas makes it."
    failures = {id_: one.failure.code for id_, one in run.completions.items() if one.failure}
    assert failures == {"q4": "refusal", "q5": "sample_error"}
    # Of a score with two values each is a metric; nan is no score; what a filter ended is none either.
    assert run.scores == {
        "match": {"q1": 1.0, "q2": 0.0, "q3": 0.0},
        "style_length": {"q1": 9.0, "q2": 22.0, "q3": 5.0},
        "style_polite": {"q1": 0.0, "q2": 1.0},
    }
    reasoning = 0 if "0.3.50" in name else 4  # 0.3.50 did not know of it
    assert run.completions["q1"].usage == Usage(input=40, cached_input=10, output=7, reasoning=reasoning)
    limits = (32, 0.5, ()) if name.endswith(".eval") else (0, None, ())
    assert (run.max_tokens, run.temperature, run.stop) == limits, "those that were sent"
    (remark,) = run.remarks
    assert "1 sample: blocked by the provider's content filter" in remark


@pytest.mark.parametrize("name", OPTIONS)
def test_options_and_epochs(name: str) -> None:
    run = read_inspect_log(FIXTURES / name)
    third = run.instances[2]
    assert (third.id, third.choices, third.labels) == ("3", ("Two", "Three", "Four"), ("A", "B", "C"))
    assert [one.correct for one in third.references] == [False, False, True]
    assert third.expected == "C"
    assert third.turns[0].text.startswith("Answer the following multiple choice question.")
    assert run.completions["1"].text == "ANSWER: B"
    # Two reductions of two epochs: the first has the metric's name, as in Inspect's tables.
    assert run.scores == {"choice": {"1": 1.0, "2": 0.0, "3": 1.0}, "choice_max": {"1": 1.0, "2": 0.0, "3": 1.0}}
    assert "2 epochs" in run.remarks[0]


@pytest.mark.parametrize(
    ("name", "n", "words"),
    [
        ("failed_0.3.50.eval", 4, "status `error` (RuntimeError('the invented server is on fire'))"),
        ("running_0.3.285.eval", 3, "status `started`"),
    ],
)
def test_a_log_that_ended_in_an_error_or_is_being_written(name: str, n: int, words: str) -> None:
    run = read_inspect_log(FIXTURES / name)
    assert (len(run.instances), run.n_expected) == (n, 5)
    assert words in run.remarks[0]


# --- odd ones ---------------------------------------------------------------------------------------------------------


def sample(**changes: Any) -> dict[str, Any]:
    """A sample as Inspect writes it."""
    output = {
        "model": "m-1",
        "choices": [{"message": {"role": "assistant", "content": "yes"}, "stop_reason": "stop"}],
        "usage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12},
        "time": 1.5,
    }
    messages = [{"role": "user", "content": "Is it?"}, {"role": "assistant", "content": "yes"}]
    own = {"id": "s1", "epoch": 1, "input": "Is it?", "target": "yes", "messages": messages, "output": output}
    return {**own, "scores": {"match": {"value": "C"}}, **changes}


def read(tmp_path: Path, *samples: dict[str, Any], spec: dict[str, Any] | None = None, **header: Any) -> Any:
    """A log with these samples, written and read."""
    own = {"task": "t", "model": "p/m", "created": "2026-01-01T00:00:00+00:00", "eval_id": "e", **(spec or {})}
    content = {"version": 2, "status": "success", "eval": own, "samples": list(samples), **header}
    path = tmp_path / "log.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return read_inspect_log(path)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("C", 1.0), ("I", 0.0), ("P", 0.5), ("N", 0.0), (True, 1.0), (3, 3.0), ("No", 0.0), ("0.75", 0.75),
        (math.nan, None), (math.inf, None), (None, None), ("blue", None), ("nan", None),
    ],
)  # fmt: skip
def test_values(tmp_path: Path, value: object, expected: float | None) -> None:
    run = read(tmp_path, sample(scores={"match": {"value": value}}))
    assert run.scores == ({} if expected is None else {"match": {"s1": expected}})
    assert any("not a number" in remark for remark in run.remarks) == (value in ("blue", "nan"))


def test_the_names_of_values_do_not_depend_on_the_sample(tmp_path: Path) -> None:
    """The second sample has a score of one of the two scorers only, and so have the reductions of the epochs."""
    both = {"match": {"value": "C"}, "style": {"value": {"tone": 1, "length": None, "x y": "C"}}}
    results = {"scores": [{"name": "match", "scorer": "match"}, {"name": "tone", "scorer": "style"}]}
    one, two = sample(scores=both), sample(id="s2", scores={"style": {"value": {"tone": 0}}})
    run = read(tmp_path, one, two, results=results)
    style = {"style_tone": {"s1": 1.0, "s2": 0.0}, "style_x_y": {"s1": 1.0}}
    assert run.scores == {"match": {"s1": 1.0}, **style}
    reduced = [{"scorer": "style", "reducer": "max", "samples": [{"sample_id": "s1", "value": {"tone": 1}}]}]
    twice = read(tmp_path, one, {**one, "epoch": 2}, results=results, reductions=reduced)
    assert twice.scores == {name: {"s1": 1.0} for name in ("match", "style_tone", "style_x_y")}
    listed = read(tmp_path, sample(scores={"quality": {"value": [1, "I"]}}))
    assert list(listed.scores.values()) == [{"s1": 1.0}, {"s1": 0.0}]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((10, 4, 19, {"input_tokens_cache_read": 5}), Usage(input=15, cached_input=5, output=4)),
        ((10, 4, 14, {"input_tokens_cache_read": 5}), Usage(input=10, cached_input=5, output=4)),  # an old log
        ((1, 1, 9, {"input_tokens_cache_write": 7}), Usage(input=8, output=1, cache_write=7)),
        ((1, 5, 9, {"reasoning_tokens": 3}), Usage(input=1, output=8, reasoning=3)),  # counted beside the answer
        ((-1, "many", None, {}), Usage()),
    ],
)
def test_tokens(tmp_path: Path, counts: tuple[Any, Any, Any, dict[str, int]], expected: Usage) -> None:
    read_tokens, written, total, more = counts
    one = sample()
    one["output"]["usage"] = {"input_tokens": read_tokens, "output_tokens": written, "total_tokens": total, **more}
    assert read(tmp_path, one).completions["s1"].usage == expected


def test_tokens_of_several_answers_are_added_up_without_those_of_judges(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}] * 2
    own = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
    one = sample(messages=turns, model_usage={"p/m": own, "p/judge": {"input_tokens": 999, "output_tokens": 999}})
    run = read(tmp_path, one)
    assert run.completions["s1"].usage == Usage(input=100, output=20)
    assert [turn.role for turn in run.instances[0].turns] == ["user", "assistant", "user"]


FAILED: list[tuple[dict[str, Any], str]] = [
    ({"output": {"choices": []}, "error": {"message": "Oh\nno", "traceback": ""}}, "sample_error"),
    ({"output": {"choices": []}, "limit": {"type": "token", "limit": 5}}, "token_limit"),
    ({"output": None}, "no_answer"),
    ({"invalidation": {"author": "somebody"}}, "invalidated"),
]


@pytest.mark.parametrize(("changes", "code"), FAILED)
def test_failures_are_not_scores_but_an_answer_before_an_error_is_kept(
    tmp_path: Path, changes: dict[str, Any], code: str
) -> None:
    run = read(tmp_path, sample(**changes), sample(id="s2", error={"message": "the scorer fell over"}, scores=None))
    assert run.completions["s1"].text is None
    assert run.completions["s1"].failure.code == code
    assert run.scores == {}
    assert run.completions["s2"].text == "yes"
    assert "1 sample: completed before an error, so the completion is kept." in run.remarks


def test_messages_of_all_kinds(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "Look:"}, {"type": "image", "image": "data:"}, {"type": "text", "text": "well?"}]
    thought = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "fine"}]
    said = [("system", "Be brief."), ("user", parts), ("tool", "attachment://k"), ("assistant", thought)]
    messages = [{"role": role, "content": content} for role, content in said]
    one = sample(messages=messages, input=messages[:2], attachments={"k": "42"})
    one["output"]["choices"][0] = {"message": messages[-1], "stop_reason": "max_tokens"}
    run = read(tmp_path, one)
    (instance,) = run.instances
    assert [(turn.role, turn.text) for turn in instance.turns] == [
        ("system", "Be brief."), ("user", "Look:\nwell?"), ("user", "42"),
    ]  # fmt: skip
    assert (run.completions["s1"].text, run.completions["s1"].finish_reason) == ("fine", "length")
    assert len(run.remarks) == 2


def test_the_first_epoch_with_a_completion_counts(tmp_path: Path) -> None:
    broken = sample(output={"choices": []}, error={"message": "no"}, scores=None)
    run = read(tmp_path, broken, sample(epoch=3, scores={"match": {"value": "I"}}), sample(epoch=2))
    assert run.completions["s1"].text == "yes"
    assert run.scores == {"match": {"s1": 0.5}}, "without Inspect's reductions: the mean of what was scored"


def test_doubles_and_samples_without_an_id(tmp_path: Path) -> None:
    late = sample(scores={"match": {"value": "I"}})
    late["output"] = {**late["output"], "choices": [{"message": {"content": "no"}, "stop_reason": "stop"}]}
    run = read(tmp_path, sample(), late, sample(id=None), sample(id=True), sample(id=7))
    assert [one.id for one in run.instances] == ["s1", "7"]
    assert run.completions["s1"].text == "no"
    assert run.scores == {"match": {"s1": 0.0, "7": 1.0}}
    assert sorted(run.remarks) == ["1 sample: duplicate; the last one counts.", "2 samples: no id; left out."]


def test_the_header_of_a_log(tmp_path: Path) -> None:
    spec = {
        "task_display_name": "A task",
        "model_base_url": "https://me:secret@example.org:8443/v1?key=secret",
        "model_roles": {"grader": {"model": "p/judge"}, "panel": [{"model": "a/b"}, {"model": "c/d"}]},
        "dataset": {"sample_ids": ["s2", "s1", 3], "samples": 9},
        "model_generate_config": {"max_tokens": 5, "stop_seqs": ["END", ""]},
    }
    run = read(tmp_path, sample(), sample(id="s2"), spec=spec, plan={"config": {"temperature": 0}})
    assert (run.title, run.deployment, "secret" in repr(run)) == ("A task", "https://example.org:8443/v1", False)
    assert ([one.id for one in run.instances], run.n_expected) == (["s2", "s1"], 3), "in the order of the data"
    assert (run.max_tokens, run.temperature, run.stop) == (5, 0.0, ("END",))
    assert run.remarks == ("the role grader was p/judge.", "the role panel was a/b, c/d.")


OURS = b'"eval": {"task": "t", "model": "m"}'

WRONG: list[tuple[bytes, str]] = [
    (b"", "is empty"),
    (b'{"version": 2,', "is not valid JSON: "),
    (b'{"\xff": 1}', "byte 2 is not UTF-8"),
    (b"[" * 200_000, "nested too deeply"),
    (b'{"results": {}}', "not an Inspect log"),
    (b'{"version": 3, "status": "success", "eval": {}}', "format 3; the supported formats are 1 and"),
    (b'{"version": 2, "status": "success", "eval": {"model": "m"}}', "names no task or no model"),
    (b'{"version": 2, "status": "error", ' + OURS + b', "samples": [1, null]}', "has no samples (status error)"),
]


@pytest.mark.parametrize(("content", "words"), WRONG)
def test_files_that_are_not_logs(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "log.json"
    path.write_bytes(content)
    with pytest.raises(DataError) as wrong:
        read_inspect_log(path)
    assert words in str(wrong.value)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_named_pipe_is_an_error(tmp_path: Path) -> None:
    """Opening it would wait for ever."""
    os.mkfifo(tmp_path / "x.eval")
    with pytest.raises(DataError, match="named pipe"):
        read_inspect_log(tmp_path / "x.eval")
