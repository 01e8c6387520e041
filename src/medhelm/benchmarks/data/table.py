"""The table of a benchmark: its rows, after its hook, as instances; and one pass over all that checks everything."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from medhelm.benchmarks.data.instances import InstanceReader, n_characters
from medhelm.benchmarks.data.sources import data_files, read_rows
from medhelm.benchmarks.definition import HOOKS
from medhelm.benchmarks.hooks import load_hook, through_hook
from medhelm.domain import Benchmark, Instance, Source
from medhelm.errors import DataError
from medhelm.io.rows import RowError

KEPT, KEPT_CHARACTERS = 5000, 25_000_000
"""Most instances, and most characters of their texts, that are held in memory."""

_SHOWN = 5


@dataclass(slots=True)
class TableScan:
    """What one pass over all rows found."""

    ids: dict[str, int] = field(default_factory=dict)
    """Instance id -> position among the instances."""
    groups: array[int] = field(default_factory=lambda: array("l"))
    """Number of the group of each instance, in the order they first appear; empty if there are no groups."""
    group_names: dict[str, int] = field(default_factory=dict)
    """Group -> its number."""
    kept: list[Instance] | None = field(default_factory=list)
    """The instances; None once they are more than `KEPT`, or longer than `KEPT_CHARACTERS` together."""
    n_characters: int = 0
    """Characters of the texts of all instances."""
    duplicates: set[int] = field(default_factory=set)
    """Positions of rows that say the same as an earlier one."""
    n_rows: int = 0
    """Rows of the table."""
    n_skipped: int = 0
    """Rows that gave no instance."""
    problems: list[str] = field(default_factory=list)
    """The first problems with single rows."""
    n_problems: int = 0
    """How many rows have one."""
    twice: list[str] = field(default_factory=list)
    """The first ids that several instances have."""
    n_twice: int = 0
    """How many instances have the id of an earlier one."""

    def add(self, instance: Instance) -> None:
        """Take in one more instance."""
        if instance.id in self.ids:
            self.n_twice += 1
            if len(self.twice) < _SHOWN and instance.id not in self.twice:
                self.twice.append(instance.id)
            return
        self.ids[instance.id] = len(self.ids)
        if instance.group:
            self.groups.append(self.group_names.setdefault(instance.group, len(self.group_names)))
        self.n_characters += n_characters(instance)
        if self.kept is not None:
            self.kept.append(instance)
            if len(self.kept) > KEPT or self.n_characters > KEPT_CHARACTERS:
                self.kept = None

    def add_problem(self, error: RowError) -> None:
        """Note that a row cannot be used."""
        self.n_problems += 1
        if len(self.problems) < _SHOWN:
            self.problems.append(str(error))


class SourceTable:
    """The rows of one benchmark. `source` and `folder` may be those of its sample rows."""

    def __init__(self, benchmark: Benchmark, source: Source, folder: Path, *, variant: str = "") -> None:
        """Runs the benchmark's hook file, if it has one, but reads no data. `variant`: the reading the hook gives."""
        self.benchmark = benchmark
        self.variant = variant
        self.source = source
        self.folder = folder
        files = list(data_files(source, folder).values())
        self.place = str(files[0] if len(files) == 1 else folder)
        """The data as the user knows it."""
        self._duplicates: set[int] = set()
        self._hooks = benchmark.folder / HOOKS
        self._hook = load_hook(self._hooks) if self._hooks.is_file() else None

    def read(self) -> Iterator[Instance]:
        """All instances, in order, after a scan."""
        reader = InstanceReader(self.benchmark, self.place)
        for position, row in enumerate(self._rows()):
            instance = None if position in self._duplicates else reader.read(position, row)
            if instance is not None:
                yield instance

    def scan(self, *, expected_count: int | None) -> TableScan:
        """Read all rows once and check them; `expected_count`: how many instances there should be, None: any number.

        Raises: DataError with the problems of rows, ids and their number together; what InstanceReader raises.
        """
        scan = TableScan()
        reader = InstanceReader(self.benchmark, self.place)
        seen: set[bytes] = set()
        for row in self._rows():
            scan.n_rows += 1
            try:
                instance = reader.read(scan.n_rows - 1, row)
            except RowError as error:
                scan.add_problem(error)
                continue
            if instance is None:
                scan.n_skipped += 1
            elif self.benchmark.drop_duplicates and (content := _content(instance)) in seen:
                scan.duplicates.add(scan.n_rows - 1)
                scan.n_skipped += 1
            else:
                if self.benchmark.drop_duplicates:
                    seen.add(content)
                scan.add(instance)
        reader.check_columns()
        problems = self._problems(scan, expected_count)
        if problems:
            raise DataError("\n".join(problems))
        self._duplicates = scan.duplicates
        return scan

    def _rows(self) -> Iterator[Mapping[str, object]]:
        data = self.folder if self.source.kind == "folder" else read_rows(self.source, self.folder)
        if self._hook:
            return through_hook(self._hook, data, self._hooks, variant=self.variant)
        assert not isinstance(data, Path), "a definition of kind `folder` has a hook"
        return data

    def _problems(self, scan: TableScan, expected_count: int | None) -> list[str]:
        """Everything that is wrong with the rows, in words."""
        problems = list(scan.problems)
        if scan.n_problems > len(problems):
            problems.append(f"... and {scan.n_problems - len(problems)} more rows that cannot be used.")
        if scan.n_twice:
            some = ", ".join(scan.twice) + (", ..." if scan.n_twice > len(scan.twice) else "")
            text = f"{self.place}: {scan.n_twice} instances have an id that another one has: {some}."
            problems.append(f"{text} Name columns under `id` that tell instances apart.")
        n = len(scan.ids) + scan.n_twice
        rows = f"{scan.n_rows} rows, {scan.n_skipped} of them left out"
        if expected_count is not None and n + scan.n_problems != expected_count:
            text = f"{self.place}: should give {expected_count} instances and gives {n + scan.n_problems} ({rows})."
            fix = (
                "It is not the data the definition is about; or, if it is the data you mean, correct `expected_count`."
            )
            problems.append(f"{text} {fix}")
        elif not n and not scan.n_problems:
            problems.append(f"{self.place}: gives no instance ({rows}). Check `require` and the data.")
        return problems


def _content(instance: Instance) -> bytes:
    """What makes two instances say the same: what a model reads, the options and the answer. 16 bytes."""
    turns = [[turn.role, turn.text] for turn in instance.turns]
    references = [[reference.text, reference.correct] for reference in instance.references]
    content = [sorted(instance.fields.items()), turns, instance.choices, references]
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).digest()
