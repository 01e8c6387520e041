"""Lists of cases: the instances that a search finds, with the scores of all models and an excerpt of the prompt."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from medhelm.domain.result import HALF
from medhelm.errors import UserError, suggestion
from medhelm.extensions.web.case_search import (
    CaseRow,
    CaseSearch,
    count_outcomes,
    read_case_rows,
    read_choices,
    read_prompts,
    search_cases,
    url_key,
)
from medhelm.extensions.web.cases import BenchmarkCases

PAGE = 50
"""Instances on one page of a list."""

EXCERPT = 240
"""Characters of a prompt in a list."""


@dataclass(frozen=True, slots=True)
class CaseListItem:
    """One instance in a list."""

    key: str
    """Key of the instance in URLs and file names."""
    row: CaseRow
    """Scores of all models."""
    excerpt: str
    """Part of the prompt that differs from other prompts; empty if the prompt is not stored."""

    @property
    def n_right(self) -> int:
        """Number of models that are right."""
        return sum(share is not None and share >= HALF for share in self.row.shares.values())

    @property
    def n_scored(self) -> int:
        """Number of models with a score."""
        return sum(share is not None for share in self.row.shares.values())


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


def find_cases(cases: BenchmarkCases, search: CaseSearch, *, page: int = 1, size: int = PAGE) -> CaseList:
    """Return one page of the instances that meet the conditions of a search.

    A page beyond the last one is the last one.
    Raises: UserError for a model without a run; StoreError.
    """
    check_search(cases, search)
    ids = search_cases(cases.searched, search)
    pages = max(1, -(-len(ids) // size))
    page = min(max(page, 1), pages)
    shown = ids[(page - 1) * size : page * size]
    rows = read_case_rows(cases.searched, shown)
    excerpts = _excerpts(cases, shown)
    items = [CaseListItem(url_key(row.instance_id), row, excerpts.get(row.instance_id, "")) for row in rows]
    return CaseList(items=items, page=page, pages=pages, total=len(ids))


def check_search(cases: BenchmarkCases, search: CaseSearch) -> None:
    """Check that the models of a search have runs. Raises: UserError."""
    for model in (search.model, search.got, search.missed):
        if model and model not in cases.runs:
            hint = suggestion(model[:80], cases.runs)
            raise UserError(f"no selected run of `{model[:80]}` on {cases.benchmark}. {hint}".strip())


def locate_case(cases: BenchmarkCases, search: CaseSearch, instance_id: str) -> CasePosition:
    """Find an instance in the result of a search, with the instances before and after it."""
    check_search(cases, search)
    ids = search_cases(cases.searched, search)
    if instance_id not in ids:
        return CasePosition(0, len(ids), next=url_key(ids[0]) if ids else "")
    at = ids.index(instance_id)
    before = url_key(ids[at - 1]) if at else ""
    after = url_key(ids[at + 1]) if at + 1 < len(ids) else ""
    return CasePosition(at + 1, len(ids), before, after)


def list_choices(cases: BenchmarkCases) -> tuple[list[str], list[str]]:
    """Return the groups of instances and the failure codes that occur."""
    return read_choices(cases.searched)


@dataclass(frozen=True, slots=True)
class Agreement:
    """Counts of instances by which of two models are right; those without a score of both do not count."""

    both: int
    """Both right."""
    first: int
    """Only the first right."""
    second: int
    """Only the second right."""
    none: int
    """Both wrong."""


def compare_outcomes(cases: BenchmarkCases, first: str, second: str) -> Agreement:
    """Count the instances that both, one or none of two models got right. Raises: UserError for an unknown model."""
    check_search(cases, CaseSearch(got=first, missed=second))
    return Agreement(*count_outcomes(cases.searched, first, second))


def _excerpts(cases: BenchmarkCases, instance_ids: Sequence[str]) -> dict[str, str]:
    """Return the part of each prompt between the words that all prompts begin and end with."""
    prompts = read_prompts(cases.searched.prompts, instance_ids)
    texts = {name: " ".join(messages[-1]["content"].split()) for name, messages in prompts.items() if messages}
    start, end = 0, 0
    if len(texts) > 1:
        start = os.path.commonprefix(list(texts.values())).rfind(" ") + 1  # noqa: RUF071 - of characters
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
