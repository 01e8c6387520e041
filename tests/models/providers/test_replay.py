"""Completions from a file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Completion, Instance, Model, Prompt, Request, Usage
from medhelm.errors import ConfigError, UserError
from medhelm.models.providers.replay import Replay, read_replay

MODEL = Model(name="replay/r.jsonl", provider="replay", remote_name="r.jsonl")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the test puts its lines."""
    return tmp_path / "r.jsonl"


def write(file: Path, *rows: Any) -> Path:
    """Rows as JSON lines; texts and bytes as they are."""
    lines = [
        row if isinstance(row, bytes) else (row if isinstance(row, str) else json.dumps(row)).encode() for row in rows
    ]
    file.write_bytes(b"\n".join(lines) + b"\n")
    return file


def row(completion: Any = "A", name: Any = "1", benchmark: Any = "b", **more: Any) -> dict[str, Any]:
    """One line."""
    return {"benchmark": benchmark, "instance_id": name, "completion": completion, **more}


def ask(replay: Replay, name: str = "1", benchmark: str = "b") -> Completion:
    """What the replay says to one instance."""
    instance = Instance(id=name, fields={}, references=())
    request = Request(model=MODEL, prompt=Prompt(()), max_tokens=1, benchmark=benchmark, instance=instance)
    return asyncio.run(replay.complete(request))


def test_lines_answer_their_instances(file: Path) -> None:
    replay = read_replay(write(file, row("A", "1"), row("", "2"), "", row("C", 3), row("D", "1", "c")))
    assert [ask(replay, name).text for name in "123"] == ["A", "", "C"]
    assert ask(replay, "1", "c").text == "D"
    assert replay.local
    assert replay.endpoint == ""


def test_a_missing_line_is_a_failure_and_no_empty_answer(file: Path) -> None:
    replay = read_replay(write(file, row()))
    failure = ask(replay, "2").failure
    assert failure is not None
    assert (failure.boundary, failure.code) == ("provider", "no_replay")
    assert "benchmark `b`, instance `2`" in failure.message
    alone = asyncio.run(replay.complete(Request(model=MODEL, prompt=Prompt(()), max_tokens=1))).failure
    assert alone is not None
    assert alone.code == "no_instance"


@pytest.mark.parametrize(
    ("failure", "code", "message"),
    [
        (None, "replayed_failure", "the file records a failure"),
        ("timed out", "replayed_failure", "timed out"),
        ({"code": "timeout", "message": "after 60 s"}, "timeout", "after 60 s"),
        ({"code": "too late"}, "too_late", "the file records a failure"),
        (7, "replayed_failure", "the file records a failure"),
    ],
)
def test_null_is_a_failure(file: Path, failure: Any, code: str, message: str) -> None:
    completion = ask(read_replay(write(file, row(None, failure=failure))))
    assert completion.text is None
    assert completion.failure is not None
    assert (completion.failure.boundary, completion.failure.code) == ("provider", code)
    assert completion.failure.message == message


def test_what_else_is_known_comes_along(file: Path) -> None:
    tokens = {"input": 10, "cached_input": 4, "output": 3, "reasoning": 2}
    completion = ask(read_replay(write(file, row(finish_reason="length", usage=tokens, more="ignored"))))
    assert completion == Completion(text="A", finish_reason="length", usage=Usage(**tokens))
    assert ask(read_replay(write(file, row(finish_reason=None, usage=None)))) == Completion(text="A")


def test_byte_order_mark_line_ends_and_characters(file: Path) -> None:
    line = json.dumps(row("a\u2028b \N{GRINNING FACE}"), ensure_ascii=False).encode()
    file.write_bytes(
        b"\xef\xbb\xbf" + line + b"\r\n\r\n" + b'{"benchmark":"b","instance_id":"2","completion":"\\ud83d"}'
    )
    replay = read_replay(file)
    assert ask(replay).text == "a\u2028b \N{GRINNING FACE}"
    assert ask(replay, "2").text == "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("not json", "not a JSON object in UTF-8"),
        ("[1]", "not a JSON object in UTF-8"),
        (b"\xff", "not a JSON object in UTF-8"),
        (b"[" * 100_000, "not a JSON object in UTF-8"),
        ({"benchmark": "b"}, "without `instance_id` and `completion`"),
        ({"instance_id": "1", "completion": "A"}, "without `benchmark`"),
        (row("A", "1", 7), "`benchmark` must be a text"),
        *((row("A", name), "`instance_id` must be a text or an integer") for name in (1.5, True)),
        (row(7), "`completion` must be a text, or null for a failure"),
        (row("A", failure="x"), "`completion` and `failure` exclude each other"),
        (row("A", finish_reason=7), "`finish_reason` must be a text"),
        *((row("A", usage=usage), "`usage` must be an object of integers")
          for usage in (7, {"input": -1}, {"input": True}, {"tokens": 1})),
    ],
)  # fmt: skip
def test_a_wrong_line_is_named(file: Path, line: Any, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_replay(write(file, row(), line))
    (found,) = raised.value.problems
    assert found.line == 2
    assert problem in found.text


def test_the_same_line_twice_is_no_problem_but_two_answers_to_one_instance_are(file: Path) -> None:
    assert ask(read_replay(write(file, row(), row()))).text == "A"
    write(file, row("A", "1", "b"), row("B", "1", "old"))
    assert ask(read_replay(file)).text == "A"
    assert ask(read_replay(write(file, row("B", "2", "old")), aliases={"old": "b"}), "2").text == "B"
    with pytest.raises(ConfigError) as raised:
        read_replay(write(file, "junk", row(), "junk", row("B", "1", "old")), aliases={"old": "b"})
    message = str(raised.value)
    assert "not a JSON object in UTF-8 (lines 1, 3)" in message
    assert "line 4  benchmark `b`, instance `1` has a different completion in line 2; keep only one" in message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none.jsonl cannot be read: No such file"):
        read_replay(tmp_path / "none.jsonl")
    with pytest.raises(UserError, match="cannot be read"):
        read_replay(tmp_path)
