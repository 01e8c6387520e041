"""Select runs by model, benchmark and time, and shorten the names of their models."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

from medhelm.benchmarks.suites import load_suite
from medhelm.domain import Run
from medhelm.domain.result import Remark
from medhelm.domain.text import listed
from medhelm.errors import UserError, suggestion
from medhelm.models.model_names import plain_name
from medhelm.results.comparable import store_label
from medhelm.results.options import EVERY_RUN, FILTER_FLAGS, BoardOptions, RunFilter
from medhelm.storage.runs import load_runs
from medhelm.storage.store import file_name, open_store

# --- filter -----------------------------------------------------------------------------------------------------------

_NAMED = 12
"""Most names in one message."""

ALL_VARIANTS = "all"
"""Choice of all variants."""


class RunFacts(Protocol):
    """The part of a run that selects it."""

    @property
    def benchmark(self) -> str:
        """Name of the benchmark."""

    @property
    def model(self) -> str:
        """Name of the model."""

    @property
    def started(self) -> str:
        """Start time, ISO 8601."""


T = TypeVar("T")


def filter_runs(
    wanted: RunFilter, items: Sequence[T], facts: Callable[[T], RunFacts], *, families: bool = False
) -> list[T]:
    """Return the items whose run meets all conditions.

    A model's name means its plain run and, if variants are wanted, its runs at other settings and its variants. A name
    to exclude always means all of them.

    Parameters: facts, item -> its run; families, True as if variants were wanted.
    Raises: UserError for names that no run has, or that several have; and if nothing is left of some runs.
    """
    if wanted.is_empty or not items:
        return list(items)
    runs = [facts(item) for item in items]
    models, benchmarks = {run.model for run in runs}, {run.benchmark for run in runs}
    aliases = {entry.alias: entry.name for entry in load_suite() if entry.alias}
    problems: list[str] = []
    families = families or bool(wanted.variants)
    named = _full_names("--model", wanted.models, models, problems, families=families)
    excluded = _full_names("--exclude", wanted.excluded, models, problems, families=True)
    full = [aliases.get(name, name) for name in wanted.benchmarks]
    chosen = _full_names("--benchmark", full, benchmarks, problems)
    if problems:
        raise UserError("\n".join(problems))
    since = wanted.since and _in_utc(wanted.since)
    found = [
        item
        for item, run in zip(items, runs, strict=True)
        if (not named or run.model in named)
        and run.model not in excluded
        and (not chosen or run.benchmark in chosen)
        and (since is None or _is_since(run.started, since))
    ]
    if not found:
        raise UserError(
            f"no run meets these conditions. Models: {listed(sorted(models), _NAMED)}. Benchmarks: "
            f"{listed(sorted(benchmarks), _NAMED)}. Started: {days_in_words(run.started for run in runs)}."
        )
    return found


def load_filtered(stores: Sequence[Path], wanted: RunFilter = EVERY_RUN) -> list[tuple[str, Run]]:
    """Read the runs of some stores that meet the conditions, each with the label of its store.

    Raises: UserError as `filter_runs`; StoreError as `load_runs`.
    """
    return filter_labeled(load_labeled(stores, variants=bool(wanted.variants)), wanted)


def load_labeled(stores: Sequence[Path], *, variants: bool) -> list[tuple[str, Run]]:
    """Read the runs of some stores, each with the label of its store; parameters and errors as `load_runs`."""
    return [
        (store_label(path, stores), run) for path in stores for run in load_runs(open_store(path), variants=variants)
    ]


def filter_labeled(found: Sequence[tuple[str, Run]], wanted: RunFilter) -> list[tuple[str, Run]]:
    """Return the runs that meet the conditions, variants only if some are wanted. Raises: as `filter_runs`."""
    kept = found if wanted.variants else [pair for pair in found if not pair[1].is_variant]
    return filter_runs(wanted, choose_variants(wanted.variants, kept, lambda pair: pair[1]), lambda pair: pair[1])


def with_named_variants(options: BoardOptions, names: Iterable[str]) -> BoardOptions:
    """Return options that also read the variant runs whose models are named, as in `openai/x [perturb=typos]`."""
    brackets = [name.partition(" [")[2].removesuffix("]") for name in names]
    parts = {part for text in brackets for part in text.split(", ") if part and not part.startswith("temperature=")}
    variants = tuple(dict.fromkeys((*options.wanted.variants, *sorted(parts))))
    return replace(options, wanted=replace(options.wanted, variants=variants))


def choose_variants(names: Collection[str], items: Sequence[T], run_of: Callable[[T], Run]) -> list[T]:
    """Leave out the variant runs that no name chooses. Raises: UserError for names that choose none."""
    parts = [_parts(run) if (run := run_of(item)).is_variant else set() for item in items]
    known = set().union(*parts)
    unknown = [name for name in names if name != ALL_VARIANTS and not known & {name, f"perturb={name}"}]
    if unknown and items:
        raise UserError(
            f"--variant: no run of {listed(unknown)}. Variants of these runs: {listed(sorted(known)) or 'none'}."
        )
    chosen = known if ALL_VARIANTS in names else {*names, *(f"perturb={name}" for name in names)}
    return [item for item, own in zip(items, parts, strict=True) if own <= chosen]


def _parts(run: Run) -> set[str]:
    """Return what makes a run a variant, such as `prompt=terse` and `perturb=typos`; its temperature does not."""
    parts = {part for part in run.setting.split(", ") if part.startswith("prompt=")}
    return parts | ({run.variant} if run.variant else set())


def refuse_filter(wanted: RunFilter) -> None:
    """Raise UserError for conditions on runs where no store is read."""
    if not wanted.is_empty:
        raise UserError(
            f"{FILTER_FLAGS} select runs of a store. Leave them out, or leave out --published-only and --scores."
        )


def match_name(name: str, known: Collection[str]) -> str:
    """Return the one known name that a short name may mean; see `matching_names`.

    Raises: UserError naming the candidates if there are several, or the nearest name.
    """
    found = matching_names(name, known)
    if not found:
        raise UserError(f"no run of `{name}`. {suggestion(name, known)}".rstrip())
    if len(found) > 1:
        raise UserError(f"`{name}` could be {listed(found, _NAMED)}. Write more of the name.")
    return found[0]


def matching_names(name: str, known: Collection[str]) -> list[str]:
    """Return the known names that a short name may mean, sorted.

    The first rule with a match counts: the name itself; names that equal it without the address of their server; names
    that begin with it; names that equal it without provider and address.
    """
    # The folder of a run whose `run.json` is damaged spells the name of its model like a file.
    for exact in (name, file_name(name)):
        if exact in known:
            return [exact]
    rules: list[Callable[[str], bool]] = [
        lambda one: without_address(one) == name,
        lambda one: one.startswith(name),
        lambda one: plain_name(one) == name.lower(),
    ]
    for is_meant in rules if name else ():
        if found := sorted(filter(is_meant, known)):
            return found
    return []


def _full_names(
    option: str, names: Iterable[str], known: Collection[str], problems: list[str], *, families: bool = False
) -> set[str]:
    """Return the full names; add errors about unknown and ambiguous names to `problems`.

    `families`: a name also means the names that add a setting or a variant to it. It does so anyway if no run has it.
    """
    found = set()
    for name in names:
        try:
            match = match_name(name, known if " [" in name else {one.partition(" [")[0] for one in known})
        except UserError as error:
            problems.append(f"{option}: {error}")
            continue
        found |= {match, file_name(name)} & set(known)
        if families or match not in known:
            found.update(one for one in known if is_of_family(one, match))
    return found


def is_of_family(label: str, name: str) -> bool:
    """Return True if a label is the name of a model, or adds a setting or a variant to it.

    >>> is_of_family("openai/x [temperature=0.7, repeat=2]", "openai/x [temperature=0.7]")
    True
    """
    return label == name or label.startswith(f"{name.removesuffix(']')}, " if name.endswith("]") else f"{name} [")


def _in_utc(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _is_since(started: str, since: datetime) -> bool:
    """Return whether a run started at a time or later; False if its start is unknown."""
    try:
        return _in_utc(datetime.fromisoformat(started)) >= since
    except ValueError:
        return False


def days_in_words(times: Iterable[str]) -> str:
    """Return the first and last day of some times, as `2025-05-12 to 2025-06-01`; `unknown` without any."""
    days = sorted(time[:10] for time in times if time) or ["unknown"]
    return days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"


# --- names of models --------------------------------------------------------------------------------------------------
# For people: without the addresses of servers, which are long and may be internal.

_Result = TypeVar("_Result")

ADDRESS = re.compile(r"@https?://\S+")
"""Address of a server in the name of a model."""


def without_address(name: str) -> str:
    """Return a model's name without the address of its server.

    >>> without_address("openai/letter@http://127.0.0.1:8000/v1")
    'openai/letter'
    """
    return ADDRESS.sub("", name)


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Map names of models to names without the address of their server; equal ones are numbered.

    >>> short_names(["a@http://x/v1", "a@http://y/v1", "b@http://x/v1"])
    {'a@http://x/v1': 'a (server 1)', 'a@http://y/v1': 'a (server 2)', 'b@http://x/v1': 'b'}
    """
    names = sorted(set(names))
    plain = {name: without_address(name) for name in names}
    counts, used = Counter(plain.values()), Counter[str]()
    found = {}
    for name in names:
        short = plain[name]
        used[short] += 1
        found[name] = short if counts[short] == 1 else f"{short} (server {used[short]})"
    return found


