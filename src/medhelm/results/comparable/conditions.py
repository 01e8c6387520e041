"""The conditions of a run that must be equal for two models to share a benchmark's column, and how two runs differ.

`run.json` holds one digest of the definition and one of data and selection. Runs with equal digests had the same
prompts, references and rubric. Otherwise the stored prompts of both say which part differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from medhelm.domain import JURY, Run
from medhelm.domain.text import listed, plural
from medhelm.storage.runs import read_prompt_digests
from medhelm.storage.store import Store

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

UNSAMPLED = ("baseline", "replay")
"""Providers without sampling, or whose sampling is not known."""


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
    content: Content = NO_CONTENT
    """Digests of instances, prompts, references and rubric."""
    is_prompted: bool = True
    """False for baselines, which read no prompt."""
    harness: str = ""
    """Harness that the prompts come from; empty for MedHELM."""
    temperature: float | None = None
    """Sampling temperature; None for reasoning models and servers that take none."""
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
        temperature=temperature_of(run),
        max_tokens=_shared_limit(run),
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
        if mine == theirs:
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
    if one.judges != others.judges:
        theirs = listed(others.judges) or "none"
        reason = f"graded by {listed(one.judges)}, the others by {theirs}" if one.judges else f"not graded by {theirs}"
        return [Difference("judges", reason), *_rubric_differences(one, others)]
    if one.min_judges != others.min_judges:
        reason = f"scored if {plural(one.min_judges, 'judge')} graded, the others if {others.min_judges} did"
        return [Difference("judges", reason), *_rubric_differences(one, others)]
    if None not in (one.has_codes, others.has_codes) and one.has_codes != others.has_codes:
        way, theirs = ("with", "without") if one.has_codes else ("without", "with")
        reason = f"graded {way} verification codes, the others {theirs} them"
        return [Difference("verification codes", reason), *_rubric_differences(one, others)]
    return _rubric_differences(one, others)


def _rubric_differences(one: Conditions, others: Conditions) -> list[Difference]:
    """Return how the rubrics differ, if both have names."""
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
