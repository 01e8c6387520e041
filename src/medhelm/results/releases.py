"""Releases: frozen leaderboards with the provenance of every value, and what differs between two."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from medhelm import __version__
from medhelm.analysis.comparison.paired_differences import paired_difference
from medhelm.analysis.comparison.significance import LEVEL, adjust_p_values
from medhelm.analysis.leaderboard.cells import Cell, Column
from medhelm.analysis.leaderboard.diff import (
    ChangedCases,
    LeaderboardDiff,
    ReleaseComparison,
    ValueDifference,
    diff_leaderboards,
)
from medhelm.analysis.means import Floats
from medhelm.domain import Rule, Run
from medhelm.domain.benchmark import group_by
from medhelm.domain.option_fields import check_options
from medhelm.domain.result import HALF, CellProvenance, Release
from medhelm.domain.text import as_names, as_path, listed, plural
from medhelm.errors import StoreError, UserError
from medhelm.results.comparable import ConditionsComparison, Difference, conditions_of, store_label
from medhelm.results.formats.fields import Field, fields_json, fields_table, flat_interval, plain_json, select_fields
from medhelm.results.formats.tables import Value, estimate_text, printable, render
from medhelm.results.leaderboard import leaderboard_of, read_inputs
from medhelm.results.leaderboard_view import as_json
from medhelm.results.options import USUAL, BoardOptions, CalibrationOptions
from medhelm.results.runs.answers import read_answers, read_options
from medhelm.results.runs.cells import cell_of, column_of
from medhelm.results.runs.selection import short_names, with_names
from medhelm.storage.damage import no_damaged_runs
from medhelm.storage.json_form import JsonForm, Nested, key_map
from medhelm.storage.releases import (
    bases_of,
    board_bytes,
    file_digest,
    is_signed,
    read_release,
    release_names,
    release_signer,
    write_release,
)
from medhelm.storage.run_scores import RunScores, read_all
from medhelm.storage.store import Store, open_store, stored_folder

CURRENT = "current"
"""Name of the store's current leaderboard, in place of a release."""


OPTIONS = JsonForm(
    BoardOptions,
    key_map("scoring=rule tier suite resample shared rank_baselines completers_only comparable_only panel"),
    nested={
        "suite": Nested(str, lambda suite: suite),
        "panel": Nested(lambda names: list(names) or None, lambda names: tuple(names or ())),
    },
    not_stored=("wanted", "pricing", "clinicians", "benchmark_folders", "short_names", "criteria"),
)
"""The options in the manifest of a release."""


def freeze(store: Path, name: str, options: BoardOptions, *, note: str = "", key: Path | None = None) -> Release:
    """Freeze the leaderboard of a store under a name. `key`: the SSH key that signs the release.

    Raises: UserError if the name is taken, there is nothing to rank, or the key cannot sign; StoreError if a run is
    damaged; MissingError if a key is given and OpenSSH is missing.
    """
    if name == CURRENT:
        raise UserError(f"`{CURRENT}` means the current state of the store. Choose another name for the release.")
    with no_damaged_runs():
        release = current_release(store, options, name=name, note=note)
    write_release(open_store(store), release, key=key)
    return release


def current_release(store: Path, options: BoardOptions = USUAL, *, name: str = CURRENT, note: str = "") -> Release:
    """Build a release from the current leaderboard of a store, without writing it."""
    place = open_store(store)
    finished = read_inputs([store], options)
    # The means alone come from other runs, if the records of some are damaged.
    board = as_json(leaderboard_of([store], options, finished=None if options.resample == "none" else finished))
    file = Path(options.suite)
    asked = OPTIONS.write(options)
    shown = {entry["id"] for entry in board["benchmarks"]}
    bases = bases_of(((model, run) for (model, name), run in finished.runs.items() if name in shown), place)
    return Release(
        name=name,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        medhelm_version=__version__,
        note=note,
        options={**asked, "suite": file.name} if file.is_file() else asked,
        suite_text=file.read_text(encoding="utf-8-sig") if file.is_file() else "",
        provenance=tuple(sorted(bases, key=lambda basis: (basis.benchmark, basis.model))),
        leaderboard=board,
        sha256=hashlib.sha256(board_bytes(board)).hexdigest(),
    )


