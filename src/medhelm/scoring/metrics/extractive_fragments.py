"""Coverage, density and compression: how much of a completion is copied from its input (Grusky et al., 2018).

The completion is scanned from left to right. The longest run of tokens that also occurs in the input is a fragment, and
the scan continues after it; a token that does not occur in the input is skipped. The metrics are

    coverage     share of the completion's tokens in fragments, from 0 (none) to 1 (all)
    density      mean length of the fragment around a token of the completion: at least 0 (nothing copied)
    compression  tokens of the input for each token of the completion: at least 0 (empty completion)

Case does not count. The input is all fields of the instance, separated by blank lines, without the words of the prompt
template. As in the authors' procedure, positions of the input inside a match that was just tried are not tried again.
Reasoning between <think> tags is removed, and white space is never a token. In Chinese, Japanese, Korean, Thai, Lao,
Khmer and Burmese each character is a token. A completion without tokens scores 0.

They have no published rule: both rules give these numbers, and neither can be compared with those of the reference
implementation. That measures against the whole text of its prompt and splits text with spaCy, where blanks and line
breaks are tokens. A form that repeats the headings in the prompt has a coverage near 1 there, and about 0.5 here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from math import inf
from typing import NamedTuple
from unicodedata import normalize

from medhelm.domain import Instance
from medhelm.domain.text import METRIC_TITLES
from medhelm.errors import DataError
from medhelm.io.plugins import lazy_regex
from medhelm.scoring.answers.text import strip_reasoning
from medhelm.scoring.metric import Metric, ScoreFunction
from medhelm.scoring.metrics.rouge import CHARACTER_SCRIPTS, combining_marks

_PIECE = (
    r"\d+(?:[.,/:]\d+)*"  # a number with its separators: 3.5, 120/80
    r"|[^\W\d_]+(?=n['’]t\b)|n['’]t\b|['’](?:s|m|d|re|ve|ll)\b"  # do + n't, patient + 's
    r"|[\w{marks}]+|[^\w\s]"  # any other word or punctuation mark
)
_ASCII_TOKENS = lazy_regex(_PIECE.replace("{marks}", ""))


def tokens_of(text: str) -> list[str]:
    """Split a text into lower-case words, numbers and punctuation marks.

    Combining marks belong to words. Each character of a script without spaces between words is a token.

    >>> tokens_of("He doesn't smoke. 每日2次")
    ['he', 'does', "n't", 'smoke', '.', '每', '日', '2', '次']
    """
    if text.isascii():
        return _ASCII_TOKENS.findall(text.lower())
    tokens, characters = _unicode_patterns()
    return tokens.findall(characters.sub(r" \g<0> ", normalize("NFC", text.lower())))


@cache
def _unicode_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the pattern of a token, and that of a character in a script without spaces between words."""
    marks = combining_marks()
    return re.compile(_PIECE.replace("{marks}", marks)), re.compile(f"[{CHARACTER_SCRIPTS}][{marks}]*")


class FragmentCoverage(NamedTuple):
    """The part of a completion that is copied from its input."""

    coverage: float
    """Share of the completion's tokens in fragments, 0 to 1."""
    density: float
    """Sum of the squared lengths of fragments / tokens of the completion; at least 0."""
    compression: float
    """Tokens of the input / tokens of the completion; at least 0."""


def shared_fragments(tokens: Sequence[str], source: Sequence[str]) -> list[int]:
    """Return the lengths, in tokens, of the fragments of `tokens` that also occur in `source`, in order.

    >>> shared_fragments("he denies fever and chills".split(), "denies fever or chills and he smokes".split())
    [1, 2, 1, 1]
    """
    places = _places(tokens, source)
    known = set(source)
    lengths = []
    start = 0
    while start < len(tokens):
        longest = int(tokens[start] in known)
        behind = 0
        for place in places.get(tuple(tokens[start : start + 2]), ()):
            if place >= behind:
                length = _common_length(tokens, start, source, place)
                longest = max(longest, length)
                behind = place + length
        if longest:
            lengths.append(longest)
        start += max(longest, 1)
    return lengths


def _places(tokens: Sequence[str], source: Sequence[str]) -> dict[tuple[str, ...], list[int]]:
    """Find each pair of adjacent tokens in `source`: fragments longer than one token begin only there."""
    places: dict[tuple[str, ...], list[int]] = {pair: [] for pair in pairwise(tokens)}
    for place, pair in enumerate(pairwise(source)):
        if pair in places:
            places[pair].append(place)
    return places


def _common_length(tokens: Sequence[str], start: int, source: Sequence[str], place: int) -> int:
    """Count the equal tokens from two positions on; the first two are known to be equal."""
    length = 2
    room = min(len(tokens) - start, len(source) - place)
    while length < room and tokens[start + length] == source[place + length]:
        length += 1
    return length


@lru_cache(maxsize=64)
def extract(source: str, completion: str) -> FragmentCoverage:
    """Compare a completion with its source. Cached for the three metrics.

    >>> extract("The patient denies fever or chills.", "Denies fever.")
    FragmentCoverage(coverage=1.0, density=1.6666666666666667, compression=2.3333333333333335)
    """
    tokens = tokens_of(completion)
    if not tokens:
        return FragmentCoverage(0.0, 0.0, 0.0)
    available = tokens_of(source)
    lengths = shared_fragments(tokens, available)
    return FragmentCoverage(
        coverage=sum(lengths) / len(tokens),
        density=sum(length * length for length in lengths) / len(tokens),
        compression=len(available) / len(tokens),
    )


def _input(instance: Instance) -> str:
    """Return the input of an instance. Raises DataError if it is empty."""
    text = "\n\n".join(instance.fields.values())
    if not text.strip():
        raise DataError("the instance has no input, so there is nothing to copy from")
    return text


def _rule(kind: Callable[[FragmentCoverage], float]) -> ScoreFunction:
    """Build one of the three."""

    def rate(completion: str, instance: Instance) -> float:
        return kind(extract(_input(instance), strip_reasoning(completion).strip()))

    return rate


_SOURCE = "Newsroom (Grusky et al., 2018), with tokens of this project; one rule, not comparable with HELM's numbers"


def _metric(
    name: str, description: str, kind: Callable[[FragmentCoverage], float], *, is_share: bool = False
) -> Metric:
    """Build one of the three metrics. `is_share`: its highest value is 1, and more is better."""
    return Metric(
        name=name,
        title=METRIC_TITLES[name],
        description=description,
        source=_SOURCE,
        corrected=_rule(kind),
        high=1.0 if is_share else inf,
        slow=True,
        descriptive=not is_share,
    )


COVERAGE = _metric(
    "coverage",
    "Share of the completion's words in fragments copied from its input. An empty completion scores 0.",
    lambda found: found.coverage,
    is_share=True,
)
DENSITY = _metric(
    "density",
    "Mean length, in words, of the copied fragment around a word; 0 for an empty completion.",
    lambda found: found.density,
)
COMPRESSION = _metric(
    "compression",
    "Words of the input for each word of the completion; 0 for an empty completion.",
    lambda found: found.compression,
)
