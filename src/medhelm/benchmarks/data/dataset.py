"""Open the data of a benchmark: find, check and select the instances to evaluate.

Opening reads the data once and checks all of it before any request is sent. Small data stays in memory. Larger data is
read again for each pass; if it is evaluated in another order than that of the file, it is copied once to a temporary
file. Memory use does not grow with the data.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from tempfile import gettempdir
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import finalize

from medhelm.benchmarks.data.instances import InstanceReader, n_characters
from medhelm.benchmarks.data.sampling import (
    EVERY_INSTANCE,
    InstanceSelection,
    SampleOptions,
    addresses,
    check_files,
    data_files,
    missing_files,
    missing_files_text,
    named_sample,
    other_files,
    read_rows,
    select_instances,
)
from medhelm.benchmarks.definition import HOOKS, LEFT_OUT_CODE, SAMPLE_ROWS
from medhelm.domain import (
    Availability,
    Benchmark,
    Criterion,
    DataState,
    Instance,
    Message,
    Origin,
    Reference,
    SampleRule,
    Source,
    Tier,
)
from medhelm.domain.run import VARIANT, Variant
from medhelm.domain.text import plural
from medhelm.errors import DataError, MissingError, StoreFullError, UserError
from medhelm.io.files import temporary_file
from medhelm.io.rows import RowError

if TYPE_CHECKING:
    from medhelm.benchmarks.hooks import Hook


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFrom:
    """Source of instances of another harness."""

    origin: Origin | None
    """The run that they were read from."""
    settings: Mapping[str, Any]
    """Request settings of that harness: `max_tokens`, `temperature`, `stop` and their source."""


class Dataset:
    """The selected instances of one benchmark. It can be iterated repeatedly."""

    def __init__(
        self,
        *,
        benchmark: Benchmark,
        tier: Tier,
        digest: str,
        selection: InstanceSelection,
        read: Callable[[], Iterator[Instance]],
        instances: Sequence[Instance] | None,
        imported: ImportedFrom | None = None,
        reopen: Callable[[str], Dataset] | None = None,
    ) -> None:
        """Set up a selection; `open_dataset` does this for data.

        `read` yields all instances; `instances` holds the same in memory, or None if there are too many. `imported` is
        for instances of another harness. `reopen` opens another named selection of the data; None if there is none.
        """
        self.benchmark = benchmark
        """The benchmark of the instances."""
        self.tier = tier
        """Real data, or the invented rows next to the definition."""
        self.digest = digest
        """Hash of the data files and of the selection, in hex."""
        self.n = selection.n
        """Number of selected instances."""
        self.shard = selection.shard
        """The part of the selection that is evaluated; None for all of it. Prompts and baselines see all of it."""
        self.positions = range(selection.n) if selection.positions is None else selection.positions
        """Positions of the instances to evaluate, ascending: those of the shard, or all."""
        self.n_total = selection.n_total
        """Number of instances before selection."""
        self.n_rows = selection.n_rows
        """Number of rows of the data, skipped ones included; 0 if unknown."""
        self.skipped = selection.skipped
        """Reason -> number of rows skipped for it: a required column is empty, or they repeat an earlier row."""
        self.origin = imported.origin if imported else None
        """Source of instances imported from another harness; None for data."""
        self.settings: Mapping[str, Any] = imported.settings if imported else {}
        """Request settings of that harness: `max_tokens`, `temperature`, `stop` and their source."""
        self._read = self._read_all = read
        self._reopen = reopen
        self._order = selection.order
        self._filling = Lock()
        self._spilled: SpilledInstances | None = None
        self._instances = instances
        if instances is not None:
            self._instances = instances[: self.n] if self._order is None else [instances[i] for i in self._order]

    def __len__(self) -> int:
        """Number of selected instances."""
        return self.n

    def __iter__(self) -> Iterator[Instance]:
        """Iterate over the selected instances, in order."""
        if self._instances is not None:
            return iter(self._instances)
        if self._order is None:
            return islice(self._read(), self.n)
        return self._from_file(self._order)

    def to_evaluate(self) -> Iterator[Instance]:
        """Iterate over the instances of the shard, or over all, in order."""
        shard = self.shard
        return iter(self) if shard is None else (instance for instance in self if shard.has(instance.id))

    def without(self, is_left_out: Callable[[str], bool]) -> Dataset:
        """Return the selection without some instances, with the same digest.

        `is_left_out`: id of an instance -> whether it is left out. Reads the data once.
        """
        found = copy(self)
        found._read_all = lambda: (instance for instance in self._read_all() if not is_left_out(instance.id))
        if (reopen := self._reopen) is not None:
            found._reopen = lambda name: reopen(name).without(is_left_out)
        return self._changed(found, lambda instance: None if is_left_out(instance.id) else instance)

    def not_selected(self) -> Iterator[Instance]:
        """Iterate over the instances of the data that are not selected, in the order of the data."""
        selected = {instance.id for instance in self}
        return (instance for instance in self._read_all() if instance.id not in selected)

    def selection(self, name: str) -> Dataset | None:
        """Open another named selection of the same data; None for invented rows, which have none.

        Raises: UserError if the benchmark has no such selection; as `open_dataset`.
        """
        return self._reopen(name) if self._reopen and self.tier == "real" else None

    @property
    def variant(self) -> str:
        """Variant of the instances, such as `perturb=typos`; empty for the instances as they are."""
        return str(self.settings.get(VARIANT, ""))

    def asked(self, **settings: Any) -> Dataset:
        """Return the same instances with more request settings."""
        found = copy(self)
        found.settings = {**self.settings, **settings}
        return found

    def varied(self, variant: Variant) -> Dataset:
        """Return the instances that a variant applies to, changed by it, with a digest of their own.

        Ids, clusters and groups stay, so that each instance is paired with the original. Reads the data once, if the
        variant changes instances.
        """
        found = self.asked(**variant.settings)
        if variant.benchmark is not None:
            found.benchmark = variant.benchmark(self.benchmark)
        found.digest = variant.digest_of(self.digest)
        if (change := variant.instance) is None:
            return found
        return self._changed(found, change)

    def _changed(self, found: Dataset, change: Callable[[Instance], Instance | None]) -> Dataset:
        """Give a copy of this dataset the instances that `change` returns, in order; None leaves one out."""
        evaluated, is_held = set(self.positions), self._instances is not None
        kept: list[int] = []
        changed: list[Instance] = []
        for position, instance in enumerate(self):
            if (new := change(instance)) is not None:
                kept.append(position)
                changed += [new] if is_held else []
        found.n, found._order, found._spilled, found._filling = len(kept), None, None, Lock()
        found.positions = array("q", (new for new, old in enumerate(kept) if old in evaluated))
        found._read = lambda: (new for instance in self if (new := change(instance)) is not None)
        found._instances = changed if is_held else None
        return found

    @property
    def n_skipped(self) -> int:
        """Number of skipped rows."""
        return sum(self.skipped.values())

    @property
    def skipped_rows(self) -> str:
        """Number of skipped rows and the reasons, as a clause; empty if none is skipped."""
        return skipped_rows(self.n_rows, self.skipped)

    @property
    def held(self) -> int:
        """Characters of the instances in memory."""
        return sum(map(n_characters, self._instances or ()))

    def release(self) -> None:
        """Drop the instances from memory; the next pass reads them again."""
        self._instances = None

    def _from_file(self, order: Sequence[int]) -> Iterator[Instance]:
        """Yield instances in another order than that of the data; the first pass copies them to a temporary file."""
        with self._filling:
            if self._spilled is None:
                ranks = {position: rank for rank, position in enumerate(order)}
                read = enumerate(islice(self._read(), max(ranks) + 1))
                wanted = ((ranks[position], instance) for position, instance in read if position in ranks)
                self._spilled = SpilledInstances(wanted, len(order))
            spilled = self._spilled
        for rank in range(len(order)):
            yield spilled[rank]


def open_dataset(
    benchmark: Benchmark,
    *,
    data: Path | None,
    tier: Tier,
    options: SampleOptions = EVERY_INSTANCE,
    scoring: bool = False,
    own_data: bool = False,
) -> Dataset:
    """Find, check and select the data of a benchmark.

    Parameters: data, folder with one folder per benchmark, None if there is none; tier, real data, or all invented rows
    next to the definition, in order; options, the instances to evaluate; scoring, also require files that only scoring
    needs; own_data, the real data is the user's own, see `with_own_data`.
    Raises: MissingError if files are missing; DataError, with all problems together, if the data does not match the
    definition; ConfigError if the prompt names a column that the data lacks; UserError for an invalid argument.
    """
    _check_arguments(tier, options, own_data)
    given = benchmark
    benchmark = with_own_data(benchmark) if own_data else benchmark
    chosen = named_sample(benchmark, options.sample)
    if tier == "sample":
        from medhelm.benchmarks.data.sample_rows import SAMPLE_SOURCE, sample_rows  # lazy: only invented rows need it

        chosen = SampleRule(variant=chosen.variant, last_answer=chosen.last_answer)
        _check_links(benchmark, SAMPLE_SOURCE, benchmark.folder)
        checksums = check_files(SAMPLE_SOURCE, benchmark.folder)
        source, folder = sample_rows(benchmark, checksums[SAMPLE_ROWS])
    else:
        source, folder = benchmark.source, find_data(benchmark, data)
        _check_links(benchmark, source, folder)
        checksums = check_files(source, folder, scoring=scoring)
    table = SourceTable(benchmark, source, folder, variant=chosen.variant, last_answer=chosen.last_answer)
    scan = table.scan(expected_count=chosen.expected_count or source.expected_count)
    selection = select_instances(
        chosen, benchmark=benchmark, ids=scan.ids, folder=folder, groups=scan.groups, options=options
    )
    draw: list[object] = [chosen.variant] if chosen.variant else []
    if tier == "real":
        draw += [options.sample, chosen.size, chosen.pool, chosen.offset, selection.ids_digest, options.seed]
    if options.subset is not None:
        draw += ["subset", options.subset, options.seed]
    return Dataset(
        benchmark=benchmark,
        tier=tier,
        digest=_digest(tier, checksums, draw, options.limit),
        selection=replace(selection, n_rows=scan.n_rows, skipped=scan.skipped),
        read=table.read,
        instances=scan.kept,
        reopen=lambda name: open_dataset(
            given, data=data, tier=tier, options=SampleOptions(sample=name, seed=options.seed), own_data=own_data
        ),
    )


def _check_arguments(tier: Tier, options: SampleOptions, own_data: bool) -> None:
    """Raise UserError for arguments of `open_dataset` that are out of range or contradict each other."""
    limit, subset = options.limit, options.subset
    if own_data and tier == "sample":
        raise UserError("--own-data and --tier sample cannot be combined: the sample rows come with the benchmark.")
    if limit is not None and limit < 1:
        raise UserError(f"the limit must be at least 1, is {limit}.")
    if subset is not None and subset < 1:
        raise UserError(f"the subset must be at least 1, is {subset}.")
    if subset is not None and limit is not None:
        raise UserError("--subset and --limit cannot be combined: use one of them.")


def with_own_data(benchmark: Benchmark) -> Benchmark:
    """Return a benchmark for other data of the same form, without all that describes the published files.

    Checksums and numbers of instances are not compared, and selections are random draws from all rows instead of
    published lists. The title says that the data is another.
    """
    source = benchmark.source
    return replace(
        benchmark,
        title=f"{benchmark.title} (own data)",
        source=replace(
            source,
            files=dict.fromkeys(source.files, ""),
            scoring_files=dict.fromkeys(source.scoring_files, ""),
            expected_count=None,
        ),
        sample=_without_lists(benchmark.sample),
        samples={name: _without_lists(rule) for name, rule in benchmark.samples.items()},
    )


def _without_lists(rule: SampleRule) -> SampleRule:
    return SampleRule(size=rule.size, variant=rule.variant)


def _digest(tier: Tier, checksums: Mapping[str, str], draw: Sequence[object], limit: int | None) -> str:
    """Hash the files and the selection: runs with the same digest have the same instances."""
    return hashlib.sha256(json.dumps([tier, list(checksums.items()), draw, limit]).encode()).hexdigest()


def _check_links(benchmark: Benchmark, source: Source, folder: Path) -> None:
    """Raise UserError for links in the benchmark's own folder that lead out of it."""
    if folder.resolve() == benchmark.folder.resolve():
        from medhelm.benchmarks.hooks import check_links  # lazy: most data is in a folder of its own

        check_links(benchmark, data_files(source, folder).values())


