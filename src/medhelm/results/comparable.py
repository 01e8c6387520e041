"""Comparable runs: the conditions that must be equal, the models that are left out, and the selection of runs.

Models share a benchmark's column only if the conditions of their runs are equal. `run.json` holds one digest of the
definition and one of data and selection. Runs with equal digests had the same prompts, references and rubric. Otherwise
the stored prompts of both say which part differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from medhelm.domain import JURY, Run, Tier
from medhelm.domain.benchmark import group_by
from medhelm.domain.completion import UNSAMPLED
from medhelm.domain.option_fields import words
from medhelm.domain.result import LeftOut, Remark, Remedy
from medhelm.domain.run import asked_in_words
from medhelm.domain.text import listed, plural
from medhelm.errors import UserError
from medhelm.evaluation.settings import RUBRIC_FILE, Settings
from medhelm.evaluation.stored_settings import JuryOptions, jury_options, repeating_words, settings_of
from medhelm.models.model_names import plain_name
from medhelm.storage.runs import read_prompt_digests
from medhelm.storage.store import Store

# --- conditions -------------------------------------------------------------------------------------------------------

Part = Literal[
    "metric",
    "judges",
    "verification codes",
    "rubric",
    "instances",
    "prompts",
    "answer key",
    "definition",
    "data",
    "temperature",
    "completion limit",
]
"""A condition. `data`: prompts, references or instances, if it is not known which."""

CONTENT: frozenset[Part] = frozenset({"instances", "prompts", "answer key", "definition", "data"})
"""Parts that belong to the benchmark rather than to the way a model or a jury was called."""

BASELINE = "baseline/"
"""Start of the names of baselines, which read no prompt and sample nothing."""

HARNESSES = {"helm": "HELM", "inspect": "Inspect", "lm_eval": "lm-eval"}
"""Harness -> its name in sentences."""


class Content(NamedTuple):
    """Digests that identify instances, prompts, references and rubric."""

    definition: str = ""
    """Digest of the definition."""
    data: str = ""
    """Digest of the data files and of the selection of instances."""
    limit: int | None = None
    """Number of the first instances that were evaluated; None for all."""


NO_CONTENT = Content()
"""Any content, where only metric and jury must be equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Conditions of a run. One that does not apply to a model, or is not known, is None."""

    metric: str
    """Metric of the leaderboard."""
    judges: tuple[str, ...] = ()
    """Names of the judges, sorted."""
    min_judges: int = 0
    """Judges that an instance needs."""
    has_codes: bool | None = None
    """True if the judges returned verification codes; None without judges, and for judgments made elsewhere."""
    own_data: bool = False
    """True for the user's own data instead of the published files of the benchmark."""
    rubric: str = ""
    """Name of the rubric; empty without judges, or if there is only one."""
    own_rubric: str = ""
    """Digest of the rubric, if it is one of the user's own; else empty."""
    content: Content = NO_CONTENT
    """Digests of instances, prompts, references and rubric."""
    is_prompted: bool = True
    """False for baselines, which read no prompt."""
    harness: str = ""
    """Harness that the prompts come from; empty for MedHELM."""
    asked: str = ""
    """Setting and variant of a run that asked other questions than the benchmark's; its row is named after them."""
    temperature: float | None = None
    """Sampling temperature; None for reasoning models and servers that take none, and where the user chose one."""
    max_tokens: int | None = None
    """The benchmark's limit on a completion; None for models with a limit of their own."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A finished run of a benchmark, with its conditions."""

    model: str
    """Name of the model on the leaderboard."""
    run: Run
    """The run."""
    conditions: Conditions
    """Its conditions."""
    store: str = ""
    """Folder of the store, if there are several."""

    @property
    def is_contestant(self) -> bool:
        """True for a model, False for a baseline."""
        return not self.run.model.startswith(BASELINE)


@dataclass(frozen=True, slots=True)
class Difference:
    """One condition on which a run differs from others."""

    part: Part
    """The condition."""
    reason: str
    """The difference, as a participle: `sampled at temperature 0.7, the others at 0`."""


