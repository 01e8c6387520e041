"""Texts on the page of a case: differing words, hits, ends of long texts; options, completions and grades."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import chain, pairwise
from statistics import fmean

from markupsafe import Markup, escape

from medhelm.domain import Benchmark
from medhelm.domain.benchmark import group_by
from medhelm.domain.text import plural
from medhelm.extensions.web.cases.case import Case, CaseCompletion, CaseJudgment
from medhelm.extensions.web.marks import text_mark
from medhelm.io.http.pages import url_key
from medhelm.results.formats.markdown import rendered

MOST_WORDS = 1_500
"""Words of each text that are compared; the rest is not marked. The time grows faster than their number."""

_WORD = re.compile(r"\S+\s*|\s+")


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a text."""

    text: str
    """The piece."""
    differs: bool = False
    """True if the other text does not have it there."""
    is_hit: bool = False
    """True if it is what a search looks for."""
    note: str = ""
    """A remark before the piece; empty if there is none."""


def mark_differences(first: str, second: str) -> tuple[list[Piece], list[Piece], bool]:
    """Split two texts into pieces that are equal and pieces that differ, by words.

    Returns the pieces of both, and whether both were compared as a whole. White space does not count as a difference.

    >>> left, right, whole = mark_differences("take one tablet", "take two tablets")
    >>> [(piece.text, piece.differs) for piece in left]
    [('take ', False), ('one tablet', True)]
    """
    words = [_WORD.findall(text) for text in (first, second)]
    compared = [own[:MOST_WORDS] for own in words]
    first_words, second_words = ([word.strip() for word in own] for own in compared)
    matcher = SequenceMatcher(None, first_words, second_words)
    left: list[Piece] = []
    right: list[Piece] = []
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        left.append(Piece("".join(compared[0][start:end]), kind != "equal"))
        right.append(Piece("".join(compared[1][other_start:other_end]), kind != "equal"))
    for pieces, own in ((left, words[0]), (right, words[1])):
        pieces.append(Piece("".join(own[MOST_WORDS:]), False))
    return _filled(left), _filled(right), max(map(len, words)) <= MOST_WORDS


def _filled(pieces: Sequence[Piece]) -> list[Piece]:
    """Leave out empty pieces; a marked piece ends before its white space."""
    return [one for one in chain.from_iterable(map(_trimmed, pieces)) if one.text]


def _trimmed(piece: Piece) -> list[Piece]:
    if not piece.differs:
        return [piece]
    words = piece.text.rstrip()
    return [Piece(words, True), Piece(piece.text[len(words) :], False)]


# --- hits -------------------------------------------------------------------------------------------------------------
# Marks what a search looks for.

MOST_HITS = 50
"""Hits that are listed with the text around them."""

AROUND = 70
"""Characters on each side of such a hit."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A hit of a search with the text around it."""

    before: str
    """Text before the hit."""
    text: str
    """The hit."""
    after: str
    """Text after the hit."""
    at: int
    """Position of its first character, from 1."""


def find_hits(text: str, needle: str, most: int = MOST_HITS) -> tuple[list[Hit], int]:
    """Return the first hits of a text in another one in any case, and the number of all.

    >>> hits, n = find_hits("Aspirin or aspirin", "ASPIRIN", most=1)
    >>> hits[0].text, hits[0].after, n
    ('Aspirin', ' or aspirin', 2)
    """
    if not needle:
        return [], 0
    found: list[Hit] = []
    n = 0
    for n, match in enumerate(hit_pattern(needle).finditer(text), 1):
        if n <= most:
            start, end = match.span()
            found.append(Hit(text[max(0, start - AROUND) : start], match[0], text[end : end + AROUND], start + 1))
    return found, n


def mark_hits(pieces: Iterable[Piece], needle: str) -> list[Piece]:
    """Split pieces at the hits of a search, which are marked."""
    if not needle:
        return list(pieces)
    pattern = hit_pattern(needle)
    return [one for piece in pieces for one in _split_at_hits(piece, pattern)]


def _split_at_hits(piece: Piece, pattern: re.Pattern[str]) -> Iterator[Piece]:
    note, end = piece.note, 0
    for match in pattern.finditer(piece.text):
        if match.start() > end:
            yield replace(piece, text=piece.text[end : match.start()], note=note)
            note = ""
        yield replace(piece, text=match[0], is_hit=True, note=note)
        note, end = "", match.end()
    if end < len(piece.text) or note:
        yield replace(piece, text=piece.text[end:], note=note)


