"""Invented stores: runs whose scores, judgments and tokens are known, without benchmarks, models or servers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from medhelm.analysis.means import estimate
from medhelm.domain import (
    JURY,
    RULES,
    Completion,
    Estimate,
    Failure,
    Floor,
    Instance,
    JudgeReply,
    JudgeTally,
    Judgment,
    Jury,
    JuryResult,
    JuryVerdict,
    Message,
    Model,
    Prompt,
    Record,
    Run,
    Score,
    Taxonomy,
    Usage,
)
from medhelm.domain.completion import Batch, BatchState
from medhelm.storage.runs import RunWriter, write_prompts
from medhelm.storage.store import create

_LONG_NUMBER = re.compile(r"-?\d+\.\d{7,}(e-?\d+)?")
TIMEOUT = Failure("provider", "timeout", "no answer in 5 s")


def make_model(name: str, **changes: Any) -> Model:
    """Return a model of the provider `openai`; `changes` are its other fields."""
    remote = name.partition("@")[0].partition("/")[2]
    return Model(**({"name": name, "provider": "openai", "remote_name": remote} | changes))


def rounded(text: str) -> str:
    """Return the text with six digits of each number: processors round the others differently."""
    return _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.6g}", text)


def make_run(benchmark: str = "toy", model: str = "openai/m", **changes: Any) -> Run:
    """Return a complete run without estimates; `changes` are its other fields."""
    fields: dict[str, Any] = {
        "id": hashlib.sha256(rounded(repr((benchmark, model, changes))).encode()).hexdigest(),
        "benchmark": benchmark,
        "title": benchmark.replace("_", " ").title(),
        "taxonomy": Taxonomy(category="c", subcategory="s"),
        "benchmark_digest": "d" * 64,
        "data_digest": "e" * 64,
        "model": model,
        "tier": "real",
        "status": "complete",
        "settings": {},
        "started": "2026-01-01T00:00:00+00:00",
        "seconds": 1.0,
        "n": 10,
        "n_failed": 0,
        "failures": {},
        "requests_sent": 10,
        "requests_cached": 0,
        "usage": Usage(),
        "cost_usd": None,
        "main_metric": "exact_match",
        "estimates": {rule: {} for rule in RULES},
    }
    return Run(**(fields | changes))


def make_batch(**changes: Any) -> Batch:
    """Return a batch that was submitted to OpenAI; `changes` are its other fields."""
    fields: dict[str, Any] = {
        **{"id": "medhelm-1", "provider": "openai", "base_url": "https://api.openai.com/v1", "model": "openai/m"},
        **{"remote_name": "m", "model_digest": "12ab", "role": "model", "state": BatchState.SUBMITTED, "created": 0.0},
        **{"n": 4, "remote_id": "batch_1"},
    }
    return Batch(**(fields | changes))


def jury_of(*judges: str, min_judges: int = 2, failures: Mapping[str, int] | None = None) -> JuryResult:
    """Return the result of a jury with these judges, on 30 judgments each."""
    models = tuple(make_model(name, remote_name=name) for name in judges)
    tallies = {name: JudgeTally(expected=30, failures=failures or {}) for name in judges}
    return JuryResult(jury=Jury(judges=models, min_judges=min_judges), low=1, high=5, tallies=tallies)


def make_record(position: int, **changes: Any) -> Record:
    """Return a record without scores; `changes` are its other fields."""
    fields: dict[str, Any] = {
        "position": position,
        "instance_id": f"i{position}",
        "cluster": "",
        "request_digest": b"",
        "completion": Completion(text="an answer"),
        "scores": (),
    }
    return Record(**(fields | changes))


def write_run(folder: Path, run: Run, records: Iterable[Record], metrics: Sequence[str] | None = None) -> Run:
    """Write a run into the store at `folder`, by default with its main metric; return it as it is stored."""
    names = [run.main_metric] if metrics is None else metrics
    writer = RunWriter(create(folder), benchmark=run.benchmark, model=run.model, run_id=run.id, metrics=names)
    for record in records:
        writer.add(record)
    return replace(run, folder=writer.finish(run))


# --- scores -----------------------------------------------------------------------------------------------------------

Scores = Mapping[str, Mapping[str, Sequence[float | None]]]
"""Benchmark -> model -> score of each instance, None for a failed one."""


def make_store(folder: Path, scores: Scores, *, clusters: Sequence[str] = (), **changes: Any) -> Path:
    """Write one run for each list of scores; `changes` are fields of every run."""
    create(folder)
    for benchmark, models in scores.items():
        for model, values in models.items():
            run = scored_run(benchmark, model, values, **changes)
            names = clusters or [""] * len(values)
            write_run(folder, run, (_scored(n, value, run.main_metric, names[n]) for n, value in enumerate(values)))
    return folder


def scored_run(benchmark: str, model: str, values: Sequence[float | None], **changes: Any) -> Run:
    """Return the run of these scores, with their mean and the same interval always."""
    known = [value for value in values if value is not None]
    failed = len(values) - len(known)
    metric = changes.get("main_metric", "exact_match")
    estimates = {}
    if known:
        mean = sum(known) / len(known)
        estimates = {metric: Estimate(value=mean, low=0.0, high=1.0, n=len(known), n_failed=failed)}
    fields: dict[str, Any] = {
        "title": benchmark.upper(),
        "n": len(values),
        "n_failed": failed,
        "failures": {"timeout": failed} if failed else {},
        "requests_sent": len(values),
        "usage": Usage(input=10, output=5),
        "cost_usd": 0.25,
        "estimates": dict.fromkeys(RULES, estimates),
    }
    return make_run(benchmark, model, **(fields | changes))


def _scored(position: int, value: float | None, metric: str, cluster: str) -> Record:
    failure = TIMEOUT if value is None else None
    text = None if failure else "an answer"
    return make_record(
        position,
        instance_id=f"i{position:03d}",
        cluster=cluster,
        completion=Completion(text=text, failure=failure, usage=Usage(input=1, output=1)),
        scores=tuple(Score(metric=metric, rule=rule, value=value, failure=failure) for rule in RULES),
    )


# --- juries -----------------------------------------------------------------------------------------------------------

CRITERIA = ("accuracy", "completeness", "clarity")
JUDGES = ("openai/gpt-4o", "anthropic/claude-3-7-sonnet", "together/llama-3.3-70b")
MODELS = ("openai/gpt-4o", "google/gemini-2.0-flash", "local/qwen2.5-7b", "meta/llama-3.1-8b")
MIN_JUDGES = 2


def grades(seed: int, n: int, models: Sequence[str] = MODELS, judges: Sequence[str] = JUDGES) -> np.ndarray:
    """Draw grades 1 to 5, shape (judges, models, n, criteria); the first judge is harsh and prefers the first model."""
    rng = np.random.default_rng(seed)
    quality = 3.4 + rng.normal(0, 0.7, n) + np.linspace(0.5, -0.5, len(models))[:, None]
    found = quality[None, :, :, None] + rng.normal(0, 0.6, (len(judges), len(models), n, len(CRITERIA)))
    found[0] -= 0.5
    found[0, 0] += 0.8
    return np.clip(np.round(found), 1, 5)


def add_judged_runs(
    folder: Path,
    benchmark: str,
    table: np.ndarray,
    *,
    models: Sequence[str] = MODELS,
    judges: Sequence[str] = JUDGES,
    lengths: np.ndarray | None = None,
    blank: Sequence[int] = (),
    lower_is_better: Sequence[str] = (),
    floors: Sequence[Floor] = (),
    **changes: Any,
) -> None:
    """Write one judged run for each model.

    Parameters: table, shape (judges, models, n, criteria), high grades good, nan for a failed judgment; lengths, shape
    (models, n), in characters; blank, instances with an empty completion of every model; lower_is_better, criteria on
    which the judges' own grades are those of `table` turned around; floors, of the rubric; changes, fields of
    every run.
    """
    given = np.where(np.isin(CRITERIA, lower_is_better), 6 - table, table)
    for place, name in enumerate(models):
        records = []
        for position in range(table.shape[2]):
            size = 10 if lengths is None else int(lengths[place, position])
            text = "" if position in blank else "x" * size
            records.append(_judged(position, text, table[:, place, position], given[:, place, position], judges))
        values = [record.scores[0].value for record in records]
        mean = estimate(np.array([np.nan if value is None else value for value in values]), low=1.0, high=5.0)
        asked = np.delete(table[:, place], list(blank), axis=1)
        fields: dict[str, Any] = {
            "n": len(records),
            "requests_sent": len(records),
            "cost_usd": 0.0,
            "main_metric": JURY,
            "estimates": {rule: {JURY: mean} for rule in RULES if mean},
            "resolved_model": make_model(name),
            "jury_result": _jury_result(
                asked, judges, lower_is_better=tuple(lower_is_better), floors=tuple(floors), n_blank=len(blank)
            ),
        }
        run = make_run(benchmark, name, **(fields | changes))
        write_run(folder, run, records, [JURY])


def _judged(position: int, text: str, cells: np.ndarray, given: np.ndarray, judges: Sequence[str]) -> Record:
    complete = [own.mean() for own in cells if not np.isnan(own).any()]
    enough = len(complete) >= min(MIN_JUDGES, len(judges))
    value = 1.0 if not text else float(np.mean(complete)) if enough else None
    failure = None if value is not None else Failure("judge", "too_few_judges", "too few")
    judgments = tuple(
        Judgment(
            judge=judge,
            criterion=criterion,
            score=None if np.isnan(score) else float(score),
            failure=Failure("judge", "malformed_reply", "no JSON") if np.isnan(score) else None,
        )
        for judge, own in zip(judges, given, strict=True)
        for criterion, score in zip(CRITERIA, own, strict=True)
        if text
    )
    return make_record(
        position,
        completion=Completion(text=text),
        scores=tuple(Score(metric=JURY, rule=rule, value=value, failure=failure) for rule in RULES),
        jury_verdict=JuryVerdict(scores=(), judgments=judgments),
    )


def _jury_result(cells: np.ndarray, judges: Sequence[str], **changes: Any) -> JuryResult:
    tallies = {
        judge: JudgeTally(
            expected=own.size,
            failures={"malformed_reply": int(np.isnan(own).sum())} if np.isnan(own).any() else {},
            usage=Usage(input=100 * own.size, output=10 * own.size),
            cost_usd=0.001 * own.size,
        )
        for judge, own in zip(judges, cells, strict=True)
    }
    jury = Jury(judges=tuple(make_model(judge) for judge in judges), min_judges=min(MIN_JUDGES, len(judges)))
    return JuryResult(jury=jury, low=1, high=5, tallies=tallies, **changes)


# --- tokens and request digests ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """One request and the tokens it took."""

    name: str
    """Equal requests have equal names; "" for a completion that was made within this process."""
    usage: Usage = field(default_factory=Usage)
    text: str | None = "words"
    """None for a failure."""
    attempt: int = 0
    part: int = 0

    @property
    def completion(self) -> Completion:
        """The completion or failure it was answered with."""
        return Completion(text=self.text, failure=TIMEOUT if self.text is None else None, usage=self.usage)


def digest(name: str) -> bytes:
    """Return the request digest of a call with this name."""
    return hashlib.sha256(name.encode()).digest() if name else b""


def hosted_model(name: str, **changes: Any) -> Model:
    """Return a model of the provider in its name, at OpenAI's address; `base_url=""` for one in this process."""
    fields = {"provider": name.partition("/")[0], "base_url": "https://api.openai.com/v1"}
    return make_model(name, **(fields | changes))


