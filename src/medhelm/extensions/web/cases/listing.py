"""Lists of cases: the instances that a search finds, with all models' scores and answers, and an excerpt."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from typing import TypeAlias

from medhelm.domain.result import HALF
from medhelm.errors import UserError, suggestion
from medhelm.extensions.web.cases.case import BenchmarkCases
from medhelm.extensions.web.cases.search import (
    OF_TWO,
    CaseRow,
    CaseSearch,
    OutcomeCounts,
    count_outcomes,
    counted_models,
    read_case_rows,
    read_texts,
    search_cases,
)
from medhelm.extensions.web.cases.view import Piece, hit_pattern, mark_hits
from medhelm.io.http.pages import url_key
from medhelm.results.formats.tables import decimal
from medhelm.results.runs.answers import read_answers, read_prompts

PAGE = 50
"""Instances on one page of a list."""

NEIGHBORS = 25
"""Instances that are listed around one."""

EXCERPT = 240
"""Characters of a prompt in a list."""

SENTENCE_END = re.compile(r"[^\w\s,;(-]\s")
"""The end of a sentence, a heading or a list item, with the space after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseListItem:
    """One instance in a list."""

    key: str
    """Key of the instance in URLs and file names."""
    row: CaseRow
    """Scores of all models."""
    fragments: Sequence[Piece]
    """A part of a text: around the text that was searched for, else where the prompt differs from other prompts."""
    source: str = ""
    """The text that the excerpt is from: `option`, `reference` or a model; empty for the prompt."""
    answers: Mapping[str, str]
    """Model -> label of the option that it chose; empty if that cannot be read. No key without a completion."""
    correct: Sequence[str]
    """Labels of the correct options; empty for open questions."""
    counted: Sequence[str]
    """Models that count in the numbers of the list: without the baselines, unless they were asked for."""

    @property
    def excerpt(self) -> str:
        """The excerpt as text; empty if the prompt is not stored."""
        return "".join(one.text for one in self.fragments)

    @property
    def shares(self) -> list[float | None]:
        """Scores of the models that count, from 0 (worst) to 1 (best), in the order of rank; None without a score."""
        return [self.row.shares.get(model) for model in self.counted]

    @property
    def n_right(self) -> int:
        """Number of models that are right."""
        return sum(share is not None and share >= HALF for share in map(self.row.shares.get, self.counted))

    @property
    def n_scored(self) -> int:
        """Number of models with a score."""
        return sum(share is not None for share in map(self.row.shares.get, self.counted))

    @property
    def mean(self) -> float | None:
        """Mean score of the models that have one."""
        scores = [score for score in map(self.row.scores.get, self.counted) if score is not None]
        return sum(scores) / len(scores) if scores else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseList:
    """One page of the result of a search."""

    items: Sequence[CaseListItem]
    """Instances on this page."""
    page: int
    """Number of the page, from 1."""
    pages: int
    """Number of pages, at least 1."""
    total: int
    """Instances that meet the conditions."""


@dataclass(frozen=True, slots=True)
class CasePosition:
    """Position of an instance in the result of a search."""

    number: int
    """Number in the result, from 1; 0 if the instance does not meet the conditions."""
    total: int
    """Instances that meet the conditions."""
    previous: str = ""
    """Key of the instance before it; empty for the first."""
    next: str = ""
    """Key of the instance after it; empty for the last."""
    first: str = ""
    """Key of the first instance of the result; empty if there is none."""
    last: str = ""
    """Key of the last one."""
    neighbors: Sequence[CaseListItem] = ()
    """Instances around it, and itself, with scores only; the first ones if it does not meet the conditions."""
    n_before: int = 0
    """Instances before the neighbors."""

    @property
    def n_after(self) -> int:
        """Instances after the neighbors."""
        return self.total - self.n_before - len(self.neighbors)


