"""How HELM's files are laid out: written piece by piece, they are what `json` writes of the whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.extensions.exchange.helm.folders import json_list, per_instance, rows, stat, write_json
from medhelm.io.parquet import connect

TEXTS = st.text(max_size=20)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**9), 10**9)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples."""
    return tmp_path_factory.mktemp("lists")


@settings(max_examples=40, deadline=None)  # each writes a file
@given(entries=st.lists(VALUES, min_size=1, max_size=4))
def test_a_list_is_written_like_json_dumps(folder: Path, entries: list[Any]) -> None:
    path = folder / "list.json"
    with json_list(path) as add:
        for entry in entries:
            add(json.dumps(entry, indent=2))
    assert path.read_text(encoding="utf-8") == json.dumps(entries, indent=2)


@settings(max_examples=40, deadline=None)
@given(
    entries=st.lists(VALUES, min_size=1, max_size=3),
    around=st.dictionaries(TEXTS.filter(lambda name: name != "states"), VALUES, max_size=2),
)
def test_a_list_inside_an_object_is_written_like_json_dumps(
    folder: Path, entries: list[Any], around: dict[str, Any]
) -> None:
    path = folder / "object.json"
    after = {f"after {name}": value for name, value in around.items()}
    with json_list(path, around, "states", after) as add:
        for entry in entries:
            add(json.dumps(entry, indent=2))
    assert path.read_text(encoding="utf-8") == json.dumps({**around, "states": entries, **after}, indent=2)


def test_an_empty_list_is_json_too(tmp_path: Path) -> None:
    with json_list(tmp_path / "a.json"):
        pass
    with json_list(tmp_path / "b.json", {"x": 1}, "states"):
        pass
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == []
    assert json.loads((tmp_path / "b.json").read_text(encoding="utf-8")) == {"x": 1, "states": []}


@given(TEXTS, st.dictionaries(TEXTS, NUMBERS, max_size=4))
def test_numbers_of_an_instance_are_written_as_json_would(instance_id: str, values: dict[str, float]) -> None:
    stats = [stat(name, value, "test") for name, value in values.items()]
    whole = {"instance_id": instance_id, "train_trial_index": 0, "stats": stats}
    found = json.loads(per_instance(instance_id, values, "test"))
    assert per_instance(instance_id, values, "test") == json.dumps(whole, indent=2)
    assert [one["mean"] for one in found["stats"]] == list(values.values())


@pytest.mark.parametrize("value", [0.1, 1.0, 0, 3, 1e-7, 2 / 3])
def test_the_mean_of_one_number_is_that_number(value: float) -> None:
    found = stat("m", value, "test")
    assert found["sum"] == found["min"] == found["max"] == found["mean"] == value
    assert (found["count"], found["variance"], found["stddev"]) == (1, 0.0, 0.0)
    assert found["sum_squared"] == value * value


def test_nan_is_never_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "x.json", {"mean": float("nan")})


def test_rows_of_two_files_come_side_by_side(tmp_path: Path) -> None:
    with connect() as engine:
        for name, n in (("a", 1000), ("b", 10)):
            engine.execute(f"COPY (SELECT i FROM range({n}) t(i)) TO '{tmp_path / name}' (FORMAT parquet)")
        one, other = rows(engine, tmp_path / "a"), rows(engine, tmp_path / "b", "i + 1 AS j")
        assert [next(one), next(other), next(one)] == [{"i": 0}, {"j": 1}, {"i": 1}]
        assert [row["j"] for row in other] == list(range(2, 11))
        assert [row["i"] for row in one] == list(range(2, 1000))
