"""The errors on a benchmark: what went wrong, counted, with links to the cases.

Errors on one benchmark: confusion, letters against the key, failures by reason, suspect keys, low criteria.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

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
from medhelm.extensions.web.page import PageRequest
from medhelm.extensions.web.pages.case_list import (
    CONDITIONS,
    ITEM,
    SHOWN,
    exported_cases,
    is_graded,
    open_text,
    opened,
    outcome_marks,
)
from medhelm.extensions.web.site import Site
from medhelm.io.http.pages import Download, Page, json_download, url_key
from medhelm.results.formats.fields import (
    Field,
    fields_json,
    fields_schema,
    list_field,
    list_of,
    object_field,
    plain_json,
    schema_of,
    select_fields,
    table_of,
)
from medhelm.results.formats.tables import Value
from medhelm.results.runs.answers import Options, read_answers
from medhelm.results.runs.classification import (
    JSON_FIELDS,
    ClassifiedBenchmark,
    class_fields,
    class_rows,
    classify_runs,
)

# --- errors -----------------------------------------------------------------------------------------------------------

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
    """Model -> its completions, also of models without a column; models without any are left out."""

    @property
    def total(self) -> int:
        """Completions of all models."""
        return sum(self.counts.values())


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
    """Models with a column and a score."""


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
        reasons=_reasons(rows, cases.searched.contestants),
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
        SuspectKey(
            item=item,
            said=agreed[name][0],
            n_said=agreed[name][1],
            n=sum(item.row.shares.get(model) is not None for model in answers),
        )
        for name, item in zip(chosen, case_items(cases, CaseSearch(), chosen), strict=True)
    ]


# --- errors -----------------------------------------------------------------------------------------------------------

REASONS: Mapping[str, str] = {
    "refusal": "refused",
    "length": "cut at the limit on tokens, without an answer",
    "timeout": "no reply in time",
    "server_error": "error of the server",
    "rate_limit": "too many requests",
    "connection": "no connection",
    "context_length": "prompt too long for the model",
    "does_not_fit": "prompt too long for the model",
    "too_large": "prompt too large for the server",
    "malformed_reply": "reply that is not valid",
    "empty_choice": "empty reply",
}
"""Failure code -> its meaning in words; others are shown as they are."""

MOST_STATIC = 12
"""Most models whose confusion is shown in the static site, where none can be chosen."""


def page(site: Site, request: PageRequest) -> Page:
    """Return the page. Of a benchmark whose texts are not shown, it has numbers only."""
    cases = opened(site, request.text("benchmark"))
    errors = errors_of(site, cases)
    shows_text = site.shows_text_of(cases.benchmark)
    default = errors.models[0] if errors.models else ""
    model = request.known_name("model", errors.models, default)
    confusions = [one for one in errors.confusions if request.is_static or one.model == model]
    n_exported = errors.n
    has_cases = shows_text and request.most_cases != 0
    measured = errors.measured if has_cases else None  # the names of classes are texts of the data
    if request.is_static and shows_text:
        exported = set(exported_cases(site, cases, request.most_cases))
        errors, n_exported = _exported(errors, exported), len(exported)
    ids = [case.instance_id for one in errors.criteria for case in one.worst]
    return Page(
        template="errors.html",
        title=f"Errors on {cases.title}",
        values={
            "cases": cases,
            "errors": errors,
            "model": model,
            "confusions": confusions[:MOST_STATIC] if has_cases else [],
            "n_models": len(cases.searched.contestants),
            "shows_text": shows_text,
            "n_exported": n_exported,
            "has_cases": has_cases,
            "reasons": {**SHOWN, **REASONS},
            "measured": measured,
            "class_table": _class_table(measured),
            "columns": errors.models,
            "graded": is_graded(cases),
            "marks": {item.key: outcome_marks(cases, item, errors.models) for item in errors.hardest},
            "others": [
                name
                for name in ("unreadable", "blank", "failed")
                if any(name in row for one in errors.confusions for row in one.counts.values())
            ],
            "keys": {name: url_key(name) for name in ids},
        },
    )


def _class_table(measured: ClassifiedBenchmark | None) -> tuple[list[list[Value]], list[str]]:
    """Return rows and headings of the measures of each class; empty without classes."""
    if measured is None:
        return [], []
    shown = f"model {'' if measured.positive else 'class '}sensitivity specificity ppv npv f1 youden mcc"
    rows, headings, _ = table_of(select_fields(class_fields(), shown), class_rows(measured))
    return rows, headings


def _exported(errors: BenchmarkErrors, ids: Collection[str]) -> BenchmarkErrors:
    """Return the errors without the cases that a static site does not hold; counts are of all cases."""
    return replace(
        errors,
        suspects=[one for one in errors.suspects if one.item.row.instance_id in ids],
        hardest=[item for item in errors.hardest if item.row.instance_id in ids],
        criteria=[
            replace(one, worst=[case for case in one.worst if case.instance_id in ids]) for one in errors.criteria
        ],
    )


def errors_of(site: Site, cases: BenchmarkCases) -> BenchmarkErrors:
    """Return the errors on a benchmark, from memory if they were collected before."""
    return site.keep(("errors", cases.benchmark), lambda: find_errors(cases))


def json_(site: Site, request: PageRequest) -> Download:
    """Return the same as JSON."""
    cases = open_text(site, request)
    content = {**fields_json(CONDITIONS, cases), **fields_json(FIELDS, errors_of(site, cases))}
    return json_download(content, f"{cases.benchmark}-errors")


SUSPECT: list[Field[SuspectKey]] = [
    object_field("case", ITEM, lambda one: one.item),
    Field("said", lambda one: one.said, kind="text"),
    Field("n_said", lambda one: one.n_said, kind="whole number"),
]
"""A case that no strong model has right, with the option that most models chose."""

FIELDS: list[Field[BenchmarkErrors]] = [
    Field("n", lambda found: found.n, kind="whole number"),
    Field("models", lambda found: found.models, kind="texts"),
    Field("labels", lambda found: found.labels, kind="texts"),
    Field("confusions", lambda found: plain_json(found.confusions), kind="object",
          schema=list_of(schema_of(Confusion))),
    Field("letters", lambda found: plain_json(found.letters), kind="object", schema=list_of(schema_of(LabelCount))),
    Field("reasons", lambda found: plain_json(found.reasons), kind="object", schema=list_of(schema_of(ErrorCount))),
    Field("n_suspects", lambda found: found.n_suspects, kind="whole number"),
    list_field("suspects", SUSPECT, lambda found: found.suspects),
    list_field("hardest", ITEM, lambda found: found.hardest),
    Field("criteria", lambda found: plain_json(found.criteria), kind="object",
          schema=list_of(schema_of(CriterionGrades))),
    Field("measured", lambda found: found.measured and fields_json(JSON_FIELDS, found.measured), kind="object",
          schema=fields_schema(JSON_FIELDS), missing="the cases do not have the same options"),
]  # fmt: skip
"""The errors on a benchmark."""
