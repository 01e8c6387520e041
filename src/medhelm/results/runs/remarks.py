"""Remarks on the runs behind a leaderboard or a comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path

import numpy as np

from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.domain import EXTENDED, JURY, InjectionEffect, Rule, Run
from medhelm.domain.benchmark import group_by
from medhelm.domain.completion import UNREADABLE_REPLY
from medhelm.domain.result import Remark
from medhelm.domain.text import listed, plural
from medhelm.errors import StoreError
from medhelm.evaluation.remarks import code_remarks
from medhelm.results.comparable import ConditionsComparison, conditions_of, judges_under_test
from medhelm.results.formats.tables import decimal
from medhelm.scoring.metrics import METRICS
from medhelm.scoring.metrics.imported import compares_with_target
from medhelm.storage.runs import load_runs, load_shards, read_columns, score_column
from medhelm.storage.store import open_store

_NAMED = 5

_FEW_CLUSTERS = 6
"""Effective number of clusters below which a remark says so, if it is also well below their number."""

_FAR_APART_DAYS = 90
"""Days between the latest completions of two models beyond which a remark says so."""


def unfinished_remarks(unfinished: Iterable[str]) -> list[Remark]:
    """Return a remark for each run that is not counted because it was interrupted."""
    return [
        Remark("unfinished_run", "", f"Not counted, because the run was interrupted: {text}") for text in unfinished
    ]


def shard_remarks(stores: Iterable[Path]) -> list[Remark]:
    """Return a remark if stores hold shards of runs that are not merged."""
    opened = [open_store(path) for path in stores]
    shards = [run for store in opened for run in load_shards(store)]
    merged = {run.id for store in opened if shards for run in load_runs(store)}
    found: dict[tuple[str, str], set[str]] = {}
    for shard in shards:
        if shard.shard and shard.shard.run_id not in merged:
            found.setdefault((shard.benchmark, shard.model), set()).add(str(shard.shard))
    if not found:
        return []
    named = listed([f"{name} with {model} ({listed(sorted(own), 3)})" for (name, model), own in found.items()], _NAMED)
    text = f"Not counted, because they are parts of runs: {named}. `medhelm merge STORE...` merges the shards of a run."
    return [Remark("unmerged_shards", "", text)]


def cached_completions_text(stores: Iterable[Path]) -> str:
    """Return a sentence on the completions in the caches of stores that have no run; empty if there are none.

    A process that was killed during the first run leaves nothing else.
    """
    from medhelm.models.cache_reader import CacheReader  # lazy: leaderboards do not read the cache

    n = 0
    for path in stores:
        with suppress(StoreError), CacheReader(open_store(path).cache_file) as cache:
            n += cache.n_completions
    are = "is" if n == 1 else "are"
    return f"{plural(n, 'completion')} {are} in the cache: repeat an interrupted command to continue it." if n else ""


def cluster_remarks(cells: Iterable[Cell], columns: Iterable[Column]) -> Iterator[Remark]:
    """Yield a remark for each benchmark most of whose instances are in one cluster, or a few.

    Parameters: cells, scores; those without clusters are ignored; columns, for the titles of benchmarks.
    """
    titles = {column.benchmark: column.title for column in columns}
    seen: set[str] = set()
    for cell in cells:
        if cell.clusters is None or cell.benchmark in seen or cell.benchmark not in titles:
            continue
        seen.add(cell.benchmark)
        sizes = Counter(name or i for i, name in enumerate(cell.clusters))
        n, largest = sizes.total(), max(sizes.values(), default=0)
        effective = n * n / sum(size * size for size in sizes.values()) if sizes else 0.0
        if largest > 1 and effective < _FEW_CLUSTERS and (len(sizes) == 1 or effective < 0.75 * len(sizes)):
            text = (
                f"{titles[cell.benchmark]}: one cluster holds {largest:,} of {n:,} instances. Its interval counts all "
                f"as {effective:.1f} independent units, so it is wide."
            )
            yield Remark("dominant_cluster", cell.benchmark, text)


def distant_dates_remarks(runs: Mapping[tuple[str, str], Run]) -> list[Remark]:
    """Return a remark if the completions of some models are much older than those of another.

    `runs`: model and benchmark -> run. Models without known dates, such as baselines, are ignored.
    """
    latest: dict[str, date] = {}
    for (model, _), run in runs.items():
        if run.completion_days:
            day = date.fromisoformat(max(run.completion_days))
            latest[model] = max(day, latest.get(model, day))
    if not latest:
        return []
    newest = max(latest.values())
    older = {model: day for model, day in sorted(latest.items()) if (newest - day).days > _FAR_APART_DAYS}
    if not older:
        return []
    named = listed([f"{model} ({day})" for model, day in older.items()], _NAMED)
    text = (
        f"The latest completions of {named} are more than {_FAR_APART_DAYS} days older than the newest here "
        f"({newest}). A model can change behind its name; `medhelm run --fresh` requests new completions."
    )
    return [Remark("distant_dates", next(iter(older)) if len(older) == 1 else "", text)]


def imported_remarks(runs: Iterable[Run], rule: Rule) -> list[Remark]:
    """Return remarks on imported runs: conditions that are not recorded, and scores that are missing by this rule."""
    runs = list(runs)
    if not any(run.origin for run in runs):
        return []
    return [*_unrecorded_conditions(runs), *_unscored_imports(runs, rule)]


def _unrecorded_conditions(runs: Sequence[Run]) -> Iterator[Remark]:
    """Yield a remark on imported runs that do not record their prompts or temperature, where these could differ."""
    unknown: dict[str, list[Run]] = {"prompts": [], "temperature": []}
    for own in group_by(runs, lambda run: run.benchmark).values():
        comparison = ConditionsComparison(own)
        conditions = [conditions_of(run) for run in own]
        several = len({(one.content, one.harness) for one in conditions}) > 1
        sampled = any(one.temperature is not None for one in conditions)
        for run, one in zip(own, conditions, strict=True):
            if several and not comparison.is_known(one):
                unknown["prompts"].append(run)
            if sampled and one.temperature is None and run.has_imported_completions:
                unknown["temperature"].append(run)
    for what, silent in unknown.items():
        if silent:
            models, titles = sorted({run.model for run in silent}), sorted({run.title for run in silent})
            text = (
                f"The imported runs of {listed(models, _NAMED)} on {listed(titles, _NAMED)} do not hold the {what}, so "
                "it is not known whether they may share a column with the others."
            )
            yield Remark("conditions_not_recorded", "", text)


def _unscored_imports(runs: Iterable[Run], rule: Rule) -> Iterator[Remark]:
    """Yield a remark if the main metric of imported runs has no value by this rule."""
    imported = [run for run in runs if run.has_imported_completions]
    unscored = [run for run in imported if run.main_metric not in run.estimates.get(rule, {})]
    if not unscored:
        return
    verb = "has" if len(unscored) == 1 else "have"
    text = f"{len(unscored)} of {len(imported)} imported runs {verb} no {rule} score."
    if reasons := dict.fromkeys(filter(None, (run.not_computed.get(run.main_metric) for run in unscored))):
        text += f" {'; '.join(reasons)}."
    if not all(run.not_computed.get(run.main_metric) for run in unscored):
        text += " `medhelm rescore` computes what their files allow."
    if rule == "corrected":
        text += " `--scoring published` shows the scores of their harness."
    yield Remark("imported_without_score", "", text)


def unknown_metric_remarks(columns: Iterable[Column], cells: Sequence[Cell]) -> list[Remark]:
    """Return remarks on metrics that MedHELM does not define, as runs of other harnesses may have."""
    unknown = [c for c in columns if METRICS.if_usable(c.metric) is None and c.metric != JURY]
    unknown = [c for c in unknown if not compares_with_target(c.metric)]
    if not unknown:
        return []
    titles = {c.benchmark: c.title for c in unknown}
    values = [(titles[cell.benchmark], cell.value) for cell in cells if cell.benchmark in titles]
    outside = sorted({title for title, value in values if value is not None and not 0 <= value <= 1})
    scales = ", ".join(f"{c.metric} ({c.title})" for c in unknown)
    text = f"The scale of these metrics is unknown; it is assumed to be 0 to 1, with high values good: {scales}."
    remarks = [Remark("unknown_scale", "", text)]
    reasons = dict.fromkeys(filter(None, (METRICS.why_not(c.metric) for c in unknown)))
    remarks += [Remark("metric_not_usable", "", reason) for reason in reasons]
    if outside:
        text = f"That is wrong for {listed(outside)}: leave them out of averages with `--suite FILE`."
        remarks.append(Remark("outside_assumed_scale", "", text))
    return remarks


def jury_remarks(runs: Iterable[Run]) -> list[Remark]:
    """Return remarks on the juries behind some runs: missing judgments, rubrics, judges that grade themselves."""
    judged = [run for run in runs if run.jury_result]
    remarks = [*_missing_judgments(judged), *code_remarks(judged), *_without_codes(judged)]
    if extended := list(dict.fromkeys(run.title for run in judged if run.rubric == EXTENDED)):
        text = (
            f"Judges graded {listed(extended, _NAMED)} by the extended rubric, which asks more than the published one."
        )
        remarks.append(Remark("extended_rubric", "", text))
    if both := judges_under_test(judged):
        text = "is both a judge and a model under test" if len(both) == 1 else "are both judges and models under test"
        text = f"{', '.join(both)} {text}. `medhelm jury` measures self-preference."
        remarks.append(Remark("judge_under_test", both[0] if len(both) == 1 else "", text))
    return remarks


def _without_codes(judged: Iterable[Run]) -> Iterator[Remark]:
    """Yield a remark on judges that were asked for no verification codes."""
    titles = [run.title for run in judged if not run.settings.get("verification_codes", True)]
    if titles:
        text = (
            f"Judges of {listed(list(dict.fromkeys(titles)), _NAMED)} were asked for no verification codes: a verdict "
            "planted in a completion is recognized only if the judge copies it."
        )
        yield Remark("no_verification_codes", "", text)


def _missing_judgments(judged: Iterable[Run]) -> Iterator[Remark]:
    """Yield a remark on missing judgments, if there are any."""
    shares, codes, n_without = [], Counter[str](), 0
    for title, runs in group_by(judged, lambda run: run.title).items():
        tallies = [tally for run in runs for tally in run.tallies.values()]
        if failed := sum(tally.failed for tally in tallies):
            shares.append(f"{title} {100 * failed / sum(tally.expected for tally in tallies):.1f}%")
            for tally in tallies:
                codes.update(tally.failures)
            n_without += sum(run.jury_result.n_too_few_judges for run in runs if run.jury_result)
    if shares:
        most = codes.most_common(3)
        kinds = "; ".join(f"{UNREADABLE_REPLY.get(code, code.replace('_', ' '))} ({count})" for code, count in most)
        have = "has" if n_without == 1 else "have"
        lost = f"; {plural(n_without, 'completion')} {have} no score as a result" if n_without else ""
        reasons = "The reason" if len(codes) == 1 else "The most frequent reasons" if len(codes) > 3 else "The reasons"
        text = f"Judgments are missing: {', '.join(shares)}{lost}. {reasons}: {kinds}."
        yield Remark("missing_judgments", "", text)


# --- effects of prompt injections -------------------------------------------------------------------------------------
# Completions with signs of a prompt injection, and how much they change the mean scores of a jury.

_NAMED_EFFECTS = 5


def injection_effects(runs: Mapping[tuple[str, str], Run], rule: Rule) -> tuple[InjectionEffect, ...]:
    """Return the effect of flagged completions on each run whose main metric is the jury.

    `runs`: model and benchmark -> run. The signs are those that the run stored when it was scored: `medhelm rescore`
    searches again. Only the records of runs with signs are read.
    """
    found = []
    for (model, benchmark), run in sorted(runs.items()):
        result = run.jury_result
        if result is None or run.main_metric != JURY or not result.n_with_injection_signs:
            continue
        column = score_column(JURY, rule)
        records = read_columns(run, ["suspicions", column])
        scores = np.array([np.nan if score is None else score for score in records[column]], dtype=float)
        is_flagged = np.array([bool(signs) for signs in records["suspicions"]], dtype=bool)
        found.append(
            InjectionEffect(
                model=model,
                benchmark=benchmark,
                title=run.title,
                n=run.n,
                n_flagged=int(is_flagged.sum()),
                mean=_mean(scores),
                mean_without=_mean(scores[~is_flagged]),
            )
        )
    return tuple(found)


def injection_remarks(effects: Iterable[InjectionEffect]) -> list[Remark]:
    """Return one remark for each benchmark with flagged completions."""
    return [
        Remark(
            "prompt_injection",
            own[0].benchmark,
            f"On {title}, completions show signs of a prompt injection aimed at judges: "
            f"{listed([_short_effect(one) for one in own], _NAMED_EFFECTS)}. They count like all others.",
        )
        for title, own in group_by(effects, lambda one: one.title).items()
    ]


def effect_sentence(one: InjectionEffect) -> str:
    """Return the effect on one run as a sentence."""
    mean, without = _means_in_words(one)
    verb = "has" if one.n_flagged == 1 else "have"
    return (
        f"{plural(one.n_flagged, 'answer')} of {one.n:,} on {one.title} {verb} signs of a prompt injection "
        f"aimed at judges; the mean score is {mean} with them and {without} without them."
    )


def _short_effect(one: InjectionEffect) -> str:
    mean, without = _means_in_words(one)
    return f"{one.model} {one.n_flagged:,} of {one.n:,} (mean {mean}, without them {without})"


def _means_in_words(one: InjectionEffect) -> tuple[str, str]:
    """Return the mean score with and without flagged completions."""
    return decimal(one.mean, 2) or "unknown", decimal(one.mean_without, 2) or "unknown"


def _mean(scores: np.ndarray) -> float | None:
    """Return the mean of the scores that exist."""
    known = scores[~np.isnan(scores)]
    return float(known.mean()) if known.size else None
