"""What lies between two leaderboards: every change is found, named, and given its reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from medhelm.analysis.leaderboard.diff import (
    ASPECTS,
    ValueDifference,
    diff_leaderboards,
    leaderboard_differences,
    provenance_differences,
)
from medhelm.domain.result import CellProvenance, Release

BASIS = CellProvenance(
    model="m",
    benchmark="b",
    run_id="r",
    started="2026",
    n=9,
    metric="exact_match",
    definition="d",
    data="e",
    prompts="f",
    settings={"limit": None},
    records="g",
    judgments="h",
    snapshots=["m-1"],
    jury={"j": ["j-1"]},
    min_judges=2,
    prices={"m": {"input": 1.0}},
    versions={"medhelm": "0.1.0"},
)


def release(name: str, values: dict[tuple[str, str], float], **basis: Any) -> Release:
    """One with these values of (model, benchmark), models ranked in the order given."""
    models = list(dict.fromkeys(model for model, _ in values))
    benchmarks = sorted({benchmark for _, benchmark in values})
    rows = [
        {"model": m, "rank": i + 1, "benchmarks": {b: {"value": values[m, b]} for b in benchmarks if (m, b) in values}}
        for i, m in enumerate(models)
    ]
    return Release(
        name=name,
        created="2026",
        medhelm_version="0.1.0",
        note="",
        options={"scoring": "corrected"},
        provenance=tuple(replace(BASIS, model=m, benchmark=b, **basis) for m, b in values),
        leaderboard={"models": rows, "benchmarks": [{"id": name} for name in benchmarks]},
        sha256="",
    )


def test_every_field_of_a_basis_belongs_to_an_aspect_or_names_the_run() -> None:
    told = {name for fields in ASPECTS.values() for name in fields}
    assert set(CellProvenance.__dataclass_fields__) - told == {"model", "benchmark", "run_id", "started"}


@pytest.mark.parametrize(("aspect", "name"), [(aspect, name) for aspect, fields in ASPECTS.items() for name in fields])
def test_every_change_of_a_basis_is_named_by_its_aspect(aspect: str, name: str) -> None:
    changed: dict[str, Any] = {name: "changed"}
    (found,) = provenance_differences(BASIS, replace(BASIS, **changed))
    assert found == ValueDifference(what=aspect, before=getattr(BASIS, name), now="changed")


def test_a_leaderboard_in_another_order_is_the_same_but_for_the_places() -> None:
    found = diff_leaderboards(
        release("1", {("m", "b"): 0.5, ("n", "b"): 0.5}), release("2", {("n", "b"): 0.5, ("m", "b"): 0.5})
    )
    assert {(one.what, one.before, one.now) for one in found.ranks} == {("m", 1, 2), ("n", 2, 1)}
    assert {one.what for one in found.board} == {"models.m.rank", "models.n.rank"}


def test_what_came_went_and_changed_is_told_with_its_reason() -> None:
    first = release("one", {("m", "b"): 0.5, ("n", "b"): 0.4, ("m", "c"): 0.3})
    second = release("two", {("m", "b"): 0.6, ("o", "b"): 0.4, ("m", "d"): 0.3}, data="e2", snapshots=["m-2"])
    found = diff_leaderboards(first, second)
    assert (found.models, found.benchmarks) == ((("n",), ("o",)), (("c",), ("d",)))
    (cell,) = found.cells
    assert (cell.model, cell.benchmark, cell.before, cell.now) == ("m", "b", 0.5, 0.6)
    assert [one.what for one in cell.why] == ["data", "snapshot"]


def test_the_start_of_a_fresh_run_is_no_changed_setting() -> None:
    first = release("one", {("m", "b"): 0.5}, settings={"limit": None})
    again = release("two", {("m", "b"): 0.6}, settings={"limit": None, "fresh": "2026-11-29T10:00:00+00:00"})
    assert [cell.why for cell in diff_leaderboards(first, again).cells] == [()]
    less = release("two", {("m", "b"): 0.6}, settings={"limit": 5, "fresh": "2026-11-29T10:00:00+00:00"})
    ((why,),) = (cell.why for cell in diff_leaderboards(first, less).cells)
    assert why == ValueDifference(what="settings", before={"limit": None}, now={"limit": 5})
    same = diff_leaderboards(first, replace(again, leaderboard=first.leaderboard))
    assert (same.cells, same.board) == ((), ())
    (kept,) = provenance_differences(first.provenance[0], again.provenance[0])
    assert kept.what == "settings", "`verify` still compares it"


def test_the_words_and_added_keys_of_another_version_are_no_difference() -> None:
    before = {"models": [{"model": "m", "rank": 1}], "benchmarks": [], "verdict": ["m leads."], "warnings": ["Few."]}
    model = {"model": "m", "rank": 1, "tie_letters": "a", "cost_is_ceiling": False}
    now = {"models": [model], "benchmarks": [], "verdict": ["m wins."], "warnings": [], "remark_groups": {"method": []}}
    assert list(leaderboard_differences(before, now)) == []
    (found,) = leaderboard_differences(before, now | {"models": [model | {"rank": 2}]})
    assert (found.what, found.before, found.now) == ("models.m.rank", 1, 2)