def conditions_of(run: Run, *, comparable_only: bool = True) -> Conditions:
    """Return the conditions of a run; without `comparable_only` only its metric and its jury."""
    jury = run.jury_result.jury if run.main_metric == JURY and run.jury_result else None
    basic = Conditions(
        metric=run.main_metric,
        judges=tuple(sorted(judge.name for judge in jury.judges)) if jury else (),
        min_judges=jury.min_judges if jury else 0,
        rubric=run.rubric if jury else "",
        own_rubric=run.jury_result.rubric_digest if jury and run.jury_result and run.settings.get(RUBRIC_FILE) else "",
        own_data=has_own_data(run),
    )
    if not comparable_only:
        return basic
    return replace(
        basic,
        has_codes=jury.has_codes if jury and not run.has_imported_prompts else None,
        content=content_of(run),
        is_prompted=not run.model.startswith(BASELINE),
        harness=run.origin.harness if run.origin and run.has_imported_prompts else "",
        asked=asked_in_words(run.settings) if run.is_variant else "",
        temperature=None if run.setting or _has_own_temperature(run) else temperature_of(run),
        max_tokens=None if run.is_variant else _shared_limit(run),
    )


def content_of(run: Run) -> Content:
    """Return what identifies the instances, prompts, references and rubric of a run."""
    return Content(run.benchmark_digest, run.data_digest, run.settings.get("limit"))


def has_own_data(run: Run) -> bool:
    """Return whether a run read the user's own data instead of the published files (`--own-data`)."""
    return bool(run.settings.get("own_data"))


def temperature_of(run: Run) -> float | None:
    """Return the temperature that a model was sampled at; None if it takes none, or it is not known."""
    model = run.resolved_model
    provider = model.provider if model else run.model.partition("/")[0]
    if provider in UNSAMPLED or "temperature" in run.refused_parameters:
        return None
    if model and model.reasoning and run.settings.get("temperature") is None:
        return None
    parameters = model.parameters if model else {}
    found = parameters.get("temperature", run.settings.get("temperature"))
    return float(found) if isinstance(found, int | float) else None


def _has_own_temperature(run: Run) -> bool:
    """Return whether the user set the temperature of the model in models.yaml."""
    return run.resolved_model is not None and "temperature" in run.resolved_model.parameters


def temperature_remarks(runs: Mapping[tuple[str, str], Run]) -> list[Remark]:
    """Return the remark on models that were sampled at other temperatures than most, if there are any.

    `runs`: model and benchmark -> its run.
    """
    found = {model: value for (model, _), run in runs.items() if (value := temperature_of(run)) is not None}
    by_value = group_by(found, found.__getitem__)
    if len(by_value) < 2:
        return []
    usual = max(by_value, key=lambda value: (len(by_value[value]), -value))
    others = [f"{listed(names, NAMES)} at {value:g}" for value, names in by_value.items() if value != usual]
    text = f"Sampled at another temperature than the others ({usual:g}): {listed(others)}."
    return [Remark("temperatures_differ", "", text)]


def _shared_limit(run: Run) -> int | None:
    """Return the limit on completions if it is that of the benchmark, and not one of the model alone."""
    model = run.resolved_model
    has_own = model is None or model.reasoning or model.max_tokens or model.provider in UNSAMPLED
    if has_own or run.has_imported_completions:
        return None
    return int(run.settings.get("max_tokens") or 0) or None


