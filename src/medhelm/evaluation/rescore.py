"""Score stored completions again, with other judges or metrics; no completion is bought again.

The runner is that of an evaluation. Its completions come from stored runs (`StoredCompletions`), and so do those of
judges that are kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from medhelm.benchmarks.catalog import load_benchmarks
from medhelm.benchmarks.data.dataset import Dataset, ImportedFrom, open_dataset
from medhelm.benchmarks.data.sampling import ALL, InstanceSelection, SampleOptions
from medhelm.benchmarks.helm_format import read_judge_prompt
from medhelm.benchmarks.prompts import render
from medhelm.domain import (
    EXTENDED,
    JURY,
    STANDARD,
    AnswerField,
    Benchmark,
    Completion,
    Criterion,
    Failure,
    Instance,
    JudgeReply,
    Model,
    Origin,
    Parts,
    Request,
    Rubric,
    Run,
    Score,
    Source,
    Taxonomy,
    Tier,
)
from medhelm.domain.benchmark import is_rubric_file
from medhelm.domain.completion import strip_reasoning
from medhelm.domain.run import JUDGE_SAMPLE, JUDGED, VARIANT, Variant
from medhelm.domain.text import listed
from medhelm.errors import MissingError, UserError, suggestion
from medhelm.evaluation.evaluate import run_in_event_loop
from medhelm.evaluation.recorder import NullListener, RunRecorder
from medhelm.evaluation.requests import judge_requests, name_in_run
from medhelm.evaluation.runner import CompletionSource, EvaluationRunner, PendingCompletion
from medhelm.evaluation.session import (
    EvaluationSetup,
    check_consent,
    check_models,
    open_datasets,
    with_prices,
    with_rubric,
    without_deleted,
)
from medhelm.evaluation.settings import RUBRIC_FILE, Evaluation, Settings
from medhelm.evaluation.stored_settings import JuryChange, measured_as, settings_of
from medhelm.io.plugins import VARIANTS, from_extension
from medhelm.models.client import ClientResult
from medhelm.scoring.metric import Metric, group_parts
from medhelm.scoring.metrics import METRIC_NAMES, METRICS, metrics_of
from medhelm.scoring.metrics.imported import needed_columns
from medhelm.storage.damage import intact_runs, leave_out, runs_left_out
from medhelm.storage.imported_instances import read_about, read_instances
from medhelm.storage.judgments import completion_of, read_replies
from medhelm.storage.runs import load_runs, parts_column, read_messages, read_records, score_column
from medhelm.storage.store import DamagedRunError, Store, create, open_store

if TYPE_CHECKING:
    from medhelm.analysis.planned_cost import CostPlan

_Content = TypeVar("_Content")


def rejudge(
    benchmarks: Sequence[Benchmark], change: JuryChange, setup: EvaluationSetup, models: Collection[str] = ()
) -> Evaluation:
    """Score the stored completions of these benchmarks again, with the jury of each run changed by `change`.

    Parameters: benchmarks, in their current definition; setup, of whose settings only limits on time, money and
    requests are used: the runs determine the rest; models, names of the models whose runs are scored, all if empty.
    A change that measures judges makes variants of the plain runs that they graded, and these stay as they are.
    Damaged runs are left out with a warning. Raises, before anything is sent: UserError if there is nothing to score,
    or if data or prompts have changed since the runs; MissingError for missing keys or data.
    """
    place = create(setup.store)
    with runs_left_out() as left_out:
        chosen, change = _chosen(place, benchmarks, change, models)
        check_models(change.judges, setup.settings, setup.environment, setup.store)
        done = rescored(chosen, benchmarks, change, setup, place)
    names = {benchmark.name for benchmark in benchmarks}
    damaged = {error.folder for error in left_out if error.benchmark in names}
    return replace(done, n_damaged=len(damaged))


def plan_rejudging(
    benchmarks: Sequence[Benchmark], change: JuryChange, setup: EvaluationSetup, models: Collection[str] = ()
) -> CostPlan:
    """Return what `rejudge` would send and cost with the same arguments. Raises: as it does."""
    from medhelm.evaluation.plan import plan_judging  # lazy: most commands send

    place = open_store(setup.store)
    chosen, change = _chosen(place, benchmarks, change, models)
    runners = _runners(chosen, benchmarks, change, setup, place)
    requests = (request for runner in runners for request in _requests_to_judges(runner))
    return plan_judging(requests, place, setup.environment, setup.settings.max_cost_usd)


def _requests_to_judges(runner: EvaluationRunner) -> Iterator[tuple[Benchmark, Request, int]]:
    """Yield the first request to each judge about each completion, and the number of criteria that it is about."""
    from medhelm.scoring.jury.panel import is_judged  # lazy, like all of judging

    source = runner.stored
    assert isinstance(source, StoredCompletions), "it scores stored completions"
    judges = [judge for judge in (runner.jury.judges if runner.jury else ()) if judge.name not in source.judges]
    for model in runner.models:
        for dataset in (one for one in runner.datasets if source.has_run(model, one)):
            for instance in dataset:
                completion = source.result(model, dataset, instance).completion
                if is_judged(completion):
                    for prompt, request in judge_requests(
                        dataset.benchmark, judges, instance, completion.text or "", with_codes=source.with_codes
                    ):
                        yield dataset.benchmark, replace(request, sample=source.judge_sample), len(prompt.criteria)


def _chosen(
    store: Store, benchmarks: Sequence[Benchmark], change: JuryChange, models: Collection[str]
) -> tuple[list[Run], JuryChange]:
    """Return the runs that a change concerns, and the change with its judges and their prices. Raises: UserError."""
    names = {benchmark.name for benchmark in benchmarks}
    stored = load_runs(store, variants=True)
    asked = [
        run
        for run in stored
        if run.benchmark in names
        and (not models or run.model in models or run.model_name in models)
        and not (run.is_variant if change.measures_judges else run.variant.startswith(JUDGED))
    ]
    chosen = _latest(intact_runs(asked))
    _check_rubric(chosen, benchmarks, change)
    if not chosen:
        raise UserError(_no_runs_message(stored, benchmarks, models))
    if change.measures_judges:
        chosen, change = _graded(chosen, change)
    return chosen, replace(change, judges=tuple(with_prices(change.judges)))


def rescored(
    runs: Iterable[Run], benchmarks: Sequence[Benchmark], change: JuryChange, setup: EvaluationSetup, source: Store
) -> Evaluation:
    """Score these runs of `source` again, and store the new runs in the store of `setup`, which may be the same.

    Parameters: runs, one for each model, benchmark and tier; the others as for `rejudge`. Both stores were opened.
    Raises, before anything is sent: UserError if data or prompts have changed since the runs.
    """
    runs = list(runs)
    asked = {run.benchmark for run in runs}
    for benchmark in benchmarks:
        if benchmark.name in asked:  # imports the metrics, so that a broken plug-in is reported now
            metrics_of(benchmark, judged=False, harness="lm_eval")
    runners = _runners(runs, benchmarks, change, setup, source)
    for runner in runners:
        check_consent(runner.datasets, (), change.judges, runner.settings, runner.environment)
    parts: list[Evaluation] = []
    for runner in runners:
        parts.append(_run_intact(runner))
        if parts[-1].stopped:  # by Ctrl-C or the budget: that concerns the whole command
            break
    return _combine(parts)


def _runners(
    runs: Iterable[Run], benchmarks: Sequence[Benchmark], change: JuryChange, setup: EvaluationSetup, source: Store
) -> list[EvaluationRunner]:
    """Return a runner for each kind of runs, and for each way in which judges grade them again."""
    runners = []
    for kind, group in _by_kind(runs, change).items():
        own = replace(setup, settings=measured_as(setup.settings, kind.measured))
        runners.append(stored_runner(group, benchmarks, change, own, source))
    if change.measures_judges:
        variants = from_extension(VARIANTS, "judged", extension="variants", what="--perturb and --repeat")
        runners = [
            varied
            for variant, names in variants(benchmarks, change)
            for runner in runners
            if (varied := _varied(runner, variant, names)).datasets
        ]
    return runners


def _run_intact(runner: EvaluationRunner) -> Evaluation:
    """Run to the end. If a run turns out to be damaged, leave it out with a warning and start again without it."""
    while True:
        try:
            return run_in_event_loop(runner)
        except DamagedRunError as error:
            leave_out([error])
            assert isinstance(runner.stored, StoredCompletions), "it made the runner"
            runner = replace(runner, stored=runner.stored.without(error.folder))


@dataclass(frozen=True, slots=True)
class _Kind:
    """The common properties of runs that one runner scores."""

    measured: Settings
    """The settings that change what is measured."""
    jury: tuple[str, ...]
    at_least: int
    imported: str = ""
    """The benchmark and data digest of a run from another harness; else empty."""
    has_codes: bool = False
    """True if the judges that are kept were asked for verification codes."""
    copy: int = 0
    """Number among runs of the same model on the same instances: they are scored one after another."""


def _by_kind(runs: Iterable[Run], change: JuryChange) -> dict[_Kind, list[Run]]:
    found: dict[_Kind, list[Run]] = {}
    for run in runs:
        jury = change.applied(run.jury_result.jury if run.jury_result else None)
        before = settings_of(run)
        codes = _asks_codes(run, before, change)
        kind = _Kind(
            replace(before, rubric=change.rubric or before.rubric, verification_codes=codes),
            tuple(judge.name for judge in jury.judges) if jury else (),
            jury.min_judges if jury else 0,
            f"{run.benchmark} {run.data_digest}" if run.has_imported_prompts else "",
            run.jury_result.jury.has_codes if run.jury_result else False,
        )
        while any((run.model, run.benchmark) == (other.model, other.benchmark) for other in found.get(kind, ())):
            kind = replace(kind, copy=kind.copy + 1)
        found.setdefault(kind, []).append(run)
    return found


def _asks_codes(run: Run, before: Settings, change: JuryChange) -> bool:
    """Return whether judges are asked for verification codes: as the change says, or as those that are kept were."""
    if change.verification_codes is not None:
        return change.verification_codes
    if change.measures_judges and run.jury_result:  # the same prompts as before, but for the change
        return run.jury_result.jury.has_codes
    return change.only or before.verification_codes


def _latest(runs: Iterable[Run]) -> list[Run]:
    """Select one run for each model, benchmark and tier, and each run of another harness.

    It is the run with the most completions, and the latest of equals. Incomplete runs are left out: their instances
    without a completion would become failures.
    """
    found: dict[tuple[object, ...], Run] = {}
    for run in sorted(
        runs, key=lambda run: (run.n - run.n_failed, run.fresh, run.jury_result is not None, run.started)
    ):
        if run.is_complete:
            where = (run.origin.harness, run.origin.run, run.origin.completions_made_here) if run.origin else ()
            found[run.model, run.benchmark, run.tier, *where] = run
    return list(found.values())


def _graded(runs: Sequence[Run], change: JuryChange) -> tuple[list[Run], JuryChange]:
    """Return the runs that judges graded, and the change with its judges: those of the runs if it names none.

    Raises: UserError if there are no such runs, or if one was not graded by any of the named judges.
    """
    graded = [run for run in runs if run.jury_result]
    if not graded:
        raise UserError(
            "no judge graded these runs. `medhelm rejudge --judge JUDGE` has them graded. Nothing was sent."
        )
    known = {judge.name: judge for run in graded for judge in run.judges if judge.name not in change.without}
    judges = change.judges or tuple(known.values())
    names = listed([judge.name for judge in judges])
    if missing := [run for run in graded if not {judge.name for judge in judges} & {one.name for one in run.judges}]:
        where = listed([f"{run.benchmark} with {run.model}" for run in missing])
        raise UserError(
            f"{where}: not graded by {names or 'any judge that is left'}, so there is nothing to compare with. Name a "
            "judge of these runs. Nothing was sent."
        )
    return graded, replace(change, judges=judges)


def _varied(runner: EvaluationRunner, variant: Variant, benchmarks: Collection[str]) -> EvaluationRunner:
    """Return a runner in which judges grade the same completions as a variant says, on these benchmarks."""
    assert isinstance(runner.stored, StoredCompletions), "it scores stored completions"
    datasets = [
        data.varied(variant) for data in runner.datasets if not data.variant and data.benchmark.name in benchmarks
    ]
    return replace(runner, datasets=datasets, stored=runner.stored.varied(variant))


def _check_rubric(runs: Sequence[Run], benchmarks: Sequence[Benchmark], change: JuryChange) -> None:
    """Check that a jury does not mix two rubrics: judgments by another rubric cannot be kept. Raises: UserError."""
    _check_own_rubric(runs, {benchmark.name: benchmark for benchmark in benchmarks}, change)
    if change.rubric is None or is_rubric_file(change.rubric):
        return
    both = {benchmark.name for benchmark in benchmarks if benchmark.extended_rubric}
    if change.rubric == EXTENDED and not both:
        names = listed([benchmark.name for benchmark in benchmarks])
        raise UserError(f"{names}: only one rubric is defined. Nothing was sent.")
    for run in runs:
        kept = _kept_judges(run, change)
        if run.benchmark in both and kept and (run.rubric or STANDARD) != change.rubric:
            raise UserError(
                f"{run.benchmark} with {run.model}: {listed(kept)} graded by the {run.rubric or STANDARD} rubric, and "
                f"a jury uses one. Name every judge that should grade by the {change.rubric} rubric, and add --only. "
                "Nothing was sent."
            )


def _check_own_rubric(runs: Iterable[Run], benchmarks: Mapping[str, Benchmark], change: JuryChange) -> None:
    """Check that judges are kept only by the rubric of the others, if that is in a file. Raises: UserError."""
    for run in runs:
        rubric = change.rubric or settings_of(run).rubric
        earlier = run.settings.get(RUBRIC_FILE)
        if not (is_rubric_file(rubric) or earlier):
            continue
        wanted = with_rubric(benchmarks[run.benchmark], rubric).rubric
        kept = _kept_judges(run, change)
        if kept and wanted and run.jury_result and run.jury_result.rubric_digest != wanted.digest:
            before = f"the rubric in {earlier}, as it was then" if earlier else "another rubric"
            raise UserError(
                f"{run.benchmark} with {run.model}: {listed(kept)} graded by {before}, and a jury uses one. Name every "
                f"judge that should grade by {rubric}, and add --only. Nothing was sent."
            )


def _kept_judges(run: Run, change: JuryChange) -> list[str]:
    """Return the earlier judges of a run whose judgments are kept."""
    named = {*(judge.name for judge in change.judges), *change.without}
    return [judge.name for judge in (() if change.only else run.judges) if judge.name not in named]


def _no_runs_message(runs: Iterable[Run], benchmarks: Sequence[Benchmark], models: Collection[str]) -> str:
    known = sorted({run.model for run in runs})
    unknown = [f"no run of `{name}`. {suggestion(name, known)}".rstrip() for name in models if name not in known]
    names = ", ".join(benchmark.name for benchmark in benchmarks)
    return "\n".join(unknown) or f"the store has no complete run of {names}. Run it with `medhelm run`."


def stored_runner(
    runs: Sequence[Run], benchmarks: Sequence[Benchmark], change: JuryChange, setup: EvaluationSetup, source: Store
) -> EvaluationRunner:
    """Return the runner that scores stored runs of one kind again.

    Raises: UserError if data or prompts have changed since the runs.
    """
    settings = setup.settings
    old = runs[0].jury_result.jury if runs[0].jury_result else None
    jury = change.applied(old)
    named = {judge.name for judge in change.judges}
    kept = [judge.name for judge in jury.judges if judge.name not in named] if jury else []
    names = {run.benchmark for run in runs}
    wanted = [benchmark for benchmark in benchmarks if benchmark.name in names]
    if runs[0].has_imported_prompts:
        as_used = (known.as_used(settings.rubric, runs[0].benchmark_digest) for known in wanted)
        library = {known.name: with_rubric(known, settings.rubric) for known in as_used}
        datasets = [stored_dataset(runs, library, source, data=setup.data, limit=settings.limit)]
    else:
        datasets = open_datasets(wanted, setup.data, settings, source)
    datasets = without_deleted(datasets, source)
    stale = [words for dataset in datasets for run in runs if (words := _stale(run, dataset, source))]
    if stale:
        raise UserError("\n".join([*stale, "Nothing was sent."]))
    models = list({run.model_name: _model(run) for run in runs}.values())
    return EvaluationRunner(
        datasets,
        models,
        Store(setup.store),
        settings,
        setup.environment,
        setup.listener or NullListener(),
        jury,
        StoredCompletions(runs, kept, with_codes=settings.verification_codes),
    )


def _model(run: Run) -> Model:
    """Return the model of a run as it was when the run was made."""
    provider, _, name = run.model.partition("/")
    return run.resolved_model or Model(name=run.model, provider=provider, remote_name=name)


def _stale(run: Run, dataset: Dataset, store: Store) -> str:
    """Return why the completions of a run do not belong to the current benchmark; empty if they do."""
    benchmark = dataset.benchmark
    if (run.benchmark, run.variant) != (benchmark.name, dataset.variant):
        return ""
    what = f"{benchmark.name} with {run.model}: "
    if run.data_digest != dataset.digest:
        return what + "the data has changed since the completions were made. Provide the earlier data, or run it again."
    if run.benchmark_digest == benchmark.digest:
        return ""
    stored = read_messages(store.prompts_file(benchmark.name, run.benchmark_digest, run.data_digest))
    if not stored:
        return what + "the definition has changed, and the earlier prompts are not stored. Run it again."
    for instance in dataset:
        now = [{"role": message.role, "content": message.text} for message in render(benchmark, instance).messages]
        if stored.get(instance.id) != now:
            return what + f"the prompt has changed since (instance {instance.id}). Run it again."
    return ""


def _combine(parts: Sequence[Evaluation]) -> Evaluation:
    """Combine several evaluations into one."""
    return Evaluation(
        runs=tuple(run for part in parts for run in part.runs),
        stopped=next((part.stopped for part in parts if part.stopped), ""),
        messages=tuple(dict.fromkeys(message for part in parts for message in part.messages)),
        cost_usd=fsum(part.cost_usd for part in parts),
        seconds=round(fsum(part.seconds for part in parts), 3),
    )


def judged_only(benchmarks: Iterable[Benchmark]) -> list[Benchmark]:
    """Return the benchmarks that have the jury among their metrics."""
    return [benchmark for benchmark in benchmarks if JURY in benchmark.metrics]


# --- stored completions -----------------------------------------------------------------------------------------------


class StoredCompletions(CompletionSource):
    """A source of completions that reads stored runs, with those judges' completions that are kept."""

    def __init__(self, runs: Sequence[Run], judges: Collection[str], *, with_codes: bool = True) -> None:
        """`runs`: one for each model and benchmark. `judges`: names of the judges whose completions are kept.

        `with_codes`: False if the others are asked for no verification codes.
        """
        self.judges, self.with_codes = judges, with_codes
        self._variant: Variant | None = None
        self.has_codes = all(run.jury_result.jury.has_codes for run in runs if run.jury_result)
        self._runs = {(run.model, run.benchmark): run for run in runs}
        self._completions: dict[tuple[str, str], dict[str, ClientResult]] = {}
        self._scores: dict[tuple[str, str], dict[str, dict[str, _StoredScore]]] = {}
        self._replies: dict[tuple[str, str], dict[tuple[str, str], list[JudgeReply]]] = {}

    def without(self, folder: Path) -> StoredCompletions:
        """Return a source without the run in a folder."""
        found = copy(self)
        found._runs = {key: run for key, run in self._runs.items() if run.folder != folder}
        return found

    def varied(self, variant: Variant) -> StoredCompletions:
        """Return a source of the same completions for runs in which judges see them as a variant says."""
        found = copy(self)
        found._variant, found.judge_sample = variant, variant.settings.get(JUDGE_SAMPLE, 0)
        return found

    def has_run(self, model: Model, dataset: Dataset) -> bool:
        """Return whether there is a run of the model on the benchmark."""
        return self._key(model, dataset) in self._runs

    def origin(self, model: Model, dataset: Dataset) -> Origin | None:
        """Return the harness that the run or its prompts come from; None if that is this one."""
        return self._run(model, dataset).origin

    def settings(self, model: Model, dataset: Dataset) -> Mapping[str, Any]:
        """Return the settings of the run; one whose judges are all asked again, now with codes, does not replace it."""
        run = self._run(model, dataset)
        settings = {
            name: value for name, value in run.settings.items() if name not in ("verification_codes", RUBRIC_FILE)
        }
        settings |= {RUBRIC_FILE: file} if (file := dataset.settings.get(RUBRIC_FILE)) else {}
        settings |= self._variant.settings if self._variant else {}
        if not self.with_codes:
            return {**settings, "verification_codes": False}
        is_of_0_1_0 = run.jury_result and not run.jury_result.jury.has_codes and settings == run.settings
        return {**settings, "has_codes": True} if is_of_0_1_0 and not (self.judges or run.origin) else settings

    def metrics(self, model: Model, dataset: Dataset, *, judged: bool) -> Sequence[Metric]:
        """Return the metrics of the benchmark; a scale that only another harness knows is that of its scores.

        Variants that measure judges have the jury alone.
        """
        if self._variant:
            return [metric for metric in super().metrics(model, dataset, judged=judged) if metric.name == JURY]
        found = []
        known = self._published(self._run(model, dataset))
        for metric in super().metrics(model, dataset, judged=judged):
            values = [scores[metric.name].value for scores in known.values() if metric.name in scores]
            if values and metric.name not in METRIC_NAMES:
                metric = replace(metric, low=min(0.0, *values, 0.0), high=max(1.0, *values, 1.0))
            found.append(metric)
        return found

    def completions(self, model: Model, dataset: Dataset) -> Iterator[PendingCompletion]:
        """Yield the stored completions; a failure where the run does not have the instance."""
        for position, instance in enumerate(dataset):
            yield PendingCompletion(position, instance, partial(self._complete, model, dataset, instance))

    async def _complete(self, model: Model, dataset: Dataset, instance: Instance) -> ClientResult:
        return self.result(model, dataset, instance)

    def result(self, model: Model, dataset: Dataset, instance: Instance) -> ClientResult:
        """Return the stored completion for an instance, or a failure."""
        run = self._run(model, dataset)
        known = _recent(self._completions, (run.model, run.benchmark), lambda: _completions(run, model))
        if instance.id in known:
            return self._as_shown(instance, known[instance.id])
        missing = Failure(
            "provider", "not_stored", f"the run of {run.model} on {run.benchmark} has no instance {instance.id}"
        )
        return ClientResult(Completion(failure=missing), bool(model.base_url), 0, 0.0)

    def _as_shown(self, instance: Instance, result: ClientResult) -> ClientResult:
        """Return a completion as judges see it."""
        change, text = self._variant.completion if self._variant else None, result.completion.text
        if change is None or not text:
            return result
        shown = change(instance, strip_reasoning(text))
        return replace(result, completion=replace(result.completion, text=shown))

    def judge_completions(self, model: str, benchmark: str, instance_id: str) -> list[JudgeReply]:
        """Return the stored completions of the judges that are kept."""
        if not self.judges:
            return []
        key = (model, benchmark)
        known = _recent(self._replies, key, lambda: read_replies(self._runs[key]))
        return [reply for judge in self.judges for reply in known.get((instance_id, judge), [])]

    def final_scores(self, recorder: RunRecorder, instance: Instance, scores: Sequence[Score]) -> Sequence[Score]:
        """Return the scores, with those of the harness that the run comes from under the published rule.

        The score of its jury is used as long as the judges are the same.
        """
        run = self._run(recorder.model, recorder.dataset)
        own = self._published(run).get(instance.id)
        if own is None or self._variant:
            return scores
        before, now = run.jury_result, recorder.jury
        same_jury = before is not None and now is not None and before.jury.judges == now.jury.judges
        return tuple(
            _published_score(recorder, instance, score, own[score.metric])
            if score.rule == "published" and score.metric in own and (score.metric != JURY or same_jury)
            else score
            for score in scores
        )

    def _key(self, model: Model, dataset: Dataset) -> tuple[str, str]:
        """Return the key of the stored run: a variant that measures judges has the completions of the plain one."""
        plain = dataset.asked(**{VARIANT: ""}) if self._variant else dataset
        return name_in_run(plain.settings, model), dataset.benchmark.name

    def _run(self, model: Model, dataset: Dataset) -> Run:
        return self._runs[self._key(model, dataset)]

    def _published(self, run: Run) -> dict[str, dict[str, _StoredScore]]:
        """Return instance -> metric -> score of the other harness; empty if the completions were made here."""
        if not (run.has_imported_completions and run.has_imported_prompts):
            return {}
        return _recent(self._scores, (run.model, run.benchmark), lambda: _scores(run))


