"""Stores and releases side by side: each model's rank and number in each, and what changed from the first one.

A column is a leaderboard, frozen or as a store has it now. A model's change is tested as two models are compared: the
paired differences on the benchmarks on which both runs were measured in the same way, and their mean. Where conditions
differ, the reason takes the place of the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from medhelm.analysis.comparison.paired_differences import PairedDifference
from medhelm.analysis.comparison.pairs import ModelPair, compare_all_pairs
from medhelm.analysis.comparison.significance import LEVEL, adjust_p_values
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.domain import Run
from medhelm.domain.benchmark import group_by
from medhelm.domain.result import CellProvenance, Release
from medhelm.domain.text import listed, plural
from medhelm.errors import UserError, suggestion
from medhelm.results.comparable import BASELINE, store_names
from medhelm.results.formats.fields import (
    STRING,
    Field,
    enum_of,
    field_cell,
    fields_json,
    fields_schema,
    fields_table,
    flat_interval,
    list_field,
    list_of,
    map_of,
    nullable,
    schema_of,
)
from medhelm.results.formats.tables import Value, as_line, escape_markdown
from medhelm.results.options import USUAL, BoardOptions
from medhelm.results.releases import (
    CURRENT,
    NOT_COMPARABLE,
    NOTHING_SHARED,
    RunPair,
    StoredRuns,
    current_release,
    pair_of,
    released_models,
    scoring_of,
    tier_of,
    why_not_compared,
)
from medhelm.results.runs.selection import renamed_json, short_names
from medhelm.storage.releases import MANIFEST, RELEASE, is_signed, read_release, release_names, store_of_release
from medhelm.storage.runs import load_runs
from medhelm.storage.store import open_store

T = TypeVar("T")

MOST_SIDES = 12
"""Most columns of a table."""

MOST_REASONS = 40
"""Most reasons that are listed below a table; JSON has all."""

NAMES = 5
"""Most models in one sentence."""

# --- columns ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Side:
    """A store or a release as a column."""

    name: str
    """Its name, unique among the columns."""
    release: Release
    """Its leaderboard, and what each score rests on."""
    is_store: bool
    """True for a store as it is now."""
    is_signed: bool = False
    """True if it has a signature, which is not checked here."""

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Model -> its name without the address of its server, by which columns are matched."""
        return short_names(released_models(self.release))

    @cached_property
    def bases(self) -> Mapping[str, Mapping[str, CellProvenance]]:
        """Name of a model -> benchmark -> what its score rests on."""
        found: dict[str, dict[str, CellProvenance]] = {}
        for one in self.release.provenance:
            found.setdefault(self.names[one.model], {})[one.benchmark] = one
        return found

    @cached_property
    def rows(self) -> Mapping[str, Mapping[str, Any]]:
        """Name of a model -> its row of the leaderboard, in its order; baselines only where they are ranked."""
        rows = self.release.leaderboard["models"]
        shown = [row for row in rows if row["rank"] is not None or not row["model"].startswith(BASELINE)]
        return {self.names[row["model"]]: row for row in shown}

    @cached_property
    def named_release(self) -> Release:
        """The release under the name of the column, with the names by which columns are matched, and no address."""
        board = renamed_json(self.names, self.release.leaderboard)
        release = RELEASE.read(renamed_json(self.names, RELEASE.write(self.release)), leaderboard=board)
        return replace(release, name=self.name)

    @property
    def ranked_by(self) -> str:
        """The number that ranks; without ranks, as for a single model, the macro average."""
        is_ranked = any(row["rank"] is not None for row in self.rows.values())
        return str(self.release.leaderboard.get("ranked_by") or "win share") if is_ranked else "macro average"

    @property
    def titles(self) -> Mapping[str, str]:
        """Benchmark -> its title."""
        return {one["id"]: str(one.get("title", one["id"])) for one in self.release.leaderboard["benchmarks"]}