class ConditionsComparison:
    """Compares conditions of runs of one benchmark; opens the stored prompts only where digests differ."""

    def __init__(self, runs: Iterable[Run]) -> None:
        """Remember the runs, whose stores hold the prompts."""
        self._runs = list(runs)
        self._instances: dict[Content, Mapping[str, tuple[str, str]] | None] = {}
        self._found: dict[tuple[Conditions, Conditions], tuple[Difference, ...]] = {}

    def is_known(self, conditions: Conditions) -> bool:
        """Return whether the prompts can be compared with others: not those of an import without stored prompts."""
        return not conditions.harness or self._read(conditions.content) is not None

    def differences(self, one: Conditions, others: Conditions) -> tuple[Difference, ...]:
        """Return how conditions differ from those of others; empty if both may share a column."""
        key = (one, others)
        if key not in self._found:
            self._found[key] = (
                *_scoring_differences(one, others),
                *self._content_differences(one, others),
                *_sampling_differences(one, others),
            )
        return self._found[key]

    def _content_differences(self, one: Conditions, others: Conditions) -> list[Difference]:
        """Return how instances, prompts, references and definition differ."""
        mine, theirs = one.content, others.content
        if one.own_data != others.own_data:
            data, theirs_on = ("own", "the published") if one.own_data else ("the published", "own")
            return [Difference("data", f"run on {data} data, the others on {theirs_on} data")]
        if mine == theirs or (one.asked != others.asked and not (one.harness or others.harness)):
            return []
        own, rest = self._read(mine), self._read(theirs)
        if own is None or rest is None:
            return _digest_differences(one, others)
        found = _instance_differences(one, others, own, rest)
        same_rules = bool(one.harness or others.harness) or mine.definition == theirs.definition
        same_rules = same_rules or _rubric_differences(one, others) != []  # that explains the other digest
        if not same_rules and all(difference.part == "instances" for difference in found):
            shared = own.keys() & rest.keys()
            if all(own[name][0] == rest[name][0] for name in shared):  # else that explains the other digest
                reason = "scored by another version of the benchmark's definition, such as its rubric or metrics"
                found.append(Difference("definition", reason))
        return found

    def _read(self, content: Content) -> Mapping[str, tuple[str, str]] | None:
        """Return instance -> digests of its prompt and of its references; None if they are not stored."""
        if content not in self._instances:
            files = {
                Store(run.folder.parents[2]).prompts_file(run.benchmark, run.benchmark_digest, run.data_digest)
                for run in self._runs
                if run.folder and content_of(run) == content
            }
            read = (read_prompt_digests(file, content.limit) for file in sorted(files))
            self._instances[content] = next((found for found in read if found is not None), None)
        return self._instances[content]


def _scoring_differences(one: Conditions, others: Conditions) -> list[Difference]:
    """Return how metric, jury and rubric differ."""
    if one.metric != others.metric and not (others.judges and not one.judges):
        return [Difference("metric", f"scored by {one.metric}, the others by {others.metric}")]
    found = _rubric_differences(one, others)
    if one.judges != others.judges:
        theirs = listed(others.judges) or "none"
        reason = f"graded by {listed(one.judges)}, the others by {theirs}" if one.judges else f"not graded by {theirs}"
        return [Difference("judges", reason), *found]
    if one.min_judges != others.min_judges:
        reason = f"scored if {plural(one.min_judges, 'judge')} graded, the others if {others.min_judges} did"
        return [Difference("judges", reason), *found]
    if None not in (one.has_codes, others.has_codes) and one.has_codes != others.has_codes:
        way, theirs = ("with", "without") if one.has_codes else ("without", "with")
        reason = f"graded {way} verification codes, the others {theirs} them"
        return [Difference("verification codes", reason), *found]
    return found


def _rubric_differences(one: Conditions, others: Conditions) -> list[Difference]:
    """Return how the rubrics differ, if both have names or one is the user's own."""
    if one.own_rubric != others.own_rubric:
        if one.rubric == others.rubric:
            return [Difference("rubric", f"graded by another version of the {one.rubric} rubric than the others")]
        mine, theirs = (
            f"the {name} rubric" if name else "the benchmark's rubric" for name in (one.rubric, others.rubric)
        )
        return [Difference("rubric", f"graded by {mine}, the others by {theirs}")]
    if not (one.rubric and others.rubric) or one.rubric == others.rubric:
        return []
    return [Difference("rubric", f"graded by the {one.rubric} rubric, the others by the {others.rubric} one")]


def _sampling_differences(one: Conditions, others: Conditions) -> list[Difference]:
    """Return how sampling differs, where both are known and apply."""
    found = []
    if None not in (one.temperature, others.temperature) and one.temperature != others.temperature:
        reason = f"sampled at temperature {one.temperature:g}, the others at {others.temperature:g}"
        found.append(Difference("temperature", reason))
    if one.max_tokens and others.max_tokens and one.max_tokens != others.max_tokens:
        reason = f"limited to {one.max_tokens:,} tokens a completion, the others to {others.max_tokens:,}"
        found.append(Difference("completion limit", reason))
    return found


def _digest_differences(one: Conditions, others: Conditions) -> list[Difference]:
    """Return how contents differ if prompts are not stored; none if one of them was imported."""
    if one.harness or others.harness:
        return []
    mine, theirs = one.content, others.content
    if mine.data != theirs.data:
        return [Difference("data", "run on another version or selection of the data")]
    if mine.definition != theirs.definition:
        return [Difference("data", "run with another version of the benchmark's definition")]
    return []