def _completions(run: Run, model: Model) -> dict[str, ClientResult]:
    """Return instance -> its completion, with the digest of its request and the characters cut from its prompt."""
    return {
        row["instance_id"]: ClientResult(
            completion_of(row, row["completion"]),
            bool(model.base_url),
            0,
            0.0,
            bytes.fromhex(row["request_digest"] or ""),
            row.get("left_out") or 0,
        )
        for row in read_records(run)
    }


class _StoredScore(NamedTuple):
    """A score as it is stored."""

    value: float
    parts: Parts
    """Its contribution to a run's number that is not a mean; empty if that is not stored."""


def _scores(run: Run) -> dict[str, dict[str, _StoredScore]]:
    """Return instance -> metric -> its score under the published rule."""
    columns = {
        metric: (score_column(metric, "published"), parts_column(metric, "published"))
        for metric in run.estimates["published"]
    }
    return {
        row["instance_id"]: {
            metric: _StoredScore(row[value], json.loads(row.get(parts) or "{}"))
            for metric, (value, parts) in columns.items()
            if row.get(value) is not None
        }
        for row in read_records(run)
    }


def _published_score(recorder: RunRecorder, instance: Instance, score: Score, stored: _StoredScore) -> Score:
    """Return the score of the other harness; if the run's number is not a mean over instances, as one part of it."""
    parts = stored.parts or group_parts(instance, "published", stored.value)
    if not parts and recorder.is_pooled(score.metric, "published"):
        parts = {"": (stored.value, 1.0)}
    return Score(metric=score.metric, rule="published", value=stored.value, parts=parts)


