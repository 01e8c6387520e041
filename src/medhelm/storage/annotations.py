"""Notes, tags and stars that people give to instances and completions: `STORE/annotations.jsonl`, one a line.

A line that cannot be read stays in the file and is left out of what is shown. See `io.line_files`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from medhelm.errors import UserError
from medhelm.io.line_files import locked, read_lines, replace_lines
from medhelm.storage.json_form import TUPLE, JsonForm, key_map
from medhelm.storage.store import Store

NAME = "annotations.jsonl"
"""Name of the file."""

MOST_OF_NOTE, MOST_OF_AUTHOR, MOST_OF_TAG, MOST_TAGS = 4_000, 80, 40, 12
"""Most characters of a note, of an author and of a tag, and most tags of one annotation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A note, tags or a star of one person for an instance, or for a model's completion of it."""

    id: str
    """Random id, 16 hexadecimal digits."""
    time: str
    """Time it was made, ISO 8601, UTC."""
    benchmark: str
    """Id of the benchmark."""
    instance_id: str
    """Id of the instance."""
    model: str
    """Name of the model whose completion it is about; empty for the instance itself."""
    author: str
    """Name of its author, as given; empty if none was given."""
    note: str
    """The note; empty for tags or a star alone."""
    tags: tuple[str, ...]
    """Tags such as `wrong key`, in the order given."""
    is_starred: bool
    """True for a star."""


ANNOTATION = JsonForm(
    Annotation,
    key_map("id time benchmark instance_id model author note tags starred=is_starred"),
    nested={"tags": TUPLE},
)
"""The JSON form of a line."""


def new_annotation(
    benchmark: str,
    instance_id: str,
    *,
    model: str = "",
    author: str = "",
    note: str = "",
    tags: Collection[str] = (),
    is_starred: bool = False,
) -> Annotation:
    """Return an annotation of now. Raises: UserError if it is empty or too long."""
    note, author = note.strip().replace("\r\n", "\n"), " ".join(author.split())
    kept = tuple(dict.fromkeys(filter(None, (" ".join(tag.split()) for tag in tags))))
    if not (note or kept or is_starred):
        raise UserError("An annotation needs a note, a tag or a star. Nothing was saved.")
    for name, length, most in (
        ("note", len(note), MOST_OF_NOTE),
        ("name of the author", len(author), MOST_OF_AUTHOR),
        ("longest tag", max(map(len, kept), default=0), MOST_OF_TAG),
    ):
        if length > most:
            raise UserError(f"The {name} has {length:,} characters; at most {most:,} are allowed. Nothing was saved.")
    if len(kept) > MOST_TAGS:
        raise UserError(f"There are {len(kept)} tags; at most {MOST_TAGS} are allowed. Nothing was saved.")
    return Annotation(
        id=secrets.token_hex(8),
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        benchmark=benchmark,
        instance_id=instance_id,
        model=model,
        author=author,
        note=note,
        tags=kept,
        is_starred=is_starred,
    )


def read_annotations(store: Store) -> list[Annotation]:
    """Return all annotations of a store, the earliest first. Raises: StoreError if the file cannot be read."""
    return [one for _, one in _lines(store) if one]


def annotations_of(store: Store, benchmark: str) -> dict[str, list[Annotation]]:
    """Return annotated instance of a benchmark -> its annotations, the earliest first. Raises: StoreError."""
    found: dict[str, list[Annotation]] = {}
    for one in read_annotations(store):
        if one.benchmark == benchmark:
            found.setdefault(one.instance_id, []).append(one)
    return found


def add_annotation(store: Store, annotation: Annotation) -> None:
    """Add an annotation. Raises: StoreError."""
    file = annotations_file(store)
    with locked(store.folder, "annotations", file):
        replace_lines(store.folder, file, [*read_lines(file), json.dumps(ANNOTATION.write(annotation))])


def remove_annotations(store: Store, is_removed: Callable[[Annotation], bool]) -> int:
    """Remove the annotations for which a function returns True, and return their number. Raises: StoreError."""
    file = annotations_file(store)
    with locked(store.folder, "annotations", file):
        lines = list(_lines(store))
        kept = [line for line, one in lines if one is None or not is_removed(one)]
        if len(kept) < len(lines):
            replace_lines(store.folder, file, kept)
    return len(lines) - len(kept)


def annotations_file(store: Store) -> Path:
    """Return the path of the file; it may be missing."""
    return store.folder / NAME


def _lines(store: Store) -> Iterator[tuple[str, Annotation | None]]:
    """Yield the lines of the file, each with its annotation; None for a line that cannot be read."""
    for line in read_lines(annotations_file(store)):
        yield line, _parsed(line)


def _parsed(line: str) -> Annotation | None:
    with suppress(ValueError, KeyError, TypeError):
        content = json.loads(line)
        found = ANNOTATION.read({key: content[key] for key in ANNOTATION.keys})
        if all(isinstance(tag, str) for tag in found.tags):
            return found
    return None
