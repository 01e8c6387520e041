"""Which of a store's runs stand for a model on a benchmark: only what was measured alike is put side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medhelm.domain import JURY, JuryResult, Run
from medhelm.models.model_names import plain_name

Measurement = tuple[str, tuple[str, ...], int]
"""Main metric, judges, and how many of them an instance needs: numbers of different kinds are not comparable."""


@dataclass(frozen=True, slots=True)
class SelectedRuns:
    """One run for each model and benchmark, of one kind for each benchmark."""

    runs: Mapping[tuple[str, str], Run]
    """Model and benchmark -> the run that stands for them."""
    unfinished: Sequence[str]
    """Runs that were stopped on the way and have no finished brother, in words."""
    excluded: Sequence[str]
    """Models that were measured otherwise than the rest of the benchmark, in words, and what mends it."""


def select_runs(found: Iterable[tuple[str, Run]]) -> SelectedRuns:
    """Choose among runs, each with the label that tells its model from the same one of another store.

    A benchmark goes by its jury if there is one that gave any score; of several juries by that of the most models, of
    equals the latest. Of several runs of a model those with the most instances count, of equals the latest.
    """
    complete: dict[str, list[tuple[str, Run]]] = {}
    unfinished: dict[tuple[str, str], str] = {}
    for label, run in sorted(found, key=lambda pair: (pair[1].n, pair[1].started)):
        if run.status == "complete":
            complete.setdefault(run.benchmark, []).append((run.model + label, run))
        else:
            words = f"{run.benchmark} with {run.model}{label} ({run.n - run.n_failed} of {run.n})"
            unfinished[run.model + label, run.benchmark] = words
    runs: dict[tuple[str, str], Run] = {}
    excluded = []
    for benchmark, candidates in complete.items():
        kind = _best_kind([(model, run) for model, run in candidates])
        own = {model: run for model, run in candidates if measurement_of(run) == kind}
        runs |= {(model, benchmark): run for model, run in own.items()}
        if others := sorted({model for model, _ in candidates} - set(own)):
            excluded.append(_in_words(benchmark, kind, others))
    return SelectedRuns(runs, [text for key, text in unfinished.items() if key not in runs], excluded)


def measurement_of(run: Run) -> Measurement:
    """By what a run was measured."""
    if run.main_metric != JURY or run.jury_result is None:
        return run.main_metric, (), 0
    jury = run.jury_result.jury
    return run.main_metric, tuple(sorted(judge.name for judge in jury.judges)), jury.min_judges


def _best_kind(candidates: Sequence[tuple[str, Run]]) -> Measurement:
    """The kind that a benchmark goes by."""
    n_models = Counter(kind for kind, _ in {(measurement_of(run), model) for model, run in candidates})
    latest = {measurement_of(run): run.started for _, run in sorted(candidates, key=lambda pair: pair[1].started)}
    scored = {measurement_of(run) for _, run in candidates if _is_scored(run)}
    rank = {kind: (kind in scored, kind[0] == JURY, n_models[kind], latest[kind]) for kind in n_models}
    return max(sorted(rank), key=rank.__getitem__)


def _is_scored(run: Run) -> bool:
    """Whether the main metric gave any number."""
    return any(run.main_metric in by_metric for by_metric in run.estimates.values())


def _in_words(benchmark: str, kind: Measurement, models: Sequence[str]) -> str:
    metric, judges, _ = kind
    if metric != JURY:
        return f"{benchmark} goes by {metric}, which is not the main metric of {', '.join(models)}: left out there"
    command = f"medhelm rejudge {benchmark} {' '.join(f'--judge {judge}' for judge in judges)}"
    return (
        f"{benchmark} goes by its jury, which did not judge {', '.join(models)}: left out there. `{command}` adds them"
    )


def jury_remarks(runs: Iterable[Run]) -> list[str]:
    """What a reader has to know of the juries behind some runs."""
    judged = [run for run in runs if run.jury_result]
    by_title: dict[str, list[JuryResult]] = {}
    for run in judged:
        by_title.setdefault(run.title, []).extend([run.jury_result] if run.jury_result else [])
    remarks = _missing(by_title)
    if judged and (both := judges_under_test(judged)):
        verbs = "judges and is judged" if len(both) == 1 else "judge and are judged"
        remarks.append(f"{', '.join(both)} {verbs}: `medhelm jury` shows whether judges favour their own.")
    return remarks


def judges_under_test(runs: Iterable[Run]) -> list[str]:
    """Judges of these runs whose own completions are judged in one of them, by what their servers call them."""
    judged = [run for run in runs if run.jury_result]
    tested = {plain_name(run.resolved_model.remote_name if run.resolved_model else run.model) for run in judged}
    judges = {judge.name: judge for run in judged if run.jury_result for judge in run.jury_result.jury.judges}
    return [name for name, judge in judges.items() if plain_name(judge.remote_name) in tested]


def store_label(path: Path, stores: Sequence[Path]) -> str:
    """What tells a model of this store from the same model of another: nothing if there is one store only."""
    return f" [{path.name or path}]" if len(stores) > 1 else ""


def suite_sort_key(order: Sequence[str], benchmark: str) -> tuple[int, str]:
    """Benchmarks of the suite in its order, others after them by name."""
    return (order.index(benchmark) if benchmark in order else len(order), benchmark)


def _missing(by_title: Mapping[str, Sequence[JuryResult]]) -> list[str]:
    """One sentence on judgments that are not there, if any."""
    shares, codes, n_without = [], Counter[str](), 0
    for title, sittings in by_title.items():
        tallies = [tally for sitting in sittings for tally in sitting.tallies.values()]
        if failed := sum(tally.failed for tally in tallies):
            shares.append(f"{title} {100 * failed / sum(tally.expected for tally in tallies):.1f} %")
            codes.update(sum((Counter(tally.failures) for tally in tallies), Counter[str]()))
            n_without += sum(sitting.n_too_few_judges for sitting in sittings)
    if not shares:
        return []
    kinds = ", ".join(f"{code} {count}" for code, count in codes.most_common(3))
    lost = f"; {n_without} completions have no score for it" if n_without else ""
    return [f"Judgments are missing: {', '.join(shares)} ({kinds}){lost}."]
