"""Counterfactual patients: the same case of another sex, age band, race, name, insurance or language.

The key of a case stays only if it does not depend on the attribute. Each perturbation therefore leaves out cases with a
word of its list in `lexicon.txt`, and cases whose options or references mention the attribute.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from medhelm.domain import Benchmark, Instance
from medhelm.extensions.variants.perturbations.cases import (
    FEMALE_NOUNS,
    MALE_NOUNS,
    SAME_PATIENT,
    CasePair,
    PatientCase,
    answer_text,
    changed_texts,
    find_case,
    lexicon,
    may_matter,
    mentions_other_age,
    on_case,
    prompt_fields,
    same_patient,
    sentence_breaks,
    shown_text,
    with_field,
)
from medhelm.extensions.variants.types import Perturbation

NO_OTHER_WORD = "No word may change that does not say the attribute."
STATED_ONCE = "The text may not say the attribute, or a name, in another way."

# --- sex --------------------------------------------------------------------------------------------------------------

_PAIRS: Mapping[str, str] = {
    "man": "woman", "male": "female", "boy": "girl", "gentleman": "lady", "he": "she", "himself": "herself",
    "mr": "ms", "husband": "wife", "boyfriend": "girlfriend",
}  # fmt: skip
_BACK = {new: old for old, new in _PAIRS.items()}
_SPOUSES = {
    word: new for pairs in (_PAIRS, _BACK) for word, new in pairs.items() if re.match("husb|wife|.*friend", word)
}
_SWAPS: Mapping[str, Mapping[str, str]] = {
    "male": {**_PAIRS, "him": "her", "his": "her"} | _SPOUSES,
    "female": {**_BACK, "her": "his", "hers": "his", "mrs": "mr", "miss": "mr"} | _SPOUSES,
}
"""Sex of a patient -> word -> the word for a patient of the other sex."""
_PRONOUNS = {"male": {"he", "him", "his", "himself"}, "female": {"she", "her", "hers", "herself"}}
_SAID = {"male": {*_PRONOUNS["male"], *MALE_NOUNS}, "female": {*_PRONOUNS["female"], *FEMALE_NOUNS}}
"""Sex -> the pronouns and nouns that say it."""
_RELATIVES = {
    "male": re.compile(r"\b(?:(?:grand|step)?(?:father|son)s?|(?:step)?brothers?|uncles?|nephews?|dad|roommate)\b"),
    "female": re.compile(r"\b(?:(?:grand|step)?(?:mother|daughter)s?|(?:step)?sisters?|aunts?|nieces?|mom|roommate)\b"),
}
"""People besides the patient who may be meant by a pronoun, by sex."""
_SPOUSE = re.compile(rf"\b(?:{'|'.join(_SPOUSES)})\b")
_OWN_SPOUSE = re.compile(rf"\b(?:his|her|the|patient['’]s) (?:{'|'.join(_SPOUSES)})\b")
_NAMED = re.compile(
    r"\b(?:named|(?:name|initials)\s*(?:is|:)|called (?!to|for|by|because|the|in|an?\b)\w"
    r"|(?:Mr|Mrs|Ms|Miss)\.? [A-Z]\w+|(?!This|That|He|She|It|Patient|Who|What|There)[A-Z][a-z]+ (?:is|was) an? \d)"
)
"""Signs of a patient's name. One letter after a title, as in "Ms. A", is none."""
_GENDERED = re.compile(
    r"\b(?:men|women|males|females|boys|girls|ladies|gentlemen|widow\w*|housewi\w+|actor|actress|waiter|waitress|nun|monk"
    r"|(?:police|fire|business|sales|fisher|crafts|service|camera|door|mail|work|states|council|repair)(?:man|woman)"
    r"|priest|homosexual|gay|lesbian|bisexual|trans(?:gender|sexual)|queen|king|prince|princess|host|hostess|nanny|bride"
    r"|groom|fianc[eé]e?|sir|ma['’]am|madam|dude|guy|fraternity|sorority|(?:his|her) patients?)\b|he/she"
    r"|\b(?:fe)?male[- ]pattern"
    r"|\b(?:sex|gender)\s*[:=]|\b\d{1,3}\s?(?:yo|y/o|y\.o\.)?\s?[mf]\b|\bg\d+\s?p\d|\b46\s?,\s?x"
    r"|(?<!-)\b(?:an?|another|other|young) (?:man|woman|male|female|boy|girl)\b"
)
"""Words, in small letters, that say a sex in a way that exchanging single words does not repair."""

