"""The card of a study for people and for programs: who rated what, how it was blinded, and what was not as planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from medhelm.domain.study import CardDesign, CardRater, StudyCard
from medhelm.domain.text import listed, plural
from medhelm.results.formats.fields import STRING, Field, JsonSchema, fields_json, fields_schema, list_of, plain_json

NAMED = 8
"""Most models, benchmarks or raters named in a line."""


def _instrument_text(card: StudyCard) -> str:
    """Return the instrument in a sentence, with the scale of its criteria."""
    one = card.instrument
    scales = list(dict.fromkeys((of.low, of.high) for of in one.criteria.values()))
    names = listed([name.replace("_", " ") for name in one.criteria], NAMED)
    scale = f", each from {scales[0][0]:g} to {scales[0][1]:g}" if len(scales) == 1 else ""
    whose = "the rubric of the judges" if one.is_rubric else "not the rubric of the judges"
    return f"{one.title}, version {one.version} ({whose}): {names}{scale}"


def _raters_text(card: StudyCard) -> str:
    """Return the raters with their professions and numbers of ratings."""

    def text(one: CardRater) -> str:
        return f"{one.id} ({', '.join(filter(None, [one.role, plural(one.n_ratings, 'rating')]))})"

    return listed([text(one) for one in card.raters], NAMED)


def _design_text(design: CardDesign) -> str:
    """Return the assignment of completions to raters in words."""
    parts = [f"{plural(design.n_cases, 'completion')}, {design.n_shared:,} of them for two or more raters"]
    if design.n_repeated:
        parts.append(f"{design.n_repeated:,} rated twice by the same rater")
    if design.n_calibration:
        parts.append(f"{design.n_calibration:,} rated by all raters first")
    parts.append(f"assigned with seed {design.seed}")
    if design.precision is not None:
        parts.append(f"planned for intervals of ±{design.precision:g}")
    return "; ".join(parts)


def _dates_text(card: StudyCard) -> str:
    """Return the days of plan and end."""
    days = [f"{word} {day[:10]}" for word, day in (("planned", card.created), ("closed", card.closed)) if day]
    return ", ".join(days)


_OBJECT: JsonSchema = {"type": "object"}

STUDY_FIELDS: list[Field[StudyCard]] = [
    Field("name", lambda card: card.name, kind="text"),
    Field("title", lambda card: card.title, kind="text", heading="Study", text=lambda card: card.title),
    Field("purpose", lambda card: card.purpose, kind="text", heading="Purpose"),
    Field("owner", lambda card: card.owner, kind="text", heading="Owner"),
    Field("created", lambda card: card.created, kind="text", heading="Dates", text=_dates_text),
    Field("closed", lambda card: card.closed, kind="text"),
    Field("instrument", lambda card: plain_json(card.instrument), kind="object", schema=_OBJECT,
          heading="Instrument", text=_instrument_text),
    Field("benchmarks", lambda card: card.benchmarks, kind="texts",
          heading="Benchmarks", text=lambda card: listed(card.benchmarks, NAMED)),
    Field("models", lambda card: card.models, kind="texts",
          heading="Models", text=lambda card: listed(card.models, NAMED)),
    Field("raters", lambda card: plain_json(card.raters), kind="object", schema=list_of(_OBJECT),
          heading="Raters", text=_raters_text),
    Field("design", lambda card: plain_json(card.design), kind="object", schema=_OBJECT,
          heading="Design", text=lambda card: _design_text(card.design)),
    Field("blinding", lambda card: card.blinding, kind="texts",
          heading="Blinding", text=lambda card: " ".join(card.blinding) or "Nothing is recorded."),
    Field("deviations", lambda card: card.deviations, kind="texts",
          heading="Deviations", text=lambda card: " ".join(card.deviations) or "None."),
    Field("digest", lambda card: card.digest, kind="text", schema=STRING,
          meaning="sha256 of the ratings.", heading="sha256 of the ratings"),
]  # fmt: skip
"""The fields of a study's card."""

STUDY_SCHEMA: JsonSchema = fields_schema(STUDY_FIELDS)
"""JSON Schema of a study's card."""


def study_json(card: StudyCard) -> dict[str, Any]:
    """Return a study's card as JSON."""
    return fields_json(STUDY_FIELDS, card)


def study_facts(card: StudyCard, titles: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """Return the card for people: heading and text, without empty ones. `titles`: benchmark -> its title, if known."""
    card = replace(card, benchmarks=[(titles or {}).get(name, name) for name in card.benchmarks])
    found = [(one.heading, str(one.text(card) if one.text else one.get(card))) for one in STUDY_FIELDS if one.heading]
    return [(heading, text) for heading, text in found if text]


def study_sentences(card: StudyCard) -> list[str]:
    """Return the study in sentences: who rated what, how it was blinded, and what was not as planned."""
    blinding = " ".join(card.blinding)
    deviations = " ".join(card.deviations)
    return [
        study_line([card]),
        f"Design: {_design_text(card.design)}.",
        *([f"Blinding: {blinding}"] if blinding else []),
        *([f"Not as planned: {deviations}"] if deviations else []),
        f"sha256 of the ratings: {card.digest[:12]}.",
    ]


def study_line(cards: Sequence[StudyCard]) -> str:
    """Return studies in one sentence; empty without any."""
    parts = []
    for card in cards:
        roles = listed(list(dict.fromkeys(one.role for one in card.raters if one.role)), NAMED)
        who = plural(len(card.raters), "clinician") + (f" ({roles})" if roles else "")
        n = sum(one.n_ratings for one in card.raters)
        closed = f", closed {card.closed[:10]}" if card.closed else ""
        form = "the benchmark's own rubric" if card.instrument.is_rubric else card.instrument.title
        parts.append(f"{card.title} ({card.name}{closed}): {plural(n, 'rating')} by {who} with {form}.")
    return " ".join(parts)