def _recent(known: dict[tuple[str, str], _Content], key: tuple[str, str], read: Callable[[], _Content]) -> _Content:
    """Return the content of a run, and forget all but the last two of its model, which goes through them in turn."""
    if key not in known:
        for old in [other for other in known if other[0] == key[0]][:-1]:
            del known[old]
        known[key] = read()
    return known[key]


# --- imported benchmarks ----------------------------------------------------------------------------------------------
# Benchmarks and data sets of imported runs: definitions from the catalog, with the prompts of the other harness.
#
# A benchmark that is not in the catalog is built from the run: its metrics, its judges' prompt and their criteria. Data
# sets are made of the stored instances, so that they can be scored without a data folder.

UNKNOWN = "unknown"
"""Category and subcategory of a benchmark that is not in the catalog."""

INPUT = "input"
"""The field that holds the text of an imported instance."""

_LOW, _HIGH = 1.0, 5.0


def library_of(extra: Sequence[Path] = ()) -> dict[str, Benchmark]:
    """Return every benchmark of the catalog by name and alias; `extra`: folders with further definitions."""
    found = load_benchmarks(["all", "additional"], metrics=METRIC_NAMES, extra=extra)
    library = {alias: benchmark for benchmark in found for alias in benchmark.aliases}
    return library | {benchmark.name: benchmark for benchmark in found}