_WORD = re.compile(rf"(?<![\w-])(?:{'|'.join({**_SWAPS['male'], **_SWAPS['female']})})(?![\w-])", re.IGNORECASE)
"""Words that say a sex."""
_AFTER_OBJECT = re.compile(
    r"\s(?:to|that|for|in|and|with|at|on|from|about|the|an?|as|of|by|is|was|are|were|or|but|because|since|during|while"
    r"|when|after|before|if|until|over|into|who|which|he|they|she|it|up|out|off|down|through|without|upon|this|these"
    r"|unconscious|yesterday|today|here|again|there|unresponsive|feel|more|less"
    r"|(?!(?:fami|on|dai|ear|week|month|elder)ly)\w+ly"
    r"|(?:last|this|next|every|one|two|three|several|\d+) (?:hour|night|day|morning|evening|week|month|year|time)s?)\b"
)
"""Words that follow "her" only if it means "him"."""
_LAST_WORD = re.compile(r"(\w+)\s*$")


def _swap_sex(instance: Instance, benchmark: Benchmark, rng: Random) -> Instance | None:  # noqa: ARG001
    """Return the case with a patient of the other sex: nouns, pronouns, titles and the words for the spouse."""
    case = find_case(instance, benchmark)
    if case is None:
        return None
    changed = {name: _with_other_sex(text, case.sex) for name, text in prompt_fields(instance, benchmark)}
    new = {name: text for name, text in changed.items() if text is not None}
    return replace(instance, fields={**instance.fields, **new}) if len(new) == len(changed) else None


def _with_other_sex(text: str, sex: str) -> str | None:
    """Return the text with the words of one sex exchanged; None if a "her" may be "him" or "his"."""
    parts: list[str] = []
    last = 0
    for match in _WORD.finditer(text):
        word = match.group().lower()
        new: str | None = _SWAPS[sex].get(word, word)
        if word == "her" and sex == "female":
            new = _his_or_him(text, match)
        if word == "his" and not re.match(r"\s\w", text[match.end() : match.end() + 2]):
            new = "hers"
        if new is None:
            return None
        if new != word:
            parts += [text[last : match.start()], _cased(new, match.group())]
            last = match.end()
    return "".join([*parts, text[last:]])


def _his_or_him(text: str, match: re.Match[str]) -> str | None:
    """Return the male word for a "her"; None if both are possible."""
    if not re.match(r"\s\w", text[match.end() : match.end() + 2]) or _AFTER_OBJECT.match(text, match.end()):
        return "him"
    previous = _LAST_WORD.search(text, max(0, match.start() - 16), match.start())
    return None if previous and lexicon("before her or him").find(previous[1]) else "his"


def _cased(word: str, like: str) -> str:
    return word.upper() if like.isupper() and len(like) > 1 else word.capitalize() if like[0].isupper() else word


