"""Differences between two leaderboards, and the result of verifying one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from medhelm.analysis.comparison.paired_differences import PairedDifference
from medhelm.domain.result import CellProvenance, Release

Aspect = Literal[
    "definition", "data", "prompts", "settings", "origin", "snapshot", "jury", "prices", "records", "judgments", "code"
]
"""Input of a result."""

ASPECTS: Mapping[Aspect, tuple[str, ...]] = {
    "definition": ("definition", "metric"),
    "data": ("data", "n"),
    "prompts": ("prompts",),
    "settings": ("settings",),
    "origin": ("origin",),
    "snapshot": ("snapshots",),
    "jury": ("jury", "min_judges"),
    "prices": ("prices",),
    "records": ("records",),
    "judgments": ("judgments",),
    "code": ("versions",),
}
"""Aspect -> fields of `CellProvenance`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueDifference:
    """A value that changed, as in JSON."""

    what: str
    """An aspect of what a number rests on, or a place in the leaderboard."""
    before: Any
    """Earlier value."""
    now: Any
    """Current value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellChange:
    """One model on one benchmark, of two leaderboards."""

    model: str
    """The model."""
    benchmark: str
    """The benchmark."""
    before: float | None
    """Its value then, in the metric's own unit."""
    now: float | None
    """Its value now."""
    why: tuple[ValueDifference, ...]
    """Changed inputs of the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderboardDiff:
    """Differences between two leaderboards."""

    first: str
    """Name of one."""
    second: str
    """Name of the other."""
    options: tuple[ValueDifference, ...]
    """Differences of their options."""
    models: tuple[tuple[str, ...], tuple[str, ...]]
    """Models that only the first has, and that only the second has."""
    benchmarks: tuple[tuple[str, ...], tuple[str, ...]]
    """Benchmarks that only the first has, and that only the second has."""
    ranks: tuple[ValueDifference, ...]
    """One for each model whose rank differs."""
    cells: tuple[CellChange, ...]
    """Cells of both whose value, or what it rests on, differs."""
    board: tuple[ValueDifference, ...]
    """Every difference of the leaderboards, by its path; empty if they are the same, remarks aside."""


@dataclass(slots=True, kw_only=True)
class RunCheck:
    """One run behind the leaderboard."""

    model: str
    """The model."""
    benchmark: str
    """The benchmark."""
    differences: list[ValueDifference] = field(default_factory=list)
    """Differences; empty if there are none."""
    notes: list[str] = field(default_factory=list)
    """Notes for readers that affect no number."""
    not_derived: str = ""
    """Reason if its numbers could not be reproduced, else empty."""
    lacks_data: bool = False
    """True if that is because data is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Result of reproducing a leaderboard from the store and the data."""

    release: str
    """Name of the release it was compared with; empty: the store as it is."""
    runs: tuple[RunCheck, ...]
    """One for each run behind the leaderboard."""
    board: tuple[ValueDifference, ...]
    """Every place where the leaderboard differs, by its path."""
    notes: tuple[str, ...]
    """Notes on the leaderboard as a whole."""

    @property
    def same(self) -> bool:
        """Return whether the leaderboard and its runs were reproduced with every number, as far as possible."""
        return not self.board and not any(run.differences for run in self.runs)

    @property
    def exit_code(self) -> int:
        """0 if all is the same, 1 if something differs, 4 if data is missing to derive some of it."""
        if not self.same:
            return 1
        return 4 if any(run.lacks_data for run in self.runs) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedCases:
    """One model on one benchmark in two releases, instance by instance."""

    model: str
    """The model."""
    benchmark: str
    """The benchmark."""
    difference: PairedDifference | None = None
    """The later minus the earlier run, on the instances of both, each score from 0 (worst) to 1 (best); None if they
    were not measured in the same way."""
    p_adjusted: float | None = None
    """P-value adjusted for the number of compared runs."""
    n_gained: int = 0
    """Instances that only the later run got right."""
    n_lost: int = 0
    """Instances that only the earlier run got right."""
    gained: Sequence[str] | None = ()
    """Ids of the instances that only the later run got right, in the order of the data; None where they are secret."""
    lost: Sequence[str] | None = ()
    """Ids of those that only the earlier run got right."""
    n_other: int | None = None
    """Instances on which the later run names another option, as right or wrong as the earlier one; None for questions
    without options."""
    other: Sequence[str] | None = None
    """Ids of these; None where they are secret, too."""
    conditions: str = ""
    """Conditions of the later run that differ, so that a difference would say nothing about the model; empty if
    none."""
    problem: str = ""
    """Reason why the instances cannot be compared."""

    @property
    def reason(self) -> str:
        """Return why there is no difference; empty if there is one."""
        return self.problem or self.conditions

    @property
    def has_cases(self) -> bool:
        """Return whether instances of both runs were compared, though perhaps without a difference of the scores."""
        return not self.problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseComparison:
    """Two releases compared."""

    first: Release
    """The earlier one."""
    second: Release
    """The later one, or the present state of a store."""
    diff: LeaderboardDiff
    """Everything that differs."""
    cases: Sequence[ChangedCases]
    """One for each changed score whose run is another one."""
    only: tuple[Sequence[tuple[str, str]], Sequence[tuple[str, str]]]
    """Model and benchmark of the scores that only the first has, and that only the second has."""


def diff_leaderboards(first: Release, second: Release) -> LeaderboardDiff:
    """Return the differences between two leaderboards, and the changed inputs behind them."""
    mine, theirs = _by_name(first.leaderboard), _by_name(second.leaderboard)
    return LeaderboardDiff(
        first=first.name,
        second=second.name,
        options=tuple(json_differences(first.options, second.options)),
        models=_only_in_one(mine["models"], theirs["models"]),
        benchmarks=_only_in_one(mine["benchmarks"], theirs["benchmarks"]),
        ranks=tuple(
            ValueDifference(what=model, before=row["rank"], now=theirs["models"][model]["rank"])
            for model, row in mine["models"].items()
            if model in theirs["models"] and row["rank"] != theirs["models"][model]["rank"]
        ),
        cells=tuple(_cell_changes(first, second, mine, theirs)),
        board=tuple(leaderboard_differences(first.leaderboard, second.leaderboard)),
    )


def leaderboard_differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[ValueDifference]:
    """Yield every place where two leaderboards differ, models and benchmarks by name.

    Keys of `ADDED_KEYS` are compared where both have them: leaderboards of earlier versions do not.
    """
    for one in json_differences(_by_name(before), _by_name(now)):
        if None not in (one.before, one.now) or not one.what.endswith(ADDED_KEYS):
            yield one


ADDED_KEYS = (".completion_counts", ".tie_letters", ".cost_is_ceiling", ".better", ".equal", ".worse")
"""Keys of a leaderboard's JSON that earlier versions did not write."""

