"""A gate for continuous integration: compare the models of a store with a reference at a margin."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from medhelm.analysis.comparison.non_inferiority import (
    Change,
    GateResult,
    GateTest,
    NotCompared,
    decide,
    mean_change,
    paired_change,
    ratio_change,
    unpaired_change,
)
from medhelm.analysis.leaderboard.cells import Column
from medhelm.analysis.means import Floats
from medhelm.analysis.ratios import label_scores
from medhelm.domain import JURY, Rule, Run, Tier
from medhelm.domain.benchmark import group_by
from medhelm.domain.result import CellProvenance, Release, Remark
from medhelm.domain.run import SHORT_ID
from medhelm.domain.text import listed, plural
from medhelm.errors import MissingError, UserError, suggestion
from medhelm.results.comparable import BASELINE, Conditions, ConditionsComparison, Content, Difference, conditions_of
from medhelm.results.formats.gate import CRITERION
from medhelm.results.options import BoardOptions, suite_sort_key
from medhelm.results.releases import (
    InstanceScores,
    ReleaseScoring,
    StoredRuns,
    flips,
    read_instance_scores,
    scoring_of,
)
from medhelm.results.runs.criteria import changes_by_criterion
from medhelm.results.runs.selection import match_name, matching_names
from medhelm.results.runs.stored import SHORTEST
from medhelm.storage.damage import no_damaged_runs
from medhelm.storage.ratings import ratings_names
from medhelm.storage.releases import MANIFEST, file_digest, read_release, release_names
from medhelm.storage.runs import load_runs
from medhelm.storage.store import NAME, DamagedRunError, Store, file_name, open_store, read_run

if TYPE_CHECKING:
    from medhelm.results.runs.slices import SliceSource


PREVIOUS = "previous"
"""Reference that is each model's run before its latest."""

LISTED_MODELS = 5
"""Most names in one sentence."""

CORRECTED = ReleaseScoring("corrected", failures_as_worst=True)
"""Scoring of stores and runs."""

Key = tuple[str, str]
"""Model and benchmark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedScore:
    """A score of a release whose run is not stored any more."""

    provenance: CellProvenance
    """The run behind it."""
    estimate: Mapping[str, Any]
    """Value and interval, as on the leaderboard."""
    tier: str
    """Real data or sample rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReference:
    """The scores that a gate compares with."""

    label: str
    """The name that the user gave."""
    runs: Mapping[Key, Sequence[Run]]
    """Finished runs of each model on each benchmark."""
    released: Mapping[Key, ReleasedScore] = field(default_factory=dict)
    """Scores of a release without their runs."""
    scoring: ReleaseScoring = CORRECTED
    """Its scoring."""

    @property
    def keys(self) -> set[Key]:
        """Every model and benchmark with a score."""
        return {*self.runs, *self.released}

    @property
    def tier(self) -> str:
        """Real data, or the sample rows if there is nothing else."""
        tiers = {*(run.tier for runs in self.runs.values() for run in runs), *(o.tier for o in self.released.values())}
        return "sample" if tiers == {"sample"} else "real"

    def on_tier(self, tier: str) -> GateReference:
        """Return only the scores on one tier."""
        return replace(
            self,
            runs={key: kept for key, runs in self.runs.items() if (kept := [run for run in runs if run.tier == tier])},
            released={key: one for key, one in self.released.items() if one.tier == tier},
        )


def _by_key(runs: Iterable[Run]) -> dict[Key, list[Run]]:
    """Return the finished runs of each model on each benchmark."""
    return group_by((run for run in runs if run.is_complete), lambda run: (run.model, run.benchmark))


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """Options of a gate."""

    margin: float = 0.02
    """Largest drop that passes, on a scale from 0 (worst) to 1 (best); above 0."""
    models: tuple[str, ...] = ()
    """Models of the store; empty: all that the reference has, too."""
    baseline_model: str = ""
    """Name of the one model in the reference, where it differs."""
    benchmarks: tuple[str, ...] = ()
    """Benchmarks; empty: all that the reference has of the model."""
    rule: Rule | None = None
    """Scoring rule; None: that of the release, or the corrected one."""
    tier: Tier | None = None
    """Real data or sample rows; None: real data, if the reference has any."""
    each: bool = False
    """True if each benchmark must pass."""
    allow_missing: bool = False
    """True if benchmarks that cannot be compared do not keep the gate from passing."""
    ignore_missing: bool = False
    """True if missing scores are left out instead of counted against a verdict."""
    by: str = ""
    """`criterion`: no criterion of the judges' rubrics may be worse; or a column of the data, or `BENCHMARK:COLUMN`, of
    which no slice may be; empty for none."""
    source: SliceSource | None = None
    """Definitions and data that its values are read with; None without a column."""


