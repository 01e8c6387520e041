"""Select the instances of a benchmark to evaluate: a random draw, a list of ids, or all."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from medhelm.benchmarks.data.readers import READERS
from medhelm.benchmarks.definition import DEFINITION_FILES
from medhelm.domain import Benchmark, SampleRule, Shard, Source
from medhelm.errors import DataError, MissingError, UserError, suggestion
from medhelm.io.files import names_beside, open_bytes
from medhelm.io.rows import PlacedRow, Row

ALL = "all"
"""Name of the selection of all instances."""

DEFAULT = "default"
"""Name of the selection used by default."""

PUBLISHED = "published"
"""Name of the published selection, which every benchmark of the suite has."""

PUBLISHED_SIZE = 1000
"""Maximum number of instances of a published run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleOptions:
    """Choice of the instances of a benchmark to evaluate."""

    sample: str = DEFAULT
    """`default`, `all`, or a name in `benchmark.samples`."""
    limit: int | None = None
    """Only the first so many of the selected instances, distributed as evenly as possible over groups."""
    subset: int | None = None
    """Only a random draw of so many, see `_random_subset`."""
    seed: int = 0
    """Seed of random draws."""
    shard: Shard | None = None
    """Only this part of the selected instances."""


EVERY_INSTANCE = SampleOptions()
"""The default selection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSelection:
    """The selected instances, by position."""

    n_total: int
    """Number of all instances."""
    n: int
    """Number of selected instances."""
    order: Sequence[int] | None = None
    """Positions from 0, in the order of evaluation; None: the first `n`."""
    ids_digest: str = ""
    """sha256 of the file with the ids; "" without one."""
    shard: Shard | None = None
    """The part to evaluate; None for all."""
    positions: Sequence[int] | None = None
    """Places of the instances of the shard in the order of evaluation, ascending; None for all."""
    n_rows: int = 0
    """Number of rows of the data, skipped ones included; 0 if unknown."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Reason -> number of rows skipped for it: a required column is empty, or they repeat an earlier row."""


def named_sample(benchmark: Benchmark, name: str) -> SampleRule:
    """Return the selection rule of that name. Raises UserError if there is none.

    A benchmark of the suite without a selection of its own called `published` has its default one under that name, of
    at most 1,000 instances in each group. Of rows that differ only in the answer, the published selection keeps one,
    with the last answer, where the benchmark drops repeated rows.
    """
    samples = {ALL: SampleRule(), **benchmark.samples, DEFAULT: benchmark.sample}
    if name == PUBLISHED and name not in samples:
        from medhelm.benchmarks.suites import is_in_suite  # lazy: few runs ask for this selection

        if is_in_suite(benchmark.name):
            size = benchmark.sample.size or PUBLISHED_SIZE
            return replace(benchmark.sample, size=size, last_answer=benchmark.drop_duplicates)
    if name not in samples:
        raise UserError(f"{benchmark.name} has no sample `{name}`. {suggestion(name, samples)}".rstrip())
    return samples[name]


def select_instances(
    sample: SampleRule,
    *,
    benchmark: Benchmark,
    ids: Mapping[str, int],
    folder: Path,
    groups: Sequence[int] = (),
    options: SampleOptions = EVERY_INSTANCE,
) -> InstanceSelection:
    """Apply a selection rule to all instances.

    A draw takes the first `size` entries of a random permutation, in that order, like the reference implementation. If
    there are not more instances than that, all are taken in the order of the data. If the data is only a part of the
    pool, the drawn entries of that part are taken. Ids from a file are taken in the order of the data. Groups are drawn
    separately, one after another.

    Parameters
    ----------
    ids
        Instance id -> position.
    folder
        Folder of the file with ids.
    groups
        Number of the group of each instance, in the order of their first appearance.
    options
        Further choices; the name of the sample has no effect.

    Raises
    ------
    MissingError
        If the file with ids does not exist.
    DataError
        If it is another file, or names unknown ids.
    UserError
        For an invalid seed.
    """
    limit, subset, seed = options.limit, options.subset, options.seed
    order: Sequence[int] | None = None
    ids_digest = ""
    if sample.ids_file:
        ids_digest = _checked_digest(sample, benchmark, folder)
        order = _positions_of_listed(folder / sample.ids_file, ids)
    elif sample.size is not None:
        order = _random_positions(sample, sample.size, n=len(ids), seed=seed, groups=groups)
    if order is not None and not order:
        raise DataError(f"{benchmark.name}: none of the {len(ids)} instances is in the requested sample.")
    n = len(ids) if order is None else len(order)
    if subset is not None and subset < n:
        order, n = _random_subset(range(n) if order is None else order, subset, ids, seed), subset
    if limit is not None and limit < n:
        n = limit
        if groups:
            order = _spread_over_groups(range(len(ids)) if order is None else order, limit, groups)
        elif order is not None:
            order = order[:limit]
    selection = InstanceSelection(n_total=len(ids), n=n, order=order, ids_digest=ids_digest)
    return _of_shard(selection, list(ids), options.shard) if options.shard else selection


