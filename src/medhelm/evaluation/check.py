"""Check a benchmark without a model: inspect its data, preview prompts, score references and a baseline."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from medhelm.analysis.means import Floats
from medhelm.analysis.ratios import linearized
from medhelm.benchmarks.data.dataset import Dataset, find_data, open_dataset
from medhelm.benchmarks.data.sampling import SampleOptions, data_files
from medhelm.benchmarks.prompts import render
from medhelm.domain import RULES, Benchmark, Completion, ConstantBaseline, Failure, Instance, Parts, Rule, Score, Tier
from medhelm.domain.text import plural
from medhelm.errors import MedHelmError, MissingError, UserError
from medhelm.models.providers.baseline import most_frequent_answer
from medhelm.scoring.metric import Metric, apply
from medhelm.scoring.metrics import metrics_of, unusable_metrics
from medhelm.storage.runs import write_baseline, write_prompts

if TYPE_CHECKING:
    from medhelm.benchmarks.data_quality import DataFinding, IdentifierSearch


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedReference:
    """A reference that does not get the best score."""

    instance_id: str
    """Id of the instance."""
    metric: str
    """The metric that does not accept the reference."""
    rule: Rule
    """The rule of the metric."""
    reference: str
    """The reference."""
    reason: str
    """Reason that the metric gives; empty if it gives none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkCheck:
    """Result of checking one benchmark: every reference is scored as if it were a completion."""

    benchmark: str
    """Name of the benchmark."""
    n: int
    """Instances checked."""
    means: Mapping[Rule, Mapping[str, float | None]]
    """Rule -> metric -> mean score of the references; None where it could not be computed here."""
    exceptions: tuple[RejectedReference, ...]
    """References that do not get the best score of the main metric by one of its rules."""
    findings: tuple[DataFinding, ...]
    """Problems in the data that a person should look at."""
    constant_baseline: ConstantBaseline | None
    """Score of the most frequent reference when it is given as completion to every instance."""
    note: str
    """Note of the definition on its data, including known errors."""
    remarks: tuple[str, ...]
    """Remarks on how the definition was read."""

    @property
    def sound(self) -> bool:
        """Return whether every exception has a reason, such as an error in the data or in the published rule."""
        return all(exception.reason for exception in self.exceptions)


def find_folder(benchmark: Benchmark, data: Path | None) -> Path | None:
    """Return the folder with the data of a benchmark; None if it is not below `data`."""
    try:
        return find_data(benchmark, data)
    except MissingError:
        return None


