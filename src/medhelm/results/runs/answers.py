"""Stored prompts: options of choice questions, the option that each completion names, and texts.

The store keeps texts and scores; the option is read from the text by the reader of the metrics. What was read is kept
in memory for each file of records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medhelm.benchmarks.prompts import LETTERS
from medhelm.domain import Benchmark, Instance, Reference, Run
from medhelm.domain.completion import strip_reasoning
from medhelm.domain.variant import ANSWER_AFTER
from medhelm.io.files import address
from medhelm.io.parquet import connect, sql_path
from medhelm.scoring.answers.text import final_answer
from medhelm.scoring.metric import too_long
from medhelm.scoring.metrics import METRICS
from medhelm.scoring.metrics.matching import READS_OPTION
from medhelm.storage.runs import read_prompt_rows
from medhelm.storage.store import stored_folder

if TYPE_CHECKING:
    import duckdb

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


def read_options(prompts: Sequence[Path], definition: Benchmark | None, metric: str) -> Mapping[str, Options]:
    """Read the options of the instances in these files, by id; instances without options are left out.

    Empty for a metric that reads no option. `definition`: that of the benchmark, if known.
    """
    known = METRICS.if_usable(metric)
    if known and (known.reads is None or known.reads.answer != READS_OPTION.answer):
        return {}
    files = tuple((path, path.stat().st_mtime_ns) for path in prompts if path.is_file())
    return _options(files, definition.choice_labels if definition else "")


@lru_cache(maxsize=64)
def _options(files: Sequence[tuple[Path, int]], form: str) -> Mapping[str, Options]:
    """Read the options. `form`: whether letters or texts are their names; empty: as the first prompt has them."""
    found: dict[str, Options] = {}
    for path, _ in files:
        named = form or _form_in(path)
        rows = read_prompt_rows(path, 'instance_id, choices, "references"', "WHERE choices <> '[]'")
        for name, choices, references in rows or ():
            found.setdefault(name, _made(json.loads(choices), json.loads(references), named))
    return found


def _form_in(path: Path) -> str:
    """Return the form of the names of options in the first prompt that has any; empty without one."""
    for row in read_prompt_rows(path, "messages, choices", "WHERE choices <> '[]' LIMIT 1") or ():
        messages, choices = map(json.loads, row)
        labels = option_labels(None, {"messages": messages, "choices": choices})
        return "texts" if labels == choices else "letters"
    return ""


def _made(texts: Sequence[str], references: Sequence[Mapping[str, Any]], form: str) -> Options:
    labels = texts if form == "texts" else LETTERS[: len(texts)]
    right = {one["text"].strip() for one in references if one["correct"]}
    correct = [label for label, text in zip(labels, texts, strict=False) if text.strip() in right]
    return Options(tuple(labels), tuple(texts), tuple(correct))


def option_labels(definition: Benchmark | None, prompt: Mapping[str, Any]) -> list[str]:
    """Return the names of the options of a stored prompt: letters, or their texts; none for an open question.

    Without a definition, texts are the names if each is a line of the prompt, without a letter before it.
    """
    choices: list[str] = prompt.get("choices", [])
    letters = list(LETTERS[: len(choices)])
    if definition is not None:
        return choices if definition.choice_labels == "texts" else letters
    lines = {line.strip() for message in prompt.get("messages", []) for line in message["content"].splitlines()}
    is_named_by_text = bool(choices) and len(letters) == len(choices) and lines.issuperset(map(str.strip, choices))
    return choices if is_named_by_text or len(letters) < len(choices) else letters


def option_reader(metric: str, prompt: Mapping[str, Any], labels: Sequence[str]) -> Callable[[str], str | None]:
    """Return the function that finds the label of the option that a completion names, with the reader of the metric.

    It returns "" if the completion names none, and None for an open question or a metric that reads no option.
    """
    choices = tuple(prompt.get("choices", ()))
    known = METRICS.if_usable(metric)
    reader = known.reads if known else READS_OPTION
    if not choices or len(labels) != len(choices) or reader is None or reader.answer != READS_OPTION.answer:
        return lambda _: None
    references = tuple(Reference(one["text"], one["correct"]) for one in prompt.get("references", ()))
    question = Instance(id="", fields={}, references=references, choices=choices, labels=tuple(labels))

    def read(text: str) -> str | None:
        if too_long(text):
            return None
        found = reader.find(text, question)
        return labels[found] if isinstance(found, int) else ""

    return read


# --- answers ----------------------------------------------------------------------------------------------------------

_known: dict[tuple[str, int], dict[str, str | None]] = {}
"""File of records and its time -> instance -> label of the option that its completion names; None without one."""


def read_answers(
    runs: Mapping[str, Run], options: Mapping[str, Options], ids: Collection[str] | None = None
) -> dict[str, dict[str, str]]:
    """Return model -> instance -> label of the option that its completion names; empty if it names none.

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
    readers: dict[str, Callable[[str], str | None]] = {}
    for model, instance_id, text in _completions(missing, wanted, ids is None):
        if instance_id in options and instance_id not in kept[model]:
            if instance_id not in readers:
                own = options[instance_id]
                readers[instance_id] = option_reader("", {"choices": own.texts}, own.labels)
            mark = runs[model].settings.get(ANSWER_AFTER)
            marked = final_answer(text, mark) if mark else None
            kept[model][instance_id] = readers[instance_id](strip_reasoning(text) if marked is None else marked)
    for model in missing:
        kept[model] |= dict.fromkeys(wanted - kept[model].keys())
    found = {model: {name: own[name] for name in wanted} for model, own in kept.items()}
    return {model: {name: answer for name, answer in own.items() if answer is not None} for model, own in found.items()}