def _instance_differences(
    one: Conditions, others: Conditions, own: Mapping[str, tuple[str, str]], rest: Mapping[str, tuple[str, str]]
) -> list[Difference]:
    """Return how instances, prompts and references differ. `own`, `rest`: digests by instance."""
    shared = own.keys() & rest.keys()
    found = []
    is_prompted = one.is_prompted and others.is_prompted
    n_prompts = sum(own[name][0] != rest[name][0] for name in shared)
    if is_prompted and one.harness != others.harness and (n_prompts or not shared):
        mine, theirs = (HARNESSES.get(harness, "MedHELM") for harness in (one.harness, others.harness))
        return [Difference("prompts", f"given the prompts of {mine}, the others those of {theirs}")]
    if own.keys() != rest.keys():
        found.append(Difference("instances", _instances_in_words(one, others, own.keys(), rest.keys())))
    if is_prompted and n_prompts:
        found.append(Difference("prompts", f"given other prompts on {n_prompts:,} of {len(shared):,} instances"))
    n_keys = sum(own[name][1] != rest[name][1] for name in shared)
    if n_keys and one.harness == others.harness:
        reason = f"scored with another answer key on {n_keys:,} of {len(shared):,} instances"
        found.append(Difference("answer key", reason))
    return found


def _instances_in_words(one: Conditions, others: Conditions, own: Iterable[str], rest: Iterable[str]) -> str:
    """Say which instances a model was run on, compared with others."""
    mine, theirs = set(own), set(rest)
    if mine < theirs:
        first = "the first " if one.content.limit == len(mine) else ""
        return f"run on only {first}{len(mine):,} of {len(theirs):,} instances"
    if mine > theirs:
        first = "the first " if others.content.limit == len(theirs) else ""
        return f"run on {len(mine):,} instances, the others on only {first}{len(theirs):,}"
    return (
        f"run on other instances: {len(mine & theirs):,} of {len(mine):,} are among the {len(theirs):,} of the others"
    )


# --- models left out --------------------------------------------------------------------------------------------------
# Reasons why a model is left out of a benchmark, and the command that includes it.

RESCORED: frozenset[Part] = frozenset({"metric", "answer key", "definition", "rubric"})
"""Parts that a definition decides without changing what is sent: rescoring is enough if the data is the same."""

NAMES = 5
"""Most models named in one sentence."""

HELM_RUNS = "HELM_RUNS"
"""Placeholder in a command for the folder of HELM runs, which a store does not hold."""


@dataclass(frozen=True, slots=True)
class RunGroup:
    """The models that share the column of a benchmark, and the conditions that they share."""

    conditions: Conditions
    """The conditions."""
    runs: Mapping[str, Run]
    """Model -> its run."""
    is_current: bool
    """True if the latest run of the benchmark has the same data and definition: a new run then joins the group."""

    @property
    def example(self) -> Run:
        """Return the run whose options others must repeat."""
        return max(self.runs.values(), key=lambda run: (not run.model.startswith(BASELINE), run.started, run.model))


def is_current(
    conditions: Conditions, own: Iterable[Run], candidates: Iterable[Candidate], comparison: ConditionsComparison
) -> bool:
    """Return whether the latest run made here has the data and the definition of a group.

    Another selection of instances alone does not make another version of the data. `own`: the runs of the group;
    `candidates`: all of the benchmark.
    """
    made_here = [one for one in candidates if not one.run.has_imported_prompts]
    if not made_here:
        return False
    latest = max(made_here, key=lambda one: one.run.started)
    parts = {difference.part for difference in comparison.differences(latest.conditions, conditions)} & CONTENT
    return not parts or (parts == {"instances"} and _instance_options(latest.run) not in map(_instance_options, own))


def _instance_options(run: Run) -> tuple[object, ...]:
    return tuple(run.settings.get(name) for name in ("sample", "limit", "subset", "seed", "own_data"))


def left_out(one: Candidate, group: RunGroup, differences: Sequence[Difference]) -> LeftOut:
    """Describe why a model is left out of a benchmark, and which command includes it."""
    run = one.run
    parts = {difference.part for difference in differences}
    reason = "; ".join(difference.reason for difference in differences)
    remedy = _find_remedy(one, group, parts)
    if one.store:
        remedy = replace(remedy, options=(*remedy.options, "--store", one.store))
    return LeftOut(model=one.model, benchmark=run.benchmark, title=run.title, reason=reason, remedy=remedy)