def find_sides(store: Path, names: Sequence[str], options: BoardOptions = USUAL) -> tuple[list[Side], StoredRuns]:
    """Return named releases and stores as columns, and the stored runs behind them.

    Parameters: store, whose releases go by their names; `current` is the store itself; names, also folders of stores
    and of releases; options, of the leaderboards of stores.
    Raises: UserError for an unknown name, one given twice, and a store without a finished run; StoreError.
    """
    if len(names) > MOST_SIDES:
        raise UserError(f"{len(names)} stores and releases are too many for one table: at most {MOST_SIDES}.")
    own, known = open_store(store), {*release_names(open_store(store)), CURRENT}
    folders: dict[str, Path] = {}
    unknown = []
    for name in names:
        folder = Path(name)
        if name not in known and (folder / "store.json").is_file():
            folders[name] = folder
        elif name not in known and not (folder / MANIFEST).is_file():
            unknown.append(name)
    if unknown:
        hint = suggestion(unknown[0], known - {CURRENT})
        raise UserError(
            f"{listed([f'`{name}`' for name in unknown])}: neither a release of {store}, nor the folder of a store or "
            f"of a release. {hint} `{CURRENT}` is the store as it is now.".replace("  ", " ")
        )
    frozen = [(own.folder / "releases" / name if name in known else Path(name)).resolve() for name in names]
    if doubles := [name for name, place in zip(names, frozen, strict=True) if frozen.count(place) > 1]:
        raise UserError(f"`{doubles[0]}` is named twice. Nothing differs from itself; name another one.")
    stores = {name: folders.get(name, store) for name in names if name in folders or name == CURRENT}
    labels = store_names(list(stores.values()))
    places, sides = {store.resolve(): store}, []
    for name in names:
        if name in stores:
            place = stores[name]
            release = current_release(place, options, name=CURRENT if name == CURRENT else labels[place])
            sides.append(Side(name=release.name, release=release, is_store=True))
            places[place.resolve()] = place
            continue
        release = read_release(own, name)
        sides.append(Side(name=release.name, release=release, is_store=False, is_signed=is_signed(own, name)))
        if name not in known and (around := store_of_release(Path(name))):
            places[around] = around
    return _with_unique_names(sides), StoredRuns(run for one in places.values() for run in load_runs(open_store(one)))


def _with_unique_names(sides: Sequence[Side]) -> list[Side]:
    """Number the columns whose names others have."""
    found: list[Side] = []
    for one in sides:
        n_same = sum(other.release.name == one.release.name for other in found)
        found.append(replace(one, name=f"{one.name} ({n_same + 1})") if n_same else one)
    return found


# --- changes ----------------------------------------------------------------------------------------------------------

Outcome = Literal["better", "worse", "not separated", "same completions", "not comparable"]
"""Verdict on a change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideChange:
    """A model in a later column compared with the first one."""

    outcome: Outcome
    """The verdict."""
    difference: PairedDifference | None = None
    """Later minus first, the mean over the benchmarks that could be compared, from 0 (worst) to 1 (best)."""
    p_adjusted: float | None = None
    """Its p-value, adjusted for the models of the column."""
    n_compared: int = 0
    """Benchmarks that could be compared."""
    n_shared: int = 0
    """Benchmarks with a score in both columns."""
    reasons: Mapping[str, str]
    """Benchmark of both -> reason why it could not be compared, or only on a part of its instances."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideScore:
    """A model in one column."""

    rank: int | None
    """Its rank; None for a model that is not ranked, such as the only one."""
    value: float
    """The number that ranks."""
    low: float | None
    """Lower end of its interval."""
    high: float | None
    """Upper end."""
    n_benchmarks: int | None
    """Benchmarks behind it."""
    change: SideChange | None = None
    """The change from the first column; None in the first one, and for a model that the first one does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRow:
    """One model in all columns."""

    model: str
    """Its name."""
    scores: Sequence[SideScore | None]
    """One for each column; None where the model has no number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """Stores and releases side by side."""

    sides: Sequence[Side]
    """The columns, at least two; changes are from the first one."""
    rows: Sequence[SideRow]
    """The models, in the order of their ranks in the first column that has them."""

    @property
    def titles(self) -> Mapping[str, str]:
        """Benchmark -> its title."""
        return {name: title for one in reversed(self.sides) for name, title in one.titles.items()}

    def changes(self, column: int) -> dict[str, SideChange]:
        """Return model -> its change in one of the later columns."""
        found = {row.model: row.scores[column] for row in self.rows}
        return {model: score.change for model, score in found.items() if score and score.change}