def _of_shard(selection: InstanceSelection, ids: Sequence[str], shard: Shard) -> InstanceSelection:
    """Add the places of the instances of a shard among the selected ones. `ids`: of all instances, in order."""
    order = range(selection.n) if selection.order is None else selection.order
    places = array("q", (rank for rank, position in enumerate(order) if shard.has(ids[position])))
    return replace(selection, shard=shard, positions=places)


def _checked_digest(sample: SampleRule, benchmark: Benchmark, folder: Path) -> str:
    """Return the digest of the file with ids. Raises: MissingError, or DataError if it is another file."""
    path = folder / sample.ids_file
    if not path.is_file():
        raise MissingError(missing_files_message(benchmark.source, folder, [sample.ids_file]))
    digest = file_digest(path)
    if sample.ids_sha256 not in ("", digest):
        raise DataError(
            f"{path}\n  sha256 is     {digest}\n  it should be  {sample.ids_sha256}\n"
            "This is not the list of ids in the definition. Get it again, or correct `ids_sha256`."
        )
    return digest


def _random_positions(
    sample: SampleRule, size: int, *, n: int, seed: int, groups: Sequence[int] = ()
) -> Sequence[int] | None:
    """Return the positions of a random draw; None for all instances."""
    if groups:
        members = [array("q") for _ in range(max(groups) + 1)]
        for position, group in enumerate(groups):
            members[group].append(position)
        drawn = array("q")
        for group_members in members:
            picked = _random_positions(sample, size, n=len(group_members), seed=seed)
            drawn.extend(group_members if picked is None else (group_members[i] for i in picked))
        return drawn
    pool = n if sample.pool is None else sample.pool
    if sample.offset + n > pool:
        raise DataError(
            f"the sample draws from a pool of {pool}, {pool - sample.offset} of it from position {sample.offset} on, "
            f"but the data holds {n} instances. Correct `pool` and `offset`."
        )
    if size >= pool:
        return None
    if not 0 <= seed < 2**32:
        raise UserError(f"the seed must be between 0 and {2**32 - 1}, is {seed}.")
    from numpy.random import RandomState

    draw = RandomState(seed).permutation(pool)[:size] - sample.offset
    return array("q", draw[(draw >= 0) & (draw < n)].tolist())


def _random_subset(order: Sequence[int], size: int, ids: Mapping[str, int], seed: int) -> Sequence[int]:
    """Draw instances at random; keep their order.

    Each instance has a random rank that depends on the seed and its id alone. With the same seed a smaller draw is a
    part of a larger one, and instances that are added to the data replace as few as possible.
    """
    names = {position: name for name, position in ids.items()}
    ranks = {position: hashlib.sha256(f"{seed} {names[position]}".encode()).digest() for position in order}
    drawn = set(sorted(order, key=lambda position: ranks[position])[:size])
    return array("q", (position for position in order if position in drawn))


def _spread_over_groups(order: Sequence[int], limit: int, groups: Sequence[int]) -> Sequence[int]:
    """Take the first of each group, then the second of each, up to `limit`; keep their order."""
    seen: Counter[int] = Counter()
    ranked = []
    for place, position in enumerate(order):
        group = groups[position]
        ranked.append((seen[group], group, place))
        seen[group] += 1
    return array("q", (order[place] for place in sorted(place for _, _, place in sorted(ranked)[:limit])))