def _find_remedy(one: Candidate, group: RunGroup, parts: set[Part]) -> Remedy:
    """Return the command that gives a model the conditions of the group, or all models the current ones."""
    mine, theirs = one.conditions, group.conditions
    same_data = (mine.content.data, mine.content.limit) == (theirs.content.data, theirs.content.limit)
    models = (one.run.model_name,) if group.is_current else ()
    if parts <= {"judges"} and group.is_current:
        return _jury_remedy(one, group)
    if "verification codes" in parts and parts <= RESCORED | {"verification codes"} and same_data:
        others = _repeat_option("--without", [judge for judge in mine.judges if judge not in theirs.judges])
        is_sendable = theirs.has_codes or not _asks_codes(group.example)
        newer = models if is_sendable else ()  # prompts of 0.1.0 are not sent any more: all are judged again
        rubric = ("--rubric", _rubric_option(group)) if "rubric" in parts else ()
        return Remedy(action="rejudge", models=newer, options=(*_jury_options(group), *others, *rubric))
    if parts <= RESCORED and same_data and not theirs.harness:
        if theirs.judges:
            only = ("--rubric", _rubric_option(group), "--only") if "rubric" in parts else ()
            return Remedy(action="rejudge", models=models, options=(*_jury_options(group), *only))
        return Remedy(
            action="rescore", models=models, options=_repeat_option("--without", mine.judges), sends_nothing=True
        )
    return _run_remedy(one.run, group, sends_nothing=parts == {"answer key"} and not theirs.judges)


def _rubric_option(group: RunGroup) -> str:
    """Return the value of `--rubric` that grades as the judges of a group do."""
    return settings_of(group.example).rubric


def _jury_remedy(one: Candidate, group: RunGroup) -> Remedy:
    """Return the command that gives stored completions the jury of the group; only missing judges are asked."""
    mine, theirs = one.conditions, group.conditions
    wanted = jury_options(group.example) if theirs.judges else JuryOptions()
    missing = tuple(judge for judge in wanted.judges if judge not in mine.judges)
    needed = wanted.min_judges
    if mine.judges:
        needed = theirs.min_judges if mine.min_judges != theirs.min_judges else None
    options = (
        *words(JuryOptions(judges=missing, min_judges=needed)),
        *_repeat_option("--without", [judge for judge in mine.judges if judge not in theirs.judges]),
    )
    action: Literal["rejudge", "rescore"] = "rejudge" if missing else "rescore"
    return Remedy(action=action, models=(one.run.model_name,), options=options, sends_nothing=not missing)


def _run_remedy(run: Run, group: RunGroup, *, sends_nothing: bool) -> Remedy:
    """Return the command that evaluates a model as the group was; all models, if the group is of an older version.

    The cache holds the completions whose requests are unchanged.
    """
    example = group.example
    models: tuple[str, ...] = (run.model_name,)
    like = ""
    if group.conditions.harness == "helm" and example.origin:
        like = f"{HELM_RUNS}/{example.origin.run}"
    elif not group.is_current:
        models = tuple(sorted({run.model_name, *(one.model_name for one in group.runs.values())}))
    options = repeating_words(example)
    return Remedy(action="run", models=models, options=options, like=like, sends_nothing=sends_nothing)


def _jury_options(group: RunGroup) -> tuple[str, ...]:
    """Return the options of `rejudge` that give the jury of the group."""
    if not group.conditions.judges:
        return ()
    codes = Settings(verification_codes=_asks_codes(group.example))
    return (*words(jury_options(group.example)), *words(codes))


def _asks_codes(run: Run) -> bool:
    """Return whether the judges of a run were asked for verification codes, as far as the user chose."""
    return settings_of(run).verification_codes


def _repeat_option(option: str, values: Iterable[str]) -> tuple[str, ...]:
    return tuple(word for value in values for word in (option, value))


def left_out_remarks(entries: Iterable[LeftOut]) -> list[Remark]:
    """Return one remark for each reason, with the models and the benchmarks that it holds for."""
    by_reason = group_by(
        entries,
        lambda entry: (entry.benchmark, entry.reason, replace(entry.remedy, models=()), not entry.remedy.models),
    )
    by_models = group_by(
        by_reason.values(),
        lambda same: (tuple(entry.model for entry in same), same[0].reason, _joint_remedy(same)),
    )
    return [_remark(groups) for groups in by_models.values()]


