"""ROUGE (Lin, 2004): overlap of the words of a completion with those of a reference, from 0 to 1.

The F-measures of Google's `rouge-score` with its stemmer. Words of more than three letters a-z are replaced by their
stem. The best value over all correct references counts.

Published rule, as `rouge-score` bit for bit. Words are runs of a-z and 0-9 in lower case. Surrounding white space of
the completion is removed, then one `{` at the beginning and one `}` at the end of completion and references. A
reference without a word (for ROUGE-2, a pair of words) gives 0. A reference in another script is not compared, because
only its numbers and units would be: if less than half of its words, numbers aside, have a letter a-z, the score is
missing.

Corrected rule. Words are those of any script, see `unicode_words`; in ASCII texts they are the same. Letters with
accents, Greek letters and superscripts belong to words instead of separating them. Only reasoning between <think> tags
is removed. If no reference has a word (for ROUGE-2, a pair of words), the score is missing.

A completion without a word, or for ROUGE-2 without a pair of words, scores 0 by both rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from itertools import pairwise
from string import ascii_lowercase, digits
from typing import NamedTuple, TypeVar

from medhelm.domain import Instance
from medhelm.domain.titles import METRIC_TITLES
from medhelm.errors import DataError
from medhelm.scoring.answers.plain_text import strip_reasoning
from medhelm.scoring.metric import Metric, ScoreFunction, correct_references
from medhelm.scoring.metrics.porter_stemmer import stem
from medhelm.scoring.metrics.unicode_words import is_mostly_latin, unicode_words

_SPACES_BETWEEN_WORDS = bytes(code if chr(code) in ascii_lowercase + digits else ord(" ") for code in range(256))
_SOURCE = "ROUGE (Lin, 2004), as in rouge-score 0.1.2 with stemming; published rule: HELM"


class Rouge(NamedTuple):
    """The F-measures of one completion and one reference, each from 0 (nothing in common) to 1 (the same words)."""

    rouge_1: float
    """Single words, in any order."""
    rouge_2: float
    """Pairs of adjacent words."""
    rouge_l: float
    """The longest common subsequence of words."""


_Kind = Callable[[Rouge], float]
"""Selects one of the three."""

_Element = TypeVar("_Element", bound=Hashable)


def without_braces(text: str) -> str:
    """Remove one `{` at the beginning and one `}` at the end, as the published rule does to every text.

    >>> without_braces("{{name}")
    '{name'
    """
    return text.removeprefix("{").removesuffix("}")


@lru_cache(maxsize=2048)
def words(text: str) -> tuple[str, ...]:
    """Split `text` into words of a-z and 0-9. Cached, because every model is compared with the same references.

    >>> words("The patient's ESR: 3.5 -> denied")
    ('the', 'patient', 's', 'esr', '3', '5', 'deni')
    """
    plain = text.lower().encode("ascii", "replace").translate(_SPACES_BETWEEN_WORDS).decode("ascii")
    return tuple(map(_stem_if_long, plain.split()))


@lru_cache(maxsize=2048)
def words_of_any_script(text: str) -> tuple[str, ...]:
    """Split `text` into words as the corrected rule does; those of an ASCII text are the same as by `words`.

    >>> words_of_any_script("Douleurs thoraciques, fièvre: 每日一次")
    ('douleur', 'thoraciqu', 'fièvre', '每', '日', '一', '次')
    """
    if text.isascii():
        return words(text)
    return tuple(_stem_if_long(word) if word.isascii() else word for word in unicode_words(text))


@lru_cache(maxsize=1 << 15)
def _stem_if_long(word: str) -> str:
    """Return the stem of a long word. Equal words become one object in memory."""
    return stem(word) if len(word) > 3 else word


def rouge(reference: str, completion: str, split: Callable[[str], tuple[str, ...]] = words) -> Rouge:
    """Compare a completion with a reference. `split`: `words`, or `words_of_any_script`.

    >>> rouge("no acute distress", "no distress")
    Rouge(rouge_1=0.8, rouge_2=0.0, rouge_l=0.8)
    """
    return _rouge(split(reference), split(completion))


@lru_cache(maxsize=256)
def _rouge(sought: tuple[str, ...], found: tuple[str, ...]) -> Rouge:
    """Compare the words of two texts. Cached: three metrics with two rules mostly need the same pair."""
    if not sought or not found:
        return Rouge(0.0, 0.0, 0.0)
    singles = _n_common(Counter(sought), Counter(found))
    pairs = _n_common(Counter(pairwise(sought)), Counter(pairwise(found)))
    in_order = longest_common_subsequence(sought, found)
    return Rouge(
        _f_measure(singles, len(found), len(sought)),
        _f_measure(pairs, len(found) - 1, len(sought) - 1),
        _f_measure(in_order, len(found), len(sought)),
    )


def _n_common(one: Counter[_Element], other: Counter[_Element]) -> int:
    """Count the common elements of two multisets."""
    return sum([min(one[element], other[element]) for element in one.keys() & other.keys()])


def _f_measure(common: int, found: int, sought: int) -> float:
    """Return the harmonic mean of common/found and common/sought, in the order of operations of `rouge-score`."""
    if common == 0:
        return 0.0
    precision, recall = common / found, common / sought
    return 2 * precision * recall / (precision + recall)


def longest_common_subsequence(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Return the length of the longest common subsequence.

    Each row of the usual table is one integer (Crochemore et al., 2001; Hyyro, 2004): bit i of a row is 0 where the
    length grows at element i of `one`. Each growth also carries a bit out of the top, where it is never touched again.
    So in the end the length is the number of bits beyond those of `one`.

    >>> longest_common_subsequence("no acute distress".split(), "distress no acute".split())
    2
    """
    if len(one) > len(other):
        one, other = other, one
    places: dict[Hashable, int] = {}
    bit = 1
    for element in one:
        places[element] = places.get(element, 0) | bit
        bit <<= 1
    row = bit - 1
    for element in other:
        if hits := row & places.get(element, 0):
            row = (row + hits) | (row - hits)
    return row.bit_length() - len(one)