SENTENCES = {"verdict", "warnings", "remark_groups"}
"""Keys whose texts follow from the numbers, in the words of the version that wrote them."""


RANKING_KEYS = {"rank", "rank_low", "rank_high", "tie_group", "told_apart", "told_apart_adjusted"}
"""Keys of a leaderboard's JSON that follow from the way models are ranked and tested."""


def has_earlier_ranking(board: Mapping[str, Any]) -> bool:
    """Return whether a leaderboard was made when models were ranked and tested by win rates."""
    return board.get("ranked_by") in (None, "win share")


def without_ranking(board: Mapping[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a leaderboard that does not depend on how models are ranked and that `like` has, too."""
    earlier = {model["model"]: model for model in like["models"]}
    models = [_shared_keys(model, earlier.get(model["model"], model)) for model in board["models"]]
    return {
        **{key: value for key, value in board.items() if key in like and key not in RANKING_KEYS},
        "models": sorted(models, key=lambda model: str(model["model"])),
    }


def _shared_keys(model: Mapping[str, Any], earlier: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's entry without ranks and intervals of averages, and with the keys that an earlier one has."""
    kept = {key: value for key, value in model.items() if key in earlier and key not in RANKING_KEYS}
    for key in ("win_rate", "macro_average"):
        if isinstance(kept.get(key), Mapping):
            kept[key] = {"value": kept[key]["value"]}
    kept["benchmarks"] = {
        name: {key: value for key, value in cell.items() if key in earlier["benchmarks"].get(name, cell)}
        for name, cell in model["benchmarks"].items()
    }
    return kept


def provenance_differences(before: CellProvenance, now: CellProvenance) -> list[ValueDifference]:
    """Return the changed inputs of one value. The id and the time of the run are ignored."""
    found = []
    for aspect, fields in ASPECTS.items():
        old, new = ([_as_json(getattr(basis, name)) for name in fields] for basis in (before, now))
        if old != new:
            place = next(i for i, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1])
            found.append(ValueDifference(what=aspect, before=old[place], now=new[place]))
    return found


def json_differences(before: Any, now: Any, path: str = "") -> Iterator[ValueDifference]:
    """Yield every place where two JSON values differ, by its path; what is missing on one side is None there."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys((*before, *now)):
            yield from json_differences(before.get(key), now.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for place, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from json_differences(one, other, f"{path}[{place}]")
    elif before != now or type(before) is not type(now):
        yield ValueDifference(what=path, before=before, now=now)


def _by_name(board: Mapping[str, Any]) -> dict[str, Any]:
    """Return a leaderboard with models and benchmarks by name, so that their order makes no difference.

    The keys of `SENTENCES` are left out.
    """
    models = {row["model"]: row for row in board["models"]}
    benchmarks = {entry["id"]: entry for entry in board["benchmarks"]}
    return {key: value for key, value in board.items() if key not in SENTENCES} | {
        "models": models,
        "benchmarks": benchmarks,
    }


def _only_in_one(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(name for name in mine if name not in theirs), tuple(name for name in theirs if name not in mine)


def _cell_changes(
    first: Release, second: Release, mine: Mapping[str, Any], theirs: Mapping[str, Any]
) -> Iterator[CellChange]:
    """Yield the cells of both leaderboards whose value, or what it rests on, differs."""
    then, now = ({(basis.model, basis.benchmark): basis for basis in release.provenance} for release in (first, second))
    for key in sorted(set(then) & set(now)):
        model, benchmark = key
        values = [_value(board, model, benchmark) for board in (mine, theirs)]
        # The start of a fresh run says when it was asked, not how.
        why = provenance_differences(*(replace(one[key], settings=_without_start(one[key])) for one in (then, now)))
        if why or values[0] != values[1]:
            yield CellChange(model=model, benchmark=benchmark, before=values[0], now=values[1], why=tuple(why))


def _without_start(basis: CellProvenance) -> dict[str, Any]:
    return {key: value for key, value in basis.settings.items() if key != "fresh"}


def _value(board: Mapping[str, Any], model: str, benchmark: str) -> float | None:
    cells: Mapping[str, Any] = board["models"].get(model, {}).get("benchmarks", {})
    value: float | None = cells.get(benchmark, {}).get("value")
    return value


def _as_json(value: Any) -> Any:
    """Return a value as JSON would read it back."""
    if isinstance(value, Mapping):
        return {key: _as_json(inner) for key, inner in value.items()}
    return [_as_json(inner) for inner in value] if isinstance(value, Sequence) and not isinstance(value, str) else value
