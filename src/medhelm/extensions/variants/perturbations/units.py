"""Convert the values of a case to the other unit in common use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from operator import mul
from random import Random

from medhelm.domain import Benchmark, Instance
from medhelm.domain.benchmark import group_by
from medhelm.extensions.variants.perturbations.cases import (
    answer_text,
    changed_texts,
    find_case,
    in_small_letters,
    only_text,
    with_field,
)
from medhelm.extensions.variants.types import Perturbation


@dataclass(frozen=True, slots=True)
class Quantity:
    """A laboratory value with two units in common use."""

    names: str
    """Pattern of its names."""
    factor: float
    """Number by which values in the first unit are multiplied."""
    first: str
    """Unit in use in the United States."""
    second: str
    """The other unit."""
    places: tuple[int, int]
    """Usual decimals in the first and the second unit."""
    plausible: tuple[float, float]
    """Range of values in the first unit; others are left alone, because they may be of something else."""


QUANTITIES = (
    Quantity("(?:blood |plasma )?glucose|blood sugar", 1 / 18.016, "mg/dL", "mmol/L", (0, 1), (10, 2000)),
    Quantity("creatinine|Cr", 88.42, "mg/dL", "µmol/L", (1, 0), (0.1, 30)),
    Quantity("(?:[LH]DL[ -])?cholesterol|[LH]DL(?:-C)?", 1 / 38.67, "mg/dL", "mmol/L", (0, 2), (5, 800)),
    Quantity("triglycerides?", 1 / 88.57, "mg/dL", "mmol/L", (0, 2), (20, 5000)),
    Quantity("bilirubin", 17.10, "mg/dL", "µmol/L", (1, 0), (0.05, 60)),
    Quantity("(?:blood )?urea nitrogen|BUN", 1 / 2.801, "mg/dL", "mmol/L", (0, 1), (1, 300)),
    Quantity(r"calcium|Ca(?:2\+|\+\+)?", 1 / 4.008, "mg/dL", "mmol/L", (1, 2), (3, 20)),
    Quantity(r"magnesium|Mg(?:2\+|\+\+)", 1 / 2.431, "mg/dL", "mmol/L", (1, 2), (0.3, 10)),
    Quantity("phosph(?:ate|orus)", 1 / 3.097, "mg/dL", "mmol/L", (1, 2), (0.3, 20)),
    Quantity("uric acid|urate", 59.48, "mg/dL", "µmol/L", (1, 0), (0.5, 30)),
    Quantity("ha?emoglobin|Hgb|Hb", 10, "g/dL", "g/L", (1, 0), (2, 25)),
    Quantity("albumin", 10, "g/dL", "g/L", (1, 0), (0.5, 7)),
    Quantity(r"sodium|Na\+?|chloride|Cl[-−–]?|bicarbonate|HCO3[-−–]?", 1, "mEq/L", "mmol/L", (0, 0), (2, 250)),
    Quantity(r"potassium|K\+?", 1, "mEq/L", "mmol/L", (1, 1), (0.5, 12)),
)
"""Values in serum or plasma, with the factors in use for them: 10 / molar mass in g/mol for mg/dL and mmol/L."""

_SPELLINGS = {
    "mg/dL": r"mg\s?/\s?dl", "mmol/L": r"mmol\s?/\s?l", "µmol/L": r"[µμu]mol\s?/\s?l",
    "g/dL": r"g\s?/\s?dl", "g/L": r"g\s?/\s?l", "mEq/L": r"meq\s?/\s?l",
}  # fmt: skip
_NUMBER = r"\d{1,3}(?:,\d{3})+(?!\d)|\d+(?:\.\d+)?"
_FILLER = (
    r"(?:\s*(?:\b(?:levels?|concentrations?|values?|of|is|was|were|are|at|measured|approximately|about|around|found|to"
    r"|elevated|high|low|increased|decreased|reduced|normal|be|serum|plasma|total|direct)\b|[:=,~<>≤≥]"
    r"|\([A-Z][\w+-]{0,8}\)))*\s*"
)
_NORMAL = r"(?:(?:normal|reference|ref|range|interval|limits?|values?|rr|nr?|nl|is|for)?[.:,=]?\s?)*"
_NAMES = re.compile(rf"(?<![\w/-])(?=(?:{'|'.join(f'({one.names})' for one in QUANTITIES)})(?![\w/-]))".lower())
"""Places of the names of quantities, in small letters: one group for each, in one pass over a text."""
_OTHER_FLUID = re.compile(r"(?:urine|urinary|csf|fluid|ionized|spot|fecal|to)\s$", re.IGNORECASE)
"""Before a name: not a value in serum or plasma."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """A pattern of values, and their conversion."""

    value: re.Pattern[str]
    """Values: groups `number` and `unit`, and perhaps `low`, `high` and `range_unit` of a reference range."""
    convert: Callable[[float], float]
    """Value in the unit of the pattern -> in the other one."""
    back: Callable[[float], float]
    """The reverse."""
    quantity: int = 0
    """Number of the quantity with whose name a value begins, from 1; 0 if `value` can match anywhere."""
    sign: str = ""
    """Part of every text with a value, in small letters; a fast test."""
    unit_sign: str
    """Part of the unit that is in every text with a value, in small letters and without spaces."""
    unit: str
    """The other unit."""
    places: int
    """Usual decimals in it."""
    plausible: tuple[float, float]
    """Range of values that are converted."""
    unread: re.Pattern[str] | None = None
    """Values that `value` cannot read, after which no value of a text is converted."""


def _laboratory_values() -> Iterator[Conversion]:
    """Yield both directions of all laboratory values."""
    for number, one in enumerate(QUANTITIES, start=1):
        name = rf"(?<![\w/-])(?:{one.names})(?![\w/-])"
        for unit, other, factor, places, scale in (
            (one.first, one.second, one.factor, one.places[1], 1.0),
            (one.second, one.first, 1 / one.factor, one.places[0], one.factor),
        ):
            spelled = _SPELLINGS[unit]
            reference = (
                rf"(?:\s?[(\[](?:{_NORMAL}[<>≤≥]?\s?(?P<low>{_NUMBER})(?:\s?(?:[-–−]|to)\s?(?P<high>{_NUMBER}))?"
                rf")(?:\s?(?P<range_unit>{spelled}))?\s?[)\]])?"
            )
            yield Conversion(
                value=re.compile(
                    rf"{name}{_FILLER}(?P<number>{_NUMBER})\s?(?P<unit>{spelled})\b(?!\s?[/±]){reference}",
                    re.IGNORECASE,
                ),
                convert=partial(mul, factor),
                back=partial(mul, 1 / factor),
                quantity=number,
                unit_sign=unit.lower().lstrip("µ"),
                unit=other,
                places=places,
                plausible=(one.plausible[0] * scale, one.plausible[1] * scale),
                unread=re.compile(rf"{name}[^.;\n]{{0,60}}?\d\s?{spelled}\b", re.IGNORECASE),
            )


def _to_fahrenheit(celsius: float) -> float:
    return celsius * 9 / 5 + 32


def _to_celsius(fahrenheit: float) -> float:
    return (fahrenheit - 32) * 5 / 9


_SINGLE = r"(?!\s?[(/²^*]|\s?per\b|2\b)"
"""After a unit: no rate, and not the same value in the other unit."""
_KG_PER_LB, _CM_PER_IN = 0.45359237, 2.54


def _body_values() -> Iterator[Conversion]:
    """Yield temperature, weight and height."""
    linking = r"(?:\s(?:of|is|was|about|approximately))*\s?[:=]?\s?"
    degrees, weight, height = r"(?:°|º|degrees)\s?", rf"\bweigh(?:s|ed|ing|t){linking}", rf"\bheight{linking}"
    pounds, inches = partial(mul, 1 / _KG_PER_LB), partial(mul, 1 / _CM_PER_IN)
    kilograms, centimeters = partial(mul, _KG_PER_LB), partial(mul, _CM_PER_IN)
    for before, sign, unit_sign, unit, other, convert, back, places, plausible in (
        ("", "", "c", f"{degrees}C(?:elsius)?", "°F", _to_fahrenheit, _to_celsius, 1, (30.0, 43.0)),
        ("", "", "f", f"{degrees}F(?:ahrenheit)?", "°C", _to_celsius, _to_fahrenheit, 1, (86.0, 110.0)),
        (weight, "weigh", "k", "(?:kg|kilograms)", "lb", pounds, kilograms, 0, (1.0, 250.0)),
        (weight, "weigh", "", "(?:lbs?|pounds)", "kg", kilograms, pounds, 1, (2.0, 500.0)),
        (height, "height", "", "(?:cm|centimeters)", "in", inches, centimeters, 0, (50.0, 230.0)),
        (height, "height", "in", "(?:in|inches)", "cm", centimeters, inches, 0, (20.0, 90.0)),
    ):
        yield Conversion(
            value=re.compile(
                rf"{before}(?<![\d.,(/–-])(?P<number>\d{{1,3}}(?:\.\d+)?)[ -]?(?P<unit>{unit})\b{_SINGLE}",
                re.IGNORECASE if before else 0,
            ),
            convert=convert, back=back, sign=sign,
            unit_sign=unit_sign, unit=other, places=places, plausible=plausible,
        )  # fmt: skip


CONVERSIONS: Sequence[Conversion] = (*_laboratory_values(), *_body_values())

_PARTS = re.compile(rf"({_NUMBER})")
_UNIT = re.compile(
    rf"[ -]?(?:{'|'.join(_SPELLINGS.values())}|(?:°|º|degrees)\s?[CF](?:elsius|ahrenheit)?|kg|kilograms|lbs?|pounds|cm"
    r"|centimeters|in|inches)\b",
    re.IGNORECASE,
)
_VALUE_BEFORE = re.compile(rf"(?:{'|'.join(_SPELLINGS.values())})[ ]+(?:(?:of|for|total|serum)[ ]+)*$", re.IGNORECASE)
_MORE_VALUES = re.compile(
    rf"\s?[(\[][^()\[\]]*\d|[\s,;/|→–-]*(?:\b(?:and|to|or|then)\s)?\s*(?:{_NUMBER})\s?"
    rf"(?:{'|'.join(_SPELLINGS.values())})\b",
    re.IGNORECASE,
)
_LONG_FORMS = {"kilograms": "kg", "lbs": "lb", "pounds": "lb", "centimeters": "cm", "inches": "in"}


def _plain_unit(text: str) -> str:
    """Return the unit at the start of a text in one spelling; empty if there is none.

    >>> _plain_unit(" mg / dl and"), _plain_unit("-pounds"), _plain_unit(" degrees Celsius"), _plain_unit(" years")
    ('mg/dl', 'lb', '°c', '')
    """
    match = _UNIT.match(text)
    if match is None:
        return ""
    unit = re.sub(r"[\s-]", "", match.group().lower()).replace("º", "°").replace("degrees", "°")
    unit = re.sub(r"^[μu]mol", "µmol", re.sub(r"^°([cf]).*", r"°\1", unit))
    return _LONG_FORMS.get(unit, unit)


# --- change -----------------------------------------------------------------------------------------------------------

_TOLERANCE = 0.005
"""Largest relative change of a value by rounding."""
_TOLERANCE_IN_FORMULAS = 0.002
"""The same where the reference is computed from values."""

_LONG_REFERENCE = 8
"""Words of a reference that is a text: shorter ones with digits are dates, doses or times."""


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"[-−]?\d+(?:\.\d+)?", text.strip()))


def _tolerance(instance: Instance) -> float | None:
    """Return the largest relative change of a value; None if the reference is a count, a score or a date.

    The reference of a formula has decimals. Scores have limits that a rounded value could miss.
    """
    if instance.choices or not instance.references:
        return _TOLERANCE
    answer = instance.expected
    if _is_number(answer):
        return _TOLERANCE_IN_FORMULAS if "." in answer else None
    is_short = len(answer.split()) < _LONG_REFERENCE and re.search(r"\d", answer)
    return None if is_short else _TOLERANCE


def rounded(number: str, conversion: Conversion, tolerance: float) -> str | None:
    """Return a value in the other unit with the fewest decimals that give the same value when converted back.

    None if the value is implausible, or needs more than two decimals beyond the usual ones.
    """
    value = float(number.replace(",", ""))
    if not conversion.plausible[0] <= value <= conversion.plausible[1]:
        return None
    shown = len(number.partition(".")[2])
    new = conversion.convert(value)
    for places in range(conversion.places, conversion.places + 3):
        found = f"{new:.{places}f}"
        again = conversion.back(float(found))
        if abs(again - value) <= tolerance * value and round(again, shown) == value:
            return found
    return None


def _converted(text: str, tolerance: float) -> str | None:
    """Return the text in other units; None if a value of a quantity that it names cannot be converted."""
    found: dict[tuple[int, int], str] = {}
    small = in_small_letters(text)
    compact = "".join(small.split())
    named = group_by(_NAMES.finditer(small), lambda match: match.lastindex)
    for conversion in CONVERSIONS:
        if conversion.unit_sign not in compact or conversion.sign not in small:
            continue
        places = [match.start() for match in named.get(conversion.quantity, ())] if conversion.quantity else None
        matches = [match for match in _matches(conversion.value, text, places) if not _is_of_other_fluid(match)]
        read = [match.span("unit") for match in matches]
        for match in _matches(conversion.unread, text, places) if matches and conversion.unread else ():
            if not any(start < match.end() <= end for start, end in read) and not _is_of_other_fluid(match):
                return None
        for match in matches:
            new = _new_texts(match, conversion, tolerance)
            if new is None or not new.keys().isdisjoint(found):
                return None
            found |= new
    parts: list[str] = []
    last = 0
    for (start, end), replacement in sorted(found.items()):
        parts += [text[last:start], replacement]
        last = end
    return "".join([*parts, text[last:]])


def _matches(pattern: re.Pattern[str], text: str, places: Sequence[int] | None) -> Iterator[re.Match[str]]:
    """Yield the matches of a pattern that do not overlap. `places`: where they can begin; None for anywhere."""
    if places is None:
        yield from pattern.finditer(text)
        return
    end = 0
    for place in places:
        if place >= end and (match := pattern.match(text, place)):
            yield match
            end = match.end()


def _is_of_other_fluid(match: re.Match[str]) -> bool:
    return bool(_OTHER_FLUID.search(match.string, max(0, match.start() - 9), match.start()))


def _new_texts(match: re.Match[str], conversion: Conversion, tolerance: float) -> dict[tuple[int, int], str] | None:
    """Return place -> new text for the parts of a value; None if they cannot be converted."""
    is_labeled = re.search("[:=]", match.string[match.start() : match.start("number")])
    if not is_labeled and _VALUE_BEFORE.search(match.string, max(0, match.start() - 24), match.start()):
        return None  # "84 mg/dL triglycerides, 66 mg/dL HDL": the value after a name is that of the next one
    if _MORE_VALUES.match(match.string, match.end()):
        return None  # "160 mg/dL (8.9 mmol/L)", or a table with a column for each day
    found: dict[tuple[int, int], str] = {}
    for group, part in match.groupdict().items():
        if part is None:
            continue
        new = conversion.unit if "unit" in group else rounded(part, conversion, tolerance)
        if new is None:
            return None
        found[match.span(group)] = new
    return found


def _convert(instance: Instance, benchmark: Benchmark, rng: Random) -> Instance | None:  # noqa: ARG001
    """Return the case with all its values in the other unit."""
    case, tolerance = find_case(instance, benchmark), _tolerance(instance)
    if case is None or tolerance is None:
        return None
    text = _converted(case.text, tolerance)
    return None if text is None else with_field(instance, case.field, text)


# --- check ------------------------------------------------------------------------------------------------------------

_MOLAR_MASS = {
    "glucose": 180.16, "sugar": 180.16, "creatinine": 113.12, "cr": 113.12, "cholesterol": 386.65, "ldl": 386.65,
    "hdl": 386.65, "triglyceride": 885.7, "bilirubin": 584.66, "nitrogen": 28.014, "bun": 28.014, "calcium": 40.078,
    "ca": 40.078, "magnesium": 24.305, "mg2+": 24.305, "mg++": 24.305, "phosphate": 30.974, "phosphorus": 30.974,
    "uric": 168.11, "urate": 168.11,
}  # fmt: skip
"""Name -> molar mass in g/mol, from which the check derives the factors again."""
_NAME = re.compile(rf"\b(?:{'|'.join(re.escape(name) for name in _MOLAR_MASS)})(?!s?[a-rt-z])", re.IGNORECASE)


def _expected(value: float, units: tuple[str, str], name: str) -> float | None:
    """Return a value in another unit, from molar masses and definitions; None if the units do not fit the quantity.

    `name`: the last name of a quantity before the value; empty if there is none.
    """
    if units == ("°c", "°f"):
        return 32 + 1.8 * value
    if units == ("°f", "°c"):
        return (value - 32) / 1.8
    factors = {("g/dl", "g/l"): 10.0, ("meq/l", "mmol/l"): 1.0, ("kg", "lb"): 2.20462, ("cm", "in"): 0.393701}
    if name:
        mass = _MOLAR_MASS[name]
        factors |= {("mg/dl", "mmol/l"): 10 / mass, ("mg/dl", "µmol/l"): 10_000 / mass}
    factor = factors.get(units) or 1 / factors.get(units[::-1], float("inf"))
    return value * factor or None


def _value_problem(old: str, new: str) -> str:
    """Return the first rule that the values of a text break."""
    before, after = _PARTS.split(old), _PARTS.split(new)
    if len(before) != len(after):
        return "Nothing but values and units may change."
    units, starts = ("", ""), list(accumulate(map(len, before), initial=0))
    names = [(match.end(), match.group()) for match in _NAME.finditer(old.lower())]
    for place in range(1, len(before), 2):
        words, new_words = before[place + 1], after[place + 1]
        pair = (_plain_unit(words), _plain_unit(new_words))
        if (_UNIT.sub("", words, 1) if pair[0] else words) != (_UNIT.sub("", new_words, 1) if pair[1] else new_words):
            return "Nothing but values and units may change."
        if before[place] == after[place] and pair[0] == pair[1]:
            continue
        units = pair if pair[0] != pair[1] else units
        value = float(before[place].replace(",", ""))
        name = next((name for end, name in reversed(names) if end <= starts[place]), "")
        expected = _expected(value, units, name)
        last_place = 10.0 ** -len(after[place].partition(".")[2])
        tolerance = 0.05 if units[0] in ("°c", "°f") else 0.01 * (expected or 0)
        if expected is None or abs(float(after[place]) - expected) > tolerance + last_place / 2:
            return "Values must be equal, up to rounding."
    return "" if before[0] == after[0] else "Nothing but values and units may change."


@only_text
def _check(original: Instance, changed: Instance, benchmark: Benchmark) -> str:  # noqa: ARG001
    """Return the first rule that converted values break."""
    for old, new in changed_texts(original, changed):
        if problem := _value_problem(old, new):
            return problem
    answers = _PARTS.split(answer_text(original))
    if any(_plain_unit(words) not in ("", "in") for words in answers[2::2]):
        return "Options and references may not have one of the units."
    return ""


PERTURBATIONS = (
    Perturbation(
        name="units",
        title="Other units",
        description="Laboratory values, temperature, weight and height of a case are in the other unit in common use.",
        apply=_convert,
        check=_check,
    ),
)
"""The conversion of units."""
