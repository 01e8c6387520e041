"""Stores the judgments of a run in `judgments.parquet`, and the judges' completions in `replies.parquet`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from medhelm.domain import Completion, Failure, JudgeReply, Judgment, Record, Run, Usage
from medhelm.io.parquet import ParquetWriter, connect, sql_path, sql_text
from medhelm.storage.store import stored_folder

if TYPE_CHECKING:
    import numpy as np

JUDGMENT_COLUMNS: Mapping[str, str] = {
    "position": "INTEGER",
    "instance_id": "VARCHAR",
    "judge": "VARCHAR",
    "criterion": "VARCHAR",
    "score": "DOUBLE",
    "points": "DOUBLE",
    "failure_code": "VARCHAR",
    "failure_message": "VARCHAR",
    "explanation": "VARCHAR",
}
"""Columns of `judgments.parquet`: one row per judge and criterion. `score` is NULL for failures; `points` is the weight
of meeting the criterion."""

COMPLETION_COLUMNS: Mapping[str, str] = {
    "finish_reason": "VARCHAR",
    "failure_boundary": "VARCHAR",
    "failure_code": "VARCHAR",
    "failure_message": "VARCHAR",
    "input_tokens": "BIGINT",
    "cached_input_tokens": "BIGINT",
    "output_tokens": "BIGINT",
    "reasoning_tokens": "BIGINT",
    "latency_s": "DOUBLE",
    "reported_model": "VARCHAR",
    "batched": "BOOLEAN",
    "fingerprint": "VARCHAR",
    "refused_parts": "VARCHAR",
    "cache_write_tokens": "BIGINT",
    "received": "DOUBLE",
}
"""Columns of a completion, except its text, whose column name differs between tables."""

LATER_COLUMNS = ("batched", "fingerprint", "refused_parts", "cache_write_tokens", "received")
"""Columns of a completion that older files do not have."""

LATER_REPLY_COLUMNS = (*LATER_COLUMNS, "verification_code")
"""Columns of `replies.parquet` that older files do not have."""

REPLY_COLUMNS: Mapping[str, str] = {
    "position": "INTEGER",
    "instance_id": "VARCHAR",
    "judge": "VARCHAR",
    "part": "INTEGER",
    "attempt": "INTEGER",
    "request_digest": "VARCHAR",
    "text": "VARCHAR",
    **COMPLETION_COLUMNS,
    "verification_code": "VARCHAR",
}
"""Columns of `replies.parquet`: one row for each request to a judge, including failed ones."""

SUBSCORES = "subscores.parquet"
"""File in the folder of a shard."""

SUBSCORE_COLUMNS: Mapping[str, str] = {"position": "INTEGER", "instance_id": "VARCHAR", "subscores": "VARCHAR"}
"""Columns of this file: one row for each judged completion, with its scores on parts of the rubric in JSON."""

_FILES = {"judgments.parquet": JUDGMENT_COLUMNS, "replies.parquet": REPLY_COLUMNS}


class JudgmentWriter:
    """Writes both files; of a shard, a third one."""

    def __init__(self, folder: Path, *, is_shard: bool = False) -> None:
        """`folder`: the folder of the run. `is_shard`: also write the subscores, which merging needs."""
        self._judgments, self._replies = (ParquetWriter(folder / name, columns) for name, columns in _FILES.items())
        self._subscores = ParquetWriter(folder / SUBSCORES, SUBSCORE_COLUMNS) if is_shard else None
        self._writers = [one for one in (self._judgments, self._replies, self._subscores) if one]

    def add(self, record: Record) -> None:
        """Append the judgments of one completion."""
        shared = {"position": record.position, "instance_id": record.instance_id}
        for judgment in record.jury_verdict.judgments if record.jury_verdict else ():
            self._judgments.add(shared | judgment_row(judgment))
        for reply in record.judge_replies:
            self._replies.add(shared | reply_row(reply))
        if self._subscores and record.jury_verdict and record.jury_verdict.subscores:
            self._subscores.add({**shared, "subscores": json.dumps(record.jury_verdict.subscores)})

    def finish(self) -> None:
        """Write the files."""
        for writer in self._writers:
            writer.finish()

    def discard(self) -> None:
        """Delete everything written so far."""
        for writer in self._writers:
            writer.discard()


def judgment_row(judgment: Judgment) -> dict[str, Any]:
    """Return a judgment as columns of `judgments.parquet`, without those of its instance."""
    failure = judgment.failure
    return {
        "judge": judgment.judge,
        "criterion": judgment.criterion,
        "score": judgment.score,
        "points": judgment.points,
        "failure_code": failure and failure.code,
        "failure_message": failure and failure.message,
        "explanation": judgment.explanation,
    }


def reply_row(reply: JudgeReply) -> dict[str, Any]:
    """Return a judge's completion as columns of `replies.parquet`, without those of the instance."""
    return {
        "judge": reply.judge,
        "part": reply.prompt_index,
        "attempt": reply.attempt,
        "request_digest": reply.request_digest.hex(),
        "text": reply.completion.text,
        **completion_row(reply.completion),
        "verification_code": reply.verification_code,
    }


