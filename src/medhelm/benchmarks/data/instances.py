"""Convert rows of a table to instances of a benchmark.

Columns with conversations or criteria hold JSON: a list, or text with a list, as in a cell of a table.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import isnan

from medhelm.benchmarks.data.readers import meaning
from medhelm.benchmarks.definition import TEMPLATES, missing_columns_error
from medhelm.benchmarks.prompts import LETTERS, OPTIONS, placeholders
from medhelm.domain import Benchmark, Criterion, Instance, Message, Reference, needs_answer
from medhelm.domain.text import value_in_words
from medhelm.io.rows import BrokenCell, PlacedRow, RowError, number

LONGEST_CLUSTER = 64
"""Maximum characters of a cluster's name; longer texts are hashed."""

_ABSENT = object()
_SEPARATOR = re.compile(r"[,;\n]")
"""Separators between the labels of a set in a text."""


class InstanceReader:
    """Reads the rows of one benchmark in order.

    A name in a definition is a field of `columns`, or else a column of the data. A dotted name is a path into nested
    data (`options.A`, `answers.0`) unless a column has exactly that name.
    """

    def __init__(self, benchmark: Benchmark, place: str) -> None:
        """`place`: path of the data, for messages."""
        self.benchmark = benchmark
        self.place = place
        self._uses = _names_in_use(benchmark)
        self._fields = tuple(name for name, use in self._uses.items() if use in TEMPLATES)
        self._metadata = tuple(dict.fromkeys([*benchmark.metadata_columns, *(one.column for one in benchmark.slices)]))
        self._needs_answer = needs_answer(
            benchmark.metrics,
            shows_reference=benchmark.rubric is None or benchmark.rubric.shows_reference,
            has_choices=bool(benchmark.choices or benchmark.choice_columns),
        )
        may_be_absent = {*benchmark.required_columns, *(benchmark.choice_columns if benchmark.choices else ())}
        if benchmark.answer.column and not self._needs_answer:
            may_be_absent.add(benchmark.answer.column)
        self._never_seen = set(may_be_absent)
        self._may_be_absent = frozenset(may_be_absent)
        self._columns: tuple[str, ...] = ()
        self._meanings = {" ".join(text.casefold().split()): found for text, found in benchmark.answer.values.items()}
        self.skipped: Counter[str] = Counter()
        """Reason -> number of rows that were skipped for it."""

    def read(self, position: int, row: Mapping[str, object]) -> Instance | None:
        """Convert the row at `position` (from 0); return None if all of it, or a required column, is empty.

        Raises DataError, or ConfigError for a placeholder of the prompt, with all missing columns; RowError if a value
        is invalid, such as an answer that is not an option.
        """
        values = self._values(row)
        benchmark = self.benchmark
        if all(_is_empty(value) for name, value in row.items() if name != benchmark.source.file_column):
            self.skipped["the row is empty"] += 1
            return None
        if lacking := [name for name in benchmark.required_columns if _is_empty(values[name])]:
            self.skipped[f"`{lacking[0]}` is empty"] += 1
            return None
        place = f"{self.place}, {row.place if isinstance(row, PlacedRow) else f'row {position + 1}'}"
        _check_cells(values, place)
        parts = [self._text(name, values, place) for name in benchmark.id_columns]
        if parts:
            place += f" (id {'/'.join(parts)})"
            if not all(parts):
                raise RowError(f"{place}: `{'`, `'.join(benchmark.id_columns)}` identifies the row, but is empty.")
        choices = self._choices(values, place)
        return Instance(
            id="/".join(parts) if parts else str(position),
            fields={name: self._text(name, values, place) for name in self._fields},
            references=self._references(values, choices, place),
            choices=choices,
            labels=(choices if benchmark.choice_labels == "texts" else LETTERS[: len(choices)]),
            cluster=_short_cluster(self._text(benchmark.cluster_column, values, place))
            if benchmark.cluster_column
            else "",
            group=self._group(values, place) if benchmark.group_column else "",
            metadata={name: _metadata_text(values[name]) for name in self._metadata},
            criteria=criteria_in(values[column], f"{place}, `{column}`")
            if (column := benchmark.criteria_column)
            else (),
            turns=self._turns(values, place) if benchmark.conversation_column else (),
        )

    def check_columns(self) -> None:
        """Raise after the last row if an optional column was in no row at all."""
        if self._never_seen:
            missing = {name: self._uses[name] for name in self._uses if name in self._never_seen}
            raise missing_columns_error(self.benchmark, missing, self._columns, self.place)

    def _values(self, row: Mapping[str, object]) -> dict[str, object]:
        """Map every name that the definition uses to its value in the row."""
        columns = self.benchmark.columns
        values = {name: _value_at(row, columns.get(name, name)) for name in self._uses}
        absent = [name for name, value in values.items() if value is _ABSENT]
        self._columns = self._columns or tuple(row)
        self._never_seen.difference_update(values.keys() - absent)
        if not self._may_be_absent.issuperset(absent):
            doubtful = self._may_be_absent - self._never_seen
            missing = {name: self._uses[name] for name in absent if name not in doubtful}
            raise missing_columns_error(self.benchmark, missing, list(row), self.place)
        values.update(dict.fromkeys(absent))
        return values

    def _text(self, name: str, values: Mapping[str, object], place: str) -> str:
        value = values[name]
        if isinstance(value, str):
            return value
        if isinstance(value, Iterable):
            kind = "an object" if isinstance(value, Mapping) else "binary" if isinstance(value, bytes) else "a list"
            fix = "Convert it to text in hooks.py, or use a dotted name under `columns`."
            raise RowError(f"{place}: `{name}` is {kind}, not text. {fix}")
        return scalar_text(value)

    def _group(self, values: Mapping[str, object], place: str) -> str:
        """Return the group of the instance. Raises RowError without one."""
        group = self._text(self.benchmark.group_column, values, place)
        if not group.strip():
            raise RowError(f"{place}: the group `{self.benchmark.group_column}` is empty; every row needs one.")
        return group

    def _turns(self, values: Mapping[str, object], place: str) -> tuple[Message, ...]:
        """Return the conversation to continue. Raises RowError without one, or for two system messages."""
        column = self.benchmark.conversation_column
        turns = turns_in(values[column], f"{place}, `{column}`")
        if self.benchmark.system and turns[0].role == "system":
            fix = "Remove one of them: models read one system message."
            raise RowError(f"{place}, `{column}`: begins with a system message, but `system` is set too. {fix}")
        return turns

    def _choices(self, values: Mapping[str, object], place: str) -> tuple[str, ...]:
        """Return the texts of the options. An empty one gets the text of `missing`, or raises RowError without it."""
        benchmark = self.benchmark
        if not benchmark.choice_columns:
            return benchmark.choices
        texts = [self._text(name, values, place) for name in benchmark.choice_columns]
        for i, text in enumerate(texts):
            if text.strip():
                continue
            if not benchmark.choices:
                fix = "Set its text with `missing` under `choices`, or skip such rows with `require`."
                raise RowError(f"{place}: the option `{benchmark.choice_columns[i]}` is empty. {fix}")
            texts[i] = benchmark.choices[i]
        return tuple(texts)

    def _references(self, values: Mapping[str, object], choices: tuple[str, ...], place: str) -> tuple[Reference, ...]:
        """Return the reference of an open question, if any; or every option, marked as correct or not."""
        answer = self.benchmark.answer
        if not answer.column:
            return ()
        if answer.form == "labels":
            text = ", ".join(_labels(values[answer.column]))
        else:
            text = self._text(answer.column, values, place)
            text = self._meanings.get(" ".join(text.casefold().split()), text)
        if not text.strip() and not self._needs_answer:
            return ()
        if not text.strip():
            fix = f"Skip such rows with `require: [{answer.column}]`, or correct the data."
            raise RowError(f"{place}: the answer `{answer.column}` is empty. {fix}")
        if not choices:
            return (Reference(text),)
        match answer.form:
            case "letter":
                correct = _options_by_letter(text, len(choices))
            case "number":
                correct = _options_by_number(text, len(choices))
            case _:
                correct = _options_by_text(text, choices)
        if not correct:
            options = self._options_in_words(choices)
            fix = self._proposed_value(text, choices)
            raise RowError(f"{place}: the answer {value_in_words(text)} is not one of the options: {options}.{fix}")
        return tuple(Reference(choice, i in correct) for i, choice in enumerate(choices))

    def _proposed_value(self, text: str, choices: tuple[str, ...]) -> str:
        """Return a sentence about the option that an answer may mean; empty if none does."""
        same = [choice for choice in choices if meaning(choice) == meaning(text)]
        if self.benchmark.answer.form != "text" or len(same) != 1:
            return ""
        return f" If it means {value_in_words(same[0])}, write `values: {{{text.strip()}: {same[0]}}}` under `answer`."

    def _options_in_words(self, choices: tuple[str, ...]) -> str:
        """Format options for a message, with the names that an answer can use."""
        names: tuple[str, ...] = {
            "letter": LETTERS,
            "number": tuple(str(i + 1) for i in range(len(choices))),
            "text": ("",) * len(choices),
        }[self.benchmark.answer.form]
        shown = zip(names, choices, strict=False)
        return ", ".join(f"{name} {value_in_words(choice)}".strip() for name, choice in shown)


