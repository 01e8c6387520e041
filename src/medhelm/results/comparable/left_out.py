"""Models that were measured under other conditions than the rest of a benchmark: why, and the command that fixes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from medhelm.domain import Run
from medhelm.domain.grouping import group_by
from medhelm.domain.options import words
from medhelm.domain.remark import LeftOut, Remark, Remedy
from medhelm.domain.text import listed
from medhelm.evaluation.settings import JuryOptions, Settings, jury_options, repeating_words, settings_of
from medhelm.results.comparable.conditions import (
    BASELINE,
    CONTENT,
    Candidate,
    Conditions,
    ConditionsComparison,
    Difference,
    Part,
)

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
    if "temperature" in parts and _are_set_by_user(run):
        reason += " (its temperature is set in models.yaml)"
    remedy = _find_remedy(one, group, parts)
    if "temperature" in parts and _are_set_by_user(run, group.example):
        remedy = replace(remedy, preparation=f"Set `temperature: {group.conditions.temperature:g}` in models.yaml for")
    if one.store:
        remedy = replace(remedy, options=(*remedy.options, "--store", one.store))
    return LeftOut(model=one.model, benchmark=run.benchmark, title=run.title, reason=reason, remedy=remedy)


def _are_set_by_user(*runs: Run) -> bool:
    """Return whether the temperature of one of these models is set in models.yaml, so that a new run repeats it."""
    return any(run.resolved_model and "temperature" in run.resolved_model.parameters for run in runs)


def _find_remedy(one: Candidate, group: RunGroup, parts: set[Part]) -> Remedy:
    """Return the command that gives a model the conditions of the group, or all models the current ones."""
    mine, theirs = one.conditions, group.conditions
    same_data = (mine.content.data, mine.content.limit) == (theirs.content.data, theirs.content.limit)
    models = (one.run.model,) if group.is_current else ()
    if parts <= {"judges"} and group.is_current:
        return _jury_remedy(one, group)
    if "verification codes" in parts and parts <= RESCORED | {"verification codes"} and same_data:
        others = _repeat_option("--without", [judge for judge in mine.judges if judge not in theirs.judges])
        is_sendable = theirs.has_codes or not _asks_codes(group.example)
        newer = models if is_sendable else ()  # prompts of 0.1.0 are not sent any more: all are judged again
        rubric = ("--rubric", theirs.rubric) if "rubric" in parts else ()
        return Remedy(action="rejudge", models=newer, options=(*_jury_options(group), *others, *rubric))
    if parts <= RESCORED and same_data and not theirs.harness:
        if theirs.judges:
            only = ("--rubric", theirs.rubric, "--only") if "rubric" in parts else ()
            return Remedy(action="rejudge", models=models, options=(*_jury_options(group), *only))
        return Remedy(
            action="rescore", models=models, options=_repeat_option("--without", mine.judges), sends_nothing=True
        )
    return _run_remedy(one.run, group, sends_nothing=parts == {"answer key"} and not theirs.judges)


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
    return Remedy(action=action, models=(one.run.model,), options=options, sends_nothing=not missing)


def _run_remedy(run: Run, group: RunGroup, *, sends_nothing: bool) -> Remedy:
    """Return the command that evaluates a model as the group was; all models, if the group is of an older version.

    The cache holds the completions whose requests are unchanged.
    """
    example = group.example
    models: tuple[str, ...] = (run.model,)
    like = ""
    if group.conditions.harness == "helm" and example.origin:
        like = f"{HELM_RUNS}/{example.origin.run}"
    elif not group.is_current:
        models = tuple(sorted({run.model, *(one.model for one in group.runs.values())}))
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
    first_change = f"{remedy.preparation} {'it' if len(models) == 1 else 'them'}; then " if remedy.preparation else ""
    text = f"Left out of {titles}: {listed(models, NAMES)} ({first.reason}). {first_change}`{command}` {brings}."
    return Remark("measured_differently", first.benchmark if len(groups) == 1 else "", text)
