"""Errors on one benchmark: confusion, letters against the key, failures by reason, suspect keys, low criteria."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from medhelm.errors import UserError
from medhelm.extensions.web.cases.case import BenchmarkCases
from medhelm.extensions.web.cases.listing import CaseListItem, case_items
from medhelm.extensions.web.cases.search import (
    FLAGS,
    MOST_LABELS,
    CaseRow,
    CaseSearch,
    CriterionGrades,
    read_case_rows,
    read_criteria,
    search_cases,
)
from medhelm.results.runs.answers import Options, read_answers
from medhelm.results.runs.classification import ClassifiedBenchmark, classify_runs

MOST_MODELS = 24
"""Most models with a column."""

MOST_CASES = 20
"""Cases in each list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCount:
    """Something that went wrong, counted for each model."""

    reason: str
    """Failure code, or a filter of `FLAGS`."""
    is_failure: bool
    """True for a failure code."""
    counts: Mapping[str, int]
    """Model -> its completions; models without any are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """The options that one model chose, for each key."""

    model: str
    """The model."""
    counts: Mapping[str, Mapping[str, int]]
    """Key -> chosen option, or `unreadable`, `blank` or `failed` -> cases."""

    def share(self, key: str, chosen: str) -> float:
        """Return the part of the cases with this key."""
        own = self.counts.get(key, {})
        return own.get(chosen, 0) / (sum(own.values()) or 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelCount:
    """Number of times that an option is correct, and that each model chose it."""

    label: str
    """Label of the option."""
    n_key: int
    """Cases where it is correct."""
    chosen: Mapping[str, int]
    """Model -> completions that name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspectKey:
    """A case that no strong model has right."""

    item: CaseListItem
    """The case."""
    said: str
    """The option that most models chose; empty for open questions."""
    n_said: int
    """Models that chose it."""
    n: int
    """Models with a score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkErrors:
    """The errors of all models on one benchmark. Baselines do not count, unless there is nothing else."""

    n: int
    """Instances."""
    models: Sequence[str]
    """Models with a column, the best first."""
    labels: Sequence[str]
    """Labels of the options; empty for open questions, and where they are too many."""
    texts: Mapping[str, str]
    """Label -> text, if the options of all cases are the same."""
    confusions: Sequence[Confusion]
    """One for each model, in their order; empty without labels."""
    letters: Sequence[LabelCount]
    """One for each label."""
    reasons: Sequence[ErrorCount]
    """Failure codes, then other reasons, the most frequent first."""
    suspects: Sequence[SuspectKey]
    """Cases that no strong model has right; those with the same wrong answer by most models come first."""
    n_suspects: int
    """Their number, also those that are not listed."""
    hardest: Sequence[CaseListItem]
    """Cases with the lowest mean score."""
    criteria: Sequence[CriterionGrades] = field(default_factory=tuple)
    """Criteria of the judges, the lowest mean first; empty without a jury, and where each case has its own."""
    measured: ClassifiedBenchmark | None = None
    """Sensitivity and specificity of each model; None unless all cases have the same options."""


def find_errors(cases: BenchmarkCases) -> BenchmarkErrors:
    """Collect the errors on a benchmark. Raises: StoreError."""
    models = cases.searched.contestants[:MOST_MODELS]
    rows = read_case_rows(cases.searched, search_cases(cases.searched, CaseSearch()))
    options = cases.searched.options
    answers = read_answers({model: cases.runs[model] for model in models}, options)
    labels = _labels(options)
    suspects = search_cases(cases.searched, CaseSearch(show="all_wrong"))
    hardest = search_cases(cases.searched, CaseSearch(sort="worst"))[:MOST_CASES]
    return BenchmarkErrors(
        n=len(rows),
        models=models,
        labels=labels,
        texts=_shared_texts(options),
        confusions=[_confusion(model, rows, options, answers[model]) for model in models] if labels else [],
        letters=_letters(rows, options, answers, labels),
        reasons=_reasons(rows, models),
        suspects=_suspects(cases, suspects, answers),
        n_suspects=len(suspects),
        hardest=case_items(cases, CaseSearch(), hardest),
        criteria=[] if cases.searched.counts_points else read_criteria(cases.searched),
        measured=_measured(cases, models) if _shared_texts(options) else None,
    )


def _measured(cases: BenchmarkCases, models: Sequence[str]) -> ClassifiedBenchmark | None:
    """Measure the classes; None if the options are no classes."""
    with suppress(UserError):
        completers_only = not cases.searched.counted_as_worst
        runs = {model: cases.runs[model] for model in models}
        return classify_runs(runs, cases.definition, completers_only=completers_only) if runs else None
    return None


def _labels(options: Mapping[str, Options]) -> list[str]:
    labels = dict.fromkeys(label for own in options.values() for label in own.labels)
    return sorted(labels) if 0 < len(labels) <= MOST_LABELS else []


def _shared_texts(options: Mapping[str, Options]) -> dict[str, str]:
    pairs = {(own.labels, own.texts) for own in options.values()}
    return dict(zip(*next(iter(pairs)), strict=True)) if len(pairs) == 1 else {}


def _confusion(
    model: str, rows: Sequence[CaseRow], options: Mapping[str, Options], answers: Mapping[str, str]
) -> Confusion:
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        flags = row.flags.get(model, ())
        other = next((name for name in ("failed", "blank", "unreadable") if name in flags), "")
        said = answers.get(row.instance_id, "") or other
        own = options.get(row.instance_id)
        if own and said and len(own.correct) == 1:
            counts.setdefault(own.correct[0], Counter())[said] += 1
    return Confusion(model=model, counts=counts)


def _letters(
    rows: Sequence[CaseRow],
    options: Mapping[str, Options],
    answers: Mapping[str, Mapping[str, str]],
    labels: Sequence[str],
) -> list[LabelCount]:
    """Count keys and choices."""
    known = {row.instance_id for row in rows}
    keys = Counter(label for name, own in options.items() if name in known for label in own.correct)
    chosen = {model: Counter(own.values()) for model, own in answers.items()}
    return [
        LabelCount(label=label, n_key=keys[label], chosen={model: own[label] for model, own in chosen.items()})
        for label in labels
    ]


def _reasons(rows: Sequence[CaseRow], models: Sequence[str]) -> list[ErrorCount]:
    """Count failures by their code, and completions by other reasons."""
    wanted = set(models)
    found: dict[tuple[bool, str], Counter[str]] = {}
    others = [name for name in FLAGS if name not in ("failed", "refused", "unscored")]
    for row in rows:
        for model, code in row.failures.items():
            found.setdefault((True, code), Counter())[model] += model in wanted
        for model, flags in row.flags.items():
            for name in others:
                if name in flags:
                    found.setdefault((False, name), Counter())[model] += model in wanted
    counted = [ErrorCount(reason=name, is_failure=failed, counts=+counts) for (failed, name), counts in found.items()]

    def place(one: ErrorCount) -> tuple[bool, int, str]:
        return not one.is_failure, -sum(one.counts.values()), one.reason

    return sorted((one for one in counted if one.counts), key=place)


def _suspects(
    cases: BenchmarkCases, instance_ids: Sequence[str], answers: Mapping[str, Mapping[str, str]]
) -> list[SuspectKey]:
    """Return the first cases that no strong model has right, by the number of models that agree on another option."""
    agreed = {}
    for name in instance_ids:
        said = Counter(own[name] for own in answers.values() if own.get(name))
        agreed[name] = min(said.items(), key=lambda pair: (-pair[1], pair[0]), default=("", 0))
    chosen = sorted(instance_ids, key=lambda name: -agreed[name][1])[:MOST_CASES]
    return [
        SuspectKey(item=item, said=agreed[name][0], n_said=agreed[name][1], n=item.n_scored)
        for name, item in zip(chosen, case_items(cases, CaseSearch(), chosen), strict=True)
    ]
