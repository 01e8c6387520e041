"""Stores with invented runs and juries whose severity, family and taste for length are known."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from medhelm.domain import (
    JURY,
    RULES,
    Completion,
    Estimate,
    Failure,
    JudgeTally,
    Judgment,
    Jury,
    JuryResult,
    JuryVerdict,
    Model,
    Record,
    Run,
    Score,
    Taxonomy,
    Usage,
)
from medhelm.storage.runs import RunWriter
from medhelm.storage.store import create

CRITERIA = ("accuracy", "completeness", "clarity")
JUDGES = ("openai/gpt-4o", "anthropic/claude-3-7-sonnet", "together/llama-3.3-70b")
MODELS = ("openai/gpt-4o", "google/gemini-2.0-flash", "local/qwen2.5-7b", "meta/llama-3.1-8b")
AT_LEAST = 2


def model(name: str) -> Model:
    """A model that is reached by its name."""
    return Model(name=name, provider="openai", remote_name=name.partition("@")[0].partition("/")[2])


def grades(seed: int, n: int, models: Sequence[str] = MODELS, judges: Sequence[str] = JUDGES) -> np.ndarray:
    """Grades 1 to 5, shape (judges, models, n, criteria); the first judge is harsh and likes the first model."""
    rng = np.random.default_rng(seed)
    quality = 3.4 + rng.normal(0, 0.7, n) + np.linspace(0.5, -0.5, len(models))[:, None]
    found = quality[None, :, :, None] + rng.normal(0, 0.6, (len(judges), len(models), n, len(CRITERIA)))
    found[0] -= 0.5
    found[0, 0] += 0.8
    return np.clip(np.round(found), 1, 5)


def stored(
    folder: Path,
    benchmark: str,
    table: np.ndarray,
    *,
    models: Sequence[str] = MODELS,
    judges: Sequence[str] = JUDGES,
    lengths: np.ndarray | None = None,
    blank: Sequence[int] = (),
    lower_is_better: Sequence[str] = (),
    **changes: Any,
) -> None:
    """Put one run for each model into the store at `folder`.

    Parameters: table, shape (judges, models, n, criteria), high grades good, nan for a failed judgment; lengths, shape
    (models, n), in characters; blank, instances that every model answers with nothing; lower_is_better, criteria on
    which the judges' own grades are those of `table` turned around; changes, to every run.
    """
    said = np.where(np.isin(CRITERIA, lower_is_better), 6 - table, table)
    store = create(folder)
    for place, name in enumerate(models):
        run = _run(benchmark, name, table[:, place], judges, blank, lower_is_better, changes)
        writer = RunWriter(store, benchmark=benchmark, model=name, run_id=run.id, metrics=[JURY])
        for position in range(table.shape[2]):
            size = 10 if lengths is None else int(lengths[place, position])
            text = "" if position in blank else "x" * size
            writer.add(_record(position, text, table[:, place, position], said[:, place, position], judges))
        writer.finish(run)


def _record(position: int, text: str, cells: np.ndarray, said: np.ndarray, judges: Sequence[str]) -> Record:
    complete = [own.mean() for own in cells if not np.isnan(own).any()]
    enough = len(complete) >= min(AT_LEAST, len(judges))
    value = 1.0 if not text else float(np.mean(complete)) if enough else None
    failure = None if value is not None else Failure("judge", "too_few_judges", "too few")
    return Record(
        position=position,
        instance_id=f"i{position}",
        cluster="",
        request_digest=b"",
        completion=Completion(text=text),
        scores=tuple(Score(metric=JURY, rule=rule, value=value, failure=failure) for rule in RULES),
        jury_verdict=JuryVerdict(
            scores=(),
            judgments=tuple(
                Judgment(
                    judge=judge,
                    criterion=criterion,
                    score=None if np.isnan(score) else float(score),
                    failure=Failure("judge", "malformed_reply", "no JSON") if np.isnan(score) else None,
                )
                for judge, own in zip(judges, said, strict=True)
                for criterion, score in zip(CRITERIA, own, strict=True)
                if text
            ),
        ),
    )


def _run(
    benchmark: str,
    name: str,
    cells: np.ndarray,
    judges: Sequence[str],
    blank: Sequence[int],
    lower_is_better: Sequence[str],
    changes: dict[str, Any],
) -> Run:
    asked = np.delete(cells, list(blank), axis=1)
    tallies = {
        judge: JudgeTally(
            expected=own.size,
            failures={"malformed_reply": int(np.isnan(own).sum())} if np.isnan(own).any() else {},
            usage=Usage(input=100 * own.size, output=10 * own.size),
            cost_usd=0.001 * own.size,
        )
        for judge, own in zip(judges, asked, strict=True)
    }
    sitting = JuryResult(
        jury=Jury(judges=tuple(model(judge) for judge in judges), min_judges=min(AT_LEAST, len(judges))),
        low=1,
        high=5,
        lower_is_better=tuple(lower_is_better),
        tallies=tallies,
        n_blank=len(blank),
    )
    n = cells.shape[1]
    mean = Estimate(value=3.0, low=2.5, high=3.5, n=n, method="bootstrap-2000")
    content: dict[str, Any] = {
        "id": hashlib.sha256(f"{benchmark} {name} {judges} {changes}".encode()).hexdigest(),
        "benchmark": benchmark,
        "title": benchmark.replace("_", " ").title(),
        "taxonomy": Taxonomy(category="c", subcategory="s"),
        "benchmark_digest": "d" * 64,
        "data_digest": "e" * 64,
        "model": name,
        "tier": "real",
        "status": "complete",
        "settings": {},
        "started": "2026-01-01T00:00:00+00:00",
        "seconds": 1.0,
        "n": n,
        "n_failed": 0,
        "failures": {},
        "requests_sent": n,
        "requests_cached": 0,
        "usage": Usage(),
        "cost_usd": 0.0,
        "main_metric": JURY,
        "estimates": {rule: {JURY: mean} for rule in RULES},
        "jury_result": sitting,
        "resolved_model": model(name),
    }
    return Run(**{**content, **changes})