@same_patient
def _check_sex(pair: CasePair) -> str:
    """Return the first rule that a patient of another sex breaks."""
    original, benchmark, before, after = pair.original, pair.benchmark, pair.before, pair.after
    if before.sex == after.sex or before.age != after.age:
        return SAME_PATIENT
    if may_matter("sex", original, benchmark):
        return "The case may not depend on the patient's sex."
    text, answers = shown_text(original, benchmark), answer_text(original).lower()
    if not _words(answers).isdisjoint(_SAID["male"] | _SAID["female"]) or _GENDERED.search(answers):
        return "Options and references may not mention the patient's sex."
    is_named = _NAMED.search(text)
    text = text.lower()
    if is_named or _GENDERED.search(text):
        return STATED_ONCE
    relative = _RELATIVES[before.sex].search(text)
    if (
        not _words(text).isdisjoint(_SAID[after.sex])
        or (relative and not _words(text[relative.end() :]).isdisjoint(_PRONOUNS[before.sex]))
        or len(_SPOUSE.findall(text)) != len(_OWN_SPOUSE.findall(text))
    ):
        return "No pronoun or noun may be that of another person."
    result = "\n".join(text.lower() for _, text in prompt_fields(pair.changed, benchmark))
    if not _words(result).isdisjoint(_SAID[before.sex]):
        return "All words for the patient must agree."
    return "" if _differ_in_pairs(original, pair.changed) else NO_OTHER_WORD


def _differ_in_pairs(original: Instance, changed: Instance) -> bool:
    """Return True if texts differ only in words that are pairs, and in nothing between words."""
    for text, new_text in changed_texts(original, changed):
        old, new = _WORD.findall(text), _WORD.findall(new_text)
        if len(old) != len(new) or _WORD.split(text) != _WORD.split(new_text):
            return False
        if any(a != b and frozenset((a.lower(), b.lower())) not in _EXCHANGED for a, b in zip(old, new, strict=True)):
            return False
    return True


_EXCHANGED = {
    *(frozenset(pair) for words in _SWAPS.values() for pair in words.items()),
    *(frozenset(("his", "hers")), frozenset(("her", "him"))),
}


def _words(text: str) -> set[str]:
    return set(_ANY_WORD.findall(text))


_ANY_WORD = re.compile(r"\w+")


# --- age --------------------------------------------------------------------------------------------------------------

_AGES = range(25, 79)
"""Ages that change, and to which they change."""
_AGE_LIMITS = (50, 65)
"""Ages at which guidelines change most often."""
_LONG_TIME = re.compile(
    r"\b(?:[1-9]\d[- ](?:year|yr|pack)s?\b(?![- ]old)|decades?|twenty|thirty|forty|(?:19|20)\d\d)\b", re.IGNORECASE
)
"""Times that may not fit another age, such as a "30-year history" of smoking."""


def other_age(age: int) -> int | None:
    """Return an age ten years away on the same side of 50 and 65, the older one if both are; None without one.

    >>> [other_age(age) for age in (24, 27, 35, 45, 52, 62, 68, 77, 85)]
    [None, 37, 45, 35, 62, 52, 78, 67, None]
    """
    sides = {new: [limit <= new for limit in _AGE_LIMITS] for new in (age, age + 10, age - 10) if new in _AGES}
    return next((new for new, side in sides.items() if age in sides and new != age and side == sides[age]), None)


@on_case
def _change_age(case: PatientCase, rng: Random) -> str | None:  # noqa: ARG001
    """Return the case with a patient of the neighboring age band."""
    new, (start, end) = other_age(case.age), case.age_span
    return None if new is None else f"{case.text[:start]}{new}{case.text[end:]}"


@same_patient
def _check_age(pair: CasePair) -> str:
    """Return the first rule that a patient of another age breaks."""
    original, benchmark, before, after = pair.original, pair.benchmark, pair.before, pair.after
    if abs(before.age - after.age) != 10:
        return SAME_PATIENT
    start, end = before.age_span
    if before.text[:start] + before.text[end:] != after.text[:start] + after.text[end:]:
        return NO_OTHER_WORD
    if may_matter("age", original, benchmark):
        return "The case may not depend on the patient's age."
    text = f"{shown_text(original, benchmark)}\n{answer_text(original)}"
    return STATED_ONCE if mentions_other_age(text) or _LONG_TIME.search(text) else ""


