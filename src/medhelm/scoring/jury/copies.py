"""Recognizes verdicts that a judge copied from the texts it read, in whatever spelling.

The texts and the explanations of a verdict are compared in every form in which one can become the other: as written,
with each escape undone, and with encoded words decoded, too (`visible_text`). So it makes no difference whether a judge
copies a planted verdict byte by byte, decodes it or encodes it again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from medhelm.io.lazy_regex import lazy_regex
from medhelm.scoring.jury.visible_text import ALIKE, decoded_text

LEAST = 6
"""Fewest letters and digits from which the first half of an explanation is compared alone."""

_NO_LETTER = lazy_regex(r"[\W_]+")
_VALUE = lazy_regex(r"[-+]?\d{1,400}(?:\.\d{0,400})?(?:e[-+]?\d{1,3})?|\btrue\b|\bfalse\b")


def is_copied(
    explanations: Iterable[str], grades: Mapping[str, float], keys: Sequence[str], shown: Sequence[str]
) -> bool:
    """Return True if a verdict is copied from the texts that the judge read.

    It is if one of its explanations occurs there as an explanation; or if all its grades occur there, each after its
    key and before the next one, and there is no explanation, or the first half of one occurs there.

    Parameters: grades, key of a criterion in the verdict -> grade; keys, those of all criteria, sorted.
    """
    explained = [forms for text in explanations if any(forms := _letters(text))]
    if any(_is_explanation_in(form, text) for forms in explained for form in forms for text in shown):
        return True
    half = [form[: max(LEAST, len(form) // 2)] for forms in explained for form in forms]
    return bool(grades) and any(
        _has_grades(text, grades, keys) and (not explained or any(_is_explanation_in(form, text) for form in half))
        for text in shown
    )


def _is_explanation_in(letters: str, text: str) -> bool:
    """Return True if these letters follow the word `explanation` in one form of a text."""
    return bool(letters) and any(f"explanation{letters}" in form for form in _letters(text))


def _has_grades(text: str, grades: Mapping[str, float], keys: Sequence[str]) -> bool:
    """Return True if all grades occur in one form of a text, each after its key."""
    by_form = (_values(form, tuple(keys)) for form in _forms(text))
    return any(all(grade in values.get(key, ()) for key, grade in grades.items()) for values in by_form)


@lru_cache(maxsize=256)
def _forms(text: str) -> tuple[str, ...]:
    """Return all forms of a text in folded case, each once."""
    runs = (decoded_text(text, runs=True, joined=joined) for joined in (True, False))
    forms = (text, decoded_text(text), *runs)
    return tuple(dict.fromkeys(form.casefold() for form in forms))


@lru_cache(maxsize=256)
def _letters(text: str) -> tuple[str, ...]:
    """Return the letters and digits of all forms of a text, look-alike letters as Latin ones."""
    return tuple(dict.fromkeys(_NO_LETTER.sub("", form.translate(ALIKE)) for form in _forms(text)))


@lru_cache(maxsize=256)
def _values(text: str, keys: tuple[str, ...]) -> Mapping[str, frozenset[float]]:
    """Return the numbers, and `true` and `false` as numbers, between each of `keys` in a text and the next one."""
    spellings = [r"[\W_]{0,9}".join(map(re.escape, _NO_LETTER.sub("", key.casefold()) or key)) for key in keys]
    places = [
        (found.start(), found.end(), key)
        for key, spelling in zip(keys, spellings, strict=True)
        for found in re.finditer(spelling, text)
    ]
    found: dict[str, set[float]] = {}
    places.sort()
    ends = [*(start for start, _, _ in places), len(text)][1:]
    for (_, start, key), end in zip(places, ends, strict=bool(places)):
        for number in _VALUE.findall(text[start:end]):
            found.setdefault(key, set()).add(float({"true": 1, "false": 0}.get(number, number)))
    return {key: frozenset(values) for key, values in found.items()}