def find_data(benchmark: Benchmark, data: Path | None) -> Path:
    """Find the folder with the real data: in `data`, by name or alias of the benchmark, or next to its definition.

    Raises MissingError with the folders searched and the source of the data.
    """
    names = (benchmark.name, *benchmark.aliases)
    found = next((data / name for name in names if (data / name).is_dir()), None) if data else None
    if found:
        return found
    beside = list(data_files(benchmark.source, benchmark.folder).values())
    if beside and all(path.is_file() for path in beside):
        return benchmark.folder
    absent = [path for path in beside if not path.is_file()]
    if absent and (others := other_files(benchmark.source, absent[0])):
        problem = "is a folder, where a file is needed" if absent[0].is_dir() else "does not exist"
        raise MissingError(f"{benchmark.name}: {absent[0]} {problem}.{others}")
    source = benchmark.source
    other = f" (or {', '.join(names[1:])})" if benchmark.aliases else ""
    remedy = "Set --data DIR or MEDHELM_DATA to the folder that holds one folder per benchmark."
    where = f" in {data}{folder_problem(data)}." if data else f", because no data folder is set. {remedy}"
    lines = [
        f"{benchmark.name}: the data was not found{where}",
        f"The folder {benchmark.name}{other} must hold {', '.join(source.files)}.",
    ]
    lines += [f"  from {address}" for address in dict.fromkeys(addresses(source, source.files))]
    lines += [source.note.strip()] if source.note else []
    if benchmark.access == "public" and source.location:
        lines.append(f"`medhelm data fetch {benchmark.name} --data DIR` downloads it.")
    raise MissingError("\n".join([*lines, *([remedy] if data else [])]))