def add_run(
    folder: Path,
    benchmark: str,
    model: Model,
    calls: Sequence[Call],
    *,
    judged: Sequence[tuple[Model, Sequence[Sequence[Call]]]] = (),
    started: str = "2026-01-01T00:00:00+00:00",
    prompts: Sequence[str] = (),
    benchmark_digest: str = "d" * 64,
    ids: Sequence[str] = (),
) -> Run:
    """Write one run without scores.

    Parameters: calls, one for each instance `i0`, `i1`, ..., or of `ids`; judged, each judge with its calls about
    each instance; prompts, the text of each instance's prompt, to be stored as well.
    """
    records = [
        make_record(
            n,
            instance_id=ids[n] if ids else f"i{n}",
            request_digest=digest(call.name),
            completion=call.completion,
            judge_replies=tuple(
                JudgeReply(
                    judge=judge.name,
                    prompt_index=reply.part,
                    attempt=reply.attempt,
                    completion=reply.completion,
                    request_digest=digest(reply.name),
                )
                for judge, replies in judged
                for reply in replies[n]
            ),
        )
        for n, call in enumerate(calls)
    ]
    judges = tuple(judge for judge, _ in judged)
    tallies = {judge.name: JudgeTally() for judge in judges}
    jury = JuryResult(jury=Jury(judges=judges, min_judges=1), low=1, high=5, tallies=tallies) if judges else None
    run = make_run(
        benchmark,
        model.name,
        title=benchmark,
        benchmark_digest=benchmark_digest,
        settings={"max_tokens": 100},
        started=started,
        n=len(calls),
        n_failed=sum(call.text is None for call in calls),
        requests_sent=len(calls),
        usage=sum((call.usage for call in calls), Usage()),
        main_metric=JURY if judges else "exact_match",
        jury_result=jury,
        resolved_model=model,
    )
    if prompts:
        file = create(folder).prompts_file(benchmark, benchmark_digest, "e" * 64)
        instances = [Instance(id=f"i{n}", fields={}, references=()) for n in range(len(prompts))]
        write_prompts(file, [(i, Prompt((Message("user", t),))) for i, t in zip(instances, prompts, strict=True)])
    return write_run(folder, run, records, [JURY] if judges else [])
