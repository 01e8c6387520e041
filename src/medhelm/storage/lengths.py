"""Reads lengths of prompts and completions in stored runs: characters sent, and tokens counted by the provider."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from medhelm.domain import Run
from medhelm.io.parquet import connect, sql_text


class SentRequest(NamedTuple):
    """One request of a run, and its size in tokens."""

    instance_id: str
    """Id of the instance."""
    part: int
    """Position of the judge's prompt for this instance; 0 for a model under test."""
    tokens: int
    """Input tokens, above 0."""
    left_out: int = 0
    """Characters dropped from the prompt before it was sent."""


class JudgeReplyLength(NamedTuple):
    """Lengths of a judge's completions in a run."""

    n: int
    """Number of first completions with a token count."""
    output: int
    """Output tokens of the first completions."""
    again: int
    """Number of retries after an unreadable completion."""


def read_sent(run: Run, limit: int) -> list[SentRequest]:
    """Read the first `limit` requests of a run to its model that have a token count."""
    left_out = "left_out" if run.n_truncated else "0"  # older files do not have the column
    rows = _rows(
        _folder(run) / "records.parquet",
        f"SELECT instance_id, 0, input_tokens, {left_out} FROM {{}} WHERE input_tokens > 0 ORDER BY position LIMIT ?",  # noqa: S608
        limit,
    )
    return [SentRequest(*row) for row in rows]


def read_sent_to_judge(run: Run, judge: str, limit: int) -> list[SentRequest]:
    """Read the first `limit` requests of a run to one of its judges that have a token count, without retries."""
    return [
        SentRequest(*row)
        for row in _rows(
            _folder(run) / "replies.parquet",
            "SELECT instance_id, part, input_tokens FROM {} WHERE judge = ? AND attempt = 0 AND input_tokens > 0 "
            "ORDER BY position, part LIMIT ?",
            judge,
            limit,
        )
    ]


def read_replied(run: Run, judge: str) -> JudgeReplyLength:
    """Read the lengths of a judge's completions in a run; all 0 if it did not judge."""
    rows = _rows(
        _folder(run) / "replies.parquet",
        "SELECT count(*) FILTER (attempt = 0 AND input_tokens > 0), "
        "coalesce(sum(output_tokens) FILTER (attempt = 0 AND input_tokens > 0), 0)::BIGINT, "
        "count(*) FILTER (attempt > 0) FROM {} WHERE judge = ?",
        judge,
    )
    return JudgeReplyLength(*rows[0]) if rows else JudgeReplyLength(0, 0, 0)


def prompt_characters(path: Path, limit: int) -> dict[str, int]:
    """Count the characters of each prompt, by instance id, for the first instances of a prompts file.

    Returns: an empty mapping if the file is missing.
    """
    rows = _rows(path, "SELECT instance_id, messages FROM {} ORDER BY position LIMIT ?", limit)
    return {instance_id: sum(len(one["content"]) for one in json.loads(messages)) for instance_id, messages in rows}


def _folder(run: Run) -> Path:
    return run.folder or Path()


def _rows(path: Path, query: str, *values: str | int) -> list[tuple[Any, ...]]:
    """Query a Parquet file; return no rows if it is missing or damaged."""
    if not path.is_file():
        return []
    import duckdb

    with connect() as connection:
        try:
            return connection.execute(query.format(f"read_parquet({sql_text(path)})"), list(values)).fetchall()
        except duckdb.Error:
            return []