def _completions(files: Mapping[str, Path], ids: Collection[str], every: bool) -> Iterable[tuple[str, str, str]]:
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


# --- texts of prompts -------------------------------------------------------------------------------------------------


def ids_with_prompt_text(connection: duckdb.DuckDBPyConnection, files: Sequence[Path], text: str) -> Iterator[str]:
    """Yield the ids of instances whose prompt, choices or references contain a text in any case.

    Prompts are stored as JSON, whose keys must not match. A part of the text that JSON never escapes selects the rows
    that are parsed. DuckDB refuses a lone surrogate, which JSON of Python can hold: such rows are parsed here.
    """
    pattern = re.escape(text)
    plain = max(re.findall(r"[ !#-\[\]-~]+", text), key=len, default="")
    for path in files:
        if not path.is_file():
            continue
        cursor = connection.execute(
            f'SELECT instance_id, texts IS NULL, messages, choices, "references" FROM ('  # noqa: S608 - our own file
            f"SELECT *, {_PROMPT_TEXTS} AS texts FROM read_parquet({sql_path(path)}) "
            "WHERE regexp_matches(concat(messages, choices, \"references\"), ?, 'i')) "
            "WHERE texts IS NULL OR regexp_matches(texts, ?, 'i')",
            [re.escape(plain), pattern],
        )
        while rows := cursor.fetchmany(1000):
            for instance_id, is_unread, *columns in rows:
                if not is_unread or re.search(pattern, "\0".join(_texts(*columns)), re.IGNORECASE):
                    yield instance_id


_PROMPT_TEXTS = """
CASE WHEN json_valid(messages) AND json_valid(choices) AND json_valid("references") THEN concat_ws(chr(0),
    array_to_string(json_extract_string(messages, '$[*].content'), chr(0)),
    array_to_string(json_extract_string(choices, '$[*]'), chr(0)),
    array_to_string(json_extract_string("references", '$[*].text'), chr(0))) END
"""
"""SQL of all texts of a prompt, separated by NUL; NULL if DuckDB cannot parse them."""


def _texts(messages: str, choices: str, references: str) -> list[str]:
    """Parse all texts of a prompt."""
    contents = [one["content"] for one in json.loads(messages)]
    return [*contents, *json.loads(choices), *(one["text"] for one in json.loads(references))]


def read_prompts(files: Sequence[Path], instance_ids: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    """Read the messages of these instances and of the first two in each file, by id; others are left out."""
    found: dict[str, list[dict[str, str]]] = {}
    condition = "WHERE instance_id IN (SELECT unnest(?::VARCHAR[])) OR position < 2"
    for path in files:
        rows = read_prompt_rows(path, "instance_id, messages", condition, list(instance_ids))
        found = {instance_id: json.loads(messages) for instance_id, messages in rows or ()} | found
    return found
