"""What lies between two leaderboards: every change is found, named, and given its reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from medhelm.analysis.leaderboard.diff import (
    ASPECTS,
    ValueDifference,
    diff_leaderboards,
    json_differences,
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
CHANGES: dict[str, tuple[str, Any]] = {
    "definition": ("definition", "d2"),
    "metric": ("definition", "rouge_l"),
    "data": ("data", "e2"),
    "n": ("data", 10),
    "prompts": ("prompts", "f2"),
    "settings": ("settings", {"limit": 3}),
    "origin": ("origin", {"harness": "helm"}),
    "snapshots": ("snapshot", ["m-1", "m-2"]),
    "jury": ("jury", {"j": ["j-2"]}),
    "min_judges": ("jury", 1),
    "prices": ("prices", {"m": None}),
    "records": ("records", "g2"),
    "judgments": ("judgments", "h2"),
    "versions": ("code", {"medhelm": "0.2.0"}),
}


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
    assert set(CHANGES) == told


@pytest.mark.parametrize("name", CHANGES)
def test_every_change_of_a_basis_is_named_by_its_aspect(name: str) -> None:
    aspect, value = CHANGES[name]
    (found,) = provenance_differences(BASIS, replace(BASIS, **{name: value}))
    assert found == ValueDifference(what=aspect, before=getattr(BASIS, name), now=value)


def test_another_run_of_the_same_is_no_difference() -> None:
    assert provenance_differences(BASIS, replace(BASIS, run_id="r2", started="2027")) == []
    assert provenance_differences(BASIS, replace(BASIS, snapshots=("m-1",), settings=dict(BASIS.settings))) == []


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, [("a", 1, 2)]),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, [("a.b[1]", 2, 3)]),
        ({"a": [1]}, {"a": [1, 2]}, [("a", [1], [1, 2])]),
        ({"a": 1}, {}, [("a", 1, None)]),
        ({}, {"a": 1}, [("a", None, 1)]),
        ({"a": 1}, {"a": 1.0}, [("a", 1, 1.0)]),
        ({"a": 1}, {"a": True}, [("a", 1, True)]),
        ({"a": None}, {"a": 0}, [("a", None, 0)]),
        (1.0, 2.0, [("", 1.0, 2.0)]),
    ],
)
def test_differences_of_json(before: Any, now: Any, expected: list[tuple[str, Any, Any]]) -> None:
    assert [(one.what, one.before, one.now) for one in json_differences(before, now)] == expected


def test_equal_leaderboards_have_nothing_between_them() -> None:
    values = {("m", "b"): 0.5, ("n", "b"): 0.4}
    found = diff_leaderboards(release("one", values), release("two", values))
    assert (found.cells, found.board, found.ranks, found.models) == ((), (), (), ((), ()))


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


def test_a_basis_that_changed_without_a_change_of_value_is_told_too() -> None:
    values = {("m", "b"): 0.5}
    found = diff_leaderboards(release("one", values), release("two", values, versions={"medhelm": "0.2.0"}))
    assert [[one.what for one in cell.why] for cell in found.cells] == [["code"]]
    assert found.board == ()