def mark_hits_in_html(html: Markup, needle: str) -> Markup:
    """Mark the hits of a search in the texts of HTML that a renderer of this package made.

    >>> mark_hits_in_html(Markup("<p>Amp &amp; co</p>"), "amp")
    Markup('<p><mark class="hit">Amp</mark> &amp; co</p>')
    """
    if not needle:
        return html
    pattern = re.compile(f"<[^>]*>|({re.escape(str(escape(needle)))})|&[#a-zA-Z0-9]+;", re.IGNORECASE)

    def marked(match: re.Match[str]) -> str:
        return f'<mark class="hit">{match[0]}</mark>' if match[1] else match[0]

    return Markup(pattern.sub(marked, html))  # noqa: S704 - the renderer escaped every text


def hit_pattern(needle: str) -> re.Pattern[str]:
    """Return the pattern of a text in any case."""
    return re.compile(re.escape(needle), re.IGNORECASE)


# --- long texts -------------------------------------------------------------------------------------------------------
# A part of a long text, its end, and a ruler of the whole.

MOST_OF_PART, LEAST_LONG, END = 20_000, 3_000, 900
"""Characters of a part of a long text on a page; characters from which a text is long; characters of its end."""

SECTIONS = 12
"""Sections of a ruler: each is wide enough for a finger where the page is narrowest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBox:
    """A text on a page: as a whole, or a part and its end."""

    title: str
    """Name of the text."""
    part: Sequence[Piece]
    """The text, or a part of a long one: its start, unless another place was asked for."""
    end: Sequence[Piece]
    """The end of a long text; empty for others."""
    length: int
    """Characters of the whole text."""
    n_before: int
    """Characters before the part, which are not shown."""
    n_between: int
    """Characters between the part and the end that are not shown."""
    hits: Sequence[Hit]
    """The first hits of a search in the whole text."""
    n_hits: int
    """Number of all hits."""
    ruler: Sequence[RulerSection] = ()
    """The whole text in sections of equal length; empty if all of it is shown."""

    @property
    def is_long(self) -> bool:
        """Return True if the end is shown apart."""
        return bool(self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class RulerSection:
    """A section of a long text on its ruler."""

    first: int
    """Position of its first character, from 1."""
    last: int
    """Position of its last character."""
    n_hits: int
    """Hits of a search in it."""
    notes: Sequence[str]
    """Remarks on places in it."""
    is_shown: bool
    """True if the page shows some of it."""
    picture: Markup
    """The parts that the page shows, the hits, and the places with remarks."""


def make_box(
    title: str, text: str, *, needle: str = "", notes: Mapping[int, str] | None = None, at: int = 0
) -> TextBox:
    """Return a text for a page.

    Parameters: notes, position in the text -> remark to show there; at, position that the part of a long text shows.
    """
    notes, (hits, n_hits) = notes or {}, find_hits(text, needle)
    is_long = len(text) >= LEAST_LONG
    end_at = _word_start(text, len(text) - END) if is_long else len(text)
    first = _word_start(text, max(0, min(at - AROUND, end_at - END))) if is_long and at > AROUND else 0
    last = min(end_at, first + MOST_OF_PART)
    parts = [(first, text[first:last]), (end_at, text[end_at:])]
    part, end = (mark_hits(_with_notes(own, place, notes), needle) for place, own in parts)
    return TextBox(
        title=title,
        part=part,
        end=end,
        length=len(text),
        n_before=first,
        n_between=end_at - last,
        hits=hits,
        n_hits=n_hits,
        ruler=_ruler(text, needle, notes, [(first, last), (end_at, len(text))]) if first or last < end_at else (),
    )


def _ruler(text: str, needle: str, notes: Mapping[int, str], shown: Sequence[tuple[int, int]]) -> list[RulerSection]:
    """Return the sections of a text. `shown`: start and end of the parts that the page shows."""
    hits = [match.start() for match in hit_pattern(needle).finditer(text)] if needle else []
    edges = [len(text) * number // SECTIONS for number in range(SECTIONS + 1)]
    found = []
    for first, last in pairwise(edges):
        size = last - first
        own = [((at - first) / size) for at in hits if first <= at < last]
        cuts = [at for at in sorted(notes) if first <= at < last]
        seen = [(max(first, start), min(last, end)) for start, end in shown if start < last and first < end]
        spans = [((start - first) / size, (end - first) / size) for start, end in seen]
        found.append(
            RulerSection(
                first=first + 1,
                last=last,
                n_hits=len(own),
                notes=[notes[at] for at in cuts],
                is_shown=bool(seen),
                picture=text_mark(spans, own, [(at - first) / size for at in cuts]),
            )
        )
    return found


def _with_notes(text: str, place: int, notes: Mapping[int, str]) -> list[Piece]:
    """Split a part of a text that begins at `place` where remarks belong."""
    inside = sorted(at - place for at in notes if 0 < at - place < len(text))
    edges = [0, *inside, len(text)]
    return [
        Piece(text[first:last], note=notes[place + first] if first else "")
        for first, last in pairwise(edges)
        if text[first:last]
    ]


def _word_start(text: str, at: int) -> int:
    """Return the first position from `at` where a word starts, if it is near."""
    space = re.compile(r"\s").search(text, at, at + 80)
    return space.end() if space else at


# --- page of a case ---------------------------------------------------------------------------------------------------
# Its options and who chose them, its completions, and the grades of the judges.


MOST_CHARACTERS = 20_000
"""Characters of a completion or reference on the page; a link leads to the whole text."""

ONE_LINE = 160
"""Most characters of a completion that is shown as one line."""

WIDE_SPREAD = 2.0
"""Difference between judges' grades of a criterion that is marked."""

