"""What sentences and tables of outputs state about models: readers for tests that no two outputs contradict each other.

Names of models have the form `openai/NAME`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

MODEL = r"openai/\w+"
LIST = rf"{MODEL}(?:, {MODEL})*(?:,? and {MODEL})?"
"""Names as in `a, b and c`."""

REST = r"every other (?:ranked )?model|the other model"
"""Stands for all other models."""

PAIRS = rf"{MODEL} and {MODEL}(?:; {MODEL} and {MODEL})*"

Pair = tuple[str, str]


@dataclass
class Statements:
    """What a text says of pairs of models."""

    better: set[Pair] = field(default_factory=set)
    """The first is significantly better than the second."""
    equal: set[frozenset[str]] = field(default_factory=set)
    """Pairs that are said not to differ significantly."""
    unknown: set[frozenset[str]] = field(default_factory=set)
    """Pairs that are said not to be compared."""
    fragile: set[Pair] = field(default_factory=set)
    """Differences that are said to depend on missing scores."""
    first: set[str] = field(default_factory=set)
    """Models that are said to lead, or to rank first."""
    counts: set[tuple[int, int]] = field(default_factory=set)
    """Numbers of significant and of tested pairs."""
    unread: list[str] = field(default_factory=list)
    """Sentences on differences between models that no rule below reads."""


def names(text: str) -> list[str]:
    """Return the names of models in a text, in order."""
    return re.findall(MODEL, text)


def pairs_in(text: str) -> list[Pair]:
    """Return the pairs of a list such as `a and b; c and d`."""
    return [(found[0], found[1]) for part in text.split(";") if len(found := names(part)) == 2]


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text without markup; lines end sentences, too."""
    text = re.sub(r"(?s)<(script|style|svg)\b.*?</\1>", "", text)
    text = re.sub(r"<[^>]+>", " ", re.sub(r"</(?:p|li|td|th|h\d|div|caption)>", "\n", text))
    for line in html.unescape(text).replace("\\", "").splitlines():
        for one in re.split(r"(?<=\.)\s+(?=[A-Z]|openai/)", " ".join(line.split())):
            if sentence := one.strip(" -*"):
                yield sentence


def read(text: str, models: Iterable[str]) -> Statements:
    """Return what the sentences of a text say. `models`: all that are ranked, the best first."""
    found = Statements()
    for sentence in sentences(text):
        if not _read_sentence(sentence, list(models), found) and _is_on_differences(sentence):
            found.unread.append(sentence)
    return found


def _is_on_differences(sentence: str) -> bool:
    words = r"better|leads|separated|differ significantly|larger than chance|ranks first|share the first|in common"
    return bool(re.search(words, sentence) and (names(sentence) or re.search(r"\d+ of \d+|No two", sentence)))


def _read_sentence(text: str, models: list[str], found: Statements) -> bool:
    """Add what a sentence says; return whether it was read."""
    if hit := re.search(rf"^({MODEL}) is significantly better than ({LIST}) only if", text):
        found.fragile |= {(hit[1], other) for other in names(hit[2])}
        return True
    if hit := re.search(rf"^({MODEL}) may be better than ({MODEL}), but not if the missing answers", text):
        found.fragile.add((hit[1], hit[2]))
        return True
    if hit := re.search(rf"significant only if missing answers are ignored: ({PAIRS})", text):
        found.fragile |= set(pairs_in(hit[1]))
        return True
    if hit := re.search(r"(\d+) of (\d+) (?:differences between models|pairs of models|pairs differ)", text):
        found.counts.add((int(hit[1]), int(hit[2])))
        return True
    if hit := re.search(rf"(?:Cannot be separated with this data|No benchmark in common): ({PAIRS})", text):
        place = found.equal if text.startswith("Cannot") else found.unknown
        place |= {frozenset(pair) for pair in pairs_in(hit[1])}
        return True
    if hit := re.search(rf"({MODEL}) and ({MODEL}) have no instance in common", text):
        found.unknown.add(frozenset(hit.groups()))
        return True
    if re.search(
        r"\bOf \d+ benchmarks?, |^By (?:win rate|macro average), ", text
    ):  # of single benchmarks, or an average
        return True
    return _read_parts(text, models, found)


def _read_parts(text: str, models: list[str], found: Statements) -> bool:
    """Add what the parts of a longer sentence say of its first model."""
    subject = re.search(MODEL, text)
    is_read = False
    none = r"No two of the \d+ models? differ|The two models do not differ|No winner: the (?:\d+|two) models cannot be"
    if re.search(none, text):
        found.equal |= {frozenset((a, b)) for a in models for b in models if a < b}
        is_read = True
    if subject is None:
        return is_read
    if hit := re.search(rf"({LIST}) (?:leads|ranks? first)\b", text):
        found.first |= set(names(hit[1]))
        is_read = True
    if re.search(r"ranks highest of these|but is not significantly better than any other", text):
        is_read = True
    for hit in re.finditer(rf"(?<!not )significantly better than ({LIST}|{REST})", text):
        others = names(hit[1]) or [model for model in models if model != subject[0]]
        found.better |= {(subject[0], other) for other in others}
        is_read = True
    if hit := re.search(rf"({MODEL}) is better than ({MODEL}): macro averages differ", text):
        found.better.add((hit[1], hit[2]))
        is_read = True
    if hit := re.search(rf"({MODEL}) and ({MODEL}) cannot be separated", text):
        found.equal.add(frozenset(hit.groups()))
        is_read = True
    if hit := re.search(rf"cannot be separated from ({LIST})", text):
        found.equal |= {frozenset((subject[0], other)) for other in names(hit[1])}
        is_read = True
    if hit := re.search(rf"(?:shares no benchmark with|not run on the same benchmarks as) ({LIST})", text):
        found.unknown |= {frozenset((subject[0], other)) for other in names(hit[1])}
        is_read = True
    return is_read


RANK = r"(\d+)(?: or)? ?\(?(?:(\d+)(?:-|–| to )(\d+)\)?)?"
"""A rank and the possible ones, such as `2 (1-3)`, `2 (1 to 3)` or `2 1 to 3`."""


def ranks(text: str) -> dict[str, tuple[int, int, int]]:
    """Return model -> rank, lowest and highest possible rank, of the first table of a text or page."""
    text = re.sub(r'<span class="end">([^<]*)</span>', r"\1", text)  # the end of a name
    rows = re.sub(r"\s+", " ", text.partition("</table>")[0]).split("<tr") if "<tr" in text else text.splitlines()
    found: dict[str, tuple[int, int, int]] = {}
    for row in rows:
        plain = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", f"<tr{row}" if "<tr" in text else row)).split())
        if hit := re.match(rf"\|? ?{RANK} ?\|? (?:<?)({MODEL})\b", plain):
            rank = int(hit[1])
            found.setdefault(hit[4], (rank, int(hit[2] or rank), int(hit[3] or rank)))
    return found
