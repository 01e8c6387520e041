"""Select the instances of a benchmark to evaluate: a random draw, a list of ids, or all."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from medhelm.benchmarks.data.sources import file_digest, missing_files_message
from medhelm.domain import Benchmark, SampleRule
from medhelm.errors import DataError, MissingError, UserError, suggestion

ALL = "all"
"""Name of the selection of all instances."""

DEFAULT = "default"
"""Name of the selection used by default."""

PUBLISHED = "published"
"""Name of the published selection, which every benchmark of the suite has."""

PUBLISHED_SIZE = 1000
"""Maximum number of instances of a published run."""


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
    limit: int | None,
    seed: int,
    groups: Sequence[int] = (),
    subset: int | None = None,
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
    limit
        Take only the first so many, distributed as evenly as possible over groups.
    groups
        Number of the group of each instance, in the order of their first appearance.
    subset
        Take a random draw of so many, see `_random_subset`.

    Raises
    ------
    MissingError
        If the file with ids does not exist.
    DataError
        If it is another file, or names unknown ids.
    UserError
        For an invalid seed.
    """
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
    return InstanceSelection(n_total=len(ids), n=n, order=order, ids_digest=ids_digest)


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