def imported_benchmark(
    name: str,
    library: Mapping[str, Benchmark],
    *,
    metrics: Iterable[str],
    about: Mapping[str, Any],
    max_tokens: int,
    stop: Sequence[str] = (),
) -> Benchmark:
    """Return the benchmark of a run of another harness.

    Parameters: name, its name here; metrics, those with scores in the run, the main one first; about, the facts stored
    with the run (`about_run`); max_tokens and stop, as they were sent.
    """
    known = library.get(name)
    mine = known.metrics if known else ()
    names = tuple(dict.fromkeys([*mine, *metrics]))
    rubric = _rubric(known, about)
    if rubric is None:
        names = tuple(metric for metric in names if metric != JURY)
    group = "group" if about.get("grouped") else ""
    if known:
        return replace(
            known,
            metrics=names,
            prompt=f"{{{INPUT}}}",
            system="",
            rubric=rubric,
            group_column=group,
            max_tokens=max_tokens or known.max_tokens,
            stop=tuple(stop),
            remarks=(),
        )
    identity = json.dumps([name, sorted(names), dict(about)], sort_keys=True)
    return Benchmark(
        name=name,
        title=str(about.get("title") or name),
        description="Read from the files of another harness, and not known here.",
        taxonomy=Taxonomy(category=UNKNOWN, subcategory=UNKNOWN),
        access="private",
        source=Source(kind="imported"),
        prompt=f"{{{INPUT}}}",
        answer=AnswerField(column="" if JURY in names else "reference"),
        metrics=names,
        max_tokens=max_tokens or 1,
        rubric=rubric,
        group_column=group,
        stop=tuple(stop),
        digest=hashlib.sha256(identity.encode()).hexdigest(),
    )


