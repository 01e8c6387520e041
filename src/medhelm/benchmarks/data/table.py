"""The table of a benchmark: rows of its files, after its hook, as instances. A scan checks all of them."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.benchmarks.data.instances import InstanceReader, n_characters
from medhelm.benchmarks.data.sources import data_files, read_rows
from medhelm.benchmarks.definition import HOOKS
from medhelm.domain import Benchmark, Instance, Reference, Source
from medhelm.domain.text import plural
from medhelm.errors import DataError
from medhelm.io.rows import RowError

if TYPE_CHECKING:
    from medhelm.benchmarks.hooks import Hook

KEPT, KEPT_CHARACTERS = 5000, 25_000_000
"""Maximum number of instances, and of characters of their texts, to keep in memory."""

_SHOWN = 5


@dataclass(slots=True)
class TableScan:
    """Result of one pass over all rows."""

    ids: dict[str, int] = field(default_factory=dict)
    """Instance id -> position among the instances."""
    groups: array[int] = field(default_factory=lambda: array("l"))
    """Number of the group of each instance, in the order of first appearance; empty without groups."""
    group_names: dict[str, int] = field(default_factory=dict)
    """Group -> its number."""
    kept: list[Instance] | None = field(default_factory=list)
    """The instances; None if they exceed `KEPT` or `KEPT_CHARACTERS`."""
    n_characters: int = 0
    """Characters of the texts of all instances."""
    duplicates: set[int] = field(default_factory=set)
    """Positions of rows that repeat an earlier one."""
    revised: dict[int, tuple[Reference, ...]] = field(default_factory=dict)
    """Position of a row -> the references of the last row that repeats it, if they differ."""
    n_rows: int = 0
    """Number of rows."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Reason -> number of rows that are skipped for it."""
    problems: list[str] = field(default_factory=list)
    """The first problems with single rows."""
    n_problems: int = 0
    """Number of rows with a problem."""
    repeated: list[str] = field(default_factory=list)
    """The first repeated ids."""
    n_repeated: int = 0
    """Number of instances with the id of an earlier one."""

    @property
    def n_skipped(self) -> int:
        """Number of skipped rows."""
        return self.skipped.total()

    def add(self, instance: Instance) -> None:
        """Add an instance."""
        if instance.id in self.ids:
            self.n_repeated += 1
            if len(self.repeated) < _SHOWN and instance.id not in self.repeated:
                self.repeated.append(instance.id)
            return
        self.ids[instance.id] = len(self.ids)
        if instance.group:
            self.groups.append(self.group_names.setdefault(instance.group, len(self.group_names)))
        self.n_characters += n_characters(instance)
        if self.kept is not None:
            self.kept.append(instance)
            if len(self.kept) > KEPT or self.n_characters > KEPT_CHARACTERS:
                self.kept = None

    def revise(self, row: int, first: tuple[Reference, ...], last: tuple[Reference, ...]) -> None:
        """Give the row at this position, whose references are `first`, those of a later row."""
        if last != first:
            self.revised[row] = last
        else:
            self.revised.pop(row, None)

    def add_problem(self, error: RowError) -> None:
        """Add a row that cannot be used."""
        self.n_problems += 1
        if len(self.problems) < _SHOWN:
            self.problems.append(str(error))