def _positions_of_listed(path: Path, ids: Mapping[str, int]) -> Sequence[int]:
    """Return the positions of the ids in a JSON list, or in the keys of a JSON object."""
    try:
        content = json.loads(path.read_bytes().decode("utf-8-sig"))
    except ValueError as error:  # includes UnicodeDecodeError
        raise DataError(f"{path}: not JSON ({error}). It must be a list of ids, or an object keyed by them.") from None
    if not isinstance(content, list | dict):
        raise DataError(f"{path}: must be a JSON list of ids, or an object keyed by them.")
    names = dict.fromkeys(str(name) for name in content)
    unknown = [name for name in names if name not in ids]
    if unknown:
        some = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        raise DataError(
            f"{path}: names {len(unknown)} ids that the data lacks: {some}. Check that the file belongs to this data."
        )
    return array("q", sorted(ids[name] for name in names))


# --- sources ----------------------------------------------------------------------------------------------------------
# Data files of a benchmark: find them, verify their checksums, and read their rows.


def data_files(source: Source, folder: Path) -> dict[str, Path]:
    """Map the relative path of each data file to the file, in reading order.

    Missing files are included; a pattern without matches has no entry. A compressed file with the suffix `.gz` replaces
    a missing file.
    """
    files: dict[str, Path] = {}
    for name in source.files:
        files.update(_matching_files(name, folder, source))
    return files


def check_files(source: Source, folder: Path, *, scoring: bool = False) -> dict[str, str]:
    """Read every data file once and compare its checksum.

    Parameters
    ----------
    scoring
        Also require files that only scoring needs. If they exist, they are always checked.

    Returns
    -------
    dict of str to str
        Relative path -> sha256 in hex, in reading order. For a file compressed locally, of its uncompressed content.

    Raises
    ------
    MissingError
        With all missing files.
    DataError
        With all files that have another checksum.
    """
    if missing := missing_files(source, folder, scoring=scoring):
        raise MissingError(missing_files_message(source, folder, missing))
    present = {name: checksum for name, checksum in source.scoring_files.items() if _exists(name, folder, source)}
    wanted = {**source.files, **present}
    found = {name: _matching_files(name, folder, source) for name in wanted}
    digests = {
        path: file_digest(file, unpacked=file.name == f"{PurePosixPath(path).name}.gz")
        for files in found.values()
        for path, file in files.items()
    }
    actual = {name: list_digest(digests, files) if is_pattern(name) else digests[name] for name, files in found.items()}
    wrong = [name for name, digest in actual.items() if wanted[name] not in ("", digest)]
    if wrong:
        lines = []
        for name in wrong:
            listed = f"{folder / name} (list of {len(found[name])} files)"
            shown = listed if is_pattern(name) else str(found[name][name])
            lines += [shown, f"  sha256 is     {actual[name]}", f"  it should be  {wanted[name]}"]
            lines += [f"  get it from   {address}" for address in addresses(source, [name])]
        lines.append(
            "This is not the published data. Get it again; for data of your own, use --own-data; in a definition of "
            "your own, correct the sha256 under `source.files`."
        )
        raise DataError("\n".join(lines))
    return digests


def missing_files(source: Source, folder: Path, *, scoring: bool = False) -> list[str]:
    """List files and patterns that are missing in `folder`; with `scoring`, also those that only scoring needs."""
    wanted = [*source.files, *(source.scoring_files if scoring else ())]
    return [name for name in wanted if not _exists(name, folder, source)]


def list_digest(digests: Mapping[str, str], paths: Iterable[str]) -> str:
    """Return the sha256 of a list of files: of the lines `<sha256>  <file name>`, sorted by file name in bytes.

    >>> list_digest({"a/x": "00"}, ["a/x"]) == hashlib.sha256(b"00  x" + bytes([10])).hexdigest()
    True
    """
    names = sorted((path.rpartition("/")[2].encode("utf-8", "surrogateescape"), digests[path]) for path in paths)
    return hashlib.sha256(b"".join(digest.encode() + b"  " + name + b"\n" for name, digest in names)).hexdigest()


def read_rows(source: Source, folder: Path) -> Iterator[Row]:
    """Yield the rows of all data files, one after another.

    Raises DataError for a file in another format or without rows, MissingError for a missing file.
    """
    reader = READERS[source.kind]
    files = data_files(source, folder)
    several = len(files) > 1
    for name, path in files.items():
        empty = True
        try:
            for row in reader(path, source):
                empty = False
                if source.file_column:
                    row[source.file_column] = name
                if several and isinstance(row, PlacedRow):
                    row.place = f"{name}, {row.place}"
                yield row
        except FileNotFoundError:
            raise MissingError(missing_files_message(source, folder, [name])) from None
        if empty:
            raise DataError(f"{path}: has no rows. Check that it was downloaded or exported completely.")


