"""Analyze the judges of stores, and show the results as tables, CSV and JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from medhelm.analysis.agreement.reliability import RaterAgreement
from medhelm.analysis.jury.cells import (
    JudgedRun,
    JudgePanelRanking,
    JudgmentCells,
    JuryWithoutNamed,
    Ranking,
    collect_judgments,
)
from medhelm.analysis.jury.findings import remarks, sum_tallies, summarize_benchmarks, verdict
from medhelm.analysis.jury.judges import (
    JudgeAgreement,
    JudgedBenchmark,
    JudgeScores,
    JudgeSummary,
    JuryAnalysis,
    JuryReliability,
    JurySummary,
    LengthBias,
    jury_reliability,
    summarize_jury,
)
from medhelm.domain import JURY, Estimate, JudgeTally, JuryResult, Rule, Run, Tier
from medhelm.domain.benchmark import group_by
from medhelm.domain.completion import explain_codes
from medhelm.domain.result import Remark
from medhelm.domain.text import listed
from medhelm.errors import UserError, suggestion
from medhelm.models.model_names import family_of
from medhelm.results.comparable import SelectedRuns, default_tier, judges_under_test, left_out_remarks, select_runs
from medhelm.results.formats.fields import (
    INJECTIONS,
    STRING,
    Field,
    estimate_json,
    fields_json,
    injection_effects_json,
    map_of,
    plain_json,
    select,
    select_fields,
    table_of,
)
from medhelm.results.formats.tables import (
    Value,
    counts_text,
    data_text,
    decimal,
    estimate_numbers,
    estimate_text,
    number,
    printable,
    render,
    score_decimals,
    with_minus,
)
from medhelm.results.options import USUAL, BoardOptions, read_pricing, suite_sort_key
from medhelm.results.runs.remarks import cached_completions_text, injection_effects, injection_remarks
from medhelm.results.runs.selection import load_filtered, without_address
from medhelm.results.spending import repriced
from medhelm.storage.damage import intact_runs, leave_out
from medhelm.storage.judgments import mean_grades, read_judgments
from medhelm.storage.run_scores import RunScores
from medhelm.storage.runs import load_runs, read_columns, score_column
from medhelm.storage.store import DamagedRunError, open_store

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

    If a model has several runs on a benchmark, one counts, as on the leaderboard (`comparable.select_runs`). Runs
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
    choice, tier = select_judged(stores, benchmarks, options)
    rule = options.rule
    by_benchmark: dict[str, dict[str, Run]] = {}
    for model, benchmark in sorted(choice.runs, key=lambda key: (suite_sort_key(key[1]), key)):
        by_benchmark.setdefault(benchmark, {})[model] = choice.runs[model, benchmark]
    groups = _families(by_benchmark, families or {})
    excluded = left_out_remarks(choice.left_out)
    benches = []
    for runs in by_benchmark.values():
        bench, problems = _read_benchmark(runs, rule, groups)
        benches += [bench] if bench else []
        excluded += problems
    if not benches:
        raise UserError("\n".join(["no judgments can be read.", *(remark.text for remark in excluded)]))
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


def select_judged(
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
        text = f"no finished run with judges in {places}. Start one with `medhelm run --judge`{unfinished}."
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
) -> tuple[JudgedBenchmark | None, list[Remark]]:
    """Read the judgments of several models on one benchmark, if any can be read, and a remark for each left out."""
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
    sheets = []
    for model, run in own.items():
        try:
            sheets.append(read_judged_run(model, run, rule))
        except DamagedRunError as error:
            leave_out([error])
            text = f"{model} on {run.title} is left out: its judgments cannot be read. Use `medhelm runs remove"
            problems.append(Remark("damaged_judgments", model, f"{text} {run.id[:10]}`, and run it again."))
    if not sheets:
        return None, problems
    bench = JudgedBenchmark(
        benchmark=latest.benchmark,
        title=latest.title,
        rubric=latest.rubric,
        cells=judgment_cells(sheets, judged, rule),
        tallies=total_tallies(own[sheet.model] for sheet in sheets),
        at_least=needed_judges(judged, rule),
        families=families,
    )
    return bench, problems


def judgment_cells(sheets: Sequence[JudgedRun], judged: JuryResult, rule: Rule) -> JudgmentCells:
    """Return the judgments of several models on one benchmark, on the scale of `judged`."""
    is_published = rule == "published" and judged.form == "grades"
    mirrored = () if is_published else judged.lower_is_better
    return collect_judgments(sheets, low=judged.low, high=judged.high, mirrored=mirrored)


def needed_judges(judged: JuryResult, rule: Rule) -> int:
    """Return how many judges must have graded a completion for it to have a score."""
    return 1 if rule == "published" and judged.form == "grades" else judged.jury.min_judges


def total_tallies(runs: Iterable[Run]) -> dict[str, JudgeTally]:
    """Return judge -> its judgments on all of these runs, counted."""
    tallies = [(judge, tally) for run in runs for judge, tally in run.tallies.items()]
    by_judge = group_by(tallies, lambda pair: pair[0])
    return {judge: sum_tallies([tally for _, tally in own]) for judge, own in by_judge.items()}


def read_judged_run(model: str, run: Run, rule: Rule) -> JudgedRun:
    """Read the judgments of one model. By the published rule, grades are truncated to whole numbers."""
    stored = score_column(JURY, rule)
    columns = read_columns(run, ["instance_id", "cluster", "completion", stored])
    said = read_judgments(run)
    pairs = list(zip(said.instance_ids, said.judges, strict=True))
    failed = {pair for pair, code in zip(pairs, said.failures, strict=True) if code}
    graded = {instance for instance, judge in pairs if (instance, judge) not in failed}
    ids = columns["instance_id"]
    scores = np.array(columns[stored], dtype=float)
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


# --- in words ---------------------------------------------------------------------------------------------------------


def judge_sentences(stores: Sequence[Path], runs: Mapping[tuple[str, str], Run], options: BoardOptions) -> list[str]:
    """Return who judged these runs, and whether they can be relied on, in sentences; none without judges."""
    judged = {benchmark for (_, benchmark), run in runs.items() if run.jury_result}
    if not judged:
        return []
    found = analyze_judges(stores, sorted(judged), replace(options, clinicians=None))
    sentences = [*(_judge_sentence(judge) for judge in found.overall.judges), *found.verdict]
    return [without_address(text) for text in sentences]


def _judge_sentence(judge: JudgeSummary) -> str:
    """Return what one judge did, and how it graded."""
    tally = judge.tally
    parts = [f"{judge.judge}: {tally.expected - tally.failed:,} of {tally.expected:,} judgments"]
    if judge.severity:
        side = "lower" if judge.severity.value > 0 else "higher"
        parts.append(f"grades {decimal(abs(judge.severity.value), 2)} {side} than the others")
    if judge.agreement and judge.agreement.value is not None:
        parts.append(f"correlation with the others {with_minus(decimal(judge.agreement.value, 2) or '')}")
    if judge.self_preference and judge.self_preference.low > 0:
        parts.append(f"favors its own family by {decimal(judge.self_preference.value, 2)}")
    return f"{', '.join(parts)}."


# --- JSON -------------------------------------------------------------------------------------------------------------
# JSON of `medhelm jury --json`:
#
#     benchmarks   ID -> numbers on it
#     overall      the same over all benchmarks: means over benchmarks with equal weights
#     families     judge or model -> its family
#     verdict      sentences: whether the jury can be trusted to rank models
#     prompt_injection   [{model, benchmark, n, n_suspicious, mean, mean_without}]: completions with signs of a prompt
#                  injection, and the mean jury score with and without them
#     warnings     sentences
#     tier, scoring
#
#     numbers:
#       title, models, n_instances, n_completions
#       rubric     name of the rubric, `standard` or `extended`; empty if the benchmark has one only
#       scale      {low, high, form}: all grades are oriented so that `high` is good
#       judges     NAME -> a judge's numbers
#       agreement  a list of {on, n, level, icc_2_1, icc_3_k, weighted_kappa, alpha}; `on` is a criterion, `score` (each
#                  judge's score of a completion), or `met` (criteria met or not met); `level` is how alpha counts
#                  distances: nominal, ordinal or interval
#       one_judge  {value, low, high, n}: ICC(3,1) of scores with the interval that the verdict goes by; null over all
#       best, worst   share of the best and of the worst grade, 0..1
#       length     {basis, slope, spearman} of the jury's score
#       ranking    {pairs, pairs_told_apart, panels: [{name, judges, models: [{model, rank, value}], tau,
#                  swaps: [{better, worse, told_apart}]}]} or null; `better` is the one that the whole jury ranks first
#       without_named   {judges, one_judge_of_all, one_judge, pairs, pairs_told_apart,
#                  models: [{model, rank, value}], reordered: [[MODEL, MODEL]]}: the jury without judges whose
#                  `finding` is guesses, constant or against; agreement before and after as {value, low, high, n}, and
#                  pairs of models in another order than with all judges, the one that now ranks higher first; null if
#                  there are no such judges
#       harms      MODEL -> share of the criteria with negative points that judges found in its completions
#
#     a judge's numbers:
#       family, own_models
#       judgments  {expected, present, failed, failures: CODE -> count}
#       tokens     {input, cached_input, output, reasoning, cache_write}; cost_usd
#       mean, sd, best, worst
#       by_criterion   CRITERION -> its mean grade; empty where instances have criteria of their own
#       harshness  mean of the other judges minus its own grade, on the same completions and criteria
#       self_preference   see `analysis.jury.judges.self_preference`
#       length     {basis, slope, against_others, spearman}: grades for a doubling of length
#       agreement_with_others   correlation of its scores with the mean of the other judges'
#       finding    agrees, guesses, constant, against, or unknown; see `analysis.jury.judges`
#
# A number with a 95% interval is {value, low, high, n, method}. `low` and `high` are null without an interval, and the
# whole is null without a number. `method` names the method of the interval: see `NOTES`.

PARTS = "value low high n method"
"""Parts of a number with its interval in JSON."""


_NUMBERS = {"type": "object"}
"""Schema of the numbers of a jury, whose keys are listed above."""

FIELDS: list[Field[JuryAnalysis]] = [
    Field("verdict", lambda found: found.verdict, kind="texts"),
    Field("benchmarks", lambda found: {own.benchmark: _summary_json(own) for own in found.benchmarks}, kind="object",
          schema=map_of(_NUMBERS)),
    Field("overall", lambda found: _summary_json(found.overall), kind="object", schema=_NUMBERS),
    Field("families", lambda found: dict(found.families), kind="object", schema=map_of(STRING)),
    Field("prompt_injection", lambda found: injection_effects_json(found.injection_effects), kind="object",
          schema=INJECTIONS),
    Field("warnings", lambda found: [remark.text for remark in found.remarks], kind="texts"),
    Field("tier", lambda found: found.tier, kind="text"),
    Field("scoring", lambda found: found.scoring, kind="text"),
]  # fmt: skip
"""The judges of some stores."""


def as_json(analysis: JuryAnalysis) -> dict[str, Any]:
    """Return the output of `medhelm jury --json`; undefined numbers are None."""
    return fields_json(FIELDS, analysis)


def _summary_json(own: JurySummary) -> dict[str, Any]:
    """A jury on one benchmark, or over all."""
    judges = _judge_fields(own)
    return {
        **select(own, "title rubric models n_instances n_completions"),
        "scale": select(own, "low high form"),
        "judges": {judge.judge: fields_json(judges, judge) for judge in own.judges},
        "agreement": [fields_json(_AGREEMENT, part) for part in own.agreement],
        "one_judge": estimate_json(own.one_judge, "value low high n"),
        "best": estimate_json(own.best, PARTS),
        "worst": estimate_json(own.worst, PARTS),
        "length": _length_json(own.length),
        "ranking": _ranking_json(own.ranking) if own.ranking else None,
        "without_named": _without_named_json(own.without_named) if own.without_named else None,
        "harms": _by_name(own.harms),
    }


def _by_name(found: Mapping[str, Estimate]) -> dict[str, Any]:
    """Return numbers by the name of a model or criterion."""
    return {name: estimate_json(one, PARTS) for name, one in found.items()}


def _length_json(length: LengthBias | None) -> dict[str, Any] | None:
    """Return the relation of grades to length."""
    return fields_json(_length_fields(), length) if length else None


def _ranking_json(ranking: Ranking) -> dict[str, Any]:
    """Return the rankings by the whole jury and by parts of it."""
    return {
        **select(ranking, "pairs=n_pairs pairs_told_apart=n_significant"),
        "panels": [fields_json(_panel_fields(ranking), panel) for panel in ranking.panels],
    }


def _models_json(panel: JudgePanelRanking) -> list[dict[str, Any]]:
    """Models in order of rank."""
    rows = zip(panel.models, panel.ranks, panel.values, strict=True)
    return [{"model": model, "rank": rank, "value": number(value)} for model, rank, value in rows]


def _without_named_json(found: JuryWithoutNamed) -> dict[str, Any]:
    """Return the jury without the judges that are named."""
    return {
        "judges": list(found.judges),
        "one_judge_of_all": estimate_json(found.one_judge_of_all, "value low high n"),
        "one_judge": estimate_json(found.one_judge, "value low high n"),
        **select(found, "pairs=ranking.n_pairs pairs_told_apart=ranking.n_significant"),
        "models": _models_json(found.ranking.panels[0]) if found.ranking else [],
        "reordered": [list(pair) for pair in found.reordered],
    }


# --- fields -----------------------------------------------------------------------------------------------------------

T = TypeVar("T")

NAMES = 2
"""Most names in one cell."""


def _estimate(
    key: str, heading: str, get: Callable[[T], Estimate | None], places: int = 2, **settings: Any
) -> Field[T]:
    """Return the field of a number with its interval."""
    shown = {"text": lambda item: estimate_text(get(item), places), **settings}
    return Field(key=key, kind="interval", parts=PARTS, get=get, heading=heading, **shown)


def _share(key: str, heading: str, get: Callable[[JudgeSummary], Estimate | None]) -> Field[JudgeSummary]:
    return _estimate(key, heading, get, text=lambda judge: _share_text(get(judge)))


def _judge_fields(own: JurySummary) -> list[Field[JudgeSummary]]:
    """Return the fields of a judge of a jury."""
    places = score_decimals(own)
    heading = "Harsher than the others"
    harsher: Field[JudgeSummary] = _estimate("harshness", heading, lambda judge: judge.severity, places)
    return [
        Field("judge", lambda judge: judge.judge, kind="text", heading="Judge", in_json=False),
        Field("family", lambda judge: judge.family, kind="text", heading="Family"),
        Field("own_models", lambda judge: judge.own_models, kind="texts",
              heading="Models of its family", text=lambda judge: listed(judge.own_models, NAMES) or "none"),
        Field("judgments", lambda judge: _judgments_json(judge.tally), kind="object", heading="Judgments",
              text=lambda judge: judge.tally.expected - judge.tally.failed),
        Field("missing", _missing_text, kind="text", heading="Missing", in_json=False),
        Field("reasons", lambda judge: counts_text(judge.tally.failures) or None, heading="Why missing",
              in_json=False),
        Field("tokens", lambda judge: plain_json(judge.tally.usage), kind="object"),
        Field("input", lambda judge: judge.tally.usage.input, heading="Input tokens", in_json=False),
        Field("output", lambda judge: judge.tally.usage.output, heading="Output tokens", in_json=False),
        Field("cost_usd", lambda judge: judge.tally.cost_usd, heading="Cost USD", places=4),
        Field("scale", lambda _: _scale_text(own), kind="text", heading="Scale", in_json=False),
        _estimate("mean", "Mean grade", lambda judge: judge.mean, places),
        Field("by_criterion", lambda judge: _by_name(judge.by_criterion), kind="object"),
        Field("sd", lambda judge: judge.sd, heading="SD", places=2),
        _share("best", "Best grade", lambda judge: judge.best),
        _share("worst", "Worst grade", lambda judge: judge.worst),
        harsher,
        replace(harsher, key="harsher", heading="Harsher than other judges", in_json=False),
        _estimate("self_preference", "Favors its family", lambda judge: judge.self_preference, places),
        Field("length", lambda judge: _length_json(judge.length), kind="object"),
        _estimate("agreement_with_others", "Agreement with the others", lambda judge: _as_estimate(judge.agreement)),
        Field("finding", lambda judge: str(judge.finding), kind="text"),
        Field("effect", lambda judge: _effect_text(own.ranking, judge.judge), heading="Effect on the ranking",
              in_json=False),
    ]  # fmt: skip


_AGREEMENT: list[Field[JudgeAgreement]] = [
    Field("on", lambda part: part.on, kind="text", heading="On"),
    Field("n", lambda part: part.n, kind="whole number", heading="Grades compared"),
    Field("level", lambda part: part.level, kind="text"),
    _estimate("icc_2_1", "ICC(2,1)", lambda part: part.icc_2_1),
    _estimate("icc_3_k", "ICC(3,k)", lambda part: part.icc_3_k),
    _estimate("weighted_kappa", "Weighted kappa", lambda part: part.kappa, column="kappa"),
    _estimate("alpha", "Alpha", lambda part: part.alpha,
              text=lambda part: f"{estimate_text(part.alpha, 2)} {part.level}" if part.alpha else None),
]  # fmt: skip
"""Coefficients on one criterion, or on scores."""


def _length_fields(places: int = 2) -> list[Field[LengthBias]]:
    """Return the numbers on the length of completions."""

    def starred(length: LengthBias) -> str | None:
        star = " *" if length.basis == "across instances" else ""
        return f"{estimate_text(length.slope, places)}{star}" if length.slope else None

    return [
        Field("basis", lambda length: length.basis, kind="text"),
        _estimate("slope", "Twice as long", lambda length: length.slope, text=starred),
        _estimate("against_others", "Reacts more to length", lambda length: length.relative_to_others, places),
        _estimate("spearman", "Rank correlation", lambda length: length.spearman),
    ]


def _panel_fields(ranking: Ranking) -> list[Field[JudgePanelRanking]]:
    """Return the fields of a ranking by a part of the jury."""
    whole, apart = ranking.panels[0], f"{ranking.n_significant} of {ranking.n_pairs} pairs differ significantly"
    return [
        Field("name", lambda panel: panel.name, kind="text", heading="Ranked by"),
        Field("judges", lambda panel: panel.judges, kind="texts"),
        Field("models", _models_json, kind="object"),
        Field("tau", lambda panel: panel.tau, heading="Tau", places=2),
        Field("swaps", lambda panel: plain_json(panel.swaps), kind="object", heading="Pairs in another order",
              text=lambda panel: len(panel.swaps)),
        Field("change", lambda panel: apart if panel is whole else _swap_text(panel), heading="Change",
              in_json=False),
    ]  # fmt: skip


def _judgments_json(tally: JudgeTally) -> dict[str, Any]:
    """Return the counts of a judge's judgments."""
    return {
        "expected": tally.expected,
        "present": tally.expected - tally.failed,
        **select(tally, "failed failures"),
    }