class SourceTable:
    """The rows of one benchmark: its real data or its sample rows."""

    def __init__(
        self, benchmark: Benchmark, source: Source, folder: Path, *, variant: str = "", last_answer: bool = False
    ) -> None:
        """Run the benchmark's hook file, if any, but read no data.

        `variant` is passed to the hook; `last_answer`: of rows that differ only in the answer, the last answer counts.
        """
        self.benchmark = benchmark
        self.variant, self.last_answer = variant, last_answer
        self.source = source
        self.folder = folder
        files = list(data_files(source, folder).values())
        self.place = str(files[0] if len(files) == 1 else folder)
        """Path of the data, for messages."""
        self._duplicates: set[int] = set()
        self._revised: dict[int, tuple[Reference, ...]] = {}
        self._hooks = benchmark.folder / HOOKS
        self._hook: Hook | None = None
        if self._hooks.is_file():
            from medhelm.benchmarks.hooks import load_hook  # lazy: few benchmarks have code
            from medhelm.benchmarks.trust import check_trusted

            check_trusted(benchmark)
            self._hook = load_hook(self._hooks)

    def read(self) -> Iterator[Instance]:
        """Yield all instances, in order. Call `scan` first."""
        reader = InstanceReader(self.benchmark, self.place)
        for position, row in enumerate(self._rows()):
            instance = None if position in self._duplicates else reader.read(position, row)
            if instance is not None and position in self._revised:
                instance = replace(instance, references=self._revised[position])
            if instance is not None:
                yield instance

    def scan(self, *, expected_count: int | None) -> TableScan:
        """Read all rows once and check them; `expected_count`: number of instances, None for any number.

        Raises DataError with all problems of rows, ids and their number; other errors as InstanceReader.
        """
        scan = TableScan()
        reader = InstanceReader(self.benchmark, self.place)
        seen: dict[bytes, tuple[int, tuple[Reference, ...]]] = {}
        for row in self._rows():
            scan.n_rows += 1
            try:
                instance = reader.read(scan.n_rows - 1, row)
            except RowError as error:
                scan.add_problem(error)
                continue
            if instance is None:
                continue
            if (
                self.benchmark.drop_duplicates
                and (content := _content_hash(instance, with_references=not self.last_answer)) in seen
            ):
                scan.duplicates.add(scan.n_rows - 1)
                scan.skipped["the row repeats an earlier one"] += 1
                scan.revise(*seen[content], instance.references)
            else:
                if self.benchmark.drop_duplicates:
                    seen[content] = (scan.n_rows - 1, instance.references)
                scan.add(instance)
        reader.check_columns()
        scan.skipped += reader.skipped
        problems = self._problems(scan, expected_count)
        if problems:
            raise DataError("\n".join(problems))
        self._duplicates, self._revised = scan.duplicates, scan.revised
        if scan.revised:
            scan.kept = None  # these have the first answers
        return scan

    def _rows(self) -> Iterator[Mapping[str, object]]:
        data = self.folder if self.source.kind == "folder" else read_rows(self.source, self.folder)
        if self._hook:
            from medhelm.benchmarks.hooks import run_hook

            return run_hook(self._hook, data, self._hooks, variant=self.variant)
        assert not isinstance(data, Path), "a definition of kind `folder` has a hook"
        return data

    def _problems(self, scan: TableScan, expected_count: int | None) -> list[str]:
        """Describe all problems of the rows."""
        problems = list(scan.problems)
        if scan.n_problems > len(problems):
            problems.append(f"... and {scan.n_problems - len(problems)} more invalid rows.")
        if scan.n_repeated:
            some = ", ".join(scan.repeated) + (", ..." if scan.n_repeated > len(scan.repeated) else "")
            text = f"{self.place}: {scan.n_repeated} instances repeat the id of another one: {some}."
            problems.append(f"{text} List columns under `id` that together are unique.")
        n = len(scan.ids) + scan.n_repeated
        rows = skipped_rows(scan.n_rows, scan.skipped) or plural(scan.n_rows, "row")
        if expected_count is not None and n + scan.n_problems != expected_count:
            text = f"{self.place}: must have {expected_count} instances, has {n + scan.n_problems} ({rows})."
            fix = "This is not the published data. For data of your own, use --own-data; in a definition of your own, "
            fix += "correct `expected_count`."
            problems.append(f"{text} {fix}")
        elif not n and not scan.n_problems:
            problems.append(f"{self.place}: has no instances ({rows}). Check `require` and the data.")
        return problems


def skipped_rows(n_rows: int, skipped: Mapping[str, int]) -> str:
    """Describe how many rows of the data are skipped, and why; empty if none is.

    >>> skipped_rows(4, {"`note` is empty": 2})
    '2 of 4 rows are skipped: `note` is empty (2)'
    """
    n = sum(skipped.values())
    reasons = ", ".join(f"{reason} ({count:,})" for reason, count in skipped.items())
    return f"{n:,} of {n_rows:,} rows {'is' if n == 1 else 'are'} skipped: {reasons}" if n else ""


def _content_hash(instance: Instance, *, with_references: bool) -> bytes:
    """Hash the content of an instance: fields, turns, options and, if asked, references. 16 bytes."""
    turns = [[turn.role, turn.text] for turn in instance.turns]
    references = [[reference.text, reference.correct] for reference in instance.references if with_references]
    content = [sorted(instance.fields.items()), turns, instance.choices, references]
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).digest()
