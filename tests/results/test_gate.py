"""From stores, runs and releases to the verdict of a gate."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from medhelm.errors import MissingError, StoreError, UserError
from medhelm.results.formats.gate import notes
from medhelm.results.gate import GateOptions, gate
from medhelm.results.options import BoardOptions
from medhelm.results.releases import freeze
from medhelm.storage.damage import DamagedRunWarning
from medhelm.storage.store import create
from tests.support.stores import make_store

SAME = [1.0] * 400
WORSE = [0.0] * 60 + [1.0] * 340
MODEL = "openai/m"


def stores(tmp_path: Path, old: Any, new: Any, **changes: Any) -> tuple[Path, Path]:
    """Write the reference and the new store; `changes` are fields of every new run."""
    return make_store(tmp_path / "old", old), make_store(tmp_path / "new", new, **changes)


def check(places: tuple[Path, Path], **options: Any) -> Any:
    return gate(places[1], str(places[0]), GateOptions(**options))


@pytest.mark.parametrize(("new", "code"), [(SAME, 0), (WORSE, 1), ([1.0] * 395 + [0.0] * 5, 5)])
def test_a_store_is_compared_with_another(tmp_path: Path, new: list[float], code: int) -> None:
    found = check(stores(tmp_path, {"toy": {MODEL: SAME}}, {"toy": {MODEL: new}}))
    assert found.exit_code == code
    assert [one.benchmark for one in found.tests] == ["toy", ""]
    assert found.tests[0].change.value == pytest.approx((sum(new) - 400) / 400)
    assert [remark.code for remark in found.remarks] == (["same_records"] if new == SAME else [])


def test_instances_that_became_wrong_are_listed(tmp_path: Path) -> None:
    found = check(stores(tmp_path, {"toy": {MODEL: [0.0, 0.0, *SAME[2:]]}}, {"toy": {MODEL: [1.0, *WORSE[1:]]}}))
    change = found.tests[0].change
    assert change.gained == ("i000",)
    assert change.lost == tuple(f"i{n:03}" for n in range(2, 60))
    (line,) = [note for note in notes(found) if "became right" in note]
    assert line.startswith(f"TOY, {MODEL}: 1 became right, 58 wrong: i002, i003, ")
    assert line.endswith("i011, and 48 more.")


def test_the_models_that_both_have_are_compared_without_baselines(tmp_path: Path) -> None:
    old = {"toy": {MODEL: SAME, "openai/gone": SAME, "baseline/majority": SAME}}
    new = {"toy": {MODEL: SAME, "baseline/majority": WORSE}, "extra": {MODEL: SAME}}
    found = check(stores(tmp_path, old, new))
    assert {one.model for one in found.tests} == {MODEL}
    texts = [remark.text for remark in found.remarks]
    assert any("openai/gone" in text for text in texts)
    assert any("extra" in text for text in texts)
    assert found.exit_code == 0


def test_a_new_name_is_compared_with_the_old_one(tmp_path: Path) -> None:
    places = stores(tmp_path, {"toy": {"openai/old": SAME}}, {"toy": {"openai/new": WORSE}})
    for name in ("openai/new", "openai/ne"):
        assert check(places, models=(name,), baseline_model="openai/old").exit_code == 1
    refused: dict[str, dict[str, Any]] = {
        "no model in common: openai/new here, openai/old there": {},
        "Did you mean `openai/new`": {"models": ("openai/nwe",), "baseline_model": "openai/old"},
        "give one --model": {"baseline_model": "openai/old"},
        "has no score of `openai/new`": {"models": ("openai/new",)},
    }
    for message, options in refused.items():
        with pytest.raises(UserError, match=message):
            check(places, **options)


def test_a_missing_benchmark_keeps_the_gate_from_passing(tmp_path: Path) -> None:
    places = stores(tmp_path, {"toy": {MODEL: SAME}, "more": {MODEL: SAME}}, {"toy": {MODEL: SAME}})
    found = check(places)
    assert [(one.benchmark, one.reason) for one in found.not_compared] == [("more", "it was not run")]
    assert found.exit_code == 5
    assert check(places, allow_missing=True).exit_code == 0
    assert check(places, benchmarks=("toy",)).exit_code == 0
    with pytest.raises(UserError, match="has no scores on `tyo`"):
        check(places, benchmarks=("tyo",))
    make_store(places[1], {"more": {MODEL: SAME}}, status="partial")
    (gap,) = check(places).not_compared
    assert "its run was interrupted (400 of 400)" in gap.reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"benchmark_digest": "f" * 64}, "another version of the benchmark's definition"),
        ({"main_metric": "rouge_l"}, "scored by rouge_l, the reference by exact_match"),
    ],
)
def test_other_conditions_are_never_a_pass(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    places = stores(tmp_path, {"toy": {MODEL: SAME}}, {"toy": {MODEL: SAME}}, **changes)
    with pytest.raises(MissingError, match=reason):
        check(places)
    for place in places:
        make_store(place, {"more": {MODEL: SAME}})
    found = check(places)
    assert ([one.benchmark for one in found.not_compared], found.exit_code) == (["toy"], 5)


def test_missing_scores_count_unless_they_are_ignored_and_clusters_are_kept(tmp_path: Path) -> None:
    new = [None] * 40 + [1.0] * 360
    places = stores(tmp_path, {"toy": {MODEL: SAME}}, {"toy": {MODEL: new}})
    assert check(places).exit_code == 5
    assert check(places, ignore_missing=True).exit_code == 0
    clusters = [f"note {n // 100}" for n in range(400)]
    old, again = (make_store(tmp_path / name, {"toy": {MODEL: SAME}}, clusters=clusters) for name in ("a", "b"))
    assert check((old, again)).exit_code == 5


def test_a_run_or_a_release_with_its_runs_can_be_the_reference(tmp_path: Path) -> None:
    places = stores(tmp_path, {"toy": {MODEL: SAME}, "more": {MODEL: SAME}}, {"toy": {MODEL: WORSE}})
    (folder,) = (places[0] / "runs" / "toy").iterdir()
    found = gate(places[1], str(folder), GateOptions())
    assert (found.exit_code, found.not_compared) == (1, ())
    freeze(places[0], "v1", BoardOptions())
    found = gate(places[1], str(places[0] / "releases" / "v1"), GateOptions())
    assert (found.exit_code, found.tests[0].change.is_paired) == (1, True)


def test_a_store_cannot_be_its_own_reference(tmp_path: Path) -> None:
    store = make_store(tmp_path / "s", {"toy": {MODEL: SAME}})
    (folder,) = (store / "runs" / "toy").iterdir()
    refused: list[tuple[Path, type[Exception], str]] = [
        (store, UserError, "is the store itself"),
        (folder, MissingError, "nothing was measured since"),
        (tmp_path / "nowhere", UserError, "neither the folder of a store, run or release"),
    ]
    for reference, error, message in refused:
        with pytest.raises(error, match=message):
            gate(store, str(reference), GateOptions())
    create(tmp_path / "empty")
    with pytest.raises(UserError, match=r"no finished run on real data in .*empty, so there is nothing to compare"):
        gate(tmp_path / "empty", str(store), GateOptions())


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("content", ["{", None], ids=["damaged", "missing"])
def test_only_damaged_runs_that_are_needed_stop_the_gate(tmp_path: Path, side: int, content: str | None) -> None:
    scores = {"toy": {MODEL: SAME, "openai/other": SAME}, "more": {MODEL: SAME}}
    places = stores(tmp_path, scores, scores)
    for folder in (*places[side].glob("runs/toy/openai_other-*"), *places[side].glob("runs/more/*")):
        (folder / "run.json").unlink()
        if content:
            (folder / "run.json").write_text(content, encoding="utf-8")
    needed: list[dict[str, Any]] = [{}, {"models": ("openai/m",)}, {"benchmarks": ("toy",)}, {"models": ("OTHER",)}]
    for options, n in zip(needed, (2, 1, 1, 1), strict=True):
        with pytest.raises(StoreError, match=r"run\.json is .*medhelm runs remove") as refused:
            check(places, **options)
        assert len(str(refused.value).splitlines()) == n
    with pytest.warns(DamagedRunWarning, match="is left out"):
        assert check(places, models=(MODEL,), benchmarks=("toy",)).exit_code == 0


def test_a_release_of_the_store_needs_a_new_run(tmp_path: Path) -> None:
    store = make_store(tmp_path / "s", {"toy": {"openai/old": SAME}})
    freeze(store, "v1", BoardOptions())
    with pytest.raises(MissingError, match="nothing was measured since"):
        gate(store, "v1", GateOptions())
    make_store(store, {"toy": {"openai/new": WORSE}})
    options = GateOptions(models=("openai/new",), baseline_model="openai/old")
    assert gate(store, "v1", options).exit_code == 1
    with pytest.raises(UserError, match="Did you mean `v1`"):
        gate(store, "v11", options)


def test_a_release_without_its_runs_is_compared_by_means(tmp_path: Path) -> None:
    new = [0.0] * 200 + [1.0] * 200
    places = stores(tmp_path, {"toy": {MODEL: SAME}}, {"toy": {MODEL: new}})
    freeze(places[0], "v1", BoardOptions())
    shutil.copytree(places[0] / "releases" / "v1", tmp_path / "kept")
    shutil.rmtree(places[0])
    found = gate(places[1], str(tmp_path / "kept"), GateOptions(margin=0.1))
    (test, _), (remark,) = found.tests, found.remarks
    assert not test.change.is_paired
    assert test.change.value == pytest.approx(-0.5)
    assert (test.change.low, test.change.high) == pytest.approx((-1, 0.5 + 0.118), abs=0.001)  # intervals of 0 to 1
    assert (remark.code, found.exit_code) == ("means_only", 5)
    other = make_store(tmp_path / "other", {"toy": {MODEL: SAME}}, data_digest="f" * 64)
    with pytest.raises(MissingError, match="another version or selection of the data"):
        gate(other, str(tmp_path / "kept"), GateOptions())