def _as_estimate(found: RaterAgreement | None) -> Estimate | None:
    """Return an agreement as an estimate; infinite ends where it has no interval."""
    if found is None or found.value is None:
        return None
    low, high = (-math.inf, math.inf) if found.low is None or found.high is None else (found.low, found.high)
    return Estimate(value=found.value, low=low, high=high, n=found.n, method="jackknife")


def _missing_text(judge: JudgeSummary) -> str:
    tally = judge.tally
    return f"{tally.failed} ({tally.failed / tally.expected:.1%})" if tally.failed else "0"


def _share_text(estimate: Estimate | None) -> str | None:
    """Return a share in percent."""
    return None if estimate is None else f"{estimate.value:.1%}"


def _scale_text(own: JurySummary) -> str:
    return f"{own.low:g} to {own.high:g}"


def _effect_text(ranking: Ranking | None, judge: str) -> str | None:
    """Return how the order of models changes without a judge; None where that is unknown."""
    if ranking is None or judge not in ranking.panels[0].judges:
        return None
    rest = tuple(name for name in ranking.panels[0].judges if name != judge)
    without = next((panel for panel in ranking.panels[1:] if panel.judges == rest), None)
    if without is None:
        return None
    clear = sum(swap.is_significant for swap in without.swaps)
    significant = f", {clear} significant" if clear else ""
    return f"{len(without.swaps)} of {ranking.n_pairs} pairs swap{significant}" if without.swaps else "none"