def find_cases(cases: BenchmarkCases, search: CaseSearch, *, page: int = 1, size: int = PAGE) -> CaseList:
    """Return one page of the instances that meet the conditions of a search.

    A page beyond the last one is the last one.
    Raises: UserError for a model without a run; StoreError.
    """
    check_search(cases, search)
    ids = search_cases(cases.searched, search)
    pages = max(1, -(-len(ids) // size))
    page = min(max(page, 1), pages)
    items = case_items(cases, search, ids[(page - 1) * size : page * size])
    return CaseList(items=items, page=page, pages=pages, total=len(ids))


def case_items(cases: BenchmarkCases, search: CaseSearch, instance_ids: Sequence[str]) -> list[CaseListItem]:
    """Return these instances as lines of a list, with excerpts around the text of the search."""
    if not instance_ids:
        return []
    rows = read_case_rows(cases.searched, instance_ids)
    options = cases.searched.options
    answers = read_answers(cases.runs, options, instance_ids)
    hits = _hits(cases, search, instance_ids) if search.text else {}
    excerpts = _excerpts(cases, [name for name in instance_ids if name not in hits])
    counted = counted_models(cases.searched, search)
    items = []
    for row in rows:
        name = row.instance_id
        source, fragments = hits.get(name) or ("", [Piece(excerpts[name])] if name in excerpts else [])
        items.append(
            CaseListItem(
                key=url_key(name),
                row=row,
                fragments=fragments,
                source=source,
                answers={model: own[name] for model, own in answers.items() if name in own},
                correct=options[name].correct if name in options else (),
                counted=counted,
            )
        )
    return items


def instructive_cases(cases: BenchmarkCases, most: int) -> list[str]:
    """Return the ids of the cases that show most, in the order of the data: those that a small export holds.

    Five lists take turns: cases that no strong model has right; those on which models split; failed, blank and
    unreadable completions; those on which judges differ most; those with the lowest scores. The rest follows by score.
    """
    every = search_cases(cases.searched, CaseSearch())
    if most >= len(every):
        return every
    queues = [
        search_cases(cases.searched, one)
        for one in (
            CaseSearch(show="all_wrong", sort="worst"),
            CaseSearch(show="split", sort="spread"),
            CaseSearch(show="failed"),
            CaseSearch(show="unreadable"),
            CaseSearch(show="blank"),
            CaseSearch(show="judges", sort="judges"),
            CaseSearch(sort="worst"),
        )
    ]
    failed = list(dict.fromkeys(chain.from_iterable(zip_longest(*queues[2:5]))))
    turns = zip_longest(queues[0], queues[1], failed, queues[5], queues[6])
    chosen = set(islice(dict.fromkeys(name for turn in turns for name in turn if name is not None), most))
    return [name for name in every if name in chosen]


def check_search(cases: BenchmarkCases, search: CaseSearch) -> None:
    """Check that the models of a search have runs, and are two where two are needed. Raises: UserError."""
    for model in search.models:
        if model not in cases.runs:
            hint = suggestion(model[:80], cases.runs)
            raise UserError(f"no selected run of `{model[:80]}` on {cases.benchmark}. {hint}".strip())
    if search.show in OF_TWO and not (search.got and search.missed and search.got != search.missed):
        raise UserError(f"`{search.show}` compares two models: name one as `got` and the other as `missed`.")
    if bool(search.better) != bool(search.than):
        raise UserError("`better` and `than` compare two models: name both.")


def locate_case(
    cases: BenchmarkCases, search: CaseSearch, instance_id: str, *, among: Sequence[str] | None = None
) -> CasePosition:
    """Find an instance in the result of a search, with the instances before and after it.

    `among`: the only ids that are shown, in order; None for all.
    """
    check_search(cases, search)
    ids = search_cases(cases.searched, search) if among is None else among
    at = ids.index(instance_id) if instance_id in ids else -1
    start = max(0, min(at - NEIGHBORS // 2, len(ids) - NEIGHBORS))
    near, counted = ids[start : start + NEIGHBORS], counted_models(cases.searched, search)
    rows = read_case_rows(cases.searched, near, with_flags=False) if near else []
    return CasePosition(
        number=at + 1,
        total=len(ids),
        previous=url_key(ids[at - 1]) if at > 0 else "",
        next=url_key(ids[at + 1]) if at + 1 < len(ids) else "",
        first=url_key(ids[0]) if ids else "",
        last=url_key(ids[-1]) if ids else "",
        neighbors=[
            CaseListItem(key=url_key(row.instance_id), row=row, fragments=(), answers={}, correct=(), counted=counted)
            for row in rows
        ],
        n_before=start,
    )


def compare_outcomes(cases: BenchmarkCases, first: str, second: str) -> OutcomeCounts:
    """Count the instances that both, one or none of two models got right. Raises: UserError for an unknown model."""
    check_search(cases, CaseSearch(got=first, missed=second))
    return count_outcomes(cases.searched, first, second)


def _hits(cases: BenchmarkCases, search: CaseSearch, instance_ids: Sequence[str]) -> dict[str, Hit]:
    models = [search.model] if search.model else counted_models(cases.searched, search)
    texts = read_texts(cases.searched, instance_ids, models)
    found = {name: first_hit(cases, search, own) for name, own in texts.items()}
    return {name: hit for name, hit in found.items() if hit}


Hit: TypeAlias = tuple[str, Sequence[Piece]]
"""The source of a text that holds the text of a search, and the excerpt around it."""


def first_hit(cases: BenchmarkCases, search: CaseSearch, texts: Iterable[tuple[str, str]]) -> Hit | None:
    """Return the first of the texts of an instance that holds the text of a search; None if only the id does."""
    for source, text in texts:
        if search.within != "all" and (source in cases.runs) != (search.within == "completion"):
            continue
        if fragments := excerpt_around(text, search.text):
            return source, fragments
    return None


def excerpt_around(text: str, sought: str) -> list[Piece]:
    """Return the part of a text around the first hit, in pieces; empty if the text is not found. Case is ignored.

    >>> [(one.text, one.is_hit) for one in excerpt_around("Give aspirin daily.", "ASPIRIN")]
    [('Give ', False), ('aspirin', True), (' daily.', False)]
    """
    first = hit_pattern(sought).search(text)
    if not first:
        return []
    start = max(0, first.start() - EXCERPT // 3)
    start = max(start, text.find(" ", start, first.start()) + 1) if start else 0
    end = max(start + EXCERPT, first.end())
    if end < len(text):
        end = max(text.rfind(" ", first.end(), end), first.end()) if " " in text[first.end() : end] else end
    pieces = mark_hits([Piece(text[start:end])], sought)
    shown = [replace(one, text=re.sub(r"\s+", " ", one.text[:EXCERPT] if one.is_hit else one.text)) for one in pieces]
    return [*([Piece("... ")] if start else []), *shown, *([Piece(" ...")] if end < len(text) else [])]


def _excerpts(cases: BenchmarkCases, instance_ids: Sequence[str]) -> dict[str, str]:
    """Return the part of each prompt between the sentences that all begin with and the words that all end with."""
    prompts = read_prompts(cases.searched.prompts, instance_ids)
    texts = {name: " ".join(messages[-1]["content"].split()) for name, messages in prompts.items() if messages}
    start, end = 0, 0
    if len(texts) > 1:
        shared = os.path.commonprefix(list(texts.values()))  # noqa: RUF071 - of characters
        start = max((found.end() for found in SENTENCE_END.finditer(shared)), default=0)
        end = os.path.commonprefix([text[::-1] for text in texts.values()]).rfind(" ") + 1  # noqa: RUF071
    return {
        name: cut_text(texts[name][start : len(texts[name]) - end] or texts[name], EXCERPT)
        for name in instance_ids
        if name in texts
    }


def cut_text(text: str, length: int) -> str:
    """Cut a text to a number of characters, at a space if there is one near the end.

    >>> cut_text("one two three", 9), cut_text("one", 9)
    ('one two ...', 'one')
    """
    if len(text) <= length:
        return text
    cut = text[:length]
    space = cut.rfind(" ", length * 3 // 4)
    return f"{cut[: space if space > 0 else length]} ..."


# --- marks ------------------------------------------------------------------------------------------------------------
# The result of one model in one line of a list: a letter, a sign or a grade.

MOST_MARK = 7
"""Most characters of a mark."""

FAILURES = {"refusal": "refused", "length": "cut"}
"""Failure code -> its mark; all others are `failed`."""


@dataclass(frozen=True, slots=True)
class OutcomeMark:
    """The result of one model on one instance."""

    text: str
    """The option that it chose, a grade, or what happened."""
    kind: str
    """`right`, `wrong`, `grade-1` (worst fifth of the scale) to `grade-5`, `none` without a score, or `absent`."""
    title: str
    """The same in words."""


def outcome_mark(item: CaseListItem, model: str, *, is_binary: bool) -> OutcomeMark:
    """Return the result of a model on an instance of a list."""
    row = item.row
    if model not in row.scores:
        return OutcomeMark("–", "absent", "not measured")
    share, score, code, flags = row.shares[model], row.scores[model], row.failures.get(model), row.flags.get(model, ())
    outcome = "none" if share is None else "right" if share >= HALF else "wrong"
    if code:
        counted = "counts as the worst answer" if share is not None else "no score"
        return OutcomeMark(FAILURES.get(code, "failed"), outcome, f"no completion: {code}, {counted}")
    said = {"none": "no score"}.get(outcome, outcome)
    if "blank" in flags:
        return OutcomeMark("blank", outcome, f"blank completion, {said}")
    if item.correct:
        label = item.answers.get(model, "")
        shown = f"{label[: MOST_MARK - 1]}…" if len(label) > MOST_MARK else label
        return OutcomeMark(shown or "?", outcome, f"chose {label}: {said}" if label else f"no readable answer: {said}")
    if share is None or score is None:
        return OutcomeMark(decimal(score, 2) or "–", "none", "no score")
    if is_binary:
        return OutcomeMark("✓" if outcome == "right" else "✗", outcome, outcome)
    return OutcomeMark(
        decimal(score, 2) or "–", f"grade-{min(4, int(max(share, 0) * 5)) + 1}", f"score {decimal(score, 3)}"
    )
