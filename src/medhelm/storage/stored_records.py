"""Read the records of a run as they were recorded, to merge shards or to count a run again."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from medhelm.domain import (
    JURY,
    RULES,
    Completion,
    Failure,
    InjectionSign,
    JudgeReply,
    Judgment,
    JuryVerdict,
    Record,
    Run,
    Score,
)
from medhelm.storage.judgments import JUDGMENT_COLUMNS, SUBSCORES, completion_of, iter_replies, read_rows
from medhelm.storage.runs import parts_column, read_records, score_column


def stored_records(run: Run, metrics: Collection[str]) -> Iterator[Record]:
    """Yield the records of a run as they were recorded.

    Only shards store the scores on parts of a rubric. Columns that files of older versions lack are read as empty.
    """
    judged = read_judged(run) if run.jury_result else None
    for row in read_records(run):
        completion = completion_of(row, row["completion"])
        scores = tuple(_scores(row, metrics, completion))
        said = None if judged is None else judged.get(row["instance_id"], JudgedCompletion([], [], {}))
        yield Record(
            position=row["position"],
            instance_id=row["instance_id"],
            cluster=row["cluster"] or "",
            group=row.get("group") or "",
            request_digest=bytes.fromhex(row["request_digest"] or ""),
            completion=completion,
            truncated_characters=row.get("left_out") or 0,
            is_unreadable=row.get("unreadable"),
            scores=scores,
            judge_replies=tuple(said.replies) if said else (),
            jury_verdict=said and _verdict(row, scores, said),
            injection_signs=_signs(row),
        )


def _signs(row: Mapping[str, Any]) -> tuple[InjectionSign, ...]:
    return tuple(cast("InjectionSign", sign) for sign in (row.get("suspicions") or "").split(", ") if sign)


def _verdict(row: Mapping[str, Any], scores: Iterable[Score], said: JudgedCompletion) -> JuryVerdict:
    return JuryVerdict(
        scores=tuple(score for score in scores if score.metric == JURY),
        judgments=tuple(said.judgments),
        coverage=row.get("jury_coverage"),
        subscores=said.subscores,
    )


def _scores(row: Mapping[str, Any], metrics: Collection[str], completion: Completion) -> Iterator[Score]:
    """Yield the scores of a record in the order in which they were computed: that of the jury comes last."""
    # Of several missing scores the row has the reason of the last one.
    _, _, reason = (row.get("score_failure") or "").partition(": ")
    for metric in sorted(metrics, key=lambda name: name == JURY):
        for rule in RULES:
            value = row.get(score_column(metric, rule))
            parts = json.loads(row.get(parts_column(metric, rule)) or "{}")
            yield Score(
                metric=metric,
                rule=rule,
                value=value,
                failure=(completion.failure or Failure("metric", "not_scored", reason)) if value is None else None,
                parts={label: (numerator, denominator) for label, (numerator, denominator) in parts.items()},
            )


class JudgedCompletion(NamedTuple):
    """All judgments, replies and subscores of one completion."""

    judgments: list[Judgment]
    replies: list[JudgeReply]
    subscores: dict[str, float]


def read_judged(run: Run) -> dict[str, JudgedCompletion]:
    """Read the judgments, replies and subscores of a run by instance, each in the order written."""
    found: dict[str, JudgedCompletion] = {}

    def of(instance_id: str) -> JudgedCompletion:
        return found.setdefault(instance_id, JudgedCompletion([], [], {}))

    for instance_id, judge, criterion, score, points, code, message, explanation in read_rows(
        run, "judgments.parquet", ", ".join(list(JUDGMENT_COLUMNS)[1:])
    ):
        of(instance_id).judgments.append(
            Judgment(
                judge=judge,
                criterion=criterion,
                score=score,
                points=points,
                failure=None if code is None else Failure("judge", code, message or ""),
                explanation=explanation,
            )
        )
    for instance_id, reply in iter_replies(run):
        of(instance_id).replies.append(reply)
    for instance_id, subscores in read_rows(run, SUBSCORES, "instance_id, subscores"):
        of(instance_id).subscores.update(json.loads(subscores))
    return found