def _swap_text(panel: JudgePanelRanking) -> str | None:
    """Return the most important change of order as text."""
    if not panel.swaps:
        return None
    first = max(panel.swaps, key=lambda swap: swap.is_significant)
    more = f", {len(panel.swaps) - 1} more" if len(panel.swaps) > 1 else ""
    return f"{first.worse} over {first.better}{' (!)' if first.is_significant else ''}{more}"


# --- tables -----------------------------------------------------------------------------------------------------------

WHOLE_JURY = "all judges"
"""Name of the whole jury in a column of judges."""

NOTES = {
    "judges": (
        "Agreement: correlation of the judge's scores with the mean of the other judges'; 0 for a judge who guesses.",
        "Harsher: by how many grades it grades lower than the others do. Favors its family: by how many grades more.",
        "Effect on the ranking: pairs of models in another order without the judge. `--wide` shows which, and more.",
    ),
    "work": ("Missing judgments are excluded from all numbers. Tokens and cost include unreadable judgments.",),
    "grades": (
        "High grades are good. Best and worst grade: share of grades at either end of the scale.",
        "Harsher than other judges: their mean minus this judge's grade, on the same completions and criteria.",
    ),
    "family": (
        "Favors its family: judge minus other judges on models of its family, minus the same on other models.",
        "Completions of one instance are compared; the other judges' preferences for their own families are removed.",
    ),
    "length": (
        "Twice as long: difference in grade for a completion of twice the length, which can be justified.",
        "Reacts more to length: more than the others do, on the same completions. This can be bias, or the others do",
        "not look closely.",
        "Completions of several models for one instance are compared; with a star, of one model over all instances.",
    ),
    "agreement": (
        "ICC(2,1): absolute agreement of one judge with another. ICC(3,k): consistency of the mean of all judges.",
        "Kappa: mean over pairs of judges, quadratic weights (none for met or not met). Alpha: Krippendorff's.",
        "1 is full agreement, 0 agreement by chance. If nearly all grades are equal, all coefficients are small.",
    ),
    "ranking": (
        "Tau: 1 for the order of the whole jury, -1 for its reverse. (!): the whole jury separates the two.",
        "Significant: by the paired test of the leaderboard, adjusted for all pairs of models (Holm).",
    ),
    "short": ("Brackets: 95% intervals.",),
    "all": (
        "Brackets: 95% intervals by bootstrap over instances, or over patients or notes with several; shares: Wilson.",
        "All benchmarks: the mean over benchmarks with equal weights; models by macro average, as on the leaderboard.",
    ),
}
"""Table -> its explanation, in lines."""