def ranking_score(row: Mapping[str, Any]) -> SideScore | None:
    """Return the number that ranks a model, from its row in the JSON of a leaderboard; None without one."""
    averages = [row.get(key) or {} for key in ("adjusted_average", "macro_average")]
    value = averages[1].get("value") if row.get("ranking_value") is None else row["ranking_value"]
    if value is None:
        return None
    own = next((one for one in averages if one.get("value") == value), {})
    return SideScore(
        rank=row["rank"], value=value, low=own.get("low"), high=own.get("high"), n_benchmarks=row.get("n_benchmarks")
    )


def compare_sides(sides: Sequence[Side], runs: StoredRuns) -> SideBySide:
    """Compare each later column with the first one. `runs`: those in which the runs behind scores are looked up.

    Raises: UserError for fewer than two columns; StoreError for damaged records.
    """
    if len(sides) < 2:
        raise UserError("One store or release cannot be compared: name a second one.")
    first = sides[0]
    changes = [_changes(first, one, runs) if one is not first else {} for one in sides]
    rows = []
    for model in dict.fromkeys(model for one in sides for model in one.rows):
        scores = [ranking_score(one.rows[model]) if model in one.rows else None for one in sides]
        with_changes = [
            score and replace(score, change=own.get(model)) for score, own in zip(scores, changes, strict=True)
        ]
        if any(with_changes):
            rows.append(SideRow(model=model, scores=with_changes))
    return SideBySide(sides=sides, rows=rows)


def _changes(first: Side, other: Side, runs: StoredRuns) -> dict[str, SideChange]:
    """Return the changes of the models that both columns have; p-values are adjusted for all of them by Holm."""
    found = {model: _change(model, first, other, runs) for model in other.rows if model in first.rows}
    tested = {model: one for model, (one, _) in found.items() if one.p_adjusted is not None}
    adjusted = adjust_p_values([one.p_adjusted or 0.0 for one in tested.values()], "holm")
    p_values = {model: float(p) for model, p in zip(tested, adjusted, strict=True)}
    return {
        model: replace(one, p_adjusted=p_values.get(model), outcome=_outcome(one, direction, p_values.get(model)))
        for model, (one, direction) in found.items()
    }


def _outcome(change: SideChange, direction: int, p_adjusted: float | None) -> Outcome:
    """Return what a change says. `direction`: 1 if it is significantly better before adjustment, -1 if worse, or 0."""
    if p_adjusted is None:
        return change.outcome
    if direction == 0 or p_adjusted > LEVEL:
        return "not separated"
    return "better" if direction > 0 else "worse"