def released_options(release: Release, scratch: Path, folders: Sequence[Path] = ()) -> BoardOptions:
    """Return the options of a release; the file of its suite is written into `scratch`."""
    # Releases that do not say so were made when baselines always competed, failures were always left out, and a column
    # held everything with the same metric and jury.
    before = {"rank_baselines": True, "completers_only": True, "comparable_only": False}
    try:
        # Only the ratings that entered, whatever studies were closed since.
        names = tuple(str(card["name"]) for card in release.leaderboard.get("studies", ()))
        clinicians = CalibrationOptions(studies=names) if names else None
        options = OPTIONS.read({**before, **release.options}, benchmark_folders=tuple(folders), clinicians=clinicians)
        check_options(options)
        suite, _ = as_path(options.suite, "suite"), as_names(options.panel, "panel")
    except (KeyError, TypeError, UserError) as error:
        text = f"the options of release `{release.name[:80]}` are not valid. Restore its files from a copy."
        raise StoreError(text) from error
    file = scratch / suite.name
    if not release.suite_text:
        if file.name != str(options.suite):
            text = f"the release `{release.name[:80]}` names the file of a suite without its content."
            raise StoreError(f"{text} Restore its files from a copy.")
        return options
    file.write_text(release.suite_text, encoding="utf-8")
    return replace(options, suite=str(file))


def find_release(store: Path, name: str) -> Release:
    """Return a release by its name or path; for `current` the store's current leaderboard with default options."""
    return current_release(store) if name == CURRENT else read_release(open_store(store), name)


# --- releases: table and JSON -----------------------------------------------------------------------------------------


def release_as_json(release: Release) -> dict[str, Any]:
    """Return a release without its leaderboard, which has its own file."""
    content = plain_json(release)
    del content["board"]
    models = [row["model"] for row in release.leaderboard["models"]]
    studies = release.leaderboard.get("studies")
    more = {"studies": studies} if studies else {}
    return {**content, "models": models, "n_runs": len(release.provenance), **more}


def _of_board(key: str, heading: str, drop: int) -> Field[Release]:
    """Return a field of the leaderboard of a release."""
    return Field(key, lambda release: str(release.leaderboard.get(key, "")), kind="text", heading=heading, drop=drop)


RELEASE_FIELDS: list[Field[Release]] = [
    Field("name", lambda release: release.name, kind="text", heading="Release"),
    Field("created", lambda release: release.created, kind="text", heading="Created"),
    Field("medhelm", lambda release: release.medhelm_version, kind="text", meaning="version of MedHELM that made it"),
    Field("note", lambda release: release.note, kind="text", heading="Note", drop=5),
    Field("sha256", lambda release: release.sha256, kind="text", meaning="of its leaderboard",
          heading="sha256", text=lambda release: release.sha256[:12], drop=1),
    _of_board("suite", "Suite", 2),
    _of_board("scoring", "Scoring", 4),
    _of_board("tier", "Tier", 3),
    Field("models", lambda release: len(release.leaderboard["models"]), in_json=False, heading="Models", drop=7),
    Field("benchmarks", lambda release: len(release.leaderboard["benchmarks"]), in_json=False,
          heading="Benchmarks", drop=6),
]  # fmt: skip
"""A release in lists."""


def releases_table(releases: Sequence[Release], format: str = "table") -> str:
    """Return one row per release."""
    fields = select_fields(RELEASE_FIELDS, "name created models benchmarks scoring tier suite sha256 note")
    return fields_table(fields, releases, format=format)


# --- release behind a report ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRelease:
    """The release that holds the results of a document."""

    name: str
    """Its name."""
    created: str
    """Time of the release, ISO 8601, UTC."""
    sha256: str
    """sha256 of its leaderboard."""
    signature: str
    """Signer, and whether the signature was checked, as text."""
    is_part: bool
    """True if the release holds further runs."""

    def __str__(self) -> str:
        """Return the release in one line."""
        kind = "Part of release" if self.is_part else "Release"
        return f"{kind} {self.name} of {self.created[:10]}, sha256 {self.sha256[:12]}, {self.signature}."


NO_RELEASE = "These results are in no release: `medhelm release NAME` freezes them."
"""Said of results that no release holds."""

Runs = Mapping[tuple[str, str], Run]
"""Model and benchmark -> the run that counts."""


