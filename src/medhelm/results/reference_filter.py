"""The reference filter of the MedHELM paper (Bedi et al. 2025, appendix D), from benchmarks to numbers.

benchmarks -> filterable -> instances -> question -> opinions of judges -> marks -> scores with and without

Some references hold facts that stood in the record and do not stand in the prompt; no model can write them. Judges read
prompt and reference and say so. What they mark is set aside, never deleted: scores are shown with it and without it.
The paper's own tool counted a judge that failed as one that says yes; here it says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medhelm.benchmarks.data.dataset import Dataset
from medhelm.domain import Benchmark, Model, ReferenceMarks, Rule
from medhelm.errors import UserError
from medhelm.evaluation.preparation import check_models, open_datasets, with_prices
from medhelm.evaluation.reference_filter.ask import MarkingResult, mark_references
from medhelm.evaluation.reference_filter.selecting import filterable
from medhelm.evaluation.settings import Settings
from medhelm.reports.reference_filter import FilteredBenchmark
from medhelm.results.side_by_side import compare_filtered_scores
from medhelm.storage.reference_filters import marks_file, read_marks, write_marks
from medhelm.storage.store import Store, create, open_store

__all__ = ["FilterResult", "filter_references", "filterable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterResult:
    """What came of filtering references."""

    benchmarks: tuple[FilteredBenchmark, ...]
    """One for each benchmark, in the order asked for."""
    marking: MarkingResult | None
    """What it took; None if nobody was asked."""

    @property
    def exit_code(self) -> int:
        """See `MarkingResult.exit_code`; 0 if nobody was asked."""
        return self.marking.exit_code if self.marking else 0

    @property
    def messages(self) -> tuple[str, ...]:
        """What a person must know: one for each judge that had to be given up."""
        return self.marking.messages if self.marking else ()

    @property
    def cost(self) -> dict[str, Any]:
        """What this execution took, for JSON."""
        marking = self.marking
        work = [one for own in marking.work.values() for one in own] if marking else []
        return {
            "requests_sent": sum(one.requests_sent for one in work),
            "cost_usd": marking.cost_usd if marking else 0.0,
            "seconds": marking.seconds if marking else 0.0,
        }


def filter_references(
    benchmarks: Sequence[Benchmark],
    judges: Sequence[Model],
    *,
    store: Path,
    data: Path | None = None,
    settings: Settings | None = None,
    rule: Rule = "corrected",
    environment: Mapping[str, str] | None = None,
    note: Callable[[str], object],
    progress: Callable[[int, int], object] | None = None,
) -> FilterResult:
    """Mark the references of benchmarks, store the marks, and split the scores of the store's runs by them.

    Without judges nothing is sent: the marks that the store has are used. `benchmarks` have references in free text
    (see `filterable`); `note` takes words for people, `progress` how many opinions came in, and of how many at most.
    Raises: UserError, MissingError or StoreError before anything is sent; StoreFullError if the disk fills up.
    """
    settings, environment = settings or Settings(), environment or {}
    judges = with_prices(judges)
    check_models(judges, settings, environment)
    datasets = open_datasets(benchmarks, data, settings)
    marking: MarkingResult | None = None
    files: list[Path | None]
    if judges:
        place = create(store)
        marking = mark_references(
            datasets,
            judges,
            store=place,
            settings=settings,
            environment=environment,
            note=note,
            progress=progress,
        )
        all_marks: Sequence[ReferenceMarks] = marking.marks
        files = [_store(place, marks, note) for marks in all_marks]
    else:
        place = open_store(store)
        all_marks = _stored(place, datasets)
        files = [marks_file(place, m.benchmark, m.benchmark_digest, m.data_digest) for m in all_marks]
    found = [
        compare_filtered_scores(
            marks,
            dataset.benchmark.title,
            store=place,
            rule=rule,
            file=file,
            work=marking.work[marks.benchmark] if marking else (),
        )
        for dataset, marks, file in zip(datasets, all_marks, files, strict=True)
    ]
    return FilterResult(benchmarks=tuple(found), marking=marking)


def _store(store: Store, marks: ReferenceMarks, note: Callable[[str], object]) -> Path | None:
    """Store marks, if there are any; None if they are not stored."""
    if not any(opinion.failure is None for mark in marks.by_instance.values() for opinion in mark.opinions):
        note(f"{marks.benchmark}: no reference could be marked, so nothing was stored")
        return None
    file = write_marks(store, marks)
    if file is None:
        note(f"{marks.benchmark}: these marks are not stored, because they are not all; complete ones from before stay")
    return file


def _stored(store: Store, datasets: Sequence[Dataset]) -> list[ReferenceMarks]:
    """The marks of the store. Raises: UserError naming all benchmarks that have none."""
    found: list[ReferenceMarks] = []
    missing: list[str] = []
    for dataset in datasets:
        benchmark = dataset.benchmark
        marks = read_marks(store, benchmark.name, benchmark.digest, dataset.digest)
        if marks is None:
            missing.append(benchmark.name)
        else:
            found.append(marks)
    if missing:
        raise UserError(
            f"the store {store.folder} has no marks of {', '.join(missing)} on these instances. Name a model that "
            "marks them with --judge, or the same --sample, --limit, --seed and --tier as then. Nothing was sent."
        )
    return found
