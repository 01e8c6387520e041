"""Scores by slice on the pages of benchmarks and models.

Names of slices are texts of the data: they are shown only where the site shows the texts of the benchmark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medhelm.analysis.slices import SlicedModel
from medhelm.errors import MissingError, UserError
from medhelm.extensions.web.benchmark_charts import MOST_SUBGROUP_MODELS, SubgroupMean, subgroups_table
from medhelm.extensions.web.board_charts import ShadedTable
from medhelm.extensions.web.site import BoardSelection, Site, board_of
from medhelm.results.formats.tables import MISSING
from medhelm.results.runs.slices import BY_BENCHMARK, SlicedBenchmark, SliceSource, slice_models
from medhelm.results.runs.slices_view import in_words, slice_text


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceSection:
    """The models on a benchmark by the values of one column."""

    found: SlicedBenchmark
    """The models."""
    sentences: Sequence[str]
    """Models whose score depends on the slice, and slices that are not shown."""
    table: ShadedTable | None
    """All slices; None where the page has them as subgroups."""

    def end(self, model: SlicedModel, which: str) -> str:
        """Return the slice with its score. `which`: `best` or `worst`."""
        return slice_text(self.found.column, model, which) or MISSING


def benchmark_slices(site: Site, benchmark: str) -> list[SliceSection]:
    """Return the scores of the ranked models by each column that the definition offers; none without the texts.

    Columns whose values are not stored, because the runs are older, are left out.
    """
    definition = site.definitions.get(benchmark)
    if definition is None or not definition.slice_columns or not site.shows_text_of(benchmark):
        return []

    def read() -> list[SliceSection]:
        rows = board_of(site, BoardSelection(benchmark=benchmark)).rows[:MOST_SUBGROUP_MODELS]
        source = SliceSource(definitions=site.definitions)
        found: list[SliceSection] = []
        for one in definition.slice_columns if rows else ():
            try:
                ((sliced,), remarks) = slice_models(
                    site.inputs(),
                    f"{benchmark}{BY_BENCHMARK}{one.column}",
                    source,
                    [benchmark],
                    [row.model for row in rows],
                )
            except (UserError, MissingError):
                continue
            is_group = one.column == definition.group_column
            sentences = [*in_words([sliced]), *map(str, remarks)]
            found.append(
                SliceSection(found=sliced, sentences=sentences, table=None if is_group else _table(sliced, len(found)))
            )
        return found

    return site.keep(("slices", benchmark), read)


def model_slices(site: Site, benchmark: str, model: str) -> list[tuple[SliceSection, SlicedModel]]:
    """Return one model on a benchmark by each column."""
    return [(one, own) for one in benchmark_slices(site, benchmark) for own in one.found.models if own.model == model]


def _table(sliced: SlicedBenchmark, number: int) -> ShadedTable:
    """Return all slices of all models. `number`: of the table on its page."""
    means = [
        SubgroupMean(subgroup=score.name, model=one.model, estimate=score.estimate)
        for one in sliced.models
        for score in one.scores
        if score.estimate
    ]
    of_model = {one.model: one.overall.value if one.overall else None for one in sliced.models}
    return subgroups_table(sliced.column, means, of_model, name=f"slices-{number}", title=f"Slices of {sliced.by}")
