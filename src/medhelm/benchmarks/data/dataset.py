"""The instances of a benchmark that are evaluated: data found, checked as a whole, and selected.

Opening reads the data once and checks everything that can be wrong with it, before a model is asked anything. Small
data stays in memory from then on. Larger data is read again for each pass, or, where it is evaluated in another order
than its own, once more for all passes: then it waits in a temporary file. Memory does not grow with it.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from threading import Lock
from typing import Any
from weakref import finalize

from medhelm.benchmarks.data.instances import n_characters
from medhelm.benchmarks.data.sampling import InstanceSelection, named_sample, select_instances
from medhelm.benchmarks.data.sources import addresses, check_files, data_files
from medhelm.benchmarks.data.table import SourceTable
from medhelm.benchmarks.definition import SAMPLE_ROWS
from medhelm.benchmarks.sample_data.rows import SAMPLE_SOURCE, sample_rows
from medhelm.domain import Benchmark, Criterion, Instance, Message, Origin, Reference, SampleRule, Tier
from medhelm.errors import DataError, MissingError, StoreFullError, UserError


class Dataset:
    """The selected instances of one benchmark. Iterating gives them in order, as often as one likes."""

    def __init__(
        self,
        *,
        benchmark: Benchmark,
        tier: Tier,
        digest: str,
        selection: InstanceSelection,
        n_skipped: int,
        read: Callable[[], Iterator[Instance]],
        instances: Sequence[Instance] | None,
        origin: Origin | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """`read` gives all instances there are, `instances` the same in memory, or None if they are too many.

        `origin` and `settings` are for instances of another harness: where they were read, and how they were asked.
        """
        self.benchmark = benchmark
        """What the instances belong to."""
        self.tier = tier
        """Real data, or the invented rows beside the definition."""
        self.digest = digest
        """Hash of the data files and of the selection, in hex."""
        self.n = selection.n
        """Instances that are evaluated."""
        self.n_total = selection.n_total
        """Instances there are before selection."""
        self.n_skipped = n_skipped
        """Rows that gave no instance: a required column was empty, or they say the same as an earlier one."""
        self.origin = origin
        """Where the instances were read, if another harness asked them; None for data."""
        self.settings = settings or {}
        """How that harness asked them: `max_tokens`, `temperature`, `stop` and where that was read."""
        self._read = read
        self._order = selection.order
        self._filling = Lock()
        self._shelf: SpilledInstances | None = None
        self._instances = instances
        if instances is not None:
            self._instances = instances[: self.n] if self._order is None else [instances[i] for i in self._order]

    def __len__(self) -> int:
        """Instances that are evaluated."""
        return self.n

    def __iter__(self) -> Iterator[Instance]:
        """The selected instances, in order."""
        if self._instances is not None:
            return iter(self._instances)
        if self._order is None:
            return islice(self._read(), self.n)
        return self._from_shelf(self._order)

    @property
    def held(self) -> int:
        """Characters of the instances that are kept in memory."""
        return sum(map(n_characters, self._instances or ()))

    def release(self) -> None:
        """Keep no instances in memory; the next pass reads them again."""
        self._instances = None

    def _from_shelf(self, order: Sequence[int]) -> Iterator[Instance]:
        """Instances of large data in another order than the file's; the first pass puts them on a shelf."""
        with self._filling:
            if self._shelf is None:
                ranks = {position: rank for rank, position in enumerate(order)}
                read = enumerate(islice(self._read(), max(ranks) + 1))
                wanted = ((ranks[position], instance) for position, instance in read if position in ranks)
                self._shelf = SpilledInstances(wanted, len(order))
            shelf = self._shelf
        for rank in range(len(order)):
            yield shelf[rank]