def benchmark_of(
    run: Run, library: Mapping[str, Benchmark], about: Mapping[str, Any], more: Iterable[str] = ()
) -> Benchmark:
    """Return the benchmark of a stored run that was imported, or that used imported prompts.

    `more`: additional metrics.
    """
    metrics = [run.main_metric, *run.estimates.get("published", {}), *run.estimates.get("corrected", {}), *more]
    stop = [str(text) for text in run.settings.get("stop") or ()]
    max_tokens = int(run.settings.get("max_tokens") or 0)
    return imported_benchmark(run.benchmark, library, metrics=metrics, about=about, max_tokens=max_tokens, stop=stop)


def _rubric(known: Benchmark | None, about: Mapping[str, Any]) -> Rubric | None:
    """Return the rubric of the catalog, or else that of the run's own judges; None if neither is known."""
    if known and known.rubric:
        return replace(known.rubric, question=f"{{{INPUT}}}")
    criteria = tuple(Criterion(name, name) for name in about.get("criteria", ()))
    if not criteria:
        return None
    if about.get("judge_prompt"):
        rubric, problems, _ = read_judge_prompt(str(about["judge_prompt"]), has_reference=True)
        if not problems:
            default = rubric.published_default if about.get("unjudged") is None else float(about["unjudged"])
            return replace(rubric, question=f"{{{INPUT}}}", published_default=default)
    return Rubric(
        task="You are a medical expert. You see a question or task, and the answer of a language model. Grade it.",
        criteria=criteria,
        low=float(about.get("low", _LOW)),
        high=float(about.get("high", _HIGH)),
        question=f"{{{INPUT}}}",
        published_default=_LOW if about.get("unjudged") is None else float(about["unjudged"]),
    )