# --- race and name ----------------------------------------------------------------------------------------------------

_RACES: Mapping[str, str] = {
    "african american": "Black", "african-american": "Black", "black": "Black", "caucasian": "white", "white": "white",
    "hispanic": "Hispanic", "latino": "Hispanic", "latina": "Hispanic", "asian": "Asian",
}  # fmt: skip
"""Word in the description of a patient, in lower case -> race."""
_RACE_WORD = re.compile(rf"\b(?:{'|'.join(_RACES)})\b", re.IGNORECASE)
_NAMES: Mapping[str, tuple[str, ...]] = {
    "male": (
        "Jamal Washington", "Darnell Jackson", "Tyrone Booker", "Greg Baker", "Brett Sullivan", "Todd Walsh",
        "Alejandro Ramirez", "Luis Hernandez", "Carlos Ortiz", "Wei Chen", "Minh Nguyen", "Sanjay Patel",
    ),
    "female": (
        "Lakisha Washington", "Ebony Jackson", "Tamika Booker", "Emily Baker", "Allison Sullivan", "Anne Walsh",
        "Maria Ramirez", "Guadalupe Hernandez", "Carmen Ortiz", "Mei Chen", "Linh Nguyen", "Priya Patel",
    ),
}  # fmt: skip
"""Sex -> names, three for each of four races. Many first names are those of correspondence studies (Bertrand and
Mullainathan, 2004, doi:10.1257/0002828042002561)."""
_AFTER_NOUN = re.compile(
    r" (?:who|with|presents|presented|comes|came|is|was|visits|complains|reports|arrives|arrived|undergoes|underwent"
    r"|has|had|develops|developed)\b"
)


def _race_words(case: PatientCase) -> list[re.Match[str]]:
    """Return the words for a race in the description of a patient."""
    return list(_RACE_WORD.finditer(case.text, case.age_span[1], case.noun_span[0]))


@on_case
def _change_race(case: PatientCase, rng: Random) -> str:
    """Return the case with a patient of another race, or of a race if it states none."""
    found = _race_words(case)
    old = _RACES[found[0].group().lower()] if found else ""
    new = rng.choice([race for race in dict.fromkeys(_RACES.values()) if race != old])
    start, end = found[0].span() if found else (case.noun_span[0], case.noun_span[0])
    return f"{case.text[:start]}{new}{'' if found else ' '}{case.text[end:]}"


@same_patient
def _check_race(pair: CasePair) -> str:
    """Return the first rule that a patient of another race breaks."""
    both = pair.before, pair.after
    old, new = ([_RACES[word.group().lower()] for word in _race_words(case)] for case in both)
    if len(new) != 1 or len(old) > 1 or old == new:
        return SAME_PATIENT
    parts = [
        (case.text[: case.age_span[1]], _RACE_WORD.sub("", case.description).split(), case.text[case.noun_span[0] :])
        for case in both
    ]
    return NO_OTHER_WORD if parts[0] != parts[1] else _origin_problem(pair.original, pair.benchmark, pair.before)


def _origin_problem(original: Instance, benchmark: Benchmark, case: PatientCase) -> str:
    """Return the rule against race, or a signal of it, that a case breaks; empty if none."""
    start, end = case.age_span[1], case.noun_span[0]
    instance = with_field(original, case.field, case.text[:start] + case.text[end:])
    if may_matter("origin", instance, benchmark):
        return "The case may not depend on the patient's origin."
    other = re.search(r"[A-Z]", _RACE_WORD.sub("", case.description))  # "Samoan", "Ashkenazi"
    is_named = _NAMED.search(shown_text(original, benchmark))
    return STATED_ONCE if other or is_named or may_matter("race", instance, benchmark) else ""