def names_in(runs: Iterable[tuple[str, Run]]) -> dict[str, str]:
    """Return the short names of the models and judges of runs, each with the label of its store."""
    known = set()
    for label, run in runs:
        known.add(run.model + label)
        known.update(judge.name for judge in run.judges)
    return short_names(known)


def with_names(names: Mapping[str, str], text: str) -> str:
    """Replace names of models in a text, the longest first. Only names with an address change."""
    if "@http" not in text:
        return text
    if text in names:
        return names[text]
    for name in sorted(names, key=len, reverse=True):
        if name != names[name]:
            text = text.replace(name, names[name])
    return text


def renamed_json(names: Mapping[str, str], value: Any) -> Any:
    """Return JSON with other names of models, and without any other address of a server."""
    if isinstance(value, str):
        return without_address(with_names(names, value))
    if isinstance(value, Mapping):
        return {renamed_json(names, key): renamed_json(names, one) for key, one in value.items()}
    return [renamed_json(names, one) for one in value] if isinstance(value, (list, tuple)) else value


def renamed(result: _Result, names: Mapping[str, str]) -> _Result:
    """Return a copy of a result with other names of models. Commands in its remarks keep the full names."""
    return _renamed(result, names)  # type: ignore[no-any-return]


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return with_names(names, value) if type(value) is str else value
    if isinstance(value, Remark):
        parts = value.text.split("`")
        text = "`".join(part if i % 2 else with_names(names, part) for i, part in enumerate(parts))
        return replace(value, text=text, subject=with_names(names, value.subject))
    if is_dataclass(value) and not isinstance(value, type):
        init = [part.name for part in fields(value) if part.init]
        return replace(value, **{name: _renamed(getattr(value, name), names) for name in init})
    if isinstance(value, Mapping):
        return {_renamed(key, names): _renamed(part, names) for key, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_renamed(part, names) for part in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_renamed(part, names) for part in value)
    return value
