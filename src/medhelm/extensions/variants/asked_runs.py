"""Runs with their variants, read by instance: scores, answers, and the places of chosen options."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from medhelm.analysis.means import Floats
from medhelm.domain import Floor, Instance, Reference, Run, Tier
from medhelm.domain.benchmark import group_by
from medhelm.domain.completion import strip_reasoning
from medhelm.domain.result import HALF
from medhelm.domain.run import REPEAT
from medhelm.domain.token_logprobs import unpack
from medhelm.errors import DataError, NotComputed
from medhelm.extensions.variants.repeats import UNREADABLE
from medhelm.results.comparable import store_label
from medhelm.results.gate import CORRECTED
from medhelm.results.options import RunFilter
from medhelm.results.releases import InstanceScores, read_instance_scores
from medhelm.results.runs.answers import Options, read_answers, read_options
from medhelm.results.runs.lowest_grades import with_floors
from medhelm.results.runs.selection import filter_runs
from medhelm.scoring.answers.confidence import abstains, is_abstention, option_probabilities, stated_confidence
from medhelm.scoring.answers.number import read_number
from medhelm.scoring.answers.text import normalize_keeping_meaning
from medhelm.scoring.metric import AnswerReader
from medhelm.scoring.metrics import METRICS
from medhelm.storage.run_scores import read_all
from medhelm.storage.runs import load_runs, read_columns, read_references, score_column
from medhelm.storage.store import Store, open_store, stored_folder

PERTURB = "perturb"
"""Kind of the variants that change instances."""

COMPARED = ("option", "label", "code", "number", "value", "judgment")
"""Nouns of what metrics read whose equality says that two completions answer alike."""

RIGHT, WRONG = "right", "wrong"
"""Answers where a metric reads none: whether the score is in the upper half of the scale."""

SELECTION = ("limit", "sample", "subset", "seed")
"""Settings that select instances."""


# --- runs and their variants ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilySubject:
    """The model and the benchmark that a result is about."""

    model: str
    """Name of the model with its setting, and the label of its store if there are several."""
    benchmark: str
    """Id of the benchmark."""
    title: str
    """Name of the benchmark for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFamily:
    """A run with its further samples and its perturbations."""

    about: FamilySubject
    """Its model and benchmark."""
    plain: AskedRun
    """The run on the instances as they are."""
    repeats: tuple[AskedRun, ...] = ()
    """Further samples of the same prompts."""
    perturbed: Mapping[str, AskedRun] = field(default_factory=dict)
    """Name of a perturbation -> the run on the changed instances, in the order of names."""


def find_families(
    stores: Sequence[Path], wanted: RunFilter, benchmarks: Sequence[str] = (), tier: Tier | None = None
) -> list[RunFamily]:
    """Return the complete runs of the stores with their variants, by benchmark and model.

    Parameters: benchmarks, empty for all; tier, None for real data if there are any.
    Raises: UserError for names that no run has.
    """
    found = [
        (store_label(path, stores), run)
        for path in stores
        for run in load_runs(open_store(path), variants=True)
        if run.is_complete and (not benchmarks or run.benchmark in benchmarks)
    ]
    found = filter_runs(wanted, found, lambda one: one[1], families=True)
    tier = tier or ("real" if any(run.tier == "real" for _, run in found) else "sample")
    groups = group_by((pair for pair in found if pair[1].tier == tier), _conditions)
    families = (_family(label, [run for _, run in own]) for (label, *_), own in groups.items())
    return sorted(filter(None, families), key=lambda one: (one.about.benchmark, one.about.model))


def _conditions(pair: tuple[str, Run]) -> tuple[Any, ...]:
    """Return what a variant shares with the run that it belongs to."""
    label, run = pair
    judges = tuple(sorted(judge.name for judge in run.judges))
    return label, run.benchmark, run.model_name, run.setting, run.benchmark_digest, run.main_metric, judges


