"""References with information from outside the prompt, and scores with and without them: tables and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medhelm.domain import Estimate, Rule, Usage
from medhelm.domain.result import Remark
from medhelm.extensions.paper.reference_filter.marks import REFERENCE_VERDICTS, ReferenceMarks, ReferenceVerdict
from medhelm.reports.formats.json import estimate_json, select
from medhelm.reports.formats.tables import SAMPLE_WARNING, Value, cost_text, counts_text, decimal, estimate_text, render

INTERVALS = (
    "Brackets: 95% confidence intervals. Kept and set aside are different instances, so the interval of their "
    "difference combines both intervals (Newcombe 1998). Kept minus all is kept minus the rest, times the share of the "
    "rest."
)
"""Explanation of the intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeWork:
    """Requests and cost of one judge on one benchmark, in this execution."""

    judge: str
    """Name of the judge."""
    requests_sent: int
    """Requests sent, retries included."""
    requests_cached: int
    """Completions found in the cache."""
    usage: Usage
    """Tokens of all its completions, cached ones included."""
    cost_usd: float | None
    """Price of that usage; None if unknown."""


@dataclass(frozen=True, slots=True)
class ScoreGap:
    """Difference of two means with its 95% interval, in the unit of the metric."""

    value: float
    """First mean minus second."""
    low: float
    """Lower end."""
    high: float
    """Upper end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredScore:
    """Scores of one model by one metric, with and without the instances that were set aside."""

    model: str
    """Name of the model."""
    metric: str
    """Name of the metric."""
    is_main: bool
    """True for the main metric of the run."""
    all: Estimate | None
    """Score over all instances, with or without a verdict; None if nothing was scored."""
    parts: Mapping[ReferenceVerdict, Estimate | None]
    """Verdict -> score over the instances with that verdict; None if none was scored."""
    kept_minus_set_aside: ScoreGap | None
    """None if one of the two is missing."""
    kept_minus_all: ScoreGap | None
    """Change of the score if only kept instances count; None if none or all are kept."""
    rank_all: int | None = None
    """Rank among the models by this metric over all instances, from 1; None without a score."""
    rank_kept: int | None = None
    """The same over the kept instances."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredBenchmark:
    """One benchmark with its marks and the scores of models."""

    title: str
    """Name of the benchmark for people."""
    marks: ReferenceMarks
    """Marks by the judges."""
    file: Path | None
    """File with the marks; None if they are not stored."""
    work: tuple[JudgeWork, ...] = ()
    """Work of the judges in this execution; empty if no request was needed."""
    scores: tuple[FilteredScore, ...] = ()
    """Scores by model and metric, for every finished run on the same instances."""
    remarks: tuple[Remark, ...] = field(default=())
    """Remarks, such as runs that could not be used."""


# --- JSON -------------------------------------------------------------------------------------------------------------


def as_json(benchmarks: Sequence[FilteredBenchmark], rule: Rule) -> dict[str, Any]:
    """Return the output of `medhelm filter-references --json`, without costs."""
    return {"benchmarks": [_benchmark_json(benchmark) for benchmark in benchmarks], "scoring": rule}


def _benchmark_json(benchmark: FilteredBenchmark) -> dict[str, Any]:
    marks = benchmark.marks
    ids = {verdict: marks.ids(verdict) for verdict in REFERENCE_VERDICTS}
    return {
        "benchmark": marks.benchmark,
        "title": benchmark.title,
        "tier": marks.tier,
        **marks.selection,
        "status": marks.status,
        "made": marks.started,
        "prompt_version": marks.prompt_version,
        "n": len(marks.by_instance),
        **{verdict: len(ids[verdict]) for verdict in REFERENCE_VERDICTS},
        "judges": [_judge_json(judge, benchmark) for judge in marks.judges],
        "ids": ids,
        "models": [_score_json(score) for score in benchmark.scores],
        "remarks": [remark.text for remark in benchmark.remarks],
        "file": str(benchmark.file) if benchmark.file else None,
    }


def _judge_json(judge: str, benchmark: FilteredBenchmark) -> dict[str, Any]:
    marks = benchmark.marks
    answers = _count_opinions(judge, marks)
    found: dict[str, Any] = {
        "judge": judge,
        "outside": answers[True],
        "inside": answers[False],
        "failed": answers[None],
        "failures": dict(marks.failures[judge]),
    }
    for work in benchmark.work:
        if work.judge == judge:
            found |= select(work, "requests_sent requests_cached tokens=usage cost_usd", rounded=True)
    return found


def _count_opinions(judge: str, marks: ReferenceMarks) -> Counter[bool | None]:
    """Count the references that a judge found to be outside the prompt (True), inside (False), or did not judge."""
    opinions = (opinion for mark in marks.by_instance.values() for opinion in mark.opinions)
    return Counter(opinion.outside_prompt for opinion in opinions if opinion.judge == judge)