def gate(store: Path, against: str, options: GateOptions) -> GateResult:
    """Compare the models of a store with a reference.

    Parameters: against, folder of another store, of a run or of a release; the name of a release of this store; the
    id of one of its runs; or `previous`.
    Damaged runs of other models and benchmarks are left out with a warning. Raises: UserError for an unknown name;
    StoreError for damaged runs; MissingError if nothing can be compared.
    """
    with no_damaged_runs(partial(_is_needed, options)):
        return _compare(store, against, options)


def _is_needed(options: GateOptions, error: DamagedRunError) -> bool:
    """Return whether a damaged run may be one that the options select, whose names of models may be shortened."""
    names = [file_name(name).lower() for name in (*options.models, options.baseline_model) if name]
    is_selected = not options.models or any(name in error.model.lower() for name in names)
    return is_selected and (not options.benchmarks or error.benchmark in options.benchmarks)


def _compare(store: Path, against: str, options: GateOptions) -> GateResult:
    """Compare as `gate`."""
    opened = open_store(store)
    reference = find_reference(opened, against)
    scoring = reference.scoring
    if options.rule:
        scoring = ReleaseScoring(options.rule, failures_as_worst=options.rule == "corrected")
    tier = options.tier or reference.tier
    reference = reference.on_tier(tier)
    runs = [run for run in load_runs(opened) if run.tier == tier]
    if not runs:
        raise UserError(f"no finished run on {tier} data in {store}, so there is nothing to compare with {against}.")
    comparer = _Comparer(runs, reference, scoring, ignore_missing=options.ignore_missing)
    pairs = _model_pairs(comparer, options)
    tests: list[GateTest] = []
    not_compared: list[NotCompared] = []
    criteria: list[GateTest] = []
    for model, baseline_model in pairs:
        own: list[GateTest] = []
        for benchmark in sorted(_benchmarks(reference, baseline_model, options), key=suite_sort_key):
            found = comparer.compare(model, baseline_model, benchmark)
            if isinstance(found, NotCompared):
                not_compared.append(found)
            else:
                own.append(found)
        if own:
            overall = mean_change([one.change for one in own])
            mean = replace(own[0], benchmark="", title="Mean", metric="", metric_title="", change=overall)
            own = [*(test for one in own for test in (one, *comparer.slice_tests(one, options))), mean]
        criteria += [one for test in own if not test.slice for one in comparer.criterion_tests(test)]
        tests += own
    if tests and options.source and not comparer.has_slices:
        raise comparer.slice_problem(options.by)
    if not tests:
        lines = [f"- {one.title}, {one.model}: {one.reason}" for one in not_compared]
        raise MissingError("\n".join([f"nothing can be compared with {against}.", *lines]))
    return GateResult(
        against=against,
        margin=options.margin,
        tests=decide(tests, options.margin),
        not_compared=tuple(not_compared),
        allow_missing=options.allow_missing,
        each=options.each,
        criteria=decide(criteria, options.margin),
        by_criterion=options.by == CRITERION,
        remarks=(
            *comparer.remarks,
            *_unchecked_remarks(runs, reference, pairs, options),
            *_jury_remarks(store, {one.benchmark for one in tests}, tier),
        ),
    )


def _jury_remarks(store: Path, tested: Collection[str], tier: str) -> list[Remark]:
    """Return remarks on tested benchmarks on which the jury is not shown to agree with the clinicians of the store."""
    if not ratings_names(Store(store)):
        return []
    from medhelm.results.calibration import jury_sentences  # lazy: few stores have ratings
    from medhelm.results.leaderboard import calibrated_inputs, read_inputs

    options = BoardOptions(tier="sample" if tier == "sample" else "real")
    finished = calibrated_inputs(read_inputs([store], options), options, [store])
    if finished.calibration is None:
        return []
    columns = [column for column in finished.columns if column.benchmark in tested]
    doubts, _ = jury_sentences(finished.calibration, columns)
    return [Remark("jury_not_shown_to_agree", "", text) for text in doubts]


# --- the reference ----------------------------------------------------------------------------------------------------


