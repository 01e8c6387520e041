"""Look at a benchmark without asking a model: what it is, what a model would read, and whether its data is sound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from medhelm.benchmarks.data.dataset import Dataset, find_data, open_dataset
from medhelm.benchmarks.data_quality import DataFinding, inspect_data
from medhelm.benchmarks.prompts import render
from medhelm.domain import RULES, Benchmark, Completion, ConstantBaseline, Instance, Rule, Score, Tier
from medhelm.errors import MedHelmError, MissingError, UserError
from medhelm.evaluation.constant_baseline import majority_baseline
from medhelm.scoring.metric import Metric, apply
from medhelm.scoring.metrics import metrics_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedReference:
    """A reference that does not get the best score."""

    instance_id: str
    """Name of the instance."""
    metric: str
    """The metric that does not accept the reference."""
    rule: Rule
    """By which of its rules."""
    reference: str
    """The reference."""
    reason: str
    """Why, as far as the metric can tell; empty if it cannot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkCheck:
    """What came out of scoring every reference as if it were a completion."""

    benchmark: str
    """Name of the benchmark."""
    n: int
    """Instances checked."""
    means: Mapping[Rule, Mapping[str, float | None]]
    """Rule -> metric -> mean score of the references; None where it could not be computed here."""
    exceptions: tuple[RejectedReference, ...]
    """References that do not get the best score of the main metric by one of its rules."""
    findings: tuple[DataFinding, ...]
    """What a person should look at."""
    floor: ConstantBaseline | None
    """What the most frequent answer scores when it is given to every question."""
    note: str
    """What the definition says of its data, known errors among it."""
    remarks: tuple[str, ...]
    """What its user should know of how it was read."""

    @property
    def sound(self) -> bool:
        """Whether there is a reason for every exception, be it an error of the data or of the published rule."""
        return all(exception.reason for exception in self.exceptions)


def find_folder(benchmark: Benchmark, data: Path | None) -> Path | None:
    """Where the data of a benchmark is; None if it is not below `data`."""
    try:
        return find_data(benchmark, data)
    except MissingError:
        return None


def case_of(benchmark: Benchmark, instance: Instance) -> dict[str, Any]:
    """An instance as JSON: what it holds, and what a model would read."""
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
    """What came out of checking several benchmarks."""

    checks: tuple[BenchmarkCheck, ...]
    """Those that could be opened."""
    skipped: tuple[str, ...]
    """Members of a group whose data is not here."""
    errors: tuple[MedHelmError, ...]
    """Why others could not be opened."""

    @property
    def exit_code(self) -> int:
        """0 all is sound, 1 a reference is not accepted and nobody knows why, else that of the gravest error."""
        codes = [error.exit_code for error in self.errors]
        return min(codes) if codes else int(not all(check.sound for check in self.checks))


def check_all(
    groups: Sequence[Sequence[Benchmark]],
    *,
    data: Path | None,
    tier: Tier,
    sample: str,
    windows: Mapping[str, int],
) -> BenchmarkChecks:
    """Check all benchmarks, whatever is wrong with some.

    `groups`: what each name that was asked for stands for. The data of a benchmark that stands alone must be here; of
    several, those are skipped whose data is not.
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
                dataset = open_dataset(benchmark, data=data, tier=tier, sample=sample)
                checks[benchmark.name] = check(dataset, windows)
            except (UserError, MissingError) as error:
                errors.append(error)
    return BenchmarkChecks(checks=tuple(checks.values()), skipped=tuple(dict.fromkeys(skipped)), errors=tuple(errors))


def check(dataset: Dataset, windows: Mapping[str, int]) -> BenchmarkCheck:
    """Look at every instance, and score its reference as if it were the completion.

    A sound benchmark gives its own references full marks, as far as no judge is needed for that.
    `windows`: model -> the tokens that it can read.
    """
    metrics = metrics_of(dataset.benchmark, judged=False)
    values: dict[Rule, dict[str, list[float]]] = {rule: {metric.name: [] for metric in metrics} for rule in RULES}
    exceptions: list[RejectedReference] = []
    n = 0
    for instance in dataset:
        n += 1
        scores = apply(metrics, instance, Completion(text=instance.expected))
        for score in scores:
            if score.failure is None or score.failure.code != "not_computed":
                values[score.rule][score.metric].append(score.value or 0.0)
        exceptions += _unaccepted(metrics[0], scores, instance) if metrics else ()
    means = {
        rule: {name: sum(found) / len(found) if found else None for name, found in by_metric.items()}
        for rule, by_metric in values.items()
    }
    floor = majority_baseline(dataset)
    return BenchmarkCheck(
        benchmark=dataset.benchmark.name,
        n=n,
        means=means,
        exceptions=tuple(exceptions),
        findings=tuple(inspect_data(dataset.benchmark, dataset, baseline=floor, windows=windows)),
        floor=floor,
        note=dataset.benchmark.source.note,
        remarks=dataset.benchmark.remarks,
    )


def _unaccepted(main: Metric, scores: Sequence[Score], instance: Instance) -> Iterator[RejectedReference]:
    """The rules of the main metric by which the reference of an instance does not get the best score, and why."""
    for score in scores:
        if score.metric == main.name and score.value != main.best:
            reference = instance.expected
            reason = score.failure.message if score.failure else main.explain(reference, instance, score.rule)
            yield RejectedReference(
                instance_id=instance.id, metric=main.name, rule=score.rule, reference=reference, reason=reason
            )