def _joint_remedy(entries: Sequence[LeftOut]) -> Remedy:
    """Return the remedy for several models on one benchmark."""
    models = dict.fromkeys(model for entry in entries for model in entry.remedy.models)
    return replace(entries[0].remedy, models=tuple(models))


def _remark(groups: Sequence[Sequence[LeftOut]]) -> Remark:
    """Return the remark on the same models, left out of one or several benchmarks for the same reason."""
    first, remedy = groups[0][0], _joint_remedy(groups[0])
    models = [entry.model for entry in groups[0]]
    titles = listed([group[0].title for group in groups], NAMES)
    brings = f"brings {'it' if len(models) == 1 else 'them'} in{' and sends nothing' if remedy.sends_nothing else ''}"
    command = remedy.command([group[0].benchmark for group in groups])
    text = f"Left out of {titles}: {listed(models, NAMES)} ({first.reason}). `{command}` {brings}."
    return Remark("measured_differently", first.benchmark if len(groups) == 1 else "", text)


# --- run selection ----------------------------------------------------------------------------------------------------
# Select one run per model and benchmark, so that only results of the same measurement are compared.


@dataclass(frozen=True, slots=True)
class SelectedRuns:
    """One run for each model and benchmark, measured in the same way on each benchmark."""

    runs: Mapping[tuple[str, str], Run]
    """Model and benchmark -> the selected run."""
    unfinished: Sequence[str]
    """Interrupted runs without a finished run of the same model and benchmark, such as `medec with MODEL (6 of 10)`."""
    left_out: Sequence[LeftOut]
    """Models that do not count on a benchmark, because they were measured under other conditions."""


def select_runs(found: Iterable[tuple[str, Run]], *, comparable_only: bool = True) -> SelectedRuns:
    """Select the runs to compare.

    On each benchmark the runs that count were measured under the same conditions: metric, jury, instances, prompts,
    references, definition and sampling. A jury comes before other metrics if it gave any score. Among groups of runs
    under equal conditions, the one with the most models counts, then the most instances, then the latest; baselines do
    not decide. If a model has more than one run in that group, the one with the most instances counts, then the latest.

    Parameters
    ----------
    found : iterable of (str, Run)
        Each run with the label that distinguishes its model from the same model in another store.
    comparable_only : bool
        False if only metric and jury must be equal, as on leaderboards released before there were other conditions.
    """
    complete: dict[str, list[Candidate]] = {}
    unfinished: dict[tuple[str, str], str] = {}
    for label, run in sorted(found, key=lambda pair: (pair[1].n, pair[1].fresh, pair[1].started)):
        if run.is_complete:
            conditions = conditions_of(run, comparable_only=comparable_only)
            store = str(run.folder.parents[2]) if label and run.folder else ""
            complete.setdefault(run.benchmark, []).append(Candidate(run.model + label, run, conditions, store))
        else:
            text = f"{run.benchmark} with {run.model}{label} ({run.n - run.n_failed} of {run.n})"
            unfinished[run.model + label, run.benchmark] = text
    runs: dict[tuple[str, str], Run] = {}
    excluded: list[LeftOut] = []
    for benchmark, candidates in complete.items():
        comparison = ConditionsComparison(one.run for one in candidates)
        chosen = _best_conditions(candidates, comparison, comparable_only=comparable_only)
        own = {one.model: one.run for one in candidates if not comparison.differences(one.conditions, chosen)}
        runs |= {(model, benchmark): run for model, run in own.items()}
        excluded += _describe_left_out(candidates, chosen, own, comparison)
    return SelectedRuns(runs, [text for key, text in unfinished.items() if key not in runs], excluded)


def _best_conditions(
    candidates: Sequence[Candidate], comparison: ConditionsComparison, *, comparable_only: bool
) -> Conditions:
    """Return the conditions of the runs that count on a benchmark; see `select_runs`."""
    by_conditions = group_by(candidates, lambda one: one.conditions)
    if len(by_conditions) == 1:
        return next(iter(by_conditions))
    by_contestants = comparable_only and any(one.is_contestant and _is_scored(one.run) for one in candidates)

    def rank(kind: Conditions) -> tuple[Any, ...]:
        alike = [one for own, rest in by_conditions.items() if not comparison.differences(own, kind) for one in rest]
        is_scored = any(_is_scored(one.run) for one in alike)
        counted = [one for one in alike if one.is_contestant or not by_contestants]
        n_models = len({one.model for one in counted})
        size = max((one.run.n for one in counted if one.conditions.content == kind.content), default=0)
        latest = max((one.run.started for one in counted), default="")
        return is_scored, kind.metric == JURY, n_models, size if comparable_only else 0, latest

    kinds = _possible_conditions(by_conditions, comparison, candidates) if comparable_only else set(by_conditions)
    return max(sorted(kinds, key=repr), key=rank)


