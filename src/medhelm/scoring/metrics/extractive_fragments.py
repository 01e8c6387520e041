"""How much of an answer was copied from its input: the extractive fragments of Grusky, Naaman and Artzi (2018).

Going through the answer from left to right, the longest series of tokens that also stands in the input is a fragment,
and the search goes on behind it; a token that the input does not have is passed over. Of the fragments' lengths follow

    coverage     share of the answer's tokens that stand in fragments, from 0 (none) to 1 (all)
    density      mean length of the fragment that a token of the answer stands in: 0 (nothing copied) and up
    compression  tokens of the input for each token of the answer: 0 (no answer) and up

Case does not count. The input is all fields of the instance, with a blank line between them, without the prompt's own
words. As in the authors' procedure, a place of the input inside a match that was just tried is not tried again.

Published rule. Completion and input lose a `{` at their beginning and a `}` at their end, the completion after blanks
around it are gone. More than one blank, a tab and a line break count as tokens.

Corrected rule. Reasoning between <think> tags is no part of an answer; blanks are no tokens.

By neither rule are the values those of the published leaderboard to the last digit: it splits text with spaCy, these
metrics with one expression that comes near it. On 419 clinical notes the published rule gave half of them the same
coverage, and density and compression within 0.4 %; 95 in 100 lay within 1 %, 6 % and 3 %. Density, which sums squares,
is the one that differs where a long fragment falls apart.

An answer without tokens scores 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from math import inf
from typing import NamedTuple

from medhelm.domain import Instance
from medhelm.errors import DataError
from medhelm.io.lazy_regex import lazy_regex
from medhelm.scoring.answers.plain_text import strip_reasoning
from medhelm.scoring.metric import Metric, ScoreFunction
from medhelm.scoring.metrics.rouge import without_braces

_PIECE = (
    r"\d+(?:[.,/:]\d+)*"  # a number with its points: 3.5, 120/80
    r"|[^\W\d_]+(?=n['’]t\b)|n['’]t\b|['’](?:s|m|d|re|ve|ll)\b"  # do + n't, patient + 's
    r"|\w+|[^\w\s]"  # another word, any other mark
)
_TOKENS = lazy_regex(_PIECE)
_TOKENS_AND_BLANKS = lazy_regex(_PIECE + r"|\s{2,}|[^\S ]")


class FragmentCoverage(NamedTuple):
    """What an answer has of its input."""

    coverage: float
    """Share of its tokens in fragments, 0 to 1."""
    density: float
    """Sum of the squared lengths of the fragments, for each token; at least 0."""
    compression: float
    """Tokens of the input for each token of the answer; at least 0."""


def shared_fragments(answer: Sequence[str], source: Sequence[str]) -> list[int]:
    """Lengths, in tokens and in the order of `answer`, of the fragments that it shares with `source`.

    >>> shared_fragments("he denies fever and chills".split(), "denies fever or chills and he smokes".split())
    [1, 2, 1, 1]
    """
    places = _places(answer, source)
    known = set(source)
    lengths = []
    start = 0
    while start < len(answer):
        longest = int(answer[start] in known)
        behind = 0
        for place in places.get(tuple(answer[start : start + 2]), ()):
            if place >= behind:
                length = _common_length(answer, start, source, place)
                longest = max(longest, length)
                behind = place + length
        if longest:
            lengths.append(longest)
        start += max(longest, 1)
    return lengths


def _places(answer: Sequence[str], source: Sequence[str]) -> dict[tuple[str, ...], list[int]]:
    """Where in `source` each pair of neighbours in `answer` stands: what is longer than one token begins there only."""
    places: dict[tuple[str, ...], list[int]] = {pair: [] for pair in pairwise(answer)}
    for place, pair in enumerate(pairwise(source)):
        if pair in places:
            places[pair].append(place)
    return places


def _common_length(answer: Sequence[str], start: int, source: Sequence[str], place: int) -> int:
    """How many tokens are the same from two places on; the first two are."""
    length = 2
    room = min(len(answer) - start, len(source) - place)
    while length < room and answer[start + length] == source[place + length]:
        length += 1
    return length


@lru_cache(maxsize=64)
def extract(source: str, answer: str, *, blanks: bool = False) -> FragmentCoverage:
    """What `answer` has of `source`; `blanks`: whether more than one blank is a token. Kept, as three metrics ask.

    >>> extract("The patient denies fever or chills.", "Denies fever.")
    FragmentCoverage(coverage=1.0, density=1.6666666666666667, compression=2.3333333333333335)
    """
    expression = _TOKENS_AND_BLANKS if blanks else _TOKENS
    tokens = expression.findall(answer.lower())
    if not tokens:
        return FragmentCoverage(0.0, 0.0, 0.0)
    available = expression.findall(source.lower())
    lengths = shared_fragments(tokens, available)
    return FragmentCoverage(
        coverage=sum(lengths) / len(tokens),
        density=sum(length * length for length in lengths) / len(tokens),
        compression=len(available) / len(tokens),
    )


def _input(instance: Instance) -> str:
    """What the answer is about. Raises DataError if there is nothing."""
    text = "\n\n".join(instance.fields.values())
    if not text.strip():
        raise DataError("the instance has no input, so there is nothing that an answer could be taken from")
    return text


def _published(kind: Callable[[FragmentCoverage], float]) -> ScoreFunction:
    """One of the three by the published rule."""

    def rate(reply: str, instance: Instance) -> float:
        return kind(extract(without_braces(_input(instance)), without_braces(reply.strip()), blanks=True))

    return rate


def _corrected(kind: Callable[[FragmentCoverage], float]) -> ScoreFunction:
    """One of the three by the corrected rule."""

    def rate(reply: str, instance: Instance) -> float:
        return kind(extract(_input(instance), strip_reasoning(reply).strip()))

    return rate


_SOURCE = "Newsroom (Grusky et al., 2018), with tokens of this project; published rule: HELM, with those of spaCy"

COVERAGE = Metric(
    name="coverage",
    title="Coverage",
    description="Share of an answer's words that stand in fragments of its input. An empty answer scores 0.",
    source=_SOURCE,
    published=_published(lambda found: found.coverage),
    corrected=_corrected(lambda found: found.coverage),
    slow=True,
)
"""Share of an answer that was copied."""

DENSITY = Metric(
    name="density",
    title="Density",
    description="Mean length, in words, of the copied fragment that a word stands in; 0 for an empty answer.",
    source=_SOURCE,
    published=_published(lambda found: found.density),
    corrected=_corrected(lambda found: found.density),
    high=inf,
    slow=True,
    descriptive=True,
)
"""How long the copied fragments are."""

COMPRESSION = Metric(
    name="compression",
    title="Compression",
    description="Words of the input for each word of the answer; 0 for an empty answer.",
    source=_SOURCE,
    published=_published(lambda found: found.compression),
    corrected=_corrected(lambda found: found.compression),
    high=inf,
    slow=True,
    descriptive=True,
)
"""How much shorter than its input an answer is."""