LEAST_IMPORTANT = {
    "judges": ("Harsher than the others", "Favors its family"),
    "work": ("Why missing", "Output tokens", "Input tokens"),
    "grades": ("SD", "Scale", "Worst grade", "Best grade"),
    "family": ("Models of its family",),
    "length": ("Rank correlation",),
    "agreement": ("Alpha", "Weighted kappa", "Grades compared"),
    "ranking": ("Pairs in another order",),
}
"""Table -> columns that a narrow terminal leaves out, the first one first."""


def to_text(analysis: JuryAnalysis, format: str = "table", *, wide: bool = False) -> str:
    """Return a table with a row for each judge, and an explanation; CSV has every number with an interval.

    Parameters: format, see `tables.render`; wide, True for the tables of all numbers as well.
    """
    if format == "csv":
        return _csv(analysis, format)
    blocks = []
    for name, caption, headers, rows in _tables(analysis, wide=wide):
        explained = [*NOTES[name], *(_missing(analysis) if name == "judges" else ())]
        below = "" if format == "latex" else "\n" + "\n".join(f"- {note}" for note in explained) + "\n"
        drop = LEAST_IMPORTANT[name]
        blocks.append(render(rows, headers, format=format, caption=caption, keep=2, drop=drop) + below)
    if format != "latex":
        notes = NOTES["all"] if wide else NOTES["short"] + NOTES["all"][1:] * (len(analysis.benchmarks) > 1)
        blocks.append("\n".join(f"- {note}" for note in [*_rubrics(analysis), *notes]) + "\n")
    return "\n".join(blocks)