def _change(model: str, first: Side, other: Side, runs: StoredRuns) -> tuple[SideChange, int]:
    """Compare one model in two columns; also return the direction of its difference before adjustment."""
    then, now = first.bases.get(model, {}), other.bases.get(model, {})
    shared = [name for name in other.titles if name in then and name in now]
    if not shared:
        return SideChange(outcome="not comparable", reasons={}), 0
    scoring = scoring_of(first.release), scoring_of(other.release)
    if scoring[0] == scoring[1] and all(_is_same(then[name], now[name]) for name in shared):
        return SideChange(outcome="same completions", n_compared=len(shared), n_shared=len(shared), reasons={}), 0
    reasons: dict[str, str] = {}
    pairs: dict[str, RunPair] = {}
    for name in shared:
        found = pair_of(then[name], now[name], runs, scoring)
        if text := why_not_compared(found, first.named_release, other.named_release):
            reasons[name] = text
        elif not isinstance(found, str):
            pairs[name] = found
            if found.differences:
                text = "; ".join(one.reason for one in found.differences).replace("the others", first.name)
                reasons[name] = f"{text}; compared on the instances of both"
    pair = _compare_pairs(pairs, other) if pairs else None
    compared = pair.benchmarks if pair else {}
    reasons |= {name: NOTHING_SHARED for name in pairs if name not in compared}
    test = pair.macro_average if pair else None
    change = SideChange(
        outcome="not comparable",
        difference=test.difference if test else None,
        p_adjusted=pair.p_adjusted("holm") if pair else None,
        n_compared=len(compared),
        n_shared=len(shared),
        reasons=reasons,
    )
    return change, pair.direction("holm") if pair else 0


def _is_same(before: CellProvenance, now: CellProvenance) -> bool:
    """Return whether two scores rest on the same run, with the same records and judgments."""
    return all(getattr(before, name) == getattr(now, name) for name in ("run_id", "records", "judgments"))


def _compare_pairs(pairs: Mapping[str, RunPair], other: Side) -> ModelPair | None:
    """Compare the later with the earlier runs of one model over benchmarks, by the weights of the later leaderboard."""
    weights = {one["id"]: float(one.get("weight") or 1.0) for one in other.release.leaderboard["benchmarks"]}
    cells: list[Cell] = []
    columns: list[Column] = []
    for name, pair in pairs.items():
        cells += [replace(one.cell, model=when) for when, one in zip(("then", "now"), pair.scores, strict=True)]
        columns.append(replace(pair.scores[1].column, weight=weights[name]))
    found = compare_all_pairs(cells, columns, models=["now", "then"])[0]
    return found if found.macro_average and found.unit == "instances" else None


def changed_runs(first: Side, other: Side, benchmark: str, runs: StoredRuns) -> dict[str, Run]:
    """Return the runs on a benchmark of the models of two columns, if they are others: name with its column -> run.

    A run that is not stored any more is left out with its other.
    """
    found: dict[str, Run] = {}
    for model, bases in other.bases.items():
        then, now = first.bases.get(model, {}).get(benchmark), bases.get(benchmark)
        if then is None or now is None or _is_same(then, now):
            continue
        pair = [runs.behind(one) for one in (then, now)]
        if None not in pair:
            names = (name_in(model, one) for one in (first, other))
            found |= {name: run for name, run in zip(names, pair, strict=True) if run}
    return found


def name_in(model: str, side: Side) -> str:
    """Return the name of a model of one column among those of several.

    >>> name_in("openai/x", Side(name="2026-10 [ours]", release=None, is_store=False))
    'openai/x [2026-10, ours]'
    """
    return f"{model} [{side.name.replace(' [', ', ').removesuffix(']')}]"


# --- table, sentences and JSON ----------------------------------------------------------------------------------------


OUTCOMES: Mapping[Outcome, str] = {
    "better": "better",
    "worse": "worse",
    "not separated": "cannot be separated",
    "same completions": "same completions",
    "not comparable": NOT_COMPARABLE,
}
"""Verdict -> its words."""

CHANGE_FIELDS: list[Field[SideChange]] = [
    *flat_interval("difference", lambda change: change.difference, missing="not comparable", heading="change"),
    Field("p_adjusted", lambda change: change.p_adjusted, kind="p-value", missing="not comparable",
          heading="p adjusted", drop=1),
    Field("outcome", lambda change: change.outcome, kind="text", schema=schema_of(Outcome),
          heading="verdict", text=lambda change: OUTCOMES[change.outcome]),
    Field("n_compared", lambda change: change.n_compared, kind="whole number",
          meaning="benchmarks on which both were measured in the same way"),
    Field("n_shared", lambda change: change.n_shared, kind="whole number", meaning="benchmarks with scores of both"),
    Field("reasons", lambda change: dict(change.reasons), kind="object", schema=map_of(STRING),
          meaning="benchmark -> why it is not compared, or only on a part of its instances"),
]  # fmt: skip
"""The change of a model from the first column."""