def source_release(store: Path, runs: Runs, options: BoardOptions, signers: Path | None = None) -> SourceRelease | None:
    """Return the latest release of a store that holds these runs, scored by the same rule; None without one.

    `signers`: a public key, or a file of signers, to check its signature with.
    Raises: UserError if the release is not signed by one of these; MissingError without ssh-keygen.
    """
    for known in reversed(find_releases([store])):
        release = known.release
        if release and release.options.get("scoring") == options.rule and _holds(release, runs):
            return SourceRelease(
                name=release.name,
                created=release.created,
                sha256=release.sha256,
                signature=_signature(known, signers),
                is_part=len(release.provenance) > len(runs),
            )
    return None


def _holds(release: Release, runs: Runs) -> bool:
    """Return whether these runs are in a release, byte for byte."""
    frozen = {(one.model, one.benchmark): one for one in release.provenance}
    return frozen.keys() >= runs.keys() and all(_is_same(frozen[key], run) for key, run in runs.items())


def _is_same(frozen: CellProvenance, run: Run) -> bool:
    is_same_run = (frozen.run_id, frozen.started) == (run.id, run.started)
    return is_same_run and frozen.records == file_digest(stored_folder(run) / "records.parquet")


def _signature(known: KnownRelease, signers: Path | None) -> str:
    if signers is not None:
        signer = release_signer(open_store(known.store), known.name, signers)
        return f"signed by {' with '.join(filter(None, signer))}, verified"
    return "signed, not checked here" if known.is_signed else "not signed"


# --- comparison of releases -------------------------------------------------------------------------------------------
# Instance by instance where a store still has the runs behind them.

SHOWN = 40
"""Most differences that are listed; the rest are counted."""

_DIGEST = re.compile(r"[0-9a-f]{64}")

WIDTH = 60
"""Most characters shown of a value."""


NOT_COMPARABLE = "cannot be compared"
"""Verdict on two scores that were not measured in the same way."""

NOTHING_SHARED = "the two runs have no scored instance in common"
"""Reason of two runs that cannot be compared."""