def _missing(analysis: JuryAnalysis) -> list[str]:
    """Return notes on missing judgments, and what their codes mean."""
    found = [
        f"{printable(judge.judge)}: {judge.tally.failed} of {judge.tally.expected} judgments are missing "
        f"({counts_text(judge.tally.failures)})."
        for judge in analysis.overall.judges
        if judge.tally.failed
    ]
    meaning = explain_codes(dict.fromkeys(code for judge in analysis.overall.judges for code in judge.tally.failures))
    return [*found, meaning] if meaning else found


def _rubrics(analysis: JuryAnalysis) -> Iterator[str]:
    """Yield a note for each named rubric, with the benchmarks that were graded by it."""
    for name in sorted({own.rubric for own in analysis.benchmarks} - {""}):
        titles = listed([printable(own.title) for own in analysis.benchmarks if own.rubric == name])
        yield f"Graded by the {name} rubric: {titles}."


Table = tuple[list[list[Value]], list[str]]
"""Rows and headings."""

COLUMNS = {
    "page": "judge judgments missing reasons mean harshness agreement_with_others self_preference best worst effect "
    "cost_usd",
    "judges": "judge agreement_with_others harshness self_preference effect",
    "work": "judge judgments missing reasons input output cost_usd",
    "grades": "judge scale mean sd best worst harsher",
    "family": "judge family own_models self_preference",
}
"""Table of judges -> its columns."""


