"""Scores of stored runs by the values of a column of the data.

The values are stored with the prompts of a run. Those of runs of older versions are read from the data.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from medhelm.analysis.comparison.non_inferiority import Change
from medhelm.analysis.comparison.significance import Adjustment
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.slices import (
    HIDDEN,
    MOST_SLICES,
    SliceDifference,
    SlicedModel,
    slice_differences,
    slice_model,
    slices_to_hide,
    units_by_slice,
    with_adjusted_differences,
    with_adjusted_p,
)
from medhelm.benchmarks.data.dataset import open_dataset
from medhelm.domain import Benchmark, Run, SampleRule, SliceColumn
from medhelm.domain.benchmark import NOT_A_NUMBER, NOT_GIVEN, group_by
from medhelm.domain.result import Remark
from medhelm.errors import MissingError, UserError, suggestion
from medhelm.results.comparable import has_own_data
from medhelm.results.leaderboard import LeaderboardInputs
from medhelm.storage.runs import LONGEST_VALUE, prompts_path, read_metadata

BY_BENCHMARK = ":"
"""Separator between a benchmark and its column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceSource:
    """Definitions and data of benchmarks, for values of columns that the store does not hold."""

    definitions: Mapping[str, Benchmark]
    """Name -> definition of the benchmark."""
    data: Path | None = None
    """Folder with the data; None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSlices:
    """The instances of a benchmark by the values of a column."""

    column: SliceColumn
    """The column."""
    names: Mapping[str, str]
    """Instance id -> its slice."""
    order: tuple[str, ...]
    """The slices: bands and numbers ascending, others by name; instances without a value last."""

    def of(self, ids: Sequence[str]) -> list[str]:
        """Return the slice of each instance."""
        return [self.names.get(one, NOT_GIVEN) for one in ids]

    def order_in(self, cells: Iterable[Cell]) -> list[str]:
        """Return the slices that have an instance in one of some cells, in order."""
        found = {name for cell in cells for name in self.of(cell.ids)}
        return [name for name in dict.fromkeys((*self.order, NOT_GIVEN)) if name in found]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicedBenchmark:
    """The models on a benchmark by slice."""

    column: Column
    """The benchmark."""
    by: str
    """Column of the data."""
    models: tuple[SlicedModel, ...]
    """The models, the best mean first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicedPair:
    """Two models on a benchmark by slice."""

    column: Column
    """The benchmark."""
    by: str
    """Column of the data."""
    first: str
    """The first model."""
    second: str
    """The second model."""
    differences: tuple[SliceDifference, ...]
    """First minus second in each slice."""
    p_equal: float | None
    """P-value of the hypothesis that the difference does not depend on the slice; None with one slice."""


# --- columns and values -----------------------------------------------------------------------------------------------


def columns_of(definition: Benchmark | None) -> dict[str, SliceColumn]:
    """Return the columns that a definition names, by name: those for slices first, then other metadata."""
    if definition is None:
        return {}
    named = {one.column: one for one in definition.slice_columns}
    return {**{name: SliceColumn(column=name) for name in definition.metadata_columns if name not in named}, **named}


def split_column(by: str, benchmarks: Collection[str]) -> tuple[str, str]:
    """Return the benchmark that `BENCHMARK:COLUMN` names, "" for all, and the column."""
    benchmark, _, column = by.partition(BY_BENCHMARK)
    return (benchmark, column) if column and benchmark in benchmarks else ("", by)


def stored_values(runs: Iterable[Run]) -> tuple[dict[str, dict[str, str]], bool]:
    """Return the metadata that is stored with the prompts of runs of a benchmark, and whether all have it."""
    found: dict[str, dict[str, str]] = {}
    is_complete = True
    files = dict.fromkeys(map(prompts_path, runs))
    for path in files:
        stored = read_metadata(path)
        is_complete &= stored is not None
        found |= stored or {}
    return found, is_complete


def read_slices(runs: Sequence[Run], by: str, source: SliceSource) -> InstanceSlices:
    """Return the slices of the instances of some runs on one benchmark.

    Raises: UserError for an unknown column, or one that makes no slices; MissingError if its values are neither stored
    nor in the data.
    """
    benchmark = runs[0].benchmark
    definition = source.definitions.get(benchmark)
    (values, is_complete), offered = stored_values(runs), columns_of(definition)
    known = dict.fromkeys([*offered, *(name for own in values.values() for name in own)])
    name = _match(by, known)
    if not (name and is_complete and values and all(name in own for own in values.values())):
        values = _values_in_data(runs, definition, source, name or by, known)
        name = _match(by, {column for own in values.values() for column in own}) or by
    column = offered.get(name, SliceColumn(column=name))
    names = {one: column.name_of(own.get(name, "")) for one, own in values.items()}
    order = _order(column, set(names.values()))
    if len(order) > MOST_SLICES:
        raise UserError(
            f"--by {by}: {benchmark} has {len(order)} values of `{name}`; at most {MOST_SLICES} slices are compared. "
            f"For numbers, add bands to the definition: `slices: [{{column: {name}, bands: [18, 65]}}]`."
        )
    if all(n == 1 for n in Counter(names.values()).values()):
        raise UserError(
            f"--by {by}: every slice of {benchmark} has one instance, and one instance has no interval. "
            "Choose a column whose values repeat."
        )
    return InstanceSlices(column=column, names=names, order=order)