def _check_cells(values: Mapping[str, object], place: str) -> None:
    """Raise RowError for cells of a spreadsheet that have an error in place of a value."""
    broken = [(name, cell) for name, cell in values.items() if isinstance(cell, BrokenCell)]
    if broken:
        places = [f" ({cell.place})" if cell.place else "" for _, cell in broken]
        said = "; ".join(
            f"`{name}` has {cell.problem}{where}" for (name, cell), where in zip(broken, places, strict=True)
        )
        raise RowError(f"{place}: {said}. Correct it in the spreadsheet and save the file again.")


def n_characters(instance: Instance) -> int:
    """Count the characters of an instance: fields, examples, conversation and criteria."""
    turns = sum(len(turn.text) for turn in (*instance.examples, *instance.turns))
    criteria = sum(len(criterion.description) for criterion in instance.criteria)
    return sum(map(len, instance.fields.values())) + turns + criteria


def _names_in_use(benchmark: Benchmark) -> dict[str, str]:
    """Map every name that the definition uses to the first key that uses it."""
    question = benchmark.rubric.question if benchmark.rubric else ""
    templates = {"prompt": benchmark.prompt, "system": benchmark.system, "rubric.question": question}
    names = [(name, use) for use, template in templates.items() for name in sorted(placeholders(template))]
    if benchmark.choices or benchmark.choice_columns:
        names = [(name, use) for name, use in names if name != OPTIONS]
    names += [(name, "choices") for name in benchmark.choice_columns]
    names += [(benchmark.answer.column, "answer")] if benchmark.answer.column else []
    names += [(name, "id") for name in benchmark.id_columns]
    names += [(benchmark.cluster_column, "cluster")] if benchmark.cluster_column else []
    names += [(benchmark.group_column, "group")] if benchmark.group_column else []
    names += [(benchmark.conversation_column, "conversation")] if benchmark.conversation_column else []
    names += [(benchmark.criteria_column, "rubric.criteria_column")] if benchmark.criteria_column else []
    names += [(name, "require") for name in benchmark.required_columns]
    names += [(name, "metadata") for name in benchmark.metadata_columns]
    names += [(one.column, "slices") for one in benchmark.slices]
    uses: dict[str, str] = {}
    for name, use in names:
        uses.setdefault(name, use)
    return uses


