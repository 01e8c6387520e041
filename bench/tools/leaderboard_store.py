"""Write a store of synthetic runs of any size, for the leaderboard workload.

    python bench/tools/leaderboard_store.py DIR [--models N] [--benchmarks N] [--instances N] [--short]

Prints one JSON object. The runs are real run folders: a whole `run.json`, and `records.parquet` with every column of
our own runs, in row groups of the same size, with completions of realistic length. The content is synthetic.
The same sizes give the same files. With `--short` completions have one letter, there are no digests and no juries, and
every second benchmark has scores of 10,000 steps: a store of 120 million records fits on a small disk.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from medhelm.domain import Benchmark, Run

MODELS, BENCHMARKS, INSTANCES = 9, 37, 1000
"""Size of the published suite, with its largest number of instances per benchmark."""

CLUSTERED = 4
"""In every fourth benchmark, five instances share a patient."""

SENTENCES = [
    f"{who} {what} {when}, and {then}."
    for who in ("The patient", "A 54-year-old woman", "The man seen today", "Our patient")
    for what in ("reports chest tightness", "was started on lisinopril", "denies fever or chills", "keeps the weight")
    for when in ("since Monday", "after the last visit", "for about three weeks", "at rest as well as on exertion")
    for then in ("an electrocardiogram is planned", "no change of treatment is needed", "follow-up is in two weeks",
                 "laboratory values are within their limits")
]  # fmt: skip
"""Sentences of the completions."""

_RECORDS = """
SELECT i::INTEGER AS position, printf('%08d', 20000000 + i * 7) AS instance_id,
    CASE WHEN $clustered THEN 'p' || (i // 5) ELSE '' END AS cluster, '' AS "group",
    sha256($model || '/' || $benchmark || '/' || i) AS request_digest, 0::BIGINT AS left_out,
    CASE WHEN failed THEN NULL
         WHEN $judged THEN array_to_string([$sentences[1 + (hash(i, k, $model, $benchmark) % {n})::BIGINT]
                                               for k in range(10 + (hash(i, $model) % 9)::BIGINT)], ' ')
         WHEN noise < 0.7 THEN chr((65 + hash(i, $model) % 5)::INTEGER)
         ELSE 'The answer is ' || chr((65 + hash(i, $model) % 5)::INTEGER) || '. '
              || $sentences[1 + (hash(i, $model, $benchmark) % {n})::BIGINT] END AS completion,
    CASE WHEN failed THEN NULL ELSE 'stop' END AS finish_reason,
    CASE WHEN failed THEN 'provider' END AS failure_boundary, CASE WHEN failed THEN 'timeout' END AS failure_code,
    CASE WHEN failed THEN 'no answer within 60 s' END AS failure_message,
    (400 + hash(i) % 600)::BIGINT AS input_tokens, 0::BIGINT AS cached_input_tokens,
    CASE WHEN $judged THEN (250 + hash(i, $model) % 200)::BIGINT ELSE (1 + hash(i, $model) % 30)::BIGINT END
        AS output_tokens, 0::BIGINT AS reasoning_tokens, 0.2 + noise AS latency_s, $model AS reported_model,
    false AS batched, '' AS fingerprint, '' AS refused_parts, 0::BIGINT AS cache_write_tokens,
    1767225600.0::DOUBLE AS received,
    NULL::VARCHAR AS score_failure, '' AS suspicions,
    CASE WHEN $judged AND NOT failed THEN 1.0 END::DOUBLE AS jury_coverage, false AS unreadable,
    NULL::VARCHAR AS reasoning,
    NULL::VARCHAR AS token_logprobs,
    CASE WHEN NOT failed THEN score END::DOUBLE AS {metric}_corrected,
    CASE WHEN NOT failed THEN score END::DOUBLE AS {metric}_published
FROM (
    SELECT i, noise, hash(i, $model, $benchmark, 'failed') % 500 = 0 AS failed,
        CASE WHEN $judged THEN 1 + round(36 * greatest(0, least(1, $ability + 0.6 - 0.7 * luck))) / 9
             ELSE (luck < $ability)::DOUBLE END AS score
    FROM (SELECT i, (hash(i, $benchmark, $model) % 100003) / 100003.0 AS noise,
                 0.7 * (hash(i, $benchmark) % 100003) / 100003.0 + 0.3 * noise AS luck
          FROM range($n) AS numbers(i))
)
"""
"""The records of one run. An instance is equally hard for every model, plus a random part."""

_SHORT_RECORDS = """
SELECT i::INTEGER AS position, printf('%08d', 20000000 + i * 7) AS instance_id,
    CASE WHEN $clustered THEN 'p' || (i // 5) ELSE '' END AS cluster, '' AS "group", '' AS request_digest,
    0::BIGINT AS left_out, CASE WHEN failed THEN NULL ELSE chr((65 + h % 5)::INTEGER) END AS completion,
    CASE WHEN failed THEN NULL ELSE 'stop' END AS finish_reason,
    CASE WHEN failed THEN 'provider' END AS failure_boundary, CASE WHEN failed THEN 'timeout' END AS failure_code,
    CASE WHEN failed THEN 'no answer within 60 s' END AS failure_message,
    (400 + i % 600)::BIGINT AS input_tokens, 0::BIGINT AS cached_input_tokens, (1 + h % 30)::BIGINT AS output_tokens,
    0::BIGINT AS reasoning_tokens, (20 + h % 1000) / 1000 AS latency_s, $model AS reported_model,
    false AS batched, '' AS fingerprint, '' AS refused_parts, 0::BIGINT AS cache_write_tokens,
    1767225600.0::DOUBLE AS received, NULL::VARCHAR AS score_failure, '' AS suspicions, NULL::DOUBLE AS jury_coverage,
    false AS unreadable, NULL::VARCHAR AS reasoning, NULL::VARCHAR AS token_logprobs,
    CASE WHEN NOT failed THEN score END::DOUBLE AS {metric}_corrected,
    CASE WHEN NOT failed THEN score END::DOUBLE AS {metric}_published
FROM (
    SELECT i, h, h % 500 = 0 AS failed,
        CASE WHEN $graded THEN round(greatest(0, least(1, $ability + 0.4 - 0.8 * luck)), 4)
             ELSE (luck < $ability)::DOUBLE END AS score
    FROM (SELECT i, h, 0.7 * (hash(i, $benchmark) % 100003) / 100003.0 + 0.3 * (h % 100003) / 100003.0 AS luck
          FROM (SELECT i, hash(i, $benchmark, $model) AS h FROM range($n) AS numbers(i)))
)
"""
"""The records of one run with `--short`."""


@dataclass(frozen=True, slots=True)
class Size:
    """Size of a store."""

    models: int = MODELS
    """Models, each run on all benchmarks."""
    benchmarks: int = BENCHMARKS
    """Benchmarks, the first ones of the suite."""
    instances: int = INSTANCES
    """Instances of each benchmark."""
    is_short: bool = False
    """True for completions of one letter."""

    @property
    def records(self) -> int:
        """Records in the store."""
        return self.models * self.benchmarks * self.instances


def write(folder: Path, size: Size) -> dict[str, float]:
    """Write the store into a new folder and return its counts and sizes."""
    from medhelm.io.parquet import connect
    from medhelm.storage.store import create

    store = create(folder)
    start, n_bytes = perf_counter(), 0
    with connect() as database:
        for benchmark, model, place in _pairs(size):
            plan = _Plan(
                benchmark,
                model,
                size.instances,
                clustered=place % CLUSTERED == 0,
                is_short=size.is_short,
                graded=place % 2 == 1,
                step=min(0.008, 0.3 / size.models),
            )
            run_folder = store.run_folder(benchmark.name, model, plan.run_id)
            run_folder.mkdir(parents=True)
            n_bytes += _write_run(database, run_folder, plan)
    return {
        "runs": size.models * size.benchmarks,
        "records": size.records,
        "record_bytes": n_bytes,
        "bytes_per_record": n_bytes / size.records,
        "seconds": perf_counter() - start,
    }


def list_runs(folder: Path) -> list[Run]:
    """The runs of such a store, by benchmark and model; each knows the folder that it lies in."""
    from medhelm.storage.runs import load_runs
    from medhelm.storage.store import open_store

    return load_runs(open_store(folder))


@dataclass(frozen=True, slots=True)
class _Plan:
    """One run to write."""

    benchmark: Benchmark
    model: str
    n: int
    clustered: bool
    is_short: bool
    graded: bool
    step: float

    @property
    def judged(self) -> bool:
        return self.benchmark.rubric is not None and not self.is_short

    @property
    def metric(self) -> str:
        if self.is_short and self.graded:
            return "rouge_l"
        return "jury" if self.judged else "exact_match"

    @property
    def facts(self) -> dict[str, Any]:
        """Parameters of the query."""
        common = {
            "benchmark": self.benchmark.name,
            "model": self.model,
            "n": self.n,
            "clustered": self.clustered,
            "ability": self.ability,
        }
        more = {"graded": self.graded} if self.is_short else {"judged": self.judged, "sentences": SENTENCES}
        return common | more

    @property
    def run_id(self) -> str:
        return hashlib.sha256(f"{self.benchmark.name}/{self.model}/{self.n}".encode()).hexdigest()

    @property
    def ability(self) -> float:
        """Share of the instances that the model gets right, more or less; another on each benchmark."""
        luck = int(self.run_id[:6], 16) / 0xFFFFFF
        return 0.55 + self.step * int(self.model.rpartition("-")[2]) + 0.1 * luck


def _pairs(size: Size) -> Iterator[tuple[Benchmark, str, int]]:
    """Benchmark, model, and place of the benchmark."""
    from medhelm.benchmarks.catalog import load_benchmarks
    from medhelm.benchmarks.suites import load_suite
    from medhelm.scoring.metrics import METRIC_NAMES

    names = [entry.name for entry in load_suite()][: size.benchmarks]
    known = load_benchmarks(names, metrics=METRIC_NAMES)
    more = [replace(one, name=f"{one.name}_more") for one in known[: size.benchmarks - len(known)]]
    for place, benchmark in enumerate([*known, *more]):
        for number in range(1, size.models + 1):
            yield benchmark, f"lab/model-{number:02d}", place


def _write_run(database: Any, folder: Path, plan: _Plan) -> int:
    """Write one run folder and return the bytes of its records."""
    from medhelm.io.parquet import ROW_GROUP, sql_text
    from medhelm.storage.run_scores import keep_scores
    from medhelm.storage.store import write_run

    file = folder / "records.parquet"
    query = (_SHORT_RECORDS if plan.is_short else _RECORDS).format(n=len(SENTENCES), metric=plan.metric)
    database.execute(
        f"COPY ({query}) TO {sql_text(file)} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP})",
        plan.facts,
    )
    summary = database.execute(
        f"SELECT avg({plan.metric}_corrected), stddev_samp({plan.metric}_corrected), count({plan.metric}_corrected), "
        f"sum(input_tokens), sum(output_tokens) FROM read_parquet({sql_text(file)})"
    ).fetchone()
    run = _run(plan, *summary)
    write_run(folder, run)
    keep_scores(replace(run, folder=folder))
    return file.stat().st_size


def _run(plan: _Plan, mean: float, sd: float | None, scored: int, tokens_in: int, tokens_out: int) -> Run:
    """Return the content of `run.json`."""
    from medhelm.domain import Estimate, Run, RunStatus, Usage

    half = 1.96 * (sd or 0.0) / math.sqrt(scored)
    estimate = Estimate(
        value=mean, low=mean - half, high=mean + half, n=scored, n_failed=plan.n - scored, method="normal"
    )
    failed = {"timeout": plan.n - scored} if plan.n > scored else {}
    return Run(
        id=plan.run_id,
        benchmark=plan.benchmark.name,
        title=plan.benchmark.title,
        taxonomy=plan.benchmark.taxonomy,
        benchmark_digest="0" * 64,
        data_digest="1" * 64,
        model=plan.model,
        tier="real",
        status=RunStatus.COMPLETE,
        settings={"concurrency": 8, "limit": plan.n, "seed": 0, "max_tokens": plan.benchmark.max_tokens},
        started="2026-01-01T00:00:00+00:00",
        seconds=60.0,
        n=plan.n,
        n_failed=plan.n - scored,
        failures=failed,
        requests_sent=plan.n,
        requests_cached=0,
        usage=Usage(input=tokens_in, output=tokens_out),
        cost_usd=round(tokens_in * 1e-6 + tokens_out * 4e-6, 6),
        main_metric=plan.metric,
        estimates={"corrected": {plan.metric: estimate}, "published": {plan.metric: estimate}},
        jury_result=_jury_result(plan) if plan.judged else None,
    )


def _jury_result(plan: _Plan) -> Any:
    """Return a jury of three judges without failures."""
    from medhelm.domain import JudgeTally, Jury, JuryResult, Model

    judges = tuple(Model(name=f"lab/judge-{n}", provider="openai", remote_name=f"judge-{n}") for n in (1, 2, 3))
    return JuryResult(
        jury=Jury(judges=judges, min_judges=2),
        low=1.0,
        high=5.0,
        tallies={judge.name: JudgeTally(expected=3 * plan.n) for judge in judges},
    )


def main(words: Sequence[str] | None = None) -> int:
    """Run the script."""
    parser = argparse.ArgumentParser(description="Write a store of synthetic runs.")
    parser.add_argument("folder", type=Path, metavar="DIR", help="a new folder")
    parser.add_argument("--models", type=int, default=MODELS)
    parser.add_argument("--benchmarks", type=int, default=BENCHMARKS)
    parser.add_argument("--instances", type=int, default=INSTANCES)
    parser.add_argument("--short", action="store_true", help="completions of one letter, no juries")
    chosen = parser.parse_args(words)
    size = Size(chosen.models, chosen.benchmarks, chosen.instances, chosen.short)
    most = 2 * BENCHMARKS if size.is_short else BENCHMARKS
    if min(size.models, size.benchmarks, size.instances) < 1 or size.benchmarks > most:
        parser.error(f"all numbers must be at least 1, and there are {most} benchmarks")
    print(json.dumps(write(chosen.folder, size)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