def find_reference(store: Store, against: str) -> GateReference:
    """Find a store, run or release by its folder, or a release or run of the store by its name or id.

    `previous` is each model's run before its latest. Raises: UserError if there is none, or it is the store itself.
    """
    folder = Path(against)
    if (folder / NAME).is_file():
        if (folder.resolve().parents[2] / "store.json").is_file():
            open_store(folder.resolve().parents[2])  # which may be encrypted
        if found := _by_key([read_run(folder / NAME)]):
            return GateReference(label=against, runs=found)
        raise UserError(f"the run in {against} was interrupted. Finish it with the command that started it.")
    if (folder / "store.json").is_file():
        if folder.resolve() == store.folder.resolve():
            raise UserError(
                f"--against {against} is the store itself. Name another store, a run or a release: `medhelm release "
                "NAME` makes one."
            )
        if found := _by_key(load_runs(open_store(folder))):
            return GateReference(label=against, runs=found)
        raise UserError(f"the store {against} has no finished run. Start one with `medhelm run --store {against}`.")
    names = release_names(store)
    if (folder / MANIFEST).is_file() or against in names:
        return _release_reference(store, against, read_release(store, against))
    runs = load_runs(store)
    if against == PREVIOUS:
        return GateReference(label=against, runs=_previous_runs(runs))
    named = [run for run in runs if len(against) >= SHORTEST and run.id.startswith(against)]
    if len(named) == 1 and named[0].is_complete:
        return GateReference(label=against, runs=_by_key(named))
    if named:
        several = "; ".join(f"{run.id[:SHORT_ID]} ({run.status}, {run.benchmark} with {run.model})" for run in named)
        raise UserError(f"`{against}` is not the id of one complete run: {several}.")
    known = suggestion(against, names) if names else "`medhelm release NAME` makes one."
    raise UserError(
        f"`{against}` is neither the folder of a store, run or release, nor a release or run of {store.folder}. {known}"
    )


def _previous_runs(runs: Iterable[Run]) -> dict[Key, list[Run]]:
    """Return the runs of each model on each benchmark except the latest. Raises: UserError if there are none."""
    ordered = sorted(runs, key=lambda run: (run.fresh, run.started))
    complete = (run for run in ordered if run.is_complete)
    groups = group_by(complete, lambda run: (run.model, run.benchmark, run.tier)).values()
    if found := _by_key(run for own in groups for run in own[:-1]):
        return found
    raise UserError("the store has only one run of each model on each benchmark. `medhelm run --fresh` adds one.")


def _release_reference(store: Store, against: str, release: Release) -> GateReference:
    """Look up the runs behind a release, in the store and in the one that holds the release."""
    folder, places = Path(against), [store]
    if (folder / MANIFEST).is_file() and (folder.resolve().parents[1] / "store.json").is_file():
        places.insert(0, open_store(folder.resolve().parents[1]))
    known = StoredRuns(run for place in places for run in load_runs(place))
    rows = (*release.leaderboard["models"], *release.leaderboard.get("baselines", ()))
    shown = {row["model"]: row.get("benchmarks", {}) for row in rows}
    tier = str(release.leaderboard.get("tier", "real"))
    runs: dict[Key, list[Run]] = {}
    released: dict[Key, ReleasedScore] = {}
    for one in release.provenance:
        key = (one.model, one.benchmark)
        if stored := known.behind(one):
            runs[key] = [stored]
        elif (estimate := shown.get(one.model, {}).get(one.benchmark)) is not None:
            released[key] = ReleasedScore(provenance=one, estimate=estimate, tier=tier)
    return GateReference(label=against, runs=runs, released=released, scoring=scoring_of(release))


def _model_pairs(comparer: _Comparer, options: GateOptions) -> list[tuple[str, str]]:
    """Return the models to compare, each with its name in the reference. Raises: UserError for unknown names."""
    here, there = {model for model, _ in comparer.runs}, {model for model, _ in comparer.reference.keys}
    label = comparer.reference.label
    if options.baseline_model and len(options.models) != 1:
        raise UserError("--baseline-model names the one model of the reference to compare with: give one --model.")
    if options.models:
        wanted = [match_name(name, here) if matching_names(name, here) else name for name in options.models]
        wanted = list(dict.fromkeys(wanted))
        lines = [
            f"no finished run of `{name}`. {suggestion(name, here)}".rstrip() for name in wanted if name not in here
        ]
        olds = [options.baseline_model or name for name in wanted]
        hint = "" if options.baseline_model else " Name it with --baseline-model."
        lines += [
            f"{label} has no score of `{name}`. {suggestion(name, there)}{hint}" for name in olds if name not in there
        ]
        if lines:
            raise UserError("\n".join(lines))
        return list(zip(wanted, olds, strict=True))
    both = sorted(here & there)
    both = [name for name in both if not name.startswith(BASELINE)] or both
    if not both:
        raise UserError(
            f"the store and {label} have no model in common: {listed(sorted(here), LISTED_MODELS)} here, "
            f"{listed(sorted(there), LISTED_MODELS) or 'none'} there. Name them with --model and --baseline-model."
        )
    return [(name, name) for name in both]