def open_dataset(
    benchmark: Benchmark,
    *,
    data: Path | None,
    tier: Tier,
    sample: str = "default",
    limit: int | None = None,
    seed: int = 0,
    scoring: bool = False,
) -> Dataset:
    """Find, check and select the data of a benchmark.

    Parameters: data, the folder with one folder per benchmark, None if there is none; sample, `default`, `all` or a
    name among `benchmark.samples`; limit, evaluate only so many of the selected instances, the first; seed, of the
    random draw; scoring, whether files must be there that only scoring needs. The sample tier takes all rows beside the
    definition, in order.
    Raises: MissingError if files are not there; DataError, with all problems that can be seen together, if they are not
    what the definition says; ConfigError for a prompt that names what the data does not have; UserError for an argument
    that cannot be.
    """
    chosen = named_sample(benchmark, sample)
    if limit is not None and limit < 1:
        raise UserError(f"the limit must be at least 1, is {limit}.")
    if tier == "sample":
        chosen = SampleRule(variant=chosen.variant)
        checksums = check_files(SAMPLE_SOURCE, benchmark.folder)
        source, folder = sample_rows(benchmark, checksums[SAMPLE_ROWS])
    else:
        source, folder = benchmark.source, find_data(benchmark, data)
        checksums = check_files(source, folder, scoring=scoring)
    table = SourceTable(benchmark, source, folder, variant=chosen.variant)
    scan = table.scan(expected_count=chosen.expected_count or source.expected_count)
    selection = select_instances(
        chosen, benchmark=benchmark, ids=scan.ids, folder=folder, limit=limit, seed=seed, groups=scan.groups
    )
    draw: list[object] = [chosen.variant] if chosen.variant else []
    if tier == "real":
        draw += [sample, chosen.size, chosen.pool, chosen.offset, selection.ids_digest, seed]
    identity = json.dumps([tier, list(checksums.items()), draw, limit])
    return Dataset(
        benchmark=benchmark,
        tier=tier,
        digest=hashlib.sha256(identity.encode()).hexdigest(),
        selection=selection,
        n_skipped=scan.n_skipped,
        read=table.read,
        instances=scan.kept,
    )


def find_data(benchmark: Benchmark, data: Path | None) -> Path:
    """The folder with the real data: in `data`, by the benchmark's name or an alias, or else beside its definition.

    Raises: MissingError that says what was looked for, and where it comes from.
    """
    names = (benchmark.name, *benchmark.aliases)
    found = next((data / name for name in names if (data / name).is_dir()), None) if data else None
    if found:
        return found
    beside = list(data_files(benchmark.source, benchmark.folder).values())
    if beside and all(path.is_file() for path in beside):
        return benchmark.folder
    source = benchmark.source
    other = f" (or {', '.join(names[1:])})" if benchmark.aliases else ""
    looked = f"in {data}" if data else "nowhere: no data folder is named"
    lines = [
        f"{benchmark.name}: its data is not there. Looked for the folder {benchmark.name}{other} {looked}.",
        f"It should hold {', '.join(source.files)}.",
    ]
    lines += [f"  from {address}" for address in dict.fromkeys(addresses(source, source.files))]
    lines += [source.note.strip()] if source.note else []
    lines.append("Name the folder that holds one folder per benchmark with --data DIR or MEDHELM_DATA.")
    raise MissingError("\n".join(lines))


class SpilledInstances:
    """Instances in a file without a name, which is gone when nobody needs them. Threads may read it together."""

    def __init__(self, numbered: Iterable[tuple[int, Instance]], n: int) -> None:
        """`numbered`: `n` instances in any order, each with its number, from 0.

        Raises: DataError if they are fewer; StoreFullError if there is no room for them.
        """
        self._starts = array("q", bytes(8 * n))
        self._file = TemporaryFile(prefix="medhelm-")  # noqa: SIM115 - closed with the shelf
        finalize(self, self._file.close)
        self._lock = Lock()
        n_put = 0
        for number, instance in numbered:
            self._starts[number] = self._file.tell()
            self._put(instance)
            n_put += 1
        if n_put < n:
            raise DataError(f"the data gives {n_put} of the {n} instances it gave before. Run the same command again.")

    def __getitem__(self, number: int) -> Instance:
        """The instance with that number."""
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
                f"{gettempdir()} cannot be written: {error.strerror or error}. Large data waits there for its turn. "
                "Free some space, or name another folder in TMPDIR, and run the same command again."
            ) from error