DIGESTS = ("definition", "data", "prompts", "records", "judgments")
"""Inputs that are compared by digest, whose values are not shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRelease:
    """A release that can be compared, or the reason why it cannot."""

    name: str
    """Its name; unique among those known."""
    store: Path
    """Store whose current state it is compared with."""
    release: Release | None
    """The release; None if it cannot be read."""
    problem: str = ""
    """Reason why it cannot be read."""
    is_signed: bool = False
    """True if it has a signature, which is not checked here."""


def find_releases(stores: Sequence[Path], folders: Sequence[Path] = ()) -> list[KnownRelease]:
    """Return the releases of some stores and those in further folders, by time.

    A release that cannot be read is returned with the reason. Raises: StoreError for a folder that is not a store.
    """
    found: list[KnownRelease] = []
    places = [
        (store, name, store_label(store, stores)) for store in stores for name in release_names(open_store(store))
    ]
    for store, name, label in [*places, *((stores[0], str(folder), "") for folder in folders)]:
        try:
            release = read_release(open_store(store), name)
        except StoreError as error:
            found.append(KnownRelease(name=name + label, store=store, release=None, problem=str(error)))
            continue
        shown, number = release.name + label, 1
        while shown == CURRENT or any(one.name == shown for one in found):
            number += 1
            shown = f"{release.name}{label} ({number})"
        signed = is_signed(open_store(store), name)
        found.append(KnownRelease(name=shown, store=store, release=release, is_signed=signed))
    return sorted(found, key=lambda one: one.release.created if one.release else "")


def released_models(release: Release) -> set[str]:
    """Return the names of all models and judges in a release."""
    found = {row["model"] for row in release.leaderboard["models"]}
    for one in release.provenance:
        found.update([one.model, *one.jury, *one.prices])
    return found


def compare_releases(first: Release, second: Release, runs: StoredRuns) -> ReleaseComparison:
    """Compare two releases. `runs`: stored runs, in which those behind the releases are looked up."""
    diff = diff_leaderboards(first, second)
    then, now = (bases_by_key(release) for release in (first, second))
    scoring = scoring_of(first), scoring_of(second)
    cases = [
        _compare_cases(pair_of(then[key], now[key], runs, scoring), now[key], (first, second))
        for key in ((change.model, change.benchmark) for change in diff.cells)
        if then[key].records != now[key].records or scoring[0] != scoring[1]
    ]
    tested = [one for one in cases if one.difference]
    adjusted = adjust_p_values([one.difference.p_value for one in tested if one.difference], "holm")
    p_values = {(one.model, one.benchmark): float(p) for one, p in zip(tested, adjusted, strict=True)}
    return ReleaseComparison(
        first=first,
        second=second,
        diff=diff,
        cases=[replace(one, p_adjusted=p_values.get((one.model, one.benchmark))) for one in cases],
        only=(sorted(then.keys() - now.keys()), sorted(now.keys() - then.keys())),
    )


def bases_by_key(release: Release) -> dict[tuple[str, str], CellProvenance]:
    """Return model and benchmark -> what its score rests on."""
    return {(one.model, one.benchmark): one for one in release.provenance}


@dataclass(frozen=True, slots=True)
class ReleaseScoring:
    """Scoring rule of a release or a gate, and whether failures count."""

    scoring: Rule
    """Scoring rule."""
    failures_as_worst: bool
    """True if failures that the model caused count as the worst answer."""


def scoring_of(release: Release) -> ReleaseScoring:
    """Return how a release scores."""
    if release.options.get("scoring") == "published":
        return ReleaseScoring("published", failures_as_worst=False)
    # Releases that do not say so left out all failures.
    return ReleaseScoring("corrected", failures_as_worst=not release.options.get("completers_only", True))


class StoredRuns:
    """Stored runs, in which those behind scores of releases are found, and their scores as far as they were read."""

    def __init__(self, runs: Iterable[Run]) -> None:
        """Remember the runs; nothing is read yet."""
        self._by_id = group_by(runs, lambda run: run.id)
        self._found: dict[tuple[str, str], Run | None] = {}
        self._scores: dict[tuple[Path, ReleaseScoring], InstanceScores] = {}

    def behind(self, basis: CellProvenance) -> Run | None:
        """Return the run behind a score; None unless its records are those of the release, byte for byte."""
        key = basis.run_id, basis.records
        if key not in self._found:
            own = (run for run in self._by_id.get(basis.run_id, ()) if run.folder is not None)
            same = (run for run in own if file_digest(stored_folder(run) / "records.parquet") == basis.records)
            self._found[key] = next(same, None)
        return self._found[key]

    def scores_of(self, run: Run, rule: ReleaseScoring) -> InstanceScores:
        """Return the scores of a run. Raises: StoreError for damaged records."""
        key = stored_folder(run), rule
        if key not in self._scores:
            self._scores[key] = read_instance_scores(run, rule)
        return self._scores[key]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPair:
    """The earlier and the later run behind a score of two releases, scored on one scale."""

    runs: tuple[Run, Run]
    """The runs; one and the same if nothing was measured since."""
    scores: tuple[InstanceScores, InstanceScores]
    """Their scores."""
    differences: Sequence[Difference]
    """Conditions of the later run that differ from those of the earlier one."""

    @property
    def ids(self) -> list[str]:
        """Instances of both runs and of one of them, in the order of the later one."""
        return list(dict.fromkeys([*self.scores[1].cell.ids, *self.scores[0].cell.ids]))

    def conditions(self, earlier: str) -> str:
        """Return the differences that make scores of the same instances incomparable; empty without any.

        `earlier`: name of the earlier release.
        """
        found = "; ".join(one.reason for one in self.differences if one.part != "instances")
        names = short_names(judge.name for run in self.runs for judge in run.judges)
        return with_names(names, found).replace("the others", earlier)


def pair_of(
    before: CellProvenance, now: CellProvenance, runs: StoredRuns, scoring: tuple[ReleaseScoring, ReleaseScoring]
) -> RunPair | str:
    """Return the runs behind a score of two releases, or the reason why their scores cannot be subtracted."""
    old_run, new_run = (runs.behind(one) for one in (before, now))
    if old_run is None or new_run is None:
        missing = [when for when, run in (("earlier", old_run), ("later", new_run)) if run is None]
        what = "runs are" if len(missing) == 2 else "run is"
        return f"the {' and the '.join(missing)} {what} not in the store, or changed there"
    old, new = (runs.scores_of(run, rule) for run, rule in zip((old_run, new_run), scoring, strict=True))
    if old.scale != new.scale:
        return f"measured by {old.column.metric}, now by {new.column.metric}"
    if scoring[0].scoring != scoring[1].scoring:
        return f"scored by the {scoring[0].scoring} rule, now by the {scoring[1].scoring} one"
    if scoring[0] != scoring[1]:
        return "only one of the two counts failures that the model caused"
    comparison = ConditionsComparison([new_run, old_run])
    differences = comparison.differences(conditions_of(new_run), conditions_of(old_run))
    return RunPair(runs=(old_run, new_run), scores=(old, new), differences=differences)


def tier_of(release: Release) -> str:
    """Return `real` or `sample`: the data of a release."""
    return str(release.leaderboard.get("tier", "real"))


def why_not_compared(pair: RunPair | str, first: Release, second: Release) -> str:
    """Return why no difference of two scores is given, as a participle or a sentence; empty if there is no reason.

    `pair`: the runs behind them, or the reason why they are not known.
    """
    then, now = tier_of(first), tier_of(second)
    if then != now:
        return f"run on {now} data, {first.name} on {then} data"
    return pair if isinstance(pair, str) else pair.conditions(first.name)


def _compare_cases(pair: RunPair | str, now: CellProvenance, releases: tuple[Release, Release]) -> ChangedCases:
    """Compare the runs behind one score of two releases."""
    found = ChangedCases(model=now.model, benchmark=now.benchmark)
    reason = why_not_compared(pair, *releases)
    if isinstance(pair, str):
        return replace(found, problem=reason)
    (old, new), ids = pair.scores, pair.ids
    difference = paired_difference(
        new.in_order(new.tested, ids), old.in_order(old.tested, ids), new.clusters_in_order(ids)
    )
    if difference is None:
        return replace(found, problem=reason or NOTHING_SHARED)
    gained, lost = flips(old, new, ids)
    other = other_answers(pair, {*gained, *lost})
    return replace(
        found,
        difference=None if reason else difference,
        conditions=reason,
        n_gained=len(gained),
        n_lost=len(lost),
        gained=gained,
        lost=lost,
        n_other=None if other is None else len(other),
        other=other,
    )


def other_answers(pair: RunPair, flipped: Collection[str]) -> list[str] | None:
    """Return the instances on which the later run names another option and is as right or wrong as the earlier one.

    None for questions without options. `flipped`: instances that became right or wrong.
    """
    prompts = dict.fromkeys(
        Store(stored_folder(run).parents[2]).prompts_file(run.benchmark, run.benchmark_digest, run.data_digest)
        for run in reversed(pair.runs)
    )
    options = read_options(list(prompts), None, pair.runs[1].main_metric)
    if not options:
        return None
    then, now = read_answers(dict(zip(("then", "now"), pair.runs, strict=True)), options).values()
    ids, (old, new) = pair.ids, pair.scores
    both = np.isfinite(old.in_order(old.shown, ids)) & np.isfinite(new.in_order(new.shown, ids))
    return [
        one
        for one, is_scored in zip(ids, both, strict=True)
        if is_scored and one not in flipped and one in then and then[one] != now.get(one, then[one])
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceScores:
    """The scores of a run, from 0 (worst) to 1 (best)."""

    cell: Cell
    column: Column
    tested: Floats
    """Values whose differences are tested; see `Cell.tested`."""
    shown: Floats
    """Scores as cases show them."""
    scored: RunScores
    """Scores as they were read."""

    @property
    def scale(self) -> tuple[str, float, float]:
        """Metric with the ends of its scale."""
        return self.column.metric, self.column.low, self.column.high

    def clusters_in_order(self, ids: Sequence[str]) -> list[str]:
        """Return the clusters of the instances in the order of these ids, "" where there is none."""
        clusters = self.cell.clusters
        known = {} if clusters is None else dict(zip(self.cell.ids, clusters, strict=True))
        return [str(known.get(one, "")) for one in ids]

    def in_order(self, values: Floats, ids: Sequence[str]) -> Floats:
        """Return values of the instances in the order of these ids, nan where one is missing."""
        known = dict(zip(self.cell.ids, values, strict=True))
        return np.array([known.get(one, np.nan) for one in ids], dtype=float)


def flips(old: InstanceScores, new: InstanceScores, ids: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the instances that only the new run has right, and those that only the old one has right."""
    shares = list(zip(ids, old.in_order(old.shown, ids), new.in_order(new.shown, ids), strict=True))
    gained = [one for one, then, now in shares if then < HALF <= now]
    return gained, [one for one, then, now in shares if now < HALF <= then]