# --- texts ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShownText:
    """A text on the page, cut if it is long."""

    text: str
    """The part that is shown."""
    length: int
    """Characters of the whole text."""
    pieces: Sequence[Piece]
    """The part that is shown in pieces: differences to another text, and hits of a search, are marked."""
    html: Markup | None
    """The part that is shown as HTML; None if its source is shown."""

    @property
    def is_cut(self) -> bool:
        """Return True if a part is missing."""
        return self.length > len(self.text)

    @property
    def is_line(self) -> bool:
        """Return True if the text fits into one line."""
        return len(self.text.strip()) <= ONE_LINE and "\n" not in self.text.strip()


def shown_text(text: str, *, is_rendered: bool, needle: str = "") -> ShownText:
    """Return a text for the page, rendered or as its source, with the hits of a search marked."""
    part = text[:MOST_CHARACTERS]
    html = mark_hits_in_html(rendered(part, below=3), needle) if is_rendered else None
    return ShownText(part, len(text), mark_hits([Piece(part)], needle), html)


def compared_texts(first: str, second: str, needle: str = "") -> tuple[ShownText, ShownText, bool]:
    """Return two texts as their sources with the differences marked, and whether both were compared as a whole."""
    parts = [text[:MOST_CHARACTERS] for text in (first, second)]
    left, right, is_whole = mark_differences(*parts)
    shown = [
        ShownText(part, len(text), mark_hits(pieces, needle), None)
        for part, text, pieces in zip(parts, (first, second), (left, right), strict=True)
    ]
    return shown[0], shown[1], is_whole and not any(one.is_cut for one in shown)


# --- judgments --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShownCriterion:
    """One criterion of the judges on one completion."""

    name: str
    """Id of the criterion."""
    text: str
    """The criterion in words; its id if the words are not known."""
    points: float
    """Points for meeting it, below zero for a harm; 0 for grades."""
    judgments: Sequence[CaseJudgment]
    """Judgments, in the order of the judges."""

    @property
    def scores(self) -> list[float]:
        """Return the grades, or 1.0 for met and 0.0 for not met."""
        return [one.score for one in self.judgments if one.score is not None]

    @property
    def mean(self) -> float | None:
        """Return their mean; None without any."""
        return fmean(self.scores) if self.scores else None

    @property
    def differs(self) -> bool:
        """Return True if judges contradict each other: grades far apart, or met and not met."""
        limit = 1.0 if self.points else WIDE_SPREAD
        return len(self.scores) > 1 and max(self.scores) - min(self.scores) >= limit


def criterion_texts(case: Case, definition: Benchmark | None) -> dict[str, str]:
    """Return criterion -> its sentence: those of the instance, else those of the rubric of the benchmark."""
    texts = {str(one["name"]): str(one["text"]) for one in case.criteria}
    for rubric in (definition.rubric, definition.extended_rubric) if definition else ():
        for one in rubric.criteria if rubric else ():
            texts.setdefault(one.name, one.description)
    return texts


# --- completions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShownCompletion:
    """A completion on the page."""

    found: CaseCompletion
    """Everything known about it."""
    key: str
    """Key of the model in URLs."""
    text: ShownText
    """The completion; empty if there is none."""
    reasoning: ShownText
    """Its reasoning; empty if none is stored."""
    facts: Sequence[str]
    """Tokens, cost, latency."""
    warnings: Sequence[str]
    """Sentences about what is unusual."""
    criteria: Sequence[ShownCriterion]
    """The judges' criteria."""

    @property
    def judges(self) -> list[str]:
        """Judges in their order."""
        return list(dict.fromkeys(one.judge for one in self.found.judgments))

    @property
    def failure(self) -> str:
        """Return the failure code; empty if there is a completion."""
        return self.found.completion.failure.code if self.found.completion.failure else ""

    @property
    def points(self) -> tuple[float, float] | None:
        """Return the points earned and those possible, by the mean of the judges; None for grades."""
        earned = [one.points * one.mean for one in self.criteria if one.points and one.mean is not None]
        return (math.fsum(earned), math.fsum(one.points for one in self.criteria if one.points > 0)) if earned else None


