"""Releases: frozen leaderboards with the provenance of every value."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from medhelm import __version__
from medhelm.domain.options import check_options
from medhelm.domain.result import Release
from medhelm.domain.text import as_names, as_path
from medhelm.errors import StoreError, UserError
from medhelm.reports import leaderboard as leaderboard_report
from medhelm.reports.formats.fields import Field, fields_table, select_fields
from medhelm.reports.formats.json import plain_json
from medhelm.results.leaderboard import leaderboard_of, read_inputs
from medhelm.results.options import USUAL, BoardOptions
from medhelm.storage.damage import no_damaged_runs
from medhelm.storage.json_form import JsonForm, Nested, key_map
from medhelm.storage.releases import basis_of, board_bytes, read_release, write_release
from medhelm.storage.store import open_store

CURRENT = "current"
"""Name of the store's current leaderboard, in place of a release."""


OPTIONS = JsonForm(
    BoardOptions,
    key_map("scoring=rule tier suite resample shared rank_baselines completers_only comparable_only panel"),
    nested={
        "suite": Nested(str, lambda suite: suite),
        "panel": Nested(lambda names: list(names) or None, lambda names: tuple(names or ())),
    },
    not_stored=("wanted", "pricing", "clinicians", "benchmark_folders", "short_names"),
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


def leaderboard_json(store: Path, options: BoardOptions) -> dict[str, Any]:
    """Return the leaderboard of a store, as `leaderboard --format json` prints it."""
    return leaderboard_report.as_json(leaderboard_of([store], options))


def released_options(release: Release, scratch: Path, folders: Sequence[Path] = ()) -> BoardOptions:
    """Return the options of a release; the file of its suite is written into `scratch`."""
    # Releases that do not say so were made when baselines always competed, failures were always left out, and a column
    # held everything with the same metric and jury.
    before = {"rank_baselines": True, "completers_only": True, "comparable_only": False}
    try:
        options = OPTIONS.read({**before, **release.options}, benchmark_folders=tuple(folders))
        check_options(options)
        suite, _ = as_path(options.suite, "suite"), as_names(options.panel, "panel")
    except (TypeError, UserError) as error:
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


# --- tables and JSON --------------------------------------------------------------------------------------------------


def release_as_json(release: Release) -> dict[str, Any]:
    """Return a release without its leaderboard, which has its own file."""
    content = plain_json(release)
    del content["board"]
    models = [row["model"] for row in release.leaderboard["models"]]
    return {**content, "models": models, "n_runs": len(release.provenance)}


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