def case_of(benchmark: Benchmark, instance: Instance) -> dict[str, Any]:
    """Return an instance as JSON, with the messages that a model would get."""
    return {
        "id": instance.id,
        "fields": dict(instance.fields),
        "references": [asdict(reference) for reference in instance.references],
        "choices": list(instance.choices),
        "messages": [{"role": m.role, "content": m.text} for m in render(benchmark, instance).messages],
        "max_tokens": benchmark.max_tokens,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkChecks:
    """Result of checking several benchmarks."""

    checks: tuple[BenchmarkCheck, ...]
    """Results of the benchmarks that could be opened."""
    skipped: tuple[str, ...]
    """Members of a group whose data is missing."""
    errors: tuple[MedHelmError, ...]
    """Errors of the benchmarks that could not be opened."""

    @property
    def exit_code(self) -> int:
        """0 all is sound, 1 a reference is not accepted for no known reason, else the exit code of the worst error."""
        codes = [error.exit_code for error in self.errors]
        return min(codes) if codes else int(not all(check.sound for check in self.checks))


def check_all(
    groups: Sequence[Sequence[Benchmark]],
    *,
    data: Path | None,
    tier: Tier,
    sample: str,
    windows: Mapping[str, int],
    own_data: bool = False,
    further_search: IdentifierSearch | None = None,
) -> BenchmarkChecks:
    """Check all benchmarks, even if some cannot be opened.

    `groups`: the benchmarks of each name that the user gave. The data of a single benchmark must exist; members of a
    group without data are skipped. `further_search`: text -> kinds of identifiers that the patterns may miss.
    """
    checks: dict[str, BenchmarkCheck] = {}
    skipped: list[str] = []
    errors: list[MedHelmError] = []
    for group in groups:
        for benchmark in group:
            if benchmark.name in checks:
                continue
            if len(group) > 1 and tier == "real" and find_folder(benchmark, data) is None:
                skipped.append(benchmark.name)
                continue
            try:
                remarks = table_remarks(benchmark, data) if tier == "real" else ()
                options = SampleOptions(sample=sample)
                dataset = open_dataset(benchmark, data=data, tier=tier, options=options, own_data=own_data)
                checks[benchmark.name] = check(dataset, windows, remarks, further_search)
            except (UserError, MissingError) as error:
                errors.append(error)
    return BenchmarkChecks(checks=tuple(checks.values()), skipped=tuple(dict.fromkeys(skipped)), errors=tuple(errors))


def table_remarks(benchmark: Benchmark, data: Path | None) -> list[str]:
    """Describe the spreadsheets of a benchmark: unusual forms of text, and what of a workbook is easily overlooked."""
    source = benchmark.source
    if source.kind == "csv":
        from medhelm.benchmarks.data.formats import table_format  # lazy: few benchmarks need it

        def describe(path: Path) -> list[str]:
            return list(filter(None, [table_format(path, source).in_words()]))

    elif source.kind == "xlsx":
        from medhelm.io.office import sheet_remarks

        def describe(path: Path) -> list[str]:
            return sheet_remarks(path, source)

    else:
        return []
    files = data_files(source, find_data(benchmark, data)).items()
    return [f"{name}: {words}" for name, path in files if path.is_file() for words in describe(path)]


def check(
    dataset: Dataset,
    windows: Mapping[str, int],
    remarks: Sequence[str] = (),
    further_search: IdentifierSearch | None = None,
) -> BenchmarkCheck:
    """Check every instance, and score its reference as if it were the completion.

    A sound benchmark gives its own references the best score, as far as that needs no judge.
    `windows`: model -> its context window in tokens; `remarks`: how its files were read; `further_search`: as in
    `check_all`. Raises: UserError for a plug-in that cannot be used.
    """
    from medhelm.benchmarks.data_quality import inspect_data, no_search  # lazy here and below: no run needs it

    if unusable := unusable_metrics(dataset.benchmark):
        raise UserError("\n".join(unusable.values()))
    metrics = metrics_of(dataset.benchmark, judged=False)
    values: dict[Rule, dict[str, list[float]]] = {rule: {metric.name: [] for metric in metrics} for rule in RULES}
    exceptions: list[RejectedReference] = []
    unscored: dict[tuple[str, str], list[str]] = {}
    clusters: list[str] = []
    n = 0
    for instance in dataset:
        n += 1
        clusters.append(instance.cluster)
        scores = apply(metrics, instance, Completion(text=instance.expected))
        for score in scores:
            if score.value is not None:
                values[score.rule][score.metric].append(score.value)
            elif score.metric != metrics[0].name and score.failure and score.failure.code != "not_computed":
                unscored.setdefault((score.metric, _reason(score.failure, score, instance)), []).append(instance.id)
        exceptions += _unaccepted(metrics[0], scores, instance) if metrics else ()
    means = {
        rule: {name: sum(found) / len(found) if found else None for name, found in by_metric.items()}
        for rule, by_metric in values.items()
    }
    baseline = majority_baseline(dataset)
    return BenchmarkCheck(
        benchmark=dataset.benchmark.name,
        n=n,
        means=means,
        exceptions=tuple(exceptions),
        findings=(
            *inspect_data(
                dataset.benchmark,
                dataset,
                baseline=baseline,
                windows=windows,
                further_search=further_search or no_search,
            ),
            *_unscored_findings(unscored),
        ),
        constant_baseline=baseline,
        note=dataset.benchmark.source.note,
        remarks=(
            *dataset.benchmark.remarks,
            *remarks,
            *filter(None, [dataset.skipped_rows]),
            *_cluster_remarks(dataset.benchmark, clusters),
        ),
    )


def _cluster_remarks(benchmark: Benchmark, clusters: Sequence[str]) -> Iterator[str]:
    """Yield a remark if the clusters look like record numbers of patients."""
    from medhelm.benchmarks.data_quality import are_record_numbers

    if (column := benchmark.cluster_column) and are_record_numbers(column, clusters):
        yield (
            f"`cluster: {column}` looks like a record number of patients: it is stored with the results, and exports "
            "hold a keyed hash in its place."
        )


def _reason(failure: Failure, score: Score, instance: Instance) -> str:
    """Return why an instance has no score, without its name, so that equal reasons are one."""
    return failure.message.removeprefix(f"{score.metric}, instance {instance.id}: ")


def _unscored_findings(unscored: Mapping[tuple[str, str], Sequence[str]]) -> Iterator[DataFinding]:
    """Yield a finding for each reason why a metric other than the main one has no score for some references."""
    from medhelm.benchmarks.data_quality import DataFinding

    for (metric, reason), ids in unscored.items():
        different = tuple(dict.fromkeys(ids))
        yield DataFinding(
            "unscored", f"{metric} has no score for {plural(len(different), 'instance')}: {reason}", different
        )


def _unaccepted(main: Metric, scores: Sequence[Score], instance: Instance) -> Iterator[RejectedReference]:
    """Yield the rules of the main metric under which a reference does not get the best score, with the reason."""
    for score in scores:
        if score.metric == main.name and score.value != main.best:
            reference = instance.expected
            reason = (
                _reason(score.failure, score, instance)
                if score.failure
                else main.explain(reference, instance, score.rule)
            )
            yield RejectedReference(
                instance_id=instance.id, metric=main.name, rule=score.rule, reference=reference, reason=reason
            )


# --- constant baseline ------------------------------------------------------------------------------------------------
# Compute the constant baseline of a benchmark: the score of its most frequent reference given to every instance.
#
# It is stored once for all models, like the prompts.


def store_prompts_and_baseline(dataset: Dataset, prompts: Path, baseline: Path) -> None:
    """Store the prompts and the constant baseline, which all models share."""
    rendered = ((instance, render(dataset.benchmark, instance)) for instance in dataset)
    write_prompts(prompts, rendered, dataset.benchmark.group_column)
    write_baseline(baseline, majority_baseline(dataset))


def majority_baseline(dataset: Dataset) -> ConstantBaseline | None:
    """Score the most frequent reference as the completion of every instance, by the first metric that needs no judge.

    None if no reference occurs twice, or if only judges can score the benchmark.
    """
    metrics = metrics_of(dataset.benchmark, judged=False, harness=dataset.origin.harness if dataset.origin else None)
    if not metrics:
        return None
    metric = metrics[0]
    answer, n = most_frequent_answer(dataset)
    if n < 2:
        return None
    own: dict[Rule, array[float]] = {rule: array("d") for rule in RULES}
    pooled = {rule: metric.parts or (dataset.benchmark.group_column and rule == "published") for rule in RULES}
    parts: dict[Rule, list[Parts]] = {rule: [] for rule in RULES}
    completion = Completion(text=answer)
    for instance in dataset:
        for score in apply([metric], instance, completion):
            own[score.rule].append(math.nan if score.value is None else score.value)
            if pooled[score.rule]:
                parts[score.rule].append(score.parts)
    values = {rule: _number(linearized(np.array(own[rule]), parts[rule] if pooled[rule] else None)) for rule in RULES}
    return ConstantBaseline(answer=answer, share=n / dataset.n, values=values, metric=metric.name)


def _number(values: Floats) -> float | None:
    """Return the mean; None if all values are missing."""
    return None if np.isnan(values).all() else float(np.nanmean(values))
