"""What a report and a card say beside their numbers: the release they come from, the judges, where the data went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from medhelm.analysis.jury.judges import JudgeSummary
from medhelm.domain import Run
from medhelm.domain.result import CellProvenance, Release
from medhelm.results.formats.tables import decimal
from medhelm.results.jury import analyze_judges
from medhelm.results.options import BoardOptions
from medhelm.results.releases import find_releases
from medhelm.results.runs.selection import without_address
from medhelm.storage.releases import file_digest, is_signed, release_signer
from medhelm.storage.store import open_store, stored_folder

# --- release ----------------------------------------------------------------------------------------------------------


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
    """Who signed it, and whether that was checked, in words."""

    def __str__(self) -> str:
        """Return the release in one line."""
        return f"Release {self.name} of {self.created[:10]}, sha256 {self.sha256[:12]}, {self.signature}."


NO_RELEASE = "These results are in no release: `medhelm release NAME` freezes them."
"""Said of results that no release holds."""

Runs = Mapping[tuple[str, str], Run]
"""Model and benchmark -> the run that counts."""


def source_release(store: Path, runs: Runs, options: BoardOptions, signers: Path | None = None) -> SourceRelease | None:
    """Return the latest release of a store that holds exactly these runs, scored by the same rule; None without one.

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
                signature=_signature(store, release.name, signers),
            )
    return None


def _holds(release: Release, runs: Runs) -> bool:
    """Return whether these runs are those of a release, byte for byte."""
    frozen = {(one.model, one.benchmark): one for one in release.provenance}
    return frozen.keys() == runs.keys() and all(_is_same(frozen[key], run) for key, run in runs.items())


def _is_same(frozen: CellProvenance, run: Run) -> bool:
    is_same_run = (frozen.run_id, frozen.started) == (run.id, run.started)
    return is_same_run and frozen.records == file_digest(stored_folder(run) / "records.parquet")


def _signature(store: Path, name: str, signers: Path | None) -> str:
    if signers is not None:
        return f"signed by {' with '.join(filter(None, release_signer(open_store(store), name, signers)))}, verified"
    return "signed, not checked here" if is_signed(open_store(store), name) else "not signed"


# --- judges -----------------------------------------------------------------------------------------------------------


def judge_sentences(stores: Sequence[Path], runs: Runs, options: BoardOptions) -> list[str]:
    """Return who judged these runs, and whether they can be relied on, in sentences; none without judges."""
    judged = {benchmark for (_, benchmark), run in runs.items() if run.jury_result}
    if not judged:
        return []
    found = analyze_judges(stores, sorted(judged), replace(options, clinicians=None))
    sentences = [*(_judge_sentence(judge) for judge in found.overall.judges), *found.verdict]
    return [without_address(text) for text in sentences]


def _judge_sentence(judge: JudgeSummary) -> str:
    """Return what one judge did, and how it graded."""
    tally = judge.tally
    parts = [f"{judge.judge}: {tally.expected - tally.failed:,} of {tally.expected:,} judgments"]
    if judge.severity:
        side = "lower" if judge.severity.value > 0 else "higher"
        parts.append(f"grades {decimal(abs(judge.severity.value), 2)} {side} than the others")
    if judge.agreement and judge.agreement.value is not None:
        parts.append(f"correlation with the others {decimal(judge.agreement.value, 2)}")
    if judge.self_preference and judge.self_preference.low > 0:
        parts.append(f"favors its own family by {decimal(judge.self_preference.value, 2)}")
    return f"{', '.join(parts)}."


# --- data -------------------------------------------------------------------------------------------------------------


def data_sentences(stores: Sequence[Path]) -> list[str]:
    """Return where the data of stores went, in sentences; none where nothing is known about it."""
    del stores
    return []