def page_tables(own: JurySummary) -> dict[str, Table]:
    """Return the tables of one benchmark, or of all together, that say something: name -> table.

    That of self-preference needs a judge with models of its own family.
    """
    names = ["page", "agreement", "family", "length", "ranking"]
    if not any(judge.own_models for judge in own.judges):
        names.remove("family")
    found = {name: _table(name, own) for name in names}
    return {name: table for name, table in found.items() if table[0]}


def _tables(analysis: JuryAnalysis, *, wide: bool) -> Iterator[tuple[str, str, list[str], list[list[Value]]]]:
    """Name, caption, headings and rows of each table that has rows; the name of a benchmark is in its first row."""
    shown = [*analysis.benchmarks, *([analysis.overall] if len(analysis.benchmarks) > 1 else [])]
    data, scoring = data_text(analysis.tier), f"{analysis.scoring} scoring"
    captions = {
        "judges": f"Judges, {data}, {scoring}",
        "work": f"Work of the judges, {data}",
        "grades": "Grades of the judges",
        "family": "Self-preference: bias for models of the judge's own family, in grades",
        "length": "Length bias: effect of the length of a completion, in grades",
        "agreement": "Agreement between judges",
        "ranking": f"Influence of each judge on the ranking, {scoring}",
    }
    for name, caption in captions.items() if wide else [("judges", captions["judges"])]:
        parts = [(own.title, *_table(name, own)) for own in shown]
        rows = [["" if place else title, *row] for title, found, _ in parts for place, row in enumerate(found)]
        if rows:
            yield name, caption, ["Benchmark", *next(heads for _, found, heads in parts if found)], rows


