"""Analysis of the judges of some stores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from medhelm.analysis.jury.cells import JudgedRun, collect_judgments
from medhelm.analysis.jury.findings import remarks, sum_tallies, summarize_benchmarks, verdict
from medhelm.analysis.jury.judges import (
    JudgedBenchmark,
    JudgeScores,
    JuryAnalysis,
    JuryReliability,
    jury_reliability,
    summarize_jury,
)
from medhelm.domain import JURY, JudgeTally, Rule, Run, Tier
from medhelm.domain.result import Remark
from medhelm.errors import UserError, suggestion
from medhelm.models.model_names import family_of
from medhelm.results.comparable import SelectedRuns, default_tier, judges_under_test, left_out_remarks, select_runs
from medhelm.results.options import USUAL, BoardOptions
from medhelm.results.runs.pricing import read_pricing
from medhelm.results.runs.remarks import cached_completions_text, injection_effects, injection_remarks
from medhelm.results.runs.run_filter import load_filtered
from medhelm.results.spending import repriced
from medhelm.results.suites import suite_sort_key
from medhelm.storage.damage import intact_runs
from medhelm.storage.judgments import mean_grades, read_judgments
from medhelm.storage.runs import RunScores, load_runs, read_columns, score_column
from medhelm.storage.store import open_store

SEED = 0
"""Seed of the resampling, so that the numbers come out the same each time."""


def judged_benchmarks(stores: Sequence[Path]) -> set[str]:
    """Return the benchmarks on which any run of the stores was judged. Raises: StoreError."""
    return {run.benchmark for path in stores for run in load_runs(open_store(path)) if run.jury_result}


def analyze_judges(
    stores: Sequence[Path],
    benchmarks: Sequence[str] = (),
    options: BoardOptions = USUAL,
    *,
    families: Mapping[str, str] | None = None,
) -> JuryAnalysis:
    """Analyze the judges of the finished runs of some stores.

    If a model has several runs on a benchmark, one counts, as on the leaderboard (`run_selection.select_runs`). Runs
    need the same jury, but not the same prompts or sampling: judges are compared, not models.

    Parameters
    ----------
    stores
        Folders of the stores.
    benchmarks
        Benchmarks to analyze; empty for all.
    options
        Runs that count, and how judgments become scores. By the published rule grades are cut to whole numbers, one
        judge is enough, and the lowest grade is never the best. Points count as by the corrected rule.
    families
        Judge or model -> its family, where its name does not show it.

    Raises
    ------
    StoreError
        If a folder is not a store.
    UserError
        If nothing was judged, or for an unknown name.
    """
    choice, tier = _select_judged(stores, benchmarks, options)
    rule = options.rule
    by_benchmark: dict[str, dict[str, Run]] = {}
    for model, benchmark in sorted(choice.runs, key=lambda key: (suite_sort_key(key[1]), key)):
        by_benchmark.setdefault(benchmark, {})[model] = choice.runs[model, benchmark]
    groups = _families(by_benchmark, families or {})
    excluded = left_out_remarks(choice.left_out)
    benches = []
    for runs in by_benchmark.values():
        bench, problems = _read_benchmark(runs, rule, groups)
        benches.append(bench)
        excluded += problems
    effects = injection_effects(choice.runs, rule)
    numbers = tuple(summarize_jury(bench, np.random.default_rng(SEED)) for bench in benches)
    together = summarize_benchmarks(benches, numbers)
    return JuryAnalysis(
        benchmarks=numbers,
        overall=together,
        families=groups,
        verdict=tuple(verdict(numbers, together, tier)),
        remarks=(
            *remarks(numbers, together, tier),
            *_self_judging_remarks(run for own in by_benchmark.values() for run in own.values()),
            *injection_remarks(effects),
            *excluded,
        ),
        tier=tier,
        scoring=rule,
        injection_effects=effects,
    )


def judges_on_benchmark(runs: Sequence[tuple[Run, RunScores]]) -> JuryReliability | None:
    """Return the judges of one benchmark beside each other; None without two judges.

    `runs`: of the benchmark, one for each model, with ids and clusters of their instances.
    """
    judges = sorted({judge for run, _ in runs for judge in run.tallies})
    if len(judges) < 2:
        return None
    clusters: list[str] = []
    grades: list[np.ndarray] = []
    for run, scored in runs:
        assert run.jury_result is not None, "only judged runs are looked at"
        cluster_of = {
            name: f"cluster {one}" for name, one in zip(scored.ids, scored.clusters or (), strict=False) if one
        }
        ids, found = mean_grades(run)
        clusters += [cluster_of.get(name, name) for name in ids]
        missing = np.full(len(ids), np.nan)
        low, high = run.jury_result.low, run.jury_result.high
        grades.append((np.stack([found.get(judge, missing) for judge in judges]) - low) / (high - low))
    _, codes = np.unique(clusters, return_inverse=True)
    return jury_reliability(JudgeScores.stack([(judges, np.concatenate(grades, axis=1), codes.astype(np.intp))]))


def _select_judged(
    stores: Sequence[Path], benchmarks: Sequence[str], options: BoardOptions
) -> tuple[SelectedRuns, Tier]:
    """Return the judged runs that count, and their tier; parameters and errors as `analyze_judges`."""
    stored, pricing = load_filtered(stores, options.wanted), read_pricing(options.pricing)
    found = [(label, run) for label, run in stored if run.jury_result]
    tier = options.tier or default_tier(run for _, run in found)
    kept = {run.folder for run in intact_runs(run for _, run in found if run.tier == tier)}
    found = [(label, run) for label, run in found if run.folder in kept]
    known = {run.benchmark for _, run in found}
    if unknown := [name for name in benchmarks if name not in known]:
        raise UserError("\n".join(f"no run of `{n}` was judged. {suggestion(n, known)}".rstrip() for n in unknown))
    if pricing is not None:
        found = list(zip([label for label, _ in found], repriced([run for _, run in found], pricing), strict=True))
    wanted = ((label, run) for label, run in found if run.benchmark in (benchmarks or known))
    choice = select_runs(wanted, comparable_only=False)
    if not choice.runs:
        unfinished = f"; unfinished: {'; '.join(choice.unfinished)}" if choice.unfinished else ""
        places = ", ".join(map(str, stores))
        cached = "" if stored else cached_completions_text(stores)
        text = f"no finished run with judges in {places}. `medhelm run --judge` makes some{unfinished}."
        raise UserError(f"{text} {cached}".rstrip())
    return choice, tier


def _families(by_benchmark: Mapping[str, Mapping[str, Run]], given: Mapping[str, str]) -> dict[str, str]:
    """Return judge or model -> family, as given or as its name shows. Raises: UserError for an unknown name."""
    groups = {}
    for runs in by_benchmark.values():
        for model, run in runs.items():
            groups[model] = family_of(*([run.resolved_model.remote_name] if run.resolved_model else []), run.model)
            groups |= {judge.name: family_of(judge.remote_name, judge.name) for judge in run.judges}
    if unknown := [name for name in given if name not in groups]:
        raise UserError("\n".join(f"no judge or model `{n}`. {suggestion(n, groups)}".rstrip() for n in unknown))
    return {**groups, **given}


def _self_judging_remarks(runs: Iterable[Run]) -> Iterator[Remark]:
    """Yield a remark for each judge that grades its own completions."""
    for name in judges_under_test(runs):
        text = f"{name} is both a judge and a model under test: it grades its own completions."
        yield Remark("judge_under_test", name, text)


def _read_benchmark(
    runs: Mapping[str, Run], rule: Rule, families: Mapping[str, str]
) -> tuple[JudgedBenchmark, list[Remark]]:
    """Read the judgments of several models on one benchmark; return also a remark for each model left out."""
    latest = max(runs.values(), key=lambda run: run.started)
    own = {model: run for model, run in runs.items() if run.benchmark_digest == latest.benchmark_digest}
    problems = [
        Remark(
            "other_benchmark_version",
            model,
            f"{model} on {latest.benchmark} was judged with another version of the benchmark: left out. "
            f"`medhelm rejudge {latest.benchmark}` judges it again.",
        )
        for model in runs
        if model not in own
    ]
    judged = latest.jury_result
    assert judged is not None, "only runs with judges are looked at"
    published = rule == "published" and judged.form == "grades"
    bench = JudgedBenchmark(
        benchmark=latest.benchmark,
        title=latest.title,
        rubric=latest.rubric,
        cells=collect_judgments(
            [_read_judged_run(model, run, rule) for model, run in own.items()],
            low=judged.low,
            high=judged.high,
            mirrored=() if published else judged.lower_is_better,
        ),
        tallies=total_tallies(own.values()),
        at_least=1 if published else judged.jury.min_judges,
        families=families,
    )
    return bench, problems


def total_tallies(runs: Iterable[Run]) -> dict[str, JudgeTally]:
    """Return judge -> its judgments on all of these runs, counted."""
    parts: dict[str, list[JudgeTally]] = {}
    for run in runs:
        for judge, tally in run.tallies.items():
            parts.setdefault(judge, []).append(tally)
    return {judge: sum_tallies(own) for judge, own in parts.items()}


def _read_judged_run(model: str, run: Run, rule: Rule) -> JudgedRun:
    """Read the judgments of one model. By the published rule, grades are truncated to whole numbers."""
    stored = score_column(JURY, rule)
    columns = read_columns(run, ["instance_id", "cluster", "completion", stored])
    said = read_judgments(run)
    pairs = list(zip(said.instance_ids, said.judges, strict=True))
    failed = {pair for pair, code in zip(pairs, said.failures, strict=True) if code}
    graded = {instance for instance, judge in pairs if (instance, judge) not in failed}
    ids = columns["instance_id"]
    scores = np.array([np.nan if score is None else score for score in columns[stored]], dtype=float)
    return JudgedRun(
        model=model,
        instances=ids,
        clusters=[cluster or "" for cluster in columns["cluster"]],
        lengths=np.array([len((text or "").strip()) or np.nan for text in columns["completion"]]),
        default_scores=np.where([name in graded for name in ids], np.nan, scores),
        judged_instances=said.instance_ids,
        judges=said.judges,
        criteria=said.criteria,
        grades=np.trunc(said.scores) if rule == "published" else said.scores,
        points=said.points if run.jury_result and run.jury_result.form == "points" else None,
    )
