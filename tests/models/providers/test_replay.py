"""Completions from a file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from medhelm.domain import Completion, Failure, Instance, Model, Prompt, Request, Usage
from medhelm.errors import ConfigError, UserError
from medhelm.models.providers.replay import Replay, read_replay

MODEL = Model(name="replay/r.jsonl", provider="replay", remote_name="r.jsonl")


def replay(folder: Path, *rows: Any, aliases: dict[str, str] | None = None) -> Replay:
    """A file of rows as JSON lines, or of bytes as they are."""
    lines = [row if isinstance(row, bytes) else json.dumps(row, ensure_ascii=False).encode() for row in rows]
    (folder / "r.jsonl").write_bytes(b"\xef\xbb\xbf" + b"\r\n".join([*lines, b"", b""]))
    return read_replay(folder / "r.jsonl", aliases=aliases or {})


def row(completion: Any = "A", name: Any = "1", benchmark: Any = "b", **more: Any) -> dict[str, Any]:
    return {"benchmark": benchmark, "instance_id": name, "completion": completion, **more}


def ask(replay: Replay, name: str = "1", benchmark: str = "b") -> Completion:
    """What the replay says to one instance."""
    instance = Instance(id=name, fields={}, references=())
    request = Request(model=MODEL, prompt=Prompt(()), max_tokens=1, benchmark=benchmark, instance=instance)
    return asyncio.run(replay.complete(request))


def test_lines_answer_their_instances_and_a_missing_one_is_a_failure(tmp_path: Path) -> None:
    half = b'{"benchmark": "b", "instance_id": "4", "completion": "\\ud83d"}'
    found = replay(
        tmp_path, row("a\u2028b \N{GRINNING FACE}"), row("", "2"), b"", row("C", 3), row("D", "1", "c"), half
    )
    expected = ["a\u2028b \N{GRINNING FACE}", "", "C", "\N{REPLACEMENT CHARACTER}"]
    assert [ask(found, name).text for name in "1234"] == expected
    assert (ask(found, "1", "c").text, found.local, found.endpoint) == ("D", True, "")
    failure = ask(found, "5").failure
    assert failure is not None
    assert (failure.code, "benchmark `b`, instance `5`" in failure.message) == ("no_replay", True)


def test_null_is_a_failure(tmp_path: Path) -> None:
    timeout = {"code": "timeout", "message": "after 60 s"}
    replayed = replay(tmp_path, *(row(None, n, failure=failure) for n, failure in enumerate(("timed out", timeout, 7))))
    assert [ask(replayed, name).failure for name in "012"] == [
        Failure("provider", "replayed_failure", "timed out"),
        Failure("provider", "timeout", "after 60 s"),
        Failure("provider", "replayed_failure", "the file records a failure"),
    ]


def test_what_else_is_known_comes_along(tmp_path: Path) -> None:
    tokens = {"input": 10, "cached_input": 4, "output": 3, "reasoning": 2}
    known = row(finish_reason="length", usage=tokens, more="ignored")
    assert ask(replay(tmp_path, known)) == Completion(text="A", finish_reason="length", usage=Usage(**tokens))
    assert ask(replay(tmp_path, row(finish_reason=None, usage=None))) == Completion(text="A")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"\xff", "not a JSON object in UTF-8"),
        (b"[" * 100_000, "not a JSON object in UTF-8"),
        ({"benchmark": "b"}, "without `instance_id` and `completion`"),
        (row("A", "1", 7), "`benchmark` must be a text"),
        (row("A", True), "`instance_id` must be a text or an integer"),
        (row(7), "`completion` must be a text, or null for a failure"),
        (row("A", failure="x"), "`completion` and `failure` exclude each other"),
        (row("A", usage={"input": -1}), "`usage` must be an object of integers"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: Any, problem: str) -> None:
    with pytest.raises(ConfigError) as raised:
        replay(tmp_path, row(), line)
    (found,) = raised.value.problems
    assert (found.line, problem in found.text) == (2, True)


def test_the_same_line_twice_is_no_problem_but_two_answers_to_one_instance_are(tmp_path: Path) -> None:
    assert ask(replay(tmp_path, row(), row(), row("B", "1", "old"))).text == "A"
    assert ask(replay(tmp_path, row("B", "2", "old"), aliases={"old": "b"}), "2").text == "B"
    with pytest.raises(ConfigError) as raised:
        replay(tmp_path, b"junk", row(), b"junk", row("B", "1", "old"), aliases={"old": "b"})
    message = str(raised.value)
    assert "not a JSON object in UTF-8 (lines 1, 3)" in message
    assert "line 4  benchmark `b`, instance `1` has a different completion in line 2; keep only one" in message
    with pytest.raises(UserError, match=r"none.jsonl cannot be read: No such file"):
        read_replay(tmp_path / "none.jsonl")