def _table(name: str, own: JurySummary) -> Table:
    """Return a table of one benchmark, or of all together."""
    if name == "length":
        lengths = [*((judge.judge, judge.length) for judge in own.judges), (WHOLE_JURY, own.length)]
        known = [(judge, length) for judge, length in lengths if length]
        rows, headers, _ = table_of(_length_fields(score_decimals(own)), [length for _, length in known])
        return [[judge, *row] for (judge, _), row in zip(known, rows, strict=True)], ["Judge", *headers]
    if name == "agreement":
        return table_of(_AGREEMENT, own.agreement)[:2]
    if name == "ranking":
        return table_of(_panel_fields(own.ranking), own.ranking.panels)[:2] if own.ranking else ([], [])
    rows, headers, _ = table_of(select_fields(_judge_fields(own), COLUMNS[name]), own.judges)
    if name == "grades":
        rows.append([WHOLE_JURY, _scale_text(own), None, None, _share_text(own.best), _share_text(own.worst), None])
    return rows, headers


# --- CSV --------------------------------------------------------------------------------------------------------------


def _csv(analysis: JuryAnalysis, format: str) -> str:
    """Return one row per number with an interval; `benchmark` is empty for all benchmarks together."""
    headers = ["benchmark", "statistic", "judge", "on", "value", "low", "high", "n", "method", "scoring", "tier"]
    rows: list[list[Value]] = []
    for own in (*analysis.benchmarks, analysis.overall):
        for statistic, judge, on, found in _csv_numbers(own):
            if found is not None:
                end: list[Value] = [found.n, found.method, analysis.scoring, analysis.tier]
                rows.append([own.benchmark, statistic, judge, on, *estimate_numbers(found), *end])
    return render(rows, headers, format=format)


