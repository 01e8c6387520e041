"""Write the folder of an imported run: scores under the published rule, completions and judgments.

Tables are written by whole columns, because all data is in memory. Scores under the corrected rule are computed
later, when the run is rescored.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan
from typing import Any, Literal

from medhelm.domain import (
    JURY,
    RULES,
    Benchmark,
    Completion,
    Estimate,
    Failure,
    ImportedRun,
    JudgeTally,
    Judgment,
    Jury,
    JuryResult,
    Model,
    Origin,
    Run,
    Usage,
)
from medhelm.evaluation.jury_recorder import make_jury_result
from medhelm.evaluation.run_recorder import group_means, identity, make_run, seed_of
from medhelm.io.output_folder import atomic_folder
from medhelm.io.parquet import ColumnWriter
from medhelm.scoring.metrics import METRICS
from medhelm.storage.judgments import COMPLETION_COLUMNS, JUDGMENT_COLUMNS, REPLY_COLUMNS, completion_row
from medhelm.storage.run_file import write_run
from medhelm.storage.runs import RECORD_COLUMNS, parts_column, score_column
from medhelm.storage.store import Store

_MISSING = Completion(failure=Failure("provider", "no_result", "the files hold no completion of this instance"))
_JUDGES_NEEDED = 2
_quoted = json.encoder.encode_basestring  # quotes a text as JSON without creating an encoder each time


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRunFolder:
    """A run of another harness, with its names in MedHELM."""

    benchmark: Benchmark
    """The benchmark, with the prompts of the other harness."""
    data_digest: str
    """Hash of all instances and prompts."""
    origin: Origin
    """The files it was read from."""
    model: str
    """The model's name here."""
    imported: ImportedRun
    """The imported data; metrics have their names here, main metric first."""

    @property
    def reached(self) -> Model:
        """Return the model, with its server and settings as far as the files give them."""
        return model_of(self.model)

    @property
    def jury(self) -> Jury | None:
        """Return its jury, with the default minimum of judges per instance; None for a run without judges."""
        judges = tuple(self.imported.judges)
        return Jury(judges=judges, min_judges=min(_JUDGES_NEEDED, len(judges))) if judges else None

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of the run as far as the files give them, and its origin."""
        one = self.imported
        return {
            "sample": "default",
            "limit": None,
            "seed": 0,
            "max_tokens": one.max_tokens or None,
            "temperature": one.temperature,
            "stop": list(one.stop),
            "imported": f"{self.origin.harness}:{self.origin.run}",
            "deployment": one.deployment,
        }

    @property
    def is_grouped(self) -> bool:
        """Return True if the benchmark's score is the mean of group means."""
        return bool(self.benchmark.group_column)


def model_of(name: str) -> Model:
    """Return a model of which only the name is known."""
    provider, slash, rest = name.partition("/")
    return Model(name=name, provider=provider if slash else "", remote_name=rest if slash else name)


def write_imported_run(one: ImportedRunFolder, store: Store, writer: ColumnWriter) -> tuple[Run, list[str]]:
    """Write the run to a temporary folder and rename it. Returns: the run, and remarks on irregularities."""
    columns = _Columns(one)
    run = _run(one, columns)
    final = store.run_folder(run.benchmark, run.model, run.id)
    with atomic_folder(final) as new:
        writer.write(new / "records.parquet", columns.kinds, columns.records)
        if run.jury_result:
            judgments, replies = columns.judgments()
            writer.write(new / "judgments.parquet", JUDGMENT_COLUMNS, judgments)
            writer.write(new / "replies.parquet", REPLY_COLUMNS, replies)
        write_run(new, run)
    return replace(run, folder=final), columns.remarks


