"""Stores frozen ratings by clinicians: STORE/ratings/NAME/{ratings.csv, study.json}, written once.

`ratings.csv` has one row for each rater and completion, with numbers, names and digests only: no text of a completion,
and no comment. `study.json` is the study's card: who rated what, how it was blinded, and the digest of the rows. Both
change only if rated instances are deleted from the store.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from medhelm.domain.completion import strip_reasoning
from medhelm.domain.study import CardCriterion, CardDesign, CardInstrument, CardRater, StudyCard
from medhelm.domain.text import listed, plural
from medhelm.errors import StoreError, UserError
from medhelm.io.files import file_mask, open_file, read_confidential
from medhelm.io.folders import atomic_folder
from medhelm.io.spreadsheets import guarded, unguarded
from medhelm.storage.json_form import TUPLE, JsonForm, key_map
from medhelm.storage.store import Store, disk_errors

FORMAT = 1
"""Version of the files of a study."""

RATINGS, CARD = "ratings.csv", "study.json"
"""The files of a study."""

FIRST, LAST = ("rater", "benchmark", "instance_id", "model"), ("probability", "completion_sha256")
"""Columns of `ratings.csv` before and after the criteria."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
"""Valid names of studies: file names on every system."""


INSTRUMENT = JsonForm(
    CardInstrument,
    key_map("name title version digest is_rubric criteria"),
    nested={"criteria": JsonForm(CardCriterion, key_map("low high higher_is_better question")).by_name},
)

STUDY = JsonForm(
    StudyCard,
    key_map("name title purpose owner created closed instrument benchmarks models raters design blinding deviations")
    | key_map("digest"),
    nested={
        "instrument": INSTRUMENT.one,
        "benchmarks": TUPLE,
        "models": TUPLE,
        "raters": JsonForm(CardRater, key_map("id role n_ratings")).many,
        "design": JsonForm(CardDesign, key_map("n_cases n_shared n_repeated n_calibration seed precision")).one,
        "blinding": TUPLE,
        "deviations": TUPLE,
    },
)
"""The JSON form of a study's card."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRating:
    """One rater on one completion, as it is frozen."""

    rater: str
    """Pseudonym of the rater."""
    benchmark: str
    """Name of the benchmark."""
    instance_id: str
    """Id of the instance."""
    model: str
    """Name of the model in its run."""
    grades: Mapping[str, float | None]
    """Criterion -> grade; None, or missing, if the rater gave none."""
    completion_sha256: str
    """`completion_digest` of what was rated."""
    probability: float | None = None
    """Probability with which the completion was drawn to be rated; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRatings:
    """The frozen ratings of a study."""

    path: Path
    """Its `ratings.csv`."""
    card: StudyCard
    """The study's card."""
    rows: Sequence[StoredRating]
    """All ratings, in the order of the file."""


def completion_digest(completion: str) -> str:
    """Return the sha256 of a completion without reasoning, in hex.

    >>> completion_digest("<think>A or B?</think>B") == completion_digest("B")
    True
    """
    return hashlib.sha256(strip_reasoning(completion).encode("utf-8", "replace")).hexdigest()


# --- writing ----------------------------------------------------------------------------------------------------------


def freeze_ratings(store: Store, card: StudyCard, rows: Iterable[StoredRating]) -> StoredRatings:
    """Write the ratings of a study, once, for its owner alone, and return them.

    The digest, benchmarks, models and number of ratings of each rater are set here. An encrypted store encrypts them.
    Raises: UserError naming every wrong rating, or for a name that is not valid or already in use; StoreError.
    """
    rows = tuple(rows)
    if not _NAME.fullmatch(card.name):
        raise UserError(
            f"a study cannot be named `{card.name}`. Use at most 80 letters, digits, dots, dashes and underscores."
        )
    folder = _folder(store) / card.name
    if folder.exists():
        raise UserError(f"{store.folder} already has ratings named `{card.name}`, and they never change.")
    if problems := list(_problems(card, rows)):
        raise UserError("\n".join([*problems, "Nothing was frozen."]))
    return _write(store, card, rows, replace_old=False)