def _family(label: str, runs: Sequence[Run]) -> RunFamily | None:
    """Return the latest of the largest runs, with the latest variants on the same selection; None without a run."""
    plain = max((run for run in runs if not run.variant), key=lambda run: (run.n, run.started), default=None)
    if plain is None:
        return None
    latest = {
        run.variant: run
        for run in sorted(runs, key=lambda run: (_selection(run) == _selection(plain), run.started))
        if run.variant
    }
    kinds = {name: name.partition("=") for name in latest}
    by_sample = {run.settings[REPEAT]: run for name, run in latest.items() if kinds[name][0] == REPEAT}
    return RunFamily(
        about=FamilySubject(model=plain.model + label, benchmark=plain.benchmark, title=plain.title),
        plain=AskedRun(plain),
        repeats=tuple(AskedRun(by_sample[number]) for number in sorted(by_sample)),
        perturbed={kinds[name][2]: AskedRun(run) for name, run in sorted(latest.items()) if kinds[name][0] == PERTURB},
    )


def _selection(run: Run) -> list[Any]:
    return [run.settings.get(name) for name in SELECTION]


# --- a run by instance ------------------------------------------------------------------------------------------------


class AskedRun:
    """The scores and answers of one run, read when they are needed."""

    def __init__(self, run: Run) -> None:
        """`run`: a stored run."""
        self.run = run

    @cached_property
    def _scores(self) -> InstanceScores:
        return read_instance_scores(self.run, CORRECTED)

    @property
    def ids(self) -> Sequence[str]:
        """Ids of the instances."""
        return self._scores.cell.ids

    @property
    def is_pooled(self) -> bool:
        """True if the leaderboard shows a ratio, such as balanced accuracy, and not the mean of the scores."""
        return self._scores.cell.parts is not None

    def clusters(self, ids: Sequence[str]) -> list[str]:
        """Return the cluster of each of these instances: the instance itself if it has none."""
        found = self._scores.clusters_in_order(ids)
        return [cluster or f"\0{one}" for cluster, one in zip(found, ids, strict=True)]

    def scores(self, ids: Sequence[str]) -> Floats:
        """Return scores from 0 (worst) to 1 (best), nan if missing; failures that the model caused are the worst."""
        return np.clip(self._scores.in_order(self._scores.shown, ids), 0.0, 1.0)

    def below(self, limits: Sequence[Floor]) -> Mapping[Floor, Floats]:
        """Return 1.0 for each instance whose completion is below a floor, in the order of `ids`."""
        ((_, scored),) = read_all([self.run], CORRECTED.scoring)
        return with_floors(self._scores.cell, self.run, limits, scored, CORRECTED.scoring).floors

    @cached_property
    def metric_title(self) -> str:
        """Heading of the metric."""
        return self._scores.column.metric_title

    @cached_property
    def prompts(self) -> Path:
        """File of the prompts."""
        store = Store(stored_folder(self.run).parents[2])
        return store.prompts_file(self.run.benchmark, self.run.benchmark_digest, self.run.data_digest)

    @cached_property
    def options(self) -> Mapping[str, Options]:
        """Options of the choice questions, by instance; empty if the metric reads no option."""
        return read_options([self.prompts], None, self.run.main_metric)

    @cached_property
    def chosen(self) -> Mapping[str, str]:
        """Label of the option that each completion names, "" for none, by instance."""
        return read_answers({"": self.run}, self.options)[""]

    @cached_property
    def _read(self) -> dict[str, str] | None:
        """The answer of each completion, in a form that can be compared; None if the metric reads nothing."""
        metric = METRICS.if_usable(self.run.main_metric)
        if metric is None or metric.reads is None or metric.reads.answer not in COMPARED:
            return None
        found = {
            name: dict(zip(own.labels, own.texts, strict=True)).get(self.chosen[name], UNREADABLE)
            for name, own in self.options.items()
            if name in self.chosen
        }
        if len(found) < len(self.options) or not self.options:
            others = _read_others(self.run, self.prompts, metric.reads, self.options.keys())
            return None if others is None else found | others
        return found

    @property
    def reads_answers(self) -> bool:
        """True if answers are read; otherwise only right and wrong are known."""
        return self._read is not None

    def answers(self, ids: Sequence[str]) -> list[str | None]:
        """Return the answer of each completion: "" if it is unreadable, None without a completion."""
        scores = self.scores(ids).tolist()
        if self._read is None:
            return [None if score != score else RIGHT if score >= HALF else WRONG for score in scores]
        return [
            None if score != score else self._read.get(one, UNREADABLE) for one, score in zip(ids, scores, strict=True)
        ]

    def abstained(self, ids: Sequence[str]) -> Floats:
        """Return 1.0 for each completion that declines to answer, 0.0 for others, nan without one."""
        answered, _ = read_answered(self.run, self.options)
        found = {one.instance: float(one.abstained) for one in answered}
        return np.array([found.get(one, math.nan) for one in ids])