def folder_problem(data: Path) -> str:
    """Return the end of a sentence about a data folder that cannot hold anything; "" if it can."""
    if data.is_dir():
        return ""
    return ", which is a file" if data.exists() else ", which does not exist"


class SpilledInstances:
    """Instances in an unnamed temporary file, which is deleted with this object. Threads can share it."""

    def __init__(self, numbered: Iterable[tuple[int, Instance]], n: int) -> None:
        """Write `n` instances, in any order, each with its number from 0.

        Raises DataError if there are fewer, StoreFullError if the disk is full.
        """
        self._starts = array("q", bytes(8 * n))
        self._file = temporary_file()  # closed with this object
        finalize(self, self._file.close)
        self._lock = Lock()
        n_put = 0
        for number, instance in numbered:
            self._starts[number] = self._file.tell()
            self._put(instance)
            n_put += 1
        if n_put < n:
            raise DataError(
                f"the data now has {n_put} of its {n} instances: it changed during the run. Run the command again."
            )

    def __getitem__(self, number: int) -> Instance:
        """Read the instance with that number."""
        with self._lock:
            self._file.seek(self._starts[number])
            line = self._file.readline()
        content = json.loads(line)
        references = tuple(Reference(**reference) for reference in content["references"])
        lists = {name: tuple(content[name]) for name in ("choices", "labels")}
        graded = ({**criterion, "tags": tuple(criterion["tags"])} for criterion in content["criteria"])
        criteria = tuple(Criterion(**criterion) for criterion in graded)
        turns = {name: tuple(Message(**turn) for turn in content[name]) for name in ("turns", "examples")}
        return Instance(**{**content, **lists, **turns, "references": references, "criteria": criteria})

    def _put(self, instance: Instance) -> None:
        line = json.dumps(asdict(instance)).encode("ascii") + b"\n"
        try:
            self._file.write(line)
            self._file.flush()
        except OSError as error:
            raise StoreFullError(
                f"{gettempdir()} cannot be written: {error.strerror or error}. Large data is copied there. "
                "Free some space, or set TMPDIR to another folder, and run the command again."
            ) from error