def read_instance_scores(run: Run, rule: ReleaseScoring) -> InstanceScores:
    """Read the scores of a run. Raises: StoreError for damaged records."""
    column = column_of(run, None, rule.scoring)
    ((_, scored),) = read_all([run], rule.scoring)
    cell = cell_of(run.model, run, column, scored, rule=rule.scoring, as_worst=rule.failures_as_worst)
    assert cell.scores is not None, "the records were read"
    tested = column.normalize(cell.scores if cell.tested is None else cell.tested)
    shown = tested if scored.parts is None else column.normalize(np.asarray(scored.values, dtype=float))
    return InstanceScores(cell=cell, column=column, tested=tested, shown=shown, scored=scored)


# --- comparison of releases: tables and JSON --------------------------------------------------------------------------


def comparison_as_json(found: ReleaseComparison) -> dict[str, Any]:
    """Return the output of `medhelm diff --json`."""
    return {
        **plain_json(found.diff),
        "same": not found.diff.board,
        "cases": [fields_json(CASE_FIELDS, one) for one in found.cases],
        "only": [[{"model": model, "benchmark": name} for model, name in side] for side in found.only],
    }


CASE_FIELDS: list[Field[ChangedCases]] = [
    Field("model", lambda one: one.model, kind="text", heading="Model"),
    Field("benchmark", lambda one: one.benchmark, kind="text", heading="Benchmark"),
    *flat_interval("difference", lambda one: one.difference, missing="not measured in the same way",
                   heading="Difference", text=lambda one: estimate_text(one.difference) or NOT_COMPARABLE),
    Field("n", lambda one: one.difference and one.difference.n, kind="whole number", missing="not compared",
          heading="n", drop=1),
    Field("p_value", lambda one: one.difference and one.difference.p_value),
    Field("p_adjusted", lambda one: one.p_adjusted, kind="p-value", heading="p adjusted"),
    Field("separated", lambda one: one.p_adjusted is not None and one.p_adjusted <= LEVEL, kind="true or false"),
    Field("n_gained", lambda one: one.n_gained, kind="whole number",
          heading="Newly right", text=lambda one: one.n_gained if one.has_cases else None, drop=4),
    Field("n_lost", lambda one: one.n_lost, kind="whole number",
          heading="Newly wrong", text=lambda one: one.n_lost if one.has_cases else None, drop=5),
    Field("n_other", lambda one: one.n_other, kind="whole number",
          missing="not a choice question", meaning="cases with another option that is as right or wrong",
          heading="Other answer", drop=3),
    Field("gained", lambda one: one.gained, kind="texts", missing="private",
          meaning="ids; null where the data is not public"),
    Field("lost", lambda one: one.lost, kind="texts", missing="private"),
    Field("other", lambda one: one.other, kind="texts", missing="private, or not a choice question"),
    Field("conditions", lambda one: one.conditions, kind="text",
          meaning="how the later run was measured otherwise, so that no difference is given"),
    Field("problem", lambda one: one.problem, kind="text", meaning="why the cases could not be compared; else empty",
          heading="Note", text=lambda one: one.reason, drop=2),
]  # fmt: skip
"""The runs behind a score of two releases, instance by instance."""