def _csv_numbers(own: JurySummary) -> Iterator[tuple[str, str, str, Estimate | None]]:
    """Yield statistic, judge, subject and number."""
    numbers = select_fields(_judge_fields(own), "agreement_with_others mean best worst harshness self_preference")
    for judge in own.judges:
        for field in numbers:
            yield field.key, judge.judge, judge.family if field.key == "self_preference" else "", field.get(judge)
        yield from _length_numbers(judge.judge, judge.length)
        for criterion, mean in judge.by_criterion.items():
            yield "criterion_mean", judge.judge, criterion, mean
    for model, share in own.harms.items():
        yield "harms", "", model, share
    yield from _length_numbers("", own.length)
    yield "best", "", "", own.best
    yield "worst", "", "", own.worst
    for part in own.agreement:
        for coefficient in select_fields(_AGREEMENT, "icc_2_1 icc_3_k kappa alpha"):
            yield coefficient.column or coefficient.key, "", part.on, coefficient.get(part)


def _length_numbers(judge: str, length: LengthBias | None) -> Iterator[tuple[str, str, str, Estimate | None]]:
    """Yield the numbers on the length of completions, of a judge or of the whole jury."""
    if length:
        for field in select_fields(_length_fields(), "slope against_others spearman"):
            yield f"length_{field.key}", judge, length.basis, field.get(length)
