"""Lists of dated prices: a user's own file, or a snapshot that is kept here under a name.

A file is a YAML list of entries with `model`, `input` and `output` in US dollars per million tokens, and, where they
apply, `cached_input`, `cache_write`, `from` and `until` (days, both included) and `source`. A model is named as users
write it (`openai/gpt-4o`), or by its name at its server (`gpt-4o`), which then applies to every server.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, RootModel, field_validator

from medhelm.domain import Model, Price
from medhelm.domain.benchmark import group_by
from medhelm.domain.text import value_in_words
from medhelm.errors import ConfigError, Problem, UserError, suggestion
from medhelm.io.strict_yaml import YamlDocument, load_yaml, validate
from medhelm.models.model_names import plain_name

SNAPSHOTS = Path(__file__).parent / "price_lists"
"""One file for each named snapshot."""

PER_TOKEN = 0.0005
"""A price below this and above zero is the price of one token, not of a million."""

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def _check_dollars(value: Any) -> Any:
    """Check a price as written in the file. Raises: ValueError for common mistakes."""
    if isinstance(value, str):
        raise ValueError(
            f"must be a number, is {value_in_words(value)}. Write US dollars per million tokens with a decimal point "
            "and nothing else, such as 2.5: no comma, no thousands separators, no signs such as $ or %."
        )
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < PER_TOKEN:
        raise ValueError(
            f"is {value_in_words(value)}, which looks like a price for one token. Prices are for a million tokens: "
            f"write {value * 1_000_000:g}."
        )
    return value


Dollars = Annotated[float, BeforeValidator(_check_dollars), Field(ge=0, allow_inf_nan=False)]
"""US dollars per million tokens, as people write them in a file."""


class PriceDefinition(BaseModel):
    """US dollars per million tokens."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    input: Dollars
    """Price of input tokens that the provider had not cached."""
    output: Dollars
    """Price of output tokens, hidden reasoning included."""
    cached_input: Dollars | None = None
    """Price of cached input tokens; default: `input`."""
    cache_write: Dollars | None = None
    """Price of input tokens that the provider writes to its cache; default: `input`."""

    def price(self, source: str) -> Price:
        """Convert to a `Price`."""
        return Price(
            input=self.input,
            output=self.output,
            cached_input=self.cached_input,
            cache_write=self.cache_write,
            source=source,
        )


class _Entry(PriceDefinition):
    model: Annotated[str, Field(min_length=1)]
    since: str = Field(default="", alias="from")
    until: str = ""
    source: str = ""

    @field_validator("since", "until")
    @classmethod
    def _check_day(cls, value: str) -> str:
        if value and not (_DAY.fullmatch(value) and _as_day(value)):
            raise ValueError(f"must be a day such as 2025-05-12, is {value_in_words(value)}.")
        return value


class _PriceFile(RootModel[Annotated[list[_Entry], Field(min_length=1)]]):
    """The entries of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedPrice:
    """The price of a model from one day to another."""

    model: str
    """Name of the model, or its name at its server."""
    price: Price
    """Its price in that time, with the source."""
    since: date | None = None
    """First day; None: no beginning is known."""
    until: date | None = None
    """Last day; None: no end is known."""

    def covers(self, day: date) -> bool:
        """Return True if the price applies on this day."""
        return (self.since or date.min) <= day <= (self.until or date.max)


@dataclass(frozen=True, slots=True)
class PriceBook:
    """Dated prices of some models."""

    name: str
    """The snapshot's name, or the file."""
    entries: tuple[DatedPrice, ...]
    """In the order of the file; no two of them hold for the same name on the same day."""

    def price_of(self, model: Model, day: date) -> Price | None:
        """Return the price of `model` on a day; None if the book has none.

        These names are tried in turn: its own, its own without the address, its name at its server, and the last one
        without vendor, in lower case.
        """
        by_name = group_by(self.entries, lambda entry: entry.model)
        plain = {name.lower(): found for name, found in by_name.items()}
        names = (model.name, model.name.partition("@http")[0], model.remote_name)
        candidates = [by_name.get(name, []) for name in names] + [plain.get(plain_name(model.remote_name), [])]
        return next((entry.price for found in candidates for entry in found if entry.covers(day)), None)


def snapshot_names() -> list[str]:
    """Return the names of the snapshots that are kept here."""
    return sorted(path.stem for path in SNAPSHOTS.glob("*.yaml"))


def read_price_books(names: Sequence[str]) -> list[PriceBook]:
    """Return the books of these names, each a snapshot or a file.

    Raises: ConfigError with all problems of a file; UserError for a name that is neither.
    """
    return [_read_book(name) for name in names]


def _read_book(name: str) -> PriceBook:
    if name in snapshot_names():
        return PriceBook(name, _checked_entries(load_yaml(SNAPSHOTS / f"{name}.yaml"), name))
    path = Path(name)
    if not path.exists():
        raise UserError(
            f"prices `{name}`: neither a file nor a snapshot. {suggestion(name, snapshot_names())} A file is a YAML "
            "list of {model, input, output}, in US dollars per million tokens.".replace("  ", " ")
        )
    return PriceBook(name, _checked_entries(load_yaml(path), path.name))


def _checked_entries(document: YamlDocument, label: str) -> tuple[DatedPrice, ...]:
    """Return the checked entries of a file. Raises: ConfigError with all problems."""
    entries = tuple(_dated_price(entry, label) for entry in validate(document, _PriceFile).root)
    if problems := _conflicts(entries, document):
        raise ConfigError(document.place, problems)
    return entries


def _dated_price(entry: _Entry, label: str) -> DatedPrice:
    return DatedPrice(
        model=entry.model,
        price=entry.price(f"{label}: {entry.source}" if entry.source else label),
        since=_as_day(entry.since),
        until=_as_day(entry.until),
    )


def _conflicts(entries: Sequence[DatedPrice], document: YamlDocument) -> list[Problem]:
    """Return the periods that end before they begin, and the days on which a model has two prices."""
    problems = []
    for place, entry in enumerate(entries):
        line = document.line_of((place,))
        if entry.since and entry.until and entry.until < entry.since:
            problems.append(Problem(f"[{place}].until: {entry.until} is before `from`, {entry.since}.", line))
            continue
        for earlier, other in enumerate(entries[:place]):
            if other.model == entry.model and _overlap(entry, other):
                text = (
                    f"[{place}]: `{entry.model}` has another price in line {document.line_of((earlier,))} for some of "
                    "the same days. Set `from` and `until` to when each applied; both days count."
                )
                problems.append(Problem(text, line))
                break
    return problems


def _overlap(one: DatedPrice, other: DatedPrice) -> bool:
    """Return True if both apply on some day."""
    first = max(one.since or date.min, other.since or date.min)
    return first <= min(one.until or date.max, other.until or date.max)


def _as_day(text: str) -> date | None:
    """Return the day of an ISO date; None for a missing or impossible date."""
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        return None