def _read_others(run: Run, prompts: Path, reader: AnswerReader, known: Iterable[str]) -> dict[str, str] | None:
    """Read the answers to questions without options; None if the store does not hold what the reader needs."""
    columns, questions = read_columns(run, ["instance_id", "completion"]), read_references(prompts)
    found, skipped = {}, set(known)
    for name, text in zip(columns["instance_id"], columns["completion"], strict=True):
        if name in skipped or text is None or name not in questions:
            continue
        choices, references = questions[name]
        question = Instance(
            id=name,
            fields={},
            references=tuple(Reference(one, correct) for one, correct in references),
            choices=tuple(choices),
        )
        plain = strip_reasoning(text)
        try:  # verdicts on values depend on the reference, which is not what the completion says
            answer = read_number(plain) if reader.answer == "value" else reader.find(plain, question)
        except (DataError, NotComputed):
            return None
        found[name] = _comparable(answer)
    return found


def _comparable(answer: object) -> str:
    """Return an answer in a form in which equal ones are equal."""
    if answer is None:
        return UNREADABLE
    if isinstance(answer, set | frozenset | list | tuple):
        return json.dumps(sorted(map(str, answer)))
    return normalize_keeping_meaning(answer) if isinstance(answer, str) else str(answer)


# --- confidences and abstentions --------------------------------------------------------------------------------------


class Answered(NamedTuple):
    """One instance of a run with its completion."""

    instance: str
    """Id of the instance."""
    cluster: str
    """Cluster of the instance, or its id."""
    score: float | None
    """Score of the main metric; None if it is missing."""
    abstained: bool
    """True if the completion declines to answer."""
    stated: float | None
    """Confidence that it states; None without one."""
    tokens: float | None
    """Probability of the option that it names, by its tokens; None if it is not known."""


def read_answered(run: Run, options: Mapping[str, Options]) -> tuple[list[Answered], int]:
    """Return the completions of a run, and the number of instances without one. Raises: StoreError.

    `options`: those of the instances, by id.
    """
    chosen = read_answers({"": run}, options)[""]
    names = ["instance_id", "cluster", "completion", "token_logprobs", score_column(run.main_metric, "corrected")]
    found, n_failed = [], 0
    for instance_id, cluster, text, logprobs, score in zip(*read_columns(run, names).values(), strict=True):
        if text is None:
            n_failed += 1
            continue
        label, own = chosen.get(instance_id, ""), options.get(instance_id)
        place = own.labels.index(label) if own and label else None
        shares = option_probabilities(unpack(logprobs), own.labels, label) if own and label else None
        found.append(
            Answered(
                instance=instance_id,
                cluster=cluster or instance_id,
                score=score,
                abstained=abstains(text, place) or names_abstention(own, label),
                stated=stated_confidence(text),
                tokens=shares[label] if shares else None,
            )
        )
    return found, n_failed


def names_abstention(options: Options | None, label: str) -> bool:
    """Return True if a label names an option such as "Cannot be answered"."""
    return options is not None and label in options.labels and is_abstention(options.texts[options.labels.index(label)])