SCORE_FIELDS: list[Field[SideScore]] = [
    Field("rank", lambda score: score.rank, kind="whole number", missing="not ranked", heading="rank", drop=2),
    *flat_interval("value", lambda score: score, heading="value"),
    Field("n_benchmarks", lambda score: score.n_benchmarks, kind="whole number", missing="unknown",
          heading="benchmarks", is_wide=True),
    Field("change", lambda score: score.change and fields_json(CHANGE_FIELDS, score.change), kind="object",
          schema=fields_schema(CHANGE_FIELDS), missing="the first column, or a model that it does not have"),
]  # fmt: skip
"""A model in one column. JSON has its number as `value`, in tables under the name of the column."""

SIDE_FIELDS: list[Field[Side]] = [
    Field("name", lambda side: side.name, kind="text"),
    Field("kind", lambda side: "store" if side.is_store else "release", kind="text",
          schema=enum_of(("store", "release"))),
    Field("signed", lambda side: side.is_signed, kind="true or false", meaning="has a signature; it is not checked"),
    Field("created", lambda side: side.release.created, kind="text"),
    Field("scoring", lambda side: str(side.release.leaderboard.get("scoring", "")), kind="text"),
    Field("tier", lambda side: tier_of(side.release), kind="text"),
    Field("ranked_by", lambda side: side.ranked_by, kind="text", meaning="the number that ranks"),
    Field("benchmarks", lambda side: list(side.titles), kind="texts"),
]  # fmt: skip
"""A column."""

ROW_FIELDS: list[Field[SideRow]] = [
    Field("model", lambda row: row.model, kind="text"),
    Field("scores", lambda row: [score and fields_json(SCORE_FIELDS, score) for score in row.scores], kind="object",
          schema=list_of(nullable(fields_schema(SCORE_FIELDS))), meaning="one for each column; null without a number"),
]  # fmt: skip
"""A model in all columns."""

FIELDS: list[Field[SideBySide]] = [
    list_field("sides", SIDE_FIELDS, lambda found: found.sides),
    Field("changes_in_words", lambda found: verdict(found), kind="texts"),
    list_field("side_by_side", ROW_FIELDS, lambda found: found.rows),
]
"""Stores and releases side by side; changes are from the first one."""


def as_json(found: SideBySide) -> dict[str, Any]:
    """Return stores and releases side by side as JSON."""
    return fields_json(FIELDS, found)


def to_text(found: SideBySide, format: str = "table") -> str:
    """Return the table of all columns; for people also the verdict, and why benchmarks were not compared."""
    fields = [Field("model", lambda row: row.model, kind="text", heading="Model"), *_table_fields(found)]
    caption = (
        "The number that ranks, with its 95% interval; changes are from the first column, on the benchmarks that were "
        "measured in the same way, from 0 (worst) to 1 (best); p-values by Holm over the models"
    )
    table = fields_table(fields, found.rows, format=format, caption=caption)
    if format not in ("table", "md"):
        return table
    lines = [_shown_line(one, format) for one in [*verdict(found), *reasons_in_words(found)]]
    return "\n".join([*lines[:1], "", table.rstrip(), *(["", *lines[1:]] if lines[1:] else [])]).lstrip() + "\n"


def _shown_line(text: str, format: str) -> str:
    """Return a sentence on one line."""
    return escape_markdown(as_line(text)) if format == "md" else as_line(text)


def _table_fields(found: SideBySide) -> Iterator[Field[SideRow]]:
    """Yield the columns of the table: those of each store or release, under its name."""
    for place, side in enumerate(found.sides):
        name = as_line(side.name)
        for field in SCORE_FIELDS:
            yield _in_table(field, name, partial(_score_in, place))
        for own in CHANGE_FIELDS if place else ():
            yield _in_table(own, name, partial(_change_in, place))