def completed(instances: Sequence[Instance], own: Iterable[Instance]) -> tuple[list[Instance], int]:
    """Return the instances with missing columns added from `own`, the same data read here; and how many got some.

    Instances match by id or reference, if the prompt contains the texts of all fields.
    """
    by_key: dict[str, list[Instance]] = {}
    for one in own:
        for key in {f"id {one.id}", *(f"answer {text.strip()}" for text in one.correct)}:
            by_key.setdefault(key, []).append(one)
    found, n = [], 0
    for one in instances:
        asked = _letters(one.fields.get(INPUT, ""))
        keys = [f"id {one.id}", *(f"answer {text.strip()}" for text in one.correct)]
        candidates = {c.id: c for key in keys for c in by_key.get(key, ())}.values()
        same = [c for c in candidates if all(_letters(text) in asked for text in c.fields.values() if text.strip())]
        if len(same) == 1:
            n += 1
            one = replace(one, metadata={**same[0].metadata, **one.metadata}, cluster=one.cluster or same[0].cluster)
        found.append(one)
    return found, n


def _letters(text: str) -> str:
    """Return a text without whitespace, which differs between prompts."""
    return "".join(text.split())


def is_known(metric: str) -> bool:
    """Return True if the metric can be computed here from a completion and its instance."""
    return metric in METRICS or metric == JURY


