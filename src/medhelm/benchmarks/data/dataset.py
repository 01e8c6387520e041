"""Open the data of a benchmark: find, check and select the instances to evaluate.

Opening reads the data once and checks all of it before any request is sent. Small data stays in memory. Larger data is
read again for each pass; if it is evaluated in another order than that of the file, it is copied once to a temporary
file. Memory use does not grow with the data.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from tempfile import gettempdir
from threading import Lock
from typing import Any
from weakref import finalize

from medhelm.benchmarks.data.instances import n_characters
from medhelm.benchmarks.data.sampling import InstanceSelection, named_sample, select_instances
from medhelm.benchmarks.data.sources import addresses, check_files, data_files, other_files
from medhelm.benchmarks.data.table import SourceTable, skipped_rows
from medhelm.benchmarks.definition import SAMPLE_ROWS
from medhelm.benchmarks.sample_data.rows import SAMPLE_SOURCE, sample_rows
from medhelm.domain import Benchmark, Criterion, Instance, Message, Origin, Reference, SampleRule, Shard, Source, Tier
from medhelm.errors import DataError, MissingError, StoreFullError, UserError
from medhelm.io.files import temporary_file


class Dataset:
    """The selected instances of one benchmark. It can be iterated repeatedly."""

    def __init__(
        self,
        *,
        benchmark: Benchmark,
        tier: Tier,
        digest: str,
        selection: InstanceSelection,
        n_rows: int = 0,
        skipped: Mapping[str, int] | None = None,
        read: Callable[[], Iterator[Instance]],
        instances: Sequence[Instance] | None,
        origin: Origin | None = None,
        settings: Mapping[str, Any] | None = None,
        shard: Shard | None = None,
        positions: Sequence[int] | None = None,
    ) -> None:
        """Set up a selection; `open_dataset` does this for data.

        `read` yields all instances; `instances` holds the same in memory, or None if there are too many. `origin` and
        `settings` are for instances imported from another harness. `shard` and `positions`: see the attributes.
        """
        self.benchmark = benchmark
        """The benchmark of the instances."""
        self.tier = tier
        """Real data, or the invented rows next to the definition."""
        self.digest = digest
        """Hash of the data files and of the selection, in hex."""
        self.n = selection.n
        """Number of selected instances."""
        self.shard = shard
        """The part of the selection that is evaluated; None for all of it. Prompts and baselines see all of it."""
        self.positions: Sequence[int] = range(selection.n) if positions is None else positions
        """Positions of the instances to evaluate, ascending: those of the shard, or all."""
        self.n_total = selection.n_total
        """Number of instances before selection."""
        self.n_rows = n_rows
        """Number of rows of the data, skipped ones included; 0 if unknown."""
        self.skipped = skipped or {}
        """Reason -> number of rows skipped for it: a required column is empty, or they repeat an earlier row."""
        self.origin = origin
        """Source of instances imported from another harness; None for data."""
        self.settings = settings or {}
        """Request settings of that harness: `max_tokens`, `temperature`, `stop` and their source."""
        self._read = read
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
        """Return the selection without some instances, with the same digest; itself if that leaves out none.

        `is_left_out`: id of an instance -> whether it is left out. Reads the data once.
        """
        kept = [position for position, instance in enumerate(self) if not is_left_out(instance.id)]
        if len(kept) == self.n:
            return self
        evaluated = set(self.positions)
        found = Dataset(
            benchmark=self.benchmark,
            tier=self.tier,
            digest=self.digest,
            selection=InstanceSelection(n_total=self.n_total, n=len(kept)),
            n_rows=self.n_rows,
            skipped=self.skipped,
            read=lambda: (instance for instance in self if not is_left_out(instance.id)),
            instances=None,
            origin=self.origin,
            settings=self.settings,
            shard=self.shard,
            positions=array("q", (new for new, old in enumerate(kept) if old in evaluated)),
        )
        if self._instances is not None:
            found._instances = [instance for instance in self._instances if not is_left_out(instance.id)]
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
    sample: str = "default",
    limit: int | None = None,
    subset: int | None = None,
    seed: int = 0,
    scoring: bool = False,
    own_data: bool = False,
    shard: Shard | None = None,
) -> Dataset:
    """Find, check and select the data of a benchmark.

    Parameters: data, folder with one folder per benchmark, None if there is none; tier, real data, or all invented rows
    next to the definition, in order; sample, `default`, `all`, or a name in `benchmark.samples`; limit, evaluate only
    the first so many of the selected instances; subset, evaluate only a random draw of so many; seed, of random draws;
    scoring, also require files that only scoring needs; own_data, the real data is the user's own, see
    `with_own_data`; shard, evaluate only this part of the selected instances.
    Raises: MissingError if files are missing; DataError, with all problems together, if the data does not match the
    definition; ConfigError if the prompt names a column that the data lacks; UserError for an invalid argument.
    """
    _check_arguments(tier, limit, subset, own_data)
    benchmark = with_own_data(benchmark) if own_data else benchmark
    chosen = named_sample(benchmark, sample)
    if tier == "sample":
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
        chosen,
        benchmark=benchmark,
        ids=scan.ids,
        folder=folder,
        limit=limit,
        seed=seed,
        groups=scan.groups,
        subset=subset,
    )
    drawn = [sample, chosen.size, chosen.pool, chosen.offset, selection.ids_digest, seed] if tier == "real" else []
    drawn += [] if subset is None else ["subset", subset, seed]
    return Dataset(
        benchmark=benchmark,
        tier=tier,
        digest=_digest(tier, checksums, [*([chosen.variant] if chosen.variant else []), *drawn], limit),
        selection=selection,
        n_rows=scan.n_rows,
        skipped=scan.skipped,
        read=table.read,
        instances=scan.kept,
        shard=shard,
        positions=_positions(list(scan.ids), selection, shard) if shard else None,
    )


def _check_arguments(tier: Tier, limit: int | None, subset: int | None, own_data: bool) -> None:
    """Raise UserError for arguments of `open_dataset` that are out of range or contradict each other."""
    if own_data and tier == "sample":
        raise UserError("--own-data and --tier sample cannot be combined: the sample rows come with the benchmark.")
    if limit is not None and limit < 1:
        raise UserError(f"the limit must be at least 1, is {limit}.")
    if subset is not None and subset < 1:
        raise UserError(f"the subset must be at least 1, is {subset}.")
    if subset is not None and limit is not None:
        raise UserError("--subset and --limit cannot be combined: use one of them.")


def _positions(ids: Sequence[str], selection: InstanceSelection, shard: Shard) -> array[int]:
    """Return the positions of the instances of a shard among the selected ones. `ids`: of all instances, in order."""
    order = range(selection.n) if selection.order is None else selection.order
    return array("q", (rank for rank, position in enumerate(order) if shard.has(ids[position])))


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
        from medhelm.benchmarks.trust import check_links  # lazy: most data is in a folder of its own

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
        turns = tuple(Message(**turn) for turn in content["turns"])
        return Instance(**{**content, **lists, "references": references, "criteria": criteria, "turns": turns})

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