def _score_in(place: int, row: SideRow) -> SideScore | None:
    return row.scores[place]


def _change_in(place: int, row: SideRow) -> SideChange | None:
    score = row.scores[place]
    return score.change if score else None


def _in_table(field: Field[T], name: str, get: Callable[[SideRow], T | None]) -> Field[SideRow]:
    """Return a field of one column as a field of a row."""

    def cell(row: SideRow) -> Value:
        item = get(row)
        return None if item is None else field_cell(field, item)

    heading = name if field.key == "value" else f"{name} {field.heading}"
    return Field(f"{name} {field.key}", get, heading=heading if field.heading else "", text=cell,
                 is_wide=field.is_wide, drop=field.drop)  # fmt: skip


def verdict(found: SideBySide) -> list[str]:
    """Return what changed from the first column to each other one, in sentences."""
    first = found.sides[0]
    sentences = []
    for place, other in enumerate(found.sides[1:], 1):
        changes = found.changes(place)
        if not changes:
            ours, theirs = (listed(list(one.rows), NAMES) or "no model" for one in (first, other))
            sentences.append(
                f"{first.name} and {other.name} have no model in common: {first.name} has {ours}; {other.name} has "
                f"{theirs}."
            )
            continue
        by_outcome = group_by(changes, {model: one.outcome for model, one in changes.items()}.__getitem__)
        parts = [_outcome_in_words(outcome, own) for outcome in OUTCOMES if (own := by_outcome.get(outcome))]
        sentences.append(f"From {first.name} to {other.name}: {'; '.join(parts)}.")
    return [*sentences, *_limits(found)]


def _outcome_in_words(outcome: Outcome, models: Sequence[str]) -> str:
    """Return what the changes of some models say; only those that are significant are named.

    >>> _outcome_in_words("same completions", ["a", "b"]), _outcome_in_words("worse", ["a"])
    ('2 models have the same completions', 'a is significantly worse')
    """
    if outcome in ("better", "worse"):
        return f"{listed(models, NAMES)} {'is' if len(models) == 1 else 'are'} significantly {outcome}"
    verb = "has" if len(models) == 1 else "have"
    said = {
        "not separated": "did not change significantly",
        "same completions": f"{verb} the same completions",
        "not comparable": NOT_COMPARABLE,
    }
    return f"{plural(len(models), 'model')} {said[outcome]}"


def _limits(found: SideBySide) -> Iterator[str]:
    """Yield how the leaderboards differ, which limits a comparison of their numbers and ranks."""
    first = found.sides[0]
    for other in found.sides[1:]:
        if other.ranked_by != first.ranked_by:
            yield f"{first.name} ranks by {first.ranked_by}, {other.name} by {other.ranked_by}."
        shared = [model for model in other.rows if model in first.rows]
        if lacking := [model for model in shared if other.bases[model].keys() != first.bases[model].keys()]:
            yield (
                f"In {first.name} and {other.name}, the numbers of {listed(lacking, NAMES)} rest on different "
                "benchmarks. Changes are on those of both."
            )


def reasons_in_words(found: SideBySide) -> list[str]:
    """Return why benchmarks were not compared, or only in part, in sentences that name the models."""
    titles, models = found.titles, len(found.rows)
    entries = [
        ((other.name, benchmark, reason), model)
        for place, other in enumerate(found.sides)
        for model, change in found.changes(place).items()
        for benchmark, reason in change.reasons.items()
    ]
    sentences = []
    for (name, benchmark, reason), own in group_by(entries, lambda entry: entry[0]).items():
        names = [model for _, model in own]
        who = "all models" if len(names) == models > 1 else listed(names, NAMES)
        sentences.append(f"{titles.get(benchmark, benchmark)} in {name}, {who}: {reason}.")
    more = len(sentences) - MOST_REASONS
    return [*sentences[:MOST_REASONS], *([f"{more} more reasons are in the JSON."] if more > 0 else [])]
