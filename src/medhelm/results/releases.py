"""Releases: frozen leaderboards with the provenance of every value."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

from pydantic import TypeAdapter, ValidationError

from medhelm import __version__
from medhelm.analysis.leaderboard.build import Resample
from medhelm.domain import Rule, Tier
from medhelm.domain.release import Release
from medhelm.errors import StoreError, UserError
from medhelm.reports import leaderboard as leaderboard_report
from medhelm.results.leaderboard import leaderboard, read_inputs
from medhelm.storage.json_form import JsonForm, Nested, key_map
from medhelm.storage.recovery.damaged_runs import no_damaged_runs
from medhelm.storage.releases import basis_of, board_bytes, read_release, write_release
from medhelm.storage.store import open_store

CURRENT = "current"
"""Name of the store's current leaderboard, in place of a release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderboardOptions:
    """Options of a leaderboard."""

    scoring: Rule = "corrected"
    """Scoring rule."""
    tier: Tier | None = None
    """Real data or sample rows; None: real data, if there is any."""
    suite: str = "all"
    """Benchmarks and their weights; may be a file."""
    resample: Resample | None = None
    """Unit to resample for intervals; None: instances if their scores are known, else benchmarks."""
    shared: bool = False
    """True if only benchmarks count on which every model has a score."""
    rank_baselines: bool = False
    """True if baselines compete for ranks."""
    completers_only: bool = False
    """True if failures that the model caused are left out instead of counted as the worst answer."""
    comparable_only: bool = True
    """True if only runs with the same prompts, references, instances and sampling share a column."""
    panel: tuple[str, ...] = ()
    """Models that win shares and win rates are against; empty: the other models on the leaderboard."""
    folders: tuple[Path, ...] = ()
    """Folders with further benchmarks, which a suite's file may name; not part of the release."""


OPTIONS = JsonForm(
    LeaderboardOptions,
    key_map("scoring tier suite resample shared rank_baselines completers_only comparable_only panel"),
    nested={"panel": Nested(lambda names: list(names) or None, lambda names: tuple(names or ()))},
    not_stored=("folders",),
)
"""The options in the manifest of a release."""


def freeze(store: Path, name: str, options: LeaderboardOptions, *, note: str = "", key: Path | None = None) -> Release:
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


def current_release(store: Path, options: LeaderboardOptions, *, name: str = CURRENT, note: str = "") -> Release:
    """Build a release from the current leaderboard of a store, without writing it."""
    place = open_store(store)
    finished = read_inputs([store], options.scoring, options.tier, comparable_only=options.comparable_only)
    board = leaderboard_json(store, options)
    file = Path(options.suite)
    asked = OPTIONS.write(options)
    shown = {entry["id"] for entry in board["benchmarks"]}
    bases = [basis_of(model, run, place) for (model, benchmark), run in finished.runs.items() if benchmark in shown]
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


def leaderboard_json(store: Path, options: LeaderboardOptions) -> dict[str, Any]:
    """Return the leaderboard of a store, as `leaderboard --format json` prints it."""
    board = leaderboard(
        [store],
        rule=options.scoring,
        tier=options.tier,
        suite=options.suite,
        resample=options.resample,
        shared=options.shared,
        rank_baselines=options.rank_baselines,
        completers_only=options.completers_only,
        comparable_only=options.comparable_only,
        panel=options.panel,
        benchmark_folders=options.folders,
    )
    return leaderboard_report.as_json(board)


def released_options(release: Release, scratch: Path, folders: Sequence[Path] = ()) -> LeaderboardOptions:
    """Return the options of a release; the file of its suite is written into `scratch`."""
    # Releases that do not say so were made when baselines always competed, failures were always left out, and a column
    # held everything with the same metric and jury.
    before = {"rank_baselines": True, "completers_only": True, "comparable_only": False}
    try:
        read = OPTIONS.read({**before, **release.options}, folders=tuple(folders))
        options = TypeAdapter(LeaderboardOptions).validate_python(asdict(read))
    except (TypeError, ValidationError) as error:
        text = f"the options of release `{release.name[:80]}` are not valid. Restore its files from a copy."
        raise StoreError(text) from error
    file = scratch / PurePath(options.suite).name
    if not release.suite_text:
        if file.name != options.suite:
            text = f"the release `{release.name[:80]}` names the file of a suite without its content."
            raise StoreError(f"{text} Restore its files from a copy.")
        return options
    file.write_text(release.suite_text, encoding="utf-8")
    return replace(options, suite=str(file))


def find_release(store: Path, name: str) -> Release:
    """Return a release by its name or path; for `current` the store's current leaderboard with default options."""
    return current_release(store, LeaderboardOptions()) if name == CURRENT else read_release(open_store(store), name)