def copy_ratings(store: Store, target: Store) -> None:
    """Copy all frozen ratings to a store without any. Raises: OSError; StoreError."""
    for found in stored_ratings(store):
        _write(target, found.card, found.rows, replace_old=False)


def remove_rated_instances(store: Store, benchmark: str, instance_ids: Collection[str] | None) -> int:
    """Delete the ratings of some instances of a benchmark, or of all of it, and return how many.

    The digest is renewed, and the card says how many ratings were deleted.
    Raises: StoreError, also if a study cannot be read.
    """
    n_removed = 0
    for found in list(_read_all(store)):
        if isinstance(found, str):
            raise StoreError(f"{found} Nothing was deleted from it.")
        is_gone = [
            row.benchmark == benchmark and (instance_ids is None or row.instance_id in instance_ids)
            for row in found.rows
        ]
        gone = [row for row, removed in zip(found.rows, is_gone, strict=True) if removed]
        if not gone:
            continue
        n_instances = len({row.instance_id for row in gone})
        text = (
            f"On {datetime.now(UTC).date()}, {plural(len(gone), 'rating')} of {plural(n_instances, 'instance')} of "
            f"{benchmark} were deleted together with the instances."
        )
        card = replace(found.card, deviations=(*found.card.deviations, text))
        kept = [row for row, removed in zip(found.rows, is_gone, strict=True) if not removed]
        _write(store, card, kept, replace_old=True)
        n_removed += len(gone)
    return n_removed


def _problems(card: StudyCard, rows: Sequence[StoredRating]) -> Iterator[str]:
    """Yield what is wrong with ratings."""
    if not rows:
        yield f"{card.name}: the study has no ratings."
    if taken := card.instrument.criteria.keys() & {*FIRST, *LAST}:
        yield f"{card.instrument.name}: a criterion cannot be named {listed(sorted(taken))}."
    criteria, raters = card.instrument.criteria, {rater.id for rater in card.raters}
    places = Counter((row.rater, row.benchmark, row.model, row.instance_id) for row in rows)
    for row in rows:
        about = f"{row.rater} on {row.benchmark} {row.instance_id} of {row.model}"
        if row.rater not in raters:
            yield f"{about}: the card has no rater `{row.rater}`."
        if places.pop((row.rater, row.benchmark, row.model, row.instance_id), 1) > 1:
            yield f"{about}: rated more than once. Keep one rating."
        if row.probability is not None and not 0 < row.probability <= 1:
            yield f"{about}: the probability is {row.probability:g}; it must be above 0 and at most 1."
        for name, grade in row.grades.items():
            scale = criteria.get(name)
            if scale is None:
                yield f"{about}: the instrument has no criterion `{name}`."
            elif grade is not None and not scale.low <= grade <= scale.high:  # also for nan
                yield f"{about}: {name} is {grade:g}; it must be from {scale.low:g} to {scale.high:g}."


def _write(store: Store, card: StudyCard, rows: Sequence[StoredRating], *, replace_old: bool) -> StoredRatings:
    """Write the files of a study."""
    content = _csv(card, rows)
    counts = Counter(row.rater for row in rows)
    card = replace(
        card,
        benchmarks=tuple(dict.fromkeys(row.benchmark for row in rows)),
        models=tuple(dict.fromkeys(row.model for row in rows)),
        raters=tuple(replace(rater, n_ratings=counts[rater.id]) for rater in card.raters),
        digest=hashlib.sha256(content).hexdigest(),
    )
    about = {"medhelm_study": FORMAT, **STUDY.write(card)}
    files = {RATINGS: content, CARD: (json.dumps(about, indent=2, ensure_ascii=False) + "\n").encode()}
    folder = _folder(store) / card.name
    with (
        disk_errors(folder, "Nothing was frozen."),
        atomic_folder(folder, replace=replace_old, durable=True) as new,
    ):
        for name, own in files.items():
            with open_file(new / name, "wb") as file:
                file.write(own)
            (new / name).chmod(0o660 & ~file_mask(store.folder))
    return StoredRatings(path=folder / RATINGS, card=card, rows=tuple(rows))