@on_case
def _add_name(case: PatientCase, rng: Random) -> str | None:
    """Return the case with a name for the patient, which signals sex and race."""
    end = case.noun_span[1]
    if not _AFTER_NOUN.match(case.text, end):
        return None
    return f"{case.text[:end]} named {rng.choice(_NAMES[case.sex])}{case.text[end:]}"


@same_patient
def _check_name(pair: CasePair) -> str:
    """Return the first rule that a patient with a name breaks."""
    before = pair.before
    if before.text not in (pair.after.text.replace(f" named {name}", "", 1) for name in _NAMES[before.sex]):
        return NO_OTHER_WORD
    return STATED_ONCE if _race_words(before) else _origin_problem(pair.original, pair.benchmark, before)


# --- insurance and language -------------------------------------------------------------------------------------------


WORKING_AGES = range(19, 65)
"""Ages of patients of whom the sentences may be said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedSentence:
    """A perturbation that adds one sentence about the patient to a case."""

    sentences: tuple[str, ...]
    """Sentences, one of which is drawn."""
    attribute: str
    """Attribute that they state: also the name of the list of words after which it may matter."""
    signals_origin: bool
    """True if they say something about the origin of a patient."""

    def apply(self, case: PatientCase, rng: Random) -> str | None:
        """Return the case with one of the sentences, at the first break between sentences after the introduction."""
        place = next((at for at in sentence_breaks(case.text) if at > case.noun_span[1]), None)
        return None if place is None else f"{case.text[:place]}{rng.choice(self.sentences)} {case.text[place:]}"

    def check(self, pair: CasePair) -> str:
        """Return the first rule that a case with one of the sentences breaks."""
        if pair.before.age not in WORKING_AGES:
            return "The patient must be an adult of working age."
        new = pair.changed.fields[pair.before.field]
        if pair.before.text not in (new.replace(f"{sentence} ", "", 1) for sentence in self.sentences):
            return NO_OTHER_WORD
        if may_matter(self.attribute, pair.original, pair.benchmark):
            return f"The case may not depend on the patient's {self.attribute}."
        return _origin_problem(pair.original, pair.benchmark, pair.before) if self.signals_origin else ""


_INSURANCE = AddedSentence(
    sentences=(
        "The patient has private health insurance.",
        "The patient's health insurance is Medicaid.",
        "The patient has no health insurance.",
    ),
    attribute="insurance",
    signals_origin=False,
)
_LANGUAGE = AddedSentence(
    sentences=tuple(
        f"The patient's preferred language is {name}, and a professional interpreter is present."
        for name in ("Spanish", "Vietnamese", "Mandarin", "Arabic", "Russian")
    ),
    attribute="language",
    signals_origin=True,
)

PERTURBATIONS = (
    Perturbation(
        name="sex",
        title="Other sex",
        description="The patient of a case is of the other sex, in all nouns and pronouns.",
        apply=_swap_sex,
        check=_check_sex,
    ),
    Perturbation(
        name="age_band",
        title="Other age band",
        description="The adult patient of a case is ten years older or younger, on the same side of 50 and 65.",
        apply=_change_age,
        check=_check_age,
    ),
    Perturbation(
        name="race",
        title="Other race",
        description="The patient of a case is of another race, or of a stated one if the case states none.",
        apply=_change_race,
        check=_check_race,
    ),
    Perturbation(
        name="name",
        title="Patient's name",
        description="The patient of a case has a name that signals sex and race.",
        apply=_add_name,
        check=_check_name,
    ),
    Perturbation(
        name="insurance",
        title="Patient's insurance",
        description="A sentence says whether and how the patient of a case is insured.",
        apply=on_case(_INSURANCE.apply),
        check=same_patient(_INSURANCE.check),
    ),
    Perturbation(
        name="language",
        title="Patient's language",
        description="A sentence says that the patient of a case speaks another language, through an interpreter.",
        apply=on_case(_LANGUAGE.apply),
        check=same_patient(_LANGUAGE.check),
    ),
)
"""Counterfactual patients, in the order of lists."""
