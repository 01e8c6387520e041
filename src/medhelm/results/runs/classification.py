"""Sensitivity, specificity and the confusion matrix of the models of some stores on questions with the same options."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, cast

from medhelm.analysis.classification import UNREADABLE, Classification, ClassMeasures, classify
from medhelm.domain import Benchmark, Run
from medhelm.domain.completion import CAUSED_BY_MODEL
from medhelm.domain.result import Remark
from medhelm.domain.text import listed
from medhelm.errors import UserError, suggestion
from medhelm.results.comparable import default_tier, left_out_remarks, select_runs
from medhelm.results.formats.fields import (
    INTEGER,
    NUMBER,
    Field,
    columns_of,
    estimate_json,
    fields_table,
    list_field,
    map_of,
    nullable,
    record,
    rounded_rows,
)
from medhelm.results.formats.tables import Value, counts_text, render
from medhelm.results.options import USUAL, BoardOptions
from medhelm.results.runs.answers import Options, read_answers, read_options
from medhelm.results.runs.selection import load_filtered
from medhelm.storage.damage import intact_runs
from medhelm.storage.runs import prompts_path, read_columns

MOST_CLASSES = 12
"""Most options of a question that are read as classes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifiedModel:
    """One model with its measures."""

    model: str
    """Name of the model."""
    found: Classification
    """Its answers, measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassifiedBenchmark:
    """The answers of models to one benchmark whose instances have the same options."""

    benchmark: str
    """Name of the benchmark."""
    title: str
    """Title for people."""
    classes: tuple[str, ...]
    """The options, in their order."""
    positive: str
    """The positive class; empty if each class is compared with all others."""
    threshold: float | None
    """Probability of the positive class from which one would act, for the net benefit; None without."""
    models: tuple[ClassifiedModel, ...]
    """Models, in order of their balanced accuracy, the best first; baselines are among them."""
    remarks: tuple[Remark, ...]
    """Limits of the numbers."""


def measure_classes(
    stores: Sequence[Path],
    benchmark: str,
    options: BoardOptions = USUAL,
    *,
    definition: Benchmark | None = None,
    positive: str = "",
    threshold: float | None = None,
) -> ClassifiedBenchmark:
    """Measure the answers to a benchmark, of the runs that count on the leaderboard.

    Refusals and exhausted limits count as the worst answer, as on the leaderboard, unless `options.completers_only` is
    set.

    Parameters: definition, that of the benchmark, whose `positive` counts if none is given; positive, the text of an
    option; threshold, see `classify`.
    Raises: UserError without a finished run, for a benchmark whose instances do not have the same options, for an
    unknown class and for a threshold that is not a probability; StoreError.
    """
    if threshold is not None and not 0 < threshold < 1:
        raise UserError(f"--threshold {threshold:g}: must be a probability between 0 and 1.")
    found = [(label, run) for label, run in load_filtered(stores, options.wanted) if run.benchmark == benchmark]
    if not found:
        known = {run.benchmark for _, run in load_filtered(stores)}
        places = listed([str(path) for path in stores])
        raise UserError(f"no run of `{benchmark}` in {places}. {suggestion(benchmark, known)}".strip())
    tier = options.tier or default_tier(run for _, run in found)
    kept = set(map(id, intact_runs(run for _, run in found)))
    chosen = select_runs((label, run) for label, run in found if run.tier == tier and id(run) in kept)
    runs = {model: run for (model, _), run in chosen.runs.items()}
    if not runs:
        raise UserError(f"no finished run of `{benchmark}` on {tier} data. `medhelm run` finishes runs.")
    measured = classify_runs(
        runs, definition, positive=positive, threshold=threshold, completers_only=options.completers_only
    )
    return replace(measured, remarks=(*left_out_remarks(chosen.left_out), *measured.remarks))


def classify_runs(
    runs: Mapping[str, Run],
    definition: Benchmark | None,
    *,
    positive: str = "",
    threshold: float | None = None,
    completers_only: bool = False,
) -> ClassifiedBenchmark:
    """Measure the answers of runs of one benchmark, model -> run. Parameters and errors: as of `measure_classes`."""
    first = next(iter(runs.values()))
    asked = _options_of(runs.values(), first.benchmark, definition)
    classes = next(iter(asked.values())).texts
    positive = _checked_class(positive or (definition.positive if definition else ""), classes)
    if threshold is not None and not positive:
        raise UserError(f"--threshold {threshold:g}: needs a positive class. Add --positive.")
    answers = read_answers(runs, asked)
    is_wrong = frozenset() if completers_only else CAUSED_BY_MODEL
    models = []
    for model, run in runs.items():
        columns = read_columns(run, ["instance_id", "cluster", "failure_code"])
        rows = [row for row in zip(*columns.values(), strict=True) if row[0] in asked]
        measured = classify(
            [_text(asked[name], asked[name].correct[0]) for name, _, _ in rows],
            [_named(asked[name], answers[model].get(name), code, is_wrong) for name, _, code in rows],
            classes,
            positive=positive,
            clusters=[cluster or name for name, cluster, _ in rows],
            threshold=threshold,
        )
        if measured is not None:
            models.append(ClassifiedModel(model=model, found=measured))
    return ClassifiedBenchmark(
        benchmark=first.benchmark,
        title=first.title,
        classes=classes,
        positive=positive,
        threshold=threshold,
        models=tuple(sorted(models, key=_place)),
        remarks=tuple(_remarks(models, classes, positive)),
    )


def _place(one: ClassifiedModel) -> tuple[float, str]:
    """Return what models are sorted by."""
    balanced = one.found.balanced_accuracy
    return -(balanced.value if balanced else one.found.accuracy.value), one.model


def _options_of(runs: Collection[Run], benchmark: str, definition: Benchmark | None) -> Mapping[str, Options]:
    """Return the options of each instance with one correct option. Raises: UserError unless all have the same ones."""
    asked = read_options(list(dict.fromkeys(map(prompts_path, runs))), definition, next(iter(runs)).main_metric)
    kept = {name: one for name, one in asked.items() if len(one.correct) == 1}
    texts = {one.texts for one in kept.values()}
    if len(texts) != 1:
        reason = "its instances have different options" if texts else "it is not a choice question with one answer"
        raise UserError(f"{benchmark} has no classes: {reason}. Sensitivity and specificity need the same options.")
    if len(next(iter(texts))) > MOST_CLASSES:
        raise UserError(f"{benchmark} has more than {MOST_CLASSES} options: they are not read as classes.")
    return kept


def _checked_class(positive: str, classes: Sequence[str]) -> str:
    """Return the class as the options spell it. Raises: UserError for an unknown one."""
    spelled = {label.strip().casefold(): label for label in classes}
    if positive and positive.strip().casefold() not in spelled:
        raise UserError(f"--positive {positive}: is not an option. Options: {', '.join(classes)}.")
    return spelled[positive.strip().casefold()] if positive else ""


def _text(options: Options, label: str) -> str:
    """Return the text of the option with this label."""
    return options.texts[options.labels.index(label)]


def _named(options: Options, label: str | None, code: str | None, is_wrong: Collection[str]) -> str | None:
    """Return the class that a completion names, `UNREADABLE` for none; None for a missing completion."""
    if label is None:
        return UNREADABLE if code in is_wrong or not code else None
    return _text(options, label) if label else UNREADABLE


def _remarks(models: Sequence[ClassifiedModel], classes: Sequence[str], positive: str) -> Iterator[Remark]:
    """Yield what must be known to read the numbers."""
    if len(classes) == 2 and not positive:
        text = (
            f"No class is named as the positive one: {listed(classes)} are measured in turn. Add "
            f"`positive: {classes[0]}` to the definition, or --positive."
        )
        yield Remark("no_positive_class", "", text)
    unreadable = {one.model: sum(said.get(UNREADABLE, 0) for said in one.found.confusion.values()) for one in models}
    if any(unreadable.values()):
        text = f"Completions without a readable option, or refused, count as wrong: {_counts(unreadable)}"
        yield Remark("unreadable_as_wrong", "", text)
    failed = {one.model: one.found.n_failed for one in models}
    if any(failed.values()):
        yield Remark("failed_as_missing", "", f"Failed requests are missing: {_counts(failed)}")


def _counts(by_model: Mapping[str, int]) -> str:
    """Return the models with a count, the largest first."""
    return counts_text({model: n for model, n in by_model.items() if n})


# --- output -----------------------------------------------------------------------------------------------------------


def _estimate(key: str, heading: str, meaning: str, missing: str = "undefined", **settings: Any) -> Field[Any]:
    """Return the field of a measure of a model or a class."""
    return Field(
        key, lambda one: getattr(one, key), kind="interval", heading=heading,
        meaning=meaning, missing=missing, **settings,
    )  # fmt: skip


def _of_model(key: str, heading: str, meaning: str, drop: int, **settings: Any) -> Field[ClassifiedModel]:
    """Return the field of a measure of a model."""
    field = _estimate(key, heading, meaning, "only one class is correct, or named", drop=drop, **settings)
    return replace(field, get=attrgetter(f"found.{key}"))


CLASS_FIELDS: list[Field[ClassMeasures]] = [
    Field("class", lambda one: one.label, kind="text", heading="Class", meaning="The class."),
    Field("n_positive", lambda one: one.n_positive, heading="Positive", drop=9, meaning="Scored instances of it."),
    _estimate("sensitivity", "Sensitivity", "Share of positive instances that are answered positive."),
    _estimate("specificity", "Specificity", "Share of negative instances that are answered negative."),
    _estimate("ppv", "PPV", "Share of the positive answers that are right.", "no positive answer", drop=8),
    _estimate("npv", "NPV", "Share of the negative answers that are right.", "no negative answer", drop=7),
    _estimate("f1", "F1", "Harmonic mean of sensitivity and positive predictive value.", drop=5),
    _estimate("youden", "Youden", "Sensitivity + specificity - 1.", drop=4),
    _estimate("prevalence", "Prevalence", "Share of the scored instances that are positive.", drop=1),
    _estimate("net_benefit", "Net benefit", "Net benefit at the threshold, per instance.", "no threshold",
              hide_empty=True),
    Field("counts", lambda one: dict(one.counts), kind="object", column="",
          schema=map_of(INTEGER), meaning="tp, fp, fn, tn and unreadable."),
]  # fmt: skip
"""The measures of one class."""

MODEL_FIELDS: list[Field[ClassifiedModel]] = [
    Field("model", lambda one: one.model, kind="text", heading="Model", meaning="The model."),
    Field("n", lambda one: one.found.n, heading="n", drop=10, meaning="Instances with a completion."),
    Field("n_failed", lambda one: one.found.n_failed, heading="Failed", hide_empty=True, meaning="Missing instances."),
    _of_model("accuracy", "Accuracy", "Share of the completions that are right.", 3),
    _of_model("balanced_accuracy", "Balanced accuracy", "Mean sensitivity over classes.", 6),
    _of_model("mcc", "MCC", "Matthews' correlation of the correct and the named class.", 2),
    _of_model("macro_f1", "Macro F1", "Mean F1 over classes.", 2, is_wide=True),
]
"""The measures of one model."""


_JSON_OF_MODEL: list[Field[ClassifiedModel]] = [
    *MODEL_FIELDS,
    list_field("by_class", CLASS_FIELDS, lambda one: one.found.by_class),
    Field("macro", lambda one: {name: estimate_json(mean) for name, mean in one.found.macro.items()}, kind="object",
          schema=map_of(nullable(record(value=NUMBER, low=NUMBER, high=NUMBER))), meaning="Means over classes."),
    Field("confusion", lambda one: {right: dict(said) for right, said in one.found.confusion.items()}, kind="object",
          schema=map_of(map_of(INTEGER)), meaning="Correct class -> class named, empty for none -> completions."),
]  # fmt: skip

JSON_FIELDS: list[Field[ClassifiedBenchmark]] = [
    Field("benchmark", lambda found: found.benchmark, kind="text"),
    Field("title", lambda found: found.title, kind="text"),
    Field("classes", lambda found: list(found.classes), kind="texts"),
    Field("positive", lambda found: found.positive, kind="text"),
    Field("threshold", lambda found: found.threshold, missing="no net benefit"),
    list_field("models", _JSON_OF_MODEL, lambda found: found.models),
    Field("remarks", lambda found: [remark.text for remark in found.remarks], kind="texts"),
]
"""The output of `medhelm confusion --json`."""


def class_fields() -> list[Field[Any]]:
    """Return the columns of a table with a row for each model and class."""
    by_model, by_class = (
        [replace(field, get=_of(field.get, place)) for field in fields]
        for place, fields in enumerate(cast("tuple[list[Field[Any]], ...]", (MODEL_FIELDS, CLASS_FIELDS)))
    )
    return [*by_model[:3], *by_class, *by_model[3:]]


def class_rows(found: ClassifiedBenchmark) -> list[tuple[ClassifiedModel, ClassMeasures]]:
    """Return the rows of that table."""
    return [(one, measures) for one in found.models for measures in one.found.by_class]


def to_text(found: ClassifiedBenchmark, format: str = "table") -> str:
    """Return a row for each model and class; as text or Markdown also the confusion matrix of each model."""
    if format == "csv":
        rows, headings = rounded_rows(columns_of(class_fields()), class_rows(found))
        return render(rows, headings, format=format)
    threshold = f"; net benefit at a threshold of {found.threshold:g}" if found.threshold is not None else ""
    caption = f"{found.title}{f': positive is {found.positive}' if found.positive else ''}{threshold}"
    table = fields_table(class_fields(), class_rows(found), format=format, caption=caption)
    if format == "latex":
        return table
    counts: list[list[Value]] = [
        [one.model, right, *(said.get(label, 0) for label in (*found.classes, UNREADABLE))]
        for one in found.models
        for right, said in one.found.confusion.items()
    ]
    headers = ["Model", "Correct", *(f"answers {label}" for label in found.classes), "unreadable"]
    return table + "\n" + render(counts, headers, format=format, caption="Confusion matrix: completions", keep=2)


def _of(get: Callable[[Any], Any], place: int) -> Callable[[tuple[Any, Any]], Any]:
    """Return the getter of one part of a row."""
    return lambda row: get(row[place])