def _match(name: str, known: Collection[str]) -> str:
    """Return the known column with this name, in any case if it is the only one; "" without one."""
    if name in known:
        return name
    alike = [one for one in known if one.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else ""


def _order(column: SliceColumn, names: Collection[str]) -> tuple[str, ...]:
    """Return the names of slices in the order in which they are shown."""
    bands = column.band_names
    last = [NOT_A_NUMBER, NOT_GIVEN]

    def place(name: str) -> tuple[object, ...]:
        is_special = last.index(name) + 1 if name in last else 0
        try:
            value = float(name)
        except ValueError:
            return is_special, bands.index(name) if name in bands else -1, math.inf, name.casefold()
        return is_special, -1, value, name

    return tuple(sorted(names, key=place))


def _values_in_data(
    runs: Sequence[Run], definition: Benchmark | None, source: SliceSource, column: str, known: Collection[str]
) -> dict[str, dict[str, str]]:
    """Return the values of metadata, group and short fields in the data of runs that do not have them stored.

    Raises: UserError if the data has no such column; MissingError without the data.
    """
    run = runs[0]
    needs_data = run.tier == "real" and source.data is None
    if definition is None or (needs_data and column not in known):
        raise _unknown(run.benchmark, column, known)
    problem = "" if not needs_data else "Add --data DIR with the data that the runs were made with."
    if any(one.benchmark_digest not in (definition.digest, definition.extended_digest) for one in runs):
        problem = "The definition has changed since, so that they cannot be read from the data. Run it again."
    if problem:
        raise MissingError(f"--by {column}: the store does not hold these values of {run.benchmark}. {problem}")
    chosen = replace(definition, sample=SampleRule(variant=definition.sample.variant))
    dataset = open_dataset(chosen, data=source.data, tier=run.tier, own_data=has_own_data(run))
    group = definition.group_column
    found = {one.id: {**_short(one.fields), **one.metadata, **({group: one.group} if group else {})} for one in dataset}
    names = dict.fromkeys(name for own in found.values() for name in own)
    if not _match(column, names):
        raise _unknown(run.benchmark, column, names)
    return found


def _short(fields: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in fields.items() if len(text) <= LONGEST_VALUE}


def _unknown(benchmark: str, column: str, known: Collection[str]) -> UserError:
    hint = suggestion(column, known) if known else "No column of it is known."
    return UserError(f"--by {column}: {benchmark} has no such column. {hint}".rstrip())


# --- models and pairs by slice ----------------------------------------------------------------------------------------


def hidden_slices(cells: Iterable[Cell], slices: InstanceSlices, run: Run, source: SliceSource) -> frozenset[str]:
    """Return the slices to hide: small ones of data that is not public."""
    definition = source.definitions.get(run.benchmark)
    if definition is not None and definition.access == "public" and not has_own_data(run):
        return frozenset()
    sizes: dict[str, int] = {}
    for cell in cells:
        for name, n in units_by_slice(cell, slices.of(cell.ids)).items():
            sizes[name] = min(n, sizes.get(name, n))
    return slices_to_hide(sizes)


def sliced_columns(
    inputs: LeaderboardInputs, by: str, source: SliceSource, benchmarks: Collection[str]
) -> tuple[list[tuple[Column, InstanceSlices, Run]], list[Remark]]:
    """Return the benchmarks that have a column, with the slices of their instances and one run of each.

    `by`: a column, or `BENCHMARK:COLUMN`. Raises: UserError or MissingError if no benchmark has it.
    """
    only, name = split_column(by, benchmarks)
    found, problems = [], []
    for column in inputs.columns:
        if column.benchmark not in benchmarks or (only and column.benchmark != only):
            continue
        runs = [run for (_, benchmark), run in inputs.runs.items() if benchmark == column.benchmark]
        try:
            found.append((column, read_slices(runs, name, source), runs[0]))
        except (UserError, MissingError) as error:
            problems.append(error)
    if not found:
        raise worst_problem(problems)
    missing = [one for one in problems if isinstance(one, MissingError)]
    return found, [Remark("slices_missing", "", str(one)) for one in missing]


def worst_problem(problems: Sequence[UserError | MissingError]) -> UserError | MissingError:
    """Return one error for a column that no benchmark has: the missing data, if that may have it."""
    missing = [one for one in problems if isinstance(one, MissingError)]
    kind = MissingError if missing else UserError
    return kind("\n".join(map(str, missing or problems)))


def slice_models(
    inputs: LeaderboardInputs, by: str, source: SliceSource, benchmarks: Collection[str], models: Collection[str] = ()
) -> tuple[list[SlicedBenchmark], list[Remark]]:
    """Measure models by slice on the benchmarks that have a column. `models`: only these; empty for all.

    Raises: as `sliced_columns`.
    """
    columns, remarks = sliced_columns(inputs, by, source, benchmarks)
    found = []
    for column, slices, run in columns:
        cells = [cell for cell in inputs.cells if cell.benchmark == column.benchmark and cell.scores is not None]
        hidden = hidden_slices(cells, slices, run, source)
        shown = [cell for cell in cells if not models or cell.model in models]
        order = slices.order_in(cells)
        measured = [slice_model(cell, column, slices.of(cell.ids), order, hidden) for cell in shown]
        measured.sort(key=lambda one: -column.normalize(one.overall.value) if one.overall else 1.0)
        found.append(
            SlicedBenchmark(column=column, by=slices.column.column, models=tuple(with_adjusted_p(measured)))
        )  # fmt: skip
    return found, [*remarks, *_remarks(found)]


def slice_pairs(
    inputs: LeaderboardInputs,
    by: str,
    source: SliceSource,
    benchmarks: Collection[str],
    models: tuple[str, str],
    adjustment: Adjustment = "holm",
) -> tuple[list[SlicedPair], list[Remark]]:
    """Compare two models by slice on the benchmarks that have a column. Raises: as `sliced_columns`."""
    columns, remarks = sliced_columns(inputs, by, source, benchmarks)
    found, (first, second) = [], models
    for column, slices, run in columns:
        cells = {
            cell.model: cell for cell in inputs.cells if cell.benchmark == column.benchmark and cell.scores is not None
        }
        if first not in cells or second not in cells:
            continue
        hidden = hidden_slices(cells.values(), slices, run, source)
        ids = {*cells[first].ids, *cells[second].ids}
        names = dict(zip(ids, slices.of(list(ids)), strict=True))
        differences, p_equal = slice_differences(
            cells[first], cells[second], column, names, slices.order_in(cells.values()), hidden
        )
        found.append(
            SlicedPair(
                column=column,
                by=slices.column.column,
                first=first,
                second=second,
                differences=tuple(differences),
                p_equal=p_equal,
            )
        )
    adjusted = with_adjusted_differences([one.differences for one in found], adjustment)
    return [replace(one, differences=own) for one, own in zip(found, adjusted, strict=True)], remarks


def _remarks(found: Sequence[SlicedBenchmark]) -> Iterator[Remark]:
    """Yield how many slices are left out of each benchmark, and why."""
    for one in found:
        reasons = Counter(score.reason for score in one.models[0].scores if score.reason) if one.models else Counter()
        for reason, n in reasons.items():
            text = f"{one.column.title} by {one.by}: {n} of {len(one.models[0].scores)} slices: {reason}."
            yield Remark("slices_without_interval", one.column.benchmark, text)


def changes_by_slice(
    runs: Sequence[Run],
    cells: Sequence[Cell],
    ids: Sequence[str],
    compare: Callable[[Sequence[str]], Change | None],
    by: str,
    source: SliceSource,
) -> tuple[dict[str, Change], list[Remark]]:
    """Compare two runs of a benchmark on each slice of a column, those of one independent unit left out.

    Parameters: cells, of both runs; ids, the instances of both; compare, ids of instances -> change between the runs.
    Raises: as `read_slices`.
    """
    slices = read_slices(runs, by, source)
    hidden = hidden_slices(cells, slices, runs[0], source)
    places = group_by(zip(ids, slices.of(ids), strict=True), lambda pair: pair[1])
    units = units_by_slice(cells[0], slices.of(cells[0].ids))
    found: dict[str, Change] = {}
    order = slices.order_in(cells)
    for name in order:
        own = [one for one, _ in places.get(name, ())]
        change = compare(own) if name not in hidden and units.get(name, 0) > 1 and own else None
        if change is not None:
            found[name] = change
    left_out = len(order) - len(found)
    why = HIDDEN if hidden else "one independent unit, or no score in both runs"
    text = f"{runs[0].title} by {slices.column.column}: {left_out} of {len(order)} slices are not tested: {why}."
    return found, [Remark("slices_not_tested", runs[0].benchmark, text)] if left_out else []
