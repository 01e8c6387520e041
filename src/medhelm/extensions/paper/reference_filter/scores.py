"""The reference filter of the MedHELM paper (Bedi et al. 2025, appendix D), from benchmarks to numbers.

benchmarks -> filterable -> instances -> question -> opinions of judges -> marks -> scores with and without

Some references hold facts from the record that are not in the prompt, so no model can know them. Judges read prompt and
reference and mark them. Marked references are set aside, never deleted: scores are shown with and without them.
The paper's tool counted a failed judge as a mark; here it counts as no opinion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from medhelm.analysis.leaderboard.cells import DECIMALS
from medhelm.analysis.ratios import estimate_ratios
from medhelm.benchmarks.data.dataset import Dataset
from medhelm.domain import JURY, Benchmark, Estimate, Model, Rule, Run, RunStatus
from medhelm.domain.benchmark import group_by
from medhelm.domain.result import Remark
from medhelm.errors import ErrorCollector, UserError
from medhelm.evaluation.request_totals import RequestTotals
from medhelm.evaluation.session import EvaluationSetup, check_models, open_permitted, with_prices, without_deleted
from medhelm.extensions.paper.reference_filter.marking import VERSION, MarkingResult, filterable, mark_references
from medhelm.extensions.paper.reference_filter.report import (
    REFERENCE_VERDICTS,
    FilteredBenchmark,
    FilteredScore,
    ReferenceMarks,
    ReferenceVerdict,
    ScoreGap,
    marks_file,
    read_marks,
    write_marks,
)
from medhelm.results.comparable import left_out_remarks, select_runs
from medhelm.scoring.metrics import METRICS
from medhelm.storage.damage import intact_runs
from medhelm.storage.run_scores import read_scores
from medhelm.storage.runs import load_runs
from medhelm.storage.store import Store, create, open_store

__all__ = ["FilterResult", "filter_references", "filterable"]

BESIDE = "rouge_l"
"""The metric that is shown beside the main one: it compares with the reference directly."""


class FilterResult(NamedTuple):
    """Result of filtering references."""

    benchmarks: tuple[FilteredBenchmark, ...]
    """One for each benchmark, in the order asked for."""
    marking: MarkingResult
    """Result of the marking; without work if no judges were used."""


def filter_references(
    benchmarks: Sequence[Benchmark],
    judges: Sequence[Model],
    setup: EvaluationSetup,
    *,
    rule: Rule = "corrected",
    note: Callable[[str], object],
    progress: Callable[[int, int], object] | None = None,
) -> FilterResult:
    """Mark the references of benchmarks, store the marks, and split the scores of the store's runs by them.

    Without judges nothing is sent: the marks in the store are used. `benchmarks` have references in free text (see
    `filterable`). `note` is called with messages for people, `progress` with the number of opinions received and the
    most that can come.
    Raises: UserError, MissingError or StoreError before anything is sent; StoreFullError if the disk fills up.
    """
    judges = with_prices(judges)
    errors = ErrorCollector()
    with errors.collect():
        check_models(judges, setup.settings, setup.environment, setup.store)
    datasets = open_permitted(benchmarks, judges, (), setup, errors)
    files: list[Path | None]
    if judges:
        place = create(setup.store)
        datasets = without_deleted(datasets, place)
        marking = mark_references(
            datasets,
            judges,
            store=place,
            settings=setup.settings,
            environment=setup.environment,
            note=note,
            progress=progress,
        )
        files = [_write_marks(place, marks, note) for marks in marking.marks]
    else:
        place = open_store(setup.store)
        datasets = without_deleted(datasets, place)
        marking = MarkingResult(marks=tuple(_read_marks(place, datasets)))
        files = [marks_file(place, m.benchmark, m.benchmark_digest, m.data_digest) for m in marking.marks]
    found = [
        compare_filtered_scores(
            marks,
            dataset.benchmark.title,
            store=place,
            rule=rule,
            file=file,
            work=marking.work.get(marks.benchmark, ()),
        )
        for dataset, marks, file in zip(datasets, marking.marks, files, strict=True)
    ]
    return FilterResult(tuple(found), marking)


def _write_marks(store: Store, marks: ReferenceMarks, note: Callable[[str], object]) -> Path | None:
    """Store marks and return their file; None, with a note, if there are none or only a part."""
    if not any(opinion.failure is None for mark in marks.by_instance.values() for opinion in mark.opinions):
        note(f"{marks.benchmark}: no reference could be marked, so nothing was stored")
        return None
    file = write_marks(store, marks)
    if file is None:
        note(f"{marks.benchmark}: these marks are not stored, because they are not all; complete ones from before stay")
    return file


def _read_marks(store: Store, datasets: Sequence[Dataset]) -> list[ReferenceMarks]:
    """Return the stored marks. Raises: UserError naming all benchmarks that have none."""
    found: list[ReferenceMarks] = []
    missing: list[str] = []
    for dataset in datasets:
        benchmark = dataset.benchmark
        marks = read_marks(store, benchmark.name, benchmark.digest, dataset.digest)
        if marks is None:
            missing.append(benchmark.name)
        else:
            found.append(marks)
    if missing:
        raise UserError(
            f"the store {store.folder} has no marks of {', '.join(missing)} on these instances. Name a model that "
            "marks them with --judge, or the same --sample, --limit, --seed and --tier as when they were marked. "
            "Nothing was sent."
        )
    return found


# --- scores with and without the references that were set aside -------------------------------------------------------


def compare_filtered_scores(
    marks: ReferenceMarks,
    title: str,
    *,
    store: Store,
    rule: Rule,
    file: Path | None,
    work: Sequence[RequestTotals],
) -> FilteredBenchmark:
    """Split the scores of the store's finished runs on the marked instances by their marks.

    If a model has several runs, one counts, as on the leaderboard. Runs on another selection of the data or of another
    version of the definition are not compared: a remark names their models. `file`: where the marks are stored.
    """
    own = [run for run in intact_runs(load_runs(store)) if run.benchmark == marks.benchmark and run.tier == marks.tier]
    here = [
        run for run in own if (run.benchmark_digest, run.data_digest) == (marks.benchmark_digest, marks.data_digest)
    ]
    chosen = select_runs(("", run) for run in here)
    runs = chosen.runs.values()
    scores = _with_ranks([split_score(run, metric, marks, rule) for run in runs for metric in _metrics(run, rule)])
    elsewhere = {run.model for run in own if run.is_complete} - {run.model for run in here}
    unused = [
        *left_out_remarks(chosen.left_out),
        *(
            Remark("unfinished_run", "", f"not compared, because the run was interrupted: {text}")
            for text in chosen.unfinished
        ),
    ]
    scores.sort(key=lambda score: (score.metric == BESIDE, score.metric, score.rank_all or len(scores), score.model))
    return FilteredBenchmark(
        title=title,
        marks=marks,
        file=file,
        work=tuple(work),
        scores=tuple(scores),
        remarks=(*_remarks(marks, sorted(elsewhere), scores), *unused),
    )


def score_gap(first: Estimate, second: Estimate, span: float) -> ScoreGap:
    """Return the difference of the means of two disjoint sets of instances, with its interval.

    The interval combines those of both means: the distance of each limit from the difference is the root of the summed
    squares of their distances from the means (Newcombe 1998, Stat. Med. 17, method 10; for means in general Zou and
    Donner 2008, Stat. Med. 27). It holds however the two were made, small and constant samples included. If a cluster
    has instances in both sets, it is too wide rather than too narrow, because what they share cancels out.

    Parameters: span, length of the metric's scale.

    >>> a, b = Estimate(value=0.8, low=0.7, high=0.9, n=50), Estimate(value=0.5, low=0.2, high=0.8, n=5)
    >>> gap = score_gap(a, b, 1.0)
    >>> f"{gap.value:.3f} {gap.low:.3f} {gap.high:.3f}"
    '0.300 -0.016 0.616'
    """
    value = first.value - second.value
    below = math.hypot(first.value - first.low, second.high - second.value)
    above = math.hypot(first.high - first.value, second.value - second.low)
    return ScoreGap(value, max(-span, value - below), min(span, value + above))


def _metrics(run: Run, rule: Rule) -> list[str]:
    """Return the main metric, and the one beside it if it was computed."""
    known = run.estimates[rule]
    return [name for name in dict.fromkeys((run.main_metric, BESIDE)) if name in known]


def _scale(run: Run, metric: str) -> tuple[float, float]:
    """Return both ends of the metric's scale."""
    if metric == JURY and run.jury_result:
        return run.jury_result.low, run.jury_result.high
    return METRICS[metric].low, METRICS[metric].high