class Judgments(NamedTuple):
    """Judgments of a run, in the order of its instances; columns of equal length."""

    instance_ids: list[str]
    """Id of the instance whose completion is judged."""
    judges: list[str]
    """Name of the judge."""
    criteria: list[str]
    """Name of the criterion."""
    scores: np.ndarray
    """The grade, or 1.0 for met and 0.0 for not met; nan if missing."""
    points: np.ndarray
    """Points for meeting the criterion, negative for a harm; 0 for grades."""
    failures: list[str]
    """Failure code; "" if there is a score."""


def read_judgments(run: Run) -> Judgments:
    """Read all judgments of a run; empty without a jury."""
    import numpy as np

    rows = read_rows(run, "judgments.parquet", "instance_id, judge, criterion, score, points, failure_code")
    ids, judges, criteria, scores, points, failures = zip(*rows, strict=True) if rows else ((),) * 6
    return Judgments(
        instance_ids=list(ids),
        judges=list(judges),
        criteria=list(criteria),
        scores=np.array([np.nan if score is None else score for score in scores], dtype=float),
        points=np.array(points, dtype=float),
        failures=[code or "" for code in failures],
    )


def mean_grades(run: Run) -> tuple[list[str], dict[str, np.ndarray]]:
    """Return ids of instances, and for each judge the mean grade of their completions over all criteria.

    Higher is better; nan if the judgment of a criterion failed. Empty without a jury, and if the file is missing: the
    scores that a leaderboard shows are in the records.
    """
    import numpy as np

    if run.jury_result is None or not (stored_folder(run) / "judgments.parquet").exists():
        return [], {}
    result = run.jury_result
    turned = ", ".join(map(sql_text, result.lower_is_better)) or "''"
    grade = f"CASE WHEN criterion IN ({turned}) THEN {result.low + result.high} - score ELSE score END"
    means = ", ".join(
        f"CASE WHEN count({judge}) = count(score) FILTER ({judge}) THEN avg({grade}) FILTER ({judge}) END"
        for judge in (f"judge = {sql_text(name)} OR NULL" for name in result.tallies)
    )
    order = "min(file_row_number)"
    rows = read_rows(run, "judgments.parquet", f"instance_id, {means}", "GROUP BY instance_id", order=order)
    ids, *grades = zip(*rows, strict=True) if rows else [()] * (1 + len(result.tallies))
    return list(ids), {name: np.array(one, dtype=float) for name, one in zip(result.tallies, grades, strict=True)}


def criterion_means(run: Run, criteria: Sequence[str]) -> dict[str, tuple[float, ...]] | None:
    """Return id of each judged instance -> mean grade on each of these criteria, of the judges that gave one.

    Grades are those of the judges, also where lower is better; nan without a grade. None if the file is missing.
    """
    if not (stored_folder(run) / "judgments.parquet").exists():
        return None
    means = ", ".join(f"avg(score) FILTER (criterion = {sql_text(name)})" for name in criteria)
    rows = read_rows(run, "judgments.parquet", f"instance_id, {means}", "GROUP BY instance_id", order="instance_id")
    return {name: tuple(float("nan") if one is None else one for one in grades) for name, *grades in rows}