def _benchmarks(reference: GateReference, baseline_model: str, options: GateOptions) -> list[str]:
    """Return the benchmarks to compare a model on. Raises: UserError for one that the reference does not have."""
    known = {benchmark for _, benchmark in reference.keys}
    if unknown := [name for name in options.benchmarks if name not in known]:
        lines = [f"{reference.label} has no scores on `{name}`. {suggestion(name, known)}" for name in unknown]
        raise UserError("\n".join(lines))
    own = {benchmark for model, benchmark in reference.keys if model == baseline_model}
    return list(dict.fromkeys(options.benchmarks)) or sorted(own)


def _unchecked_remarks(
    runs: Iterable[Run], reference: GateReference, pairs: Sequence[tuple[str, str]], options: GateOptions
) -> list[Remark]:
    """Return remarks on models and benchmarks that were not compared."""
    remarks = []
    olds, news = {old for _, old in pairs}, {new for new, _ in pairs}
    if others := sorted({model for model, _ in reference.keys if not model.startswith(BASELINE)} - olds):
        text = f"Not checked, because they are not compared here: {listed(others, LISTED_MODELS)} of the reference."
        remarks.append(Remark("models_not_checked", "", text))
    known = {benchmark for _, benchmark in reference.keys}
    more = sorted({run.benchmark for run in runs if run.model in news} - known)
    if more and not options.benchmarks:
        text = f"Not checked, because the reference does not have them: {listed(more, LISTED_MODELS)}."
        remarks.append(Remark("benchmarks_not_checked", "", text))
    return remarks


# --- comparisons ------------------------------------------------------------------------------------------------------