def _csv(card: StudyCard, rows: Sequence[StoredRating]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text)  # ends lines with CRLF, and so quotes both characters
    writer.writerow([*FIRST, *card.instrument.criteria, *LAST])
    for row in rows:
        names = map(guarded, (row.rater, row.benchmark, row.instance_id, row.model))
        grades = (_number(row.grades.get(name)) for name in card.instrument.criteria)
        writer.writerow([*names, *grades, _number(row.probability), row.completion_sha256])
    return text.getvalue().encode()


def _number(value: float | None) -> str:
    """Return the shortest text of a number that is read again as the same one."""
    return "" if value is None else str(int(value)) if value == int(value) else repr(float(value))


# --- reading ----------------------------------------------------------------------------------------------------------


def stored_ratings(store: Store) -> list[StoredRatings]:
    """Return the frozen ratings of a store, by name; without damaged ones, which `damaged_ratings` names."""
    return [found for found in _read_all(store) if not isinstance(found, str)]


def damaged_ratings(store: Store) -> list[str]:
    """Return a sentence on each study whose ratings cannot be read, or were changed after they were frozen."""
    return [found for found in _read_all(store) if isinstance(found, str)]


def ratings_names(store: Store) -> list[str]:
    """Return the names of all frozen studies of a store, damaged ones included."""
    return sorted(path.parent.name for path in _folder(store).glob(f"[!.]*/{CARD}"))


def _read_all(store: Store) -> Iterator[StoredRatings | str]:
    """Yield the ratings of each study, or why they cannot be used."""
    for name in ratings_names(store):
        folder = _folder(store) / name
        try:
            yield _read(folder)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            why = getattr(error, "strerror", None) or error
            yield f"The ratings in {folder} are not used: {why}. Restore the folder from a copy."


def _read(folder: Path) -> StoredRatings:
    """Read a study. Raises: OSError, ValueError, KeyError, TypeError or AttributeError if it is damaged."""
    about: dict[str, Any] = json.loads(read_confidential(folder / CARD))
    if (version := about.pop("medhelm_study")) != FORMAT:
        raise ValueError(f"{CARD} has version {version!r}; this version of medhelm reads {FORMAT}")
    card = STUDY.read(about)
    if card.name != folder.name:
        raise ValueError(f"its card is that of `{card.name}`")
    content = read_confidential(folder / RATINGS).encode()
    if hashlib.sha256(content).hexdigest() != card.digest:
        raise ValueError(f"{RATINGS} was changed after it was frozen, because its sha256 is not that in {CARD}")
    rows = _parsed_rows(content.decode(), card.instrument.criteria)
    return StoredRatings(path=folder / RATINGS, card=card, rows=rows)


def _parsed_rows(text: str, criteria: Collection[str]) -> tuple[StoredRating, ...]:
    """Return the ratings in the text of a file that `_csv` wrote."""
    found = []
    for cells in csv.DictReader(io.StringIO(text, newline="")):
        rater, benchmark, instance_id, model = (unguarded(cells[name]) for name in FIRST)
        found.append(
            StoredRating(
                rater=rater,
                benchmark=benchmark,
                instance_id=instance_id,
                model=model,
                grades={name: _value(cells[name]) for name in criteria},
                probability=_value(cells["probability"]),
                completion_sha256=cells["completion_sha256"],
            )
        )
    return tuple(found)


def _value(text: str) -> float | None:
    value = float(text) if text else None
    if value is not None and not math.isfinite(value):
        raise ValueError(f"{text} is not a number")
    return value


def _folder(store: Store) -> Path:
    return store.folder / "ratings"
