"""How much of the wording of a reference an answer has: ROUGE (Lin, 2004).

The F-measures of Google's `rouge-score` with its stemmer, to the last bit. Words are runs of a-z and 0-9 in lower case;
those of more than three letters count by their stem. The best value over all right references counts.

Published rule. The completion is stripped of surrounding blanks; then completion and references lose a `{` at their
beginning and a `}` at their end. A reference without a word (a pair of words, for ROUGE-2) gives 0 for any answer.

Corrected rule. Reasoning between <think> tags is no part of an answer; nothing else is removed. Where no reference has
a word (a pair of words), nothing could be found in an answer: the score is missing.

An answer without a word, or without a pair of words for ROUGE-2, scores 0 by both rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from itertools import pairwise
from string import ascii_lowercase, digits
from typing import NamedTuple, TypeVar

from medhelm.domain import Instance
from medhelm.errors import DataError
from medhelm.scoring.answers.plain_text import strip_reasoning
from medhelm.scoring.metric import Metric, ScoreFunction, correct_references
from medhelm.scoring.metrics.porter_stemmer import stem

_BLANK_BUT_FOR_WORDS = bytes(code if chr(code) in ascii_lowercase + digits else ord(" ") for code in range(256))
_SOURCE = "ROUGE (Lin, 2004), as in rouge-score 0.1.2 with stemming; published rule: HELM"


class Rouge(NamedTuple):
    """The F-measures of one answer and one reference, each from 0 (nothing in common) to 1 (the same words)."""

    rouge_1: float
    """Words, wherever they stand."""
    rouge_2: float
    """Pairs of neighbouring words."""
    rouge_l: float
    """The longest series of words that both have in the same order, with gaps."""


_Kind = Callable[[Rouge], float]
"""Which of the three."""

_Thing = TypeVar("_Thing", bound=Hashable)


def without_braces(text: str) -> str:
    """`text` without one brace that opens it and one that ends it: what the published rule does to every text.

    >>> without_braces("{{name}")
    '{name'
    """
    return text.removeprefix("{").removesuffix("}")


@lru_cache(maxsize=2048)
def words(text: str) -> tuple[str, ...]:
    """The words of `text` as ROUGE counts them. References come back with every model, so the last ones are kept.

    >>> words("The patient's ESR: 3.5 -> denied")
    ('the', 'patient', 's', 'esr', '3', '5', 'deni')
    """
    plain = text.lower().encode("ascii", "replace").translate(_BLANK_BUT_FOR_WORDS).decode("ascii")
    return tuple(map(_as_compared, plain.split()))


@lru_cache(maxsize=1 << 15)
def _as_compared(word: str) -> str:
    """What is compared instead of `word`. Equal words become one and the same text in memory."""
    return stem(word) if len(word) > 3 else word


@lru_cache(maxsize=256)
def rouge(reference: str, answer: str) -> Rouge:
    """How much `answer` has of `reference`. Kept for a while: three metrics by two rules mostly ask for the same pair.

    >>> rouge("no acute distress", "no distress")
    Rouge(rouge_1=0.8, rouge_2=0.0, rouge_l=0.8)
    """
    sought, found = words(reference), words(answer)
    if not sought or not found:
        return Rouge(0.0, 0.0, 0.0)
    singles = _common(Counter(sought), Counter(found))
    pairs = _common(Counter(pairwise(sought)), Counter(pairwise(found)))
    in_order = longest_common_subsequence(sought, found)
    return Rouge(
        _f_measure(singles, len(found), len(sought)),
        _f_measure(pairs, len(found) - 1, len(sought) - 1),
        _f_measure(in_order, len(found), len(sought)),
    )


def _common(one: Counter[_Thing], other: Counter[_Thing]) -> int:
    """How many things both hold, each as often as both hold it."""
    return sum([min(one[thing], other[thing]) for thing in one.keys() & other.keys()])


def _f_measure(common: int, found: int, sought: int) -> float:
    """The harmonic mean of common/found and common/sought, in the order of operations of `rouge-score`."""
    if common == 0:
        return 0.0
    precision, recall = common / found, common / sought
    return 2 * precision * recall / (precision + recall)


def longest_common_subsequence(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Length of the longest series that both hold in the same order, gaps allowed.

    A whole row of the usual table at a time, as the bits of one integer (Crochemore et al., 2001; Hyyro, 2004): bit i
    of a row is 0 where the length grows at element i of `one`. Each growth also carries a bit out of the top, and what
    is carried out is never touched again, so in the end the length is the number of bits beyond those of `one`.

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
    """One of the three by the published rule."""

    def rate(reply: str, instance: Instance) -> float:
        answer = without_braces(reply.strip())
        return max(kind(rouge(without_braces(reference), answer)) for reference in correct_references(instance))

    return rate


def _corrected(kind: _Kind, needed: int) -> ScoreFunction:
    """One of the three by the corrected rule; a reference has to hold `needed` words."""

    def rate(reply: str, instance: Instance) -> float:
        references = [reference for reference in correct_references(instance) if len(words(reference)) >= needed]
        if not references:
            raise DataError(
                f"no right reference has as many as {needed} words in Latin letters or digits, so no answer could "
                "score; check the answer column, or leave this metric out"
            )
        answer = strip_reasoning(reply).strip()
        return max(kind(rouge(reference, answer)) for reference in references)

    return rate


ROUGE_1 = Metric(
    name="rouge_1",
    title="ROUGE-1",
    description="Words shared with the reference, by their stems: F-measure. An empty answer scores 0.",
    source=_SOURCE,
    published=_published(lambda scores: scores.rouge_1),
    corrected=_corrected(lambda scores: scores.rouge_1, 1),
)
"""Words shared with the reference."""

ROUGE_2 = Metric(
    name="rouge_2",
    title="ROUGE-2",
    description="Pairs of neighbouring words shared with the reference: F-measure. An empty answer scores 0.",
    source=_SOURCE,
    published=_published(lambda scores: scores.rouge_2),
    corrected=_corrected(lambda scores: scores.rouge_2, 2),
)
"""Pairs of words shared with the reference."""

ROUGE_L = Metric(
    name="rouge_l",
    title="ROUGE-L",
    description="Longest series of words in the same order as in the reference: F-measure. An empty answer scores 0.",
    source=_SOURCE,
    published=_published(lambda scores: scores.rouge_l),
    corrected=_corrected(lambda scores: scores.rouge_l, 1),
)
"""Words in the same order as in the reference."""
