"""The reference filter's marks and report: judges' opinions on references that need more than the prompt."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from medhelm.domain import Estimate, Rule
from medhelm.domain.benchmark import Tier
from medhelm.domain.completion import Failure
from medhelm.domain.result import Remark
from medhelm.domain.run import RunStatus
from medhelm.errors import StoreError
from medhelm.io.files import error_class, read_confidential
from medhelm.io.folders import write_confidential
from medhelm.results.formats.fields import estimate_json, select
from medhelm.results.formats.tables import SAMPLE_WARNING, Value, cost_text, counts_text, decimal, estimate_text, render
from medhelm.storage.json_form import TUPLE, JsonForm, Nested, by_name, key_map
from medhelm.storage.store import Store

if TYPE_CHECKING:
    from medhelm.evaluation.request_totals import RequestTotals

# --- marks ------------------------------------------------------------------------------------------------------------

ReferenceVerdict = Literal["kept", "set_aside", "unknown"]
"""Verdict on a reference: it can be derived from the prompt; it needs information outside the prompt; or the judges
reached no majority."""

REFERENCE_VERDICTS: tuple[ReferenceVerdict, ...] = get_args(ReferenceVerdict)
"""All verdicts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceOpinion:
    """Opinion of one judge on one reference. `outside_prompt` is None if and only if `failure` is set."""

    judge: str
    """Name of the judge."""
    outside_prompt: bool | None
    """True if the reference needs information outside the prompt."""
    explanation: str = ""
    """Explanation in the judge's words."""
    failure: Failure | None = None
    """Reason for the missing opinion."""


@dataclass(frozen=True, slots=True)
class ReferenceMark:
    """Opinions of all judges on one reference."""

    opinions: tuple[ReferenceOpinion, ...]
    """One per judge, in their order."""

    @property
    def verdict(self) -> ReferenceVerdict:
        """Verdict of more than half of all judges, failed ones counted in the total; else unknown.

        >>> opinions = [ReferenceOpinion(judge=name, outside_prompt=name == "a") for name in "ab"]
        >>> ReferenceMark(tuple(opinions)).verdict
        'unknown'
        """
        votes = Counter(opinion.outside_prompt for opinion in self.opinions)
        if 2 * votes[True] > len(self.opinions):
            return "set_aside"
        return "kept" if 2 * votes[False] > len(self.opinions) else "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceMarks:
    """The marks of all references of one benchmark on one selection of its data."""

    benchmark: str
    """Name of the benchmark."""
    benchmark_digest: str
    """Digest of its definition."""
    data_digest: str
    """Digest of the data files and of the selection of instances."""
    tier: Tier
    """Real data or sample rows."""
    selection: Mapping[str, Any]
    """Selection of instances: `sample`, `limit` and `seed`."""
    judges: tuple[str, ...]
    """Names of the judges, in order."""
    prompt_version: int
    """Version of the judges' prompt."""
    status: RunStatus
    """Complete if every judge was asked about every reference."""
    started: str
    """Start time, ISO 8601, UTC."""
    by_instance: Mapping[str, ReferenceMark]
    """Instance id -> its mark, for every instance, in the order of the data."""

    def ids(self, verdict: ReferenceVerdict) -> list[str]:
        """Return the ids of the instances with this verdict, in the order of the data."""
        return [name for name, mark in self.by_instance.items() if mark.verdict == verdict]

    @property
    def failures(self) -> dict[str, Counter[str]]:
        """Judge -> failure code -> number of references without its opinion."""
        found: dict[str, Counter[str]] = {judge: Counter() for judge in self.judges}
        for mark in self.by_instance.values():
            for opinion in mark.opinions:
                if opinion.failure:
                    found[opinion.judge][opinion.failure.code] += 1
        return found


# --- marks file -------------------------------------------------------------------------------------------------------
# Stores the marks of the reference filter: one file per benchmark and data.
#
# STORE/filters/BENCHMARK-<benchmark digest>-<data digest>.json. Files are written atomically, so that they are always
# complete. Explanations can quote the data: the files are as confidential as the run folders.

FAILURE = JsonForm(Failure, key_map("boundary code message"))

OPINION = JsonForm(
    ReferenceOpinion,
    key_map("judge outside=outside_prompt explanation failure"),
    nested={"failure": FAILURE.one_or_none},
)


def _write_mark(mark: ReferenceMark) -> dict[str, Any]:
    """Convert a mark to JSON, including its verdict for readers of the file."""
    return {"verdict": mark.verdict, "opinions": OPINION.many.write(mark.opinions)}


def _read_mark(content: Mapping[str, Any]) -> ReferenceMark:
    """Read a stored mark; its verdict is computed from its opinions."""
    return ReferenceMark(OPINION.many.read(content["opinions"]))


MARKS = JsonForm(
    ReferenceMarks,
    key_map(
        "benchmark benchmark_digest data_digest tier selection judges prompt_version status made=started by_instance"
    ),
    nested={"judges": TUPLE, "status": Nested(str, RunStatus), "by_instance": by_name(Nested(_write_mark, _read_mark))},
)
"""The JSON form of the marks of a benchmark."""


def marks_file(store: Store, benchmark: str, benchmark_digest: str, data_digest: str) -> Path:
    """Return the file of the marks of this benchmark on this data."""
    return store.folder / "filters" / f"{benchmark}-{benchmark_digest[:10]}-{data_digest[:10]}.json"


def write_marks(store: Store, marks: ReferenceMarks) -> Path | None:
    """Store marks in place of older ones, and return their file.

    Partial marks do not replace complete ones: the older file stays, and None is returned.
    Raises: StoreError or StoreFullError if they cannot be written.
    """
    path = marks_file(store, marks.benchmark, marks.benchmark_digest, marks.data_digest)
    older = read_marks(store, marks.benchmark, marks.benchmark_digest, marks.data_digest)
    if marks.status != RunStatus.COMPLETE and older is not None and older.status == RunStatus.COMPLETE:
        return None
    try:
        write_confidential(path, json.dumps(MARKS.write(marks), indent=1, ensure_ascii=True) + "\n")
    except OSError as error:
        raise error_class(error, StoreError)(
            f"{path} cannot be written: {error.strerror or error}. Completions already received are in the "
            "store's cache: free some space and run the same command again."
        ) from error
    return path


def read_marks(store: Store, benchmark: str, benchmark_digest: str, data_digest: str) -> ReferenceMarks | None:
    """Read the marks of a benchmark on this data; None if there are none. Raises: StoreError if the file is damaged."""
    path = marks_file(store, benchmark, benchmark_digest, data_digest)
    try:
        content = json.loads(read_confidential(path))
        return MARKS.read(content)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{path} is damaged ({error}). Remove it and run the same command again.") from error


# --- results ----------------------------------------------------------------------------------------------------------
# References with information from outside the prompt, and scores with and without them: tables and JSON.

INTERVALS = (
    "Brackets: 95% confidence intervals. Kept and set aside are different instances, so the interval of their "
    "difference combines both intervals (Newcombe 1998). Kept minus all is kept minus the rest, times the share of the "
    "rest."
)
"""Explanation of the intervals."""


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
    work: tuple[RequestTotals, ...] = ()
    """Requests to each judge in this execution; empty if no request was needed."""
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
        if work.model.name == judge:
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
        work = {one.model.name: one for one in benchmark.work}
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
