"""Stores with runs whose tokens and request digests are made up, without a server."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from medhelm.domain import (
    JURY,
    Completion,
    Failure,
    Instance,
    JudgeReply,
    JudgeTally,
    Jury,
    JuryResult,
    Message,
    Model,
    Price,
    Prompt,
    Record,
    Run,
    Taxonomy,
    Usage,
)
from medhelm.storage.runs import RunWriter, write_prompts
from medhelm.storage.store import create

ADDRESS = "https://api.openai.com/v1"


@dataclass(frozen=True)
class Call:
    """One request and what it took."""

    name: str
    """Equal requests have equal names; "" for an answer that was made within this process."""
    usage: Usage = field(default_factory=Usage)
    text: str | None = "words"
    """None for a failure."""
    attempt: int = 0
    part: int = 0


def digest(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest() if name else b""


def model(name: str, *, price: Price | None = None, reasoning: bool = False, local: bool = False) -> Model:
    provider, _, remote = name.partition("/")
    return Model(
        name=name,
        provider=provider,
        remote_name=remote,
        base_url="" if local else ADDRESS,
        price=price,
        reasoning=reasoning,
    )


def put(
    folder: Path,
    benchmark: str,
    asked: Model,
    calls: Sequence[Call],
    *,
    judged: Sequence[tuple[Model, Sequence[Sequence[Call]]]] = (),
    started: str = "2026-01-01T00:00:00+00:00",
    prompts: Sequence[str] = (),
    benchmark_digest: str = "d" * 64,
    ids: Sequence[str] = (),
) -> Run:
    """Store one run.

    Parameters: calls, one for each instance `i0`, `i1`, ..., or of `ids`; judged, each judge with its calls about
    each instance; prompts, the text of each instance's prompt, none stored where there are none.
    """
    store = create(folder)
    judges = [judge for judge, _ in judged]
    metrics = [JURY] if judges else []
    run_id = hashlib.sha256(
        f"{benchmark} {asked.name} {started} {[judge.name for judge in judges]}".encode()
    ).hexdigest()
    writer = RunWriter(store, benchmark=benchmark, model=asked.name, run_id=run_id, metrics=metrics)
    for position, call in enumerate(calls):
        replies = [
            JudgeReply(
                judge=judge.name,
                prompt_index=said.part,
                attempt=said.attempt,
                completion=completion(said),
                request_digest=digest(said.name),
            )
            for judge, own in judged
            for said in own[position]
        ]
        writer.add(
            Record(
                position=position,
                instance_id=ids[position] if ids else f"i{position}",
                cluster="",
                request_digest=digest(call.name),
                completion=completion(call),
                scores=(),
                judge_replies=tuple(replies),
            )
        )
    if prompts:
        file = store.prompts_file(benchmark, benchmark_digest, "e" * 64)
        instances = [Instance(id=f"i{n}", fields={}, references=()) for n in range(len(prompts))]
        rows = [(i, Prompt((Message("user", text),))) for i, text in zip(instances, prompts, strict=True)]
        write_prompts(file, rows)
    failed = sum(call.text is None for call in calls)
    sitting = None
    if judges:
        tallies = {judge.name: JudgeTally() for judge in judges}
        sitting = JuryResult(jury=Jury(judges=tuple(judges), min_judges=1), low=1, high=5, tallies=tallies)
    run = Run(
        id=run_id,
        benchmark=benchmark,
        title=benchmark,
        taxonomy=Taxonomy(category="c", subcategory="s"),
        benchmark_digest=benchmark_digest,
        data_digest="e" * 64,
        model=asked.name,
        tier="real",
        status="complete",
        settings={"max_tokens": 100},
        started=started,
        seconds=1.0,
        n=len(calls),
        n_failed=failed,
        failures={},
        requests_sent=len(calls),
        requests_cached=0,
        usage=sum((call.usage for call in calls), Usage()),
        cost_usd=None,
        main_metric=JURY if judges else "exact_match",
        estimates={"corrected": {}, "published": {}},
        jury_result=sitting,
        resolved_model=asked,
    )
    writer.finish(run)
    return run


def completion(call: Call) -> Completion:
    if call.text is None:
        return Completion(failure=Failure("provider", "timeout", "late"), usage=call.usage)
    return Completion(text=call.text, usage=call.usage)