def _value_at(row: Mapping[str, object], column: str) -> object:
    """Return the value of a column or a path into nested data; `_ABSENT` if there is none."""
    if column in row:
        return row[column]
    value: object = row
    for part in column.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            name = _same_name(column, row)
            return row[name] if name is not None else _ABSENT
    return value


def _same_name(column: str, names: Iterable[str]) -> str | None:
    """Return the only name that differs from a column's in spaces and line breaks alone; None if there is none."""
    wanted = column.split()
    found = [name for name in names if name.split() == wanted]
    return found[0] if len(found) == 1 else None


def _is_empty(value: object) -> bool:
    """Return True if a value is None, has no entries, or is white space only."""
    if isinstance(value, Collection) and not isinstance(value, str):
        return not value
    return not scalar_text(value).strip()


def scalar_text(value: object) -> str:
    """Convert a value to text. None, and NaN, which data frames write for it, become empty."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float() if isnan(value):
            return ""
        case _:
            return str(value)


def _labels(value: object) -> list[str]:
    """Return the distinct labels of a set, in order: entries of a list, or of a text with separators."""
    entries = map(scalar_text, value) if isinstance(value, list | tuple) else _SEPARATOR.split(scalar_text(value))
    return list(dict.fromkeys(label for entry in entries if (label := entry.strip())))


def _short_cluster(cluster: str) -> str:
    """Return a cluster name as it is stored with every record. A long one, such as a note, is replaced by its hash.

    >>> _short_cluster("patient 7"), len(_short_cluster("a long note " * 20))
    ('patient 7', 32)
    """
    if len(cluster) <= LONGEST_CLUSTER:
        return cluster
    return hashlib.blake2b(cluster.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _metadata_text(value: object) -> str:
    """Convert a value for metrics: nested data to JSON, everything else to text."""
    nested = isinstance(value, list | tuple | Mapping)
    return json.dumps(value, ensure_ascii=False, default=str) if nested else scalar_text(value)


def _options_by_text(text: str, choices: Sequence[str]) -> set[int]:
    """Return the options with this text; if there are none, the only one that differs in case and spaces."""
    exact = {i for i, choice in enumerate(choices) if choice.strip() == text.strip()}
    if exact:
        return exact
    wanted = " ".join(text.casefold().split())
    similar = {i for i, choice in enumerate(choices) if " ".join(choice.casefold().split()) == wanted}
    return similar if len(similar) == 1 else set()


def _options_by_letter(text: str, n_options: int) -> set[int]:
    letter = text.strip().upper()
    return {LETTERS.index(letter)} & set(range(n_options)) if letter in LETTERS else set()


def _options_by_number(text: str, n_options: int) -> set[int]:
    try:
        number = float(text)
    except ValueError:
        return set()
    return {i for i in range(n_options) if i + 1 == number}


def turns_in(value: object, place: str) -> tuple[Message, ...]:
    """Read the conversation in a column: a list of {role, content}. Other keys are ignored.

    A system message may come first; the last turn must be the user's. Raises RowError with `place`.
    """
    turns: list[Message] = []
    for where, turn in _entries(value, place, "turn", "role, content"):
        role, content = turn.get("role"), turn.get("content")
        if not isinstance(content, str):
            raise RowError(f"{where}: its `content` must be text, is {value_in_words(content)}.")
        match role:
            case "system" if turns:
                raise RowError(f"{where}: a system message can only come first.")
            case "system" | "user" | "assistant":
                turns.append(Message(role, content))
            case _:
                rule = "its `role` must be `user`, `assistant` or `system`"
                raise RowError(f"{where}: {rule}, is {value_in_words(role)}.")
    if turns[-1].role != "user" or not turns[-1].text.strip():
        state = f"is the {turns[-1].role}'s" if turns[-1].role != "user" else "is empty"
        raise RowError(f"{place}: the last turn must be a text of the user, but {state}. There is nothing to reply to.")
    return tuple(turns)


def criteria_in(value: object, place: str) -> tuple[Criterion, ...]:
    """Read the criteria in a column: a list of {criterion, points, tags}; tags are optional, other keys are ignored.

    They are named `criterion_1` and so on, in order. Raises RowError with `place`.
    """
    criteria: dict[object, Criterion] = {}
    for where, entry in _entries(value, place, "criterion", "criterion, points, tags"):
        text, points, tags = entry.get("criterion"), number(entry.get("points")), entry.get("tags") or []
        if not isinstance(text, str) or not text.strip():
            raise RowError(f"{where}: its `criterion` must be a text that is not empty, is {value_in_words(text)}.")
        if not points:
            rule = "its `points` must be a number other than zero, negative for harm"
            raise RowError(f"{where}: {rule}, is {value_in_words(entry.get('points'))}.")
        if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) and tag for tag in tags):
            raise RowError(f"{where}: its `tags` must be a list of texts, is {value_in_words(tags)}.")
        key = text.strip(), frozenset(tags), points > 0  # what decides where its points count
        if key in criteria:
            raise RowError(f"{where}: repeats {criteria[key].name} and would count twice.")
        name = f"criterion_{len(criteria) + 1}"
        criteria[key] = Criterion(name, text.strip(), points=points, tags=tuple(dict.fromkeys(tags)))
    if not any(criterion.points > 0 for criterion in criteria.values()):
        raise RowError(f"{place}: no criterion has positive points, so completions cannot be scored.")
    return tuple(criteria.values())


def _entries(value: object, place: str, noun: str, keys: str) -> list[tuple[str, Mapping[str, object]]]:
    """Return the objects of a non-empty list, each with its place for messages."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise RowError(f"{place}: must be a JSON list of {{{keys}}}, but cannot be parsed: {error}.") from None
    if not isinstance(value, Sequence) or isinstance(value, str | bytes) or not value:
        shown = "an empty list" if isinstance(value, Sequence) and not value else value_in_words(value)
        raise RowError(f"{place}: must be a JSON list of {{{keys}}}, is {shown}.")
    entries = [(f"{place}, {noun} {position}", entry) for position, entry in enumerate(value, 1)]
    for where, entry in entries:
        if not isinstance(entry, Mapping):
            raise RowError(f"{where}: must be an object with {keys}, is {value_in_words(entry)}.")
    return entries
