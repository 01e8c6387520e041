"""Searches over random stores find what a plain look at every record finds, in the same order."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any, get_args

import pytest

from medhelm.extensions.web.cases.case import open_cases
from medhelm.extensions.web.cases.listing import excerpt_around, instructive_cases
from medhelm.extensions.web.cases.search import OF_TWO, CaseFilter, CaseOrder, CaseSearch, search_cases
from tests.support.web.random_cases import CRITERIA, MODELS, Stored, expected, write_choices, write_grades

FIELDS: dict[str, tuple[Any, ...]] = {
    "show": [name for name in get_args(CaseFilter) if name not in OF_TWO],  # type: ignore[dict-item]
    "sort": get_args(CaseOrder),
    "model": ("", "", "", *MODELS),
    "failure": ("", "", "", "refusal", "timeout"),
    "group": ("", "", "ward"),
    "low": (None, None, None, 0.5, 2.0),
    "high": (None, None, None, 0.5, 3.0),
    "got": ("", "", "", *MODELS[:3]),
    "missed": ("", "", "", *MODELS[3:]),
    "answer": ("", "", "", "A", "C"),
    "key": ("", "", "", "B"),
    "text": ("", "", "", "HEPARIN", "answer is", "i0"),
    "within": ("all", "prompt", "completion"),
    "with_baselines": (False, False, True),
}
"""Field of a search -> values to draw from."""


def searches(stored: Stored) -> list[CaseSearch]:
    """Return every filter and order alone, with a model and with baselines, and random combinations."""
    found = [
        CaseSearch(show=show, model=model, with_baselines=with_all)
        for show, (model, with_all) in itertools.product(FIELDS["show"], (("", False), (MODELS[1], True)))
    ]
    found += [CaseSearch(sort=sort, model=model) for sort in FIELDS["sort"] for model in ("", MODELS[2])]
    found += [CaseSearch(show=show, got=a, missed=b) for show in OF_TWO for a, b in itertools.pairwise(MODELS)]
    found += [CaseSearch(better=a, than=b) for a, b in itertools.pairwise([*MODELS, MODELS[0]])]
    found += [CaseSearch(criterion=name, model=model) for name in CRITERIA for model in ("", MODELS[0])]
    draw = random.Random(1)
    for _ in range(60):
        chosen = draw.sample(sorted(FIELDS), 4)
        found.append(CaseSearch(**{name: draw.choice(FIELDS[name]) for name in chosen}))
    if not stored.keys:
        found = [one for one in found if not (one.answer or one.key)]
    return found


@pytest.mark.parametrize(
    ("write", "seed"),
    [
        (write_choices, 1),
        (write_grades, 0),
        *(
            pytest.param(write, seed, marks=pytest.mark.long)
            for write in (write_choices, write_grades)
            for seed in (0, 1, 2)
        ),
    ],
)
def test_every_search_finds_what_a_look_at_every_record_finds(tmp_path: Path, write: Any, seed: int) -> None:
    models = MODELS if seed else MODELS[:2]  # few models: all of them are strong
    stored = write(tmp_path, seed, models=(*models, MODELS[-1]) if not seed else models)
    cases = open_cases([tmp_path], "toy" if stored.keys else "notes")
    assert cases.searched.contestants == stored.contestants
    n_found = 0
    for search in searches(stored):
        if set(search.models) - {*stored.records}:
            continue
        ids = search_cases(cases.searched, search)
        assert ids == expected(stored, search), search
        n_found += bool(ids)
    assert n_found > 20, "searches that find nothing prove little"


def test_a_small_export_holds_the_most_instructive_cases_in_the_order_of_the_data(tmp_path: Path) -> None:
    stored = write_choices(tmp_path, 3, n=40)
    cases = open_cases([tmp_path], "toy")
    every = [f"i{n:02d}" for n in range(40)]
    assert instructive_cases(cases, 99) == every
    chosen = instructive_cases(cases, 4)
    assert chosen == sorted(chosen) == instructive_cases(open_cases([tmp_path], "toy"), 4)
    firsts = [CaseSearch(show="all_wrong", sort="worst"), CaseSearch(show="split", sort="spread")]
    for search in (*firsts, CaseSearch(show="failed")):
        assert set(expected(stored, search)[:2]) & set(chosen), search
    for smaller, larger in itertools.pairwise(range(0, 41, 20)):
        assert set(instructive_cases(cases, smaller)) <= set(instructive_cases(cases, larger))


@pytest.mark.parametrize(
    ("text", "sought", "hits"),
    [
        ("Give aspirin. " * 3, "ASPIRIN", 3),
        ("x" * 5_000 + " needle " + "y" * 5_000, "needle", 1),
        ("a" * 5_000, "aaa", 80),
        ("nothing", "needle", 0),
        ("z" * 3_000, "z" * 400, 1),
        ("ᾼ Straße", "STRASSE", 0),
    ],
)
def test_excerpts_are_short_and_mark_the_hits(text: str, sought: str, hits: int) -> None:
    found = excerpt_around(text, sought)
    marked = [one.text for one in found if one.is_hit]
    assert len(marked) == hits
    assert all(one.lower() == sought.lower()[: len(one)] for one in marked)
    assert sum(len(one.text) for one in found) < 700