def unknown_benchmarks(store: Store, runs: Iterable[Run], names: Collection[str]) -> list[Benchmark]:
    """Return the benchmarks of imported runs that are not in the catalog; `names`: only these, or all if empty."""
    found: dict[str, Benchmark] = {}
    for run in runs:
        if run.origin and run.taxonomy.category == UNKNOWN and (not names or run.benchmark in names):
            found[run.benchmark] = benchmark_of(run, {}, read_about(store, run.benchmark, run.data_digest))
    return list(found.values())


def stored_dataset(
    runs: Sequence[Run], library: Mapping[str, Benchmark], store: Store, *, data: Path | None, limit: int | None
) -> Dataset:
    """Return the instances of these runs, which are the same for all of them.

    Parameters: library, benchmarks by name; data, a folder with the benchmark's data, for columns that metrics need and
    the imported files lack.
    Raises: StoreError if the instances are not stored.
    """
    first = runs[0]
    about = read_about(store, first.benchmark, first.data_digest)
    own = library.get(first.benchmark)
    known = {} if own is None or own.taxonomy.category == UNKNOWN else {first.benchmark: own}
    more = [name for run in runs for name in run.estimates["published"]]
    benchmark = benchmark_of(first, known, about, more)
    instances = read_instances(
        store, benchmark=first.benchmark, benchmark_digest=first.benchmark_digest, data_digest=first.data_digest
    )
    return imported_dataset(
        benchmark,
        with_data(instances, own, benchmark.metrics, data),
        digest=first.data_digest,
        origin=first.origin,
        settings=first.settings,
        tier=first.tier,
        limit=limit,
    )


def imported_dataset(
    benchmark: Benchmark,
    instances: Sequence[Instance],
    *,
    digest: str,
    origin: Origin | None,
    settings: Mapping[str, Any],
    tier: Tier = "real",
    limit: int | None = None,
) -> Dataset:
    """Return instances of another harness as a data set; `limit`: only the first so many."""
    n = min(limit or len(instances), len(instances))
    return Dataset(
        benchmark=benchmark,
        tier=tier,
        digest=digest,
        selection=InstanceSelection(n_total=len(instances), n=n),
        read=lambda: iter(instances),
        instances=instances,
        imported=ImportedFrom(origin=origin, settings=settings),
    )


def with_data(
    instances: Sequence[Instance], benchmark: Benchmark | None, metrics: Iterable[str], data: Path | None
) -> Sequence[Instance]:
    """Return the instances with missing columns that these metrics need, if the benchmark's data is available."""
    if benchmark is None or data is None or not any(needed_columns(metric) for metric in metrics):
        return instances
    try:
        dataset = open_dataset(benchmark, data=data, tier="real", options=SampleOptions(sample=ALL))
    except (MissingError, UserError):
        return instances
    return completed(instances, dataset)[0]