def split_score(run: Run, metric: str, marks: ReferenceMarks, rule: Rule) -> FilteredScore:
    """Return the score of one model by one metric, on all instances and on those of each verdict."""
    stored = read_scores(run, metric, rule)
    verdicts = [mark.verdict if (mark := marks.by_instance.get(name)) else "unknown" for name in stored.ids]
    clusters = stored.clusters or [""] * len(stored.ids)
    low, high = _scale(run, metric)
    is_open = metric == JURY and run.jury_result is not None and run.jury_result.open_below

    def on(wanted: Sequence[bool]) -> Estimate | None:
        chosen = [i for i, is_wanted in enumerate(wanted) if is_wanted]
        parts = None if stored.parts is None else [stored.parts[i] for i in chosen]
        own_clusters = [clusters[i] for i in chosen]
        return estimate_ratios(stored.values[chosen], parts, own_clusters, low=low, high=high, open_below=is_open)

    parts: dict[ReferenceVerdict, Estimate | None] = {v: on([own == v for own in verdicts]) for v in REFERENCE_VERDICTS}
    whole, kept, rest = run.estimates[rule].get(metric), parts["kept"], on([own != "kept" for own in verdicts])
    aside = parts["set_aside"]
    return FilteredScore(
        model=run.model,
        metric=metric,
        is_main=metric == run.main_metric,
        all=whole,
        parts=parts,
        kept_minus_set_aside=score_gap(kept, aside, high - low) if kept and aside else None,
        kept_minus_all=_gap_to_all(kept, rest, whole, high - low) if kept and rest and whole else None,
    )