def _published(kind: _Kind) -> ScoreFunction:
    """Build the published rule of one of the three."""

    def rate(completion: str, instance: Instance) -> float:
        references = [reference for reference in correct_references(instance) if is_mostly_latin(reference)]
        if not references:
            raise DataError(
                "the published rule compares only a-z and 0-9, and less than half of the reference's words have such "
                "letters; the corrected rule compares all words"
            )
        text = without_braces(completion.strip())
        return max(kind(rouge(without_braces(reference), text)) for reference in references)

    return rate


def _corrected(kind: _Kind, needed: int) -> ScoreFunction:
    """Build the corrected rule of one of the three. References with fewer than `needed` words are ignored."""

    def rate(completion: str, instance: Instance) -> float:
        known = correct_references(instance)
        references = [reference for reference in known if len(words_of_any_script(reference)) >= needed]
        if not references:
            raise DataError(
                f"no correct reference has {'a word' if needed == 1 else 'two words'}; check the answer column, or "
                "leave this metric out"
            )
        text = strip_reasoning(completion).strip()
        return max(kind(rouge(reference, text, words_of_any_script)) for reference in references)

    return rate


def _metric(name: str, description: str, kind: _Kind, needed: int = 1) -> Metric:
    """Build one of the three metrics. `needed`: words that a reference must have by the corrected rule."""
    return Metric(
        name=name,
        title=METRIC_TITLES[name],
        description=f"{description}: F-measure. An empty completion scores 0.",
        source=_SOURCE,
        published=_published(kind),
        corrected=_corrected(kind, needed),
    )


ROUGE_1 = _metric("rouge_1", "Words shared with the reference, compared by stem", lambda scores: scores.rouge_1)
ROUGE_2 = _metric("rouge_2", "Pairs of adjacent words shared with the reference", lambda scores: scores.rouge_2, 2)
ROUGE_L = _metric("rouge_l", "Longest common subsequence of words with the reference", lambda scores: scores.rouge_l)
