"""Logs of Inspect: real ones of several versions, and everything that can be odd about one."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Criterion, Instance, Message, Reference, Usage
from medhelm.errors import DataError
from medhelm.extensions.exchange.inspect.logs import log_files, read_inspect_log
from medhelm.storage.imported_instances import instance_from_json, instance_to_json

FIXTURES = Path(__file__).parents[3] / "fixtures" / "inspect"

SHORT = ("short_0.3.285.eval", "short_0.3.285.json", "short_0.3.50.json")
OPTIONS = ("options_0.3.285.eval", "options_0.3.50.eval")


# --- real logs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHORT)
def test_a_real_log(name: str) -> None:
    run = read_inspect_log(FIXTURES / name)
    assert (run.benchmark, run.title, run.model, run.deployment) == ("short", "short", "invented/m", "")
    assert run.origin.harness == "inspect"
    assert run.origin.version in name
    assert len(run.origin.run) == 22
    assert [one.id for one in run.instances] == ["q1", "q2", "q3", "q4", "q5"]
    first = run.instances[0]
    question = "Which vitamin is given against scurvy?"
    assert first.turns == (Message("system", "You are a careful clerk."), Message("user", question))
    assert first.fields == {"input": question}
    assert first.references == (Reference("Vitamin C"),)
    assert first.metadata == {"topic": "1"}, "what is long is left out"
    assert run.completions["q2"].text == "The pancreas makes it."
    assert run.completions["q2"].finish_reason == "stop"
    failures = {id_: one.failure.code for id_, one in run.completions.items() if one.failure}
    assert failures == {"q4": "refusal", "q5": "sample_error"}
    assert "on fire" in (run.completions["q5"].failure or pytest.fail()).message
    # Of a score with two values each is a metric; nan is no score; what a filter ended is none either.
    assert run.scores == {
        "match": {"q1": 1.0, "q2": 0.0, "q3": 0.0},
        "style_length": {"q1": 9.0, "q2": 22.0, "q3": 5.0},
        "style_polite": {"q1": 0.0, "q2": 1.0},
    }
    usage = run.completions["q1"].usage
    assert (usage.input, usage.cached_input, usage.output) == (40, 10, 7), "Inspect counts cached tokens apart"
    assert usage.reasoning == (0 if "0.3.50" in name else 4), "0.3.50 did not know of them"
    assert run.n_expected == 5
    assert run.tier == "real"
    assert not run.medhelm_task
    assert run.started.endswith("+00:00")
    assert len(run.remarks) == 1
    assert "1 sample: blocked by the provider's content filter" in run.remarks[0]


def test_limits_are_those_that_were_sent() -> None:
    run = read_inspect_log(FIXTURES / "short_0.3.285.eval")
    assert (run.max_tokens, run.temperature, run.stop) == (32, 0.5, ())
    unknown = read_inspect_log(FIXTURES / "short_0.3.285.json")
    assert (unknown.max_tokens, unknown.temperature, unknown.stop) == (0, None, ())


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


def test_a_log_that_ended_in_an_error() -> None:
    run = read_inspect_log(FIXTURES / "failed_0.3.50.eval")
    assert (len(run.instances), run.n_expected) == (4, 5)
    assert "status `error` (RuntimeError('the invented server is on fire'))" in run.remarks[0]


def test_a_log_that_is_being_written() -> None:
    run = read_inspect_log(FIXTURES / "running_0.3.285.eval")
    assert ([one.id for one in run.instances], run.n_expected) == (["q1", "q2", "q3"], 5)
    assert run.scores["match"] == {"q1": 1.0, "q2": 0.0, "q3": 0.0}
    assert "status `started`" in run.remarks[0]


def test_the_digest_is_that_of_the_file() -> None:
    import hashlib

    path = FIXTURES / SHORT[0]
    assert read_inspect_log(path).origin.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_logs_in_a_folder(tmp_path: Path) -> None:
    names = ["a.eval", "deep/er/b.eval", "2026-01-02T03-04-05+00-00_x_y.json", "logs.json", "2026.json", "c.txt"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert [str(path.relative_to(tmp_path)) for path in log_files(tmp_path)] == [names[2], "a.eval", "deep/er/b.eval"]


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
        ("C", 1.0), ("I", 0.0), ("P", 0.5), ("N", 0.0), (True, 1.0), (False, 0.0), (3, 3.0), (0.25, 0.25),
        ("yes", 1.0), ("No", 0.0), ("TRUE", 1.0), ("0.75", 0.75),
        (math.nan, None), (math.inf, None), (None, None), ("blue", None), ("nan", None),
    ],
)  # fmt: skip
def test_values(tmp_path: Path, value: object, expected: float | None) -> None:
    run = read(tmp_path, sample(scores={"match": {"value": value}}))
    assert run.scores == ({} if expected is None else {"match": {"s1": expected}})
    assert any("not a number" in remark for remark in run.remarks) == (value in ("blue", "nan"))


def test_values_of_several_parts(tmp_path: Path) -> None:
    alone = read(tmp_path, sample(scores={"quality": {"value": {"tone": 1, "length": None, "x y": "C"}}}))
    assert alone.scores == {"tone": {"s1": 1.0}, "x_y": {"s1": 1.0}}
    listed = read(tmp_path, sample(scores={"quality": {"value": [1, "I"]}, "match": {"value": "C"}}))
    assert listed.scores == {"quality_0": {"s1": 1.0}, "quality_1": {"s1": 0.0}, "match": {"s1": 1.0}}


def test_the_names_of_values_do_not_depend_on_the_sample(tmp_path: Path) -> None:
    """The second sample has a score of one of the two scorers only, and so have the reductions of the epochs."""
    both = {"match": {"value": "C"}, "style": {"value": {"tone": 1}}}
    results = {"scores": [{"name": "match", "scorer": "match"}, {"name": "tone", "scorer": "style"}]}
    one = sample(scores=both)
    two = sample(id="s2", scores={"style": {"value": {"tone": 0}}})
    run = read(tmp_path, one, two, results=results)
    assert run.scores == {"match": {"s1": 1.0}, "style_tone": {"s1": 1.0, "s2": 0.0}}
    reduced = [{"scorer": "style", "reducer": "max", "samples": [{"sample_id": "s1", "value": {"tone": 1}}]}]
    twice = read(tmp_path, one, {**one, "epoch": 2}, results=results, reductions=reduced)
    assert twice.scores == {"match": {"s1": 1.0}, "style_tone": {"s1": 1.0}}


def test_scores_without_a_name(tmp_path: Path) -> None:
    """Logs of early 2024 have one score, named in the results."""
    old = sample(score={"value": "C"})
    del old["scores"]
    run = read(tmp_path, old, version=1, results={"scorer": {"name": "includes"}})
    assert run.scores == {"includes": {"s1": 1.0}}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"input_tokens": 10, "output_tokens": 4, "total_tokens": 14}, Usage(input=10, output=4)),
        (
            {"input_tokens": 10, "output_tokens": 4, "total_tokens": 19, "input_tokens_cache_read": 5},
            Usage(input=15, cached_input=5, output=4),
        ),
        (  # an old log: the cached tokens are among the others
            {"input_tokens": 10, "output_tokens": 4, "total_tokens": 14, "input_tokens_cache_read": 5},
            Usage(input=10, cached_input=5, output=4),
        ),
        (
            {"input_tokens": 1, "output_tokens": 1, "total_tokens": 9, "input_tokens_cache_write": 7},
            Usage(input=8, output=1, cache_write=7),
        ),
        (
            {"input_tokens": 1, "output_tokens": 5, "total_tokens": 6, "reasoning_tokens": 3},
            Usage(input=1, output=5, reasoning=3),
        ),
        (  # thoughts that are counted beside the answer
            {"input_tokens": 1, "output_tokens": 5, "total_tokens": 9, "reasoning_tokens": 3},
            Usage(input=1, output=8, reasoning=3),
        ),
        ({"input_tokens": -1, "output_tokens": "many"}, Usage()),
        ("none", Usage()),
    ],
)
def test_tokens(tmp_path: Path, usage: object, expected: Usage) -> None:
    one = sample()
    one["output"]["usage"] = usage
    assert read(tmp_path, one).completions["s1"].usage == expected


def test_tokens_of_several_answers_are_added_up_without_those_of_judges(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}] * 2
    own = {"input_tokens": 100, "output_tokens": 20, "total_tokens": 120}
    one = sample(messages=turns, model_usage={"p/m": own, "p/judge": {"input_tokens": 999, "output_tokens": 999}})
    run = read(tmp_path, one)
    assert run.completions["s1"].usage == Usage(input=100, output=20)
    assert [turn.role for turn in run.instances[0].turns] == ["user", "assistant", "user"]


FAILED: dict[str, tuple[dict[str, Any], str]] = {
    "error": ({"output": {"choices": []}, "error": {"message": "Oh\nno", "traceback": ""}}, "sample_error"),
    "limit": ({"output": {"choices": []}, "limit": {"type": "token", "limit": 5}}, "token_limit"),
    "nothing": ({"output": {}}, "no_answer"),
    "no output at all": ({"output": None}, "no_answer"),
    "invalid": ({"invalidation": {"author": "somebody"}}, "invalidated"),
}


@pytest.mark.parametrize("name", FAILED)
def test_failures_are_not_scores(tmp_path: Path, name: str) -> None:
    changes, code = FAILED[name]
    run = read(tmp_path, sample(**changes))
    assert run.completions["s1"].text is None
    assert run.completions["s1"].failure.code == code
    assert run.scores == {}


def test_an_answer_before_an_error_is_kept(tmp_path: Path) -> None:
    run = read(tmp_path, sample(error={"message": "the scorer fell over"}, scores=None))
    assert run.completions["s1"].text == "yes"
    assert run.scores == {}
    assert run.remarks == ("1 sample: completed before an error, so the completion is kept.",)


def test_a_text_that_ran_out_of_tokens(tmp_path: Path) -> None:
    one = sample()
    one["output"]["choices"][0]["stop_reason"] = "max_tokens"
    assert read(tmp_path, one).completions["s1"].finish_reason == "length"


def test_messages_of_all_kinds(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "Look:"}, {"type": "image", "image": "data:"}, {"type": "text", "text": "well?"}]
    thought = [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "fine"}]
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": parts},
        {"role": "tool", "content": "42"},
        {"role": "assistant", "content": thought},
    ]
    one = sample(messages=messages, input=messages[:2])
    one["output"]["choices"][0]["message"]["content"] = thought
    run = read(tmp_path, one)
    (instance,) = run.instances
    assert [(turn.role, turn.text) for turn in instance.turns] == [
        ("system", "Be brief."), ("user", "Look:\nwell?"), ("user", "42"),
    ]  # fmt: skip
    assert run.completions["s1"].text == "fine"
    assert len(run.remarks) == 2


def test_texts_stored_as_attachments(tmp_path: Path) -> None:
    one = sample(input="attachment://k", messages=[], attachments={"k": "A long text"}, target="")
    (instance,) = read(tmp_path, one).instances
    assert instance.turns == (Message("user", "A long text"),)
    assert instance.fields == {"input": "A long text"}
    assert instance.references == ()


def test_targets_that_are_texts_of_options(tmp_path: Path) -> None:
    (one,) = read(tmp_path, sample(choices=["no", "yes"], target=["yes"])).instances
    assert (one.labels, one.expected) == (("no", "yes"), "yes")
    (other,) = read(tmp_path, sample(choices=["no", "yes"], target="perhaps")).instances
    assert (other.choices, other.references) == ((), (Reference("perhaps"),))


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
        "unknown": {"of": "later versions"},
    }
    run = read(tmp_path, sample(), sample(id="s2"), spec=spec, plan={"config": {"temperature": 0}}, later=1)
    assert (run.title, run.deployment) == ("A task", "https://example.org:8443/v1")
    assert "secret" not in repr(run)
    assert [one.id for one in run.instances] == ["s2", "s1"], "in the order of the data"
    assert run.n_expected == 3
    assert (run.max_tokens, run.temperature, run.stop) == (5, 0.0, ("END",))
    assert run.started == "2026-01-01T00:00:00.000+00:00"
    assert run.remarks == ("the role grader was p/judge.", "the role panel was a/b, c/d.")


def test_lone_surrogates_do_not_reach_the_store(tmp_path: Path) -> None:
    run = read(tmp_path, sample(input="\ud800", messages=[]))
    assert run.instances[0].turns[0].text.encode()


WRONG: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "no JSON": (b'{"version": 2,', "is not valid JSON: "),
    "not UTF-8": (b'{"\xff": 1}', "byte 2 is not UTF-8"),
    "deep": (b"[" * 200_000, "nested too deeply"),
    "a list": (b"[1, 2]", "not an Inspect log"),
    "another JSON": (b'{"results": {}}', "not an Inspect log"),
    "later version": (
        b'{"version": 3, "status": "success", "eval": {}}',
        "format 3; the supported formats are 1 and",
    ),
    "strange version": (b'{"version": [2], "status": "success", "eval": {}}', "format [2]"),
    "no task": (b'{"version": 2, "status": "success", "eval": {"model": "m"}}', "names no task or no model"),
    "no samples": (
        b'{"version": 2, "status": "cancelled", "eval": {"task": "t", "model": "m"}}',
        "has no samples (status cancelled)",
    ),
    "strange samples": (
        b'{"version": 2, "status": "error", "eval": {"task": "t", "model": "m"}, "samples": [1, null, "x", []]}',
        "has no samples (status error)",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_files_that_are_not_logs(tmp_path: Path, name: str) -> None:
    content, words = WRONG[name]
    path = tmp_path / "log.json"
    path.write_bytes(content)
    with pytest.raises(DataError) as wrong:
        read_inspect_log(path)
    assert words in str(wrong.value)


def test_a_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_bytes(b"\xef\xbb\xbf" + (FIXTURES / "short_0.3.50.json").read_bytes())
    assert len(read_inspect_log(path).instances) == 5


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_inspect_log(tmp_path / "x.eval")


# --- instances in a log -----------------------------------------------------------------------------------------------


def test_an_instance_goes_to_a_log_and_back() -> None:
    whole = Instance(
        id="7/a",
        fields={"note": "Fever.", "question": "Why?"},
        references=(Reference("flu"), Reference("cold", correct=False)),
        choices=("flu", "cold"),
        labels=("A", "B"),
        cluster="p1",
        group="g",
        metadata={"limit": "3"},
        criteria=(Criterion("kind", "Is it kind?", higher_is_better=False, points=-2.0, tags=("a", "b")),),
    )
    assert instance_from_json("7/a", json.loads(json.dumps(instance_to_json(whole)))) == whole
    bare = Instance(id="1", fields={}, references=())
    assert instance_to_json(bare) == {}
    assert instance_from_json("1", {}) == bare
    strange = {
        "fields": [1],
        "references": ["x", {"text": 3}],
        "choices": "ab",
        "criteria": [None],
        "metadata": {"a": 1},
    }
    assert instance_from_json("1", strange).choices == ()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_named_pipe_is_an_error(tmp_path: Path) -> None:
    """Opening it would wait for ever."""
    os.mkfifo(tmp_path / "x.eval")
    with pytest.raises(DataError, match="named pipe"):
        read_inspect_log(tmp_path / "x.eval")