def _gap_to_all(kept: Estimate, rest: Estimate, whole: Estimate, span: float) -> ScoreGap:
    """Return the mean of the kept instances minus that of all, with its interval.

    The kept instances are a part of all, so both means are far from independent. The difference equals kept minus the
    rest, times the share of the rest, and these two sets are disjoint. For a mean of groups the interval holds to first
    order; the value itself is exact.
    """
    gap = score_gap(kept, rest, span)
    share = rest.n / (kept.n + rest.n)
    value = kept.value - whole.value
    return ScoreGap(value, value - share * (gap.value - gap.low), value + share * (gap.high - gap.value))


def _with_ranks(scores: Sequence[FilteredScore]) -> list[FilteredScore]:
    """Return the scores with ranks among the models by each metric; equal numbers share a rank."""
    ranked = []
    for score in scores:
        rivals = [other for other in scores if other.metric == score.metric]
        ranked.append(
            replace(
                score,
                rank_all=_rank(score.all, [other.all for other in rivals], score.metric),
                rank_kept=_rank(score.parts["kept"], [other.parts["kept"] for other in rivals], score.metric),
            )
        )
    return ranked


def _rank(own: Estimate | None, rivals: Sequence[Estimate | None], metric: str) -> int | None:
    """Return the rank: 1 + the number of models that are better."""
    if own is None:
        return None
    known = METRICS.if_usable(metric)
    sign = -1 if known and not known.higher_is_better else 1
    mine = round(sign * own.value, DECIMALS)
    return 1 + sum(other is not None and round(sign * other.value, DECIMALS) > mine for other in rivals)


def _remarks(marks: ReferenceMarks, elsewhere: Sequence[str], scores: Sequence[FilteredScore]) -> Iterator[Remark]:
    """Yield remarks on limits of the comparison on one benchmark, and on the effect on the order of models."""
    if marks.prompt_version != VERSION:
        text = f"marked with version {marks.prompt_version} of the question; the current version is {VERSION}"
        yield Remark("old_question", marks.benchmark, text)
    if marks.status == RunStatus.PARTIAL:
        yield Remark("partly_marked", marks.benchmark, "only partly marked; run the same command again to continue")
    if elsewhere:
        text = "not compared, because their runs used other instances or another version of the benchmark"
        yield Remark("other_instances", marks.benchmark, f"{text}: {', '.join(elsewhere)}")
    if not scores:
        text = "the store has no finished run on these instances, so there are marks but no scores"
        yield Remark("no_scores", marks.benchmark, text)
    ranked = (score for score in scores if score.rank_all is not None and score.rank_kept is not None)
    for metric, own in group_by(ranked, lambda score: score.metric).items():
        if len(own) > 1:
            yield Remark("model_order", marks.benchmark, _order_in_words(metric, own))


def _order_in_words(metric: str, scores: Sequence[FilteredScore]) -> str:
    """Return whether the order of the models changes by one metric."""
    moved = [f"{s.model} {s.rank_all} to {s.rank_kept}" for s in scores if s.rank_all != s.rank_kept]
    if not moved:
        return f"by {metric}, the {len(scores)} models rank in the same order without the references set aside"
    return f"by {metric}, the order changes without the references set aside: {', '.join(moved)}"
