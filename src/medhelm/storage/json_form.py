"""Converts dataclasses to JSON objects with independent keys, so that renaming a field never changes a file.

Each stored type has one table, JSON key -> field. A renamed field keeps its key. Importing a module fails if its table
misses a field or names an unknown one, so that no field is dropped silently.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from sys import intern
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar


class Nested(NamedTuple):
    """Conversion of a value that is not plain JSON."""

    write: Callable[[Any], Any]
    """Value -> JSON."""
    read: Callable[[Any], Any]
    """JSON -> value."""


T = TypeVar("T")

MOST_SHARED = 1_000
"""Most values of one form that are shared."""

_NOTHING_NESTED: Mapping[str, Nested] = MappingProxyType({})


def key_map(names: str) -> dict[str, str]:
    """Return JSON key -> field from a list of fields: NAME, or KEY=NAME if they differ.

    >>> key_map("n left_out=refused_parameters")
    {'n': 'n', 'left_out': 'refused_parameters'}
    """
    return {key: field or key for key, _, field in (name.partition("=") for name in names.split())}


class JsonForm(Generic[T]):
    """The JSON form of a dataclass."""

    def __init__(
        self,
        kind: type[T],
        keys: Mapping[str, str],
        *,
        nested: Mapping[str, Nested] = _NOTHING_NESTED,
        not_stored: Collection[str] = (),
        not_if_empty: Collection[str] = (),
        shared: bool = False,
    ) -> None:
        """Check the table.

        Parameters: keys, JSON key -> field, in the order of the file; nested, JSON key -> how its value is converted,
        for values that are not plain JSON; not_stored, fields that are not written; not_if_empty, keys left out
        while their value is empty, because older files lack them; shared, True to read equal objects as one value,
        which saves most of the time and memory of tens of thousands of runs.
        Raises: TypeError if the table does not have each field exactly once.
        """
        stored = [*keys.values(), *not_stored]
        known = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # a dataclass
        if sorted(stored) != sorted(known):
            wrong = sorted(set(stored).symmetric_difference(known)) or sorted(stored)
            raise TypeError(f"the keys of {kind.__name__} do not match its fields: {', '.join(wrong)}")
        if unknown := nested.keys() - keys.keys():
            raise TypeError(f"{kind.__name__} has no key {', '.join(sorted(unknown))}")
        self.kind, self.keys, self.nested, self.not_if_empty = kind, keys, nested, not_if_empty
        types = {field.name: str(field.type) for field in fields(kind)}  # type: ignore[arg-type]
        kinds = {key: () if key in nested else _kind_of(types[field]) for key, field in keys.items()}
        readers = {key: nested[key].read if key in nested else None for key in keys}
        self._known: dict[str, T] | None = {} if shared else None
        self._plans = {key: (field, kinds[key] or object, readers[key]) for key, field in keys.items()}

    def write(self, value: T) -> dict[str, Any]:
        """Convert a value to a JSON object."""
        content = {key: getattr(value, field) for key, field in self.keys.items()}
        content = {key: one for key, one in content.items() if one or key not in self.not_if_empty}
        return content | {key: nested.write(content[key]) for key, nested in self.nested.items() if key in content}

    def read(self, content: Mapping[str, Any], **not_stored: Any) -> T:
        """Convert a JSON object to a value; a missing key gets the default of its field.

        Raises: TypeError for an unknown key, a missing one whose field has no default, or a value of a wrong type.
        """
        if self._known is None or not_stored:
            return self._read(content, not_stored)
        text = repr(content)
        found = self._known.get(text)
        if found is None:
            if len(self._known) >= MOST_SHARED:
                self._known.clear()
            found = self._known[text] = self._read(content, {})
        return found

    def _read(self, content: Mapping[str, Any], found: dict[str, Any]) -> T:
        """Convert a JSON object, adding to the fields that are not stored. One pass: a store can hold many runs."""
        plans = self._plans
        if not content.keys() <= plans.keys():
            unknown = content.keys() - plans.keys()
            raise TypeError(f"unknown key {', '.join(map(repr, sorted(unknown)))}")
        for key, value in content.items():
            field, kind, read = plans[key]
            if not isinstance(value, kind):
                raise _wrong_type(key, value)
            # Most values are numbers, which need no call.
            found[field] = read(value) if read else value if type(value) in _NUMBERS else _shared(value)
        return self.kind(**found)

    def _field(self, key: str, value: Any) -> tuple[str, Any]:
        """Return the name of a field, and its value."""
        field, kind, read = self._plans[key]
        if not isinstance(value, kind):
            raise _wrong_type(key, value)
        return field, read(value) if read else _shared(value)

    def write_many(self, values: Sequence[T]) -> dict[str, Any]:
        """Convert values to columns: for each key its different contents, and the place of that of each value."""
        written = [self.write(value) for value in values]
        columns = {}
        for key in self.keys:
            texts = [repr(content[key]) if key in content else "" for content in written]
            different = {text: content.get(key) for text, content in zip(texts, written, strict=True)}
            places = {text: place for place, text in enumerate(different)}
            columns[key] = [list(different.values()), [places[text] for text in texts], places.get("")]
        return columns

    def read_many(self, columns: Mapping[str, Any], not_stored: Sequence[dict[str, Any]]) -> list[T]:
        """Convert columns of `write_many` to values. Equal contents become one object.

        `not_stored`: for each value the fields that are not stored.
        Raises: as `read`; AttributeError, KeyError, IndexError or ValueError for anything else than such columns.
        """
        found = [dict(more) for more in not_stored]
        for key, (contents, places, absent) in columns.items():
            fields = [None if at == absent else self._field(key, content) for at, content in enumerate(contents)]
            for one, place in zip(found, places, strict=True):
                if (field := fields[place]) is not None:
                    one[field[0]] = field[1]
        return [self.kind(**one) for one in found]

    @property
    def one(self) -> Nested:
        """Return the conversion of a field with one such value."""
        return Nested(self.write, self.read)

    @property
    def one_or_none(self) -> Nested:
        """Return the conversion of a field with one such value or None."""
        return Nested(
            lambda value: None if value is None else self.write(value),
            lambda content: self.read(content) if content else None,
        )

    @property
    def many(self) -> Nested:
        """Return the conversion of a field with a tuple of such values."""
        return Nested(
            lambda values: [self.write(value) for value in values],
            lambda content: tuple(self.read(one) for one in content),
        )

    @property
    def by_name(self) -> Nested:
        """Return the conversion of a field with a mapping to such values."""
        return by_name(self.one)


_NUMBERS = (int, float, bool, type(None))
"""Types of values that are stored as they are."""

_KINDS: Mapping[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float), "bool": (bool,)}


def _kind_of(annotation: str) -> tuple[type, ...]:
    """Return the types that a plain field can have, by its annotation; empty if they are not checked."""
    plain = annotation.removesuffix(" | None")
    kinds = (dict,) if plain.startswith("Mapping[") else _KINDS.get(plain, ())
    return (*kinds, type(None)) if kinds and plain != annotation else kinds


def _wrong_type(key: str, value: Any) -> TypeError:
    return TypeError(f"`{key}` is {str(value)[:40]!r}")


def _shared(value: Any) -> Any:
    """Return a plain value with its texts shared: those of many runs are the same."""
    if isinstance(value, str):
        return intern(value)
    if isinstance(value, dict):
        return {intern(key): _shared(one) for key, one in value.items()}
    return value


def by_name(nested: Nested) -> Nested:
    """Return the conversion of a field with a mapping to values that are converted by `nested`."""
    return Nested(
        lambda values: {name: nested.write(value) for name, value in values.items()},
        lambda content: {intern(name): nested.read(one) for name, one in content.items()},
    )


TUPLE = Nested(list, tuple)
"""Conversion of a field with a tuple of plain values."""