def shown_completion(
    found: CaseCompletion, text: ShownText, texts: Mapping[str, str], common: Iterable[str] = ()
) -> ShownCompletion:
    """Return a completion for the page.

    Parameters: texts, criterion -> its sentence; common, reasons for missing scores that the page shows once.
    """
    by_criterion = group_by(found.judgments, lambda one: one.criterion)
    return ShownCompletion(
        found=found,
        key=url_key(found.model),
        text=text,
        reasoning=shown_text(found.completion.reasoning, is_rendered=False),
        facts=list(_facts(found)),
        warnings=list(_warnings(found, common)),
        criteria=[
            ShownCriterion(name, texts.get(name, name), own[0].points, own) for name, own in by_criterion.items()
        ],
    )


def common_failures(completions: Sequence[CaseCompletion]) -> list[str]:
    """Return the reasons for missing scores that several completions share, such as a metric that is not installed."""
    counts = Counter(one.score_failure for one in completions if one.score_failure and one.score is not None)
    return [reason for reason, n in counts.items() if n > 1]


def _facts(found: CaseCompletion) -> Iterable[str]:
    """Yield tokens, cost and latency of a completion."""
    done, usage = found.completion, found.completion.usage
    if usage.input or usage.output:
        hidden = f" ({usage.reasoning:,} hidden)" if usage.reasoning else ""
        cached = f" ({usage.cached_input:,} cached)" if usage.cached_input else ""
        yield f"{usage.input:,}{cached} → {usage.output:,}{hidden} tokens"
    if not found.is_baseline:
        yield "cost unknown" if found.cost_usd is None else dollars(found.cost_usd)
    if done.batched or done.latency_s:
        yield (
            "batch" if done.batched else f"{done.latency_s:.1f} s" if done.latency_s >= 1 else f"{done.latency_s:.2f} s"
        )
    if done.finish_reason not in ("", "stop"):
        yield f"ended by {done.finish_reason}"
    if done.reported_model and not done.reported_model.startswith(found.model.rpartition("/")[2]):
        yield f"reported as {done.reported_model}"


def _warnings(found: CaseCompletion, common: Iterable[str]) -> Iterable[str]:
    """Yield what is unusual about a completion."""
    if found.is_unreadable:
        yield "No answer can be read from it."
    if found.truncated_characters:
        yield f"Its prompt was cut by {plural(found.truncated_characters, 'character')}."
    if found.injection_signs:
        yield f"Signs of a prompt injection aimed at judges: {found.injection_signs}."
    if found.jury_coverage is not None and found.jury_coverage < 1:
        yield f"{1 - found.jury_coverage:.0%} of its judgments are missing."
    if found.score_failure and found.score_failure not in common:
        yield f"Not scored: {found.score_failure}"


def dollars(cost: float) -> str:
    """Return a cost with two significant digits.

    >>> dollars(0.00099), dollars(0.0), dollars(1.5)
    ('$0.00099', '$0', '$1.50')
    """
    if cost <= 0:
        return "$0"
    return f"${cost:,.{max(2, 1 - math.floor(math.log10(cost)))}f}"


# --- options ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShownOption:
    """An option of a choice question, with who chose it."""

    label: str
    """Its letter; empty if options are named by their texts."""
    text: str
    """Its text."""
    is_correct: bool
    """True for the key."""
    chosen_by: Sequence[ShownCompletion]
    """Completions that name it."""


def option_rows(case: Case, shown: Sequence[ShownCompletion]) -> list[ShownOption]:
    """Return the options of a choice question; none for an open one."""
    correct = {str(one["text"]).strip() for one in case.references if one["correct"]}
    return [
        ShownOption(
            "" if label == text else label,
            text,
            text.strip() in correct,
            [one for one in shown if one.found.option == label],
        )
        for label, text in zip(case.labels, case.choices, strict=False)
    ]


def without_option(shown: Sequence[ShownCompletion]) -> list[ShownCompletion]:
    """Return the completions that name no option."""
    return [one for one in shown if one.found.option == ""]