class _Columns:
    """The tables of a run, column by column."""

    def __init__(self, one: ImportedRunFolder) -> None:
        self.one = one
        imported = one.imported
        self.ids = [instance.id for instance in imported.instances]
        self.completions = [imported.completions.get(id_, _MISSING) for id_ in self.ids]
        self.groups = [instance.group for instance in imported.instances]
        self.scores = {name: [own.get(id_) for id_ in self.ids] for name, own in imported.scores.items()}
        self.remarks = [
            f"{name}: {n:,} of {len(self.ids):,} instances have no score"
            for name, own in self.scores.items()
            if (n := sum(score is None for score in own))
        ]
        self.kinds = dict(RECORD_COLUMNS)
        for name in self.scores:
            self.kinds |= {score_column(name, rule): "DOUBLE" for rule in RULES}
        if one.is_grouped:
            self.kinds |= {parts_column(name, "published"): "VARCHAR" for name in self.scores}

    @property
    def records(self) -> dict[str, Sequence[Any]]:
        """Return the columns of the records."""
        rows = [completion_row(completion) for completion in self.completions]
        table: dict[str, Sequence[Any]] = {
            "position": range(len(self.ids)),
            "instance_id": self.ids,
            "cluster": [instance.cluster for instance in self.one.imported.instances],
            "group": self.groups,
            "request_digest": "",
            "completion": [completion.text for completion in self.completions],
            "suspicions": "",
        }
        table |= _by_column(rows, COMPLETION_COLUMNS)
        for name, own in self.scores.items():
            table[score_column(name, "published")] = own
            if self.one.is_grouped:
                pairs = zip(self.groups, own, strict=True)
                table[parts_column(name, "published")] = [
                    None if score is None else json.dumps({group: (score, 1.0)}) for group, score in pairs
                ]
        if self.one.jury:
            said = [self.one.imported.judgments.get(id_, ()) for id_ in self.ids]
            table["jury_coverage"] = [
                sum(cell.failure is None for cell in own) / len(own) if own else None for own in said
            ]
        return table

    def judgments(self) -> tuple[dict[str, Sequence[Any]], dict[str, Sequence[Any]]]:
        """Return the columns of the judgments, and of the judges' completions."""
        said = self.one.imported.judgments
        cells = [(position, id_, cell) for position, id_ in enumerate(self.ids) for cell in said.get(id_, ())]
        judgments: dict[str, Sequence[Any]] = {
            "position": [position for position, _, _ in cells],
            "instance_id": [id_ for _, id_, _ in cells],
            "judge": [cell.judge for _, _, cell in cells],
            "criterion": [cell.criterion for _, _, cell in cells],
            "score": [cell.score for _, _, cell in cells],
            "points": [cell.points for _, _, cell in cells],
            "failure_code": [cell.failure and cell.failure.code for _, _, cell in cells],
            "failure_message": [cell.failure and cell.failure.message for _, _, cell in cells],
            "explanation": [cell.explanation for _, _, cell in cells],
        }
        by_judge: dict[tuple[int, str, str], list[Judgment]] = {}
        for position, id_, cell in cells:
            by_judge.setdefault((position, id_, cell.judge), []).append(cell)
        spoken = [reply_of(own) for own in by_judge.values()]
        rows = [completion_row(reply) for reply in spoken]
        replies: dict[str, Sequence[Any]] = {
            "position": [position for position, _, _ in by_judge],
            "instance_id": [id_ for _, id_, _ in by_judge],
            "judge": [judge for _, _, judge in by_judge],
            "part": [0] * len(rows),
            "attempt": [0] * len(rows),
            "request_digest": "",
            "text": [reply.text for reply in spoken],
        }
        return judgments, replies | _by_column(rows, COMPLETION_COLUMNS)


def _by_column(rows: Sequence[Mapping[str, Any]], names: Iterable[str]) -> dict[str, Sequence[Any]]:
    return {name: [row[name] for row in rows] for name in names}


def reply_of(judgments: Sequence[Judgment]) -> Completion:
    """Build a judge's completion that parses to these judgments, so that they can be scored again.

    >>> reply_of([Judgment(judge="j", criterion="accuracy", score=4.0, explanation="Fine.")]).text
    '{"accuracy": {"score": 4, "explanation": "Fine."}}'
    """
    if all(one.failure for one in judgments):
        return Completion(failure=judgments[0].failure)
    cells = ", ".join(
        f'{_quoted(one.criterion)}: {{"score": {_plain(one.score)}, "explanation": {_quoted(one.explanation)}}}'
        for one in judgments
    )
    return Completion(text=f"{{{cells}}}", finish_reason="stop")


def _plain(score: float | None) -> str:
    """Return a score as JSON; whole numbers have no decimal point."""
    if score is None or not isfinite(score):
        return "null"
    return str(int(score)) if score.is_integer() else repr(score)