# --- table ------------------------------------------------------------------------------------------------------------
# The table of a benchmark: rows of its files, after its hook, as instances. A scan checks all of them.

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
        if (benchmark.folder / LEFT_OUT_CODE).is_file():
            raise UserError(
                f"{benchmark.name}: the store keeps its definition without its {HOOKS}, which reads the data. Name its "
                "folder with --benchmarks DIR."
            )
        if self._hooks.is_file():
            from medhelm.benchmarks.hooks import (
                check_trusted,
                load_hook,  # lazy: few benchmarks have code
            )

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


# --- availability -----------------------------------------------------------------------------------------------------
# Check whether the data of a benchmark is on this machine and unchanged.


def availability(benchmark: Benchmark, data: Path | None, *, verify: bool = False) -> Availability:
    """Look for the data of a benchmark.

    Files that only scoring needs are reported if missing, but do not make the data incomplete.

    Parameters
    ----------
    data
        Folder with one folder per benchmark; None if there is none.
    verify
        Read all files and compare their checksums.
    """
    source = benchmark.source
    folder: Path | None = None
    missing = list(source.files)
    state: DataState = "absent"
    reason = f"not in {data}{folder_problem(data)}" if data else "no data folder is set"
    try:
        folder = find_data(benchmark, data)
    except MissingError:
        pass  # `reason` says so
    else:
        missing = missing_files(source, folder, scoring=True)
        state, reason = _state(benchmark, folder, missing, verify=verify)
    return Availability(
        state=state,
        folder=folder,
        missing=tuple(missing),
        addresses=tuple(dict.fromkeys(addresses(source, source.files))),
        reason=reason,
    )


def _state(benchmark: Benchmark, folder: Path, missing: list[str], *, verify: bool) -> tuple[DataState, str]:
    """Return the state of data that was found, and what is wrong with it."""
    source = benchmark.source
    if needed := [name for name in missing if name in source.files]:
        return "incomplete", missing_files_text(folder, needed)
    reason = f"scoring needs {', '.join(missing)}" if missing else ""
    if not verify:
        return "here", reason
    try:
        check_files(source, folder)
    except DataError as error:
        return "changed", str(error)
    return ("verified" if all([*source.files.values(), *source.scoring_files.values()]) else "unpinned"), reason