def comparison_to_text(found: ReleaseComparison, format: str = "table") -> str:
    """Return the differences as text, and tests of the runs that were replaced, instance by instance."""
    text = difference_to_text(found.diff, format)
    if not found.cases:
        return text
    caption = (
        f"Runs behind the changed scores, from {found.diff.first} to {found.diff.second}: later minus earlier on the "
        "same instances, from 0 (worst) to 1 (best), with p-values by Holm over all rows"
    )
    fields = select_fields(CASE_FIELDS, "benchmark model difference n p_adjusted n_gained n_lost n_other problem")
    return f"{text}\n{fields_table(fields, found.cases, format=format, caption=caption, keep=2)}"


def difference_to_text(between: LeaderboardDiff, format: str = "table") -> str:
    """Return the differences as text: models and benchmarks, ranks, scores with changed inputs, all others."""
    names = f"from {between.first} to {between.second}"
    if not between.board and not between.cells:
        return f"The leaderboards of {between.first} and {between.second} are identical, and so are their inputs.\n"
    lines = [*filter(None, [rank_cause(between)]), *presence_sentences(between), *rank_sentences(between)]
    parts = ["\n".join(lines) + "\n"] if lines else []
    if between.options:
        parts.append(differences_table(between.options, format, caption=f"Changed options, {names}"))
    if between.cells:
        headers = ["Benchmark", "Model", "Before", "Now", "Changed inputs"]
        rows: list[list[Value]] = [
            [cell.benchmark, cell.model, shown(cell.before), shown(cell.now), reasons(cell.why)]
            for cell in between.cells
        ]
        parts.append(render(rows, headers, format=format, caption=f"Changed scores, {names}", keep=2))
    if between.board:
        parts.append(
            differences_table(between.board, format, caption=f"All changed fields of the leaderboard, {names}")
        )
    return "\n".join(parts)