class _Comparer:
    """Compares one model on one benchmark with the reference, and collects remarks."""

    def __init__(
        self, runs: Sequence[Run], reference: GateReference, scoring: ReleaseScoring, *, ignore_missing: bool
    ) -> None:
        self.reference, self.scoring, self.ignore_missing = reference, scoring, ignore_missing
        self.runs = _by_key(runs)
        self.unfinished = {(run.model, run.benchmark): run for run in runs if not run.is_complete}
        self.remarks: list[Remark] = []
        self.has_slices = False
        """True after a test of a slice."""
        self._shared: dict[tuple[str, str, str], _SharedScores] = {}
        self._slice_problems: list[UserError | MissingError] = []

    def _counted(self, change: Change) -> Change:
        """Return a change as it counts: without what missing scores could alter, if these are ignored."""
        return change.without_bounds() if self.ignore_missing else change

    def compare(self, model: str, baseline_model: str, benchmark: str) -> GateTest | NotCompared:
        """Return the comparison, or the reason why there is none."""
        news, olds = self.runs.get((model, benchmark), []), self.reference.runs.get((baseline_model, benchmark), [])
        released = self.reference.released.get((baseline_model, benchmark))
        names = {"model": model, "baseline_model": baseline_model, "benchmark": benchmark}
        title = next((run.title for run in [*news, *olds]), benchmark)
        if not news or not (olds or released):
            return NotCompared(**names, title=title, reason=self._why_missing((model, benchmark), bool(news)))
        if olds:
            found = self._compare_with_runs(news, olds)
        else:
            assert released is not None, "either a run or a released score is known"
            found = self._compare_with_score(news, released)
        if isinstance(found, str):
            return NotCompared(**names, title=title, reason=found)
        change, column = found
        return GateTest(
            model=model,
            baseline_model=baseline_model,
            benchmark=benchmark,
            title=title,
            metric=column.metric,
            metric_title=column.metric_title,
            change=self._counted(change),
        )

    def _why_missing(self, key: Key, has_run: bool) -> str:
        if has_run:
            return f"{self.reference.label} has no score of this model"
        if run := self.unfinished.get(key):
            return f"its run was interrupted ({run.n - run.n_failed} of {run.n}): run the same command again"
        return "it was not run"

    def _compare_with_runs(self, news: Sequence[Run], olds: Sequence[Run]) -> tuple[Change, Column] | str:
        """Compare the two runs whose conditions agree best; of equals the largest, then the latest."""
        comparison = ConditionsComparison([*news, *olds])
        pairs = []
        for new in news:
            for old in olds:
                if new.folder and old.folder and new.folder.resolve() == old.folder.resolve():
                    continue
                differences = comparison.differences(conditions_of(new), conditions_of(old))
                blocking = sum(one.part != "instances" for one in differences)
                rank = (
                    -blocking,
                    not differences,
                    new.main_metric == JURY,
                    min(new.n, old.n),
                    (new.fresh, new.started),
                    (old.fresh, old.started),
                )
                pairs.append((rank, new, old, differences))
        if not pairs:
            return "its run is the one behind the reference: nothing was measured since"
        _, new, old, differences = max(pairs, key=lambda pair: pair[0])
        if any(one.part != "instances" for one in differences):
            return _reason(differences)
        return self._compare_shared(new, old, differences)

    def _compare_shared(
        self, new_run: Run, old_run: Run, differences: Sequence[Difference]
    ) -> tuple[Change, Column] | str:
        """Compare two runs on the instances that both were run on."""
        new, old = (read_instance_scores(run, self.scoring) for run in (new_run, old_run))
        if new.scale != old.scale:
            return f"scored by {new.column.metric}, the reference by {old.column.metric} or on another scale"
        ids = list(new.cell.ids)
        if set(ids) != set(old.cell.ids):
            if new.cell.tested is not None or old.cell.tested is not None:
                return _reason(differences) or "run on other instances"
            there = set(old.cell.ids)
            ids = [one for one in ids if one in there]
            text = f"{new_run.title}: {new_run.model} is compared on the {plural(len(ids), 'instance')} of both runs; "
            text += f"it was run on {new_run.n:,}, the reference on {old_run.n:,}."
            self.remarks.append(Remark("shared_instances", new_run.benchmark, text))
        shared = _SharedScores(new_run, old_run, new, old, ids)
        change = shared.change(ids)
        if change is None:
            return "no instance has a score in both runs"
        if _same_records(new_run, old_run):
            text = f"{new_run.title}: the records of {new_run.model} are those of the reference, byte for byte. "
            text += "If they come from a copied cache, nothing new was measured."
            self.remarks.append(Remark("same_records", new_run.benchmark, text))
        self._shared[new_run.model, old_run.model, new_run.benchmark] = shared
        return change, new.column

    def slice_tests(self, test: GateTest, options: GateOptions) -> list[GateTest]:
        """Return the same test on each slice of the column that the options name; none without a column."""
        if options.source is None:
            return []
        from medhelm.results.runs.slices import changes_by_slice, split_column  # lazy: few gates have slices

        only, column = split_column(options.by, {benchmark for _, benchmark in self.runs})
        shared = self._shared.get((test.model, test.baseline_model, test.benchmark))
        if shared is None or (only and only != test.benchmark):
            return []
        try:
            found, remarks = changes_by_slice(
                [shared.new_run, shared.old_run],
                [shared.new.cell, shared.old.cell],
                shared.ids,
                shared.change,
                column,
                options.source,
            )
        except (UserError, MissingError) as error:
            self._slice_problems.append(error)
            return []
        self.has_slices = True
        self.remarks += remarks
        return [replace(test, slice=name, change=self._counted(change)) for name, change in found.items()]

    def slice_problem(self, by: str) -> UserError | MissingError:
        """Return the error for a column that no compared benchmark has."""
        from medhelm.results.runs.slices import worst_problem

        return worst_problem(self._slice_problems or [UserError(f"--by {by}: no compared benchmark has this column.")])

    def criterion_tests(self, test: GateTest) -> list[GateTest]:
        """Return the same test on each criterion of the judges' rubric, and of the score with floors."""
        shared = self._shared.get((test.model, test.baseline_model, test.benchmark))
        if shared is None or self.scoring.scoring != "corrected":
            return []
        found = changes_by_criterion(
            [shared.new_run, shared.old_run],
            [(shared.new.cell, shared.new.scored), (shared.old.cell, shared.old.scored)],
            shared.new.column,
            shared.ids,
        )
        return [
            replace(test, metric=name, metric_title=title, is_criterion=True, change=self._counted(change))
            for name, title, change in found
        ]

    def _compare_with_score(self, news: Sequence[Run], released: ReleasedScore) -> tuple[Change, Column] | str:
        """Compare a run with a score of a release whose own run is not stored."""
        if self.scoring != self.reference.scoring:
            return f"the release is scored by the {self.reference.scoring.scoring} rule, and its run is not stored"
        old = released.provenance
        comparison = ConditionsComparison(news)
        found = {run.id: comparison.differences(conditions_of(run), _released_conditions(old)) for run in news}
        new = max(news, key=lambda run: (-len(found[run.id]), run.started))
        if found[new.id]:
            return _reason(found[new.id])
        side = read_instance_scores(new, self.scoring)
        estimate, column = side.cell.estimate, side.column
        before = [released.estimate.get(name) for name in ("value", "low", "high")]
        numbers = [one for one in before if isinstance(one, int | float) and not isinstance(one, bool)]
        if estimate is None or len(numbers) < len(before) or not np.isfinite(numbers).all():
            return "its run is not stored, and the release has no interval"
        then, now = _normalized(numbers, column), _normalized([estimate.value, estimate.low, estimate.high], column)
        failed = [released.estimate.get(name) for name in ("n_failed", "n_failed_by_model")]
        lost = sum(sign * one for sign, one in zip((1, -1), failed, strict=True) if isinstance(one, int))
        shares = (side.cell.share_missing, max(lost, 0) / max(old.n, 1))
        text = (
            f"{new.title}: the run behind the release is not stored, so two means are compared, not single instances. "
        )
        self.remarks.append(Remark("means_only", new.benchmark, text + "The interval is wider than it would be."))
        return unpaired_change(now, then, min(new.n, old.n), shares), column