def _possible_conditions(
    found: Iterable[Conditions], comparison: ConditionsComparison, candidates: Sequence[Candidate]
) -> set[Conditions]:
    """Return the conditions that a group can have: known ones, those of baselines only if no model has a score."""
    every = list(found)
    known = [one for one in every if comparison.is_known(one)] or every
    of_models = {one.conditions for one in candidates if one.is_contestant and _is_scored(one.run)}
    prompted = of_models & set(known) or set(known)
    temperatures = {one.temperature for one in every} - {None} or {None}
    limits = {one.max_tokens for one in every} - {None} or {None}
    return {
        replace(one, temperature=temperature, max_tokens=limit)
        for one in prompted
        for temperature in (temperatures if one.temperature is None else {one.temperature})
        for limit in (limits if one.max_tokens is None else {one.max_tokens})
    }


def _is_scored(run: Run) -> bool:
    """Return whether the main metric has a value; the published rule gives one to completions without a judgment."""
    return any(
        run.main_metric in by_metric
        for rule, by_metric in run.estimates.items()
        if rule == "corrected" or run.main_metric != JURY
    )


def _describe_left_out(
    candidates: Sequence[Candidate], chosen: Conditions, own: Mapping[str, Run], comparison: ConditionsComparison
) -> list[LeftOut]:
    """Describe the models without a run under the chosen conditions, by name; of each the run that differs least."""
    others = group_by((one for one in candidates if one.model not in own), lambda one: one.model)
    if not others:
        return []
    group = RunGroup(chosen, own, is_current(chosen, own.values(), candidates, comparison))

    def differences(one: Candidate) -> tuple[Difference, ...]:
        return comparison.differences(one.conditions, chosen)

    # Candidates are in order of time: of equals the latest.
    nearest = [min(reversed(runs), key=lambda one: len(differences(one))) for _, runs in sorted(others.items())]
    return [left_out(one, group, differences(one)) for one in nearest]


def default_tier(runs: Iterable[Run]) -> Tier:
    """Return the tier of the runs that count: real data, or the sample rows if there is nothing else."""
    return "real" if any(run.tier == "real" for run in runs) else "sample"


def judges_under_test(runs: Iterable[Run]) -> list[str]:
    """Return the judges of these runs whose own completions are judged in one of them, compared by remote names."""
    judged = [run for run in runs if run.jury_result]
    tested = {plain_name(run.resolved_model.remote_name if run.resolved_model else run.model) for run in judged}
    judges = {judge.name: judge for run in judged for judge in run.judges}
    return [name for name, judge in judges.items() if plain_name(judge.remote_name) in tested]


def store_label(path: Path, stores: Sequence[Path]) -> str:
    """Return the suffix that distinguishes models of this store from those of others; empty for a single store."""
    return f" [{store_names(stores)[path]}]" if len(stores) > 1 else ""


def store_names(stores: Sequence[Path]) -> dict[Path, str]:
    """Return the name of each store: that of its folder, with the folders above it where others have the same name.

    Raises: UserError for a store that is named twice.

    >>> list(store_names([Path("/a/store"), Path("/b/store"), Path("/b/ours")]).values())
    ['a/store', 'b/store', 'ours']
    """
    places = {path: path.resolve() for path in stores}
    if doubles := [str(path) for path in stores if [*map(places.get, stores)].count(places[path]) > 1]:
        raise UserError(f"{' and '.join(doubles)} are the same store. Name each store once.")
    found = {path: path.name or str(path) for path in stores}
    depth = 1
    while len(set(found.values())) < len(found):
        depth += 1
        same = {name for name in found.values() if [*found.values()].count(name) > 1}
        found |= {path: "/".join(places[path].parts[-depth:]) for path, name in found.items() if name in same}
    return found