def read_columns(run: Run) -> dict[str, list[Any]]:
    """Read all columns of the judgments of a run, in the order written; empty columns without a jury."""
    names = list(JUDGMENT_COLUMNS)[1:]
    rows = read_rows(run, "judgments.parquet", ", ".join(names))
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def read_explanations(run: Run, instance_id: str) -> list[dict[str, Any]]:
    """Read the judgments of one completion, each with its explanation or the reason why it is missing."""
    names = list(JUDGMENT_COLUMNS)[2:]
    rows = read_rows(run, "judgments.parquet", ", ".join(names), "WHERE instance_id = ?", instance_id)
    return [dict(zip(names, row, strict=True)) for row in rows]


def read_replies(run: Run) -> dict[tuple[str, str], list[JudgeReply]]:
    """Read the judges' completions, by instance id and judge."""
    found: dict[tuple[str, str], list[JudgeReply]] = {}
    for instance_id, reply in iter_replies(run):
        found.setdefault((instance_id, reply.judge), []).append(reply)
    return found


def iter_replies(run: Run) -> Iterator[tuple[str, JudgeReply]]:
    """Yield the judges' completions, each with its instance id, in the order written."""
    names = list(REPLY_COLUMNS)[1:]
    for instance_id, *values in read_rows(run, "replies.parquet", ", ".join(names)):
        row = dict(zip(names[1:], values, strict=True))
        yield (
            instance_id,
            JudgeReply(
                judge=row["judge"],
                prompt_index=row["part"],
                attempt=row["attempt"],
                completion=completion_of(row, row["text"]),
                request_digest=bytes.fromhex(row["request_digest"] or ""),
                verification_code=row["verification_code"] or "",
            ),
        )


def read_rows(
    run: Run, file: str, columns: str, condition: str = "", *values: str, order: str = "file_row_number"
) -> list[tuple[Any, ...]]:
    """Read columns of one of the files, in the order written; empty without a jury. Raises: DamagedRunError."""
    from medhelm.storage.damage import run_errors  # lazy: an evaluation reads no judgments

    path = stored_folder(run) / file
    if not path.exists() and (run.jury_result is None or file == SUBSCORES):
        return []
    with run_errors(path), connect() as connection:
        table = f"read_parquet({sql_path(path)}, file_row_number = true)"
        # Columns that an older file does not have are read as NULL.
        later = ", ".join(f"NULL AS {name}" for name in LATER_REPLY_COLUMNS)
        table = f"(SELECT * FROM {table} UNION ALL BY NAME SELECT {later} WHERE false)"  # noqa: S608 - our own names
        query = f"SELECT {columns} FROM {table} {condition} ORDER BY {order}"  # noqa: S608 - our own names
        return connection.execute(query, list(values)).fetchall()


def completion_row(completion: Completion) -> dict[str, Any]:
    """Return the values of COMPLETION_COLUMNS."""
    failure, usage = completion.failure, completion.usage
    return {
        "finish_reason": completion.finish_reason,
        "failure_boundary": failure and failure.boundary,
        "failure_code": failure and failure.code,
        "failure_message": failure and failure.message,
        "input_tokens": usage.input,
        "cached_input_tokens": usage.cached_input,
        "output_tokens": usage.output,
        "reasoning_tokens": usage.reasoning,
        "latency_s": completion.latency_s,
        "reported_model": completion.reported_model,
        "batched": completion.batched,
        "fingerprint": completion.fingerprint,
        "refused_parts": ",".join(completion.refused_parameters),
        "cache_write_tokens": usage.cache_write,
        "received": completion.received,
    }


def completion_of(row: Mapping[str, Any], text: str | None) -> Completion:
    """Convert a row with COMPLETION_COLUMNS to a completion with this text."""
    failure = None
    if row["failure_code"] is not None:
        failure = Failure(row["failure_boundary"], row["failure_code"], row["failure_message"] or "")
    return Completion(
        text=text,
        failure=failure,
        finish_reason=row["finish_reason"] or "",
        usage=Usage(
            input=row["input_tokens"],
            cached_input=row["cached_input_tokens"],
            output=row["output_tokens"],
            reasoning=row["reasoning_tokens"],
            cache_write=row.get("cache_write_tokens") or 0,
        ),
        latency_s=row["latency_s"],
        reported_model=row["reported_model"] or "",
        batched=bool(row.get("batched")),
        fingerprint=row.get("fingerprint") or "",
        refused_parameters=tuple(filter(None, (row.get("refused_parts") or "").split(","))),
        received=row.get("received"),
        reasoning=row.get("reasoning") or "",
        token_logprobs=row.get("token_logprobs") or "",
    )