@dataclass(frozen=True, slots=True)
class _SharedScores:
    """Scores of two runs on the instances of both."""

    new_run: Run
    old_run: Run
    new: InstanceScores
    old: InstanceScores
    ids: Sequence[str]

    def change(self, ids: Sequence[str]) -> Change | None:
        """Compare the runs on some of the instances; None if none of them has both scores.

        The change names the instances that one run has right and the other wrong.
        """
        sides, clusters = (self.new, self.old), self.new.clusters_in_order(ids)
        labels, scores = _labels_in_order(sides, ids)
        found = ratio_change(scores[0], scores[1], labels, clusters) if labels else None
        if found is None:
            new, old = (side.in_order(side.tested, ids) for side in sides)
            found = paired_change(new, old, clusters)
        gained, lost = flips(self.old, self.new, ids)
        return found and replace(found, gained=tuple(gained), lost=tuple(lost))


def _labels_in_order(sides: Sequence[InstanceScores], ids: Sequence[str]) -> tuple[list[str], list[Floats]]:
    """Return the label of each instance and the normalized scores of both runs; no labels if a number has none."""
    names: dict[str, str] = {}
    scores = []
    for side in sides:
        cell = side.cell
        if cell.parts is None or cell.scores is None or (found := label_scores(cell.scores, cell.parts)) is None:
            return [], []
        names |= {one: label for one, label in zip(cell.ids, found[0], strict=True) if label}
        scores.append(side.in_order(side.column.normalize(found[1]), ids))
    return [names.get(one, "") for one in ids], scores


def _released_conditions(old: CellProvenance) -> Conditions:
    """Return the conditions that a release records."""
    judged = old.metric == JURY
    temperature, max_tokens = old.settings.get("temperature"), old.settings.get("max_tokens")
    return Conditions(
        metric=old.metric,
        judges=tuple(sorted(old.jury)) if judged else (),
        min_judges=old.min_judges if judged else 0,
        content=Content(old.definition, old.data, old.settings.get("limit")),
        is_prompted=not old.model.startswith(BASELINE),
        temperature=float(temperature) if isinstance(temperature, int | float) else None,
        max_tokens=int(max_tokens) if isinstance(max_tokens, int) else None,
    )


def _normalized(numbers: Sequence[float], column: Column) -> tuple[float, float, float]:
    """Return a value with its interval on a scale from 0 (worst) to 1 (best)."""
    value, *ends = (float(column.normalize(one)) for one in numbers)
    return value, min(ends), max(ends)


def _reason(differences: Sequence[Difference]) -> str:
    """Return how the conditions of two runs differ."""
    return "; ".join(one.reason.replace("the others", "the reference") for one in differences)


def _same_records(new: Run, old: Run) -> bool:
    """Return whether two runs have the same records; False for baselines and replays, which always repeat theirs."""
    if new.model.startswith((BASELINE, "replay/")) or new.folder is None or old.folder is None:
        return False
    digests = {file_digest(run.folder / "records.parquet") for run in (new, old) if run.folder}
    return len(digests) == 1
