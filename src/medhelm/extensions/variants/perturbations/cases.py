"""Find the patient of an instance, and the places and texts that perturbations of a case need.

Texts of an instance that a perturbation may change: fields that the prompt shows, and turns of the user.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import Literal

from medhelm.benchmarks.prompts import OPTIONS, placeholders
from medhelm.domain import Benchmark, Instance
from medhelm.extensions.variants.types import Apply, Check

# --- texts ------------------------------------------------------------------------------------------------------------

SHORTEST_WORDS = 4
"""Fewest words of a text that may change: shorter ones are often names or labels."""

_XML = re.compile(r"\s*<\w[^<>]*>")
_JSON = re.compile(r"\s*[\[{<]\s*[\"'<{\[]")
_WORD = re.compile(r"[^\W\d_]{2,}")


def change_texts(instance: Instance, benchmark: Benchmark, change: Callable[[str], str]) -> Instance:
    """Return an instance with `change` applied to the fields of its prompt and to the turns of the user.

    Labels of options, references, metadata, and the turns of other roles stay.
    """
    shown = shown_fields(benchmark)
    return replace(
        instance,
        fields={name: change(text) if name in shown else text for name, text in instance.fields.items()},
        turns=tuple(replace(turn, text=change(turn.text)) if turn.role == "user" else turn for turn in instance.turns),
    )


def change_prose(instance: Instance, benchmark: Benchmark, change: Callable[[str], str]) -> Instance:
    """Return an instance with `change` applied to its prose: not to names, code, schemas, XML or JSON."""
    return change_texts(instance, benchmark, lambda text: change(text) if is_prose(text) else text)


def in_prose(change: Callable[[str, Random], str]) -> Apply:
    """Return the perturbation that changes the prose of an instance, with a generator for what is drawn."""

    def apply(instance: Instance, benchmark: Benchmark, rng: Random) -> Instance:
        return change_prose(instance, benchmark, lambda text: change(text, rng))

    return apply


def shown_fields(benchmark: Benchmark) -> frozenset[str]:
    """Return the names of the fields that the prompt shows."""
    return _shown_fields(benchmark.prompt, benchmark.system)


@lru_cache(maxsize=64)
def _shown_fields(prompt: str, system: str) -> frozenset[str]:
    return frozenset((placeholders(prompt) | placeholders(system)) - {OPTIONS})


def changed_texts(original: Instance, changed: Instance) -> Iterator[tuple[str, str]]:
    """Yield each text that differs, before and after."""
    pairs = [(text, changed.fields[name]) for name, text in original.fields.items()]
    pairs += [(turn.text, new.text) for turn, new in zip(original.turns, changed.turns, strict=True)]
    yield from ((old, new) for old, new in pairs if old != new)


def in_small_letters(text: str) -> str:
    """Return a text of the same length in small letters, in which patterns are found faster than in any case."""
    return text.replace("İ", "i").lower()  # the only letter whose small form is longer


def is_prose(text: str) -> bool:
    """Return True for text of several words that is neither code, a schema, XML nor JSON.

    >>> is_prose("The patient has had a cough for two weeks."), is_prose('{"id": 3, "name": "a long name of it"}')
    (True, False)
    """
    if len(list(islice(_WORD.finditer(text), SHORTEST_WORDS))) < SHORTEST_WORDS or _JSON.match(text):
        return False
    if "</" in text and _XML.match(text):
        return False
    return not ("```" in text or "CREATE TABLE" in text or ("SELECT " in text and " FROM " in text))


def differ_in_texts_alone(original: Instance, changed: Instance) -> bool:
    """Return True if two instances differ in nothing but the texts of fields and turns."""
    return replace(changed, fields=original.fields, turns=original.turns) == original


def check_frame(original: Instance, changed: Instance, benchmark: Benchmark) -> str:
    """Check that nothing but texts of the prompt differs."""
    hidden = original.fields.keys() - shown_fields(benchmark)
    turns = [
        [("user", "") if turn.role == "user" else (turn.role, turn.text) for turn in one.turns]
        for one in (original, changed)
    ]
    same_hidden = turns[0] == turns[1] and all(original.fields[name] == changed.fields[name] for name in hidden)
    return "" if same_hidden and differ_in_texts_alone(original, changed) else "Only texts of the prompt may change."


def check_texts(rule: Callable[[str, str], str]) -> Check:
    """Return the check that nothing but texts of the prompt differs, and that each changed text keeps a rule.

    `rule`: gets a text before and after; returns what it breaks, or "".
    """

    def checked(original: Instance, changed: Instance, benchmark: Benchmark) -> str:
        broken = (rule(old, new) for old, new in changed_texts(original, changed))
        return check_frame(original, changed, benchmark) or next(filter(None, broken), "")

    return checked


# --- cases ------------------------------------------------------------------------------------------------------------

Sex = Literal["male", "female", ""]
"""Sex that a case states; empty if it states none."""

MALE_NOUNS, FEMALE_NOUNS = ("man", "male", "boy", "gentleman"), ("woman", "female", "girl", "lady")
"""Nouns of a patient."""

_AGE = r"(?P<age>\d{1,3})(?:[- ]?(?P<unit>year|yr|month|week|day)s?[- ]?old\b|\s?(?:yo|y/o|y\.o\.))"
_VERBS = (
    "who with and or presents? presented comes? came is was has had the his her its of to in for by after at on from"
)
_DESCRIPTION = rf"(?:(?!(?:{'|'.join(_VERBS.split())})\b)[\w/'’-]+[ ]){{0,4}}?"
_NOUN = "|".join((*MALE_NOUNS, *FEMALE_NOUNS))
_STATED_AGE = re.compile(_AGE, re.IGNORECASE)
_INTRODUCTION = re.compile(
    rf"(?<![\d.,-]){_AGE}[ ,]+(?P<description>{_DESCRIPTION})(?P<noun>{_NOUN})\b(?!['’-])", re.IGNORECASE
)
_OTHER_AGE = re.compile(
    r"\b(?:aged?|at the age of|years? of age|in (?:his|her|their) (?:early |mid |late )?[1-9]0s|born (?:in|on)|DOB)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatientCase:
    """The description of one patient in a field of a prompt."""

    field: str
    """Name of the field."""
    text: str
    """Text of the field."""
    age: int
    """Age of the patient, in years; 0 for infants."""
    sex: Sex
    """Stated sex."""
    age_span: tuple[int, int]
    """Place of the number in `text`."""
    description: str
    """Words between the age and the noun, such as `African American`."""
    noun_span: tuple[int, int]
    """Place of the noun in `text`."""


def find_case(instance: Instance, benchmark: Benchmark) -> PatientCase | None:
    """Return the introduction of the only patient, such as "A 45-year-old man"; None without one, or with several."""
    found: list[tuple[str, str]] = []
    for name, text in prompt_fields(instance, benchmark):
        found += [(name, text)] * _n_ages(text)
    if len(found) != 1 or (match := _INTRODUCTION.search(found[0][1])) is None:
        return None
    return PatientCase(
        field=found[0][0],
        text=found[0][1],
        age=int(match["age"]) if (match["unit"] or "year").lower() in ("year", "yr") else 0,
        sex="male" if match["noun"].lower() in MALE_NOUNS else "female",
        age_span=match.span("age"),
        description=match["description"].strip(),
        noun_span=match.span("noun"),
    )


@lru_cache(maxsize=16)
def _n_ages(text: str) -> int:
    """Count the stated ages of a text. Cached, because a change and its check both look for the case."""
    return len(_STATED_AGE.findall(text))


def mentions_other_age(text: str) -> bool:
    """Return True if a text also states an age or a date of birth in another way than "45-year-old"."""
    return bool(_OTHER_AGE.search(text))


def prompt_fields(instance: Instance, benchmark: Benchmark) -> Iterator[tuple[str, str]]:
    """Yield name and text of the fields that the prompt of a benchmark shows."""
    shown = shown_fields(benchmark)
    return ((name, text) for name, text in instance.fields.items() if name in shown)


def with_field(instance: Instance, name: str, text: str) -> Instance:
    """Return the instance with another text in a field."""
    return replace(instance, fields={**instance.fields, name: text})


def shown_text(instance: Instance, benchmark: Benchmark) -> str:
    """Return all texts of an instance that a model sees, options included."""
    return "\n".join(
        [
            *(text for _, text in prompt_fields(instance, benchmark)),
            *instance.choices,
            *(t.text for t in instance.turns),
        ]
    )


def answer_text(instance: Instance) -> str:
    """Return the texts that completions are compared with: options, references and criteria."""
    criteria = (criterion.description for criterion in instance.criteria)
    return "\n".join([*instance.choices, *(one.text for one in instance.references), *criteria])


# --- changes and their checks -----------------------------------------------------------------------------------------

ONLY_TEXT = "Only the text of the case may change."
"""Rule of all perturbations of a case: its options, references and metadata stay."""
SAME_PATIENT = "Before and after, the case must introduce one patient, who differs in one attribute."


def on_case(change: Callable[[PatientCase, Random], str | None]) -> Apply:
    """Return the perturbation that gives the case of an instance another text; None leaves the instance out."""

    def apply(instance: Instance, benchmark: Benchmark, rng: Random) -> Instance | None:
        case = find_case(instance, benchmark)
        text = change(case, rng) if case else None
        return None if case is None or text is None else with_field(instance, case.field, text)

    return apply


@dataclass(frozen=True, slots=True, kw_only=True)
class CasePair:
    """An instance with a case, before and after a change."""

    original: Instance
    """The instance."""
    changed: Instance
    """The changed one."""
    benchmark: Benchmark
    """Their benchmark."""
    before: PatientCase
    """The case of the instance."""
    after: PatientCase
    """The case of the changed one."""


def only_text(check: Check) -> Check:
    """Add the rule that nothing but texts of fields and turns may change."""

    def checked(original: Instance, changed: Instance, benchmark: Benchmark) -> str:
        return check(original, changed, benchmark) if differ_in_texts_alone(original, changed) else ONLY_TEXT

    return checked


def same_patient(rule: Callable[[CasePair], str]) -> Check:
    """Return the check that texts alone change, that both introduce one patient, and that a further rule holds."""

    @only_text
    def checked(original: Instance, changed: Instance, benchmark: Benchmark) -> str:
        before, after = find_case(original, benchmark), find_case(changed, benchmark)
        if before is None or after is None:
            return SAME_PATIENT
        return rule(CasePair(original=original, changed=changed, benchmark=benchmark, before=before, after=after))

    return checked


# --- words ------------------------------------------------------------------------------------------------------------


_TOKEN = re.compile(r"[^\W_]+")


class Lexicon:
    """Beginnings of words, and of phrases with `_` for a space or hyphen; a period ends the word.

    >>> find = Lexicon(["menstru", "urinary_tract", "tia."]).find
    >>> [find(text) for text in ("Menstruation", "a urinary-tract infection", "a TIA", "initial")]
    ['menstruation', 'urinary-tract', 'tia', '']
    """

    def __init__(self, entries: Sequence[str]) -> None:
        """`entries`: the beginnings, in small letters."""
        single = [entry for entry in entries if "_" not in entry]
        self._whole = frozenset(entry[:-1] for entry in single if entry.endswith("."))
        self._beginnings = tuple(entry for entry in single if not entry.endswith("."))
        parts = (
            entry.rstrip(".").replace("_", "[ -]") + r"\b" * entry.endswith(".") for entry in entries if "_" in entry
        )
        phrases = "|".join(parts)
        self._phrases = re.compile(rf"\b(?:{phrases})") if phrases else None
        self._has = cache(lambda word: word in self._whole or word.startswith(self._beginnings))

    def find(self, text: str) -> str:
        """Return the first word or phrase that is found; empty if there is none."""
        text = text.lower()
        found = next(filter(self._has, dict.fromkeys(_TOKEN.findall(text))), "")
        if not found and self._phrases and (match := self._phrases.search(text)):
            found = match.group()
        return found


@cache
def lexicon(name: str) -> Lexicon:
    """Return a list of `lexicon.txt`, such as `sex`."""
    lists: dict[str, list[str]] = {}
    for line in Path(__file__).with_name("lexicon.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            entries = lists.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            entries += line.split()
    return Lexicon(lists[name])


def may_matter(attribute: str, instance: Instance, benchmark: Benchmark) -> bool:
    """Return True if a text of an instance has a word of that list: the model sees it, or completions should say it."""
    words = lexicon(attribute)
    return bool(words.find(shown_text(instance, benchmark)) or words.find(answer_text(instance)))


# --- sentences --------------------------------------------------------------------------------------------------------

_SENTENCE_END = re.compile(r"(?<=[a-z)%]{2}[.])(?: +)(?=[A-Z])")
_ABBREVIATIONS = re.compile(
    r"(?:\b(?:[Dd]r|[Mm]rs?|[Mm]s|[Pp]rof|vs|approx|[Nn]o|[Ff]ig|al|etc|resp|[Jj]r|[Ss]r|St))\.$"
)
_REFERS_BACK = re.compile(
    r"(?:this|these|those|that|it|its|they|their|them|both|such|there|however|furthermore|moreover|additionally|also"
    r"|then|afterwards|subsequently|consequently|therefore|thus|later|instead|otherwise|neither|either|one|another"
    r"|which|as|when|while|after)\b",
    re.IGNORECASE,
)
"""Words at the start of a sentence that refer to the sentence before it."""


def sentence_breaks(text: str) -> list[int]:
    """Return the places between two sentences of a paragraph where a sentence can be inserted, the last one excepted.

    The next sentence must not refer to the one before it, and the last sentence may be a question about it.
    """
    found = [
        match.end()
        for match in _SENTENCE_END.finditer(text)
        if not _ABBREVIATIONS.search(text, max(0, match.start() - 8), match.start())
    ]
    return [place for place in found[:-1] if not _REFERS_BACK.match(text, place)]
