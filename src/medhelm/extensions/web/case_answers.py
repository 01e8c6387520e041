"""Options of choice questions, and the option that each completion names.

The store keeps texts and scores; the option is read from the text by the reader of the metrics. What was read is kept
in memory for each file of records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from medhelm.benchmarks.prompts import LETTERS
from medhelm.domain import Run
from medhelm.domain.completion import strip_reasoning
from medhelm.io.files import address
from medhelm.io.parquet import connect, sql_path
from medhelm.scoring.answers.choice import find_choice
from medhelm.storage.store import stored_folder

MOST_FILES = 2_000
"""Files of records whose answers are kept in memory; then all are dropped."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one choice question."""

    labels: tuple[str, ...]
    """Names of the options in completions: letters, or their texts."""
    texts: tuple[str, ...]
    """Texts of the options, in the order shown."""
    correct: tuple[str, ...]
    """Labels of the correct options."""

    @property
    def have_letters(self) -> bool:
        """True if completions name the options by letters."""
        return self.labels != self.texts

    def text_of(self, label: str) -> str:
        """Return the text of the option with this label."""
        return self.texts[self.labels.index(label)]


def read_options(prompts: Sequence[Path]) -> Mapping[str, Options]:
    """Read the options of the instances in these files, by id; instances without options are left out."""
    return _options(tuple((path, path.stat().st_mtime_ns) for path in prompts if path.is_file()))


@lru_cache(maxsize=64)
def _options(files: Sequence[tuple[Path, int]]) -> Mapping[str, Options]:
    found: dict[str, Options] = {}
    with connect() as connection:
        for path, _ in files:
            table = f"read_parquet({sql_path(path)})"
            rows = connection.execute(
                f"SELECT instance_id, choices, \"references\" FROM {table} WHERE choices <> '[]'"  # noqa: S608
            ).fetchall()
            if not rows:
                continue
            first = rows[0]
            ((messages,),) = connection.execute(
                f"SELECT messages FROM {table} WHERE instance_id = ? LIMIT 1",  # noqa: S608 - our own file
                [first[0]],
            ).fetchall()
            lettered = has_letters([one["content"] for one in json.loads(messages)], json.loads(first[1]))
            found |= {name: _made(choices, references, lettered) for name, choices, references in rows} | found
    return found


def _made(choices: str, references: str, lettered: bool) -> Options:
    texts = tuple(json.loads(choices))
    labels = LETTERS[: len(texts)] if lettered else texts
    right = {one["text"].strip() for one in json.loads(references) if one["correct"]}
    return Options(
        labels, texts, tuple(label for label, text in zip(labels, texts, strict=False) if text.strip() in right)
    )


def has_letters(messages: Iterable[str], choices: Sequence[str]) -> bool:
    """Return True if a prompt names its options by letters, as in "A. aspirin".

    >>> has_letters(["Which?\\nA. aspirin\\nB. heparin"], ["aspirin", "heparin"])
    True
    >>> has_letters(["Answer yes or no."], ["yes", "no"])
    False
    """
    if not choices or len(choices) > len(LETTERS):
        return False
    option = re.compile(r"(?:^|\s)\W?A\W{1,3}\s*" + re.escape(choices[0].strip()[:60]))
    return any(option.search(text) for text in messages)


# --- answers ----------------------------------------------------------------------------------------------------------

UNREADABLE = ""
"""Answer of a completion that names no option, or several."""

_known: dict[tuple[str, int], dict[str, str | None]] = {}
"""File of records and its time -> instance -> label of the option that its completion names; None without one."""


def read_answers(
    runs: Mapping[str, Run], options: Mapping[str, Options], ids: Collection[str] | None = None
) -> dict[str, dict[str, str]]:
    """Return model -> instance -> label of the option that its completion names; `UNREADABLE` if it names none.

    Requests without a completion are left out. `ids`: the instances to read; None for all that have options.
    """
    wanted = set(options) if ids is None else set(ids) & options.keys()
    if not wanted:
        return {model: {} for model in runs}
    if len(_known) > MOST_FILES:
        _known.clear()
    files = {model: stored_folder(run) / "records.parquet" for model, run in runs.items()}
    kept = {model: _known.setdefault((str(path), path.stat().st_mtime_ns), {}) for model, path in files.items()}
    missing = {model: path for model, path in files.items() if not wanted <= kept[model].keys()}
    for model, instance_id, text in _texts(missing, wanted, ids is None):
        if instance_id in options and instance_id not in kept[model]:
            kept[model][instance_id] = _answer(text, options[instance_id])
    for model in missing:
        kept[model] |= dict.fromkeys(wanted - kept[model].keys())
    found = {model: {name: own[name] for name in wanted} for model, own in kept.items()}
    return {model: {name: answer for name, answer in own.items() if answer is not None} for model, own in found.items()}


def _answer(text: str, options: Options) -> str:
    place = find_choice(strip_reasoning(text), options.labels, options.texts)
    return UNREADABLE if place is None else options.labels[place]


def _texts(files: Mapping[str, Path], ids: Collection[str], every: bool) -> Iterable[tuple[str, str, str]]:
    """Yield model, instance and completion."""
    models = {address(path): model for model, path in files.items()}
    if not models:
        return
    condition = "" if every else "AND instance_id IN (SELECT unnest(?::VARCHAR[]))"
    with connect() as connection:
        cursor = connection.execute(
            f"SELECT filename, instance_id, completion FROM read_parquet([{', '.join(map(sql_path, models))}], "  # noqa: S608
            f"union_by_name = true, filename = true) WHERE completion IS NOT NULL {condition}",
            [] if every else [list(ids)],
        )
        while rows := cursor.fetchmany(1000):
            for file, instance_id, text in rows:
                yield models[file], instance_id, text