def missing_files_text(folder: Path, names: Sequence[str]) -> str:
    """Return which files a folder lacks, without a period; a folder in place of a file is pointed out."""
    shown = [f"{name} (a folder, where a file is needed)" if (folder / name).is_dir() else name for name in names]
    return f"{folder} lacks {', '.join(shown)}"


def missing_files_message(source: Source, folder: Path, names: list[str]) -> str:
    """Compose the message for missing files, with their addresses."""
    lines = [f"{missing_files_text(folder, names)}.{other_files(source, folder / names[0])}"]
    public = [name for name in names if name not in source.scoring_files]
    lines += [f"  from {address}" for address in addresses(source, public)]
    if source.note:
        lines.append(source.note.strip())
    return "\n".join(lines)


def other_files(source: Source, missing: Path) -> str:
    """Return the files beside a missing file, and its misspelled name; files that the source needs are left out."""
    own = {PurePosixPath(name).name for name in (*source.files, *source.scoring_files)}
    return names_beside(missing, {*own, *(f"{name}.gz" for name in own), *DEFINITION_FILES})


def addresses(source: Source, names: Iterable[str]) -> list[str]:
    """Return the download addresses of files; empty if they cannot be downloaded."""
    if not source.location:
        return []
    pinned = source.location.replace("{revision}", source.revision)
    plain = [name.rpartition("/")[0] if is_pattern(name) else name for name in names]
    return [pinned.replace("{file}", quote(name)) for name in plain]


def file_digest(path: Path, *, unpacked: bool = False) -> str:
    """Return the sha256 of a file, or of its uncompressed content. Raises DataError if it cannot be read."""
    try:
        with open_bytes(path) if unpacked else path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]  # `readinto` exists
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error}). Check its permissions.") from None


def is_archive(location: str) -> bool:
    """Return True if an address is one archive of all files, in one top folder.

    >>> is_archive("https://codeload.github.com/owner/name/tar.gz/{revision}"), is_archive("https://host/a/{file}")
    (True, False)
    """
    return "{file}" not in location and any(kind in location for kind in (".zip", "/zip/", ".tar.gz", "/tar.gz/"))


def is_pattern(name: str) -> bool:
    """Return True if a path is a pattern of many files, such as `notes/*.txt`.

    >>> is_pattern("notes/*.txt"), is_pattern("notes.csv")
    (True, False)
    """
    return any(sign in name for sign in "*?[")


def matches_pattern(name: str, pattern: str) -> bool:
    """Return True if a path equals or matches a pattern. `*` does not match `/`; `**` matches any number of folders.

    >>> matches_pattern("notes/a.txt", "notes/*.txt"), matches_pattern("a/b/c.xml", "**/*.xml")
    (True, True)
    """
    return name == pattern or _parts_match(name.split("/"), pattern.split("/"))


def _parts_match(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    if not patterns:
        return not parts
    if patterns[0] == "**":
        return any(_parts_match(parts[i:], patterns[1:]) for i in range(len(parts)))
    return bool(parts) and fnmatchcase(parts[0], patterns[0]) and _parts_match(parts[1:], patterns[1:])


def _exists(name: str, folder: Path, source: Source) -> bool:
    """Return True if a file, or a match of a pattern, exists."""
    return any(path.is_file() for path in _matching_files(name, folder, source).values())


def _matching_files(name: str, folder: Path, source: Source) -> dict[str, Path]:
    """Return the file of a path, or the matches of a pattern, sorted by name in bytes."""
    if is_pattern(name):
        found = {path.relative_to(folder).as_posix(): path for path in folder.glob(name) if path.is_file()}
        return dict(sorted(found.items(), key=lambda item: item[0].encode("utf-8", "surrogateescape")))
    packed = folder / f"{name}.gz"
    read_here = source.kind != "folder" and name in source.files  # hooks and databases need the file itself
    return {name: packed if read_here and packed.is_file() and not (folder / name).is_file() else folder / name}