def _run(one: ImportedRunFolder, columns: _Columns) -> Run:
    imported, jury = one.imported, one.jury
    run_id = identity(one.benchmark, one.data_digest, one.reached, one.settings, jury)
    failures = Counter(c.failure.code for c in columns.completions if c.failure)
    n, n_completions = imported.n_expected or len(columns.ids), len(columns.ids) - failures.total()
    return make_run(
        one.benchmark,
        run_id=run_id,
        data_digest=one.data_digest,
        model=one.reached,
        tier=imported.tier,
        settings=one.settings,
        origin=one.origin,
        status=_status(n, len(columns.ids), failures.total()),
        n=n,
        n_completions=n_completions,
        failures=failures,
        usage=_usage(columns.completions),
        started=imported.started,
        seconds=0.0,
        main_metric=next(iter(columns.scores)),
        estimates={rule: _estimates(one, columns, run_id) if rule == "published" else {} for rule in RULES},
        groups=_group_means(columns) if one.is_grouped else {},
        jury_result=_jury_result(one, jury, columns) if jury else None,
    )


def _status(n: int, there: int, n_failed: int) -> Literal["complete", "partial", "failed"]:
    if there < n:
        return "partial"
    return "failed" if n_failed == n else "complete"


def _usage(completions: Sequence[Completion]) -> Usage:
    return Usage(
        input=sum(completion.usage.input for completion in completions),
        cached_input=sum(completion.usage.cached_input for completion in completions),
        output=sum(completion.usage.output for completion in completions),
        reasoning=sum(completion.usage.reasoning for completion in completions),
        cache_write=sum(completion.usage.cache_write for completion in completions),
    )


def _estimates(one: ImportedRunFolder, columns: _Columns, run_id: str) -> dict[str, Estimate]:
    """Return the mean of each metric under the published rule, over instances or over groups."""
    import numpy as np

    from medhelm.analysis.statistics.means import MetricScores, estimate_metrics
    from medhelm.analysis.statistics.ratios import linearized

    metrics = {}
    for name, own in columns.scores.items():
        values = np.array([np.nan if score is None else score for score in own], dtype=float)
        low, high = scale_of(name, values, one.benchmark)
        parts = None
        if one.is_grouped:
            parts = [{group: (score or 0.0, 1.0)} for group, score in zip(columns.groups, own, strict=True)]
        metrics[name] = MetricScores(linearized(values, parts), low, high)
    return estimate_metrics(metrics, seed_of(run_id))


def scale_of(metric: str, values: Any, benchmark: Benchmark) -> tuple[float, float]:
    """Return the ends of a metric's scale; for an unknown metric, 0 and 1, extended to cover its `values`."""
    if metric == JURY and benchmark.rubric:
        return benchmark.rubric.low, benchmark.rubric.high
    if known := METRICS.if_usable(metric):
        return known.low, known.high
    scored = values[values == values]
    return min(0.0, *scored.tolist(), 0.0), max(1.0, *scored.tolist(), 1.0)


def _group_means(columns: _Columns) -> dict[str, dict[str, float | None]]:
    """Return the means of the main metric by group, under the published rule."""
    scores = [nan if score is None else score for score in next(iter(columns.scores.values()))]
    return group_means(columns.groups, {"published": scores})


def _jury_result(one: ImportedRunFolder, jury: Jury, columns: _Columns) -> JuryResult | None:
    """Return the totals of the judges; None if the benchmark has no rubric."""
    rubric = one.benchmark.rubric
    if rubric is None:
        return None
    expected: Counter[str] = Counter()
    failed: dict[str, Counter[str]] = {judge.name: Counter() for judge in jury.judges}
    n_too_few_judges = 0
    criteria = {criterion.name for criterion in rubric.criteria}
    for judgments in one.imported.judgments.values():
        incomplete = {judgment.judge for judgment in judgments if judgment.failure}
        n_too_few_judges += len(jury.judges) - len(incomplete) < jury.min_judges
        for judgment in judgments:
            if judgment.criterion in criteria:
                expected[judgment.judge] += 1
                if judgment.failure:
                    failed[judgment.judge][judgment.failure.code] += 1
    return make_jury_result(
        jury,
        rubric,
        {name: JudgeTally(expected=expected[name], failures=dict(failed[name])) for name in failed},
        n_blank=sum(c.failure is None and not (c.text or "").strip() for c in columns.completions),
        n_too_few_judges=n_too_few_judges,
    )