def presence_sentences(between: LeaderboardDiff) -> list[str]:
    """Return the models and benchmarks that only one leaderboard has, in sentences."""
    return [
        f"{verb} {what}: {', '.join(map(printable, items))}."
        for what, both in (("models", between.models), ("benchmarks", between.benchmarks))
        for verb, items in zip(("Removed", "Added"), both, strict=True)
        if items
    ]


def rank_sentences(between: LeaderboardDiff) -> list[str]:
    """Return the ranks that changed, in sentences."""
    return [
        f"{printable(one.what)} is no longer ranked; it had rank {one.before}."
        if one.now is None
        else f"{printable(one.what)} is now ranked: {one.now}."
        if one.before is None
        else f"{printable(one.what)} moved from rank {one.before} to {one.now}."
        for one in between.ranks
    ]


def rank_cause(between: LeaderboardDiff) -> str:
    """Return why ranks moved, if not only because scores changed; else, and if none moved, an empty text.

    A rank is a place among the models of a leaderboard: models that come or go move the ranks of all others.
    """
    causes = [
        f"{plural(len(items), what)} {'was' if len(items) == 1 else 'were'} {verb}"
        for what, both in (("model", between.models), ("benchmark", between.benchmarks))
        for verb, items in zip(("removed", "added"), both, strict=True)
        if items
    ]
    if not between.ranks or not (causes or between.options):
        return ""
    because = listed(causes) or "options of the leaderboard changed"
    is_only_cause = all(one.before == one.now for one in between.cells)
    return f"Ranks moved because {because}." if is_only_cause else f"Ranks also moved because {because}."


def reasons(why: Sequence[ValueDifference]) -> str:
    """Return the changed inputs, with old and new values unless they are digests."""
    if not why:
        return "none"
    return "; ".join(
        one.what if one.what in DIGESTS else f"{one.what} ({' -> '.join(map(shown, _changed_parts(one)))})"
        for one in why
    )


def _changed_parts(one: ValueDifference) -> tuple[Any, Any]:
    """Return both values; of two objects only the keys with another value."""
    before, now = one.before, one.now
    if not isinstance(before, Mapping) or not isinstance(now, Mapping):
        return before, now
    keys = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    return tuple({key: value[key] for key in keys if key in value} or None for value in (before, now))  # type: ignore[return-value]


def difference_rows(differences: Iterable[ValueDifference]) -> list[list[Value]]:
    """Return one row per difference: name, value before, value now."""
    return [[one.what, shown(one.before), shown(one.now)] for one in differences]


def differences_table(differences: Sequence[ValueDifference], format: str = "table", *, caption: str = "") -> str:
    """Return a table of the first `SHOWN` differences, with the number of all."""
    more = f"{caption} (the first {SHOWN} of {len(differences)})" if len(differences) > SHOWN else caption
    rows = difference_rows(differences[:SHOWN])
    return render(rows, ["Item", "Before", "Now"], format=format, caption=more)


def shown(value: Any) -> str:
    """Return any value as one short line.

    >>> shown({"input": 2.5, "output": 10.0})
    'input 2.5, output 10'
    """
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, Mapping):
        text = ", ".join(f"{key} {shown(inner)}" for key, inner in value.items())
    elif isinstance(value, (list, tuple)):
        text = ", ".join(shown(inner) for inner in value)
    else:
        text = str(value)
        text = text[:12] if _DIGEST.fullmatch(text) else text
    text = " ".join(printable(text).split())
    return text if len(text) <= WIDTH else text[:WIDTH] + "..."