SCORE_KEYS = "value low high n n_failed method"
"""Keys of a score in JSON."""


def _score_json(score: FilteredScore) -> dict[str, Any]:
    return {
        **select(score, "model metric is_main"),
        "all": estimate_json(score.all, SCORE_KEYS),
        **{verdict: estimate_json(score.parts[verdict], SCORE_KEYS) for verdict in REFERENCE_VERDICTS},
        "kept_minus_set_aside": estimate_json(score.kept_minus_set_aside),
        "kept_minus_all": estimate_json(score.kept_minus_all),
        "rank": select(score, "all=rank_all kept=rank_kept"),
    }


# --- tables -----------------------------------------------------------------------------------------------------------


def to_table(benchmarks: Sequence[FilteredBenchmark], rule: Rule) -> str:
    """Return tables of marks, of judges, and of scores with and without the instances set aside."""
    blocks = [_marks_table(benchmarks), _judges_table(benchmarks)]
    blocks += [_scores_table(benchmark, rule) for benchmark in benchmarks if benchmark.scores]
    if any(benchmark.scores for benchmark in benchmarks):
        blocks.append(INTERVALS + "\n")
    remarks = [f"- {b.marks.benchmark}: {text}\n" for b in benchmarks for text in b.remarks]
    return "\n".join([*blocks, *(["".join(remarks)] if remarks else [])])


def _marks_table(benchmarks: Sequence[FilteredBenchmark]) -> str:
    """Return one line per benchmark."""
    rows: list[list[Value]] = []
    for benchmark in benchmarks:
        marks = benchmark.marks
        counts = {verdict: len(marks.ids(verdict)) for verdict in REFERENCE_VERDICTS}
        settled = counts["kept"] + counts["set_aside"]
        share = f"{counts['set_aside'] / settled:.1%}" if settled else None
        rows.append([marks.benchmark, _selection_text(marks), len(marks.by_instance), *counts.values(), share])
    headers = ["benchmark", "data", "references", "kept", "set aside", "unknown", "share"]
    caption = "Set aside: references with information from outside the prompt; share: of the references with a verdict"
    return render(rows, headers, caption=caption)


def _selection_text(marks: ReferenceMarks) -> str:
    """Return the selection of instances as text."""
    if marks.tier == "sample":
        return "SAMPLE TIER: invented rows"
    chosen = marks.selection
    sample = "" if chosen["sample"] == "default" else f", sample {chosen['sample']}"
    seed = f", seed {chosen['seed']}" if chosen["seed"] else ""
    return f"real data{sample}{seed}" + (f", first {chosen['limit']}" if chosen["limit"] else "")


def _judges_table(benchmarks: Sequence[FilteredBenchmark]) -> str:
    """Return one line per benchmark and judge."""
    rows: list[list[Value]] = []
    for benchmark in benchmarks:
        work = {one.judge: one for one in benchmark.work}
        for judge in benchmark.marks.judges:
            answers, failures = _count_opinions(judge, benchmark.marks), benchmark.marks.failures[judge]
            failed = f"{answers[None]} ({counts_text(failures)})" if failures else str(answers[None])
            own = work.get(judge)
            asked = [own.requests_sent, own.requests_cached, cost_text(own.cost_usd)] if own else [None, None, None]
            rows.append([benchmark.marks.benchmark, judge, answers[True], answers[False], failed, *asked])
    headers = ["benchmark", "judge", "outside", "inside", "failed", "sent", "cached", "cost USD"]
    return render(rows, headers)


def _scores_table(benchmark: FilteredBenchmark, rule: Rule) -> str:
    """Return one line per metric and model."""
    rows: list[list[Value]] = []
    for score in benchmark.scores:
        counted = [score.all, score.parts["kept"], score.parts["set_aside"]]
        rows.append(
            [
                score.metric,
                score.model,
                *map(estimate_text, counted),
                " / ".join(str(estimate.n if estimate else 0) for estimate in counted),
                _gap_text(score.kept_minus_set_aside),
                _gap_text(score.kept_minus_all),
                score.rank_all,
                score.rank_kept,
            ]
        )
    parts = ["all", "kept", "set aside"]
    gaps = ["kept minus set aside", "kept minus all"]
    headers = ["metric", "model", *parts, "scored", *gaps, "rank all", "rank kept"]
    data = "" if benchmark.marks.tier == "real" else f"; {SAMPLE_WARNING}"
    caption = f"{benchmark.title}: scores with and without these references ({rule} scoring{data})"
    return render(rows, headers, caption=caption)


def _gap_text(gap: ScoreGap | None) -> str | None:
    """Return a difference with its sign."""
    if gap is None:
        return None
    sign = "+" if float(decimal(gap.value) or 0) > 0 else ""
    return sign + (estimate_text(gap) or "")
